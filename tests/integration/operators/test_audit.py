# SPDX-License-Identifier: Apache-2.0
"""Audit trail on storage that fails temporarily (``reconcile/audit_trail.py``)."""

from __future__ import annotations

import json
import threading
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

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
