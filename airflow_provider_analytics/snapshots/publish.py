"""Publish a snapshot: all of it at once, or nothing.

The order is what makes it safe, whenever the process dies:

1. The files go to their folders under names that no other run uses. No manifest names them: nobody reads them.
2. ``_manifest.json`` is replaced by one atomic write. From here on readers see the new snapshot, and all of it.
3. ``_SUCCESS`` is written (its content is the digest of that manifest).
4. ``_latest.json`` is replaced, if this is the newest day.
5. Files of the replaced snapshot are removed, and those that dead runs left behind, also the day before.

Of two runs at once the one that writes the manifest last wins; the other removes its own files. A run removes files
that the manifest it replaced named, files too old to belong to a run that is still writing, and those of earlier tries
of its own task; so it takes none from another run. A try that Airflow takes for dead may be alive all the same: it
puts back what its retry removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.snapshots.catalog import point_to_latest
from airflow_provider_analytics.snapshots.layout import Dataset, Partition
from airflow_provider_analytics.snapshots.manifest import Manifest, decode, digest, encode
from airflow_provider_analytics.snapshots.reader import Snapshot, read_partition
from airflow_provider_analytics.storage import (
    StoragePath,
    exists,
    is_same_writer,
    make_directory,
    names,
    put_bytes,
    put_file,
    read_bytes,
    remove,
    remove_directory,
    storage_errors,
    token_age,
)

#: A run puts its files and its manifest within this time; what is older and unnamed was left by a dead run.
ABANDONED_AFTER = timedelta(minutes=15)

log = logging.getLogger(__name__)


def publish(
    dataset: Dataset, manifest: Manifest, data: Path | None, beside: Mapping[str, Path], token: str, now: datetime
) -> Snapshot:
    """Publish local files with their manifest and return the snapshot.

    :param dataset: the dataset; a snapshot of the same day is replaced.
    :param data: the data file, named as in the manifest; None if there is none.
    :param beside: name to local file of what belongs beside the manifest.
    :param token: the unique part of the names.
    :param now: when the list was read.
    :raises StorageError: if the storage fails, or another run published at the same time; the folders then hold the
        earlier snapshot, or that of the other run.
    """
    partition = dataset.partition(manifest.snapshot_date)
    content = encode(manifest)
    files = {partition.about / name: path for name, path in beside.items()}
    if data:
        files[partition.data / data.name] = data
    with storage_errors(f"write the snapshot to {partition.data}"):
        try:
            make_directory(partition.about)
            if data:
                make_directory(partition.data)
            for target, file in files.items():
                put_file(file, target, token)
            missing = [str(target) for target in files if not exists(target)]
        except BaseException:
            _remove_all(files)
            raise
        if missing:
            _remove_all(files)
            raise StorageError(f"{', '.join(missing)} disappeared while the snapshot was written")
        try:
            replaced = read_bytes(partition.manifest)
            put_bytes(partition.manifest, content, token)
            put_bytes(partition.success, digest(content).encode(), token)
        except BaseException:
            if not _may_be(partition.manifest, content):
                _remove_all(files)
            raise
    try:
        point_to_latest(dataset)
    except StorageError as error:  # the snapshot is published, and the next one mends this
        log.warning("%s was not renewed: %s", dataset.latest, error)
    _tidy(dataset, partition, manifest, replaced, token, now)
    with storage_errors(f"write the snapshot to {partition.data}"):
        if read_bytes(partition.manifest) != content:
            _remove_all(files)
            raise StorageError(f"another run published {manifest.snapshot_date} at the same time; its snapshot is kept")
        for target, file in files.items():
            if not exists(target):
                put_file(file, target, token)
    return Snapshot(partition, manifest, digest(content))


def remove_snapshot(partition: Partition) -> None:
    """Remove a snapshot: first the marker, so that from then on no reader sees it, then its files and folders.

    :raises StorageError: if the storage fails; what is left is not published.
    """
    with storage_errors(f"remove the snapshot in {partition.data}"):
        remove(partition.success)
        for folder in partition.folders:
            for name in names(folder):
                remove(folder / name)
            remove_directory(folder)


def leftovers(partition: Partition, now: datetime) -> list[StoragePath]:
    """Return the files in a partition that dead runs left: unnamed by its manifest, and too old to be still written.

    All files of a day that is not published, unless a run may still be writing one of them. None of a day whose
    manifest is damaged, as somebody may restore it.

    :raises StorageError: if the storage fails.
    """
    with storage_errors(f"look into {partition.data}"):
        found = {folder / name: token_age(name, now) for folder in partition.folders for name in names(folder)}
    old = [path for path, age in found.items() if age is not None and age > ABANDONED_AFTER]
    try:
        snapshot = read_partition(partition)
    except StorageError:
        return []
    if snapshot is None:
        return list(found) if all(age is None or age > ABANDONED_AFTER for age in found.values()) else old
    return [path for path in old if path.name not in snapshot.manifest.file_names]


def remove_leftovers(partition: Partition, files: Iterable[StoragePath]) -> None:
    """Remove the leftovers in a partition, and its folders if they are empty then.

    :raises StorageError: if the storage fails.
    """
    with storage_errors(f"remove what dead runs left in {partition.data}"):
        for path in files:
            remove(path)
        for folder in partition.folders:
            remove_directory(folder)


def _tidy(
    dataset: Dataset, partition: Partition, manifest: Manifest, replaced: bytes | None, token: str, now: datetime
) -> None:
    """Remove files that no manifest names any more; a failure only logs a warning, since the snapshot is published."""
    outdated = _named_by(replaced, partition)
    try:
        named = manifest.file_names | _named_by(read_bytes(partition.manifest), partition)  # another run may be faster
        for folder in partition.folders:
            for name in names(folder):
                age = token_age(name, now)
                if name in named or age is None:
                    continue
                if name in outdated or age > ABANDONED_AFTER or is_same_writer(name, token):
                    remove(folder / name)
        before = next((day for day in dataset.days() if day < manifest.snapshot_date), None)
        if before is not None:
            for path in leftovers(dataset.partition(before), now):
                if token_age(path.name, now) is not None:  # what else is in an unpublished day is not for every night
                    remove(path)
    except Exception:
        log.warning("Could not remove files of an earlier snapshot from %s", partition.data, exc_info=True)


def _named_by(content: bytes | None, partition: Partition) -> set[str]:
    """Return the names of the files of a stored manifest; a damaged one names nothing."""
    with suppress(StorageError):
        return set() if content is None else decode(content, partition.manifest.name).file_names
    return set()


def _may_be(path: StoragePath, content: bytes) -> bool:
    """Return whether a file has a content, or cannot be read: a write that failed may have been done all the same."""
    try:
        return read_bytes(path) == content
    except Exception:
        return True


def _remove_all(files: Mapping[StoragePath, Path]) -> None:
    for target in files:
        with suppress(Exception):
            remove(target)
