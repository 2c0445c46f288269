"""Check ledgers of managed lists without a run: report owned and stale entries."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from airflow_provider_analytics.commands.connections import add_connection, connected
from airflow_provider_analytics.commands.plan import absolute

if TYPE_CHECKING:
    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.reconcile.ledger import Ledger
    from airflow_provider_analytics.reconcile.ledger_check import Service

#: Exit status if a readable ledger has problems.
FINDINGS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "Exit status: 0 nothing found; 2 findings, each on a line; 1 a ledger cannot be read."
    parser.add_argument("paths", metavar="PATH", nargs="+", help="ledger, or folder whose *.json files are ledgers")
    add_connection(parser)
    parser.description = f"{parser.description} With --conn-id also compares them with the websites; changes nothing."


def run(args: argparse.Namespace) -> int:
    """Print the entries and problems of each ledger; return the exit status."""
    with connected(args.conn_id) if args.conn_id else nullcontext() as hook:
        from airflow_provider_analytics.reconcile.ledger_check import check, describe

        ledgers, errors = read_ledgers(args.paths)
        found = check(ledgers, service_of(hook, ledgers) if hook else None)
    sys.stderr.write("".join(f"{error}\n" for error in errors))
    for path, ledger in ledgers.items():
        sys.stdout.write("".join(f"{path}: {line}\n" for line in (describe(ledger), *found[path])))
    if errors:
        return 1
    return FINDINGS if any(found.values()) else 0


def read_ledgers(paths: Sequence[str]) -> tuple[dict[str, Ledger], list[ValueError]]:
    """Return the readable ledgers by path, and the errors of the other paths."""
    from airflow_provider_analytics.reconcile.ledger_check import read_ledger

    ledgers: dict[str, Ledger] = {}
    errors = []
    for path in dict.fromkeys(absolute(one) or one for one in paths):
        try:
            for name, text in _texts(path).items():
                try:
                    ledgers[name] = read_ledger(text, name)
                except ValueError as error:
                    errors.append(error)
        except ValueError as error:
            errors.append(error)
    return ledgers, errors


def _texts(path: str) -> dict[str, str]:
    """Return the text of a ledger, or of each ledger in a folder, by path.

    :raises ValueError: if there is no ledger, or a ledger cannot be read.
    """
    from airflow_provider_analytics.hooks.object_storage import read_texts

    folders = []

    def choose(folder: str, names: Sequence[str]) -> list[str]:
        folders.append(folder)
        return [name for name in names if name.endswith(".json")]

    texts = read_texts(path, "PATH", choose)
    if not texts:
        raise ValueError(f"PATH={path!r}: there is no such ledger; allowed: a ledger, or a folder with *.json files")
    return {f"{path.rstrip('/')}/{name}" if folders else path: text for name, text in texts.items()}


def service_of(hook: AnalyticsHook, ledgers: Mapping[str, Ledger]) -> Service:
    """Return the service of a connection with all its websites."""
    from airflow_provider_analytics.operators.planning import account_of
    from airflow_provider_analytics.reconcile.ledger_check import Service

    here = hook.client.base_url, account_of(hook)
    compared = [one for one in ledgers.values() if (one.identity.service, one.identity.account) == here]
    # A list row may be incomplete or cached, so doubtful records are fetched individually.
    records = [
        hook.get_website(record["id"]) if any(one.doubts(record) for one in compared) else record
        for record in hook.list_websites()
    ]
    return Service(*here, records)
