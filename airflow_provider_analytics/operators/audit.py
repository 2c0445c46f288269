"""The audit trail: one JSON line per changed field, and per website that failed."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_analytics.reconcile.plan import Change

_NOT_IN_A_NAME = re.compile(r"[^\w.=-]")


class AuditTrail:
    """Writer of the lines; without a file it writes nothing. Thread-safe.

    :param file: the file, or None.
    :param who: what every line says: DAG, run, task and try.
    :param redact: applied to every line.
    """

    def __init__(self, file: IO[bytes] | None, who: Mapping[str, Any], redact: Callable[[str], str]) -> None:
        self._file = file
        self._who = who
        self._redact = redact
        self._lock = threading.Lock()

    def applied(self, change: Change) -> None:
        """Write a line per changed field; one without a field if there is none."""
        head = {"action": change.action, "website_id": change.website_id, "domain": change.domain}
        lines = [{**head, "field": one.field, "before": one.before, "after": one.after} for one in change.fields]
        self._write(*(lines or [head]))

    def undone(self, change: Change) -> None:
        """Write a line for a change that was written as applied, and that the website does not show."""
        self._write(
            {"action": f"{change.action} does not hold", "website_id": change.website_id, "domain": change.domain}
        )

    def failed(self, failures: Mapping[str, str]) -> None:
        """Write a line per website that failed: an error names only the first ones.

        :param failures: website (domain and id) to why it failed.
        """
        self._write(*({"action": "failed", "website": website, "reason": why} for website, why in failures.items()))

    def _write(self, *lines: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        time = datetime.now(UTC).isoformat()
        text = "".join(self._redact(json.dumps({"time": time, **self._who, **line})) + "\n" for line in lines)
        with self._lock:
            self._file.write(text.encode())
            self._file.flush()


@contextmanager
def audit_trail(
    audit_path: str | None, context: Mapping[str, Any], redact: Callable[[str], str]
) -> Iterator[AuditTrail]:
    """Yield the audit trail of a try; one that writes nothing without a path.

    Each try of a task writes its own file, ``<audit_path>/<dag>/<run>/<task>-<map index>-<try>.jsonl``, since object
    stores cannot append. On a local disk a line is written as soon as its change is applied; an object store shows the
    file when the task ends. The file never contains passwords, because plans do not.

    :param redact: applied to every line.
    """
    if not audit_path:
        yield AuditTrail(None, {}, redact)
        return
    from airflow_provider_analytics.hooks.object_storage import make_parent, storage_path

    ti = context["ti"]
    who = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id, "try_number": ti.try_number}
    place = storage_path(audit_path, "audit_path")
    for part in (ti.dag_id, ti.run_id, f"{ti.task_id}-{ti.map_index}-{ti.try_number}.jsonl"):
        place /= _NOT_IN_A_NAME.sub("_", part)
    make_parent(place)
    with place.fs.open(place.path, "wb") as file:
        yield AuditTrail(file, who, redact)
