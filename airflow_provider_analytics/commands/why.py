"""Explain why an entry is on the websites, from the state folder."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_analytics.commands.connections import add_connection, connected
from airflow_provider_analytics.commands.plan import absolute

if TYPE_CHECKING:
    from airflow_provider_analytics.reconcile.lists import Table

#: Exit status if an entry is unknown.
UNKNOWN = 2
COLUMNS = ("entry", "list", "for", "owner", "since", "until", "host name", "reason")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "Exit status: 0 found; 2 no list has it; 1 a table cannot be read."
    parser.add_argument("entry", metavar="ENTRY", nargs="?", help="address or query parameter; default: all entries")
    parser.add_argument("--state-path", metavar="FOLDER", required=True, help="state folder of the operators")
    add_connection(parser)
    parser.description = f"{parser.description} With --conn-id also counts the websites that have it; changes nothing."


def run(args: argparse.Namespace) -> int:
    """Print a table with one row per entry and list; return the exit status."""
    from airflow_provider_analytics.hooks.object_storage import names_in
    from airflow_provider_analytics.operators.state import read_tables
    from airflow_provider_analytics.readable import readable

    state_path = str(absolute(args.state_path)).rstrip("/")
    folders = [f"{state_path}/{name}" for name in names_in(state_path, "state_path")]
    tables = [table for folder in folders for table in read_tables(folder)]
    if not tables:
        raise ValueError(f"state_path={state_path!r} has no lists; allowed: the state_path of an operator")
    records = None
    if args.conn_id:
        with connected(args.conn_id) as hook:
            records = hook.list_websites()
            tables = [one for one in tables if one.identity.service == hook.client.base_url]
    rows = explain(tables, args.entry, records)
    if rows:
        table = [[name.upper() for name in COLUMNS], *rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            sys.stdout.write(f"{line.rstrip()}\n")
    elif args.entry:
        where = "no list has it" if records is None else "no list has it, and no website"
        sys.stdout.write(f"{readable(args.entry)}: {where}\n")
    return 0 if rows or not args.entry else UNKNOWN


def explain(
    tables: Iterable[Table], entry: str | None, records: Sequence[Mapping[str, Any]] | None = None
) -> list[list[str]]:
    """Return a row per entry and list (:data:`COLUMNS`).

    :param entry: an entry of any list, a host name, or an address in a listed network; None for all entries.
    :param records: the websites; entries on them that no list has get a row, too.
    """
    from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
    from airflow_provider_analytics.readable import counted, readable
    from airflow_provider_analytics.reconcile.lists import EVERYWHERE

    present: Counter[tuple[str, str]] = Counter()
    for record in records or ():
        for name in LINE_FIELDS:
            lines = normalise(name, record.get(name))
            keys = {LINE_FIELDS[name].key(line) for line in lines} if isinstance(lines, tuple) else set()
            present.update((name, one) for one in keys - {""})
    rows, known = [], set()
    for table in tables:
        for name, scopes in table.rows.items():
            for one, source in sorted(table.entries_in(name, scopes).items()):
                known.add((name, one))
                if not (entry is None or entry.lower() in source.names or _matches(name, entry, one)):
                    continue
                has = (scope for scope, entries in scopes.items() if one in entries)
                where = [scope for scope in has if bool(scopes[scope][one].left) == bool(source.left)]
                more = f" and {len(where) - 1:,} more" if len(where) > 1 else ""
                is_all = where[0].partition(" ")[0] == EVERYWHERE
                those = f"all websites{where[0][1:]}{more}" if is_all else f"{where[0]}{more}"
                found = "" if records is None else f", on {present[name, one]:,}"
                left = f"left the list on {source.left}" if source.left else ""
                reason = ", ".join(filter(None, (left, source.reason)))
                cells = [source.owner, source.since, str(source.until or ""), ", ".join(source.names), reason]
                rows.append([one, f"{table.identity.list} ({name})", f"{those}{found}", *cells])
    for (name, one), number in sorted(present.items()):
        if (name, one) not in known and (entry is None or _matches(name, entry, one)):
            rows.append([one, f"no list ({name})", f"on {counted(number, 'website')}", "", "", "", "", ""])
    return [[readable(cell) for cell in row] for row in rows]


def _matches(name: str, requested: str, entry: str) -> bool:
    """Return whether an entry of a list is the requested one, or shares addresses with it."""
    import ipaddress

    from airflow_provider_analytics.api.fields import LINE_FIELDS

    if LINE_FIELDS[name].key(requested) == entry:
        return True
    try:
        one, other = (ipaddress.ip_network(text, strict=False) for text in (requested, entry))
        return one.version == other.version and one.overlaps(other)
    except ValueError:
        return False
