from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from wire_client import client_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def client_with(analytics_sandbox: SandboxServer) -> Iterator[Callable[..., AnalyticsClient]]:
    """Make clients of the sandbox: ``client_with(page_parameter="p")``."""
    made: list[AnalyticsClient] = []

    def make(**settings: Any) -> AnalyticsClient:
        made.append(client_of(analytics_sandbox.url, api_key=analytics_sandbox.api_key, **settings))
        return made[-1]

    yield make
    for client in made:
        client.close()
