from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_analytics.snapshots import catalog
from airflow_provider_analytics.snapshots import publish as publishing
from airflow_provider_analytics.snapshots.catalog import Dataset, list_snapshots, newest_snapshot
from airflow_provider_analytics.snapshots.retention import Pruning, Retention, plan_pruning, prune
from airflow_provider_analytics.storage import StoragePath, names, new_token, put_bytes

Make = Callable[..., Any]
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NIGHT = timedelta(days=1)


def latest(base: StoragePath) -> Any:
    return json.loads(base.fs.cat_file((base / "_websites" / "_latest.json").path))


def test_the_catalog_says_what_is_there_and_what_is_whole(take: Make, make_websites: Make, base: StoragePath) -> None:
    assert list_snapshots(base) == []
    assert newest_snapshot(base) is None
    taken = [take(base, make_websites(3 + night), NOON + night * NIGHT) for night in range(3)]
    take(base, make_websites(9), NOON, dataset="others")
    base.fs.rm_file(taken[1].files[0].path)
    found = list_snapshots(base)
    assert [entry.day.day for entry in found] == [22, 21, 20]
    assert [entry.is_whole for entry in found] == [True, False, True]
    assert found[1].problems == (f"{taken[1].files[0]} is missing",)
    assert newest_snapshot(base) == taken[2]
    assert [entry.day.day for entry in list_snapshots(base, "others")] == [20]


def test_latest_names_the_newest_day_and_is_swapped_as_a_whole(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    first = take(base, make_websites(3))
    assert latest(base) == {
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
    second = take(base, make_websites(4), NOON + 3 * NIGHT)
    assert latest(base)["digest"] == second.digest
    # A list that is filed under an earlier day on purpose is not the newest.
    labelled = take(base, make_websites(4), NOON + 3 * NIGHT, day=date(2026, 11, 21), is_late=lambda _: True)
    assert labelled.manifest.late is True
    assert latest(base)["digest"] == second.digest
    empty = take(base, [], NOON + 4 * NIGHT, accept=frozenset({"count"}))
    assert (latest(base)["count"], latest(base)["files"], latest(base)["digest"]) == (0, [], empty.digest)


def test_of_two_runs_at_once_the_newer_day_is_the_latest(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer: list[Any] = []

    def overtaken(target: StoragePath, content: bytes, *rest: Any) -> None:
        if not newer:
            newer.append(None)
            newer[0] = take(base, make_websites(3), NOON + NIGHT)
        put_bytes(target, content, *rest)

    monkeypatch.setattr(catalog, "put_bytes", overtaken)
    take(base, make_websites(3))
    assert latest(base)["digest"] == newer[0].digest


def test_a_snapshot_is_published_even_if_latest_cannot_be_written(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError("may not write")

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "put_bytes", refuse)
        first = take(base, make_websites(3))
    assert newest_snapshot(base) == first
    assert not base.fs.exists((base / "_websites" / "_latest.json").path)
    second = take(base, make_websites(3), NOON + NIGHT)
    assert latest(base)["digest"] == second.digest


DAYS = [date(2026, 1, 1) + night * NIGHT for night in range(120)]


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention(3), ["04-30", "04-29", "04-28"]),
        (Retention(1), ["04-30"]),
        (Retention(0, weeks=3), ["04-30", "04-26", "04-19"]),
        (Retention(0, months=2), ["04-30", "03-31"]),
        (Retention(2, weeks=2, months=3), ["04-30", "04-29", "04-26", "03-31", "02-28"]),
    ],
)
def test_the_newest_of_days_weeks_and_months_is_kept(retention: Retention, kept: list[str]) -> None:
    assert [f"{day:%m-%d}" for day in sorted(retention.kept(DAYS), reverse=True)] == kept


def test_nothing_expires_in_a_pause() -> None:
    days = [date(2020, 1, 1), date(2020, 1, 2), date(2020, 2, 1)]
    assert Retention(3).kept(days) == set(days)
    assert Retention(0).kept(days) == {days[-1]}
    assert Retention(5).kept([]) == set()


def planned(base: StoragePath, retention: Retention, **arguments: Any) -> Pruning:
    return plan_pruning(Dataset(base), retention, NOON + 9 * NIGHT, **{"remove_damaged": False} | arguments)


def test_pruning_removes_days_as_a_whole(take: Make, make_websites: Make, base: StoragePath) -> None:
    taken = [take(base, make_websites(3), NOON + night * NIGHT, report=True) for night in range(4)]
    pruning = planned(base, Retention(2))
    assert [day.day for day in pruning.kept] == [23, 22]
    assert [day.day for day in pruning.removed] == [21, 20]
    assert len(list_snapshots(base)) == 4  # a plan removes nothing
    prune(Dataset(base), pruning)
    assert [(entry.day.day, entry.is_whole) for entry in list_snapshots(base)] == [(23, True), (22, True)]
    for gone in taken[:2]:
        assert names(gone.partition.data) == names(gone.partition.about) == []
    assert latest(base)["digest"] == taken[3].digest


def test_a_damaged_snapshot_takes_no_place_and_is_removed_on_purpose_only(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    taken = [take(base, make_websites(3), NOON + night * NIGHT) for night in range(5)]
    for damaged in (taken[4], taken[1]):
        base.fs.rm_file(damaged.files[0].path)
    pruning = planned(base, Retention(1))
    assert [day.day for day in pruning.kept] == [24, 23, 21]  # the newest, the newest whole one, and the damaged one
    assert [day.day for day in pruning.damaged] == [24, 21]
    pruning = planned(base, Retention(1), remove_damaged=True)
    assert [day.day for day in pruning.kept] == [24, 23]
    assert [day.day for day in pruning.removed] == [22, 21, 20]


def test_what_dead_runs_left_on_days_without_a_snapshot_goes(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(target: StoragePath, *arguments: Any) -> None:
        if target.name == "_manifest.json":
            raise KeyboardInterrupt
        put_bytes(target, *arguments)

    take(base, make_websites(3))
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "put_bytes", dies)
        patch.setattr(publishing, "_remove_all", lambda *_: None)
        for night, age in ((1, timedelta(hours=1)), (9, timedelta(minutes=1))):
            with pytest.raises(KeyboardInterrupt):
                take(base, make_websites(3), NOON + night * NIGHT, clock=lambda age=age: NOON + 9 * NIGHT - age)
    pruning = planned(base, Retention(1))
    assert [day.day for day in pruning.leftovers] == [21]  # a run may still be writing the other
    prune(Dataset(base), pruning)
    for folder in ("websites", "_websites"):
        assert names(base / folder / "dt=2026-11-21") == []
    assert len(names(base / "websites" / "dt=2026-11-29")) == 1


def test_what_dead_runs_left_beside_a_snapshot_goes(take: Make, make_websites: Make, base: StoragePath) -> None:
    taken = [take(base, make_websites(3), NOON + night * NIGHT) for night in range(3)]
    before = [names(snapshot.partition.data) for snapshot in taken]
    for snapshot in taken:
        for age in (timedelta(hours=1), timedelta(minutes=1)):
            name = f"websites-{new_token(NOON + 9 * NIGHT - age)}.jsonl"
            base.fs.pipe_file((snapshot.partition.data / name).path, b"{}")
    base.fs.pipe_file(taken[1].partition.manifest.path, b"{")  # somebody may restore it
    pruning = planned(base, Retention(2))
    assert [day.day for day in pruning.leftovers] == [22, 20]
    prune(Dataset(base), pruning)
    left = [names(snapshot.partition.data) for snapshot in taken]
    assert [len(found) for found in left] == [2, 3, 2]  # a run may still be writing the others
    assert all(set(old) < set(new) for old, new in zip(before, left, strict=True))
    assert [entry.is_whole for entry in list_snapshots(base, verify=True)] == [True, False, True]


@pytest.mark.parametrize("beside", ["websites", "_websites"])
@pytest.mark.parametrize(
    "name",
    ["dt=2026-02-30", "dt=2026-13-01", "dt=0000-00-00", "dt=2026-11-2", "dt=\u0662\u0660\u0662\u0666-11-19", "dt=x"],
)
def test_a_folder_that_is_no_day_is_ignored(
    take: Make, make_websites: Make, base: StoragePath, beside: str, name: str
) -> None:
    first = take(base, make_websites(3))
    foreign = base / beside / name
    base.fs.makedirs(foreign.path, exist_ok=True)
    base.fs.pipe_file((foreign / "_SUCCESS").path, b"x")
    second = take(base, make_websites(3), NOON + NIGHT)
    assert [entry.day.day for entry in list_snapshots(base)] == [21, 20]
    prune(Dataset(base), planned(base, Retention(1)))
    assert list_snapshots(base)[0].snapshot == second
    assert names(first.partition.data) == []
    assert names(foreign) == ["_SUCCESS"]
