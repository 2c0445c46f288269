from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from wire_client import clients_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, read


@pytest.fixture
def client_with(analytics_sandbox: SandboxServer) -> Iterator[Callable[..., AnalyticsClient]]:
    with clients_of(analytics_sandbox) as make:
        yield make


@pytest.fixture
def client(client_with: Callable[..., AnalyticsClient]) -> AnalyticsClient:
    return client_with()


@pytest.fixture
def snapshot_of(tmp_path: Path) -> Callable[[AnalyticsClient], Any]:
    """Read a list as a snapshot does."""

    def take(client: AnalyticsClient) -> Any:
        noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
        origin = Origin(client.iter_websites, ListSource(url=client.base_url, account_id="1"), client.stats)
        return read(origin, noon.date(), tmp_path, now=noon, options=SnapshotOptions(), clock=lambda: noon)

    return take
