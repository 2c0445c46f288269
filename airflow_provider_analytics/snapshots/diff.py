"""Changes between two snapshots, by website and field.

The earlier snapshot is loaded into a temporary SQLite file and the later one is streamed against it: memory use does
not grow with the list, and the order of the rows does not matter (text ids sort differently in every database).
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

#: ``{"change", "id", "domain", "fields": {name: {"before", "after"}}}``; an absent field is null.
Change = dict[str, Any]

KINDS = ("added", "removed", "changed")
#: Limits of a bounded change: entries of a list, characters of a text.
_SHOWN_ENTRIES = 10
_SHOWN_CHARACTERS = 200


def compare(before: Iterable[Row], after: Iterable[Row], ignore: Iterable[str] = ()) -> Iterator[Change]:
    """Yield added and changed websites in the order of ``after``, then removed ones.

    Values compare as settings: ``"1"`` equals ``1``, and exclusion lists compare as sets.

    :param ignore: names of fields to ignore, such as a counter that changes every night.
    :raises SnapshotError: if the earlier snapshot contains a website twice.
    """
    ignored = frozenset(ignore)
    with closing(sqlite3.connect("")) as database:  # "": a temporary file, deleted with the connection
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("CREATE TABLE earlier (place INTEGER PRIMARY KEY, id TEXT UNIQUE, hash TEXT, record TEXT)")
        try:
            database.executemany(
                "INSERT INTO earlier (id, hash, record) VALUES (?, ?, ?)",
                ((row["id"], row["record_hash"], row["record"]) for row in before),
            )
        except sqlite3.IntegrityError:
            raise SnapshotError("the earlier snapshot contains a website twice") from None
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
    """Return the fields to ignore between two snapshots: ``exclude_ips``, if written in different ways.

    :param before: ``exclude_ips_as`` of the earlier snapshot.
    :param after: ``exclude_ips_as`` of the later snapshot.
    """
    return set() if before == after else {"exclude_ips"}


def write_changes(changes: Iterable[Change], file: IO[bytes]) -> dict[str, int]:
    """Write changes as JSON Lines and return the number of each kind."""
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
    """Return a change with long values shortened, for XCom or a page."""
    return change | {
        "fields": {
            name: {side: _cut(value) for side, value in values.items()} for name, values in change["fields"].items()
        }
    }


def write_markdown(path: Path, changes: Path, *, before: str, after: str, counts: Mapping[str, int]) -> None:
    """Write all changes of a JSON Lines file as Markdown tables.

    :param path: Markdown file to write.
    :param changes: file written by :func:`write_changes`.
    :param counts: number of changes of each kind.
    """
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
    """Return the entries removed from a list and those added to it."""
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
    record: dict[str, Any] = without_secrets(json.loads(text))  # other software may have written the snapshot
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
