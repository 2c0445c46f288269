"""Read a snapshot by its manifest: the only way that never returns a part of one, or a mix of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots import layout
from airflow_provider_analytics.snapshots.formats import read_rows
from airflow_provider_analytics.snapshots.manifest import Manifest, decode, digest
from airflow_provider_analytics.snapshots.rows import Row
from airflow_provider_analytics.storage import StoragePath, exists, open_to_read, read_bytes, storage_errors

#: Maximum number of snapshots in a chart, the current one included.
MAX_HISTORY = 60


@dataclass(frozen=True)
class Snapshot:
    """A published snapshot.

    :param partition: path of its folder.
    :param manifest: its manifest.
    :param digest: SHA-256 of the stored manifest.
    """

    partition: StoragePath
    manifest: Manifest
    digest: str

    def rows(self) -> Iterator[Row]:
        """Yield the rows, in the order of the files.

        :raises SnapshotError: if a file is missing or its number of rows is not that of the manifest. A run that
            replaces the snapshot in the meantime removes the old files; then read the manifest again.
        """
        for file in self.manifest.files:
            path = self.partition / file.name
            count = 0
            with storage_errors(f"read {path}"), open_to_read(path) as stored:
                for count, row in enumerate(read_rows(stored, file.name), start=1):  # noqa: B007 - a count
                    yield row
            if count != file.rows:
                raise SnapshotError(f"{path} has {count} rows, the manifest says {file.rows}")


def read_snapshot(base: StoragePath, day: date) -> Snapshot | None:
    """Return the snapshot of a day, or None if none is published.

    The rule for every reader: ``_SUCCESS`` marks the day as published, ``manifest.json`` names its files; read those
    and no others.

    :raises SnapshotError: if the manifest cannot be read, is corrupt, or is from a newer version.
    """
    partition = layout.partition_path(base, day)
    stored = read_stored(partition)
    if stored is None:
        return None
    return Snapshot(partition, decode(stored, str(partition / layout.MANIFEST)), digest(stored))


def read_manifest(partition: StoragePath) -> Manifest | None:
    """Return the manifest of a published snapshot, or None if none is published.

    :raises SnapshotError: if it cannot be read, is corrupt, or is from a newer version.
    """
    content = read_stored(partition)
    return None if content is None else decode(content, str(partition / layout.MANIFEST))


def read_stored(partition: StoragePath) -> bytes | None:
    """Return the stored bytes of a published manifest, or None if none is published."""
    with storage_errors(f"read the manifest in {partition}"):
        if not exists(partition / layout.SUCCESS):
            return None
        return read_bytes(partition / layout.MANIFEST)


def latest_day(base: StoragePath, before: date | None = None) -> date | None:
    """Return the latest day with a published snapshot, optionally before another day; None if there is none."""
    with storage_errors(f"look for snapshots in {base}"):
        for day in layout.partition_days(base):
            if (before is None or day < before) and exists(layout.partition_path(base, day) / layout.SUCCESS):
                return day
    return None


def history(base: StoragePath, before: date) -> list[tuple[date, int]]:
    """Return day and count of the last published snapshots before a day, oldest first."""
    counts = []
    for day in [day for day in layout.partition_days(base) if day < before][: MAX_HISTORY - 1]:
        try:
            manifest = read_manifest(layout.partition_path(base, day))
        except SnapshotError:
            continue  # only a gap in the chart; a task that needs this snapshot fails in its guards
        if manifest:
            counts.append((day, manifest.count))
    return counts[::-1]
