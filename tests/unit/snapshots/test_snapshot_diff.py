from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.snapshots.catalog import Dataset
from airflow_provider_analytics.snapshots.diff import bounded, diff, diff_snapshots, write_changes
from airflow_provider_analytics.snapshots.rows import FieldReport, typed_columns
from airflow_provider_analytics.storage import StoragePath

Make = Callable[..., Any]
NIGHT = timedelta(days=1)


def rows(records: Any) -> Iterator[dict[str, Any]]:
    report = FieldReport()
    for block in typed_columns(
        records, snapshot_date="2026-11-20", observed_at="t", exclude_ips_as="keep", report=report
    ):
        for values in zip(*block.values(), strict=True):
            yield dict(zip(block, values, strict=True))


def changes(
    before: list[dict[str, Any]], after: list[dict[str, Any]], ignored: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    return list(diff(rows(before), rows(after), ignored))


def test_added_removed_and_changed_with_before_and_after() -> None:
    before = [{"id": 3, "domain": "c"}, {"id": 2, "domain": "b", "privacy": 0}, {"id": 1, "domain": "a"}]
    after = [{"id": 4, "domain": "d"}, {"id": 2, "domain": "b", "privacy": 2}, {"id": 1, "domain": "a"}]
    assert changes(before, after) == [
        {"change": "added", "id": "4", "domain": "d", "fields": {"domain": {"before": None, "after": "d"}}},
        {
            "change": "changed",
            "id": "2",
            "domain": "b",
            "fields": {"privacy": {"before": "public", "after": "password"}},
        },
        {"change": "removed", "id": "3", "domain": "c", "fields": {"domain": {"before": "c", "after": None}}},
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"privacy": 1}, {"privacy": "1"}),
        ({"email": 0}, {"email": False}),
        ({"favorite": "true"}, {"favorite": 1}),
        ({"exclude_ips": "192.0.2.1\n192.0.2.2"}, {"exclude_ips": ["192.0.2.2", "192.0.2.1"]}),
        ({"exclude_ips": None}, {"exclude_ips": ""}),
        ({}, {"exclude_params": ""}),
        ({"novelty": 1}, {"novelty": 2}),
        ({"password": "a"}, {"password": "b"}),
    ],
)
def test_what_says_the_same_is_no_change(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert changes([{"id": 1, **before}], [{"id": 1, **after}]) == []


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ({"exclude_params": "a\nb"}, {"exclude_params": "a"}, "exclude_params"),
        ({"domain": "strasse.example"}, {"domain": "straße.example"}, "domain"),
        ({"privacy": 0}, {}, "privacy"),
    ],
)
def test_what_says_something_else_is_a_change(before: dict[str, Any], after: dict[str, Any], name: str) -> None:
    (change,) = changes([{"id": 1, **before}], [{"id": 1, **after}])
    assert list(change["fields"]) == [name]


def test_only_documented_fields_count() -> None:
    before = [{"id": 1, "visits": 1, "privacy": 0, "email": 0}, {"id": 2, "visits": 1, "privacy": 0, "email": 0}]
    after = [{"id": 1, "visits": 2, "privacy": 0, "email": 0}, {"id": 2, "visits": 3, "privacy": 1, "email": 1}]

    def changed(*ignored: str) -> list[tuple[str, list[str]]]:
        return [(change["id"], list(change["fields"])) for change in changes(before, after, ignored)]

    assert changed() == [("2", ["privacy", "email"])]
    assert changed("email") == [("2", ["privacy"])]


def test_the_gravest_changes_come_first_and_are_counted(tmp_path: Path) -> None:
    before = [{"id": number, "privacy": 0, "email": 0} for number in range(1, 9)]
    after = [
        {"id": 10, "privacy": 0},
        {"id": 1, "privacy": 0, "email": 1},
        {"id": 2, "privacy": 2, "email": 1},
        *before[2:-1],
    ]
    path = tmp_path / "c.jsonl"
    counts = write_changes(diff(rows(before), rows(after)), path)
    assert counts == {"removed": 1, "privacy_changed": 1, "changed": 2, "added": 1}
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(change["change"], change["id"]) for change in found] == [
        ("removed", "8"),
        ("changed", "2"),
        ("changed", "1"),
        ("added", "10"),
    ]
    assert list(tmp_path.iterdir()) == [path]


IDS = st.one_of(st.integers(0, 30), st.sampled_from(["a", "B", "10", "\u00fc", "z-1"]))
LISTS = st.dictionaries(IDS.map(str), st.integers(0, 2), max_size=12)


@given(LISTS, LISTS, st.randoms())
def test_ids_of_any_kind_in_any_order(before: dict[str, int], after: dict[str, int], random: Any) -> None:
    def shuffled(privacies: dict[str, int]) -> list[dict[str, Any]]:
        records = [{"id": website_id, "privacy": privacy} for website_id, privacy in privacies.items()]
        random.shuffle(records)
        return records

    found: dict[str, set[str]] = {"added": set(), "removed": set(), "changed": set()}
    for change in changes(shuffled(before), shuffled(after)):
        found[change["change"]].add(change["id"])
    assert found == {
        "added": after.keys() - before.keys(),
        "removed": before.keys() - after.keys(),
        "changed": {key for key in before.keys() & after.keys() if before[key] != after[key]},
    }


def test_a_website_twice_in_a_snapshot_is_an_error() -> None:
    with pytest.raises(StorageError, match="twice"):
        changes([{"id": 1}, {"id": 1}], [])


def test_a_foreign_snapshot_with_passwords_does_not_leak_them() -> None:
    def row(privacy: int) -> dict[str, Any]:
        record = {"id": 1, "password": "hunter2", "privacy": privacy}
        return {"id": "1", "record": json.dumps(record), "record_hash": str(privacy)}

    assert "hunter2" not in json.dumps(list(diff([row(0)], [row(1)])))


MANY = """
import pathlib, resource, sys
from airflow_provider_analytics.snapshots.diff import diff, write_changes

def many(offset):
    for number in range(100_000 + offset, offset, -1):
        record = f'{{"domain":"site-{number}.example.com","id":{number},"privacy":{offset * (number % 50 == 0)}}}'
        yield {"id": str(number), "record": record, "record_hash": record}

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
counts = write_changes(diff(many(0), many(1)), pathlib.Path(sys.argv[1]))
print(counts["added"], counts["removed"], counts["changed"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_hundred_thousand_websites_fit_into_a_few_megabytes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY, str(tmp_path / "changes.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts, kilobytes = done.stdout.splitlines()
    assert counts == "1 1 2000"
    assert int(kilobytes) < 20_000


def test_long_values_are_cut_for_xcom() -> None:
    (change,) = changes([], [{"id": 1, "exclude_ips": [f"192.0.2.{n}" for n in range(200)], "domain": "x" * 5000}])
    fields = bounded(change)["fields"]
    assert fields["exclude_ips"]["after"][9:] == ["192.0.2.9", "and 190 more"]
    assert fields["domain"]["after"] == "x" * 200 + "..."
    assert len(change["fields"]["domain"]["after"]) == 5000


def test_two_published_snapshots_compare(take: Make, make_websites: Make, base: StoragePath) -> None:
    dataset = Dataset(base)
    records = make_websites(20)
    first = take(base, records)
    assert diff_snapshots(dataset)["previous"] is None
    second = take(base, [*records[1:], {"id": 0, "domain": "new"}], first.manifest.observed_at + NIGHT)
    third = take(base, records[1:], first.manifest.observed_at + 2 * NIGHT)
    result = diff_snapshots(dataset)
    assert (result["previous"], result["current"], result["removed"]) == ("2026-11-21", "2026-11-22", 1)
    result = diff_snapshots(dataset, previous=first.manifest.snapshot_date)
    assert (result["added"], result["removed"], result["truncated"]) == (0, 1, False)
    days = {"current": second.manifest.snapshot_date, "previous": first.manifest.snapshot_date}
    result = diff_snapshots(dataset, **days)
    assert (result["added"], result["removed"], result["changed"], result["truncated"]) == (1, 1, 0, False)
    assert [change["change"] for change in result["changes"]] == ["removed", "added"]
    stored = second.partition.about / "_since-2026-11-20.jsonl"
    assert result["jsonl"] == str(stored)
    assert [json.loads(line) for line in base.fs.cat_file(stored.path).splitlines()] == result["changes"]
    with pytest.raises(ValueError, match="allowed: a day before"):
        diff_snapshots(dataset, previous=third.manifest.snapshot_date)
    with pytest.raises(ValueError, match="No snapshot of 2026-11-27"):
        diff_snapshots(dataset, current=first.manifest.snapshot_date + 7 * NIGHT)
    with pytest.raises(ValueError, match="No snapshot is published"):
        diff_snapshots(Dataset(base / "elsewhere"))


def test_a_counter_in_the_records_changes_nothing(take: Make, make_websites: Make, base: StoragePath) -> None:
    """The same fields count in the snapshot, in the manifest, and where the two are compared again."""
    first = take(base, make_websites(20, visits=1))
    after = [{**make_websites(20, visits=2)[0], "privacy": 1}, *make_websites(20, visits=2)[1:-1]]
    second = take(base, after, first.manifest.observed_at + NIGHT)
    previous = second.manifest.previous
    assert previous is not None
    assert (previous.removed, previous.privacy_changed, previous.changed, previous.added) == (1, 1, 1, 0)
    lines = base.fs.cat_file((second.partition.about / second.manifest.changes).path).splitlines()
    assert [json.loads(line)["change"] for line in lines] == ["removed", "changed"]
    again = diff_snapshots(Dataset(base))
    assert (again["removed"], again["privacy_changed"], again["changed"]) == (1, 1, 1)
    third = take(base, after, first.manifest.observed_at + NIGHT, ignore_fields=("privacy",))
    assert third.manifest.previous is not None
    assert third.manifest.previous.changed == 0
    assert diff_snapshots(Dataset(base))["changed"] == 0
    assert diff_snapshots(Dataset(base), ignored=("email",))["changed"] == 1


def test_addresses_do_not_count_where_only_one_side_has_them(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    records = make_websites(3, exclude_ips="192.0.2.1")
    first = take(base, records)
    second = take(base, records, first.manifest.observed_at + NIGHT, exclude_ips_as="hash")
    assert second.manifest.previous is not None
    assert second.manifest.previous.changed == 0
    assert diff_snapshots(Dataset(base))["changed"] == 0
