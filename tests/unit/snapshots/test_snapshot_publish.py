from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from airflow_provider_analytics import storage
from airflow_provider_analytics.exceptions import GuardError, IncompleteListError, StorageError
from airflow_provider_analytics.snapshots import publish as publishing
from airflow_provider_analytics.snapshots.catalog import point_to_latest, read_snapshot
from airflow_provider_analytics.storage import StoragePath, names, new_token, put_bytes, read_bytes, token_age

Make = Callable[..., Any]
HOUR = timedelta(hours=1)


def whole(base: StoragePath, snapshot: Any, count: int) -> bool:
    read = read_snapshot(base, snapshot.manifest.snapshot_date)
    return read is not None and read.digest == snapshot.digest and sum(1 for _ in read.rows()) == count


def test_a_rerun_replaces_and_leaves_nothing_behind(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(30))
    second = take(base, make_websites(31), first.manifest.observed_at + HOUR)
    assert whole(base, second, 31)
    assert held(second) == sorted(["_SUCCESS", "_manifest.json", *second.manifest.file_names])
    assert first.manifest.file_names.isdisjoint(second.manifest.file_names)
    assert base.fs.cat_file(second.partition.success.path).decode() == second.digest


def held(snapshot: Any) -> list[str]:
    """Return the names in both folders of a snapshot."""
    return sorted(names(snapshot.partition.data) + names(snapshot.partition.about))


def contents(snapshot: Any) -> dict[str, bytes]:
    folders = (snapshot.partition.data, snapshot.partition.about)
    return {
        str(folder / name): folder.fs.cat_file((folder / name).path) for folder in folders for name in names(folder)
    }


class DiesError(BaseException):
    """The process is gone: nothing catches this, nothing cleans up."""


def dying(monkeypatch: pytest.MonkeyPatch, step: int, *, after: bool) -> list[str]:
    """Make the writing step of that number die, before or after it is done; return what was begun."""
    begun: list[str] = []

    def wrap(function: Any) -> Any:
        def wrapped(*arguments: Any) -> Any:
            begun.append(function.__name__)
            if len(begun) == step and not after:
                raise DiesError
            result = function(*arguments)
            if len(begun) == step and after:
                raise DiesError
            return result

        return wrapped

    for name in ("put_file", "put_bytes", "remove"):
        monkeypatch.setattr(publishing, name, wrap(getattr(publishing, name)))
    monkeypatch.setattr(publishing, "_remove_all", lambda *_: None)
    return begun


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6])
def test_a_death_at_any_step_leaves_the_old_or_the_new_snapshot(
    take: Make, make_websites: Make, base: StoragePath, step: int, after: bool
) -> None:
    first = take(base, make_websites(30))
    later = first.manifest.observed_at + HOUR
    with pytest.MonkeyPatch.context() as patch:
        begun = dying(patch, step, after=after)
        with pytest.raises(DiesError):
            take(base, make_websites(31), later)
        # The draft, the changes, the data, the manifest, the marker, and what is left of the first snapshot.
        assert begun == ["put_bytes", "put_file", "put_file", "put_bytes", "put_bytes", "remove"][:step]
    read = read_snapshot(base, first.manifest.snapshot_date)
    assert read is not None
    assert sum(1 for _ in read.rows()) == read.manifest.count
    is_new = step > 4 or (step == 4 and after)
    assert read.manifest.count == (31 if is_new else 30)
    # The retry heals it; what the dead run left goes once it is too old to belong to a run that is still writing.
    healed = take(base, make_websites(32), later + HOUR)
    assert whole(base, healed, 32)
    assert held(healed) == sorted(["_SUCCESS", "_manifest.json", *healed.manifest.file_names])


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_first_snapshot_that_dies_is_not_published(
    take: Make, make_websites: Make, base: StoragePath, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying(monkeypatch, step, after=False)
    with pytest.raises(DiesError):
        take(base, make_websites(3))
    assert read_snapshot(base, datetime(2026, 11, 20, tzinfo=UTC).date()) is None


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("published", [False, True])
def test_a_retry_removes_at_once_what_its_killed_try_left(
    take: Make, make_websites: Make, base: StoragePath, step: int, published: bool
) -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    if published:
        take(base, make_websites(30), now - HOUR, writer="a run")
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, step, after=step < 3)
        with pytest.raises(DiesError):
            take(base, make_websites(31), now, writer="a run")
    retried = take(base, make_websites(31), now + timedelta(minutes=1), writer="a run")
    assert held(retried) == sorted(["_SUCCESS", "_manifest.json", *retried.manifest.file_names])


def test_the_next_night_removes_what_another_run_left(take: Make, make_websites: Make, base: StoragePath) -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, 3, after=False)
        with pytest.raises(DiesError):
            take(base, make_websites(31), now, writer="a run")
    other = take(base, make_websites(31), now + timedelta(minutes=1), writer="another run")
    assert len(names(other.partition.data)) == 2  # the first may still be writing
    base.fs.pipe_file((other.partition.about / "_since-2026-11-19.jsonl").path, b"x")
    take(base, make_websites(31), now + 24 * HOUR, writer="the next run")
    assert held(other) == sorted(["_SUCCESS", "_manifest.json", "_since-2026-11-19.jsonl", *other.manifest.file_names])


def test_the_next_night_leaves_what_somebody_else_put_there(take: Make, make_websites: Make, base: StoragePath) -> None:
    folder = base / "websites" / "dt=2026-11-19"
    base.fs.makedirs(folder.path, exist_ok=True)
    base.fs.pipe_file((folder / "mine.jsonl").path, b"{}")
    take(base, make_websites(3))
    assert names(folder) == ["mine.jsonl"]


def test_the_next_night_leaves_a_day_whose_manifest_is_damaged(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    first = take(base, make_websites(31))
    before = held(first)
    base.fs.pipe_file(first.partition.manifest.path, b"{")
    take(base, make_websites(31), first.manifest.observed_at + 24 * HOUR)
    assert held(first) == before


def test_a_run_whose_file_an_ignorant_one_removed_puts_it_back(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try that was given up is still alive, and publishes while its retry takes it for dead."""

    def removed(target: StoragePath, *arguments: Any) -> None:
        if target.name == "_manifest.json":
            for name in names(base / "websites" / "dt=2026-11-20"):
                base.fs.rm_file((base / "websites" / "dt=2026-11-20" / name).path)
        put_bytes(target, *arguments)

    monkeypatch.setattr(publishing, "put_bytes", removed)
    assert whole(base, take(base, make_websites(3)), 3)


def test_a_list_that_is_not_proven_touches_nothing(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(30))
    before = contents(first)

    class Unproven(list[Any]):
        def __len__(self) -> int:
            return 31  # the total that is named

    with pytest.raises(IncompleteListError):
        take(base, Unproven(make_websites(30)), first.manifest.observed_at + HOUR)
    assert contents(first) == before


def test_two_runs_at_once_have_one_winner(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(10))
    start = threading.Barrier(8)
    results: list[Any] = []

    def run(number: int) -> None:
        start.wait()
        try:
            later = first.manifest.observed_at + timedelta(seconds=number)
            results.append(take(base, make_websites(10 + number), later, max_loss_fraction=1.0))
        except StorageError as error:
            results.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = read_snapshot(base, first.manifest.snapshot_date)
    assert read is not None
    assert sum(1 for _ in read.rows()) == read.manifest.count
    assert any(not isinstance(result, StorageError) and result.digest == read.digest for result in results)
    for result in results:
        assert not isinstance(result, StorageError) or "another run published" in str(result)


def test_a_list_that_may_not_be_filed_once_it_is_read_changes_nothing(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    first = take(base, make_websites(30))
    before = contents(first)
    asked: list[datetime] = []

    def refuse(observed_at: datetime) -> bool:
        asked.append(observed_at)
        raise GuardError("another run was faster")

    with pytest.raises(GuardError, match="another run was faster"):
        take(base, make_websites(31), first.manifest.observed_at + HOUR, is_late=refuse)
    assert asked == [first.manifest.observed_at + HOUR]
    assert contents(first) == before


def test_files_of_a_run_that_may_still_be_writing_stay(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    later = first.manifest.observed_at + HOUR
    young = f"websites-{new_token(later - timedelta(minutes=14))}.jsonl"
    old = f"websites-{new_token(later - timedelta(minutes=16))}.jsonl"
    for name in (young, old, "notes.txt"):
        base.fs.pipe_file((first.partition.data / name).path, b"x")
    second = take(base, make_websites(3), later)
    assert set(held(second)) == {
        "_SUCCESS",
        "_manifest.json",
        "notes.txt",
        young,
        *second.manifest.file_names,
    }


def test_a_reading_of_hours_does_not_make_its_files_look_abandoned(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    finished = datetime(2026, 11, 20, 15, tzinfo=UTC)
    taken = take(base, make_websites(3), clock=lambda: finished)
    assert token_age(taken.manifest.files[0].name, finished) == timedelta(0)
    assert taken.manifest.finished_at == finished
    assert taken.manifest.observed_at == finished - 3 * HOUR


def test_the_loser_of_a_race_says_so_and_cleans_up(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = base / "_websites" / "dt=2026-11-20"
    other = take(base / "other", make_websites(5))
    content = base.fs.cat_file(other.partition.manifest.path)
    put = put_bytes

    def overtaken(target: StoragePath, *arguments: Any) -> None:
        put(target, *arguments)
        if target.name == "_SUCCESS":
            put(about / "_manifest.json", content, "token")

    monkeypatch.setattr(publishing, "put_bytes", overtaken)
    with pytest.raises(StorageError, match="another run published"):
        take(base, make_websites(3))
    assert names(about) == ["_SUCCESS", "_manifest.json"]
    assert names(base / "websites" / "dt=2026-11-20") == []


@pytest.mark.parametrize("moment", ["before A has looked whether it won", "after A has looked"])
@pytest.mark.parametrize("known", ["the one before", "that of A"])
def test_of_two_runs_that_overlap_only_the_files_of_the_winner_stay(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch, moment: str, known: str
) -> None:
    """B replaces the manifest of A, and has read it before, or the one that A replaced."""
    first = take(base, make_websites(3))
    b_has_read, b_may_write, b_is_done = threading.Event(), threading.Event(), threading.Event()
    later = first.manifest.observed_at + timedelta(minutes=1)

    def run_b() -> None:
        take(base, make_websites(5), later)
        b_is_done.set()

    b_thread = threading.Thread(target=run_b)

    def reading(path: StoragePath) -> bytes | None:
        if threading.current_thread() is not b_thread:
            return read_bytes(path)
        if known == "that of A":
            b_may_write.wait(60)
        content = read_bytes(path)
        b_has_read.set()
        b_may_write.wait(60)
        return content

    def let_b_write() -> None:
        b_may_write.set()
        assert b_is_done.wait(60)

    def putting(target: StoragePath, *arguments: Any) -> None:
        is_a = threading.current_thread() is not b_thread
        if is_a and target.name == "_manifest.json":
            b_thread.start()
            assert known == "that of A" or b_has_read.wait(60)
        put_bytes(target, *arguments)
        if is_a and target.name == "_SUCCESS" and moment.startswith("before"):
            let_b_write()

    def pointing(dataset: Any) -> None:
        if threading.current_thread() is not b_thread and moment.startswith("after"):
            let_b_write()
        point_to_latest(dataset)

    monkeypatch.setattr(publishing, "read_bytes", reading)
    monkeypatch.setattr(publishing, "put_bytes", putting)
    monkeypatch.setattr(publishing, "point_to_latest", pointing)
    with pytest.raises(StorageError, match="another run published 2026-11-20 at the same time; its snapshot is kept"):
        take(base, make_websites(4), later)
    b_thread.join()
    winner = read_snapshot(base, "2026-11-20")
    assert winner is not None
    assert sum(1 for _ in winner.rows()) == 5
    assert held(winner) == sorted(["_SUCCESS", "_manifest.json", *winner.manifest.file_names])


@pytest.mark.parametrize("place", ["under a file", "in /proc"])
def test_a_base_path_that_cannot_be_written_is_a_clear_error(
    take: Make, make_websites: Make, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" / "base" if place == "under a file" else Path("/proc/base")
    with pytest.raises(StorageError, match=f"cannot write the snapshot to {path}/websites/"):
        take(StoragePath.of(UPath(path)), make_websites(3))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A disk of the size in the list: writing more is ENOSPC, as the real one says it."""
    left = [10**9]
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        left[0] -= status.st_size if stat.S_ISREG(status.st_mode) else 0
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real_fsync(descriptor)

    monkeypatch.setattr("airflow_provider_analytics.storage.os.fsync", fsync)
    return left


@pytest.mark.parametrize("room", ["nothing", "part of the data", "the data only"])
def test_a_disk_that_fills_up_leaves_the_last_snapshot(
    take: Make, make_websites: Make, local_base: StoragePath, full_disk: list[int], room: str
) -> None:
    first = take(local_base, make_websites(30))
    before = held(first)
    data = first.manifest.files[0].bytes
    full_disk[0] = {"nothing": 0, "part of the data": data // 2, "the data only": data + 10}[room]
    with pytest.raises(StorageError, match="No space left on device"):
        take(local_base, make_websites(30), first.manifest.observed_at + HOUR)
    assert whole(local_base, first, 30)
    assert held(first) == before
    full_disk[0] = 10**9
    third = take(local_base, make_websites(31), first.manifest.observed_at + 2 * HOUR)
    assert held(third) == sorted(["_SUCCESS", "_manifest.json", *third.manifest.file_names])


@pytest.mark.parametrize("reads", [True, False])
def test_a_manifest_that_was_written_although_the_storage_says_no_keeps_its_files(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    take(base, make_websites(3))

    def lost_answer(target: StoragePath, *arguments: Any) -> None:
        put_bytes(target, *arguments)
        if target.name != "_manifest.json":
            return
        if not reads:
            monkeypatch.setattr(publishing, "read_bytes", lost_answer)
        raise TimeoutError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "put_bytes", lost_answer)
        with pytest.raises(StorageError, match="no answer"):
            take(base, make_websites(4), datetime(2026, 11, 20, 13, tzinfo=UTC))
    read = read_snapshot(base, "2026-11-20")
    assert read is not None
    assert sum(1 for _ in read.rows()) == 4


def test_a_run_whose_file_disappears_leaves_none_of_the_others(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = take(base, make_websites(3))
    before = contents(first)
    put_file = storage.put_file

    def lost(source: Path, target: StoragePath, *rest: Any) -> None:
        put_file(source, target, *rest)
        if target.name.startswith("_changes"):
            base.fs.rm_file(target.path)

    monkeypatch.setattr(publishing, "put_file", lost)
    second = first.manifest.observed_at + 24 * HOUR
    with pytest.raises(StorageError, match=r"_changes-.* disappeared while the snapshot was written"):
        take(base, make_websites(4), second)
    assert names(base / "websites" / f"dt={second.date()}") == []
    assert contents(first) == before


def test_a_temporary_folder_that_is_full_is_a_clear_error(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("airflow_provider_analytics.snapshots.formats.JsonLines.write", no_space)
    with pytest.raises(StorageError, match=r"temporary folder .*No space left"):
        take(base, make_websites(3))
    assert names(base / "websites") == []


def test_what_cannot_be_tidied_up_does_not_fail_a_published_snapshot(
    take: Make, make_websites: Make, base: StoragePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = take(base, make_websites(3))

    def refuse(_: StoragePath) -> None:
        raise PermissionError("may not delete")

    monkeypatch.setattr(publishing, "remove", refuse)
    second = take(base, make_websites(4), first.manifest.observed_at + HOUR)
    assert whole(base, second, 4)


def test_a_token_tells_its_age() -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert token_age(f"websites-{new_token(now)}.jsonl.gz", now + HOUR) == HOUR
    assert token_age("_manifest.json", now) is None
    assert new_token(now) != new_token(now)
