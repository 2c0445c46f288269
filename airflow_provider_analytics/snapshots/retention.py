# SPDX-License-Identifier: Apache-2.0
"""Choose the snapshots to keep, and remove the others."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from airflow_provider_analytics.exceptions import MAX_MESSAGE, GuardError
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.snapshots.catalog import (
    DEFAULT_NAME,
    Partition,
    SnapshotSeries,
    list_snapshots,
    point_to_latest,
    snapshot_series,
)
from airflow_provider_analytics.snapshots.publish import files_of_snapshot, has_manifest, orphaned_files, remove_files
from airflow_provider_analytics.snapshots.run_day import parse_day
from airflow_provider_analytics.storage import StoragePath, is_link, names, remove, storage_errors

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retention:
    """The number of snapshots to keep. The newest snapshot of each counted day, ISO week and month is kept.

    Only days, weeks and months with a snapshot count. After a pause of a year, nothing expires.

    :param days: number of days.
    :param weeks: number of weeks.
    :param months: number of months.
    """

    days: int
    weeks: int = 0
    months: int = 0

    def kept(self, days: Iterable[date]) -> set[date]:
        """Return the days to keep; they always include the newest."""
        newest_first = sorted(set(days), reverse=True)
        kept = set(newest_first[:1])
        periods = (
            (self.days, lambda day: (day,)),
            (self.weeks, lambda day: day.isocalendar()[:2]),
            (self.months, lambda day: (day.year, day.month)),
        )
        for count, period in periods:
            newest: dict[tuple[object, ...], date] = {}
            for day in newest_first:
                newest.setdefault(period(day), day)
            kept.update(list(newest.values())[:count])
        return kept


@dataclass(frozen=True)
class Pruning:
    """The snapshots to keep, and the files to remove.

    :param kept: days to keep, newest first.
    :param removed: days whose snapshot is removed, newest first.
    :param damaged: days with a damaged snapshot to its first problem; kept unless they are in ``removed``.
    :param orphaned_files: other days from which files of dead runs are removed, newest first.
    :param unknown: days that are not touched, newest first: no manifest lists their files, or they are behind a link.
    :param files: the files to remove by day, in this order.
    """

    kept: list[date]
    removed: list[date]
    damaged: dict[date, str]
    orphaned_files: list[date]
    unknown: list[date]
    files: dict[date, list[StoragePath]]

    @property
    def count(self) -> int:
        """Number of files to remove."""
        return sum(map(len, self.files.values()))


def plan_pruning(series: SnapshotSeries, retention: Retention, now: datetime, *, remove_damaged: bool) -> Pruning:
    """Return the snapshots that a retention keeps and removes.

    A damaged snapshot, seen by the size of its files, does not count toward the retention. It is kept, since a person
    may be able to restore it, unless ``remove_damaged`` is set and the retention does not keep its day.

    :raises GuardError: if there are folders of days but no manifest for any of them, or if the series is behind a
        link.
    :raises StorageError: if the storage fails.
    """
    every_day = series.days()
    _check_ownership(series, every_day)
    days = [day for day in every_day if not any(map(is_link, series.partition(day).folders))]
    found = {entry.day: entry for entry in list_snapshots(series.base, series.name) if entry.day in days}
    damaged = {day: entry.problems[0] for day, entry in found.items() if not entry.is_whole}
    kept = retention.kept(day for day in found if day not in damaged)
    kept |= retention.kept(found) & damaged.keys() if remove_damaged else damaged.keys()
    removed = [day for day in found if day not in kept]
    files = {}
    for day in days:
        own = files_of_snapshot if day in removed else orphaned_files
        files[day] = own(series.partition(day), now)
    others = [day for day in every_day if day not in found]
    return Pruning(
        kept=[day for day in found if day in kept],
        removed=removed,
        damaged=damaged,
        orphaned_files=[day for day in days if files[day] and day not in removed],
        unknown=[day for day in others if _has_other_files(series.partition(day), files.get(day, ()))],
        files={day: found for day, found in files.items() if found},
    )


def prune(series: SnapshotSeries, pruning: Pruning, *, dry_run: bool = False) -> None:
    """Remove the files of a pruning, oldest day first, and log the files of each day.

    :param dry_run: log only.
    :raises StorageError: if the storage fails. Files already removed stay removed; the others are unchanged.
    """
    for day in sorted(pruning.files):
        files = pruning.files[day]
        if not dry_run:
            remove_files(series.partition(day), files)
        what = "the snapshot" if day in pruning.removed else "leftover files"
        listed = readable(", ".join(path.name for path in files), MAX_MESSAGE)
        log.info("%s %s of %s: %s", "Would remove" if dry_run else "Removed", what, day, listed)


def remove_snapshot(
    base: StoragePath | str, day: date | str, snapshot_name: str = DEFAULT_NAME, *, now: datetime | None = None
) -> list[StoragePath]:
    """Remove the snapshot of a day, whole or damaged, and update ``_latest.json``.

    :param base: base path, also as the text of a URL or path: ``s3://bucket/path``.
    :param day: the day, also as text: ``2026-11-20``.
    :param snapshot_name: name of the snapshots; default ``websites``.
    :return: the removed files.
    :raises ValueError: if the day or the name is not allowed, or the day has no snapshot.
    :raises StorageError: if the storage fails. Files already removed stay removed.
    """
    found = snapshot_series(base, snapshot_name)
    partition = found.partition(parse_day(day) if isinstance(day, str) else day)
    if not partition.is_published:
        raise ValueError(f"No snapshot of {partition.day} is published in {found.data}")
    files = files_of_snapshot(partition, now or datetime.now(UTC))
    remove_files(partition, files)
    if any(found.published()):
        point_to_latest(found)
    else:
        with storage_errors(f"remove {found.latest}"):
            remove(found.latest)
    return files


def _check_ownership(series: SnapshotSeries, days: Sequence[date]) -> None:
    """Raise :class:`GuardError` if no manifest identifies the files of a series, or if it is behind a link."""
    linked = [folder for folder in (series.data, series.about) if is_link(folder)]
    if linked:
        raise GuardError(
            f"{linked[0]} is a symbolic link. Nothing was removed: its target may not belong to this series.",
            "Set base_path to the folder itself, or remove the link.",
        )
    if days and not any(has_manifest(series.partition(day)) for day in days):
        raise GuardError(
            f"{series.data} has folders of {len(days):,} days, and {series.about} has no manifest of any of them. "
            "Nothing was removed: the files cannot be identified as snapshots.",
            f"If the data was copied, copy {series.about.name} as well. If it is another table, use another "
            "snapshot_name. Otherwise remove the folders manually.",
        )


def _has_other_files(partition: Partition, removed: Sequence[StoragePath]) -> bool:
    return any(folder / name not in removed for folder in partition.folders for name in names(folder))
