"""Reading a snapshot by its manifest: the only way that never shows a part of one, or parts of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots import layout
from airflow_provider_analytics.snapshots.formats import read_rows
from airflow_provider_analytics.snapshots.manifest import Manifest, decode, digest, read_stored
from airflow_provider_analytics.snapshots.rows import Row
from airflow_provider_analytics.storage import StoragePath, open_to_read, storage_errors


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
