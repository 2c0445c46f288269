# SPDX-License-Identifier: Apache-2.0
"""Determine the day of a list, and whether the list is late for that day.

A snapshot contains the list of a day. The service returns only its current list, so a list is late if it was observed
on another day than the day of the snapshot. Days are in the time zone of the DAG.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TypeAlias

import pendulum

from airflow_provider_analytics.api.checks import invalid
from airflow_provider_analytics.exceptions import GuardError

#: Run types that Airflow plans for a point in time. Any other run is meant for the current list.
PLANNED_RUNS = ("scheduled", "backfill")
#: Tolerated difference between the clocks of two machines.
CLOCK_SKEW = timedelta(minutes=5)
#: Time after the end of a day in which a late list is stored if the day has no snapshot, such as by a run that waited.
LATE_TOLERANCE = timedelta(hours=12)

TimeZone: TypeAlias = str | pendulum.Timezone | pendulum.FixedTimezone


@dataclass(frozen=True)
class RunDay:
    """The day of a run's snapshot.

    :param day: the day.
    :param source: the argument or property of the run that determined it, for messages.
    :param starts: start of the day.
    :param ends: end of the day.
    """

    day: date
    source: str
    starts: datetime
    ends: datetime

    def is_late(self, now: datetime) -> bool:
        """Return whether a list observed now is late.

        :raises GuardError: if the day has not started yet.
        """
        if self.starts - now > CLOCK_SKEW:
            error = GuardError(f"{self.day} has not started. {self.source_text(now)}", "Nothing was published.")
            error.before_retry = "correct partition_date or the clock first"
            raise error
        return now >= self.ends

    def late_problem(self, now: datetime, *, is_published: bool) -> str | None:
        """Return why a late list must not be stored for the day by default, or None if it can.

        :param is_published: whether the day has a snapshot.
        """
        if is_published:
            return f"{self.day} is over and already has a snapshot, so today's list does not replace it."
        if now - self.ends > LATE_TOLERANCE:
            hours = (now - self.ends).total_seconds() / 3600
            ago = f"{hours:.0f} h"
            if hours >= 72:
                ago = f"{hours / 24:.0f} days"
            return f"{self.day} ended {ago} ago: the current list is not the list of that day."
        return None

    def source_text(self, now: datetime) -> str:
        """Return the time and the source of the day, as a sentence."""
        return f"The clock says {now:%Y-%m-%d %H:%M} UTC, and the day comes from the {self.source}."


def choose_day(
    timezone: TimeZone,
    now: datetime,
    *,
    partition_date: date | str | None = None,
    run_partition_date: date | str | None = None,
    run_type: str | None = None,
    data_interval_end: datetime | None = None,
    logical_date: datetime | None = None,
    run_after: datetime | None = None,
) -> RunDay:
    """Return the day of a run: the first of these values that is set.

    1. the argument ``partition_date``;
    2. the partition date of the run;
    3. for a scheduled run or a backfill: the end of the data interval, the logical date, or ``run_after``;
    4. for any other run: today.

    The end of the interval is used, not its start, because the list is read at the end. A schedule therefore produces
    the same days on Airflow 2 (runs with a data interval) and on Airflow 3 (runs with a point in time).

    :param timezone: time zone of the DAG.
    :param now: start time of the read.
    :param partition_date: a date, a date with a time, or the text of either. "" and "None", the output of an empty
        template, count as not set.
    :param run_partition_date: partition date of the run, in the same forms.
    :param run_type: type of the run, such as ``scheduled`` or ``manual``.
    :raises ValueError: if a text is not a date.
    """
    named: list[tuple[str, date | str | None]] = [
        ("argument partition_date", partition_date),
        ("partition date of the run", run_partition_date),
    ]
    if run_type in PLANNED_RUNS:
        named += [
            ("end of the run's data interval", data_interval_end),
            ("logical date of the run", logical_date),
            ("run_after of the run", run_after),
        ]
    for source, value in named:
        if isinstance(value, str):
            value = _parse(value, timezone)
        if value is not None:
            return _run_day(value, source, timezone)
    return _run_day(now, "clock", timezone)


def parse_day(day: date | str) -> date:
    """Return a day that is given as a date, or as text such as ``2026-11-20``.

    :raises ValueError: if it is another text, or a point in time.
    """
    if isinstance(day, datetime):  # a subclass of date
        raise invalid("day", day, "a date without a time, which belongs to different days in different time zones")
    if isinstance(day, date):
        return day
    try:
        return date.fromisoformat(str(day).strip())
    except ValueError:
        raise ValueError(f"{day!r} is not a date. Allowed: YYYY-MM-DD") from None


def _run_day(found: date, source: str, timezone: TimeZone) -> RunDay:
    if isinstance(found, datetime):
        local = pendulum.instance(found).in_timezone(timezone)
        found = date(local.year, local.month, local.day)
    starts = pendulum.datetime(found.year, found.month, found.day, tz=timezone)
    return RunDay(found, source, starts, starts.add(days=1))


def _parse(text: str, timezone: TimeZone) -> date | None:
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
        raise invalid("partition_date", text, "YYYY-MM-DD, or a date with a time")
    return moment
