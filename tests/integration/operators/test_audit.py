# SPDX-License-Identifier: Apache-2.0
"""Audit trail: changes of a killed process are recorded, also on storage that fails (``reconcile/audit_trail.py``)."""

from __future__ import annotations

import errno
import itertools
import json
import os
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distortion import Distortion
from reconciling import Night

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.reconcile import audit_trail
from airflow_provider_analytics.reconcile.audit_trail import AuditTrail
from airflow_provider_analytics.reconcile.plan.changes import Change, FieldChange
from airflow_provider_analytics.storage import StoragePath

TI = SimpleNamespace(dag_id="dag", run_id="run", task_id="task", map_index=-1, try_number=1)
ADDRESS = "192.0.2.1"


def change(website_id: int) -> Change:
    return Change("update", "a.example", str(website_id), (FieldChange("exclude_ips", (), (ADDRESS,)),))


def send_until_it_fails(trail: AuditTrail, change: Change) -> None:
    """Send a change repeatedly: the trail records the error a moment after the write failed."""
    while True:
        trail.sent(change)


def interrupt(trail: AuditTrail) -> None:
    trail.sent(change(1))
    raise KeyError("the first")


class FailingStorage:
    """A storage in memory whose writes fail until it is repaired."""

    def __init__(self, file_system: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = f"/{uuid.uuid4().hex}"
        #: Set when a failing write starts, and by a test when it may fail.
        self.is_writing = threading.Event()
        self.may_fail = threading.Event()
        self.is_broken = True
        self._files = file_system
        write = type(file_system).pipe_file

        def pipe_file(files: Any, path: str, content: bytes, **options: Any) -> None:
            if self.is_broken:
                self.is_writing.set()
                assert self.may_fail.wait(20)
                raise OSError("no space left")
            write(files, path, content, **options)

        monkeypatch.setattr(type(file_system), "pipe_file", pipe_file)

    def trail(self) -> AuditTrail:
        trail = AuditTrail(StoragePath.of(f"memory:/{self.folder}"), {"ti": TI}, Redactor())
        trail.open()
        return trail

    def websites(self) -> list[str]:
        """Return the ids of the websites in the parts, in the order of the lines."""
        self._files.invalidate_cache()
        content = b"".join(map(self._files.cat_file, sorted(self._files.find(self.folder))))
        return [json.loads(line)["website_id"] for line in content.splitlines()]


@pytest.fixture
def storage(memory: Any, monkeypatch: pytest.MonkeyPatch) -> FailingStorage:
    monkeypatch.setattr(audit_trail, "PART_SECONDS", 0.01)
    return FailingStorage(memory, monkeypatch)


def test_lines_of_a_part_that_could_not_be_written_are_in_a_later_part(storage: FailingStorage) -> None:
    with storage.trail() as trail:
        trail.sent(change(1))
        assert storage.is_writing.wait(20)
        trail.sent(change(2))
        storage.may_fail.set()
        with pytest.raises(StorageError, match="no space left"):
            send_until_it_fails(trail, change(3))
        storage.is_broken = False
    written = storage.websites()
    assert written == sorted(written)
    assert set(written) == {"1", "2", "3"}


def test_trail_that_cannot_be_written_until_the_end_is_an_error(storage: FailingStorage) -> None:
    storage.may_fail.set()
    with pytest.raises(StorageError, match="no space left"), storage.trail() as trail:
        trail.sent(change(1))
    assert storage.websites() == []


def test_first_error_of_a_task_is_kept_if_the_trail_fails_too(
    storage: FailingStorage, caplog: pytest.LogCaptureFixture
) -> None:
    storage.may_fail.set()
    with pytest.raises(KeyError, match="the first"), storage.trail() as trail:
        interrupt(trail)
    assert "is not complete: " in caplog.text


NEW = "203.0.113.7"


def changed(night: Night) -> list[str]:
    return sorted(str(website["id"]) for website in night.sandbox.websites() if NEW in (website["exclude_ips"] or ""))


def audited(file_system: Any, folder: str) -> list[str]:
    """Return the ids of the websites in the parts."""
    file_system.invalidate_cache()
    parts = sorted(path for path in file_system.find(folder) if path.endswith(".jsonl"))
    lines = b"".join(map(file_system.cat_file, parts)).splitlines()
    return sorted(json.loads(line)["website_id"] for line in lines)


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail, "PART_SECONDS", 0.01)


@pytest.mark.usefixtures("short_parts")
def test_audit_parts_appear_while_changes_are_applied(night: Night, distortion: Distortion, memory: Any) -> None:
    night.add(8)
    folder = f"/{uuid.uuid4().hex}"
    seen: list[bool] = []

    def wait_for_those_before(method: str, path: str) -> None:
        if method == "PATCH":
            before, turn = changed(night), threading.Event()
            seen.append(any(audited(memory, folder) == before or turn.wait(0.01) for _ in range(1000)))

    distortion.before = wait_for_those_before
    arguments: dict[str, Any] = {"mode": "merge", "parallel_requests": 1, "state_path": f"memory:/{folder}"}
    night.sync(NEW, **arguments)
    assert seen == [True] * 8
    assert audited(memory, folder) == changed(night)
    names = [part.rpartition("/")[2] for part in sorted(memory.find(folder)) if "/audit/" in part]
    assert [name.partition("-sync-")[2] for name in names] == [f"-1-1-{number:04}.jsonl" for number in range(1, 9)]
    # The same try again, like a worker that was considered dead: nothing is overwritten.
    distortion.before = lambda method, path: None
    night.sync("203.0.113.8", **arguments)
    assert len(audited(memory, folder)) == 16


@pytest.mark.usefixtures("short_parts")
def test_changes_stop_if_the_audit_trail_cannot_be_written(
    night: Night, distortion: Distortion, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.add(30)
    tried, patches = threading.Event(), itertools.count(1)

    def reject(*arguments: Any, **more: Any) -> None:
        tried.set()
        raise OSError("no space left")

    def hold_the_second(method: str, path: str) -> None:
        if method == "PATCH" and next(patches) == 2:
            assert tried.wait(20)

    monkeypatch.setattr(type(memory), "pipe_file", reject)
    distortion.before = hold_the_second
    with pytest.raises(StorageError, match="cannot write state_path: no space left"):
        night.sync(NEW, mode="merge", parallel_requests=1, state_path=f"memory://{uuid.uuid4().hex}")
    assert len(changed(night)) <= 4


def test_processes_with_the_same_try_lose_no_audit_line(night: Night) -> None:
    """Like iterations of a loop, or a worker that was considered dead."""
    night.add(1)
    for address in ("192.0.2.1", "192.0.2.2"):
        night.managed(address, run_id="r")
    [file] = night.folder.rglob("*.jsonl")
    assert file.name == "the_dag-r-sync--1-1.jsonl"
    assert [line["after"] for line in night.trail()] == [["192.0.2.1"], ["192.0.2.2"]]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_full_disk_is_named_and_the_log_contains_the_missing_audit_lines(
    night: Night, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    night.add(30)
    with Path("/dev/full").open("wb") as device:
        monkeypatch.setattr("airflow_provider_analytics.reconcile.audit_trail.open_own", lambda *_: device)
        full = "The storage cannot write state_path: No space left on device"
        with pytest.raises(StorageError, match=full) as raised:
            night.managed(NEW, mode="merge", parallel_requests=2)
    assert 0 < len(changed(night)) <= 4
    assert f"Stopped: {len(changed(night))} of 30 websites changed" in str(raised.value)
    said = [
        json.loads(record.getMessage().partition(": ")[2])
        for record in caplog.records
        if record.getMessage().startswith("Not in the audit trail: ")
    ]
    named = {str(line["website_id"]) for line in said if line["action"] == "update"}
    assert named >= set(changed(night))


@pytest.mark.parametrize("other_line", [b"", b'\n{"action": "of another process"}\n'])
def test_full_disk_leaves_whole_lines_in_the_audit_trail(
    night: Night, monkeypatch: pytest.MonkeyPatch, other_line: bytes
) -> None:
    """A disk that becomes full takes the first part of a line, and another process may have written the next one."""
    night.add(30)
    left = 2500
    write = os.write

    def write_until_full(descriptor: int, content: Any) -> int:
        nonlocal left
        if left == 0:
            write(descriptor, other_line)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, bytes(content)[:left])
        left -= written
        return written

    monkeypatch.setattr("airflow_provider_analytics.reconcile.audit_trail.os.write", write_until_full)
    with pytest.raises(StorageError, match="No space left on device"):
        night.managed(NEW, mode="merge")
    assert left == 0
    [trail] = night.folder.rglob("*.jsonl")
    content = trail.read_text()
    assert content.endswith("}\n")
    if other_line:
        assert other_line.decode() in content
    else:
        assert {line["action"] for line in night.trail()} == {"update"}


@pytest.mark.usefixtures("time_zone")
def test_days_in_the_state_folder_are_days_in_utc(night: Night) -> None:
    night.add(1)
    days = {datetime.now(UTC).date().isoformat()}
    night.managed(NEW)
    days.add(datetime.now(UTC).date().isoformat())
    [trail] = night.folder.rglob("*.jsonl")
    [table] = night.folder.rglob("lists/*.json")
    assert {trail.parent.name, json.loads(table.read_text())["sources"][0]["since"]} <= days
