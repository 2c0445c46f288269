# SPDX-License-Identifier: Apache-2.0
"""Catalog of snapshots: days, completeness, and the pointer to the newest day (``snapshots/catalog.py``)."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import pytest
from shelf import NIGHT, NOON, Shelf, held

from airflow_provider_analytics.snapshots import catalog
from airflow_provider_analytics.snapshots.catalog import list_snapshots, newest_snapshot
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
