# SPDX-License-Identifier: Apache-2.0
"""Explain why an entry is on the websites, from the state folder."""

from __future__ import annotations

import argparse
import ipaddress
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.commands import ExitStatus
from airflow_provider_analytics.commands.connections import add_connection, connected
from airflow_provider_analytics.commands.plan import absolute
from airflow_provider_analytics.readable import first_of, readable
from airflow_provider_analytics.reconcile.desired.list_lines import EntrySource
from airflow_provider_analytics.reconcile.desired.tables import EVERYWHERE, Scopes, Table, entries_of
from airflow_provider_analytics.reconcile.state import read_all_tables

COLUMNS = ("entry", "list", "for", "websites", "owner", "since", "until", "host name", "reason")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = f"{parser.epilog} An entry that no list contains is a finding."
    parser.add_argument("entry", metavar="ENTRY", nargs="?", help="entry of a list; default: all entries")
    parser.add_argument("--state-path", metavar="FOLDER", required=True, help="state folder of the operators")
    add_connection(parser, default="none: the websites are not counted")
    parser.description = f"{parser.description} With --conn-id, also count the websites that contain it."


def run(args: argparse.Namespace) -> int:
    """Print a table with one row per entry and list; return the exit status."""
    from airflow_provider_analytics.hooks.connection import storage_path

    state_path = str(absolute(args.state_path)).rstrip("/")
    tables = read_all_tables(storage_path(state_path, "state_path"))
    if not tables:
        raise ValueError(f"state_path={state_path!r} contains no list tables. Give the state_path of your operators")
    records = None
    if args.conn_id:
        with connected(args.conn_id) as hook:
            records = hook.list_websites()
            tables = [table for table in tables if table.identity.service == hook.client.base_url]
    rows = list(find_entries(tables, args.entry, records))
    if rows:
        _print([[name.upper() for name in COLUMNS], *rows])
        return ExitStatus.NO_CHANGES
    if not args.entry:
        return ExitStatus.NO_CHANGES
    where = "no list contains it"
    if records is not None:
        where = "no list and no website contains it"
    sys.stdout.write(f"{readable(args.entry)}: {where}\n")
    return ExitStatus.CHANGES


def _print(table: list[list[str]]) -> None:
    """Print rows of equal length in columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        line = "  ".join(map(str.ljust, row, widths))
        sys.stdout.write(f"{line.rstrip()}\n")


def find_entries(
    tables: Sequence[Table], entry: str | None, records: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[list[str]]:
    """Yield a row per entry and list (:data:`COLUMNS`).

    :param entry: an entry of any list, a host name, or an address in a listed network; None for all entries.
    :param records: the websites; entries on them that no list has get a row, too.
    """
    present: Counter[tuple[str, str]] = Counter()
    for record in records or ():
        for name in LINE_FIELDS:
            present.update((name, entry_of_website) for entry_of_website in entries_of(name, record))
    known = set()
    services = {table.identity.service for table in tables}
    for table in tables:
        service = f" of {table.identity.service}" if len(services) > 1 else ""
        for name, scopes in table.rows.items():
            for listed_entry, source in sorted(table.entries_in(name, scopes).items()):
                known.add((name, listed_entry))
                if not _matches(name, entry, listed_entry, source.names):
                    continue
                number = ""
                if records is not None:
                    number = f"{present[name, listed_entry]:,}"
                scope = _scope_text(scopes, listed_entry, source)
                yield _row(listed_entry, f"{table.identity.list} ({name}){service}", scope, number, *_cells(source))
    for name, listed_entry in sorted(present.keys() - known):
        if _matches(name, entry, listed_entry):
            yield _row(listed_entry, f"no list ({name})", "", f"{present[name, listed_entry]:,}")


def _row(*cells: str) -> list[str]:
    """Return a row as readable text, with empty cells at its end."""
    missing = len(COLUMNS) - len(cells)
    return [*map(readable, cells), *[""] * missing]


def _cells(source: EntrySource) -> list[str]:
    """Return the last cells of a row, from the owner to the reason."""
    reason = source.reason
    if source.removed_on:
        removed = f"removed from the list on {source.removed_on}"
        if source.until is not None and str(source.until) < source.removed_on:
            removed = "expired"
        reason = ", ".join(filter(None, (removed, source.reason)))
    return [source.owner, source.since, str(source.until or ""), ", ".join(source.names), reason]


def _scope_text(scopes: Scopes, entry: str, source: EntrySource) -> str:
    """Return the websites for which a list has an entry, or had it."""

    def show(scope: str) -> str:
        if scope.partition(" ")[0] == EVERYWHERE:
            return f"all websites{scope.removeprefix(EVERYWHERE)}"
        return scope

    found = []
    for scope, rows in scopes.items():
        if entry in rows and bool(rows[entry].removed_on) == bool(source.removed_on):
            found.append(scope)
    return first_of(found, 1, show=show)


def _matches(name: str, requested: str | None, entry: str, names: Collection[str] = ()) -> bool:
    """Return whether an entry of a list is the requested one, shares addresses with it, or comes from the host name."""
    if requested is None or requested.lower() in names or LINE_FIELDS[name].key(requested) == entry:
        return True
    try:
        first = ipaddress.ip_network(requested, strict=False)
        second = ipaddress.ip_network(entry, strict=False)
        return first.version == second.version and first.overlaps(second)
    except ValueError:
        return False
