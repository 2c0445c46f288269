"""Paths of snapshots.

``<base>/websites/snapshot_date=YYYY-MM-DD/`` holds ``websites-<token>.<format>``, ``manifest.json`` and, written
last, ``_SUCCESS``.
"""

from __future__ import annotations

import re
from datetime import date

from airflow_provider_analytics.storage import StoragePath, names

DATASET = "websites"
MANIFEST = "manifest.json"
SUCCESS = "_SUCCESS"
#: Folder of comparisons, one level deeper so that ``websites/*/*.jsonl`` does not match them.
COMPARISONS = "_comparison"

_PARTITION = re.compile(r"snapshot_date=(\d{4}-\d{2}-\d{2})")


def dataset_path(base: StoragePath) -> StoragePath:
    """Return the path that holds the partitions."""
    return base / DATASET


def partition_path(base: StoragePath, day: date) -> StoragePath:
    """Return the path of a partition."""
    return dataset_path(base) / f"snapshot_date={day.isoformat()}"


def partition_days(base: StoragePath) -> list[date]:
    """Return the days that have a partition, published or not, newest first."""
    found = (_PARTITION.fullmatch(name) for name in names(dataset_path(base)))
    return sorted((date.fromisoformat(match[1]) for match in found if match), reverse=True)
