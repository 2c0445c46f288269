# SPDX-License-Identifier: Apache-2.0
"""The published snapshots of a series: their paths, their days, and how to read them.

``<base>/<snapshot_name>/dt=YYYY-MM-DD/`` contains only data files, because some readers treat every file in a folder as
data. ``<base>/_<snapshot_name>/`` contains the metadata: ``_latest.json``, and per day ``_manifest.json`` and
``_SUCCESS``, which is written last. While a run publishes, the folder also contains its manifest as
``_manifest-<token>.json``. If the run dies, this draft identifies the files of the run. Readers of a whole folder skip
names that start with ``_``.

The folders are not named after the column ``snapshot_date``. Readers turn the name of a folder into a column, and most
of them fail if the file contains the same column with another type.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from airflow_provider_analytics.api.checks import invalid
from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.readable import counted
from airflow_provider_analytics.snapshots.formats import Row, read_rows
from airflow_provider_analytics.snapshots.manifest import IN_LATEST, SNAPSHOT_NAME, Manifest, decode, digest, encode
from airflow_provider_analytics.snapshots.run_day import parse_day
from airflow_provider_analytics.storage import (
    MAX_ROWS,
    StoragePath,
    check_limit,
    exists,
    names,
    new_token,
    open_verified,
    put_bytes,
    read_bytes,
    size_of,
    storage_errors,
)

#: Default name of a series of snapshots.
DEFAULT_NAME = "websites"
MANIFEST = "_manifest.json"
SUCCESS = "_SUCCESS"

_PARTITION = re.compile(r"dt=([0-9]{4}-[0-9]{2}-[0-9]{2})")
_REMEDY = "Restore it from a copy. On its own day, you can also take the snapshot again."

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Partition:
    """The two folders of a day.

    :param day: the day.
    :param data: folder of the data files.
    :param about: folder of the manifest and all other metadata.
    """

    day: date
    data: StoragePath
    about: StoragePath

    @property
    def folders(self) -> tuple[StoragePath, StoragePath]:
        """Both folders."""
        return self.data, self.about

    @property
    def manifest(self) -> StoragePath:
        """Path of the manifest."""
        return self.about / MANIFEST

    @property
    def success(self) -> StoragePath:
        """Path of the marker of a published day."""
        return self.about / SUCCESS

    @property
    def is_published(self) -> bool:
        """Whether the day has a published snapshot, readable or not."""
        with storage_errors(f"look for a snapshot in {self.about}"):
            return exists(self.success)

    def read(self) -> Snapshot | None:
        """Return the snapshot of the day, or None if none is published.

        :raises StorageError: if the manifest cannot be read, is damaged, or is from a newer version.
        """
        if not self.is_published:
            return None
        content = _read_file(self.manifest)
        manifest = decode(content, str(self.manifest))
        if manifest.snapshot_date != self.day:
            raise StorageError(f"{self.manifest} is damaged: it is the manifest of {manifest.snapshot_date}.", _REMEDY)
        return Snapshot(self, manifest, digest(content))


@dataclass(frozen=True)
class SnapshotSeries:
    """A series of snapshots: the snapshots of a list, under a name.

    :param base: base path; it can contain several series.
    :param name: name of the series.
    """

    base: StoragePath
    name: str = DEFAULT_NAME

    @property
    def data(self) -> StoragePath:
        """Folder with the data files of all days."""
        return self.base / self.name

    @property
    def about(self) -> StoragePath:
        """Folder with the manifests of all days."""
        return self.base / f"_{self.name}"

    @property
    def latest(self) -> StoragePath:
        """Path of the file that points to the newest snapshot."""
        return self.about / "_latest.json"

    def partition(self, day: date) -> Partition:
        """Return the folders of a day."""
        folder = f"dt={day.isoformat()}"
        return Partition(day, self.data / folder, self.about / folder)

    def days(self) -> list[date]:
        """Return the days that have a folder, published or not, newest first. Other folders are ignored."""
        found = set()
        for name in (*names(self.about), *names(self.data)):
            match = _PARTITION.fullmatch(name)
            if match:
                with suppress(ValueError):  # not a date, such as dt=2026-02-30
                    found.add(date.fromisoformat(match[1]))
        return sorted(found, reverse=True)

    def published(self, before: date | None = None) -> Iterator[Partition]:
        """Yield the days with a published snapshot, newest first.

        :param before: only days before this one.
        """
        with storage_errors(f"look for snapshots in {self.about}"):
            days = self.days()
        for day in days:
            partition = self.partition(day)
            if (before is None or day < before) and partition.is_published:
                yield partition


def snapshot_series(base: Any, name: str = DEFAULT_NAME) -> SnapshotSeries:
    """Return the series of snapshots below a base path: a path object, or the text of a URL or path.

    :raises ValueError: if the name is not allowed. It becomes a folder name, and readers skip names that begin with
        ``_``.
    """
    if not isinstance(name, str) or not SNAPSHOT_NAME.fullmatch(name):
        raise invalid("snapshot_name", name, "1 to 64 of a-z, 0-9, _, and -, starting with a letter or digit")
    return SnapshotSeries(StoragePath.of(base), name)


@dataclass(frozen=True)
class Snapshot:
    """A published snapshot. Its methods never return a part of it, or a mix of two snapshots.

    :param partition: folders of the data and of the manifest.
    :param manifest: parsed manifest, see
        https://airflow-provider-analytics.github.io/airflow-provider-analytics/reference/manifest/.
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

        :raises StorageError: if a file is missing or damaged. A run that replaces the snapshot in the meantime
            removes the old files; then call :func:`read_snapshot` again.
        :raises MissingPackageError: if the format needs an extra that is not installed.
        """
        for file, path in zip(self.manifest.files, self.files, strict=True):
            with (
                storage_errors(f"read {path}"),
                open_verified(path, file.sha256) as stored,
                closing(read_rows(stored, file.name)) as rows,
            ):
                yield from _checked(rows, path)

    def changes(self) -> list[dict[str, Any]]:
        """Return the changes since the previous snapshot; empty without one.

        :raises StorageError: if the file cannot be read.
        """
        if self.manifest.changes_path is None:
            return []
        path = self.partition.about / self.manifest.changes_path
        content = _read_file(path)
        try:
            return [json.loads(line) for line in content.splitlines()]
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{path} is damaged ({error}).", _REMEDY) from error

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
                found.append(f"{path} is damaged: it has {size:,} bytes instead of {file.bytes:,}")
            elif verify:
                try:
                    with storage_errors(f"read {path}"), open_verified(path, file.sha256):
                        pass
                except StorageError as error:
                    found.append(error.text)
        return found


def _read_file(path: StoragePath) -> bytes:
    """Return the content of a file that a snapshot must have.

    :raises StorageError: if it cannot be read, or does not exist.
    """
    with storage_errors(f"read {path}"):
        content = read_bytes(path)
    if content is None:
        raise StorageError(f"{path} is missing.", _REMEDY)
    return content


def _checked(rows: Iterable[Row], path: StoragePath) -> Iterator[Row]:
    """Yield the rows of a file.

    :raises StorageError: if a row cannot be read, or is damaged.
    """
    number = 0
    try:
        for row in rows:
            number += 1
            check_limit(path, "rows", number, MAX_ROWS)
            if not _is_row(row):
                raise StorageError(f"{path} is damaged: row {number:,} has no id, record, or record_hash.", _REMEDY)
            yield row
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged after {counted(number, 'row')}: {error}.", _REMEDY) from error


def _is_row(row: object) -> bool:
    """Return whether a stored row contains the text that every reader needs: other software might have written it."""
    if not isinstance(row, dict):
        return False
    return {type(row.get(name)) for name in ("id", "record", "record_hash")} == {str}


@dataclass(frozen=True)
class Entry:
    """A published snapshot in the catalog.

    :param day: day of the snapshot.
    :param snapshot: the snapshot; None if its manifest cannot be read.
    :param problems: problems found; empty if it is whole.
    """

    day: date
    snapshot: Snapshot | None
    problems: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the manifest and all files exist and are undamaged."""
        return not self.problems


def read_snapshot(base: Any, day: date | str, snapshot_name: str = DEFAULT_NAME) -> Snapshot | None:
    """Return the snapshot of a day, or None if none is published.

    :param base: base path: a local path, text of a URL or path, or Airflow's ``ObjectStoragePath`` with a connection.
    :param day: the day, also as text: ``2026-11-20``; not a point in time.
    :param snapshot_name: name of the snapshots.
    :raises ValueError: if the day or the snapshot name is not allowed.
    :raises StorageError: if the manifest cannot be read, is damaged, or is from a newer version.
    """
    return snapshot_series(base, snapshot_name).partition(parse_day(day)).read()


def newest_snapshot(base: Any, snapshot_name: str = DEFAULT_NAME) -> Snapshot | None:
    """Return the newest published snapshot of a series, or None if there is none.

    :param base: see :func:`read_snapshot`.
    :param snapshot_name: name of the snapshots.
    :raises StorageError: see :func:`read_snapshot`.
    """
    newest = next(snapshot_series(base, snapshot_name).published(), None)
    return newest.read() if newest else None


def list_snapshots(base: Any, snapshot_name: str = DEFAULT_NAME, *, verify: bool = False) -> list[Entry]:
    """Return the published snapshots of a series, newest first.

    :param base: see :func:`read_snapshot`.
    :param snapshot_name: name of the snapshots.
    :param verify: read all files and compare their SHA-256 with the manifest, not only their sizes.
    :raises StorageError: if the storage fails.
    """
    found = []
    for partition in snapshot_series(base, snapshot_name).published():
        try:
            snapshot = partition.read()
        except StorageError as error:
            found.append(Entry(partition.day, None, (error.text,)))
            continue
        if snapshot is not None:  # otherwise removed since the days were listed
            found.append(Entry(partition.day, snapshot, tuple(snapshot.problems(verify=verify))))
    return found


def point_to_latest(series: SnapshotSeries) -> None:
    """Point ``_latest.json`` to the newest published snapshot, with an atomic write, for readers without Python.

    :raises StorageError: if the storage fails.
    """
    for _ in range(3):  # another run can publish a newer one at the same time
        newest = next(series.published(), None)
        if newest is None:
            return
        try:
            snapshot = newest.read()
        except StorageError as error:
            log.warning("%s still names an earlier snapshot: %s", series.latest, error.text)
            return
        if snapshot is None:
            continue
        manifest = snapshot.manifest
        latest = {name: getattr(manifest, name) for name in IN_LATEST}
        # Paths below the base path.
        latest["manifest"] = f"{series.about.name}/{newest.about.name}/{newest.manifest.name}"
        latest["digest"] = snapshot.digest
        latest["files"] = [file.path for file in manifest.files]
        with storage_errors(f"write {series.latest}"):
            put_bytes(series.latest, encode(latest), new_token(datetime.now(UTC)), manifest.mode)
        if next(series.published(), None) == newest:
            return
