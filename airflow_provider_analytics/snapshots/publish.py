# SPDX-License-Identifier: Apache-2.0
"""Publish a snapshot completely or not at all, and remove only files of this package.

The order of the steps makes this safe even if the process dies:

1. ``_manifest-<token>.json``, the draft of the manifest, lists the files that the run will write.
2. The files are written to their folders under unique names. No reader sees them.
3. ``_manifest.json`` is replaced by one atomic write, unless it is of another list. From now on, readers see the
   complete new snapshot.
4. ``_SUCCESS`` is written, an empty file.
5. ``_latest.json`` is replaced, if this is the newest day.
6. The draft, the files of the replaced snapshot, and the files of dead runs are removed, also on the day before.

If two runs publish at the same time, the one that writes the manifest last wins. The other removes its own files, and
publishes a new list once more. A run removes files of three kinds only, so it takes none from another run:

- files that the replaced manifest lists;
- files that are too old to belong to a run that is still writing;
- files of earlier tries of its own task.

A try that Airflow considers dead might still be alive. It restores the files that its retry removed.

A file belongs to this package if a manifest or a draft lists it. It also does if it lies next to a manifest and its
name contains a token (:func:`new_token`). A day without any manifest is never touched, regardless of its file names. It
might be a snapshot that was copied without its manifest, or another table. Symbolic links are neither removed nor
followed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.snapshots.catalog import (
    MANIFEST,
    SUCCESS,
    Partition,
    Snapshot,
    SnapshotSeries,
    point_to_latest,
)
from airflow_provider_analytics.snapshots.manifest import Manifest, decode, digest, encode
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

#: A run writes its files and its manifest within this time. Older files that no manifest lists belong to a dead run.
ABANDONED_AFTER = timedelta(minutes=15)

_DRAFT = re.compile(r"_manifest-[0-9TZa-f-]+\.json")
#: Written by :func:`diff.diff_snapshots` next to a manifest, for each comparison.
_COMPARISON = re.compile(r"_since-[0-9]{4}-[0-9]{2}-[0-9]{2}\.jsonl")

log = logging.getLogger(__name__)


class OvertakenError(StorageError):
    """Another run replaced the snapshot before its publication ended."""


def publish(
    series: SnapshotSeries,
    manifest: Manifest,
    folder: Path,
    token: str,
    check: Callable[[Manifest], None],
) -> Snapshot:
    """Publish local files with their manifest and return the snapshot.

    :param series: the snapshots with one name; a snapshot of the same day is replaced.
    :param folder: folder of the files, named as in the manifest.
    :param token: the unique part of the names.
    :param check: called with the manifest that is replaced; raises an error if it must not be. Another run might have
        published it after this run started.
    :raises StorageError: if the storage fails. The folders then contain the earlier snapshot.
    :raises OvertakenError: if another run published at the same time. The folders then contain its snapshot.
    """
    partition = series.partition(manifest.snapshot_date)
    content = encode(manifest)
    draft = partition.about / f"_manifest-{token}.json"
    files = _targets(partition, manifest, folder)
    with storage_errors(f"write the snapshot to {partition.data}"):
        try:
            make_directory(partition.about, manifest.mode)
            put_bytes(draft, content, token, manifest.mode)
            if manifest.files:
                make_directory(partition.data, manifest.mode)
            for target, file in files.items():
                put_file(file, target, token, manifest.mode)
            replaced = read_bytes(partition.manifest)
            if replaced is not None:
                with suppress(StorageError):  # a damaged manifest can be replaced
                    check(decode(replaced, str(partition.manifest)))
        except BaseException:
            _remove_all([*files, draft])
            raise
        try:
            put_bytes(partition.manifest, content, token, manifest.mode)
            put_bytes(partition.success, b"", token, manifest.mode)
        except BaseException:
            if not _might_contain(partition.manifest, content):
                _remove_all([*files, draft])
            raise
    try:
        point_to_latest(series)
    except StorageError as error:  # the snapshot is published, and the next run repairs this file
        log.warning("Could not update %s: %s", series.latest, error.text)
    _remove_all([draft])
    _clean_up(series, partition, manifest, replaced, token)
    with storage_errors(f"write the snapshot to {partition.data}"):
        if read_bytes(partition.manifest) != content:
            _remove_all(files)
            raise OvertakenError(
                f"Another run published {manifest.snapshot_date} at the same time. Its snapshot is kept.",
                "A retry publishes the snapshot of this run after it.",
            )
        for target, file in files.items():
            if not exists(target):
                put_file(file, target, token, manifest.mode)
    return Snapshot(partition, manifest, digest(content))


def _targets(partition: Partition, manifest: Manifest, folder: Path) -> dict[StoragePath, Path]:
    """Return the path of each file of a snapshot in the storage, and its local file."""
    data = {file.name for file in manifest.files}
    targets = {}
    for name in manifest.file_names:
        target = partition.about
        if name in data:
            target = partition.data
        targets[target / name] = folder / name
    return targets


def files_of_snapshot(partition: Partition, now: datetime) -> list[StoragePath]:
    """Return the files of a published snapshot in the order of removal, without other files.

    The marker comes first: once it is removed, no reader sees the snapshot. The manifest comes last, because it lists
    the other files of the snapshot.

    :raises StorageError: if the storage fails.
    """
    with storage_errors(f"look into {partition.data}"):
        found = _list_files(partition)
        named = _listed_in(read_bytes(partition.manifest), partition)
    own = [partition.success]
    for path in found:
        is_comparison = path == partition.about / path.name and _COMPARISON.fullmatch(path.name)
        if path.name in named or _is_old(path.name, now) or is_comparison:
            own.append(path)
    return [path for path in (*own, partition.manifest) if path in found]


def has_manifest(partition: Partition) -> bool:
    """Return whether a day belongs to this package: whether it has a manifest, a draft, or the marker.

    :raises StorageError: if the storage fails.
    """
    with storage_errors(f"look into {partition.about}"):
        for name in files_in(partition.about):
            if name in (MANIFEST, SUCCESS) or _DRAFT.fullmatch(name):
                return True
    return False


def orphaned_files(partition: Partition, now: datetime) -> list[StoragePath]:
    """Return the files that dead runs left in a partition. They are too old for a run that is still writing.

    - On a published day: all files with a token in their names that the manifest does not list.
    - On an unpublished day: the files that a draft or a manifest lists.
    - On a day with a damaged manifest, or without any: none. A person can perhaps restore the manifest.

    :raises StorageError: if the storage fails.
    """
    with storage_errors(f"look into {partition.data}"):
        found = _list_files(partition)
    old = [path for path in found if _is_old(path.name, now)]
    try:
        snapshot = partition.read()
    except StorageError:
        return []
    if snapshot is not None:
        return [path for path in old if path.name not in snapshot.manifest.file_names]
    listed: set[str] = set()
    drafts = []
    with storage_errors(f"look into {partition.about}"):
        for path in found:
            if not _DRAFT.fullmatch(path.name) and path != partition.manifest:
                continue
            names = _listed_in(read_bytes(path), partition)
            listed |= names
            if all(_is_old(name, now) for name in names or {path.name}):
                drafts.append(path)
    own = [path for path in old if path.name in listed or path.name.endswith(TEMPORARY)]
    # A draft is removed after the files that it lists, so that the next run can still identify them.
    return [*own, *drafts]


def remove_files(partition: Partition, files: Iterable[StoragePath]) -> None:
    """Remove files of a partition in this order, then its folders if they are empty.

    :raises StorageError: if the storage fails. Files that were removed before remain removed; the others are unchanged.
    """
    with storage_errors(f"remove files of {partition.day}"):
        for path in files:
            remove(path)
        for folder in partition.folders:
            remove_directory(folder)


def _clean_up(
    series: SnapshotSeries, partition: Partition, manifest: Manifest, replaced: bytes | None, token: str
) -> None:
    """Remove files that no manifest lists. A failure only logs a warning, since the snapshot is published."""
    outdated, now = _listed_in(replaced, partition), manifest.finished_at
    try:
        named = manifest.file_names | _listed_in(read_bytes(partition.manifest), partition)  # another run can be faster
        for path in _list_files(partition):
            if path.name in named or token_age(path.name, now) is None:
                continue
            if path.name in outdated or _is_old(path.name, now) or is_same_writer(path.name, token):
                remove(path)
        earlier = [day for day in series.days() if day < manifest.snapshot_date]
        for day in earlier[:1]:
            for path in orphaned_files(series.partition(day), now):
                remove(path)
    except Exception:
        log.warning("Could not remove files of an earlier snapshot from %s.", partition.data, exc_info=True)


def _list_files(partition: Partition) -> list[StoragePath]:
    """Return the files in both folders of a partition. Folders below a symbolic link are skipped."""
    files: list[StoragePath] = []
    for folder in partition.folders:
        if not is_link(folder.parent):
            files += [folder / name for name in files_in(folder)]
    return files


def _is_old(name: str, now: datetime) -> bool:
    """Return whether a name contains the token of a run that can no longer be writing."""
    age = token_age(name, now)
    return age is not None and age > ABANDONED_AFTER


def _listed_in(content: bytes | None, partition: Partition) -> set[str]:
    """Return the file names that a stored manifest lists; empty if it is damaged."""
    if content is None:
        return set()
    try:
        return decode(content, partition.manifest.name).file_names
    except StorageError:
        return set()


def _might_contain(path: StoragePath, content: bytes) -> bool:
    """Return whether a file has this content or cannot be read, since a failed write might still have taken effect."""
    try:
        return read_bytes(path) == content
    except Exception:
        return True


def _remove_all(files: Iterable[StoragePath]) -> None:
    for target in files:
        with suppress(Exception):
            remove(target)
