"""Snapshots of lists that live in memory: a listing reads pages from a function, here without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from upath import UPath

from airflow_provider_analytics.api.dialect import Page
from airflow_provider_analytics.api.listing import Listing
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.snapshots.catalog import Dataset
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot
from airflow_provider_analytics.storage import StoragePath

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SOURCE = ListSource(url="https://stats.example.com", account_id="1")


def website(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": number,
        "domain": f"site-{number}.example.com",
        "privacy": 0,
        "email": 0,
        "exclude_bots": 1,
        "exclude_params": "utm_source\ngclid",
        "exclude_ips": None,
        "favorite": False,
    } | fields


def listing(records: list[dict[str, Any]]) -> Listing:
    def fetch(query: dict[str, str]) -> Page:
        number = int(query.get("page", 1))
        rows = records if query["sort"] == "desc" else records[::-1]
        return Page(rows[(number - 1) * 100 : number * 100], len(rows), number)

    return Listing(fetch, {}, "page")


@pytest.fixture
def make_websites() -> Callable[..., list[dict[str, Any]]]:
    """Return ``count`` websites, newest first."""
    return lambda count, **fields: [website(number, **fields) for number in range(count, 0, -1)]


@pytest.fixture
def local_base(tmp_path: Any) -> StoragePath:
    return StoragePath.of(UPath(tmp_path / "base"))


@pytest.fixture(params=["file", "memory"])
def base(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[StoragePath]:
    if request.param == "file":
        yield StoragePath.of(UPath(tmp_path / "base"))
        return
    path = StoragePath.of(UPath("memory://bucket/base"))
    yield path
    path.fs.store.clear()
    path.fs.pseudo_dirs[:] = [""]


@pytest.fixture(scope="session")
def take() -> Callable[..., Any]:
    """Publish records as the snapshot of the day of ``now``, or of another ``day``."""

    def run(base: StoragePath, records: list[dict[str, Any]], now: datetime = NOON, **options: Any) -> Any:
        origin = Origin(
            make_listing=lambda: listing(records),
            source=options.pop("source", SOURCE),
            stats=Stats(requests=3, retries=1),
            filters=options.pop("filters", {}),
        )
        return take_snapshot(
            Dataset(base, options.pop("dataset", "websites")),
            options.pop("day", now.date()),
            origin,
            now=now,
            is_late=options.pop("is_late", lambda _: False),
            clock=options.pop("clock", lambda: now),
            writer=options.pop("writer", None),
            options=SnapshotOptions(**options),
        )

    return run
