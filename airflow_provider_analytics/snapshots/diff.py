"""What changed between two snapshots, website by website and field by field.

One side goes to a temporary file of SQLite, the other side streams past it: memory stays flat, and no order of the
rows is relied upon (text ids sort differently in every database).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from airflow_provider_analytics.api.fields import normalise, same_setting
from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots.rows import Row

#: ``{"change", "id", "domain", "fields": {name: {"before", "after"}}}``; a field that is absent is null.
Change = dict[str, Any]

KINDS = ("added", "removed", "changed")
#: Entries of a list, and characters of a text, that a bounded change shows.
_SHOWN_ENTRIES = 10
_SHOWN_CHARACTERS = 200


def compare(before: Iterable[Row], after: Iterable[Row], ignore: Iterable[str] = ()) -> Iterator[Change]:
    """Yield the websites that were added or changed, in the order of ``after``, then those that were removed.

    Values compare as settings: ``"1"`` equals ``1``, and the two lists compare as sets.

    :param ignore: names of fields that do not count, such as a counter that the service changes every night.
    """
    ignored = frozenset(ignore)
    with closing(sqlite3.connect("")) as database:  # "": a file that vanishes with the connection
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("CREATE TABLE earlier (place INTEGER PRIMARY KEY, id TEXT UNIQUE, hash TEXT, record TEXT)")
        try:
            database.executemany(
                "INSERT INTO earlier (id, hash, record) VALUES (?, ?, ?)",
                ((row["id"], row["record_hash"], row["record"]) for row in before),
            )
        except sqlite3.IntegrityError:
            raise SnapshotError("the earlier snapshot holds a website twice") from None
        for row in after:
            found = database.execute("SELECT place, hash, record FROM earlier WHERE id = ?", (row["id"],)).fetchone()
            if found is None:
                yield _change("added", row["id"], {}, _record(row["record"]), ignored)
                continue
            database.execute("DELETE FROM earlier WHERE place = ?", found[:1])
            if found[1] != row["record_hash"]:
                change = _change("changed", row["id"], _record(found[2]), _record(row["record"]), ignored)
                if change["fields"]:
                    yield change
        for website_id, record in database.execute("SELECT id, record FROM earlier ORDER BY place"):
            yield _change("removed", website_id, _record(record), {}, ignored)


def ignored_fields(before: str, after: str) -> set[str]:
    """Return the fields that two snapshots cannot be compared by: IP addresses that were written in different ways.

    :param before: ``exclude_ips_as`` of the one.
    :param after: ``exclude_ips_as`` of the other.
    """
    return set() if before == after else {"exclude_ips"}


def write_changes(changes: Iterable[Change], file: IO[bytes]) -> dict[str, int]:
    """Write changes as JSON Lines and return how many there are of each kind."""
    counts = dict.fromkeys(KINDS, 0)
    for change in changes:
        counts[change["change"]] += 1
        file.write(json.dumps(change, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return counts


def read_changes(path: Path) -> Iterator[Change]:
    """Yield the changes that :func:`write_changes` wrote to a local file."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield json.loads(line)


def bounded(change: Change) -> Change:
    """Return a change with its long values cut short, fit for XCom or a page."""
    return change | {
        "fields": {
            name: {side: _cut(value) for side, value in values.items()} for name, values in change["fields"].items()
        }
    }


def write_markdown(path: Path, changes: Path, *, before: str, after: str, counts: Mapping[str, int]) -> None:
    """Write all changes of a JSON Lines file as Markdown for people."""
    with path.open("w", encoding="utf-8", newline="\n") as page:
        page.write(f"# Websites: {before} to {after}\n\n")
        page.write(", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS) + ".\n")
        for kind in KINDS:
            if not counts[kind]:
                continue
            page.write(f"\n## {kind.capitalize()}\n\n")
            page.write("| id | domain | field | before | after |\n|---|---|---|---|---|\n")
            for change in read_changes(changes):
                if change["change"] == kind:
                    page.writelines(_markdown_rows(change))


def list_difference(before: object, after: object) -> tuple[list[str], list[str]]:
    """Return the entries that a list lost and those that it gained."""
    old, new = (list(value) if isinstance(value, (list, tuple)) else [] for value in (before, after))
    return [entry for entry in old if entry not in set(new)], [entry for entry in new if entry not in set(old)]


def _markdown_rows(change: Change) -> Iterator[str]:
    for name, values in change["fields"].items() or [("", {"before": None, "after": None})]:
        before, after = values["before"], values["after"]
        if isinstance(before, (list, tuple)) or isinstance(after, (list, tuple)):
            lost, gained = list_difference(before, after)
            before, after = lost or None, gained or None
        cells = (change["id"], change["domain"], name, before, after)
        yield "| " + " | ".join(_cell(cell) for cell in cells) + " |\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "<br>".join(_cell(str(entry)) for entry in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    for character, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|"), ("`", "\\`")):
        text = text.replace(character, written)
    return " ".join(text.splitlines())


def _record(text: str) -> dict[str, Any]:
    record: dict[str, Any] = without_secrets(json.loads(text))  # a snapshot may have been written by something else
    return record


def _change(
    kind: str, website_id: str, before: Mapping[str, Any], after: Mapping[str, Any], ignored: frozenset[str]
) -> Change:
    names = sorted((before.keys() | after.keys()) - ignored - {"id"})
    domain = after.get("domain", before.get("domain"))
    return {
        "change": kind,
        "id": website_id,
        "domain": domain if isinstance(domain, str) else None,
        "fields": {
            name: {"before": normalise(name, before.get(name)), "after": normalise(name, after.get(name))}
            for name in names
            if kind != "changed" or not same_setting(name, before.get(name), after.get(name))
        },
    }


def _cut(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        shown = [_cut(entry) for entry in value[:_SHOWN_ENTRIES]]
        return [*shown, f"and {len(value) - _SHOWN_ENTRIES} more"] if len(value) > _SHOWN_ENTRIES else shown
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
