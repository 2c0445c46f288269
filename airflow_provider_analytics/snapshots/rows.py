"""Convert website records to typed rows.

Rows have the fields of docs/interface.md, Fields, with fixed names and types. A value that is missing or does not fit
its type is null. The complete record is kept as JSON text in ``record``, without secrets.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.fields import FIELDS, RECORD_FIELDS, normalise
from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.exceptions import SnapshotError

Row = dict[str, Any]
#: Removes secrets from a record.
Clean = Callable[[Mapping[str, Any]], dict[str, Any]]

#: Column name to type, in the order of the files. Ids are text, because the service may use text.
COLUMNS = {
    "id": "string",
    **{name: str(FIELDS[name].kind.column) for name in RECORD_FIELDS},
    "record": "string",
    "record_hash": "string",
    "snapshot_date": "date",
    "observed_at": "timestamp",
}
#: Meaning of the columns that are not website fields.
MEANINGS = {
    "id": "id of the website; text even if the service uses numbers",
    "record": "the complete record as JSON, keys sorted",
    "record_hash": "SHA-256 of `record`",
    "snapshot_date": "day of the snapshot",
    "observed_at": "when reading the list began, in UTC; the same in all rows of a snapshot",
}
#: How IP addresses are written: unchanged, each as its SHA-256, or not at all.
EXCLUDE_IPS_AS = ("keep", "hash", "drop")


@dataclass
class FieldReport:
    """Differences between the records and docs/interface.md, Fields.

    :param websites: number of records.
    :param seen: fields that any record had.
    :param misfits: documented field to the number of values that do not fit its type.
    """

    websites: int = 0
    seen: set[str] = field(default_factory=set)
    misfits: Counter[str] = field(default_factory=Counter)

    @property
    def worst(self) -> tuple[str, float] | None:
        """The field with the most values that do not fit its type, and their fraction; None if all fit."""
        if not self.misfits:
            return None
        ((name, count),) = self.misfits.most_common(1)
        return name, count / self.websites

    @property
    def new(self) -> list[str]:
        """Fields that are not documented."""
        return sorted(self.seen - {"id", *RECORD_FIELDS})

    @property
    def missing(self) -> list[str]:
        """Documented fields that no website had."""
        return [name for name in RECORD_FIELDS if self.websites and name not in self.seen]


def typed_rows(
    records: Iterable[Mapping[str, Any]],
    *,
    snapshot_date: str,
    observed_at: str,
    exclude_ips_as: str,
    report: FieldReport,
    clean: Clean = without_secrets,
) -> Iterator[Row]:
    """Yield one row per record, in the same order, and update ``report``.

    :param snapshot_date: YYYY-MM-DD.
    :param observed_at: when reading the list began, ISO 8601 in UTC.
    :param exclude_ips_as: ``keep``, ``hash`` (SHA-256 of each entry) or ``drop``.
    :param clean: removes secrets from a record, such as ``AnalyticsClient.for_output``.
    :raises SnapshotError: if a record has no usable id.
    """
    for record in records:
        kept = without_addresses(clean(record), exclude_ips_as)
        report.websites += 1
        report.seen.update(map(_utf8, kept))
        if exclude_ips_as == "drop" and "exclude_ips" in record:
            report.seen.add("exclude_ips")
        yield typed_row(kept, snapshot_date=snapshot_date, observed_at=observed_at, misfits=report.misfits)


def typed_row(clean: Mapping[str, Any], *, snapshot_date: str, observed_at: str, misfits: Counter[str]) -> Row:
    """Return the row of a record whose secrets are removed."""
    website_id = clean.get("id")
    is_usable = isinstance(website_id, (int, str)) and not isinstance(website_id, bool) and website_id != ""
    # Two texts that UTF-8 cannot encode could become the same one in the file.
    if not is_usable or _utf8(str(website_id)) != str(website_id):
        raise SnapshotError(f"a website record has no usable id: id={website_id!r}; allowed: a number or text")
    record = record_text(clean)
    return {
        "id": str(website_id),
        **{name: _column(name, clean.get(name), misfits) for name in RECORD_FIELDS},
        "record": record,
        "record_hash": hashlib.sha256(record.encode()).hexdigest(),
        "snapshot_date": snapshot_date,
        "observed_at": observed_at,
    }


def without_addresses(value: Any, how: str) -> Any:
    """Return a record with its IP addresses kept, hashed or dropped at any depth; see :data:`EXCLUDE_IPS_AS`."""
    if how == "keep":
        return value
    if isinstance(value, Mapping):
        return {
            name: _hashed(inner) if name == "exclude_ips" else without_addresses(inner, how)
            for name, inner in value.items()
            if name != "exclude_ips" or how == "hash"
        }
    if isinstance(value, list):
        return [without_addresses(inner, how) for inner in value]
    return value


def record_text(record: Mapping[str, Any]) -> str:
    """Return a record as JSON text with sorted keys; equal records give equal text.

    A number that JSON does not know, such as NaN, is null: no reader but Python's would take it.
    """
    try:
        text = json.dumps(record, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return record_text(_finite(record))
    return _utf8(text)


def _column(name: str, value: Any, misfits: Counter[str]) -> Any:
    if value is None:
        return None
    cell = FIELDS[name].kind.cell(value)
    if cell is None:
        misfits[name] += 1
    return _utf8(cell) if isinstance(cell, str) else cell


def _hashed(value: Any) -> Any:
    """Return the entries of a list as ``sha256:<hex>``, one per line like the list itself."""
    if value is None or value == "":
        return value
    entries = normalise("exclude_ips", value)
    # Anything but a list is hashed as a whole, since it may contain an address.
    texts = entries if isinstance(entries, tuple) else (json.dumps(value, sort_keys=True),)
    return "\n".join(f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}" for text in texts)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _utf8(text: str) -> str:
    """Replace what UTF-8 cannot encode: JSON may contain half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")
