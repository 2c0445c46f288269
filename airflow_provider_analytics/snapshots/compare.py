"""Compare two published snapshots and store the result with the newer one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from airflow_provider_analytics.snapshots import layout
from airflow_provider_analytics.snapshots.diff import (
    KINDS,
    bounded,
    compare,
    ignored_fields,
    read_changes,
    write_changes,
    write_markdown,
)
from airflow_provider_analytics.snapshots.reader import Snapshot, latest_day, read_snapshot
from airflow_provider_analytics.storage import (
    StoragePath,
    make_directory,
    new_token,
    put_file,
    storage_errors,
)


def compare_snapshots(
    base: StoragePath,
    *,
    current: date | None = None,
    previous: date | None = None,
    ignore: Iterable[str] = (),
    max_changes: int = 50,
) -> dict[str, Any]:
    """Compare two snapshots, write all changes as JSON Lines and Markdown, and return counts and first changes.

    :param base: base path of the snapshots.
    :param current: day of the newer snapshot; default: the latest published one.
    :param previous: day of the older snapshot; default: the latest published one before ``current``.
    :param ignore: names of fields to ignore.
    :param max_changes: maximum number of changes returned.
    :raises ValueError: if no snapshot is published, a given day has none, or ``previous`` is not before ``current``.
    :raises SnapshotError: if a snapshot cannot be read or the result cannot be written.
    """
    current_day = current or latest_day(base)
    if current_day is None:
        raise ValueError(f"no snapshot is published in {layout.dataset_path(base)}: run SnapshotWebsitesOperator first")
    after = _published(base, current_day)
    previous_day = previous or latest_day(base, before=current_day)
    result: dict[str, Any] = {
        "path": str(after.partition),
        "current": current_day.isoformat(),
        "previous": None,
        **dict.fromkeys(KINDS, 0),
        "changes": [],
        "truncated": False,
        "jsonl": None,
        "markdown": None,
    }
    if previous_day is None:
        return result
    if previous_day >= current_day:
        raise ValueError(f"previous={previous_day} is not allowed; allowed: a day before current={current_day}")
    before = _published(base, previous_day)
    ignored = {*ignore, *ignored_fields(before.manifest.exclude_ips_as, after.manifest.exclude_ips_as)}
    name = f"since-{previous_day.isoformat()}"
    with tempfile.TemporaryDirectory(prefix="analytics-comparison-") as directory:
        lines, page = Path(directory) / f"{name}.jsonl", Path(directory) / f"{name}.md"
        with lines.open("wb") as file:
            counts = write_changes(compare(before.rows(), after.rows(), ignored), file)
        write_markdown(page, lines, before=str(previous_day), after=str(current_day), counts=counts)
        target = after.partition / layout.COMPARISONS
        with storage_errors(f"write the comparison to {target}"):
            make_directory(target)
            for written in (lines, page):
                put_file(written, target / written.name, new_token(datetime.now(UTC)))
        return result | {
            "previous": previous_day.isoformat(),
            **counts,
            "changes": [bounded(change) for change in islice(read_changes(lines), max_changes)],
            "truncated": sum(counts.values()) > max_changes,
            "jsonl": str(target / lines.name),
            "markdown": str(target / page.name),
        }


def _published(base: StoragePath, day: date) -> Snapshot:
    snapshot = read_snapshot(base, day)
    if snapshot is None:
        raise ValueError(f"no snapshot of {day} is published in {layout.dataset_path(base)}")
    return snapshot
