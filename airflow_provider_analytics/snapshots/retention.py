# SPDX-License-Identifier: Apache-2.0
"""Choose the snapshots to keep, and remove the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any

from airflow_provider_analytics.exceptions import MAX_MESSAGE, GuardError
from airflow_provider_analytics.readable import counted, readable
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
    """The number of snapshots to keep. The newest snapshot of each counted day, ISO week, and month is kept.

    Only days, weeks, and months with a snapshot count. After a pause of a year, nothing expires.

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
        kept |= _newest_of_each(newest_first, self.days, lambda day: (day,))
        kept |= _newest_of_each(newest_first, self.weeks, lambda day: day.isocalendar()[:2])
        kept |= _newest_of_each(newest_first, self.months, lambda day: (day.year, day.month))
        return kept


def _newest_of_each(
    newest_first: Sequence[date], count: int, period: Callable[[date], tuple[object, ...]]
) -> set[date]:
    """Return the newest day of each of the last periods.

    :param count: number of periods.
    :param period: returns the period of a day, such as its week.
    """
    newest: dict[tuple[object, ...], date] = {}
    for day in newest_first:
        newest.setdefault(period(day), day)
    return set(islice(newest.values(), count))


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
    might be able to restore it, unless ``remove_damaged`` is set and the retention does not keep its day.

    :raises GuardError: if there are folders of days but no manifest for any of them, or if the series is behind a
        link.
    :raises StorageError: if the storage fails.
    """
    every_day = series.days()
    _check_ownership(series, every_day)
    # The folders of a day behind a link are not touched.
    own_days = [day for day in every_day if not any(map(is_link, series.partition(day).folders))]
    published: list[date] = []
    damaged: dict[date, str] = {}
    for entry in list_snapshots(series.base, series.name):
        if entry.day not in own_days:
            continue
        published.append(entry.day)
        if entry.problems:
            damaged[entry.day] = entry.problems[0]
    kept = retention.kept(set(published).difference(damaged))
    if remove_damaged:
        kept |= retention.kept(published)
    else:
        kept.update(damaged)
    pruning = Pruning(kept=[], removed=[], damaged=damaged, orphaned_files=[], unknown=[], files={})
    for day in every_day:
        partition = series.partition(day)
        files: list[StoragePath] = []
        if day in kept:
            pruning.kept.append(day)
        elif day in published:
            pruning.removed.append(day)
            files = files_of_snapshot(partition, now)
        if day in own_days and day not in pruning.removed:
            files = orphaned_files(partition, now)
            if files:
                pruning.orphaned_files.append(day)
        if files:
            pruning.files[day] = files
        if day not in published and _has_other_files(partition, files):
            pruning.unknown.append(day)
    return pruning


def prune(series: SnapshotSeries, pruning: Pruning, *, dry_run: bool = False) -> None:
    """Remove the files of a pruning, oldest day first, and log the files of each day.

    :param dry_run: log only.
    :raises StorageError: if the storage fails. Files that were removed before remain removed; the others are unchanged.
    """
    for day in sorted(pruning.files):
        files = pruning.files[day]
        kind = "the snapshot" if day in pruning.removed else "leftover files"
        listed = readable(", ".join(path.name for path in files), MAX_MESSAGE)
        if dry_run:
            log.info("Dry run: would remove %s of %s: %s.", kind, day, listed)
        else:
            remove_files(series.partition(day), files)
            log.info("Removed %s of %s: %s.", kind, day, listed)


def remove_snapshot(
    base: Any, day: date | str, snapshot_name: str = DEFAULT_NAME, *, now: datetime | None = None
) -> list[StoragePath]:
    """Remove the snapshot of a day, whole or damaged, and update ``_latest.json``.

    :param base: see :func:`read_snapshot`.
    :param day: the day, also as text: ``2026-11-20``.
    :param snapshot_name: name of the snapshots.
    :param now: time by which the age of files is judged; default: the current time.
    :return: the removed files.
    :raises ValueError: if the day or the name is not allowed, or the day has no snapshot.
    :raises StorageError: if the storage fails. Files that were removed before remain removed.
    """
    found = snapshot_series(base, snapshot_name)
    partition = found.partition(parse_day(day))
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
    for folder in (series.data, series.about):
        if is_link(folder):
            raise GuardError(
                f"{folder} is a symbolic link. Its target might not belong to this series, so nothing was removed.",
                "Set base_path to the folder itself, or remove the link.",
            )
    if days and not any(has_manifest(series.partition(day)) for day in days):
        raise GuardError(
            f"{series.data} contains folders of {counted(len(days), 'day')}, but {series.about} contains no manifest "
            "of them. Nothing was removed, because the files cannot be identified as snapshots.",
            f"If the data was copied, copy {series.about.name} as well. If it is another table, use another "
            "snapshot_name. Otherwise remove the folders manually.",
        )


def _has_other_files(partition: Partition, removed: Sequence[StoragePath]) -> bool:
    for folder in partition.folders:
        for name in names(folder):
            if folder / name not in removed:
                return True
    return False
