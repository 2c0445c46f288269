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

from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots.compare import compare_snapshots
from airflow_provider_analytics.snapshots.diff import bounded, compare, write_changes, write_markdown
from airflow_provider_analytics.snapshots.rows import FieldReport, typed_rows
from airflow_provider_analytics.storage import StoragePath

Make = Callable[..., Any]
NIGHT = timedelta(days=1)


def rows(records: Any) -> Iterator[dict[str, Any]]:
    return typed_rows(records, snapshot_date="2026-11-20", observed_at="t", exclude_ips_as="keep", report=FieldReport())


def changes(before: list[dict[str, Any]], after: list[dict[str, Any]], **arguments: Any) -> list[dict[str, Any]]:
    return list(compare(rows(before), rows(after), **arguments))


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
        ({}, {"novelty": None}),
        ({"password": "a"}, {"password": "b"}),
    ],
)
def test_what_says_the_same_is_no_change(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert changes([{"id": 1, **before}], [{"id": 1, **after}]) == []


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ({"exclude_params": "a\nb"}, {"exclude_params": "a"}, "exclude_params"),
        ({"novelty": 1}, {"novelty": "1"}, "novelty"),
        ({"novelty": [1, 2]}, {"novelty": [2, 1]}, "novelty"),
        ({"domain": "strasse.example"}, {"domain": "straße.example"}, "domain"),
        ({"privacy": 0}, {}, "privacy"),
    ],
)
def test_what_says_something_else_is_a_change(before: dict[str, Any], after: dict[str, Any], name: str) -> None:
    (change,) = changes([{"id": 1, **before}], [{"id": 1, **after}])
    assert list(change["fields"]) == [name]


def test_fields_can_be_left_out() -> None:
    before, after = [{"id": 1, "visits": 1, "privacy": 0}], [{"id": 1, "visits": 2, "privacy": 0}]
    assert len(changes(before, after)) == 1
    assert changes(before, after, ignore=["visits"]) == []


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
    with pytest.raises(SnapshotError, match="twice"):
        changes([{"id": 1}, {"id": 1}], [])


def test_a_foreign_snapshot_with_passwords_does_not_leak_them() -> None:
    def row(privacy: int) -> dict[str, Any]:
        record = {"id": 1, "password": "hunter2", "privacy": privacy}
        return {"id": "1", "record": json.dumps(record), "record_hash": str(privacy)}

    assert "hunter2" not in json.dumps(list(compare([row(0)], [row(1)])))


MANY = """
import resource, sys
from airflow_provider_analytics.snapshots.diff import compare, write_changes

def many(offset):
    for number in range(100_000 + offset, offset, -1):
        record = f'{{"domain":"site-{number}.example.com","id":{number},"privacy":{offset * (number % 50 == 0)}}}'
        yield {"id": str(number), "record": record, "record_hash": record}

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open(sys.argv[1], "wb") as file:
    counts = write_changes(compare(many(0), many(1)), file)
print(counts["added"], counts["removed"], counts["changed"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_hundred_thousand_websites_fit_into_a_few_megabytes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY, str(tmp_path / "changes.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts, kilobytes = done.stdout.splitlines()
    assert counts == "1 1 2000"
    assert int(kilobytes) < 20_000


def test_markdown_holds_everything_and_breaks_on_nothing(tmp_path: Path) -> None:
    before = [
        {"id": 1, "domain": "a", "exclude_ips": "192.0.2.1\n192.0.2.2", "note": "x"},
        {"id": 2, "domain": "gone"},
    ]
    after = [
        {"id": 1, "domain": "a", "exclude_ips": "192.0.2.2\n192.0.2.3", "note": "<b>|`\nnext"},
        {"id": 3, "domain": "new"},
    ]
    with (tmp_path / "c.jsonl").open("wb") as file:
        counts = write_changes(compare(rows(before), rows(after)), file)
    write_markdown(tmp_path / "c.md", tmp_path / "c.jsonl", before="yesterday", after="today", counts=counts)
    assert (tmp_path / "c.md").read_text() == (
        "# Websites: yesterday to today\n\n1 added, 1 removed, 1 changed.\n"
        "\n## Added\n\n| id | domain | field | before | after |\n|---|---|---|---|---|\n"
        "| 3 | new | domain |  | new |\n"
        "\n## Removed\n\n| id | domain | field | before | after |\n|---|---|---|---|---|\n"
        "| 2 | gone | domain | gone |  |\n"
        "\n## Changed\n\n| id | domain | field | before | after |\n|---|---|---|---|---|\n"
        "| 1 | a | exclude_ips | 192.0.2.1 | 192.0.2.3 |\n"
        "| 1 | a | note | x | &lt;b&gt;\\|\\` next |\n"
    )


def test_long_values_are_cut_for_xcom() -> None:
    (change,) = changes([], [{"id": 1, "exclude_ips": [f"192.0.2.{n}" for n in range(200)], "note": "x" * 5000}])
    fields = bounded(change)["fields"]
    assert fields["exclude_ips"]["after"][9:] == ["192.0.2.9", "and 190 more"]
    assert fields["note"]["after"] == "x" * 200 + "..."
    assert len(change["fields"]["note"]["after"]) == 5000


def test_two_published_snapshots_compare(take: Make, make_websites: Make, base: StoragePath) -> None:
    records = make_websites(20)
    first = take(base, records)
    assert compare_snapshots(base)["previous"] is None
    second = take(base, [*records[1:], {"id": 0, "domain": "new"}], first.manifest.observed_at + NIGHT)
    third = take(base, records[1:], first.manifest.observed_at + 2 * NIGHT)
    result = compare_snapshots(base)
    assert (result["previous"], result["current"], result["removed"]) == ("2026-11-21", "2026-11-22", 1)
    result = compare_snapshots(base, previous=first.manifest.snapshot_date, max_changes=0)
    assert (result["added"], result["removed"], result["changes"], result["truncated"]) == (0, 1, [], True)
    days = {"current": second.manifest.snapshot_date, "previous": first.manifest.snapshot_date}
    result = compare_snapshots(base, **days)
    assert (result["added"], result["removed"], result["changed"], result["truncated"]) == (1, 1, 0, False)
    partition = second.partition / "_comparison"
    assert result["jsonl"] == str(partition / "since-2026-11-20.jsonl")
    lines = base.fs.cat_file((partition / "since-2026-11-20.jsonl").path).splitlines()
    assert [json.loads(line) for line in lines] == result["changes"]
    assert b"new" in base.fs.cat_file((partition / "since-2026-11-20.md").path)
    with pytest.raises(ValueError, match="allowed: a day before"):
        compare_snapshots(base, previous=third.manifest.snapshot_date)
    with pytest.raises(ValueError, match="no snapshot of 2026-11-27"):
        compare_snapshots(base, current=first.manifest.snapshot_date + 7 * NIGHT)
    with pytest.raises(ValueError, match="no snapshot is published"):
        compare_snapshots(base / "elsewhere")


def test_addresses_do_not_count_where_only_one_side_has_them(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    records = make_websites(3, exclude_ips="192.0.2.1")
    first = take(base, records)
    second = take(base, records, first.manifest.observed_at + NIGHT, exclude_ips_as="hash")
    assert second.manifest.previous is not None
    assert second.manifest.previous.changed == 0
    assert compare_snapshots(base)["changed"] == 0
