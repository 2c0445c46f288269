"""Reading a snapshot by its manifest: the only way that never shows a part of one, or parts of two."""

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

#: Snapshots in a history.
MAX_HISTORY = 60


@dataclass(frozen=True)
class Snapshot:
    """A published snapshot.

    :param partition: path of its folder.
    :param manifest: what it holds.
    :param digest: SHA-256 of the stored manifest.
    """

    partition: StoragePath
    manifest: Manifest
    digest: str

    def rows(self) -> Iterator[Row]:
        """Yield the rows, in the order of the files.

        :raises SnapshotError: where a file is missing or does not have the rows that the manifest names. A run
            that replaces the snapshot meanwhile removes the files of the old one; read the manifest again then.
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
    """Return the snapshot of a day, or None where none is published.

    The rule for every reader: ``_SUCCESS`` says that the day is published, ``manifest.json`` says which files
    belong to it; read these and no others.

    :raises SnapshotError: where the manifest is corrupt or from a newer version.
    """
    partition = layout.partition_path(base, day)
    stored = read_stored(partition)
    if stored is None:
        return None
    return Snapshot(partition, decode(stored, str(partition / layout.MANIFEST)), digest(stored))


def read_manifest(partition: StoragePath) -> Manifest | None:
    """Return the manifest of a published snapshot, or None where none is published.

    :raises SnapshotError: where it cannot be read, is corrupt, or is too new.
    """
    content = read_stored(partition)
    return None if content is None else decode(content, str(partition / layout.MANIFEST))


def read_stored(partition: StoragePath) -> bytes | None:
    """Return a published manifest as it is stored, or None where none is published."""
    with storage_errors(f"read the manifest in {partition}"):
        if not exists(partition / layout.SUCCESS):
            return None
        return read_bytes(partition / layout.MANIFEST)


def latest_day(base: StoragePath, before: date | None = None) -> date | None:
    """Return the latest day that has a published snapshot, or the latest one before a day."""
    with storage_errors(f"look for snapshots in {base}"):
        for day in layout.partition_days(base):
            if (before is None or day < before) and exists(layout.partition_path(base, day) / layout.SUCCESS):
                return day
    return None


def history(base: StoragePath, before: date) -> list[tuple[date, int]]:
    """Return day and count of the published snapshots before a day, oldest first."""
    counts = []
    for day in [day for day in layout.partition_days(base) if day < before][: MAX_HISTORY - 1]:
        try:
            manifest = read_manifest(layout.partition_path(base, day))
        except SnapshotError:
            continue  # a gap in a chart; who needs that snapshot is told by the guards
        if manifest:
            counts.append((day, manifest.count))
    return counts[::-1]
