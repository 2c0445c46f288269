# SPDX-License-Identifier: Apache-2.0
"""Retention: pruning removes only its own files, also beside other programs' files (``snapshots/retention.py``)."""

from __future__ import annotations

import logging
import operator
import shutil
from collections.abc import Iterable
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from shelf import NIGHT, NOON, Shelf, held
from upath import UPath

from airflow_provider_analytics.exceptions import GuardError, StorageError
from airflow_provider_analytics.snapshots import publish as publishing
from airflow_provider_analytics.snapshots.catalog import list_snapshots
from airflow_provider_analytics.snapshots.retention import Pruning, Retention, plan_pruning, prune
from airflow_provider_analytics.storage import StoragePath, make_directory, names, new_token, put_bytes

MINUTE = timedelta(minutes=1)
LATER = NOON + 9 * NIGHT
DAYS = [date(2026, 1, 1) + night * NIGHT for night in range(120)]
NEW_YEAR = [date(2026, 12, 20) + night * NIGHT for night in range(22)]
WITH_A_PAUSE = [date(2020, 1, 1), date(2020, 1, 2), date(2020, 2, 1)]


@pytest.mark.parametrize(
    ("days", "retention", "kept"),
    [
        (DAYS, Retention(3), ["04-30", "04-29", "04-28"]),
        (DAYS, Retention(0, weeks=3), ["04-30", "04-26", "04-19"]),
        (DAYS, Retention(0, months=2), ["04-30", "03-31"]),
        (DAYS, Retention(2, weeks=2, months=3), ["04-30", "04-29", "04-26", "03-31", "02-28"]),
        # 1 to 3 January 2027 belong to week 53 of 2026.
        (NEW_YEAR, Retention(0, weeks=3), ["01-10", "01-03", "12-27"]),
        (NEW_YEAR, Retention(0, months=2), ["01-10", "12-31"]),
        ([date(2025, 1, 6), date(2026, 1, 5)], Retention(0, weeks=2), ["01-06", "01-05"]),
        ([date(2025, 1, 6), date(2026, 1, 5)], Retention(0, months=2), ["01-06", "01-05"]),
        (WITH_A_PAUSE, Retention(3), ["02-01", "01-02", "01-01"]),
        (WITH_A_PAUSE, Retention(0), ["02-01"]),
        ([], Retention(5), []),
    ],
)
def test_prune_keeps_the_newest_of_days_weeks_and_months(
    days: list[date], retention: Retention, kept: list[str]
) -> None:
    found = sorted(retention.kept(days), reverse=True)
    assert sorted(f"{day:%m-%d}" for day in found) == sorted(kept)


def planned(shelf: Shelf, keep_days: int, *, remove_damaged: bool = False) -> Pruning:
    return plan_pruning(shelf.series, Retention(keep_days), LATER, remove_damaged=remove_damaged)


def pruned(shelf: Shelf, keep_days: int, **options: Any) -> Pruning:
    pruning = planned(shelf, keep_days, **options)
    prune(shelf.series, pruning)
    return pruning


def numbers(days: Iterable[date]) -> list[int]:
    return [day.day for day in days]


def test_damaged_snapshot_does_not_count_and_is_removed_only_on_request(shelf: Shelf) -> None:
    taken = [shelf.take(3, night * NIGHT) for night in range(5)]
    for damaged in (taken[4], taken[1]):
        shelf.fs.rm_file(damaged.files[0].path)
    pruning = planned(shelf, 1)
    assert numbers(pruning.kept) == [24, 23, 21]  # the newest, the newest complete one, and the damaged one
    assert numbers(pruning.damaged) == [24, 21]
    pruning = planned(shelf, 1, remove_damaged=True)
    assert (numbers(pruning.kept), numbers(pruning.removed)) == ([24, 23], [22, 21, 20])


def die_before_the_manifest(target: StoragePath, *arguments: Any) -> None:
    if target.name == "_manifest.json":
        raise KeyboardInterrupt
    put_bytes(target, *arguments)


def test_orphaned_files_on_days_without_a_snapshot_are_removed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.take(3)
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "put_bytes", die_before_the_manifest)
        patch.setattr(publishing, "_remove_all", lambda *_: None)
        for night, age in ((1, 60 * MINUTE), (9, MINUTE)):
            with pytest.raises(KeyboardInterrupt):
                shelf.take(3, night * NIGHT, clock=partial(operator.sub, LATER, age))
    assert numbers(pruned(shelf, 1).orphaned_files) == [21]  # a run might still be writing the other
    assert [len(held(shelf.series.partition(date(2026, 11, day)))) for day in (21, 29)] == [0, 3]


def test_orphaned_files_beside_a_snapshot_are_removed(shelf: Shelf) -> None:
    taken = [shelf.take(3, night * NIGHT) for night in range(3)]
    before = [names(snapshot.partition.data) for snapshot in taken]
    for snapshot in taken:
        for age in (60 * MINUTE, MINUTE):
            name = f"websites-{new_token(LATER - age)}.jsonl"
            shelf.fs.pipe_file((snapshot.partition.data / name).path, b"{}")
    shelf.fs.pipe_file(taken[1].partition.manifest.path, b"{")  # a person might restore it
    assert numbers(pruned(shelf, 2).orphaned_files) == [22, 20]
    left = [names(snapshot.partition.data) for snapshot in taken]
    assert [len(found) for found in left] == [2, 3, 2]  # a run might still be writing the others
    assert all(set(old) < set(new) for old, new in zip(before, left, strict=True))
    assert shelf.days() == {22: True, 21: False, 20: True}


@pytest.fixture(scope="module")
def five_snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("five") / "base"
    shelf = Shelf(StoragePath.of(UPath(folder)))
    for night in range(5):
        shelf.take(3, night * NIGHT, html_report=True)
    return folder


@pytest.fixture
def base(local: Shelf, five_snapshots: Path) -> Path:
    """The base path of five snapshots, of the 20th to the 24th."""
    return Path(shutil.copytree(five_snapshots, local.base.path))


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_table_in_the_same_folder_is_kept(local: Shelf, base: Path) -> None:
    for day in ("2025-12-31", "2026-11-20", "2026-12-01"):
        folder = base / "websites" / f"dt={day}"
        (folder / "sub").mkdir(parents=True)
        for name in ("part-00000.parquet", "_SUCCESS", "websites.csv", "_manifest.json", "sub/part-00001.parquet"):
            (folder / name).write_bytes(b"of another job")
    pruning = pruned(local, 2)
    assert (numbers(pruning.removed), numbers(pruning.unknown)) == ([22, 21, 20], [1, 31])
    assert sum(content == b"of another job" for content in files_below(base).values()) == 3 * 5
    assert local.days() == {24: True, 23: True}


def test_comparison_is_removed_beside_its_manifest_only(local: Shelf, base: Path) -> None:
    name = "_since-2026-11-19.jsonl"
    for part in ("websites", "_websites"):
        (base / part / "dt=2026-11-20" / name).write_text("{}")
    pruned(local, 2)
    left = [path for path in files_below(base) if path.endswith(name)]
    assert left == [f"websites/dt=2026-11-20/{name}"]


def test_files_without_a_manifest_are_rejected_and_kept(local: Shelf, base: Path) -> None:
    """A history that was copied without its manifests, or another table."""
    shutil.rmtree(base / "_websites")
    before = files_below(base)
    with pytest.raises(GuardError, match=r"(?s)Nothing was removed.*copy _websites as well.*use another snapshot_name"):
        pruned(local, 2)
    assert files_below(base) == before


@pytest.mark.parametrize("linked", ["websites", "_websites"])
def test_dataset_behind_a_link_is_rejected(linked: str, local: Shelf, base: Path, tmp_path: Path) -> None:
    (base / linked).rename(tmp_path / "elsewhere")
    (base / linked).symlink_to(tmp_path / "elsewhere")
    before = files_below(tmp_path / "elsewhere")
    with pytest.raises(GuardError, match="is a symbolic link"):
        pruned(local, 2)
    assert files_below(tmp_path / "elsewhere") == before


def test_draft_without_files_is_removed_once_its_run_must_be_dead(shelf: Shelf) -> None:
    empty = shelf.take([])
    content = shelf.fs.cat_file(empty.partition.manifest.path)
    about = shelf.series.partition(date(2026, 11, 21)).about
    make_directory(about)
    for age in (60 * MINUTE, MINUTE):
        shelf.fs.pipe_file((about / f"_manifest-{new_token(LATER - age)}.json").path, content)
    young = names(about)[-1]
    pruned(shelf, 1)
    assert names(about) == [young]


def test_leftovers_remain_if_the_data_of_their_day_is_behind_a_link(local: Shelf, base: Path, tmp_path: Path) -> None:
    data = base / "websites" / "dt=2026-11-20"
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    leftover = base / "_websites" / "dt=2026-11-20" / f"_changes-{new_token(NOON)}.jsonl"
    leftover.touch()
    pruned(local, 3)
    assert leftover.exists()


@pytest.mark.parametrize("part", ["websites", "_websites"])
@pytest.mark.parametrize("day", [20, 19])
def test_files_behind_a_link_are_kept(day: int, part: str, local: Shelf, base: Path, tmp_path: Path) -> None:
    folder, elsewhere = base / part / f"dt=2026-11-{day}", tmp_path / "elsewhere"
    shutil.copytree(base / part / "dt=2026-11-20", elsewhere)
    shutil.rmtree(folder, ignore_errors=True)
    folder.symlink_to(elsewhere)
    (elsewhere / "mine.txt").write_text("x")
    # A file that was replaced by a link is not followed either.
    [data] = (base / "websites" / "dt=2026-11-22").iterdir()
    data.rename(tmp_path / "data")
    data.symlink_to(tmp_path / "data")
    before = files_below(elsewhere)
    pruning = pruned(local, 2)
    assert numbers(pruning.removed) == [item for item in (22, 21, 20) if item != day]
    assert day in numbers(pruning.unknown)
    assert files_below(elsewhere) == before
    assert [path.is_symlink() for path in (folder, data)] == [True, True]
    assert (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["../../../victim", "..", "mine.txt", "/etc/hostname"])
def test_forged_manifest_removes_only_files_of_its_own_folder(
    name: str, local: Shelf, base: Path, tmp_path: Path
) -> None:
    (tmp_path / "victim").write_text("x")
    manifest = base / "_websites" / "dt=2026-11-20" / "_manifest.json"
    [report] = manifest.parent.glob("_report-*")
    manifest.write_text(manifest.read_text().replace(report.name, name))
    pruned(local, 2, remove_damaged=True)
    assert (tmp_path / "victim").read_text() == "x"


def test_next_snapshot_keeps_files_of_other_programs(local: Shelf, base: Path, tmp_path: Path) -> None:
    elsewhere, name = tmp_path / "elsewhere", "websites-20200101T000000Z-00000000-0000.jsonl"
    elsewhere.mkdir()
    (elsewhere / name).write_text("x")
    (base / "websites" / "dt=2026-11-25").symlink_to(elsewhere)
    beside = base / "websites" / "dt=2026-11-24"
    (beside / "mine.jsonl").write_text("x")
    (beside / name).symlink_to(elsewhere / name)
    for night in (4, 6):
        local.take(3, night * NIGHT)
    assert {"mine.jsonl", name} < {path.name for path in beside.iterdir()}
    assert (elsewhere / name).exists()
    assert (beside / name).is_symlink()


def test_prune_reports_the_removed_snapshots(local: Shelf, base: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    before, pruning = files_below(base), planned(local, 2)
    prune(local.series, pruning, dry_run=True)
    assert files_below(base) == before
    prune(local.series, pruning)
    gone = before.keys() - files_below(base).keys()
    assert pruning.count == len(gone) == 3 * 4 + 2  # data, manifest, marker, report; changes, but for the first
    assert all(caplog.text.count(name.rpartition("/")[2]) >= 2 for name in gone)


def test_prune_that_ends_after_any_file_leaves_no_damaged_snapshot(
    local: Shelf, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # a run that ended before its manifest
        patch.setattr(publishing, "put_bytes", die_before_the_manifest)
        patch.setattr(publishing, "_remove_all", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            local.take(3, 7 * NIGHT)
    before = files_below(base)
    pruning = planned(local, 2)
    assert pruning.removed
    assert pruning.orphaned_files
    count = pruning.count
    remove = type(local.fs).rm_file
    for number in range(count - 1):  # each run removes one file

        def remove_one(fs: Any, path: str, gone: int = number) -> None:
            if len(before.keys() - files_below(base).keys()) > gone:
                raise PermissionError(13, "no")
            remove(fs, path)

        with monkeypatch.context() as patch:
            patch.setattr(type(local.fs), "rm_file", remove_one)
            with pytest.raises(StorageError):
                pruned(local, 2)
        assert [entry.problems for entry in list_snapshots(local.base) if not entry.is_whole] == []
    pruned(local, 2)
    # The next run still knew the files that the one before had left.
    assert len(before.keys() - files_below(base).keys()) == count
