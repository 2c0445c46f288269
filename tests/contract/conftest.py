# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from wire_client import clients_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    return analytics_sandbox


@pytest.fixture
def client_with(sandbox: SandboxServer) -> Iterator[Callable[..., AnalyticsClient]]:
    with clients_of(sandbox) as make:
        yield make


@pytest.fixture
def client(client_with: Callable[..., AnalyticsClient]) -> AnalyticsClient:
    return client_with()
