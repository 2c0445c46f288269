from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pendulum
import pytest
from upath import UPath

from airflow_provider_analytics.snapshots import layout
from airflow_provider_analytics.snapshots.run_day import choose_partition, is_early, is_late
from airflow_provider_analytics.storage import StoragePath

LATE_EVENING = datetime(2026, 11, 19, 23, 30, tzinfo=UTC)
OTHERS = {
    "data_interval_end": datetime(2026, 11, 12, tzinfo=UTC),
    "logical_date": datetime(2026, 11, 13, tzinfo=UTC),
    "run_after": datetime(2026, 11, 14, tzinfo=UTC),
}


@pytest.mark.parametrize(
    ("given", "day", "named_by"),
    [
        ({"partition_date": "2026-11-11", **OTHERS}, 11, "partition_date"),
        ({"partition_date": date(2026, 11, 11), **OTHERS}, 11, "partition_date"),
        ({"partition_date": datetime(2026, 11, 11, tzinfo=UTC), **OTHERS}, 11, "partition_date"),
        ({"partition_date": "2026-11-11T08:00:00+00:00", **OTHERS}, 11, "partition_date"),
        ({"partition_date": "None", **OTHERS}, 12, "data_interval_end"),
        ({"partition_date": " ", **OTHERS}, 12, "data_interval_end"),
        ({**OTHERS, "data_interval_end": None}, 13, "logical_date"),
        ({"run_after": OTHERS["run_after"]}, 14, "run_after"),
    ],
)
def test_the_first_given_value_names_the_day(given: dict[str, Any], day: int, named_by: str) -> None:
    chosen = choose_partition("UTC", **given)
    assert (chosen.day, chosen.named_by) == (date(2026, 11, day), named_by)
    assert type(chosen.day) is date


@pytest.mark.parametrize(("timezone", "day"), [("UTC", 19), ("Europe/Berlin", 20), ("America/Los_Angeles", 19)])
def test_the_day_is_that_of_the_dags_time_zone(timezone: str, day: int) -> None:
    assert choose_partition(timezone, logical_date=LATE_EVENING).day == date(2026, 11, day)
    assert choose_partition(pendulum.timezone(timezone), run_after=LATE_EVENING).day == date(2026, 11, day)


def test_a_date_without_a_time_is_a_day_of_the_dags_time_zone() -> None:
    chosen = choose_partition("Europe/Berlin", partition_date="2026-10-25")  # 25 hours: summer time ends
    assert chosen.since == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert chosen.until == datetime(2026, 10, 25, 23, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "20.11.2026", "08:00", "P1D"])
def test_a_text_that_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: YYYY-MM-DD"):
        choose_partition("UTC", partition_date=text)


def test_a_run_without_any_date_is_refused() -> None:
    with pytest.raises(ValueError, match="set partition_date"):
        choose_partition("UTC")


@pytest.mark.parametrize(
    ("now", "early", "late"),
    [
        (datetime(2026, 11, 18, 23, 59, tzinfo=UTC), True, False),
        (datetime(2026, 11, 19, 0, 1, tzinfo=UTC), False, False),
        (datetime(2026, 11, 21, 23, 59, tzinfo=UTC), False, False),
        (datetime(2026, 11, 22, 0, 1, tzinfo=UTC), False, True),
    ],
)
def test_a_list_belongs_to_a_day_until_a_tolerance_after_it(now: datetime, early: bool, late: bool) -> None:
    chosen = choose_partition("UTC", partition_date="2026-11-20")
    tolerance = timedelta(days=1)
    assert (is_early(chosen, now, tolerance), is_late(chosen, now, tolerance)) == (early, late)


def test_only_partitions_count_as_days(tmp_path: Any) -> None:
    for name in ("snapshot_date=2026-11-19", "snapshot_date=2026-11-20", "snapshot_date=soon", "other"):
        (tmp_path / "websites" / name).mkdir(parents=True)
    base = StoragePath.of(UPath(tmp_path))
    assert layout.partition_days(base) == [date(2026, 11, 20), date(2026, 11, 19)]
    assert layout.partition_days(base / "nowhere") == []
    assert str(layout.partition_path(base, date(2026, 1, 2))) == f"{tmp_path}/websites/snapshot_date=2026-01-02"
