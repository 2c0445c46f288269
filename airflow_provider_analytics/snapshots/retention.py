"""Which snapshots are kept, and the removal of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from airflow_provider_analytics.snapshots import catalog
from airflow_provider_analytics.snapshots.layout import Dataset, Partition
from airflow_provider_analytics.snapshots.publish import ABANDONED_AFTER, remove_snapshot
from airflow_provider_analytics.storage import names, storage_errors, token_age


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
    :param leftovers: unpublished days that a dead run left behind; they are removed.
    """

    kept: list[date]
    removed: list[date]
    damaged: dict[date, str]
    leftovers: list[date]


def plan_pruning(dataset: Dataset, retention: Retention, now: datetime, *, remove_damaged: bool) -> Pruning:
    """Return which snapshots a retention removes.

    A damaged snapshot takes no place of a whole one. It is kept, since somebody may be able to restore it, unless
    ``remove_damaged`` is set and its day is not to be kept.

    :raises SnapshotError: if the storage fails.
    """
    found = list(catalog.entries(dataset))
    every = [entry.day for entry in found]
    damaged = {entry.day: entry.problems[0] for entry in found if not entry.is_whole}
    kept = retention.kept(day for day in every if day not in damaged)
    kept |= retention.kept(every) & damaged.keys() if remove_damaged else damaged.keys()
    leftovers = [day for day in dataset.days() if day not in every and _is_abandoned(dataset.partition(day), now)]
    return Pruning([day for day in every if day in kept], [day for day in every if day not in kept], damaged, leftovers)


def prune(dataset: Dataset, pruning: Pruning) -> None:
    """Remove what a pruning removes, the oldest first.

    :raises SnapshotError: if the storage fails; what was removed stays removed, the rest is unchanged.
    """
    for day in sorted((*pruning.removed, *pruning.leftovers)):
        remove_snapshot(dataset.partition(day))


def _is_abandoned(partition: Partition, now: datetime) -> bool:
    """Return whether no run can still be writing to a day that is not published."""
    with storage_errors(f"look into {partition.data}"):
        ages = [token_age(name, now) for folder in (partition.data, partition.about) for name in names(folder)]
    return all(age is None or age > ABANDONED_AFTER for age in ages)
