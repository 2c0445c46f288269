"""Publish a snapshot: all of it at once, or nothing.

The order is what makes it safe, whenever the process dies:

1. The files go to the folder under names that no other run uses. No manifest names them: nobody reads them.
2. ``manifest.json`` is replaced by one atomic write. From here on readers see the new snapshot, and all of it.
3. ``_SUCCESS`` is written (its content is the digest of that manifest).
4. Files of the replaced snapshot are removed, and those that dead runs left behind.

Of two runs at once the one that writes the manifest last wins. A run removes files that the manifest it replaced
named, and files too old to belong to a run that is still writing; so it never takes one from the other run.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots import layout
from airflow_provider_analytics.snapshots.manifest import Manifest, decode, digest, encode
from airflow_provider_analytics.storage import (
    StoragePath,
    exists,
    make_directory,
    names,
    put_bytes,
    put_file,
    read_bytes,
    remove,
    storage_errors,
    token_age,
)

#: A run puts its files and its manifest within this time; what is older and unnamed was left by a dead run.
ABANDONED_AFTER = timedelta(minutes=15)

log = logging.getLogger(__name__)


def publish(partition: StoragePath, manifest: Manifest, files: Sequence[Path], token: str, now: datetime) -> str:
    """Publish local files with their manifest and return its digest.

    :param partition: folder of the snapshot; a snapshot in it is replaced.
    :param files: local files, named as in the manifest.
    :param token: the unique part of their names.
    :param now: when the list was read.
    :raises SnapshotError: if the storage fails, or another run published at the same time; the folder then holds the
        earlier snapshot, or that of the other run.
    """
    target = partition / layout.MANIFEST
    content = encode(manifest)
    with storage_errors(f"write the snapshot to {partition}"):
        try:
            make_directory(partition)
            for file in files:
                put_file(file, partition / file.name, token)
        except BaseException:
            _remove_all(partition, manifest.file_names)
            raise
        if missing := [file.name for file in files if not exists(partition / file.name)]:
            raise SnapshotError(f"{', '.join(missing)} disappeared from {partition} while the snapshot was written")
        # From here on a failure removes nothing: a write that failed may have reached an object store all the same.
        replaced = read_bytes(target)
        put_bytes(target, content, token)
        put_bytes(partition / layout.SUCCESS, digest(content).encode(), token)
        if read_bytes(target) != content:
            _remove_all(partition, manifest.file_names)
            raise SnapshotError(f"another run published to {partition} at the same time; its snapshot is kept")
    _tidy(partition, manifest, replaced, now)
    return digest(content)


def _tidy(partition: StoragePath, manifest: Manifest, replaced: bytes | None, now: datetime) -> None:
    """Remove files that no manifest names any more; a failure only logs a warning, since the snapshot is published."""
    outdated: set[str] = set()
    if replaced is not None:
        with suppress(SnapshotError):  # a corrupt one names nothing
            outdated = decode(replaced, layout.MANIFEST).file_names
    try:
        for name in names(partition):
            age = token_age(name, now)
            if name in manifest.file_names or age is None:
                continue
            if name in outdated or age > ABANDONED_AFTER:
                remove(partition / name)
    except Exception:
        log.warning("Could not remove files of an earlier snapshot from %s", partition, exc_info=True)


def _remove_all(partition: StoragePath, file_names: set[str]) -> None:
    for name in file_names:
        with suppress(Exception):
            remove(partition / name)
