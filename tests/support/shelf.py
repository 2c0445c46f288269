# SPDX-License-Identifier: Apache-2.0
"""Snapshots for tests: of lists in memory without a server, or of a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow_provider_analytics.api.fields import RECORD_FIELDS
from airflow_provider_analytics.api.laravel import Page
from airflow_provider_analytics.api.listing import Listing
from airflow_provider_analytics.api.waiting import Stats
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.sandbox.laravel import DEFAULTS
from airflow_provider_analytics.snapshots.catalog import (
    Partition,
    Snapshot,
    list_snapshots,
    read_snapshot,
    snapshot_series,
)
from airflow_provider_analytics.snapshots.formats import FieldReport, typed_columns
from airflow_provider_analytics.snapshots.manifest import Fields, ListSource
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot
from airflow_provider_analytics.storage import StoragePath, names

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = NOON.date()
HOUR, NIGHT = timedelta(hours=1), timedelta(days=1)
SOURCE = ListSource(url="https://stats.example.com", account_id="1")

Record = dict[str, Any]


def websites(count: int, **fields: Any) -> list[Record]:
    """Return the records of a list, newest first."""
    settings = {name: DEFAULTS.get(name) for name in RECORD_FIELDS} | {"exclude_params": "utm_source\ngclid"}
    return [
        {"id": number, **settings, "domain": f"site-{number}.example.com", **fields} for number in range(count, 0, -1)
    ]


def listing(records: Sequence[Record]) -> Listing:
    """Return the list of these records, as a service returns it."""

    def fetch(query: dict[str, str]) -> Page:
        number = int(query.get("page", 1))
        rows = records if query["sort"] == "desc" else records[::-1]
        return Page(list(rows[(number - 1) * 100 : number * 100]), len(rows), number)

    return Listing(fetch, {}, "page")


def rows(
    *records: Record, exclude_ips_as: str = "keep", secrets: Redactor | None = None
) -> tuple[list[Record], Fields]:
    """Return the rows of these records, and the report about their fields."""
    report = FieldReport()
    blocks = typed_columns(
        records,
        snapshot_date="2026-11-20",
        observed_at="2026-11-20T00:00:00.000000+00:00",
        exclude_ips_as=exclude_ips_as,
        report=report,
        secrets=secrets,
    )
    found = [dict(zip(block, row, strict=True)) for block in blocks for row in zip(*block.values(), strict=True)]
    return found, report.fields()


class Shelf:
    """A base path for the snapshots of a test.

    :param base: the base path, also as text.
    """

    def __init__(self, base: StoragePath | str, snapshot_name: str = "websites") -> None:
        self.series = snapshot_series(base, snapshot_name)
        self.base, self.fs = self.series.base, self.series.base.fs

    def take(
        self,
        records: int | Sequence[Record] | Callable[[], Listing],
        when: timedelta | datetime = NOON,
        *,
        day: date | None = None,
        source: ListSource = SOURCE,
        filters: dict[str, Any] | None = None,
        override_guards: Collection[str] = (),
        is_late: Callable[[datetime], bool] = lambda _: False,
        clock: Callable[[], datetime] | None = None,
        writer: str | None = None,
        **options: Any,
    ) -> Snapshot:
        """Publish a list as the snapshot of a day.

        :param records: the records, their number, or a function that reads the list.
        :param when: the time, or the time since :data:`NOON`.
        :param day: the day; None: the day of the time.
        """
        now = NOON + when if isinstance(when, timedelta) else when
        found = websites(records) if isinstance(records, int) else records
        read = found if callable(found) else lambda: listing(found)
        return take_snapshot(
            self.series,
            day or now.date(),
            Origin(read, source, Stats(requests=3, retries=1), filters or {}),
            is_late=is_late,
            clock=clock or (lambda: now),
            writer=writer,
            options=SnapshotOptions(**options, override_guards=frozenset(override_guards)),
        )

    def read(self, day: date | str = DAY) -> Snapshot | None:
        """Return the snapshot of a day, None if there is none."""
        return read_snapshot(self.base, day, self.series.name)

    def count(self, day: date | str = DAY) -> int | None:
        """Return the number of rows of the snapshot of a day, None if there is no snapshot."""
        snapshot = self.read(day)
        return None if snapshot is None else sum(1 for _ in snapshot.rows())

    def days(self, *, verify: bool = True) -> dict[int, bool]:
        """Return the days of the month that have a snapshot, newest first, and whether it is complete."""
        found = list_snapshots(self.base, self.series.name, verify=verify)
        return {entry.day.day: entry.is_whole for entry in found}


def held(found: Snapshot | Partition) -> list[str]:
    """Return the names in both folders of a snapshot or of a day."""
    partition = found.partition if isinstance(found, Snapshot) else found
    return sorted(name for folder in partition.folders for name in names(folder))


def own(snapshot: Snapshot) -> list[str]:
    """Return the expected names in both folders of a snapshot."""
    return sorted(["_SUCCESS", "_manifest.json", *snapshot.manifest.file_names])
