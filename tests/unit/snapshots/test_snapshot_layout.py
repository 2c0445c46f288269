from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest
from upath import UPath

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.snapshots.catalog import Dataset, dataset_of
from airflow_provider_analytics.snapshots.run_day import choose_day
from airflow_provider_analytics.storage import StoragePath

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LATE_EVENING = datetime(2026, 11, 19, 23, 30, tzinfo=UTC)
PLANNED = {
    "run_type": "scheduled",
    "data_interval_end": datetime(2026, 11, 12, tzinfo=UTC),
    "logical_date": datetime(2026, 11, 13, tzinfo=UTC),
    "run_after": datetime(2026, 11, 14, tzinfo=UTC),
}


@pytest.mark.parametrize(
    ("given", "day", "named_by"),
    [
        ({"partition_date": "2026-11-11", **PLANNED}, 11, "argument partition_date"),
        ({"partition_date": date(2026, 11, 11), **PLANNED}, 11, "argument partition_date"),
        ({"partition_date": datetime(2026, 11, 11, tzinfo=UTC), **PLANNED}, 11, "argument partition_date"),
        ({"partition_date": "2026-11-11T08:00:00+00:00", **PLANNED}, 11, "argument partition_date"),
        ({"run_partition_date": datetime(2026, 11, 10, tzinfo=UTC), **PLANNED}, 10, "partition date of the run"),
        ({"partition_date": "None", **PLANNED}, 12, "end of the run's data interval"),
        ({"partition_date": " ", **PLANNED}, 12, "end of the run's data interval"),
        ({**PLANNED, "run_type": "backfill"}, 12, "end of the run's data interval"),
        ({**PLANNED, "data_interval_end": None}, 13, "logical date of the run"),
        ({"run_type": "scheduled", "run_after": PLANNED["run_after"]}, 14, "run_after of the run"),
        ({**PLANNED, "run_type": "manual"}, 15, "clock"),
        ({**PLANNED, "run_type": "asset_triggered"}, 15, "clock"),
        ({**PLANNED, "run_type": "dataset_triggered"}, 15, "clock"),
        ({}, 15, "clock"),
    ],
)
def test_the_first_given_value_names_the_day(given: dict[str, Any], day: int, named_by: str) -> None:
    chosen = choose_day("UTC", NOW, **given)
    assert (chosen.day, chosen.named_by) == (date(2026, 11, day), named_by)
    assert type(chosen.day) is date


@pytest.mark.parametrize(("timezone", "day"), [("UTC", 19), ("Europe/Berlin", 20), ("America/Los_Angeles", 19)])
def test_the_day_is_that_of_the_dags_time_zone(timezone: str, day: int) -> None:
    assert choose_day(timezone, NOW, run_type="scheduled", logical_date=LATE_EVENING).day == date(2026, 11, day)
    assert choose_day(pendulum.timezone(timezone), LATE_EVENING).day == date(2026, 11, day)


def test_a_day_is_as_long_as_the_time_zone_makes_it() -> None:
    chosen = choose_day("Europe/Berlin", NOW, partition_date="2026-10-25")  # 25 hours: summer time ends
    assert chosen.begins == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert chosen.ends == datetime(2026, 10, 25, 23, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "20.11.2026", "08:00", "P1D"])
def test_a_text_that_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: YYYY-MM-DD"):
        choose_day("UTC", NOW, partition_date=text)


@pytest.mark.parametrize(
    ("now", "late"),
    [
        (datetime(2026, 11, 19, 23, 56, tzinfo=UTC), False),  # a clock that is a few minutes behind
        (datetime(2026, 11, 20, 0, 0, tzinfo=UTC), False),
        (datetime(2026, 11, 20, 23, 59, 59, tzinfo=UTC), False),
        (datetime(2026, 11, 21, 0, 0, tzinfo=UTC), True),
    ],
)
def test_a_list_is_late_once_its_day_is_over(now: datetime, late: bool) -> None:
    assert choose_day("UTC", now, partition_date="2026-11-20").is_late(now) is late


def test_a_day_that_has_not_begun_is_refused() -> None:
    now = datetime(2026, 11, 19, 23, 54, tzinfo=UTC)
    with pytest.raises(GuardError, match=r"^2026-11-20 has not begun: the clock says 2026-11-19 23:54 UTC"):
        choose_day("UTC", now, partition_date="2026-11-20").is_late(now)


@pytest.mark.parametrize(
    ("hours", "is_published", "refusal"),
    [
        (0, False, None),
        (12, False, None),
        (13, False, "2026-11-20 ended 13 h ago: the current list is not"),
        (24 * 9, False, "2026-11-20 ended 9 days ago"),
        (0, True, "2026-11-20 is over and has its snapshot, which the current list would falsify"),
    ],
)
def test_a_late_list_is_filed_within_a_tolerance_where_nothing_is(
    hours: int, is_published: bool, refusal: str | None
) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC) + timedelta(hours=hours)
    said = choose_day("UTC", now, partition_date="2026-11-20").refusal(now, is_published=is_published)
    assert said is None if refusal is None else str(said).startswith(refusal)


def test_only_folders_of_days_count_as_days(tmp_path: Path) -> None:
    for name in ("websites/dt=2026-11-19", "_websites/dt=2026-11-20", "websites/dt=soon", "websites/other"):
        (tmp_path / name).mkdir(parents=True)
    dataset = Dataset(StoragePath.of(UPath(tmp_path)))
    assert dataset.days() == [date(2026, 11, 20), date(2026, 11, 19)]
    assert Dataset(dataset.base / "nowhere").days() == []
    partition = dataset.partition(date(2026, 1, 2))
    assert str(partition.data) == f"{tmp_path}/websites/dt=2026-01-02"
    assert str(partition.manifest) == f"{tmp_path}/_websites/dt=2026-01-02/_manifest.json"


@pytest.mark.parametrize("name", ["_websites", ".websites", "Websites", "a/b", "", "a" * 65, "dt=2026", None])
def test_a_dataset_has_a_name_that_every_reader_takes_for_data(name: Any) -> None:
    with pytest.raises(ValueError, match=r"dataset=.* is not allowed; allowed: 1 to 64 of"):
        dataset_of("/tmp", name)
