"""The day that a run belongs to, and whether it is too late or too early for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

import pendulum


@dataclass(frozen=True)
class Partition:
    """The day that a run belongs to.

    :param day: day in the time zone of the DAG.
    :param since: start of the day, or the point in time that the run names.
    :param until: end of the day, or the same point in time as ``since``.
    :param named_by: name of the value that determined the day.
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
    """Return the partition of a run, by the first value that is given.

    Of a data interval the end counts, since the list is read then: the same DAG uses the same day for the same night,
    whether its runs have a data interval or only a logical date.

    :param timezone: time zone of the DAG.
    :param partition_date: a date, a date with a time, or the text of either. "" and "None", the output of an empty
        template, mean: not given.
    :raises ValueError: if a text is not a date, or no value is given.
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
    raise ValueError("the run has neither a data interval nor a date: set partition_date")


def is_late(partition: Partition, now: datetime, tolerance: timedelta) -> bool:
    """Return whether the day ended more than ``tolerance`` ago."""
    return now - partition.until > tolerance


def is_early(partition: Partition, now: datetime, tolerance: timedelta) -> bool:
    """Return whether the day starts more than ``tolerance`` from now."""
    return partition.since - now > tolerance


def parse_day(text: str) -> date:
    """Parse a day such as ``2026-11-20``.

    :raises ValueError: if the text is not a date.
    """
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
