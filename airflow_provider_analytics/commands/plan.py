"""Plan the changes that make the websites match files; send nothing."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_analytics.commands.connections import Once, add_connection, connected
from airflow_provider_analytics.thresholds import MAX_LOSS_FRACTION

#: Exit status if there are changes.
CHANGES = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_shared_arguments(parser)
    parser.add_argument("--out", action=Once, metavar="FILE", help="file for the complete plan as JSON")
    parser.add_argument("--overwrite", action="store_true", help="replace another plan at --out")
    parser.add_argument("--force", action="store_true", help="override the guards; the approver decides")
    parser.add_argument("--adopt", action="store_true", help="same as the argument of the operator")


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that plan and drift share."""
    parser.add_argument("path", metavar="PATH", help="YAML file, or folder of *.yaml files")
    add_connection(parser)
    parser.add_argument("--markdown", action=Once, metavar="FILE", help="file for the summary that the approver sees")
    parser.add_argument("--prune", action="store_true", help="also delete websites that are not in the files")
    parser.add_argument(
        "--max-loss-fraction",
        type=float,
        default=MAX_LOSS_FRACTION,
        metavar="FRACTION",
        help="limit of the guards (default: %(default)s)",
    )
    parser.add_argument("--ledger-path", metavar="FILE", help="ledger of lists in mode managed; only read")
    parser.add_argument("--list-name", metavar="NAME", help="name of the lists in the ledger")


def run(args: argparse.Namespace) -> int:
    """Print the plan; return 0 if there are no changes, 2 if there are changes, 1 if it must not be applied."""
    with connected(args.conn_id) as hook:
        from airflow_provider_analytics.operators.websites_as_code import PlanWebsitesOperator

        operator = PlanWebsitesOperator(
            task_id="plan",
            plan_path=absolute(args.out),
            overwrite_plan=args.overwrite,
            force=args.force,
            adopt=args.adopt,
            **shared_arguments(args),
        )
        result = operator.result(hook)
    return show(result, args)


def shared_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the operator arguments for the options that :func:`add_shared_arguments` adds."""
    return {
        "config_path": absolute(args.path),
        "prune": args.prune,
        "max_loss_fraction": args.max_loss_fraction,
        "ledger_path": absolute(args.ledger_path),
        "list_name": args.list_name,
    }


def show(result: Mapping[str, Any], args: argparse.Namespace) -> int:
    """Print the result of a planning operator, write its Markdown, and return the exit status."""
    markdown = f"{result['markdown']}\n"
    if args.markdown:
        Path(args.markdown).write_text(markdown, encoding="utf-8")
    sys.stdout.write(f"{markdown}digest: {result['digest']}\n")
    if result["unsafe"] and not result["force"]:
        sys.stderr.write(f"{result['unsafe']}\nThe plan must not be applied: a guard stops it.\n")
        return 1
    return CHANGES if result["changes"] else 0


def absolute(path: str | None) -> str | None:
    """Return a URL or an absolute path; operators accept no relative paths."""
    return path if path is None or "://" in path else os.path.abspath(path)  # noqa: PTH100 - keeps links
