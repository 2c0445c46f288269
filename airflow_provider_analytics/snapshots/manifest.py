# SPDX-License-Identifier: Apache-2.0
"""The manifest: the content of a snapshot, its source, and the proof that it is complete.

Unknown keys are ignored, so that newer versions can add keys.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any

import msgspec

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.readable import is_plain, readable
from airflow_provider_analytics.storage import PRIVATE, SHARED

#: Incremented if a reader of the previous version could misread a manifest; not for new keys alone.
VERSION = 1
#: Snapshot names: they are the names of folders, and readers skip names that start with ``_``.
SNAPSHOT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
#: Keys of a manifest that are also in ``_latest.json``, besides the paths and the digest of the newest snapshot.
IN_LATEST = ("version", "snapshot_name", "snapshot_date", "observed_at", "late", "count")

Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A data file of the snapshot.

    :param path: path below the base path, ``websites/dt=2026-11-20/websites-....jsonl``.
    :param rows: number of rows, without the header.
    :param bytes: stored size.
    :param sha256: SHA-256 of the stored bytes.
    """

    path: str
    rows: int
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.rpartition("/")[2]


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column.

    :param name: name of the column.
    :param type: ``string``, ``integer``, ``boolean``, ``date``, or ``timestamp``.
    """

    name: str
    type: str


class ListSource(msgspec.Struct, frozen=True, kw_only=True):
    """The source of the list.

    :param url: base URL of the service: scheme, host, port unless it is the default port, and sub-path.
    :param account_id: id of the account; null if the service does not return one.
    """

    url: str
    account_id: str | None


class Completeness(msgspec.Struct, frozen=True, kw_only=True):
    """The proof that the list is complete.

    :param method: ``one page`` (all websites were on one page), ``closed reading`` (totals and newest websites matched
        before and after), or ``both directions`` (both found the same websites).
    :param total: number of websites according to the service; null if it does not return one.
    :param pages: number of pages in the attempt that was proven complete.
    """

    method: str
    total: int | None
    pages: int


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between the records and interface.md, Fields.

    :param new: undocumented fields; they are stored only in ``record``.
    :param missing: documented fields that no website had.
    :param partial: documented fields that some websites had and others not: the service omits empty values.
    :param invalid_values: documented field to the number of values that do not fit its type; these values are null.
    """

    new: list[str]
    missing: list[str]
    invalid_values: dict[str, int]
    partial: list[str] = []


class Previous(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier snapshot, and the changes since then.

    :param snapshot_date: its day.
    :param observed_at: start time of the read of its list.
    :param count: its number of websites.
    :param digest: SHA-256 of its manifest.
    :param removed: websites removed since then.
    :param privacy_changed: websites whose privacy changed since then; included in ``changed``.
    :param changed: websites changed since then, in fields that count.
    :param added: websites added since then.
    """

    snapshot_date: date
    observed_at: Moment
    count: int
    digest: str
    removed: int
    privacy_changed: int
    changed: int
    added: int

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of the websites that changed since then, most serious first."""
        return {
            "removed": self.removed,
            "privacy_changed": self.privacy_changed,
            "changed": self.changed,
            "added": self.added,
        }


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a snapshot. ``manifest.schema.json`` is generated from this class.

    :param version: version of the manifest's format.
    :param snapshot_name: name of the snapshots.
    :param snapshot_date: day of the snapshot.
    :param observed_at: start time of the read.
    :param finished_at: time at which the list was proven complete.
    :param late: true if the list was observed on another day than ``snapshot_date``.
    :param count: number of websites; their ids are distinct.
    :param proof: the proof that the list is complete.
    :param requests: number of requests sent, including attempts that were discarded.
    :param retries: number of requests sent again.
    :param filters: filters of the list; empty for all websites.
    :param source: the source of the list.
    :param provider_version: version of this package.
    :param format: ``jsonl``, ``csv``, or ``parquet``.
    :param compression: null or ``gzip``.
    :param exclude_ips_as: ``keep``, ``hash``, or ``drop``.
    :param files: the data files; empty if there are no websites.
    :param columns: the columns, in order.
    :param fields: differences between the records and the documented fields.
    :param ignored: documented fields that do not count as changes.
    :param is_first: true if no snapshot of an earlier day was published.
    :param previous: the snapshot of the latest earlier day; null if there is none, or if it is damaged.
    :param replaced_snapshot: the snapshot of the same day that this one replaces; null if there is none, or if it is
        damaged.
    :param changes_path: name of the JSON Lines file with all changes since ``previous``, or since ``replaced_snapshot``
        if there is no ``previous``. It is stored next to the manifest; null without both.
    :param report: name of the HTML report, stored next to the manifest; null if there is none.
    """

    version: int
    snapshot_name: str
    snapshot_date: date
    observed_at: Moment
    finished_at: Moment
    late: bool
    count: int
    proof: Completeness
    requests: int
    retries: int
    filters: dict[str, Any]
    source: ListSource
    provider_version: str
    format: str
    compression: str | None
    exclude_ips_as: str
    files: list[File]
    columns: list[Column]
    fields: Fields
    ignored: list[str]
    is_first: bool
    previous: Previous | None
    replaced_snapshot: Previous | None
    changes_path: str | None
    report: str | None

    @property
    def mode(self) -> int:
        """Permissions of the files on a local disk: private if they contain addresses."""
        return PRIVATE if self.exclude_ips_as == "keep" else SHARED

    @property
    def file_names(self) -> set[str]:
        """Names of all files of this snapshot, except the manifest and the marker."""
        return {file.name for file in self.files}.union(filter(None, (self.changes_path, self.report)))


def encode(described: Manifest | Mapping[str, Any]) -> bytes:
    """Return a manifest, or the content of ``_latest.json``, as stored bytes."""
    return msgspec.json.format(msgspec.json.encode(described), indent=2) + b"\n"


def digest(content: bytes) -> str:
    """Return the digest of a stored manifest: its SHA-256."""
    return hashlib.sha256(content).hexdigest()


def decode(content: bytes, where: str) -> Manifest:
    """Parse the stored bytes of a manifest.

    :param where: path of the manifest, for messages.
    :raises NewerVersionError: if a newer version of this package wrote it.
    :raises StorageError: if it is corrupt.
    """
    try:
        version = msgspec.json.decode(content, type=_Version).version
        if version <= VERSION:
            manifest = msgspec.json.decode(content, type=Manifest)
            _check_names(manifest)
            return manifest
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise StorageError(
            f"{where} is damaged ({error}).",
            "Restore it from a copy. On its own day, you can also take the snapshot again.",
        ) from error
    raise NewerVersionError(
        f"{where} has version {version}, but this package reads versions up to {VERSION}.",
        "A newer airflow-provider-analytics wrote it. Upgrade this package.",
    )


def _check_names(manifest: Manifest) -> None:
    """Raise :class:`ValueError` if a name in the manifest leads out of the folders of its day."""
    if not SNAPSHOT_NAME.fullmatch(manifest.snapshot_name):
        raise ValueError(f"{readable(manifest.snapshot_name)!r} is not a snapshot name")
    folder = f"{manifest.snapshot_name}/dt={manifest.snapshot_date.isoformat()}"
    for file in manifest.files:
        if file.path != f"{folder}/{file.name}":
            raise ValueError(f"the path {readable(file.path)!r} is not in the folder {folder}")
    for name in manifest.file_names:
        if name in ("", ".", "..") or not is_plain(name) or set(name) & {"/", "\\"}:
            raise ValueError(f"{readable(name)!r} is not the name of a file")


class NewerVersionError(StorageError):
    """A manifest was written by a newer version of this package."""


class _Version(msgspec.Struct):
    version: int
