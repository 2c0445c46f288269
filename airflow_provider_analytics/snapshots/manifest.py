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


class Completeness(msgspec.Struct, frozen=True, kw_only=True):
    """Why the list counts as complete.

    :param method: ``one page``, ``total`` or ``both directions``; airflow_provider_analytics/api/listing.py says what
        each of them proves.
    :param total: how many websites the service said there are; null where it did not say.
    :param pages: pages of the reading that held.
    """

    method: str
    total: int | None
    pages: int


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
    :param finished_at: when the list had been read and proven.
    :param late: True where an older day was filled with the list of ``observed_at``, as asked for.
    :param count: websites, each with an id of its own.
    :param proof: why the list counts as complete.
    :param requests: requests sent, those of readings that did not hold included.
    :param retries: requests that were sent again.
    :param filters: what the list was narrowed by; empty for all websites.
    :param exclude_ips_as: ``keep``, ``hash`` or ``drop``.
    :param report: name of the HTML report in the same folder.
    """

    version: int
    dataset: str
    snapshot_date: date
    observed_at: Moment
    finished_at: Moment
    late: bool
    count: int
    proof: Completeness
    requests: int
    retries: int
    filters: dict[str, Any]
    source: Source
    provider_version: str
    format: str
    compression: str | None
    exclude_ips_as: str
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


class _Version(msgspec.Struct):
    version: int
