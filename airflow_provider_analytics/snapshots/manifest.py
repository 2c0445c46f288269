"""The manifest: what a snapshot holds, why it counts as complete, and what it is made of.

A key that this version does not know is ignored, so that a newer version may add some.
"""

from __future__ import annotations

import hashlib
import inspect
from datetime import date, datetime
from typing import Annotated, Any

import msgspec

from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots import layout
from airflow_provider_analytics.storage import StoragePath, exists, read_bytes, storage_errors

#: Raised when a reader of the version before could misunderstand a manifest; a new key alone does not count.
VERSION = 1

Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the snapshot.

    :param name: name in the folder of the manifest.
    :param rows: number of rows, without a header.
    :param bytes: size as stored.
    :param sha256: of the bytes as stored.
    """

    name: str
    rows: int
    bytes: int
    sha256: str


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column: ``string``, ``integer``, ``boolean``, ``date`` or ``timestamp``."""

    name: str
    type: str


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the list comes from: host of the base URL, and the account's id where the service shows one."""

    host: str
    account_id: str | None


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """What the service returned beyond or short of interface.md.

    :param new: fields that it does not name; they are in ``record`` only.
    :param missing: documented fields that no website had.
    :param misfits: documented field to the number of values that do not fit its type; they are null.
    """

    new: list[str]
    missing: list[str]
    misfits: dict[str, int]


class Previous(msgspec.Struct, frozen=True, kw_only=True):
    """The published snapshot of the latest earlier day, and what changed since then."""

    snapshot_date: date
    digest: str
    added: int
    removed: int
    changed: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """See the JSON Schema in ``manifest.schema.json``, which is made from this class.

    :param snapshot_date: the day the snapshot is filed under.
    :param observed_at: start of the reading.
    :param started_at: when the run began with it.
    :param finished_at: when the list had been read and proven.
    :param late: True where an older day was filled with the list of ``observed_at``, as asked for.
    :param count: websites.
    :param distinct_ids: different ids among them; the same number.
    :param proof: why the list counts as complete.
    :param pages: pages of the reading that held.
    :param requests: requests sent, those of readings that did not hold included.
    :param retries: requests that were sent again.
    :param filters: what the list was narrowed by; empty for all websites.
    :param exclude_ips: ``keep``, ``hash`` or ``drop``.
    :param report: name of the HTML report in the same folder.
    """

    version: int
    dataset: str
    snapshot_date: date
    observed_at: Moment
    started_at: Moment
    finished_at: Moment
    late: bool
    count: int
    distinct_ids: int
    proof: dict[str, Any]
    pages: int
    requests: int
    retries: int
    filters: dict[str, Any]
    source: Source
    provider_version: str
    format: str
    compression: str | None
    exclude_ips: str
    files: list[File]
    columns: list[Column]
    fields: Fields
    previous: Previous | None
    report: str | None

    @property
    def file_names(self) -> set[str]:
        """Names of all files that belong to this snapshot."""
        return {file.name for file in self.files} | ({self.report} if self.report else set())


def encode(manifest: Manifest) -> bytes:
    """Return the manifest as it is stored."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def digest(content: bytes) -> str:
    """Return the digest under which a stored manifest is known."""
    return hashlib.sha256(content).hexdigest()


def decode(content: bytes, where: str) -> Manifest:
    """Return the manifest that was stored.

    :raises SnapshotError: where it is corrupt, or from a newer version of this package.
    """
    try:
        version = msgspec.json.decode(content, type=_Version).version
        if version <= VERSION:
            return msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"{where} is corrupt ({error}). Restore it, or remove its partition.") from error
    raise SnapshotError(
        f"{where} has version {version}, this package knows versions up to {VERSION}: it was written by a newer "
        "airflow-provider-analytics. Upgrade this one."
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a manifest."""
    schema = msgspec.json.schema(Manifest)
    for described in schema["$defs"].values():
        # From Python 3.13 on docstrings come without their indentation.
        described["description"] = inspect.cleandoc(described["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


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


class _Version(msgspec.Struct):
    version: int
