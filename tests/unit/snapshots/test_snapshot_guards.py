from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.snapshots.catalog import read_snapshot
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.storage import StoragePath

Make = Callable[..., Any]
NIGHT = timedelta(days=1)


@pytest.mark.parametrize(
    ("before", "after", "fraction", "trips"),
    [
        (10, 7, 0.3, False),  # exactly 30 per cent
        (10, 6, 0.3, True),
        (9, 1, 0.3, False),  # too few to count
        (9, 0, 0.3, True),  # but none is none
        (1, 0, 0.99, True),
        (0, 0, 0.3, False),
        (100, 120, 0.0, False),
        (100, 99, 0.0, True),
        (100, 0, 1.0, False),
        (1000, 699, 0.3, True),
    ],
)
def test_a_large_loss_is_refused(
    take: Make, make_websites: Make, base: StoragePath, before: int, after: int, fraction: float, trips: bool
) -> None:
    first = take(base, make_websites(before))
    night = first.manifest.observed_at + NIGHT
    if trips:
        with pytest.raises(GuardError, match=f"The list has {after} websites.*{before:,}") as refused:
            take(base, make_websites(after), night, max_loss_fraction=fraction)
        assert refused.value.guard == "count"
        assert read_snapshot(base, night.date()) is None
        accept = frozenset({"count"})
        taken = take(base, make_websites(after), night, max_loss_fraction=fraction, accept=accept)
        assert taken.manifest.count == after
    else:
        assert take(base, make_websites(after), night, max_loss_fraction=fraction).manifest.count == after


def test_a_rerun_is_measured_against_what_it_would_replace(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(100))
    with pytest.raises(GuardError):
        take(base, make_websites(10))
    kept = read_snapshot(base, first.manifest.snapshot_date)
    assert kept is not None
    assert kept.digest == first.digest
    assert sum(1 for _ in kept.rows()) == 100


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"source": ListSource(url="http://stats.example.com", account_id="1")}, "scheme was 'https', is 'http'"),
        ({"source": ListSource(url="https://other.example.com", account_id="1")}, "host was"),
        ({"source": ListSource(url="https://stats.example.com:8443", account_id="1")}, "port was 443, is 8443"),
        ({"source": ListSource(url="https://stats.example.com/app", account_id="1")}, "sub-path was '', is '/app'"),
        ({"source": ListSource(url="https://stats.example.com", account_id="2")}, "account was '1', is '2'"),
        ({"filters": {"favorite": True}}, "filters was {}, is {'favorite': True}"),
    ],
)
def test_another_list_does_not_go_into_the_same_dataset(
    take: Make, make_websites: Make, base: StoragePath, other: dict[str, Any], said: str
) -> None:
    first = take(base, make_websites(3))
    night = first.manifest.observed_at + NIGHT
    with pytest.raises(GuardError, match=rf"(?s)another list: .*{re.escape(said)}.*its own dataset"):
        take(base, make_websites(3), night, accept=frozenset(GUARDS) - {"source"}, **other)
    take(base, make_websites(3), night, accept=frozenset({"source"}), **other)
    take(base, make_websites(3), night, dataset="another", **other)


def test_the_same_service_in_other_words_is_the_same(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    source = ListSource(url="https://STATS.example.com:443/", account_id="1")
    take(base, make_websites(3), first.manifest.observed_at + NIGHT, source=source)


def test_each_guard_is_accepted_by_its_own_name(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(100))
    night = first.manifest.observed_at + NIGHT
    source = ListSource(url="https://other.example.com", account_id="1")
    records = make_websites(10, privacy="a secret")
    for accept, tripped in ((set(), "source"), ({"source"}, "count"), ({"source", "count"}, "fields")):
        with pytest.raises(GuardError) as refused:
            take(base, records, night, accept=frozenset(accept), source=source)
        assert refused.value.guard == tripped
    every = frozenset({"source", "count", "fields"})
    taken = take(base, records, night, accept=every, source=source)
    assert taken.manifest.fields.misfits == {"privacy": 10}


@pytest.mark.parametrize(
    ("misfits", "fraction", "trips"), [(3, 0.3, False), (4, 0.3, True), (1, 0, True), (10, 1, False), (10, 0.99, True)]
)
def test_values_that_do_not_fit_any_more_fail_the_run_where_they_are_too_many(
    take: Make, make_websites: Make, base: StoragePath, misfits: int, fraction: float, trips: bool
) -> None:
    night = take(base, make_websites(10)).manifest.observed_at + NIGHT
    records = [
        record | {"favorite": "maybe"} if place < misfits else record for place, record in enumerate(make_websites(10))
    ]
    if trips:
        with pytest.raises(GuardError, match=rf"{misfits}0.0% of the values of favorite do not fit.*\(0.0% before\)"):
            take(base, records, night, max_loss_fraction=fraction)
        assert read_snapshot(base, night.date()) is None
    else:
        taken = take(base, records, night, max_loss_fraction=fraction)
        assert taken.manifest.fields.misfits == {"favorite": misfits}


@pytest.mark.parametrize("websites", [2, 253])
def test_a_field_that_vanishes_is_not_published(
    take: Make, make_websites: Make, base: StoragePath, websites: int
) -> None:
    first = take(base, make_websites(websites))
    renamed = [
        {"visibility" if name == "privacy" else name: value for name, value in record.items()}
        for record in make_websites(websites)
    ]
    for moment in (first.manifest.observed_at + timedelta(hours=1), first.manifest.observed_at + NIGHT):
        with pytest.raises(GuardError, match=r"(?s)No website has the field privacy any .*2026-11-20") as info:
            take(base, renamed, moment)
        assert info.value.guard == "fields"
    kept = read_snapshot(base, first.manifest.snapshot_date)
    assert kept is not None
    assert kept.digest == first.digest
    accepted = take(base, renamed, first.manifest.observed_at + NIGHT, accept=frozenset({"fields"}))
    assert accepted.manifest.fields.missing == ["privacy"]
    take(base, renamed, first.manifest.observed_at + 2 * NIGHT)  # accepted once, it is the new normal


def test_a_field_that_the_service_never_had_is_no_loss(take: Make, make_websites: Make, base: StoragePath) -> None:
    records = [{name: value for name, value in one.items() if name != "favorite"} for one in make_websites(20)]
    first = take(base, records)
    take(base, records, first.manifest.observed_at + NIGHT)
    take(base, [], first.manifest.observed_at + 2 * NIGHT, accept=frozenset({"count"}))
    take(base, records, first.manifest.observed_at + 3 * NIGHT)


@pytest.mark.parametrize(
    "options",
    [
        {"max_loss_fraction": 1.1},
        {"max_loss_fraction": -0.1},
        {"format": "xml"},
        {"compression": "rar"},
        {"exclude_ips_as": "maybe"},
        {"accept": frozenset({"counts"})},
    ],
)
def test_bad_options_are_refused_before_anything_is_read(
    take: Make, base: StoragePath, options: dict[str, Any]
) -> None:
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"{name}=.*allowed"):
        take(base, "a listing that would fail", **options)
