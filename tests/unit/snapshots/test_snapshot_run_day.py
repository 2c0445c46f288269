# SPDX-License-Identifier: Apache-2.0
"""Day of a snapshot, and when it is late (``snapshots/run_day.py``)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.snapshots.run_day import choose_day

#: The day depends on the time zone of the DAG, and never on the one of the worker.
pytestmark = pytest.mark.usefixtures("time_zone")


def on(day: int) -> datetime:
    return datetime(2026, 11, day, tzinfo=UTC)


DATES = {"data_interval_end": on(12), "logical_date": on(13), "run_after": on(14)}
SCHEDULED = {"run_type": "scheduled", **DATES}


@pytest.mark.parametrize(
    ("given", "day", "source"),
    [
        ({"partition_date": "2026-11-11", **SCHEDULED}, 11, "argument partition_date"),
        ({"partition_date": on(11).date(), **SCHEDULED}, 11, "argument partition_date"),
        ({"partition_date": on(11), **SCHEDULED}, 11, "argument partition_date"),
        ({"partition_date": "2026-11-11T08:00:00+00:00", **SCHEDULED}, 11, "argument partition_date"),
        ({"run_partition_date": on(10), **SCHEDULED}, 10, "partition date of the run"),
        ({"partition_date": "None", **SCHEDULED}, 12, "end of the run's data interval"),
        ({"partition_date": " ", **SCHEDULED}, 12, "end of the run's data interval"),
        ({"run_type": "backfill", **DATES}, 12, "end of the run's data interval"),
        ({**SCHEDULED, "data_interval_end": None}, 13, "logical date of the run"),
        ({"run_type": "scheduled", "run_after": on(14)}, 14, "run_after of the run"),
        *(({"run_type": f"{kind}", **DATES}, 15, "clock") for kind in ("manual", "asset_triggered")),
        ({}, 15, "clock"),
    ],
)
def test_first_given_value_names_the_day(given: dict[str, Any], day: int, source: str) -> None:
    chosen = choose_day("UTC", on(15), **given)
    assert (chosen.day, chosen.source, type(chosen.day)) == (on(day).date(), source, date)


@pytest.mark.parametrize("text", ["2026-10-25", "2026-10-25T23:30:00", "2026-10-24T22:30:00+00:00"])
def test_day_of_a_snapshot_is_in_the_time_zone_of_the_dag(text: str) -> None:
    chosen = choose_day("Europe/Berlin", on(15), partition_date=text)  # 25 hours: summer time ends
    assert chosen.day == date(2026, 10, 25)
    assert chosen.starts == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert chosen.ends == datetime(2026, 10, 25, 23, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "20.11.2026", "08:00", "P1D"])
def test_text_that_is_not_a_date_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="Allowed: YYYY-MM-DD"):
        choose_day("UTC", on(15), partition_date=text)


def test_list_is_late_after_the_end_of_its_day() -> None:
    day = choose_day("UTC", on(15), partition_date="2026-11-20")
    minute = timedelta(minutes=1)  # a clock might be a few minutes behind
    assert [day.is_late(on(20) + late) for late in (-4 * minute, 0 * minute, 1439 * minute)] == [False] * 3
    assert day.is_late(on(21))
    with pytest.raises(GuardError, match=r"^2026-11-20 has not started\. The clock says 2026-11-19 23:54 UTC"):
        day.is_late(on(20) - 6 * minute)
