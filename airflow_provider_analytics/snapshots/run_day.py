"""Which day a run stands for, and whether the list of now may be filed under it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

import pendulum


@dataclass(frozen=True)
class Partition:
    """The day a run belongs to.

    :param day: the day in the time zone of the DAG.
    :param since: start of the span in which a list read is "of this day".
    :param until: end of that span; equal to ``since`` where a run names a moment, not a day.
    :param named_by: which of the run's values named the day.
    """

    day: date
    since: datetime
    until: datetime
    named_by: str


def choose_partition(
    timezone: str | pendulum.Timezone | pendulum.FixedTimezone,
    *,
    partition_date: date | str | None = None,
    data_interval_end: datetime | None = None,
    logical_date: datetime | None = None,
    run_after: datetime | None = None,
) -> Partition:
    """Return the partition for a run, by the first of the values that is given.

    Of a data interval the end counts: that is the moment the run stands for, and the same DAG then files the same
    night under the same day whether its runs have an interval or only a moment.

    :param timezone: time zone of the DAG.
    :param partition_date: a date, or a moment in time, or the text of either. "" and "None" are what an empty
        template renders to and mean: not given.
    :raises ValueError: for a text that is no date, or where nothing is given.
    """
    if isinstance(partition_date, str):
        partition_date = _parse(partition_date, timezone)
    if isinstance(partition_date, date) and not isinstance(partition_date, datetime):
        start = pendulum.datetime(partition_date.year, partition_date.month, partition_date.day, tz=timezone)
        return Partition(partition_date, start, start.add(days=1), "partition_date")
    for named_by, moment in (
        ("partition_date", partition_date),
        ("data_interval_end", data_interval_end),
        ("logical_date", logical_date),
        ("run_after", run_after),
    ):
        if moment is not None:
            local = pendulum.instance(moment).in_timezone(timezone)
            return Partition(date(local.year, local.month, local.day), local, local, named_by)
    raise ValueError("the run has neither a data interval nor a date: give partition_date")


def is_late(partition: Partition, now: datetime, tolerance: timedelta) -> bool:
    """Tell whether today's list is too new to be called the list of that day."""
    return now - partition.until > tolerance


def is_early(partition: Partition, now: datetime, tolerance: timedelta) -> bool:
    """Tell whether the day has not come yet, by the clock of this machine."""
    return partition.since - now > tolerance


def parse_day(text: str) -> date:
    """Return the day a text such as ``2026-11-20`` means; :class:`ValueError` names what is allowed."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a date; allowed: YYYY-MM-DD") from None


def _parse(text: str, timezone: str | pendulum.Timezone | pendulum.FixedTimezone) -> date | None:
    text = text.strip()
    if text in {"", "None"}:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        moment = pendulum.parse(text, tz=timezone, exact=True)
    except ValueError:
        moment = None
    if not isinstance(moment, pendulum.DateTime):
        raise ValueError(f"partition_date={text!r} is not allowed; allowed: YYYY-MM-DD, or a date with a time")
    return moment
