"""From a website record to a typed row.

Rows have the fields of interface.md, part 2, under their names and with their types, whatever else the service
returns: what it does not return, or returns in a shape that does not fit, is null. The whole record goes along as
JSON text, so that nothing is lost. Passwords never get here.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.fields import FIELDS, RECORD_FIELDS, normalise
from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.exceptions import SnapshotError

Row = dict[str, Any]

#: Name and type of each column, in the order of the files. Ids are text, because some services use text.
COLUMNS = {
    "id": "string",
    **{name: str(FIELDS[name].kind.column) for name in RECORD_FIELDS},
    "record": "string",
    "record_hash": "string",
    "snapshot_date": "date",
    "observed_at": "timestamp",
}
#: What the columns hold that are no fields of a website.
MEANINGS = {
    "id": "id of the website; text even where the service uses numbers",
    "record": "the whole record as JSON, keys sorted",
    "record_hash": "SHA-256 of `record`",
    "snapshot_date": "the partition",
    "observed_at": "start of the reading, in UTC; one value per snapshot",
}
#: What becomes of the IP addresses: kept, each replaced by its SHA-256, or left out.
EXCLUDE_IPS_AS = ("keep", "hash", "drop")


@dataclass
class FieldReport:
    """What the service returned that interface.md does not lead one to expect."""

    websites: int = 0
    seen: set[str] = field(default_factory=set)
    #: Documented field to the number of values that do not fit its type.
    misfits: Counter[str] = field(default_factory=Counter)

    @property
    def new(self) -> list[str]:
        """Fields that interface.md does not name."""
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
) -> Iterator[Row]:
    """Yield a row for each record, in the same order, noting in ``report`` what was returned.

    :param snapshot_date: YYYY-MM-DD.
    :param observed_at: start of the reading, ISO 8601 in UTC.
    :param exclude_ips_as: ``keep``, ``hash`` (SHA-256 of each entry) or ``drop``.
    """
    for record in records:
        clean = without_addresses(without_secrets(record), exclude_ips_as)
        report.websites += 1
        report.seen.update(clean)
        if exclude_ips_as == "drop" and "exclude_ips" in record:
            report.seen.add("exclude_ips")
        yield typed_row(clean, snapshot_date=snapshot_date, observed_at=observed_at, misfits=report.misfits)


def typed_row(clean: Mapping[str, Any], *, snapshot_date: str, observed_at: str, misfits: Counter[str]) -> Row:
    """Return the row of a record that holds no secrets any more."""
    website_id = clean.get("id")
    if isinstance(website_id, bool) or not isinstance(website_id, (int, str)) or website_id == "":
        raise SnapshotError(f"a website has no usable id: {website_id!r}")
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
    """Return a record with its IP addresses kept, hashed or dropped at any depth, as :data:`EXCLUDE_IPS_AS` says."""
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
    """Return a record as JSON text with sorted keys: the same record always gives the same text."""
    return _utf8(json.dumps(record, sort_keys=True, ensure_ascii=False, separators=(",", ":")))


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
    # What is no list is hashed as a whole: it may hold an address all the same.
    texts = entries if isinstance(entries, tuple) else (json.dumps(value, sort_keys=True),)
    return "\n".join(f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}" for text in texts)


def _utf8(text: str) -> str:
    """Return text that every format can hold: JSON may carry half of a surrogate pair, UTF-8 may not."""
    return text.encode("utf-8", "replace").decode("utf-8")
