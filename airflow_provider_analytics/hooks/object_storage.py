"""Small files beside the service: ledgers, plans, configurations and the audit trail, at any ObjectStoragePath."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_analytics.storage import (
    StoragePath,
    make_directory,
    new_token,
    put_bytes,
    read_bytes,
)

if TYPE_CHECKING:
    from airflow_provider_analytics.reconcile.apply import Applied
    from airflow_provider_analytics.reconcile.plan import Change

_NOT_IN_A_NAME = re.compile(r"[^\w.=-]")


def storage_path(url: str, field: str = "path") -> StoragePath:
    """Return the place that a URL or an absolute path names.

    :param field: name of the argument, for the message.
    :raises ValueError: for a relative path, which would depend on where the worker runs.
    """
    if "://" not in url and not url.startswith("/"):
        raise ValueError(f"{field}={url!r} is not allowed; allowed: a URL such as s3://bucket/path, or /path")
    return StoragePath.of(ObjectStoragePath(url))


def read_text(url: str) -> str | None:
    """Return the text of a small file, or None where there is none."""
    content = read_bytes(storage_path(url))
    return None if content is None else content.decode()


def write_text(url: str, text: str) -> None:
    """Write a small file in one piece: a reader sees the old text or the new one, whatever is killed."""
    place = storage_path(url)
    _make_parent(place)
    put_bytes(place, text.encode(), new_token(datetime.now(UTC)))


@contextmanager
def audit_trail(base: str | None, context: Mapping[str, Any]) -> Iterator[Applied | None]:
    """Give a function that writes each applied change as JSON lines, one per field; None without a base.

    Each try of a task writes a file of its own, ``<base>/<dag>/<run>/<task>-<map index>-<try>.jsonl``, since
    object stores cannot append. On a local disk a line is there as soon as its change is; an object store
    shows the file when the task ends. Passwords never get here: plans do not hold them.
    """
    if not base:
        yield None
        return
    ti = context["ti"]
    who = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id, "try_number": ti.try_number}
    place = storage_path(base)
    for part in (ti.dag_id, ti.run_id, f"{ti.task_id}-{ti.map_index}-{ti.try_number}.jsonl"):
        place /= _NOT_IN_A_NAME.sub("_", part)
    _make_parent(place)
    lock = threading.Lock()
    with place.fs.open(place.path, "wb") as file:

        def applied(change: Change, website_id: str) -> None:
            head = {"time": datetime.now(UTC).isoformat(), **who, "action": change.action}
            head |= {"website_id": website_id, "domain": change.domain}
            lines = [
                json.dumps({**head, "field": one.field, "before": one.before, "after": one.after}) + "\n"
                for one in change.fields
            ]
            with lock:
                file.write("".join(lines).encode())
                file.flush()

        yield applied


def _make_parent(place: StoragePath) -> None:
    make_directory(StoragePath(place.fs, place.path.rpartition("/")[0], place.url.rpartition("/")[0]))
