"""Publish a snapshot: all of it at once, or nothing. And remove what is this package's own, and nothing else.

The order is what makes it safe, whenever the process dies:

1. ``_manifest-<token>.json``, the draft of the manifest, says which files the run is going to write.
2. The files go to their folders under names that no other run uses. No reader sees them.
3. ``_manifest.json`` is replaced by one atomic write. From here on readers see the new snapshot, and all of it.
4. ``_SUCCESS`` is written (its content is the digest of that manifest).
5. ``_latest.json`` is replaced, if this is the newest day.
6. The draft, files of the replaced snapshot, and those that dead runs left behind are removed, also the day before.

Of two runs at once the one that writes the manifest last wins; the other removes its own files. A run removes files
that the manifest it replaced named, files too old to belong to a run that is still writing, and those of earlier tries
of its own task; so it takes none from another run. A try that Airflow takes for dead may be alive all the same: it
puts back what its retry removed.

A file is this package's own if a manifest or a draft names it, or if it lies beside a manifest and has the unique part
of a name (:func:`new_token`). A day without any manifest is left alone, whatever its files are called: it may be the
data of a snapshot that was copied without its manifest, or another table. Symbolic links are neither removed nor
followed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.snapshots.catalog import point_to_latest
from airflow_provider_analytics.snapshots.layout import (
    DRAFT,
    MANIFEST,
    SUCCESS,
    Dataset,
    Partition,
    is_comparison,
    is_draft,
)
from airflow_provider_analytics.snapshots.manifest import Manifest, decode, digest, encode
from airflow_provider_analytics.snapshots.reader import Snapshot, read_partition
from airflow_provider_analytics.storage import (
    TEMPORARY,
    StoragePath,
    exists,
    files_in,
    is_link,
    is_same_writer,
    make_directory,
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
    draft = partition.about / DRAFT.format(token=token)
    files = {partition.about / name: path for name, path in beside.items()}
    if data:
        files[partition.data / data.name] = data
    with storage_errors(f"write the snapshot to {partition.data}"):
        try:
            make_directory(partition.about)
            put_bytes(draft, content, token)
            if data:
                make_directory(partition.data)
            for target, file in files.items():
                put_file(file, target, token)
            missing = [str(target) for target in files if not exists(target)]
        except BaseException:
            _remove_all([*files, draft])
            raise
        if missing:
            _remove_all([*files, draft])
            raise StorageError(f"{', '.join(missing)} disappeared while the snapshot was written")
        try:
            replaced = read_bytes(partition.manifest)
            put_bytes(partition.manifest, content, token)
            put_bytes(partition.success, digest(content).encode(), token)
        except BaseException:
            if not _may_be(partition.manifest, content):
                _remove_all([*files, draft])
            raise
    try:
        point_to_latest(dataset)
    except StorageError as error:  # the snapshot is published, and the next one mends this
        log.warning("%s was not renewed: %s", dataset.latest, error)
    _remove_all([draft])
    _tidy(dataset, partition, manifest, replaced, token, now)
    with storage_errors(f"write the snapshot to {partition.data}"):
        if read_bytes(partition.manifest) != content:
            _remove_all(files)
            raise StorageError(f"another run published {manifest.snapshot_date} at the same time; its snapshot is kept")
        for target, file in files.items():
            if not exists(target):
                put_file(file, target, token)
    return Snapshot(partition, manifest, digest(content))


def files_of_snapshot(partition: Partition, now: datetime) -> list[StoragePath]:
    """Return the files of a published snapshot in the order in which they are removed.

    The marker comes first, so that from then on no reader sees the snapshot. The manifest comes last: until then it
    says which of the other files are its own. Files that are not this package's are not among them.

    :raises StorageError: if the storage fails.
    """
    with storage_errors(f"look into {partition.data}"):
        found = _found(partition)
        named = _named_by(read_bytes(partition.manifest), partition)
    comparisons = [path for path in found if path == partition.about / path.name and is_comparison(path.name)]
    own = [path for path in found if path.name in named or _is_old(path.name, now) or path in comparisons]
    return [path for path in (partition.success, *own, partition.manifest) if path in found]


def has_manifest(partition: Partition) -> bool:
    """Return whether a manifest, a draft of one, or the marker says that a day is of this package.

    :raises StorageError: if the storage fails.
    """
    with storage_errors(f"look into {partition.about}"):
        return any(name in (MANIFEST, SUCCESS) or is_draft(name) for name in files_in(partition.about))


def leftovers(partition: Partition, now: datetime) -> list[StoragePath]:
    """Return the files that dead runs left in a partition: too old to be still written, and not of a snapshot.

    Beside a snapshot these are all that have the unique part of a name, and that its manifest does not name. On a day
    that is not published they are what a draft or a manifest names. None on a day whose manifest is damaged, as someone
    may restore it, and none on a day without any.

    :raises StorageError: if the storage fails.
    """
    with storage_errors(f"look into {partition.data}"):
        found = _found(partition)
    old = [path for path in found if _is_old(path.name, now)]
    try:
        snapshot = read_partition(partition)
    except StorageError:
        return []
    if snapshot is not None:
        return [path for path in old if path.name not in snapshot.manifest.file_names]
    drafts = [path for path in found if is_draft(path.name) or path == partition.manifest]
    with storage_errors(f"look into {partition.about}"):
        named = {path: _named_by(read_bytes(path), partition) for path in drafts}
    own = [path for path in old if path.name in set().union(*named.values()) or path.name.endswith(TEMPORARY)]
    # A draft goes after the files that it names, so that the next look knows them, too.
    return [*own, *(path for path, files in named.items() if all(_is_old(name, now) for name in files or {path.name}))]


def remove_files(partition: Partition, files: Iterable[StoragePath]) -> None:
    """Remove files of a partition in this order, and its folders if they are empty then.

    :raises StorageError: if the storage fails; what was removed stays removed, the rest is unchanged.
    """
    with storage_errors(f"remove files of {partition.day}"):
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
        for path in _found(partition):
            if path.name in named or token_age(path.name, now) is None:
                continue
            if path.name in outdated or _is_old(path.name, now) or is_same_writer(path.name, token):
                remove(path)
        before = next((day for day in dataset.days() if day < manifest.snapshot_date), None)
        for path in leftovers(dataset.partition(before), now) if before else ():
            remove(path)
    except Exception:
        log.warning("Could not remove files of an earlier snapshot from %s", partition.data, exc_info=True)


def _found(partition: Partition) -> list[StoragePath]:
    """Return the files in both folders of a partition; none if a folder of the dataset is a link."""
    return [folder / name for folder in partition.folders if not is_link(folder.parent) for name in files_in(folder)]


def _is_old(name: str, now: datetime) -> bool:
    """Return whether a name has the unique part of a run that cannot be still writing."""
    age = token_age(name, now)
    return age is not None and age > ABANDONED_AFTER


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


def _remove_all(files: Iterable[StoragePath]) -> None:
    for target in files:
        with suppress(Exception):
            remove(target)
