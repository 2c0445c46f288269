# SPDX-License-Identifier: Apache-2.0
"""Changes between snapshots: comparison, manifest, and HTML report (``snapshots/diff.py``, ``manifest.py``, ...)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import date, timedelta
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from shelf import HOUR, NIGHT, NOON, Record, Shelf, held, rows, websites

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api import listing
from airflow_provider_analytics.exceptions import GuardError, MissingSnapshotError, StorageError
from airflow_provider_analytics.operators.snapshots import MAX_FIELDS, describe
from airflow_provider_analytics.snapshots.catalog import Snapshot, SnapshotSeries
from airflow_provider_analytics.snapshots.diff import bounded, diff, diff_snapshots, in_lines, write_changes
from airflow_provider_analytics.snapshots.html_report import chart_points
from airflow_provider_analytics.snapshots.take import what_changed


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
    addresses = [f"192.0.2.{number}" for number in range(200)]
    (change,) = changes([], [{"id": 1, "exclude_ips": addresses, "domain": "x" * 5000}])
    fields = bounded(change)["fields"]
    (short,) = changes([], [{"id": 1, "exclude_ips": addresses[:10]}])
    assert bounded(short)["fields"]["exclude_ips"]["after"] == addresses[:10]
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


SCHEMA = json.loads((files("airflow_provider_analytics.snapshots") / "manifest.schema.json").read_text())
WHAT_CHANGED = ("removed", "privacy_changed", "changed", "added")


def stored(snapshot: Snapshot) -> Any:
    """Return a manifest as it is stored, after its validation by the schema."""
    manifest = json.loads(snapshot.partition.about.fs.cat_file(snapshot.partition.manifest.path))
    jsonschema.validate(manifest, SCHEMA, format_checker=jsonschema.FormatChecker())
    return manifest


def test_schema_file_is_valid_and_names_each_proof() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    described = SCHEMA["$defs"]["Completeness"]["description"]
    assert set(re.findall(r"``(.+?)``", described)) == set(listing.WHY_COMPLETE)


def test_manifest_describes_its_content_and_the_proof_of_completeness(shelf: Shelf) -> None:
    manifest = stored(shelf.take(websites(250, colour="red")))
    expected = {
        "count": 250,
        "proof": {"method": "closed reading", "total": 250, "pages": 5},
        "requests": 3,
        "retries": 1,
        "snapshot_date": "2026-11-20",
        "observed_at": "2026-11-20T12:00:00Z",
        "source": {"url": "https://stats.example.com", "account_id": "1"},
        "provider_version": __version__,
        "fields": {"new": ["colour"], "missing": [], "invalid_values": {}, "partial": []},
        "is_first": True,
        "previous": None,
        "changes_path": None,
        "late": False,
    }
    assert {name: manifest[name] for name in expected} == expected
    assert {"name": "privacy", "type": "integer"} in manifest["columns"]


def test_manifest_names_the_previous_snapshot_and_counts_changes(shelf: Shelf) -> None:
    records = websites(20)
    first = shelf.take(records)
    second = stored(shelf.take([records[0] | {"id": 99}, records[1] | {"privacy": 1}, *records[2:-2]], 3 * NIGHT))
    before = {"snapshot_date": "2026-11-20", "observed_at": "2026-11-20T12:00:00Z", "count": 20, "digest": first.digest}
    assert second["previous"] == before | dict(zip(WHAT_CHANGED, (3, 1, 1, 1), strict=True))
    assert second["is_first"] is False


def test_snapshot_is_compared_with_the_snapshot_that_it_replaces(shelf: Shelf) -> None:
    records = websites(60)
    first = shelf.take(records)
    second = shelf.take([*records[1:], {"id": 99, "domain": "new"}], HOUR)
    manifest = stored(second)
    assert [manifest["replaced_snapshot"][name] for name in ("digest", "count", *WHAT_CHANGED)] == [
        first.digest,
        60,
        1,
        0,
        0,
        1,
    ]
    assert manifest["previous"] is None
    assert what_changed(second.manifest) == (
        "It replaces the snapshot of 12:00 UTC (60 websites):\n1 removed, 0 changed, 1 added."
    )
    assert [change["change"] for change in second.changes()] == ["removed", "added"]
    assert shelf.take(records, NIGHT).manifest.replaced_snapshot is None
    third = shelf.take(records[:-2], NIGHT + HOUR)
    assert stored(third)["replaced_snapshot"]["removed"] == 2
    assert what_changed(third.manifest) == (
        "It replaces the snapshot of 12:00 UTC (60 websites):\n2 removed, 0 changed, 0 added. "
        "Since 2026-11-20: 3 removed, 0 changed, 1 added."
    )


def test_manifest_of_a_newer_version_stops_the_next_run(shelf: Shelf) -> None:
    path, content = shelf.take(3).partition.manifest.path, b'{"version": 2, "files": {}}'
    shelf.fs.pipe_file(path, content)
    for later in (NOON, NIGHT):
        with pytest.raises(GuardError, match=r"(?s)newer airflow-provider-analytics wrote it"):
            shelf.take(3, later)
    assert shelf.fs.cat_file(path) == content
    second = shelf.take(3, NIGHT, override_guards={"newer_version"})
    assert (second.manifest.is_first, second.manifest.previous) == (False, None)


def test_manifest_with_another_key_and_without_a_later_one_is_read(shelf: Shelf) -> None:
    first = shelf.take(3)
    manifest = stored(first) | {"novelty": 1}
    del manifest["fields"]["partial"]
    shelf.fs.pipe_file(first.partition.manifest.path, json.dumps(manifest).encode())
    assert shelf.read().manifest == first.manifest  # type: ignore[union-attr]


def test_clock_that_went_backwards_is_noticed(shelf: Shelf) -> None:
    first = shelf.take(3)
    with pytest.raises(GuardError, match="clock"):
        shelf.take(3, -HOUR)
    assert shelf.read() == first
    shelf.take(3, -HOUR / 15)


def test_clock_of_an_earlier_day_does_not_replace_the_snapshot_of_that_day(shelf: Shelf) -> None:
    shelf.take(4)
    shelf.take(3, NIGHT)
    with pytest.raises(GuardError, match=r"2026-11-20 13:00.* 2026-11-21 was observed at 2026-11-21 12:00"):
        shelf.take(3, HOUR)
    assert shelf.count("2026-11-20") == 4


def test_snapshot_of_a_future_day_is_named_by_the_next_run(shelf: Shelf) -> None:
    shelf.take(3, 2 * NIGHT)
    with pytest.raises(GuardError) as caught:
        shelf.take(3)
    assert "If it is the snapshot, delete its two folders dt=2026-11-22" in str(caught.value)
    shelf.take(3, override_guards=["clock_skew"])


def test_result_of_the_operator_has_a_bounded_number_of_undocumented_fields(shelf: Shelf) -> None:
    new = {f"field_{number:03}": 1 for number in range(MAX_FIELDS + 10)}
    snapshot = shelf.take(websites(1, **new))
    assert snapshot.manifest.fields.new == list(new)
    assert describe(snapshot)["fields"]["new"] == list(new)[:MAX_FIELDS]


def page(snapshot: Snapshot) -> str:
    assert snapshot.manifest.report is not None
    about = snapshot.partition.about
    content: bytes = about.fs.cat_file((about / snapshot.manifest.report).path)
    assert len(content) < 1_000_000
    return content.decode()


class Loads(HTMLParser):
    """Collects every address that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {"src", "srcset", "data", "action", *(["href"] if tag == "link" else [])}
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in names]


def test_report_lists_the_websites_and_their_changes(shelf: Shelf) -> None:
    records = websites(12)
    assert "There is no snapshot of an earlier day" in page(shelf.take(records, html_report=True))
    settings = {"email": 1, "favorite": True, "exclude_bots": 0}
    first = records[0] | {"privacy": 2, "exclude_params": "gclid"} | settings
    text = page(shelf.take([first, *records[2:], {"id": 0, "domain": "new.example"}], NIGHT, html_report=True))
    for pattern in (
        "12 websites",
        "over the last 2 snapshots",
        r"(?s)1 removed.*1 changed.*1 in privacy.*1 added",
        "public \u2192 password",
        "no \u2192 yes",
        "\u2212utm_source",
        "new.example",
        "<b>1</b>password",
        "<b>1</b>email",
        "<b>1</b>favorite",
        'gclid</td><td class="n">11<',
        "<td>password</td><td>email: yes, exclude_bots: no, favorite: yes</td>",
        "prefers-color-scheme: dark",
    ):
        assert re.search(pattern, text), pattern
    assert text.count("<svg") == 1


def test_report_loads_and_runs_nothing_from_the_service(shelf: Shelf) -> None:
    hostile = "<script src=https://evil.example></script>"
    text = page(shelf.take(websites(3, domain=hostile, exclude_params=hostile), html_report=True))
    loads = Loads()
    loads.feed(text)
    assert loads.found == []
    assert text.count("<script>") == 1
    assert "<script src" not in text
    assert "default-src 'none'" in text
    script = hashlib.sha256(re.findall("<script>(.*?)</script>", text, re.DOTALL)[0].encode())
    assert f"script-src 'sha256-{base64.b64encode(script.digest()).decode()}'\"" in text  # and no other script
    assert not re.search(r"@import|url\((?!#)", text)


@pytest.mark.long
def test_report_is_small_for_any_list(local: Shelf) -> None:
    assert "0 websites" in page(Shelf(local.base, "empty").take(0, html_report=True))
    text = page(Shelf(local.base, "large").take(2_001, html_report=True))
    assert text.count('<td class="domain">') == 2_000
    assert "2,000 of 2,001 websites; all of them are in the data file" in text
    long = "\n".join(f"<parameter&{number}>{'x' * 400}" for number in range(30))
    before = websites(700, exclude_params=long, note="n" * 10_000)
    local.take(before)
    after = [record | {"exclude_params": long[::-1], "exclude_ips": long, "privacy": 9} for record in before]
    text = page(local.take(after, NIGHT, html_report=True))
    assert re.search(r"The first 200 of 700 changes; all of them are in _changes-", text)
    assert "unknown (9)" in text


def test_report_starts_with_the_warnings(shelf: Shelf) -> None:
    shelf.fs.rm_file(shelf.take(3).files[0].path)
    records = websites(3, privacy="secret", colour="red")
    for record in records:
        del record["favorite"]
    day = NOON.date() + timedelta(days=1)
    text = page(
        shelf.take(
            records, 2 * NIGHT, day=day, is_late=lambda _: True, html_report=True, override_guards={"missing_fields"}
        )
    )
    assert re.findall(r"<li>(.*?)</li>", text) == [
        "Late: the list was observed at 2026-11-22 12:00 UTC and filed under 2026-11-21.",
        "This snapshot is not compared, because the previous one is damaged.",
        "Empty here, because the type does not fit: 3 values of privacy.",
        "The service no longer returns: favorite.",
    ]
    assert '<p class="quiet">Fields that are not documented: colour.</p>' in text
    assert text.index("<ul") < text.index("<h2>")


def test_report_of_a_replaced_snapshot_is_removed_and_a_sandbox_field_is_not_a_warning(shelf: Shelf) -> None:
    text = page(shelf.take(websites(1, created_at="2026-11-22"), html_report=True))
    assert 'class="notices"' not in text
    assert (text.count("1 website<"), text.count("1 websites")) == (2, 0)
    assert "Fields that are not documented: created_at." in text
    assert not any(name.startswith("_report") for name in held(shelf.take(3, HOUR)))


@pytest.mark.parametrize(
    ("counts", "points"),
    [
        ({0: 100, 1: 50, 60: 0}, [(0, 0, "2026-01-01: 100"), (15, 90, "2026-01-02: 50"), (900, 180, "2026-03-02: 0")]),
        ({0: 0}, [(450, 180, "2026-01-01: 0")]),
        ({0: 1_000}, [(450, 0, "2026-01-01: 1,000")]),
    ],
)
def test_chart_axis_is_time_and_a_single_night_is_in_the_middle(
    counts: dict[int, int], points: list[tuple[int, int, str]]
) -> None:
    found = chart_points([(date(2026, 1, 1) + day * NIGHT, number) for day, number in counts.items()])
    assert [(round(x), round(y), label) for x, y, label in found] == points


@pytest.mark.parametrize("unusual", ["192.0.2.1,192.0.2.2", "192.0.2.1\n192.0..."])
def test_report_prints_both_lists_if_either_is_unknown(unusual: str, shelf: Shelf) -> None:
    usual = {"id": 1, "domain": "a.example", "exclude_ips": "192.0.2.7\n192.0.2.8"}
    other = {**usual, "exclude_ips": unusual}
    shelf.take([usual], html_report=True)
    shown = unusual.replace("\n", "\\n")
    assert f"192.0.2.7, 192.0.2.8 \u2192 {shown}" in page(shelf.take([other], NIGHT, html_report=True))
    assert f"{shown} \u2192 192.0.2.7, 192.0.2.8" in page(
        shelf.take([usual], NIGHT + timedelta(days=1), html_report=True)
    )


@pytest.mark.parametrize("line", ["10/8", "192.168.*.*", "a - b"])
def test_report_prints_an_unknown_line(line: str, shelf: Shelf) -> None:
    usual = {"id": 1, "domain": "a.example", "exclude_ips": "192.0.2.7"}
    shelf.take([usual], html_report=True)
    assert f"+{line}, \u2212192.0.2.7" in page(shelf.take([{**usual, "exclude_ips": line}], NIGHT, html_report=True))
