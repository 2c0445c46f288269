"""Which snapshots are kept, and the removal of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from airflow_provider_analytics.snapshots import catalog
from airflow_provider_analytics.snapshots.layout import Dataset
from airflow_provider_analytics.snapshots.publish import leftovers, remove_leftovers, remove_snapshot
from airflow_provider_analytics.storage import StoragePath


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
    :param removed: days that are removed, newest first.
    :param damaged: days that are not whole, with what is wrong; kept unless they are in ``removed``.
    :param leftovers: other days to the files that dead runs left there and that are removed, also beside a snapshot.
    """

    kept: list[date]
    removed: list[date]
    damaged: dict[date, str]
    leftovers: dict[date, list[StoragePath]]


def plan_pruning(dataset: Dataset, retention: Retention, now: datetime, *, remove_damaged: bool) -> Pruning:
    """Return which snapshots a retention removes.

    A damaged snapshot takes no place of a whole one. It is kept, since somebody may be able to restore it, unless
    ``remove_damaged`` is set and its day is not to be kept. Sizes show whether a snapshot is whole; if some are to be
    removed, the SHA-256 of the others.

    :raises StorageError: if the storage fails.
    """
    found = list(catalog.entries(dataset))
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
    damaged = {day: damaged[day] for day in every if day in damaged}
    removed = [day for day in every if day not in kept]
    left = {day: leftovers(dataset.partition(day), now) for day in dataset.days() if day not in removed}
    return Pruning(
        [day for day in every if day in kept], removed, damaged, {day: files for day, files in left.items() if files}
    )


def prune(dataset: Dataset, pruning: Pruning) -> None:
    """Remove what a pruning removes, the oldest first.

    :raises StorageError: if the storage fails; what was removed stays removed, the rest is unchanged.
    """
    for day in sorted((*pruning.removed, *pruning.leftovers)):
        if day in pruning.leftovers:
            remove_leftovers(dataset.partition(day), pruning.leftovers[day])
        else:
            remove_snapshot(dataset.partition(day))
