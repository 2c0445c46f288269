# SPDX-License-Identifier: Apache-2.0
"""The audit trail: a line for each change that a try of a task sent, and for each website that failed."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.readable import Redactor, without_secrets
from airflow_provider_analytics.reconcile.desired.tables import ListTables
from airflow_provider_analytics.reconcile.plan.changes import Change, FieldChange
from airflow_provider_analytics.storage import (
    PRIVATE,
    StoragePath,
    file_errors,
    fitting,
    is_local,
    make_directory,
    names,
    open_own,
)

log = logging.getLogger(__name__)

#: Seconds after which lines are written to storage that cannot append; a killed process loses at most these lines.
PART_SECONDS = 0.5

_NOT_IN_A_STEM = re.compile(r"[^\w.=-]")


class _TrailFile:
    """A file to which lines are appended, without a buffer.

    :param folder: folder of the file.
    :param stem: name of the file without the ending.
    """

    def __init__(self, folder: StoragePath, stem: str) -> None:
        self.folder = folder
        place = folder / f"{stem}.jsonl"
        # Keep the lines that another process wrote for the same try.
        self._file = open_own(Path(place.path), os.O_APPEND, PRIVATE)
        self._lock = threading.Lock()

    def write(self, lines: bytes) -> None:
        descriptor = self._file.fileno()
        with self._lock:
            size = os.fstat(descriptor).st_size
            left = memoryview(lines)
            try:
                while left:
                    left = left[os.write(descriptor, left) :]
            except OSError:
                # A full disk takes the first part of the lines: readers need whole lines. Another process can have
                # written lines after them, which remain.
                written = len(lines) - len(left)
                with suppress(OSError):
                    if os.fstat(descriptor).st_size == size + written:
                        os.ftruncate(descriptor, size)
                raise

    def close(self) -> None:
        self._file.close()


class _Parts:
    """Numbered files for storage that cannot append; a new file is written every :data:`PART_SECONDS`.

    If a file cannot be written, the next ``write`` raises the error, so that no change goes unrecorded.

    :param folder: folder of the files.
    :param stem: name of the files without the number and the ending.
    """

    def __init__(self, folder: StoragePath, stem: str) -> None:
        self.folder = folder
        self._stem = stem
        # Keep the parts that another process wrote for the same try.
        self._number = len([name for name in names(folder) if name.startswith(f"{stem}-")])
        self._waiting: list[bytes] = []
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        # A daemon, so that a process that ends without closing does not wait for it.
        self._thread = threading.Thread(target=self._run, name="analytics-audit", daemon=True)
        self._thread.start()

    def write(self, lines: bytes) -> None:
        with self._lock:
            self._waiting.append(lines)
        self._raise_error()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._flush()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error:
            raise self._error

    def _run(self) -> None:
        while not self._ended.wait(PART_SECONDS):
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            lines, self._waiting = self._waiting, []
        if not lines:
            return
        part = self.folder / f"{self._stem}-{self._number + 1:04}.jsonl"
        try:
            part.fs.pipe_file(part.path, b"".join(lines))
            self._number, self._error = self._number + 1, None
        except Exception as error:  # every storage library has its own errors
            with self._lock:
                self._waiting = [*lines, *self._waiting]
            self._error = error


class AuditTrail:
    """The audit trail of a try, as a context manager; without a folder, it writes nothing. Thread-safe.

    Each try of a task writes its own file, ``<folder>/audit/<day>/<dag>-<run>-<task>-<map index>-<try>.jsonl``. On a
    local disk, each line is written as soon as its change was sent.

    Other storage cannot append. There, a try writes parts, ``...-<try>-0001.jsonl`` and so on, one every
    :data:`PART_SECONDS` while changes are sent. The files never contain passwords, because plans do not.

    :param state: folder of the service and the account in the state folder; None to write nothing.
    :param context: context of the task; each line names its DAG, run, task, and try.
    :param secrets: secrets of the connection; a value that contains a secret is not written.
    :param lists: tables with the sources of the entries that a change adds or removes.
    """

    _file: _TrailFile | _Parts | None = None

    def __init__(
        self,
        state: StoragePath | None,
        context: Mapping[str, Any],
        secrets: Redactor,
        lists: ListTables | None = None,
    ) -> None:
        self._state = state
        self._context = context
        self._secrets = secrets
        self._lists = lists

    def __enter__(self) -> Self:
        """Return the trail. Its file is opened before the first change."""
        return self

    def open(self) -> None:
        """Open the file, unless it is open; before the first change is sent."""
        if self._state is None or self._file is not None:
            return
        ti = self._context["ti"]
        folder = self._state / "audit" / f"{datetime.now(UTC):%Y-%m-%d}"
        parts = (ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number)
        stem = fitting(_NOT_IN_A_STEM.sub("_", "-".join(map(str, parts))), folder)
        with file_errors("write", folder, "state_path"):
            make_directory(folder, PRIVATE)
            if is_local(folder):
                self._file = _TrailFile(folder, stem)
            else:
                self._file = _Parts(folder, stem)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the file; an error of the work is kept if the file has one, too."""
        if self._file is None:
            return
        try:
            with file_errors("write", self._file.folder, "state_path"):
                self._file.close()
        except Exception as problem:
            if error is None:
                raise
            log.warning("The audit trail in %s is not complete: %s", self._file.folder, problem)

    def sent(self, change: Change) -> None:
        """Write a line per changed field, or one line without a field if no field changed."""
        head = {"action": change.action, "website_id": change.website_id, "domain": change.domain}
        lines = []
        for field in change.fields:
            line: dict[str, Any] = {**head, "field": field.field, "before": field.before, "after": field.after}
            sources = self._sources(change, field)
            if sources:
                line["sources"] = sources
            lines.append(line)
        self._write(lines or [head])

    def failed(self, failures: Mapping[str, str]) -> None:
        """Write a line per failed website, because an error lists only the first ones.

        :param failures: website (domain and id) to why it failed.
        """
        self._write([{"action": "failed", "website": website, "reason": why} for website, why in failures.items()])

    def _sources(self, change: Change, field: FieldChange) -> dict[str, str]:
        """Return the sources of the entries that a change adds or removes.

        For example, ``{"192.0.2.1": "until 2027-01-31, owner it@example.com"}``.
        """
        sources: dict[str, str] = {}
        if self._lists is None:
            return sources
        rows = self._lists.table.entries_of(field.field, {"id": change.website_id, "domain": change.domain})
        for line in (*field.added, *field.removed):
            source = rows.get(LINE_FIELDS[field.field].key(line))
            if source is not None and source.text:
                sources[line] = source.text
        return sources

    def _write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if self._file is None or not lines:
            return
        ti = self._context["ti"]
        head = {
            "time": datetime.now(UTC).isoformat(),
            "dag_id": ti.dag_id,
            "run_id": ti.run_id,
            "task_id": ti.task_id,
            "try_number": ti.try_number,
        }
        safe_lines = [{**head, **without_secrets(line, self._secrets)} for line in lines]
        content = msgspec.json.Encoder().encode_lines(safe_lines)
        try:
            with file_errors("write", self._file.folder, "state_path"):
                self._file.write(content)
        except Exception:
            log.error("Not in the audit trail: %s", content.decode().rstrip())  # noqa: TRY400 - the error is raised
            raise
