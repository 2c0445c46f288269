"""The audit trail: one JSON line per changed field."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_analytics.reconcile.apply import Applied
    from airflow_provider_analytics.reconcile.plan import Change

_NOT_IN_A_NAME = re.compile(r"[^\w.=-]")


@contextmanager
def audit_trail(
    audit_path: str | None, context: Mapping[str, Any], redact: Callable[[str], str]
) -> Iterator[Applied | None]:
    """Yield a callback that writes one JSON line per changed field; None without a path.

    Each try of a task writes its own file, ``<audit_path>/<dag>/<run>/<task>-<map index>-<try>.jsonl``, since object
    stores cannot append. On a local disk a line is written as soon as its change is applied; an object store shows the
    file when the task ends. The file never contains passwords, because plans do not.

    :param redact: applied to every line.
    """
    if not audit_path:
        yield None
        return
    from airflow_provider_analytics.hooks.object_storage import make_parent, storage_path

    ti = context["ti"]
    who = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id, "try_number": ti.try_number}
    place = storage_path(audit_path, "audit_path")
    for part in (ti.dag_id, ti.run_id, f"{ti.task_id}-{ti.map_index}-{ti.try_number}.jsonl"):
        place /= _NOT_IN_A_NAME.sub("_", part)
    make_parent(place)
    lock = threading.Lock()
    with place.fs.open(place.path, "wb") as file:

        def applied(change: Change, website_id: str) -> None:
            head = {"time": datetime.now(UTC).isoformat(), **who, "action": change.action}
            head |= {"website_id": website_id, "domain": change.domain}
            lines = [
                redact(json.dumps({**head, "field": one.field, "before": one.before, "after": one.after})) + "\n"
                for one in change.fields
            ]
            with lock:
                file.write("".join(lines).encode())
                file.flush()

        yield applied
