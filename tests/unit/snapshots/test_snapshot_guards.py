# SPDX-License-Identifier: Apache-2.0
"""Guards of snapshots, and the day of a snapshot (``snapshots/snapshot_guards.py``, ``snapshots/run_day.py``)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from shelf import HOUR, NIGHT, SOURCE, Record, Shelf, held, own, websites

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.snapshots.catalog import Snapshot
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.run_day import choose_day
from airflow_provider_analytics.snapshots.take import SnapshotOptions


@pytest.mark.parametrize(
    ("before", "after", "fraction", "is_blocked"),
    [
        (10, 7, 0.3, False),  # exactly 30 per cent
        (10, 6, 0.3, True),
        (9, 1, 0.3, False),  # too few to count
        (9, 0, 0.3, True),  # but a list without websites is always blocked
        (1, 0, 0.99, True),
        (0, 0, 0.3, False),
        (100, 120, 0.0, False),
        (100, 99, 0.0, True),
        (100, 0, 1.0, False),
        (1000, 699, 0.3, True),
    ],
)
def test_snapshot_with_a_large_loss_is_rejected(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, before: int, after: int, fraction: float, is_blocked: bool
) -> None:
    first = shelf.take(before)
    for when in (HOUR, NIGHT) if is_blocked else ():  # a rerun is compared with the snapshot that it would replace
        with pytest.raises(GuardError, match=f"The list has {after} websites.*{before:,}") as rejected:
            shelf.take(after, when, max_loss_fraction=fraction)
        assert (rejected.value.guard, shelf.read(), shelf.read("2026-11-21")) == ("fewer_websites", first, None)
        assert "Missing: " in str(rejected.value)
    override_guards = {"fewer_websites"} if is_blocked else ()
    assert shelf.take(after, NIGHT, max_loss_fraction=fraction, override_guards=override_guards).manifest.count == after
    assert (f"Overridden guard fewer_websites: The list has {after} websites, " in caplog.text) == is_blocked


@pytest.mark.parametrize("file_format", ["jsonl", "csv"])
@pytest.mark.parametrize("other", [{"id": 1000}, {"domain": "other"}], ids=["other ids", "other domains"])
def test_websites_that_others_replaced_count_as_lost(shelf: Shelf, file_format: str, other: Record) -> None:
    before = websites(180)
    shelf.take(before, format=file_format)

    def with_others(number: int) -> list[Record]:
        new = []
        for record in before[:number]:
            domain = f"{other.get('domain', '')}{record['domain']}"
            new.append({**record, "id": record["id"] + other.get("id", 0), "domain": domain})
        return [*new, *before[number:]]

    with pytest.raises(GuardError, match=r"The list lacks 100 of 180 websites \(56%\)") as rejected:
        shelf.take(with_others(100), NIGHT, format=file_format)
    assert rejected.value.guard == "fewer_websites"
    [missing] = [line for line in str(rejected.value).splitlines() if line.startswith("Missing: ")]
    assert (missing.count("(id "), missing.endswith(" and 95 more.")) == (5, True)
    assert ("Of these domains, the list has 100 with another id." in str(rejected.value)) is ("id" in other)
    assert shelf.take(with_others(54), NIGHT, format=file_format).manifest.count == 180
    spelled = [{**record, "domain": record["domain"].upper()} for record in with_others(54)]
    assert shelf.take(spelled, 2 * NIGHT, format=file_format).manifest.count == 180


def source(url: str = SOURCE.url, account_id: str = "1") -> dict[str, Any]:
    return {"source": ListSource(url=url, account_id=account_id)}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (source("http://stats.example.com"), "scheme was 'https', is 'http'"),
        (source("https://other.example.com"), "host was"),
        (source("https://stats.example.com:8443"), "port was 443, is 8443"),
        (source("https://stats.example.com/app"), "sub-path was '', is '/app'"),
        (source(account_id="2"), "account was '1', is '2'"),
        ({"filters": {"favorite": True}}, "filters was {}, is {'favorite': True}"),
    ],
)
def test_list_of_another_source_is_not_filed_in_the_same_dataset(
    shelf: Shelf, other: dict[str, Any], said: str
) -> None:
    shelf.take(3)
    shelf.take(3, HOUR, **source("https://STATS.example.com:443/"))  # another spelling of the same source
    with pytest.raises(GuardError, match=rf"(?s)another list: .*{re.escape(said)}.*its own snapshot_name"):
        shelf.take(3, NIGHT, override_guards=GUARDS.keys() - {"other_source"}, **other)
    shelf.take(3, NIGHT, override_guards={"other_source"}, **other)
    Shelf(shelf.base, "another").take(3, NIGHT, **other)


#: Another service, and another filter.
OTHERS: list[dict[str, Any]] = [source("https://other.example.com"), {"filters": {"favorite": True}}]


@pytest.mark.parametrize("other", OTHERS)
def test_second_of_two_simultaneous_first_snapshots_fails(shelf: Shelf, other: dict[str, Any]) -> None:
    first: list[Snapshot] = []

    def publish_first(_: datetime) -> bool:
        first.append(shelf.take(7))
        return False

    with pytest.raises(GuardError, match="is of another list"):
        shelf.take(5, HOUR, is_late=publish_first, **other)
    assert [shelf.read()] == first
    assert shelf.count() == 7
    assert held(first[0]) == own(first[0])
    accepted = shelf.take(5, 2 * HOUR, override_guards={"other_source"}, **other)
    assert shelf.read() == accepted


def test_snapshots_of_one_day_are_compared_with_another_day_too(shelf: Shelf) -> None:
    shelf.take(100)
    morning = NIGHT - 6 * HOUR
    assert shelf.take(75, morning).manifest.count == 75
    with pytest.raises(GuardError, match=r"56 websites, 44% fewer than 100 on 2026-11-20"):
        shelf.take(56, morning + HOUR)
    assert shelf.take(72, morning + 2 * HOUR).manifest.count == 72
    # An accepted loss is not reported again by each run of the day.
    assert shelf.take(40, morning + 3 * HOUR, override_guards={"fewer_websites"}).manifest.count == 40
    assert shelf.take(39, morning + 4 * HOUR).manifest.count == 39
    with pytest.raises(GuardError, match="20 websites, 49"):
        shelf.take(20, morning + 5 * HOUR)


def test_damaged_snapshots_of_other_days_are_skipped_in_the_comparison(shelf: Shelf) -> None:
    shelf.take(100)
    for night in (1, 2):
        damaged = shelf.take(100, night * NIGHT)
        shelf.fs.pipe_file(damaged.partition.manifest.path, b"{")
    assert shelf.take(75, 3 * NIGHT - 6 * HOUR).manifest.count == 75
    with pytest.raises(GuardError, match=r"56 websites, 44% fewer than 100 on 2026-11-20"):
        shelf.take(56, 3 * NIGHT - 5 * HOUR)


def test_fields_of_one_day_are_compared_with_another_day_too(shelf: Shelf) -> None:
    def invalid_values(number: int) -> list[Record]:
        return [site | ({"privacy": "x"} if at < number else {}) for at, site in enumerate(websites(100))]

    shelf.take(invalid_values(0))
    morning = NIGHT - 6 * HOUR
    shelf.take(invalid_values(25), morning)
    with pytest.raises(GuardError, match="50"):
        shelf.take(invalid_values(50), morning + HOUR)
    shelf.take(invalid_values(50), morning + HOUR, override_guards={"missing_fields"})
    shelf.take(invalid_values(52), morning + 2 * HOUR)


def test_snapshot_guard_is_overridden_only_by_its_own_name(shelf: Shelf) -> None:
    shelf.take(100)
    records, other = websites(10, privacy="a secret"), source("https://other.example.com")
    names = ("other_source", "fewer_websites", "missing_fields")
    for number, blocking in enumerate(names):
        with pytest.raises(GuardError) as rejected:
            shelf.take(records, NIGHT, override_guards=names[:number], **other)
        assert rejected.value.guard == blocking
    assert shelf.take(records, NIGHT, override_guards=names, **other).manifest.fields.invalid_values == {"privacy": 10}


@pytest.mark.parametrize(
    ("invalid_values", "fraction", "is_blocked"),
    [(3, 0.3, False), (4, 0.3, True), (1, 0, True), (10, 1, False), (10, 0.99, True)],
)
def test_run_fails_if_too_many_values_no_longer_fit(
    shelf: Shelf, invalid_values: int, fraction: float, is_blocked: bool
) -> None:
    shelf.take(10)
    records = [*websites(10, favorite="maybe")[:invalid_values], *websites(10)[invalid_values:]]
    if is_blocked:
        with pytest.raises(
            GuardError, match=rf"{invalid_values}0.0% of the values of favorite do not fit.*\(0.0% before\)"
        ):
            shelf.take(records, NIGHT, max_loss_fraction=fraction)
        assert shelf.read("2026-11-21") is None
    else:
        taken = shelf.take(records, NIGHT, max_loss_fraction=fraction)
        assert taken.manifest.fields.invalid_values == {"favorite": invalid_values}


@pytest.mark.parametrize(
    ("before", "now", "fraction", "is_blocked"),
    [
        ((20, 10), (40, 20), 0.2, False),  # half of the values in both
        ((40, 20), (28, 24), 0.3, True),  # 50 and 86 per cent
        ((100, 0), (71, 21), 0.3, False),
        ((71, 0), (100, 31), 0.3, True),
    ],
)
def test_lost_values_are_a_fraction_of_the_websites_of_their_own_list(
    shelf: Shelf, before: tuple[int, int], now: tuple[int, int], fraction: float, is_blocked: bool
) -> None:
    """If the number of websites changes, the numbers of values without a use cannot be compared."""

    def records(count: int, unusable: int) -> list[Record]:
        return [*websites(count, favorite="maybe")[:unusable], *websites(count)[unusable:]]

    shelf.take(records(*before))
    if is_blocked:
        with pytest.raises(GuardError, match="of the values of favorite do not fit"):
            shelf.take(records(*now), NIGHT, max_loss_fraction=fraction)
    else:
        shelf.take(records(*now), NIGHT, max_loss_fraction=fraction)


def without(name: str, count: int) -> list[dict[str, Any]]:
    return [
        {element: value for element, value in record.items() if element != name}
        for record in websites(count, visibility=0)
    ]


@pytest.mark.parametrize("count", [2, 253])
def test_snapshot_without_an_earlier_field_is_not_published(shelf: Shelf, count: int) -> None:
    first = shelf.take(count)
    renamed = without("privacy", count)
    for moment in (HOUR, NIGHT):
        with pytest.raises(GuardError, match=r"(?s)No website has the field privacy any .*2026-11-20") as info:
            shelf.take(renamed, moment)
        assert info.value.guard == "missing_fields"
    assert shelf.read() == first
    assert shelf.take(renamed, NIGHT, override_guards={"missing_fields"}).manifest.fields.missing == ["privacy"]
    shelf.take(renamed, 2 * NIGHT)  # accepted once, it is the new normal


def test_field_that_the_service_never_had_does_not_count_as_missing(shelf: Shelf) -> None:
    records = without("favorite", 20)
    for night, (found, override_guards) in enumerate(
        [(records, ()), (records, ()), ([], {"fewer_websites"}), (records, ())]
    ):
        shelf.take(found, night * NIGHT, override_guards=override_guards)


@pytest.mark.parametrize("number", [1, 253])
@pytest.mark.parametrize("name", ["favorite", "exclude_params", "privacy"])
def test_last_value_of_a_field_can_be_cleared_if_the_service_omits_empty_values(
    shelf: Shelf, name: str, number: int
) -> None:
    """Go's omitempty, jbuilder's ignore_nil! and others omit a field from the records in which it is empty."""
    empty = without(name, 254)
    with_values = [*empty[:-number], *websites(254, privacy=1, favorite=True)[-number:]]
    assert shelf.take(with_values).manifest.fields.partial == [name]
    assert shelf.take(empty, NIGHT).manifest.fields.missing == [name]
    shelf.take(with_values, 2 * NIGHT)
    shelf.take(empty, 3 * NIGHT)


def test_snapshot_fails_if_a_field_of_every_website_vanishes_although_others_are_omitted(shelf: Shelf) -> None:
    empty = without("favorite", 20)
    shelf.take([*empty[:-1], *websites(20)[-1:]])
    renamed = [{name: value for name, value in record.items() if name != "privacy"} for record in websites(20)]
    with pytest.raises(GuardError, match="No website has the field privacy"):
        shelf.take(renamed, NIGHT)


def test_options_are_rejected_if_a_value_is_not_allowed() -> None:
    for name in ("format", "compression", "exclude_ips_as"):
        bad: dict[str, Any] = {name: "wrong"}
        with pytest.raises(ValueError, match=f"{name}=.*allowed"):
            SnapshotOptions(**bad)


def test_second_snapshot_of_a_day_is_compared_with_the_first_although_the_day_before_was_smaller(shelf: Shelf) -> None:
    shelf.take(100)
    morning = NIGHT - 6 * HOUR
    first = shelf.take(300, morning)
    with pytest.raises(GuardError, match=r"80 websites, 73% fewer than 300 on 2026-11-21"):
        shelf.take(80, morning + HOUR)
    assert shelf.read("2026-11-21") == first
    shelf.take(240, morning + HOUR)


def test_fields_of_a_second_snapshot_are_compared_with_the_first_although_the_day_before_had_none(shelf: Shelf) -> None:
    shelf.take(without("privacy", 20))
    morning = NIGHT - 6 * HOUR
    first = shelf.take(20, morning)
    with pytest.raises(GuardError, match=r"No website has the field privacy any more.*2026-11-21"):
        shelf.take(without("privacy", 20), morning + HOUR)
    assert shelf.read("2026-11-21") == first


def test_source_of_a_second_snapshot_is_compared_with_the_first_one_of_the_day(shelf: Shelf) -> None:
    other = source("https://other.example.com")
    shelf.take(3)
    morning = NIGHT - 6 * HOUR
    shelf.take(3, morning, override_guards={"other_source"}, **other)
    shelf.take(3, morning + HOUR, **other)
    with pytest.raises(GuardError, match=r"host was 'other\.example\.com', is 'stats\.example\.com'"):
        shelf.take(3, morning + 2 * HOUR)


#: The day depends on the time zone of the DAG, and never on the one of the worker.
IN_EACH_ZONE = pytest.mark.usefixtures("time_zone")


def on(day: int) -> datetime:
    return datetime(2026, 11, day, tzinfo=UTC)


DATES = {"data_interval_end": on(12), "logical_date": on(13), "run_after": on(14)}
SCHEDULED = {"run_type": "scheduled", **DATES}


@IN_EACH_ZONE
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


@IN_EACH_ZONE
@pytest.mark.parametrize("text", ["2026-10-25", "2026-10-25T23:30:00", "2026-10-24T22:30:00+00:00"])
def test_day_of_a_snapshot_is_in_the_time_zone_of_the_dag(text: str) -> None:
    chosen = choose_day("Europe/Berlin", on(15), partition_date=text)  # 25 hours: summer time ends
    assert chosen.day == date(2026, 10, 25)
    assert chosen.starts == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert chosen.ends == datetime(2026, 10, 25, 23, tzinfo=UTC)


@IN_EACH_ZONE
@pytest.mark.parametrize("text", ["yesterday", "20.11.2026", "08:00", "P1D"])
def test_text_that_is_not_a_date_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="Allowed: YYYY-MM-DD"):
        choose_day("UTC", on(15), partition_date=text)


@IN_EACH_ZONE
def test_list_is_late_after_the_end_of_its_day() -> None:
    day = choose_day("UTC", on(15), partition_date="2026-11-20")
    minute = timedelta(minutes=1)  # a clock might be a few minutes behind
    assert [day.is_late(on(20) + late) for late in (-4 * minute, 0 * minute, 1439 * minute)] == [False] * 3
    assert day.is_late(on(21))
    with pytest.raises(GuardError, match=r"^2026-11-20 has not started\. The clock says 2026-11-19 23:54 UTC"):
        day.is_late(on(20) - 6 * minute)
