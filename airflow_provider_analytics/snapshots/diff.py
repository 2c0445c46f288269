# SPDX-License-Identifier: Apache-2.0
"""Changes between two snapshots, by website and field.

The earlier snapshot is loaded into a temporary SQLite file, and the later one is streamed against it. Memory use
therefore does not grow with the list. The order of the rows does not matter: text ids sort differently in every
database.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from operator import itemgetter
from pathlib import Path
from types import NoneType
from typing import Any

from airflow_provider_analytics.api.checks import MAX_DEPTH, invalid, is_too_deep
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import RECORD_FIELDS, normalize, same_setting, website_name
from airflow_provider_analytics.exceptions import MissingSnapshotError, StorageError
from airflow_provider_analytics.guards import with_another_id
from airflow_provider_analytics.readable import readable, without_secrets
from airflow_provider_analytics.snapshots.catalog import Snapshot, SnapshotSeries
from airflow_provider_analytics.snapshots.formats import Row
from airflow_provider_analytics.snapshots.manifest import Manifest
from airflow_provider_analytics.storage import make_directory, new_token, put_file, storage_errors, temporary_folder

#: ``{"change", "id", "domain", "fields": {name: {"before", "after"}}}``; an absent field is null.
WebsiteChange = dict[str, Any]

#: Keys of the counts: the kinds, and how many of the changed websites changed their privacy.
COUNTS = ("removed", "privacy_changed", "changed", "added")
#: Maximum number of changes in a return value; the file contains all of them.
_MAX_CHANGES = 50
#: Maximum number of missing websites that are named.
MAX_NAMED = 5
#: Limits of a bounded change: entries of a list and characters of a text.
_MAX_ENTRIES = 10
_MAX_CHARACTERS = 200
_MAX_LINE_CHARACTERS = 160

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Missing:
    """Websites of an earlier list that a later one lacks, by id and domain.

    :param count: their number.
    :param first: names of the first :data:`MAX_NAMED`; empty if the rows cannot be read.
    :param renumbered: how many of their domains the later list has with another id.
    """

    count: int
    first: Sequence[str] = ()
    renumbered: int = 0

    @property
    def text(self) -> str:
        """The websites as lines of a message, each with a line break at its end; empty if they are unknown."""
        if not self.first:
            return ""
        more = self.count - len(self.first)
        rest = f" and {more:,} more" if more else ""
        lines = f"Missing: {', '.join(self.first)}{rest}.\n"
        if self.renumbered:
            lines += f"{with_another_id(self.renumbered)}\n"
        return lines


def ignored_between(before: Manifest, exclude_ips_as: str, ignored: Iterable[str]) -> set[str]:
    """Return the fields that do not count for two snapshots: also ``exclude_ips``, if they store it differently."""
    found = set(ignored)
    if before.exclude_ips_as != exclude_ips_as:
        found.add("exclude_ips")
    return found


def diff(before: Iterable[Row], after: Iterable[Row], ignored: Collection[str] = ()) -> Iterator[WebsiteChange]:
    """Yield added and changed websites in the order of ``after``, then removed ones.

    Only documented fields count: if the service added a visit counter, every website would change every night. Values
    are compared as settings: ``"1"`` equals ``1``, and exclusion lists are compared as sets.

    :param ignored: names of documented fields that do not count.
    :raises StorageError: if the earlier snapshot contains a website twice, or a record of a snapshot is damaged.
    """
    # Privacy first, as the most serious change.
    names = [name for name in dict.fromkeys(("privacy", *sorted(RECORD_FIELDS))) if name not in ignored]
    with closing(sqlite3.connect("")) as database:  # "": a temporary file, deleted with the connection
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("CREATE TABLE earlier (place INTEGER PRIMARY KEY, id TEXT UNIQUE, hash TEXT, record TEXT)")
        try:
            columns = map(itemgetter("id", "record_hash", "record"), before)
            database.executemany("INSERT INTO earlier (id, hash, record) VALUES (?, ?, ?)", columns)
        except sqlite3.IntegrityError:
            raise StorageError(
                "The earlier snapshot contains a website twice.", "Take the snapshot of that day again."
            ) from None
        except UnicodeEncodeError as error:
            raise StorageError(f"The earlier snapshot is damaged: it has text that is not UTF-8 ({error}).") from error
        for row in after:
            found = database.execute("SELECT place, hash, record FROM earlier WHERE id = ?", (row["id"],)).fetchone()
            if found is None:
                yield _change("added", row["id"], {}, _record(row), names)
                continue
            database.execute("DELETE FROM earlier WHERE place = ?", found[:1])
            if found[1] != row["record_hash"]:
                change = _change("changed", row["id"], _record(row | {"record": found[2]}), _record(row), names)
                if change["fields"]:
                    yield change
        for website_id, record in database.execute("SELECT id, record FROM earlier ORDER BY place"):
            yield _change("removed", website_id, _record({"id": website_id, "record": record}), {}, names)


def find_missing(before: Iterable[Row], after: Iterable[Row]) -> Missing:
    """Return the websites of an earlier snapshot that a later one lacks, by id and domain.

    :raises StorageError: if a row is damaged.
    """
    missing: Counter[str] = Counter()
    new: Counter[str] = Counter()
    first: list[str] = []
    for change in diff(before, after):
        domain = change["fields"].get("domain")
        if change["change"] != "added" and (change["change"] == "removed" or domain):
            before_domain = str((domain or {}).get("before") or "")
            missing[domain_key(before_domain)] += 1
            if len(first) < MAX_NAMED:
                first.append(website_name(before_domain, str(change["id"])))
        if change["change"] != "removed" and domain:
            new[domain_key(str(domain["after"] or ""))] += 1
    return Missing(missing.total(), tuple(first), (missing & new).total())


def write_changes(changes: Iterable[WebsiteChange], path: Path) -> dict[str, int]:
    """Write changes to a local file as JSON Lines, most serious first, and return their counts, see :data:`COUNTS`.

    The order is: removed websites, changes of privacy, other changes, added websites. Output that is limited to the
    first changes therefore contains the most serious ones.
    """
    counts = dict.fromkeys(COUNTS, 0)
    with ExitStack() as stack, path.open("wb") as file:
        parts = {rank: stack.enter_context(tempfile.TemporaryFile(dir=path.parent)) for rank in COUNTS}
        for change in changes:
            rank = _rank(change)
            counts[rank] += 1
            line = json.dumps(change, ensure_ascii=False, separators=(",", ":"))
            parts[rank].write(line.encode("utf-8", "replace") + b"\n")
        for part in parts.values():
            part.seek(0)
            shutil.copyfileobj(part, file)
    counts["changed"] += counts["privacy_changed"]
    return counts


def _rank(change: WebsiteChange) -> str:
    """Return the kind of a change, with changes of privacy as a kind of their own."""
    if change["change"] == "changed" and "privacy" in change["fields"]:
        return "privacy_changed"
    return str(change["change"])


def read_changes(path: Path) -> Iterator[WebsiteChange]:
    """Yield the changes that :func:`write_changes` wrote to a local file."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield json.loads(line)


def bounded(change: WebsiteChange) -> WebsiteChange:
    """Return a change with long values truncated, for XCom or a page."""
    fields = {}
    for name, values in change["fields"].items():
        fields[name] = {side: _truncate(value) for side, value in values.items()}
    return change | {"fields": fields}


def diff_snapshots(
    series: SnapshotSeries, *, current: date | None = None, previous: date | None = None, ignored: Collection[str] = ()
) -> dict[str, Any]:
    """Compare two published snapshots, and write all changes as JSON Lines next to the manifest of the newer one.

    :param series: the snapshots with one name.
    :param current: day of the newer snapshot; default: the newest published one.
    :param previous: day of the older snapshot; default: the newest published one before ``current``, if it is whole.
    :param ignored: names of documented fields that do not count; default: the ignored fields of the newer snapshot.
    :return: the counts, the first changes, and the path of the file.
    :raises ValueError: if ``previous`` is not before ``current``.
    :raises MissingSnapshotError: if no snapshot is published, or a given day has none.
    :raises StorageError: if a snapshot cannot be read or the result cannot be written.
    """
    current_day = current or _newest_day(series)
    if current_day is None:
        remedy = "Check base_path and snapshot_name, or take a snapshot first."
        raise MissingSnapshotError(f"No snapshot is published in {series.data}.", remedy)
    after = _published(series, current_day)
    previous_day = previous or _newest_day(series, before=current_day)
    result: dict[str, Any] = {
        "path": str(after.partition.data),
        "current": current_day.isoformat(),
        "is_first": previous_day is None,
        "previous": None,
        **dict.fromkeys(COUNTS, 0),
        "changes": [],
        "changes_omitted": 0,
        "changes_path": None,
    }
    if previous_day is None:
        return result
    if previous_day >= current_day:
        raise invalid("previous", previous_day.isoformat(), f"a day before current={current_day}")
    with temporary_folder() as directory:
        lines = directory / f"_since-{previous_day.isoformat()}.jsonl"
        try:
            before = _published(series, previous_day)
            ignored = ignored_between(before.manifest, after.manifest.exclude_ips_as, ignored or after.manifest.ignored)
            counts = write_changes(diff(before.rows(), after.rows(), ignored), lines)
        except StorageError as error:
            if previous is not None or after.problems():
                raise
            log.warning("The snapshot of %s was not compared, because it cannot be read. %s", previous_day, error.text)
            return result
        target = after.partition.about
        with storage_errors(f"write the changes to {target}"):
            make_directory(target)
            put_file(lines, target / lines.name, new_token(datetime.now(UTC)), after.manifest.mode)
        first = list(map(bounded, islice(read_changes(lines), _MAX_CHANGES)))
    return result | {
        "previous": previous_day.isoformat(),
        **counts,
        "changes": first,
        "changes_omitted": count_changes(counts) - len(first),
        "changes_path": str(target / lines.name),
    }


def count_changes(counts: Mapping[str, int]) -> int:
    """Return the number of websites that were removed, changed, or added."""
    return counts["removed"] + counts["changed"] + counts["added"]


def in_words(counts: Mapping[str, int]) -> str:
    """Return the counts as text, most serious first: ``1 removed, 3 changed (1 in privacy), 0 added``."""
    privacy = f" ({counts['privacy_changed']:,} in privacy)" if counts["privacy_changed"] else ""
    return f"{counts['removed']:,} removed, {counts['changed']:,} changed{privacy}, {counts['added']:,} added"


def in_lines(result: Mapping[str, Any], limit: int) -> list[str]:
    """Return one line for each of the first changes: the website and its changed fields.

    :param result: return value of :func:`diff_snapshots`.
    :param limit: maximum number of changes; the last line counts the others.
    """
    first = result["changes"][:limit]
    lines = list(map(_describe, first))
    more = count_changes(result) - len(first)
    if more:
        lines.append(f"and {more:,} more")
    return lines


def difference(values: Mapping[str, Any]) -> str:
    """Return the values of a field before and after a change as one text; of a list, the added and removed entries."""
    before, after = values["before"], values["after"]
    # A list in a form that is not understood is text. Its entries are unknown, so both sides are printed.
    if not isinstance(before, (list, NoneType)) or not isinstance(after, (list, NoneType)):
        return f"{display(before)} \u2192 {display(after)}"
    old, new = before or [], after or []
    added = [f"+{entry}" for entry in new if entry not in old]
    removed = [f"\u2212{entry}" for entry in old if entry not in new]
    return ", ".join(added + removed)


def display(value: object) -> str:
    """Return a value as readers expect it: "none", "yes" or "no" instead of Python's names."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _newest_day(series: SnapshotSeries, before: date | None = None) -> date | None:
    newest = next(series.published(before), None)
    return None if newest is None else newest.day


def _published(series: SnapshotSeries, day: date) -> Snapshot:
    snapshot = series.partition(day).read()
    if snapshot is None:
        raise MissingSnapshotError(f"No snapshot of {day} is published in {series.data}.")
    return snapshot


def _describe(change: WebsiteChange) -> str:
    parts = []
    for name, values in change["fields"].items():
        if change["change"] == "changed":
            parts.append(f"{name} {readable(difference(values), _MAX_LINE_CHARACTERS)}")
        elif change["change"] == "added" and name == "privacy":
            parts.append(f"{name} {readable(display(values['after']))}")
    website = f"{change['change']} {readable(change['domain'] or '')} (id {readable(change['id'])})"
    if parts:
        website += f": {', '.join(parts)}"
    return website


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a row; other software might have written it.

    :raises StorageError: if it is not a JSON object, or nested too deeply.
    """
    website = f"the record of website {readable(row['id'])} is damaged"
    try:
        record = json.loads(row["record"])
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{website}: {error}") from error
    if not isinstance(record, dict) or is_too_deep(record):
        raise StorageError(f"{website}: it is not a JSON object of at most {MAX_DEPTH} levels")
    return without_secrets(record)


def _change(
    kind: str, website_id: str, before: Mapping[str, Any], after: Mapping[str, Any], names: Iterable[str]
) -> WebsiteChange:
    domain = after.get("domain", before.get("domain"))
    if not isinstance(domain, str):
        domain = None
    fields = {}
    for name in names:
        if name not in before and name not in after:
            continue
        old, new = before.get(name), after.get(name)
        if kind != "changed" or not same_setting(name, old, new):
            fields[name] = {"before": normalize(name, old), "after": normalize(name, new)}
    return {"change": kind, "id": website_id, "domain": domain, "fields": fields}


def _truncate(value: Any) -> Any:
    """Return a value with its first entries, or the start of its text, if it is long."""
    if isinstance(value, (list, tuple)):
        entries = list(map(_truncate, value[:_MAX_ENTRIES]))
        if len(value) > _MAX_ENTRIES:
            entries.append(f"and {len(value) - _MAX_ENTRIES} more")
        return entries
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
