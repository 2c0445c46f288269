from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from zoo import Zoo

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture(scope="session")
def contract_server() -> Iterator[SandboxServer]:
    with Zoo() as server:
        yield server


@pytest.fixture
def sandbox(contract_server: SandboxServer) -> SandboxServer:
    """An empty sandbox with default options."""
    contract_server.reset()
    return contract_server


@pytest.fixture
def client_with(sandbox: SandboxServer) -> Iterator[Callable[..., AnalyticsClient]]:
    """Return clients of the sandbox with other settings; they wait without waiting."""
    clients: list[AnalyticsClient] = []

    def make(**settings: Any) -> AnalyticsClient:
        checked = Settings(**{"base_url": sandbox.url, "api_key": sandbox.api_key, **settings})
        clients.append(AnalyticsClient(checked, Transport(checked, sleep=lambda seconds: None)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(client_with: Callable[..., AnalyticsClient]) -> AnalyticsClient:
    return client_with()
