from __future__ import annotations

import json
import operator
from datetime import date, timedelta
from functools import partial
from typing import Any

import pytest
from shelf import NIGHT, NOON, Shelf, held

from airflow_provider_analytics.snapshots import catalog
from airflow_provider_analytics.snapshots import publish as publishing
from airflow_provider_analytics.snapshots.catalog import list_snapshots, newest_snapshot
from airflow_provider_analytics.snapshots.retention import Pruning, Retention, plan_pruning, prune
from airflow_provider_analytics.storage import StoragePath, names, new_token, put_bytes

MINUTE = timedelta(minutes=1)


def latest(shelf: Shelf) -> Any:
    return json.loads(shelf.fs.cat_file(shelf.dataset.latest.path))


def test_the_catalog_says_what_is_there_and_what_is_whole(shelf: Shelf) -> None:
    assert (list_snapshots(shelf.base), newest_snapshot(shelf.base)) == ([], None)
    taken = [shelf.take(3 + night, night * NIGHT) for night in range(3)]
    others = Shelf(shelf.base, "others")
    others.take(9)
    shelf.fs.rm_file(taken[1].files[0].path)
    assert list(shelf.days(verify=False).items()) == [(22, True), (21, False), (20, True)]
    assert list_snapshots(shelf.base)[1].problems == (f"{taken[1].files[0]} is missing",)
    assert newest_snapshot(shelf.base) == taken[2]
    assert others.days() == {20: True}


def test_latest_names_the_newest_day_and_is_swapped_as_a_whole(shelf: Shelf) -> None:
    first = shelf.take(3)
    assert latest(shelf) == {
        "version": 1,
        "dataset": "websites",
        "snapshot_date": "2026-11-20",
        "observed_at": "2026-11-20T12:00:00Z",
        "late": False,
        "count": 3,
        "manifest": "_websites/dt=2026-11-20/_manifest.json",
        "digest": first.digest,
        "files": [f"websites/dt=2026-11-20/{first.files[0].name}"],
    }
    second = shelf.take(4, 3 * NIGHT)
    assert latest(shelf)["digest"] == second.digest
    # A list that is filed under an earlier day on purpose is not the newest.
    assert shelf.take(4, 3 * NIGHT, day=date(2026, 11, 21), is_late=lambda _: True).manifest.late is True
    assert latest(shelf)["digest"] == second.digest
    empty = shelf.take(0, 4 * NIGHT, accept={"count"})
    assert [latest(shelf)[name] for name in ("count", "files", "digest")] == [0, [], empty.digest]


def test_of_two_runs_at_once_the_newer_day_is_the_latest(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    newer: list[Any] = []

    def overtaken(*arguments: Any) -> None:
        if not newer:
            newer.append(None)
            newer[0] = shelf.take(3, NIGHT)
        put_bytes(*arguments)

    monkeypatch.setattr(catalog, "put_bytes", overtaken)
    shelf.take(3)
    assert latest(shelf)["digest"] == newer[0].digest


def test_a_snapshot_is_published_even_if_latest_cannot_be_written(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError("may not write")

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "put_bytes", refuse)
        first = shelf.take(3)
    assert newest_snapshot(shelf.base) == first
    assert not shelf.fs.exists(shelf.dataset.latest.path)
    assert shelf.take(3, NIGHT).digest == latest(shelf)["digest"]


DAYS = [date(2026, 1, 1) + night * NIGHT for night in range(120)]
WITH_A_PAUSE = [date(2020, 1, 1), date(2020, 1, 2), date(2020, 2, 1)]


@pytest.mark.parametrize(
    ("days", "retention", "kept"),
    [
        (DAYS, Retention(3), ["04-30", "04-29", "04-28"]),
        (DAYS, Retention(1), ["04-30"]),
        (DAYS, Retention(0, weeks=3), ["04-30", "04-26", "04-19"]),
        (DAYS, Retention(0, months=2), ["04-30", "03-31"]),
        (DAYS, Retention(2, weeks=2, months=3), ["04-30", "04-29", "04-26", "03-31", "02-28"]),
        (WITH_A_PAUSE, Retention(3), ["02-01", "01-02", "01-01"]),
        (WITH_A_PAUSE, Retention(0), ["02-01"]),
        ([], Retention(5), []),
    ],
)
def test_the_newest_of_days_weeks_and_months_is_kept(days: list[date], retention: Retention, kept: list[str]) -> None:
    assert [f"{day:%m-%d}" for day in sorted(retention.kept(days), reverse=True)] == kept


def planned(shelf: Shelf, keep_days: int, *, remove_damaged: bool = False) -> Pruning:
    return plan_pruning(shelf.dataset, Retention(keep_days), NOON + 9 * NIGHT, remove_damaged=remove_damaged)


def in_november(days: Any) -> list[int]:
    return [day.day for day in days]


def test_pruning_removes_days_as_a_whole(shelf: Shelf) -> None:
    taken = [shelf.take(3, night * NIGHT, report=True) for night in range(4)]
    pruning = planned(shelf, 2)
    assert (in_november(pruning.kept), in_november(pruning.removed)) == ([23, 22], [21, 20])
    assert len(shelf.days()) == 4  # a plan removes nothing
    prune(shelf.dataset, pruning)
    assert shelf.days() == {23: True, 22: True}
    assert held(taken[0]) == held(taken[1]) == []
    assert latest(shelf)["digest"] == taken[3].digest


def test_a_damaged_snapshot_takes_no_place_and_is_removed_on_purpose_only(shelf: Shelf) -> None:
    taken = [shelf.take(3, night * NIGHT) for night in range(5)]
    for damaged in (taken[4], taken[1]):
        shelf.fs.rm_file(damaged.files[0].path)
    pruning = planned(shelf, 1)
    assert in_november(pruning.kept) == [24, 23, 21]  # the newest, the newest whole one, and the damaged one
    assert in_november(pruning.damaged) == [24, 21]
    pruning = planned(shelf, 1, remove_damaged=True)
    assert (in_november(pruning.kept), in_november(pruning.removed)) == ([24, 23], [22, 21, 20])


def test_what_dead_runs_left_on_days_without_a_snapshot_goes(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(target: StoragePath, *arguments: Any) -> None:
        if target.name == "_manifest.json":
            raise KeyboardInterrupt
        put_bytes(target, *arguments)

    shelf.take(3)
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "put_bytes", dies)
        patch.setattr(publishing, "_remove_all", lambda *_: None)
        for night, age in ((1, 60 * MINUTE), (9, MINUTE)):
            with pytest.raises(KeyboardInterrupt):
                shelf.take(3, night * NIGHT, clock=partial(operator.sub, NOON + 9 * NIGHT, age))
    pruning = planned(shelf, 1)
    assert in_november(pruning.leftovers) == [21]  # a run may still be writing the other
    prune(shelf.dataset, pruning)
    assert [len(held(shelf.dataset.partition(date(2026, 11, day)))) for day in (21, 29)] == [0, 3]


def test_what_dead_runs_left_beside_a_snapshot_goes(shelf: Shelf) -> None:
    taken = [shelf.take(3, night * NIGHT) for night in range(3)]
    before = [names(snapshot.partition.data) for snapshot in taken]
    for snapshot in taken:
        for age in (60 * MINUTE, MINUTE):
            name = f"websites-{new_token(NOON + 9 * NIGHT - age)}.jsonl"
            shelf.fs.pipe_file((snapshot.partition.data / name).path, b"{}")
    shelf.fs.pipe_file(taken[1].partition.manifest.path, b"{")  # somebody may restore it
    pruning = planned(shelf, 2)
    assert in_november(pruning.leftovers) == [22, 20]
    prune(shelf.dataset, pruning)
    left = [names(snapshot.partition.data) for snapshot in taken]
    assert [len(found) for found in left] == [2, 3, 2]  # a run may still be writing the others
    assert all(set(old) < set(new) for old, new in zip(before, left, strict=True))
    assert shelf.days() == {22: True, 21: False, 20: True}


NO_DAYS = ["dt=2026-02-30", "dt=2026-13-01", "dt=0000-00-00", "dt=2026-11-2", "dt=\u0662\u0660\u0662\u0666-11-19"]


@pytest.mark.parametrize("beside", ["websites", "_websites"])
@pytest.mark.parametrize("name", [*NO_DAYS, "dt=x", "other"])
def test_a_folder_that_is_no_day_is_ignored(shelf: Shelf, beside: str, name: str) -> None:
    first = shelf.take(3)
    foreign = shelf.base / beside / name
    shelf.fs.makedirs(foreign.path, exist_ok=True)
    shelf.fs.pipe_file((foreign / "_SUCCESS").path, b"x")
    shelf.take(3, NIGHT)
    assert shelf.days() == {21: True, 20: True}
    prune(shelf.dataset, planned(shelf, 1))
    assert (shelf.days(), held(first), names(foreign)) == ({21: True}, [], ["_SUCCESS"])


def test_a_folder_of_a_day_counts_if_it_has_data_or_a_manifest(shelf: Shelf) -> None:
    assert shelf.dataset.days() == []
    for folder in ("websites/dt=2026-11-19", "_websites/dt=2026-11-20"):
        shelf.fs.makedirs((shelf.base / folder).path, exist_ok=True)
        shelf.fs.pipe_file((shelf.base / folder / "file").path, b"x")
    assert in_november(shelf.dataset.days()) == [20, 19]
    partition = shelf.dataset.partition(date(2026, 1, 2))
    assert str(partition.data) == f"{shelf.base}/websites/dt=2026-01-02"
    assert str(partition.manifest) == f"{shelf.base}/_websites/dt=2026-01-02/_manifest.json"


@pytest.mark.parametrize("name", ["_websites", ".websites", "Websites", "a/b", "", "a" * 65, "dt=2026", None])
def test_a_dataset_has_a_name_that_every_reader_takes_for_data(name: Any) -> None:
    with pytest.raises(ValueError, match=r"dataset=.* is not allowed; allowed: 1 to 64 of"):
        Shelf("/tmp", name)
