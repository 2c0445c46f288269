"""Damage to an earlier snapshot does not stop the next one, and nothing is published that cannot be read."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upath import UPath

from airflow_provider_analytics.exceptions import GuardError, StorageError
from airflow_provider_analytics.snapshots.catalog import Dataset, list_snapshots, read_snapshot
from airflow_provider_analytics.snapshots.diff import diff_snapshots
from airflow_provider_analytics.storage import StoragePath

Make = Callable[..., Any]
NIGHT = timedelta(days=1)


def damage(snapshot: Any, how: str) -> None:
    (data,), fs = snapshot.files, snapshot.partition.data.fs
    content = fs.cat_file(data.path)
    if how == "missing":
        fs.rm_file(data.path)
    elif how == "truncated":
        fs.pipe_file(data.path, content[: len(content) // 2])
    elif how == "another digest":
        fs.pipe_file(data.path, content.replace(b"site-1.", b"site-x."))
    elif how == "manifest missing":
        fs.rm_file(snapshot.partition.manifest.path)
    else:
        fs.pipe_file(snapshot.partition.manifest.path, how.encode())


HOW = [
    "missing",
    "truncated",
    "another digest",
    "manifest missing",
    "",
    "{",
    "[]",
    '{"version": 1}',
    '{"version": "one"}',
]


@pytest.mark.parametrize("how", HOW)
def test_yesterdays_damage_does_not_stop_tonight(
    take: Make, make_websites: Make, base: StoragePath, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    first = take(base, make_websites(20))
    damage(first, how)
    with caplog.at_level(logging.WARNING):
        second = take(base, make_websites(20), first.manifest.observed_at + NIGHT, report=True)
    assert (second.manifest.first, second.manifest.previous, second.manifest.changes) == (False, None, None)
    assert sum(1 for _ in second.rows()) == 20
    (said,) = [record.getMessage() for record in caplog.records]
    assert "2026-11-20" in said[:90]
    assert diff_snapshots(Dataset(base))["previous"] is None
    assert [(entry.day.day, entry.is_whole) for entry in list_snapshots(base, verify=True)] == [(21, True), (20, False)]
    third = take(base, make_websites(20), first.manifest.observed_at + 2 * NIGHT)
    assert third.manifest.previous is not None


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_snapshot_of_the_same_day_is_replaced(
    take: Make, make_websites: Make, base: StoragePath, how: str
) -> None:
    first = take(base, make_websites(20))
    damage(first, how)
    second = take(base, make_websites(20), first.manifest.observed_at + timedelta(hours=1))
    assert [entry.is_whole for entry in list_snapshots(base, verify=True)] == [True]
    assert sum(1 for _ in second.rows()) == 20


def test_guards_measure_with_the_last_manifest_that_can_be_read(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    first = take(base, make_websites(100))
    second = take(base, make_websites(100), first.manifest.observed_at + NIGHT)
    damage(second, "{")
    with pytest.raises(GuardError, match=r"The list has 10 websites, 90\.0% fewer than 100 on 2026-11-20 12:00 UTC"):
        take(base, make_websites(10), first.manifest.observed_at + 2 * NIGHT)


@pytest.mark.parametrize("how", ["missing", "truncated", "another digest"])
def test_a_reader_never_gets_a_row_of_a_damaged_file(
    take: Make, make_websites: Make, base: StoragePath, how: str
) -> None:
    taken = take(base, make_websites(20), compression="gzip" if how == "truncated" else None)
    damage(taken, how)
    read = read_snapshot(base, "2026-11-20")
    assert read is not None
    with pytest.raises(StorageError, match=r"cannot read|is damaged"):
        next(read.rows())
    assert len(read.problems()) == 1


ODD = [
    {"domain": "a\rb.example"},
    {"domain": "a\r\nb.example", "exclude_params": "\r", "exclude_ips": "a\rb"},
    {"domain": "\ud800", "exclude_params": "a\n\udfff"},
    {"\ud800": 1},
    {"domain": 'a"b,c'},
    {"domain": "\x00"},
    {"privacy": 2**70, "email": 2**70, "exclude_bots": -(2**70), "favorite": 2**70},
    {"privacy": 1e300, "email": float("nan"), "more": [float("inf"), {"deep": float("-inf")}]},
    {"domain": {"name": "a.example"}, "exclude_ips": {"a": ["b"]}, "exclude_params": [1, None], "favorite": []},
    {"domain": None, "privacy": None, "record": "x", "snapshot_date": "x", "observed_at": 1, "record_hash": [1]},
    {"id": 2**70},
    {"id": "a\rb", "domain": "\u2028"},
]


@pytest.mark.parametrize("file_format", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_an_odd_value_is_published_in_a_file_that_can_be_read(
    take: Make, make_websites: Make, local_base: StoragePath, odd: dict[str, Any], file_format: str
) -> None:
    records = make_websites(3)
    first = take(local_base, records, format=file_format)
    records[0] = records[0] | odd
    second = take(local_base, records, first.manifest.observed_at + NIGHT, format=file_format, report=True)
    read = read_snapshot(local_base, second.manifest.snapshot_date)
    assert read is not None
    rows = list(read.rows())
    assert len(rows) == 3
    for row in rows:
        json.loads(row["record"], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert second.manifest.previous is not None
    third = take(local_base, make_websites(3), first.manifest.observed_at + 2 * NIGHT, format=file_format)
    assert third.manifest.previous is not None


@pytest.mark.parametrize("website_id", ["\ud800", "a\udfff"])
def test_an_id_that_no_file_can_hold_is_refused(
    take: Make, make_websites: Make, base: StoragePath, website_id: str
) -> None:
    with pytest.raises(StorageError, match="a website record has no usable id"):
        take(base, [*make_websites(2), {"id": website_id}])
    assert read_snapshot(base, "2026-11-20") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)
NAMES = st.sampled_from(
    ["domain", "privacy", "email", "exclude_bots", "exclude_params", "exclude_ips", "favorite", "new"]
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoragePath]:
    base = StoragePath.of(UPath(tmp_path_factory.mktemp("odd")))
    return (base / str(number) for number in range(10**9))


@pytest.mark.parametrize("file_format", ["jsonl", "csv", "parquet"])
@settings(max_examples=25)
@given(odd=st.dictionaries(NAMES, VALUES, max_size=4))
def test_whatever_the_service_sends_what_is_published_reads_back_the_same(
    take: Make, places: Iterator[StoragePath], odd: dict[str, Any], file_format: str
) -> None:
    plain, base = next(places), next(places)
    expected = list(take(plain, [{"id": 1} | odd]).rows())
    found = list(take(base, [{"id": 1} | odd], format=file_format).rows())
    if file_format == "csv":  # does not distinguish null from empty text
        expected = [{name: None if value == "" else value for name, value in row.items()} for row in expected]
    assert found == expected


def test_the_name_of_the_place_is_a_text(take: Make, make_websites: Make, tmp_path: Path) -> None:
    take(StoragePath.of(str(tmp_path)), make_websites(3))
    for base in (str(tmp_path), f"file://{tmp_path}"):
        read = read_snapshot(base, "2026-11-20")
        assert read is not None
        assert sum(1 for _ in read.rows()) == 3
    assert read_snapshot(str(tmp_path), "2026-11-20", "another") is None
    with pytest.raises(ValueError, match="allowed: YYYY-MM-DD"):
        read_snapshot(str(tmp_path), "yesterday")


@pytest.mark.parametrize("moment", [datetime(2026, 11, 20), datetime(2026, 11, 20, tzinfo=UTC)])
def test_a_point_in_time_is_no_day(take: Make, make_websites: Make, base: StoragePath, moment: datetime) -> None:
    """It belongs to different days in different time zones."""
    take(base, make_websites(3))
    with pytest.raises(ValueError, match=r"day=.* is not allowed; allowed: a date"):
        read_snapshot(base, moment)


def test_a_manifest_of_another_day_is_damage(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    second = take(base, make_websites(4), first.manifest.observed_at + NIGHT)
    base.fs.pipe_file(second.partition.manifest.path, base.fs.cat_file(first.partition.manifest.path))
    (entry, _) = list_snapshots(base)
    assert entry.problems == (
        f"{second.partition.manifest} is damaged (it is that of 2026-11-20). Restore it, or take the snapshot again.",
    )
