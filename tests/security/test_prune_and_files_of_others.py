"""A prune beside files of others, and beside snapshots that lost their manifests: it removes its own, or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute, Serving

from airflow_provider_analytics.operators.snapshots import PruneSnapshotsOperator, SnapshotWebsitesOperator
from airflow_provider_analytics.snapshots.catalog import list_snapshots

DAYS = [f"2026-01-0{day}" for day in range(1, 6)]


@pytest.fixture
def base(serving: Serving, execute: Execute, tmp_path: Path) -> Path:
    """Five snapshots, the oldest first."""
    with serving({"id": 1, "domain": "a.example"}):
        for day in DAYS:
            accept = ["source", "clock"]
            execute(
                SnapshotWebsitesOperator,
                base_path=f"{tmp_path}/base", partition_date=day, late="label", report=True, accept=accept,
            )  # fmt: skip
    return tmp_path / "base"


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Tomorrow(datetime):
    """A clock by which every file is old enough."""

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return datetime.now(UTC) + timedelta(days=1)


def prune(execute: Execute, base: Path, **arguments: object) -> dict[str, object]:
    with mock.patch("airflow_provider_analytics.operators.snapshots.datetime", Tomorrow):
        found: dict[str, object] = execute(PruneSnapshotsOperator, base_path=str(base), **{"keep_days": 2, **arguments})
    return found


def test_another_table_in_the_same_folder_stays(execute: Execute, base: Path) -> None:
    for day in ("2025-12-31", "2026-01-01", "2026-03-01"):
        folder = base / "websites" / f"dt={day}"
        folder.mkdir(exist_ok=True)
        for name in ("part-00000.parquet", "_SUCCESS", "websites.csv", "_manifest.json"):
            (folder / name).write_bytes(b"of another job")
        (folder / "sub").mkdir()
        (folder / "sub" / "part-00001.parquet").write_bytes(b"of another job")
    result = prune(execute, base)
    assert result["removed"] == DAYS[2::-1]
    assert result["unknown"] == ["2026-03-01", "2025-12-31"]
    left = files_below(base)
    assert sum(content == b"of another job" for content in left.values()) == 3 * 5
    assert [str(entry.day) for entry in list_snapshots(str(base), verify=True)] == DAYS[:2:-1]


def test_a_foreign_table_alone_is_refused_untouched(execute: Execute, tmp_path: Path) -> None:
    folder = tmp_path / "websites" / "dt=2026-01-01"
    folder.mkdir(parents=True)
    (folder / "part-00000.parquet").write_bytes(b"x")
    with pytest.raises(AirflowFailException, match="use another dataset") as caught:
        prune(execute, tmp_path)
    assert "Nothing was removed" in str(caught.value)
    assert list(files_below(tmp_path)) == ["websites/dt=2026-01-01/part-00000.parquet"]


def test_a_history_that_was_copied_without_its_manifests_is_refused(execute: Execute, base: Path) -> None:
    shutil.rmtree(base / "_websites")
    before = files_below(base)
    with pytest.raises(AirflowFailException, match="copy _websites as well"):
        prune(execute, base)
    assert files_below(base) == before


def test_a_history_that_was_copied_beside_a_new_snapshot_stays(execute: Execute, base: Path) -> None:
    """Only the newest day has a manifest, as if the data had been restored, and one night had passed."""
    for day in DAYS[:-1]:
        shutil.rmtree(base / "_websites" / f"dt={day}")
    before = files_below(base)
    result = prune(execute, base, keep_days=1)
    assert (result["removed"], result["files"]) == ([], 0)
    assert result["unknown"] == DAYS[-2::-1]
    assert files_below(base) == before


@pytest.mark.parametrize("linked", ["websites", "_websites"])
def test_a_dataset_behind_a_link_is_refused(linked: str, execute: Execute, base: Path, tmp_path: Path) -> None:
    (base / linked).rename(tmp_path / "elsewhere")
    (base / linked).symlink_to(tmp_path / "elsewhere")
    before = files_below(tmp_path / "elsewhere")
    with pytest.raises(AirflowFailException, match="is a symbolic link"):
        prune(execute, base)
    assert files_below(tmp_path / "elsewhere") == before


@pytest.mark.parametrize("part", ["websites", "_websites"])
@pytest.mark.parametrize("day", [DAYS[0], "2025-12-31"])
def test_what_is_behind_a_link_stays(day: str, part: str, execute: Execute, base: Path, tmp_path: Path) -> None:
    folder, elsewhere = base / part / f"dt={day}", tmp_path / "elsewhere"
    if folder.exists():
        folder.rename(elsewhere)
    else:
        shutil.copytree(base / part / f"dt={DAYS[1]}", elsewhere)
    folder.symlink_to(elsewhere)
    (elsewhere / "mine.txt").write_text("x")
    # A file that became a link is not followed either.
    [data] = (base / "websites" / f"dt={DAYS[2]}").iterdir()
    data.rename(tmp_path / "data")
    data.symlink_to(tmp_path / "data")
    before = files_below(elsewhere)
    result = prune(execute, base)
    assert data.is_symlink()
    assert (tmp_path / "data").exists()
    assert result["removed"] == [one for one in DAYS[2::-1] if one != day]
    assert day in result["unknown"]  # type: ignore[operator]
    assert files_below(elsewhere) == before
    assert folder.is_symlink()


@pytest.mark.parametrize("name", ["../../../victim", "..", "mine.txt", "/etc/hostname"])
def test_a_manifest_that_names_the_file_of_another_removes_no_more_than_its_folder_has(
    name: str, execute: Execute, base: Path, tmp_path: Path
) -> None:
    (tmp_path / "victim").write_text("x")
    manifest = base / "_websites" / f"dt={DAYS[0]}" / "_manifest.json"
    [report] = manifest.parent.glob("_report-*")
    manifest.write_text(manifest.read_text().replace(report.name, name))
    prune(execute, base, remove_damaged=True)
    assert (tmp_path / "victim").read_text() == "x"


def test_the_next_snapshot_leaves_what_others_put_beside_it(
    serving: Serving, execute: Execute, base: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    name = "websites-20200101T000000Z-00000000-0000.jsonl"
    (elsewhere / name).write_text("x")
    (base / "websites" / "dt=2026-01-06").symlink_to(elsewhere)
    (base / "websites" / f"dt={DAYS[-1]}" / "mine.jsonl").write_text("x")
    (base / "websites" / f"dt={DAYS[-1]}" / name).symlink_to(elsewhere / name)
    with serving({"id": 1, "domain": "a.example"}):
        for day in (DAYS[-1], "2026-01-07"):
            execute(SnapshotWebsitesOperator, base_path=str(base), partition_date=day, late="label", accept=["source"])
    assert (elsewhere / name).exists()
    assert (base / "websites" / f"dt={DAYS[-1]}" / "mine.jsonl").exists()
    assert (base / "websites" / f"dt={DAYS[-1]}" / name).is_symlink()


def test_it_says_what_it_removes(execute: Execute, base: Path, logged: Callable[[], str]) -> None:
    before = files_below(base)
    wanted = {**prune(execute, base, dry_run=True), "dry_run": False}
    assert files_below(base) == before
    assert prune(execute, base) == wanted
    gone = before.keys() - files_below(base).keys()
    assert wanted["files"] == len(gone) == 3 * 4 + 2  # data, manifest, marker, report; changes, but for the first
    text = logged()
    assert all(name.rpartition("/")[2] in text for name in gone)
    assert "Removed: 3 snapshots, 14 files. Kept: 2 snapshots." in text
