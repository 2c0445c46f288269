"""Explain why an entry is on the websites, from the ledgers of managed lists."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from airflow_provider_analytics.commands.connections import add_connection, connected

#: Exit status if an entry is unknown.
UNKNOWN = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "Exit status: 0 found; 2 no list has it; 1 a ledger cannot be read."
    parser.add_argument("entry", metavar="ENTRY", nargs="?", help="address or query parameter; default: all entries")
    parser.add_argument(
        "--ledger", metavar="PATH", nargs="+", required=True, help="ledger, or folder whose *.json files are ledgers"
    )
    add_connection(parser)
    parser.description = f"{parser.description} With --conn-id also checks the websites; changes nothing."


def run(args: argparse.Namespace) -> int:
    """Print a table with one row per entry and list; return the exit status."""
    from airflow_provider_analytics.commands.ledgers import read_ledgers, service_of

    with connected(args.conn_id) if args.conn_id else nullcontext() as hook:
        from airflow_provider_analytics.readable import readable
        from airflow_provider_analytics.reconcile.ledger_check import COLUMNS, why

        ledgers, errors = read_ledgers(args.ledger)
        rows = why(ledgers.values(), args.entry, service_of(hook, ledgers) if hook else None)
    sys.stderr.write("".join(f"{error}\n" for error in errors))
    if rows:
        table = [[name.upper() for name in COLUMNS], *rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            sys.stdout.write(f"{line.rstrip()}\n")
    elif args.entry and not errors:
        where = "no ledger knows it" if args.conn_id is None else "no ledger knows it, and no website has it"
        hint = ": it was added manually, or does not exist; --conn-id checks the websites" if not args.conn_id else ""
        sys.stdout.write(f"{readable(args.entry)}: {where}{hint}\n")
    if errors:
        return 1
    return 0 if rows or not args.entry else UNKNOWN
