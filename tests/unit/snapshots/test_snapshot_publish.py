# SPDX-License-Identifier: Apache-2.0
"""Publication of snapshots: interruptions, retries, and overlapping runs (``snapshots/publish.py``)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from shelf import DAY, HOUR, NIGHT, NOON, Shelf, held, own, websites

from airflow_provider_analytics import storage
from airflow_provider_analytics.exceptions import GuardError, IncompleteListError, StorageError
from airflow_provider_analytics.snapshots import publish as publishing
from airflow_provider_analytics.snapshots.catalog import Snapshot
from airflow_provider_analytics.storage import StoragePath, names, new_token, put_bytes, read_bytes

MINUTE = timedelta(minutes=1)


def contents(snapshot: Snapshot) -> dict[str, bytes]:
    return {
        str(folder / name): folder.fs.cat_file((folder / name).path)
        for folder in snapshot.partition.folders
        for name in names(folder)
    }


class DiesError(BaseException):
    """The process ends at once: no code catches this exception, and no code cleans up."""


@contextmanager
def dying(step: int, *, after: bool = False) -> Iterator[list[str]]:
    """End the process at the writing step of that number, before or after the step is done.

    Yields the steps that started.
    """
    begun: list[str] = []

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            begun.append(function.__name__)
            if len(begun) == step and not after:
                raise DiesError
            result = function(*arguments)
            if len(begun) == step:
                raise DiesError
            return result

        return wrapped

    with pytest.MonkeyPatch.context() as patch, suppress(DiesError):
        for name in ("put_file", "put_bytes", "remove"):
            patch.setattr(publishing, name, wrap(getattr(publishing, name)))
        patch.setattr(publishing, "_remove_all", lambda *_: None)
        yield begun
        pytest.fail(f"there is no step {step}: {begun}")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6])
def test_death_at_any_step_leaves_the_old_or_the_new_snapshot(shelf: Shelf, step: int, after: bool) -> None:
    shelf.take(30)
    with dying(step, after=after) as begun:
        shelf.take(31, HOUR)
    # The draft, the changes, the data, the manifest, the marker, and the rest of the first snapshot.
    assert begun == ["put_bytes", "put_file", "put_file", "put_bytes", "put_bytes", "remove"][:step]
    is_new = step > 4 or (step == 4 and after)
    assert shelf.count() == (31 if is_new else 30)
    # The retry repairs it. The files of the dead run are removed once they are too old to belong to a run that still
    # writes.
    healed = shelf.take(32, 2 * HOUR)
    assert shelf.count() == 32
    assert held(healed) == own(healed)


@pytest.mark.parametrize("step", [1, 2, 3, 4])  # the last one is the marker
def test_first_snapshot_that_dies_is_not_published(shelf: Shelf, step: int) -> None:
    with dying(step):
        shelf.take(3)
    assert shelf.read() is None


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("published", [False, True])
def test_retry_removes_the_files_of_its_killed_try_at_once(shelf: Shelf, step: int, published: bool) -> None:
    if published:
        shelf.take(30, -HOUR, writer="a run")
    with dying(step, after=step < 3):
        shelf.take(31, writer="a run")
    retried = shelf.take(31, MINUTE, writer="a run")
    assert held(retried) == own(retried)


def test_next_night_removes_orphaned_files_of_another_run(shelf: Shelf) -> None:
    with dying(3):
        shelf.take(31, writer="a run")
    other = shelf.take(31, MINUTE, writer="another run")
    assert len(names(other.partition.data)) == 2  # the first run might still be writing
    shelf.take(31, MINUTE, day=DAY - NIGHT)  # an older day
    shelf.fs.pipe_file((other.partition.about / "_since-2026-11-19.jsonl").path, b"x")
    shelf.take(31, NIGHT, writer="the next run")
    assert held(other) == sorted(["_since-2026-11-19.jsonl", *own(other)])


def test_files_of_a_run_that_might_still_write_are_kept(shelf: Shelf) -> None:
    first = shelf.take(3)
    young, old = (f"websites-{new_token(NOON + HOUR - age * MINUTE)}.jsonl" for age in (14, 16))
    for name in (young, old, "notes.txt"):
        shelf.fs.pipe_file((first.partition.data / name).path, b"x")
    second = shelf.take(3, HOUR)
    assert set(held(second)) == {"notes.txt", young, *own(second)}


def test_files_of_a_long_read_are_not_treated_as_orphaned(shelf: Shelf) -> None:
    taken = shelf.take(3, clock=iter((NOON, NOON, NOON + 3 * HOUR)).__next__)
    assert (taken.manifest.observed_at, taken.manifest.finished_at) == (NOON, NOON + 3 * HOUR)
    shelf.fs.pipe_file(taken.partition.manifest.path, b"{")  # so that no run owns the file
    assert taken.files[0].name in held(shelf.take(3, NOON + 3 * HOUR + MINUTE))


def test_unproven_or_rejected_list_changes_nothing(shelf: Shelf) -> None:
    first = shelf.take(30)
    before = contents(first)

    class Unproven(list[Any]):
        def __len__(self) -> int:
            return 31  # the total in the error message

    def reject(observed_at: datetime) -> bool:
        raise GuardError(f"not at {observed_at:%H:%M}")

    with pytest.raises(IncompleteListError):
        shelf.take(Unproven(websites(30)), HOUR)
    with pytest.raises(GuardError, match="not at 13:00"):
        shelf.take(31, HOUR, is_late=reject)
    assert contents(first) == before


@pytest.mark.parametrize("known", ["the one before", "that of A"])
def test_only_files_of_the_winner_of_two_overlapping_runs_remain(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    """Run B replaces the manifest of A, and has read it before, or has read the manifest that A replaced.

    A publishes once more.
    """
    manifest = shelf.take(3).partition.manifest
    read_before = [read_bytes(manifest)] if known == "the one before" else []
    of_b: list[Snapshot] = []

    def overtaken(target: StoragePath, *arguments: Any) -> None:
        put_bytes(target, *arguments)
        if target.name == "_SUCCESS":
            monkeypatch.setattr(publishing, "put_bytes", put_bytes)
            monkeypatch.setattr(publishing, "read_bytes", lambda path: (read_before or [read_bytes(path)]).pop())
            of_b.append(shelf.take(5, MINUTE))

    monkeypatch.setattr(publishing, "put_bytes", overtaken)
    of_a = shelf.take(4, MINUTE)
    assert len(of_b) == 1
    assert shelf.read() == of_a
    assert shelf.count() == 4
    assert held(of_a) == own(of_a)


@pytest.mark.parametrize("writer", ["a run", "another run"])
def test_run_fails_and_leaves_no_files_if_it_is_overtaken_twice(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    """The other run can be a retry of a try that Airflow considers dead."""
    of_other: list[Snapshot] = []

    def overtaken(target: StoragePath, *arguments: Any) -> None:
        put_bytes(target, *arguments)
        if target.name == "_SUCCESS":
            monkeypatch.setattr(publishing, "put_bytes", put_bytes)
            of_other.append(shelf.take(5, MINUTE, writer=writer))
            monkeypatch.setattr(publishing, "put_bytes", overtaken)

    monkeypatch.setattr(publishing, "put_bytes", overtaken)
    with pytest.raises(
        StorageError, match=r"(?s)Another run published 2026-11-20 at the same time\..*A retry publishes"
    ):
        shelf.take(4, writer="a run")
    assert len(of_other) == 2
    assert shelf.read() == of_other[1]
    assert shelf.count() == 5
    assert held(of_other[1]) == own(of_other[1])


def putting(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], *, first: bool) -> None:
    """Call a function right before or after the manifest is written."""

    def put(target: StoragePath, *arguments: Any) -> None:
        is_manifest = target.name == "_manifest.json"
        if is_manifest and first:
            act()
        put_bytes(target, *arguments)
        if is_manifest and not first:
            act()

    monkeypatch.setattr(publishing, "put_bytes", put)


def test_run_restores_its_file_if_another_run_removed_it(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """An abandoned try is still alive, and publishes while its retry considers it dead."""
    folder = shelf.series.data / "dt=2026-11-20"

    def remove() -> None:
        for name in names(folder):
            shelf.fs.rm_file((folder / name).path)

    putting(monkeypatch, remove, first=True)
    shelf.take(3)
    assert shelf.count() == 3


@pytest.mark.parametrize("reads", [True, False])
def test_manifest_keeps_its_files_if_it_was_written_despite_an_error(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    shelf.take(3)

    def lose_answer(*_: Any) -> None:
        if not reads:
            monkeypatch.setattr(publishing, "read_bytes", lose_answer)
        raise TimeoutError("no answer")

    putting(monkeypatch, lose_answer, first=False)
    with pytest.raises(StorageError, match="no answer"):
        shelf.take(4, HOUR)
    assert shelf.count() == 4


def test_run_removes_its_other_files_if_a_file_cannot_be_written(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    first = shelf.take(3)
    before = contents(first)
    put_file = storage.put_file

    def lost(source: Path, target: StoragePath, *rest: Any) -> None:
        if target.name.startswith("_changes"):
            raise OSError("no space")
        put_file(source, target, *rest)

    monkeypatch.setattr(publishing, "put_file", lost)
    with pytest.raises(StorageError, match="no space"):
        shelf.take(4, NIGHT)
    assert names(shelf.series.data / "dt=2026-11-21") == []
    assert contents(first) == before


def test_failed_cleanup_does_not_fail_a_published_snapshot(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(_: StoragePath) -> None:
        raise PermissionError("may not delete")

    shelf.take(3)
    monkeypatch.setattr(publishing, "remove", reject)
    assert shelf.take(4, HOUR) == shelf.read()
    assert shelf.count() == 4


def test_full_temporary_folder_is_a_clear_error(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("airflow_provider_analytics.snapshots.formats.JsonLines.write", no_space)
    with pytest.raises(StorageError, match=r"temporary folder .*No space left"):
        shelf.take(3)
    assert names(shelf.series.data) == []
