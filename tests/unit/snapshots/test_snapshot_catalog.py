# SPDX-License-Identifier: Apache-2.0
"""Catalog of snapshots: days, the pointer to the newest day, and damage (``snapshots/catalog.py``).

A damaged snapshot does not stop the next one, and nothing unreadable is published.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from shelf import DAY, HOUR, NIGHT, NOON, Record, Shelf, held, websites

from airflow_provider_analytics.exceptions import GuardError, StorageError
from airflow_provider_analytics.snapshots import catalog
from airflow_provider_analytics.snapshots.catalog import Snapshot, list_snapshots, newest_snapshot, read_snapshot
from airflow_provider_analytics.snapshots.diff import diff_snapshots
from airflow_provider_analytics.snapshots.formats import FORMATS
from airflow_provider_analytics.snapshots.retention import Retention, plan_pruning, prune
from airflow_provider_analytics.storage import names, put_bytes

MINUTE = timedelta(minutes=1)


def latest(shelf: Shelf) -> Any:
    return json.loads(shelf.fs.cat_file(shelf.series.latest.path))


def test_catalog_lists_snapshots_and_their_completeness(shelf: Shelf) -> None:
    assert (list_snapshots(shelf.base), newest_snapshot(shelf.base)) == ([], None)
    taken = [shelf.take(3 + night, night * NIGHT) for night in range(3)]
    others = Shelf(shelf.base, "others")
    others.take(9)
    shelf.fs.rm_file(taken[1].files[0].path)
    assert list(shelf.days(verify=False).items()) == [(22, True), (21, False), (20, True)]
    assert list_snapshots(shelf.base)[1].problems == (f"{taken[1].files[0]} is missing",)
    assert newest_snapshot(shelf.base) == taken[2]
    assert others.days() == {20: True}


def test_latest_names_the_newest_day(shelf: Shelf) -> None:
    first = shelf.take(3)
    about = {
        "version": 1,
        "snapshot_name": "websites",
        "observed_at": "2026-11-20T12:00:00Z",
        "late": False,
        "count": 3,
    }
    about |= {"snapshot_date": "2026-11-20", "digest": first.digest}
    manifest, files = "_websites/dt=2026-11-20/_manifest.json", [f"websites/dt=2026-11-20/{first.files[0].name}"]
    assert latest(shelf) == {**about, "manifest": manifest, "files": files}
    second = shelf.take(4, 3 * NIGHT)
    # A list that is deliberately filed under an earlier day is not the newest.
    assert shelf.take(4, 3 * NIGHT, day=date(2026, 11, 21), is_late=lambda _: True).manifest.late is True
    assert latest(shelf)["digest"] == second.digest
    empty = shelf.take(0, 4 * NIGHT, override_guards={"fewer_websites"})
    assert [latest(shelf)[name] for name in ("count", "files", "digest")] == [0, [], empty.digest]


def test_newer_day_of_two_simultaneous_runs_is_the_latest(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    newer: list[Any] = []

    def overtaken(*arguments: Any) -> None:
        if not newer:
            newer.append(None)
            newer[0] = shelf.take(3, NIGHT)
        put_bytes(*arguments)

    monkeypatch.setattr(catalog, "put_bytes", overtaken)
    shelf.take(3)
    assert latest(shelf)["digest"] == newer[0].digest


def test_snapshot_is_published_even_if_latest_cannot_be_written(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*_: Any) -> None:
        raise PermissionError("may not write")

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "put_bytes", reject)
        first = shelf.take(3)
    assert newest_snapshot(shelf.base) == first
    assert not shelf.fs.exists(shelf.series.latest.path)
    assert shelf.take(3, NIGHT).digest == latest(shelf)["digest"]


NO_DAYS = ["dt=2026-02-30", "dt=0000-00-00", "dt=2026-11-2", "dt=\u0662\u0660\u0662\u0666-11-19", "dt=x", "other"]


def test_folder_of_a_day_counts_if_it_has_data_or_a_manifest(shelf: Shelf) -> None:
    for folder in ("websites/dt=2026-11-19", "_websites/dt=2026-11-20"):
        shelf.fs.makedirs((shelf.base / folder).path, exist_ok=True)
        shelf.fs.pipe_file((shelf.base / folder / "file").path, b"x")
    assert [day.day for day in shelf.series.days()] == [20, 19]
    first = shelf.take(3)
    foreign = [shelf.base / beside / name for beside in ("websites", "_websites") for name in NO_DAYS]
    for path in foreign:
        shelf.fs.makedirs(path.path, exist_ok=True)
        shelf.fs.pipe_file((path / "_SUCCESS").path, b"x")
    shelf.take(3, NIGHT)
    assert shelf.days() == {21: True, 20: True}
    prune(shelf.series, plan_pruning(shelf.series, Retention(1), NOON, remove_damaged=False))
    assert (shelf.days(), held(first)) == ({21: True}, ["file"])
    assert [names(folder) for folder in foreign] == [["_SUCCESS"]] * len(foreign)


@pytest.mark.parametrize("name", ["_websites", ".websites", "Websites", "a/b", "", "a" * 65, "dt=2026", None])
def test_snapshot_name_is_rejected_if_a_reader_would_misread_its_folder(name: Any) -> None:
    with pytest.raises(ValueError, match=r"snapshot_name=.* is not allowed. Allowed: 1 to 64 of"):
        Shelf("/tmp", name)


OF_DATA = {
    "missing": None,
    "truncated": lambda content: content[: len(content) // 2],
    "another digest": lambda content: content.replace(b"site-1.", b"site-x."),
}
OF_MANIFEST = ["manifest missing", "", "{", "[]", '{"version": 1}', '{"version": "one"}']


def damage(snapshot: Snapshot, how: str) -> None:
    fs = snapshot.partition.data.fs
    path = snapshot.files[0].path if how in OF_DATA else snapshot.partition.manifest.path
    if how.endswith("missing"):
        fs.rm_file(path)
    else:
        fs.pipe_file(path, OF_DATA[how](fs.cat_file(path)) if how in OF_DATA else how.encode())  # type: ignore[misc]


@pytest.mark.parametrize("how", [*OF_DATA, *OF_MANIFEST])
def test_damage_does_not_stop_the_next_night_and_is_replaced_on_the_same_day(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    damage(shelf.take(20), how)
    with caplog.at_level(logging.WARNING):
        second = shelf.take(20, NIGHT, html_report=True)
    assert (second.manifest.is_first, second.manifest.previous, second.manifest.changes_path) == (False, None, None)
    assert sum(1 for _ in second.rows()) == 20
    [said] = caplog.messages
    assert "2026-11-20" in said[:90]
    assert diff_snapshots(shelf.series)["previous"] is None
    assert shelf.days() == {21: True, 20: False}
    assert shelf.take(20, 2 * NIGHT).manifest.previous is not None
    shelf.take(20, 2 * NIGHT + HOUR, day=DAY)
    assert shelf.days() == {22: True, 21: True, 20: True}
    assert shelf.count() == 20


def test_damage_that_keeps_the_size_is_found_only_by_reading_the_files(shelf: Shelf) -> None:
    damage(shelf.take(20), "another digest")
    assert (shelf.days(verify=False), shelf.days(verify=True)) == ({20: True}, {20: False})


@pytest.mark.parametrize(
    ("how", "compression"), [("missing", None), ("truncated", None), ("truncated", "gzip"), ("another digest", None)]
)
def test_reader_never_gets_a_row_of_a_damaged_file(shelf: Shelf, how: str, compression: str | None) -> None:
    damage(shelf.take(20, compression=compression), how)
    read = shelf.read()
    assert read is not None
    with pytest.raises(
        StorageError, match="Cannot read" if how == "missing" else "is damaged: its SHA-256 differs"
    ) as caught:
        next(read.rows())
    assert caught.value.remedy
    assert len(read.problems()) == 1


@pytest.mark.parametrize("more", [b"x", b""])
def test_file_with_another_size_is_damaged_without_reading_it(shelf: Shelf, more: bytes) -> None:
    taken = shelf.take(3)
    file = taken.files[0]
    content = shelf.fs.cat_file(file.path)
    shelf.fs.pipe_file(file.path, content + more if more else content[:-1])
    [problem] = taken.problems(verify=False)
    found = len(content) + (1 if more else -1)
    assert f"{file} is damaged: it has {found:,} bytes instead of {len(content):,}" in problem
    assert shelf.days(verify=False) == {20: False}


def test_manifest_of_another_day_is_damage(shelf: Shelf) -> None:
    first, second = shelf.take(3), shelf.take(4, NIGHT)
    shelf.fs.pipe_file(second.partition.manifest.path, shelf.fs.cat_file(first.partition.manifest.path))
    assert list_snapshots(shelf.base)[0].problems == (
        f"{second.partition.manifest} is damaged: it is the manifest of 2026-11-20. Restore it from a copy. "
        "On its own day, you can also take the snapshot again.",
    )


ODD: list[Record] = [
    {"domain": "a\rb.example"},
    {"domain": "a\r\nb.example", "exclude_params": "\r", "exclude_ips": "a\rb"},
    {"domain": 'b\u00fccher"b,c', "exclude_params": 'quote"d\ncomma,d\n=1+1', "exclude_ips": "192.0.2.1\n2001:db8::1"},
    {"favorite": True, "note": "line\u2028separator\r\nand \x00 nul \U0001f600"},
    {"domain": "\x00"},
    {"privacy": 2**70, "email": 2**70, "exclude_bots": -(2**70), "favorite": 2**70},
    {"privacy": 1e300, "email": float("nan"), "more": [float("inf"), {"deep": float("-inf")}]},
    {"domain": {"name": "a.example"}, "exclude_ips": {"a": ["b"]}, "exclude_params": [1, None], "favorite": []},
    {"domain": None, "privacy": None, "record": "x", "snapshot_date": "x", "observed_at": 1, "record_hash": [1]},
    {"id": 2**70},
    {"id": "a\rb", "domain": "\u2028"},
]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("odd", ODD, ids=ascii)
@pytest.mark.chosen(26)
@pytest.mark.long
def test_records_are_published_read_back_equal_and_compared(local: Shelf, odd: Record, file_format: str) -> None:
    records = [{"id": 3} | odd, *websites(2)]
    expected = list(Shelf(local.base, "plain").take(records).rows())
    found = list(local.take(records, format=file_format, html_report=True).rows())
    for row in found:
        json.loads(row["record"], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    if file_format == "csv":  # does not distinguish null from empty text
        expected = [{name: None if value == "" else value for name, value in row.items()} for row in expected]
    assert found == expected
    override_guards = {"missing_fields"}
    assert (
        local.take(3, NIGHT, format=file_format, html_report=True, override_guards=override_guards).manifest.previous
        is not None
    )


def nested(levels: int) -> str:
    """Return JSON with this depth of nesting."""
    return "[" * levels + "]" * levels


def forged_rows(snapshot: Snapshot, change: Callable[[Record], object]) -> None:
    """Add a change to each row of the snapshot, and update its digest in the manifest."""
    fs, file, manifest = snapshot.partition.data.fs, snapshot.files[0].path, snapshot.partition.manifest.path
    rows = [json.loads(line) for line in fs.cat_file(file).splitlines()]
    content = "".join(f"{json.dumps(changed if (changed := change(row)) else row)}\n" for row in rows).encode()
    stored = json.loads(fs.cat_file(manifest))
    stored["files"][0] |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    fs.pipe_file(file, content)
    fs.pipe_file(manifest, json.dumps(stored).encode())


FORGED: dict[str, Callable[[Record], object]] = {
    "nested 600 levels": lambda row: row.update(record='{"id": 1, "privacy": ' + nested(600) + "}", record_hash="x"),
    "nested 6,000 levels": lambda row: row.update(record='{"id": 1, "a": ' + nested(6000) + "}", record_hash="x"),
    "nested in a field": lambda row: row.update(domain=json.loads(nested(300)), record_hash="x"),
    "no id": lambda row: row.pop("id"),
    "an id that is a list": lambda row: row.update(id=["a"]),
    "half a pair as id": lambda row: row.update(id="\ud800"),
    "no record": lambda row: row.pop("record") and None,
    "no hash": lambda row: row.pop("record_hash") and None,
    "a record that is a number": lambda row: row.update(record="7", record_hash="x"),
    "a record that is no text": lambda row: row.update(record={"id": 1}, record_hash="x"),
    "a record that is not JSON": lambda row: row.update(record="{", record_hash="x"),
    "a number of 5,000 digits": lambda row: row.update(record='{"id": ' + "1" * 5000 + "}", record_hash="x"),
    "a domain that is a list": lambda row: row.update(record='{"id": 1, "domain": []}', record_hash=7),
    "a row that is a list": lambda row: [row],
    "a row that is a number": lambda row: 7,
    "half a pair in a record": lambda row: row.update(
        record=row["record"].replace("{", '{"note": "\\ud800", ', 1), record_hash="x"
    ),
}


#: These characters are in no compared value.
HARMLESS = ("a domain that is a list", "nested in a field", "half a pair in a record")


@pytest.mark.parametrize("forged", FORGED)
def test_forged_rows_are_read_or_reported_as_damage(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, forged: str
) -> None:
    forged_rows(shelf.take(20), FORGED[forged])
    read = shelf.read()
    assert read is not None
    with suppress(StorageError):
        for row in read.rows():
            assert isinstance(row["id"], str)
    with caplog.at_level(logging.WARNING):
        second = shelf.take(20, NIGHT, html_report=True)
    if forged in HARMLESS:
        return
    assert (second.manifest.is_first, second.manifest.previous) == (False, None)
    assert "The snapshot of 2026-11-20 was not compared" in caplog.text
    assert diff_snapshots(shelf.series)["previous"] is None
    with pytest.raises(StorageError, match="is damaged"):
        diff_snapshots(shelf.series, previous=NOON.date())
    assert shelf.take(20, NIGHT + HOUR, day=DAY).manifest.replaced_snapshot is None


@pytest.mark.parametrize("place", ["manifest", "data"])
def test_pipe_in_the_place_of_a_file_is_reported_as_damage(
    local: Shelf, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    first = local.take(20)
    path = Path((first.partition.manifest if place == "manifest" else first.files[0]).path)
    path.unlink()
    os.mkfifo(path)
    with caplog.at_level(logging.WARNING):
        second = local.take(20, NIGHT)
    assert second.manifest.previous is None
    assert "a device or a pipe" in caplog.text
    assert local.days() == {21: True, 20: False}


@pytest.mark.parametrize(
    "change",
    [
        {"changes_path": "../../../../secret"},
        {"changes_path": "/etc/passwd"},
        {"changes_path": ".."},
        {"report": "a/b.html"},
        {"files": [{"path": "../../secret", "rows": 1, "bytes": 7, "sha256": "x"}]},
        {"files": [{"path": "websites/dt=2026-11-20/..", "rows": 1, "bytes": 7, "sha256": "x"}]},
        {"files": [{"path": "/secret", "rows": 1, "bytes": 7, "sha256": "x"}]},
        {"files": [{"path": "websites/dt=2026-11-19/a.jsonl", "rows": 1, "bytes": 7, "sha256": "x"}]},
        {"snapshot_name": "..", "files": [{"path": "../dt=2026-11-20/a.jsonl", "rows": 1, "bytes": 7, "sha256": "x"}]},
        {"snapshot_name": "a/b", "files": []},
        {"source": {"url": "https://stats.example.com:1234567", "account_id": "1"}},
        {"filters": {"search": json.loads(nested(500))}},
        {"snapshot_name": "DEEP"},
    ],
)
def test_forged_manifest_is_damage_and_names_no_file_outside_its_folders(local: Shelf, change: Record) -> None:
    first = local.take(20)
    (Path(local.base.path) / "secret").write_text('{"a": "secret"}\n')
    manifest = Path(first.partition.manifest.path)
    text = json.dumps(json.loads(manifest.read_text()) | change)
    manifest.write_text(text.replace('"DEEP"', nested(100_000)))
    if "source" in change or "filters" in change:
        with pytest.raises(GuardError, match="is of another list"):
            local.take(20, NIGHT)
        return
    with pytest.raises(StorageError, match="is damaged"):
        local.read()
    assert local.take(20, NIGHT).manifest.previous is None


def test_changes_that_are_not_json_are_damage(local: Shelf) -> None:
    local.take(20)
    second = local.take(19, NIGHT)
    assert second.manifest.changes_path
    Path((second.partition.about / second.manifest.changes_path).path).write_text("{")
    with pytest.raises(StorageError, match="is damaged"):
        second.changes()


def test_base_path_must_be_text(tmp_path: Path) -> None:
    Shelf(str(tmp_path)).take(3)
    for base in (str(tmp_path), f"file://{tmp_path}"):
        assert Shelf(base).count() == 3
    assert read_snapshot(str(tmp_path), "2026-11-20", "another") is None
    with pytest.raises(ValueError, match="Allowed: YYYY-MM-DD"):
        read_snapshot(str(tmp_path), "yesterday")
    with pytest.raises(ValueError, match=r"day=.* is not allowed. Allowed: a date"):
        read_snapshot(str(tmp_path), NOON)  # a point in time has different days in different time zones


def test_reader_does_not_compare_the_manifest_with_the_digest_in_success(local: Shelf) -> None:
    """As docs/internals/architecture.md says."""
    taken = local.take(3)
    path = Path(taken.partition.manifest.path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "count": 99}))
    read = local.read()
    assert read is not None
    assert read.manifest.count == 99
    assert read.digest != Path(taken.partition.success.path).read_text()
    assert local.days() == {20: True}


@pytest.mark.parametrize("day", [None, 7, ""])
def test_value_that_is_no_day_is_refused(shelf: Shelf, day: Any) -> None:
    with pytest.raises(ValueError, match=r"is not a date\. Allowed: YYYY-MM-DD"):
        shelf.read(day)
