"""Which snapshots are kept, and the removal of the others."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from airflow_provider_analytics.exceptions import MAX_MESSAGE, GuardError
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.snapshots import catalog
from airflow_provider_analytics.snapshots.layout import DATASET, Dataset, Partition, dataset_of
from airflow_provider_analytics.snapshots.publish import files_of_snapshot, has_manifest, leftovers, remove_files
from airflow_provider_analytics.snapshots.reader import is_published, newest_day
from airflow_provider_analytics.snapshots.run_day import parse_day
from airflow_provider_analytics.storage import StoragePath, is_link, names, remove, storage_errors

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retention:
    """How many snapshots are kept: of each of so many days, ISO weeks and months that have one, the newest.

    Counted are days, weeks and months that have a snapshot: after a pause of a year nothing expires.

    :param days: number of days.
    :param weeks: number of weeks.
    :param months: number of months.
    """

    days: int
    weeks: int = 0
    months: int = 0

    def kept(self, days: Iterable[date]) -> set[date]:
        """Return the days that are kept; the newest always is."""
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
    """What is kept and what is removed.

    :param kept: days that are kept, newest first.
    :param removed: days whose snapshot is removed, newest first.
    :param damaged: days that are not whole, with what is wrong; kept unless they are in ``removed``.
    :param leftovers: other days with files of dead runs that are removed, newest first.
    :param unknown: days that are not touched, newest first: no manifest names their files, or they are behind a link.
    :param files: the files that are removed, by day, in this order.
    """

    kept: list[date]
    removed: list[date]
    damaged: dict[date, str]
    leftovers: list[date]
    unknown: list[date]
    files: dict[date, list[StoragePath]]

    @property
    def count(self) -> int:
        """Number of files that are removed."""
        return sum(map(len, self.files.values()))


def plan_pruning(dataset: Dataset, retention: Retention, now: datetime, *, remove_damaged: bool) -> Pruning:
    """Return which snapshots a retention removes.

    A damaged snapshot takes no place of a whole one. It is kept, since someone may be able to restore it, unless
    ``remove_damaged`` is set and its day is not to be kept. Sizes show whether a snapshot is whole; if some are to be
    removed, the SHA-256 of the others.

    :raises GuardError: if there are folders of days, and no manifest of any of them; or if the dataset is behind a
        link.
    :raises StorageError: if the storage fails.
    """
    every_day = dataset.days()
    _check_is_ours(dataset, every_day)
    days = [day for day in every_day if not any(map(is_link, dataset.partition(day).folders))]
    found = [entry for entry in catalog.entries(dataset) if entry.day in days]
    every = [entry.day for entry in found]
    damaged = {entry.day: entry.problems[0] for entry in found if not entry.is_whole}
    snapshots = {entry.day: entry.snapshot for entry in found if entry.snapshot and entry.is_whole}
    while True:
        kept = retention.kept(day for day in every if day not in damaged)
        spared = retention.kept(every) & damaged.keys() if remove_damaged else damaged.keys()
        if kept | spared == set(every):
            break
        verified = {day: snapshots.pop(day).problems() for day in sorted(kept & snapshots.keys())}
        if not any(verified.values()):
            break
        damaged |= {day: problems[0] for day, problems in verified.items() if problems}
    kept |= spared
    removed = [day for day in every if day not in kept]
    files = {}
    for day in days:
        own = files_of_snapshot if day in removed else leftovers
        files[day] = own(dataset.partition(day), now)
    others = [day for day in every_day if day not in every]
    return Pruning(
        kept=[day for day in every if day in kept],
        removed=removed,
        damaged={day: damaged[day] for day in every if day in damaged},
        leftovers=[day for day in days if files[day] and day not in removed],
        unknown=[day for day in others if _has_others(dataset.partition(day), files.get(day, ()))],
        files={day: found for day, found in files.items() if found},
    )


def prune(dataset: Dataset, pruning: Pruning, *, dry_run: bool = False) -> None:
    """Remove what a pruning removes, the oldest first, and log the files of each day.

    :param dry_run: log only.
    :raises StorageError: if the storage fails; what was removed stays removed, the rest is unchanged.
    """
    for day in sorted(pruning.files):
        files = pruning.files[day]
        if not dry_run:
            remove_files(dataset.partition(day), files)
        what = "the snapshot" if day in pruning.removed else "what dead runs left"
        listed = readable(", ".join(path.name for path in files), MAX_MESSAGE)
        log.info("%s %s of %s: %s", "Would remove" if dry_run else "Removed", what, day, listed)


def remove_snapshot(
    base: StoragePath | str, day: date | str, dataset: str = DATASET, *, now: datetime | None = None
) -> list[StoragePath]:
    """Remove the snapshot of a day, complete or damaged, and update ``_latest.json``. Return the removed files.

    :param base: base path, also as the text of a URL or path: ``s3://bucket/path``.
    :param day: the day, also as text: ``2026-11-20``.
    :param dataset: name of the dataset; default ``websites``.
    :raises ValueError: if the day or the name is not allowed, or the day has no snapshot.
    :raises StorageError: if the storage fails; what was removed stays removed.
    """
    found = dataset_of(base, dataset)
    partition = found.partition(parse_day(day) if isinstance(day, str) else day)
    if not is_published(partition):
        raise ValueError(f"No snapshot of {partition.day} is published in {found.data}")
    files = files_of_snapshot(partition, now or datetime.now(UTC))
    remove_files(partition, files)
    if newest_day(found):
        catalog.point_to_latest(found)
    else:
        with storage_errors(f"remove {found.latest}"):
            remove(found.latest)
    return files


def _check_is_ours(dataset: Dataset, days: Sequence[date]) -> None:
    """Raise :class:`GuardError` unless manifests say what in a dataset is its own."""
    linked = [folder for folder in (dataset.data, dataset.about) if is_link(folder)]
    if linked:
        raise GuardError(
            f"{linked[0]} is a symbolic link. Nothing was removed, as what is behind it may belong to something else.",
            "Set base_path to the folder itself, or remove the link.",
        )
    if days and not any(has_manifest(dataset.partition(day)) for day in days):
        raise GuardError(
            f"{dataset.data} has folders of {len(days):,} days, and {dataset.about} has no manifest of any of them. "
            "Nothing was removed, as nothing shows which files are snapshots.",
            f"If the data was copied, copy {dataset.about.name} as well. If it is another table, use another dataset. "
            "Otherwise remove the folders manually.",
        )


def _has_others(partition: Partition, removed: Sequence[StoragePath]) -> bool:
    return any(folder / name not in removed for folder in partition.folders for name in names(folder))
