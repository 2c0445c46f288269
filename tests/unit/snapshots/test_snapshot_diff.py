# SPDX-License-Identifier: Apache-2.0
"""Comparison of two snapshots (``snapshots/diff.py``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shelf import NIGHT, NOON, Record, Shelf, rows, websites

from airflow_provider_analytics.exceptions import MissingSnapshotError, StorageError
from airflow_provider_analytics.snapshots.catalog import SnapshotSeries
from airflow_provider_analytics.snapshots.diff import bounded, diff, diff_snapshots, in_lines, write_changes


def changes(before: list[Record], after: list[Record]) -> list[dict[str, Any]]:
    return list(diff(rows(*before)[0], rows(*after)[0]))


@pytest.mark.parametrize(("limit", "last"), [(2, "and 1 more"), (3, "added c (id 3)"), (10, "added c (id 3)")])
def test_changes_that_are_not_listed_are_counted(limit: int, last: str) -> None:
    added = changes([], [{"id": number, "domain": domain} for number, domain in enumerate("abc", 1)])
    assert in_lines({"changes": added, "removed": 0, "changed": 0, "added": 3}, limit)[-1] == last


def test_diff_has_added_removed_and_changed_websites_with_both_values() -> None:
    before = [{"id": 3, "domain": "c"}, {"id": 2, "domain": "b", "privacy": 0}, {"id": 1, "domain": "a"}]
    after = [{"id": 4, "domain": "d"}, {"id": 2, "domain": "b", "privacy": 2}, {"id": 1, "domain": "a"}]
    assert [tuple(change.values()) for change in changes(before, after)] == [
        ("added", "4", "d", {"domain": {"before": None, "after": "d"}}),
        ("changed", "2", "b", {"privacy": {"before": "public", "after": "password"}}),
        ("removed", "3", "c", {"domain": {"before": "c", "after": None}}),
    ]


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({"privacy": 1}, {"privacy": "1"}, []),
        ({"email": 0}, {"email": False}, []),
        ({"favorite": "true"}, {"favorite": 1}, []),
        ({"exclude_ips": "192.0.2.1\n192.0.2.2"}, {"exclude_ips": ["192.0.2.2", "192.0.2.1"]}, []),
        ({"exclude_ips": None}, {"exclude_ips": ""}, []),
        ({}, {"exclude_params": ""}, []),
        ({"novelty": 1}, {"novelty": 2}, []),
        ({"password": "a"}, {"password": "b"}, []),
        ({"exclude_params": "a\nb"}, {"exclude_params": "a"}, ["exclude_params"]),
        ({"domain": "strasse.example"}, {"domain": "straße.example"}, ["domain"]),
        ({"privacy": 0}, {}, ["privacy"]),
    ],
)
def test_different_meaning_is_a_change_and_another_spelling_is_not(
    before: Record, after: Record, names: list[str]
) -> None:
    found = changes([{"id": 1, **before}], [{"id": 1, **after}])
    assert [list(change["fields"]) for change in found] == ([names] if names else [])


def test_most_serious_changes_come_first_and_are_counted(tmp_path: Path) -> None:
    before = [{"id": number, "privacy": 0, "email": 0} for number in range(1, 9)]
    after = [{"id": 10, "privacy": 0}, before[0] | {"email": 1}, {"id": 2, "privacy": 2, "email": 1}, *before[2:-1]]
    path = tmp_path / "c.jsonl"
    counts = write_changes(changes(before, after), path)
    assert counts == {"removed": 1, "privacy_changed": 1, "changed": 2, "added": 1}
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert " ".join(f"{item['change']} {item['id']}" for item in found) == "removed 8 changed 2 changed 1 added 10"
    assert list(tmp_path.iterdir()) == [path]


def test_duplicate_website_in_a_snapshot_is_an_error() -> None:
    with pytest.raises(StorageError, match="twice"):
        changes([{"id": 1}, {"id": 1}], [])


def test_passwords_of_a_foreign_snapshot_do_not_leak() -> None:
    def row(privacy: int) -> Record:
        record = {"id": 1, "password": "hunter2", "privacy": privacy}
        return {"id": "1", "record": json.dumps(record), "record_hash": str(privacy)}

    assert "hunter2" not in json.dumps(list(diff([row(0)], [row(1)])))


def test_long_values_are_cut_for_xcom() -> None:
    (change,) = changes([], [{"id": 1, "exclude_ips": [f"192.0.2.{n}" for n in range(200)], "domain": "x" * 5000}])
    fields = bounded(change)["fields"]
    assert fields["exclude_ips"]["after"][9:] == ["192.0.2.9", "and 190 more"]
    assert fields["domain"]["after"] == "x" * 200 + "..."
    assert len(change["fields"]["domain"]["after"]) == 5000


def test_published_snapshots_are_compared(shelf: Shelf) -> None:
    records, first, second = websites(20), NOON.date(), NOON.date() + NIGHT
    shelf.take(records)
    assert diff_snapshots(shelf.series)["previous"] is None
    taken = shelf.take([*records[1:], {"id": 0, "domain": "new"}], NIGHT)
    shelf.take(records[1:], 2 * NIGHT)
    names = ("previous", "current", "added", "removed", "changed", "changes_omitted")
    days: Any
    for days, expected in (
        ({}, ["2026-11-21", "2026-11-22", 0, 1, 0, 0]),
        ({"previous": first}, ["2026-11-20", "2026-11-22", 0, 1, 0, 0]),
        ({"previous": first, "current": second}, ["2026-11-20", "2026-11-21", 1, 1, 0, 0]),
    ):
        result = diff_snapshots(shelf.series, **days)
        assert [result[name] for name in names] == expected
    assert [change["change"] for change in result["changes"]] == ["removed", "added"]
    stored = taken.partition.about / "_since-2026-11-20.jsonl"
    assert result["changes_path"] == str(stored)
    assert [json.loads(line) for line in shelf.fs.cat_file(stored.path).splitlines()] == result["changes"]
    with pytest.raises(ValueError, match="Allowed: a day before"):
        diff_snapshots(shelf.series, previous=second + NIGHT)
    with pytest.raises(MissingSnapshotError, match="No snapshot of 2026-11-27"):
        diff_snapshots(shelf.series, current=first + 7 * NIGHT)
    with pytest.raises(MissingSnapshotError, match="No snapshot is published"):
        diff_snapshots(SnapshotSeries(shelf.base / "elsewhere"))


def test_comparison_fails_if_the_newer_snapshot_is_damaged(shelf: Shelf) -> None:
    """It is not the fault of the earlier snapshot, without which a comparison only logs a warning."""
    shelf.take(3)
    [file] = shelf.take(4, NIGHT).files
    shelf.fs.pipe_file(file.path, b"damaged")
    with pytest.raises(StorageError, match=r"dt=2026-11-21.* is damaged"):
        diff_snapshots(shelf.series)


def test_addresses_do_not_count_if_only_a_single_side_has_them(shelf: Shelf) -> None:
    records = websites(3, exclude_ips="192.0.2.1")
    shelf.take(records)
    previous = shelf.take(records, NIGHT, exclude_ips_as="hash").manifest.previous
    assert previous is not None
    assert (previous.changed, diff_snapshots(shelf.series)["changed"]) == (0, 0)


def test_undocumented_field_does_not_count_as_a_change(shelf: Shelf) -> None:
    """The same fields count in the snapshot, in the manifest, and in a later comparison."""
    shelf.take(websites(20, visits=1))
    first, *others = websites(20, visits=2)
    after = [{**first, "privacy": 1}, *others[:-1]]
    second = shelf.take(after, NIGHT)
    counts = {"removed": 1, "privacy_changed": 1, "changed": 1, "added": 0}
    assert {name: getattr(second.manifest.previous, name) for name in counts} == counts
    assert [change["change"] for change in second.changes()] == ["removed", "changed"]
    assert diff_snapshots(shelf.series).items() >= counts.items()
    third = shelf.take(after, NIGHT, ignore_fields=("privacy",)).manifest.previous
    assert third is not None
    assert (third.changed, diff_snapshots(shelf.series)["changed"]) == (0, 0)
    assert diff_snapshots(shelf.series, ignored=("email",))["changed"] == 1


def test_list_with_the_maximum_number_of_entries_is_not_cut() -> None:
    entries = [f"192.0.2.{number}" for number in range(10)]
    change = {"fields": {"exclude_ips": {"before": None, "after": entries}}}
    assert bounded(change) == change
