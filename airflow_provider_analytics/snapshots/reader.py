"""Read a snapshot by its manifest. Only this way never returns a partial snapshot or a mix of two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from airflow_provider_analytics.api.checks import refused
from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.snapshots.formats import read_rows
from airflow_provider_analytics.snapshots.layout import DATASET, Dataset, Partition, dataset_of
from airflow_provider_analytics.snapshots.manifest import Manifest, decode, digest
from airflow_provider_analytics.snapshots.rows import Row
from airflow_provider_analytics.snapshots.run_day import parse_day
from airflow_provider_analytics.storage import (
    StoragePath,
    exists,
    open_verified,
    read_bytes,
    size_of,
    storage_errors,
)


@dataclass(frozen=True)
class Snapshot:
    """A published snapshot.

    :param partition: its folders.
    :param manifest: its manifest.
    :param digest: SHA-256 of the stored manifest.
    """

    partition: Partition
    manifest: Manifest
    digest: str

    @property
    def files(self) -> list[StoragePath]:
        """Paths of the data files."""
        return [self.partition.data / file.name for file in self.manifest.files]

    def rows(self) -> Iterator[Row]:
        """Yield the rows in the order of the files. The SHA-256 of each file is verified before its rows.

        :raises StorageError: if a file is missing or damaged. A run that replaces the snapshot during the reading
            removes the old files; in this case, read the manifest again.
        """
        for file, path in zip(self.manifest.files, self.files, strict=True):
            with storage_errors(f"read {path}"), open_verified(path, file.sha256) as stored:
                yield from read_rows(stored, file.name)

    def changes(self) -> list[dict[str, Any]]:
        """Return the changes since the previous snapshot (docs/snapshots.md); empty without a previous one.

        :raises StorageError: if the file cannot be read.
        """
        if self.manifest.changes is None:
            return []
        path = self.partition.about / self.manifest.changes
        with storage_errors(f"read {path}"):
            content = read_bytes(path)
        if content is None:
            raise StorageError(f"{path} is missing. Restore it, or take the snapshot again.")
        return [json.loads(line) for line in content.splitlines()]

    def problems(self, *, verify: bool = True) -> list[str]:
        """Return the problems of the data files; empty if the snapshot is whole.

        :param verify: read the files and compare their SHA-256, not only their sizes.
        :raises StorageError: if the storage fails.
        """
        found = []
        for file, path in zip(self.manifest.files, self.files, strict=True):
            with storage_errors(f"look at {path}"):
                size = size_of(path)
            if size is None:
                found.append(f"{path} is missing")
            elif size != file.bytes:
                found.append(f"{path} is damaged: it has {size} bytes, the manifest says {file.bytes}")
            elif verify:
                try:
                    with storage_errors(f"read {path}"), open_verified(path, file.sha256):
                        pass
                except StorageError as error:
                    found.append(str(error))
        return found


def read_snapshot(base: StoragePath | str, day: date | str, dataset: str = DATASET) -> Snapshot | None:
    """Return the snapshot of a day, or None if none is published.

    The rule for every reader: ``_SUCCESS`` marks the day as published, and ``_manifest.json`` lists its files. Read
    only those files.

    :param base: base path, also as the text of a URL or path: ``s3://bucket/path``.
    :param day: the day, also as text: ``2026-11-20``; not a point in time.
    :param dataset: name of the dataset; default ``websites``.
    :raises ValueError: if the day or the name of the dataset is not allowed.
    :raises StorageError: if the manifest cannot be read, is damaged, or is from a newer version.
    """
    if isinstance(day, datetime):  # a subclass of date
        raise refused("day", day, "a date without a time, which belongs to different days in different time zones")
    return read_partition(dataset_of(base, dataset).partition(parse_day(day) if isinstance(day, str) else day))


def read_partition(partition: Partition) -> Snapshot | None:
    """Return the snapshot in a partition, or None if none is published.

    :raises StorageError: if the manifest cannot be read, is damaged, or is from a newer version.
    """
    with storage_errors(f"read {partition.manifest}"):
        if not exists(partition.success):
            return None
        content = read_bytes(partition.manifest)
    if content is None:
        raise StorageError(f"{partition.manifest} is missing. Restore it, or take the snapshot again.")
    manifest = decode(content, str(partition.manifest))
    if manifest.snapshot_date != partition.day:
        raise StorageError(
            f"{partition.manifest} is damaged (it is that of {manifest.snapshot_date}). Restore it, or take the "
            "snapshot again."
        )
    return Snapshot(partition, manifest, digest(content))


def is_published(partition: Partition) -> bool:
    """Return whether a partition has a published snapshot, readable or not."""
    with storage_errors(f"look for a snapshot in {partition.about}"):
        return exists(partition.success)


def published_days(dataset: Dataset, before: date | None = None) -> Iterator[date]:
    """Yield the days with a published snapshot, newest first, optionally only those before a day."""
    with storage_errors(f"look for snapshots in {dataset.about}"):
        for day in dataset.days():
            if (before is None or day < before) and exists(dataset.partition(day).success):
                yield day


def newest_day(dataset: Dataset, before: date | None = None) -> date | None:
    """Return the newest day with a published snapshot, optionally before a day; None if there is none."""
    return next(published_days(dataset, before), None)
