# SPDX-License-Identifier: Apache-2.0
"""Convert website records to typed rows.

Rows contain the fields of interface.md, Fields, with fixed names and types. A value that is missing or does not fit
its type is null. ``record`` contains the complete record as JSON text, without secrets.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from airflow_provider_analytics.api.checks import short_repr
from airflow_provider_analytics.api.fields import FIELDS, RECORD_FIELDS, normalise
from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.snapshots.manifest import Fields

Row = dict[str, Any]
#: A block of rows as columns: column name to values, in the order of :data:`COLUMNS`.
Columns = dict[str, list[Any]]

#: Column name to type, in the order of the files. Ids are text, because the service can use text.
COLUMNS = {
    "id": "string",
    **{name: str(FIELDS[name].column) for name in RECORD_FIELDS},
    "record": "string",
    "record_hash": "string",
    "snapshot_date": "date",
    "observed_at": "timestamp",
}
#: Meaning of the columns that are not website fields.
MEANINGS = {
    "id": "id of the website, as text even if it is a number",
    "record": "the complete record as JSON, keys sorted",
    "record_hash": "SHA-256 of `record`",
    "snapshot_date": "day of the snapshot",
    "observed_at": "start of the reading, in UTC; the same in all rows",
}
#: Ways to write the field ``exclude_ips``: unchanged, each entry as its SHA-256, or not at all.
EXCLUDE_IPS_AS = ("keep", "hash", "drop")

#: Number of records that are converted to columns at once.
_BLOCK = 100
#: Equal records produce equal text. A number that JSON does not support, such as NaN, becomes null.
_RECORD = msgspec.json.Encoder(order="sorted")


@dataclass
class FieldReport:
    """Differences between the records and interface.md, Fields.

    :param websites: number of records.
    :param seen: fields that any record had.
    :param lacking: documented fields that any record lacked.
    :param invalid_values: documented field to the number of values that do not fit its type.
    """

    websites: int = 0
    seen: set[str] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)
    invalid_values: Counter[str] = field(default_factory=Counter)

    def add(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Count records and their fields."""
        self.websites += len(records)
        new = set().union(*records) - self.seen
        self.seen.update(map(_utf8, new))
        self.lacking.update(set(RECORD_FIELDS).difference(set(RECORD_FIELDS).intersection(*records)))

    def fields(self) -> Fields:
        """Return the differences of all records."""
        missing = []
        if self.websites:
            missing = [name for name in RECORD_FIELDS if name not in self.seen]
        return Fields(
            new=sorted(self.seen - {"id", *RECORD_FIELDS}),
            missing=missing,
            invalid_values=dict(self.invalid_values),
            partial=[name for name in RECORD_FIELDS if name in self.seen and name in self.lacking],
        )


def typed_columns(
    records: Iterable[dict[str, Any]],
    *,
    snapshot_date: str,
    observed_at: str,
    exclude_ips_as: str,
    report: FieldReport,
    secrets: Redactor | None = None,
) -> Iterator[Columns]:
    """Yield the columns of blocks of records, in the same order, and update ``report``.

    :param snapshot_date: YYYY-MM-DD.
    :param observed_at: start time of the reading, ISO 8601 in UTC.
    :param exclude_ips_as: ``keep``, ``hash`` (SHA-256 of each entry) or ``drop``.
    :param secrets: secrets of the connection; a value that contains one is replaced, see :func:`without_secrets`.
    :raises StorageError: if a record has no usable id.
    """
    left = iter(records)
    # Blocks save time: each lookup and each search runs once per block.
    while block := list(islice(left, _BLOCK)):
        block = without_secrets(block, secrets)
        report.add(block)
        if exclude_ips_as != "keep":
            block = [without_addresses(record, exclude_ips_as) for record in block]
        columns = _columns(block, report.invalid_values)
        columns += [[snapshot_date] * len(block), [observed_at] * len(block)]
        yield dict(zip(COLUMNS, columns, strict=True))


def _columns(records: list[dict[str, Any]], invalid_values: Counter[str]) -> list[list[Any]]:
    """Return the columns that depend on the record, for records without secrets."""
    ids = [_id(record.get("id")) for record in records]
    try:
        lines = _RECORD.encode_lines(records)
    except UnicodeEncodeError:
        records = json.loads(_utf8(json.dumps(records, ensure_ascii=False)))
        lines = _RECORD.encode_lines(records)
    fields = []
    for name in RECORD_FIELDS:
        values = [record.get(name) for record in records]
        fields.append(_cells(name, values, invalid_values))
    documents = lines.splitlines()  # JSON escapes line breaks within values
    hashes = [hashlib.sha256(document).hexdigest() for document in documents]
    return [ids, *fields, lines.decode().split("\n")[:-1], hashes]


def _id(value: object) -> str:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    # Two texts that UTF-8 cannot encode could become equal in the file.
    if not text or not (text.isascii() or _utf8(text) == text):
        raise StorageError(f"A website record has no usable id: id={short_repr(value)}. Allowed: a number or text.")
    return text


def _cells(name: str, values: list[Any], invalid_values: Counter[str]) -> list[Any]:
    to_column = FIELDS[name].to_column
    cells = [None if value is None else to_column(value) for value in values]
    lost = cells.count(None) - values.count(None)
    if lost:
        invalid_values[name] += lost
    return cells


def without_addresses(record: Mapping[str, Any], how: str) -> dict[str, Any]:
    """Return a record with ``exclude_ips`` hashed or dropped, see :data:`EXCLUDE_IPS_AS`.

    It has only documented fields, because any other field can contain addresses.
    """
    kept = {name: record[name] for name in ("id", *RECORD_FIELDS) if name in record}
    if "exclude_ips" in kept:
        kept["exclude_ips"] = _hashed(kept["exclude_ips"])
    if how == "drop":
        kept.pop("exclude_ips", None)
    return kept


def _sha256(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def _hashed(value: Any) -> Any:
    """Return the entries of a list as ``sha256:<hex>``, one per line like the list itself."""
    if value is None or value == "":
        return value
    entries = normalise("exclude_ips", value)
    # A value that is not a list is hashed as a whole, since it can contain an address.
    texts = entries if isinstance(entries, tuple) else (json.dumps(value, sort_keys=True),)
    return "\n".join(map(_sha256, texts))


def _utf8(text: str) -> str:
    """Replace characters that UTF-8 cannot encode: JSON can contain half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")
