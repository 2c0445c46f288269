# SPDX-License-Identifier: Apache-2.0
"""Plan the changes that make the websites match files; send nothing."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from airflow_provider_analytics.commands import ExitStatus
from airflow_provider_analytics.commands.connections import add_connection, connected
from airflow_provider_analytics.guards import MAX_LOSS_FRACTION


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = f"{parser.epilog} A plan that a guard blocks counts as failed."
    parser.add_argument("path", metavar="PATH", help="YAML file, or folder of YAML files")
    add_connection(parser)
    parser.add_argument("--markdown", metavar="FILE", help="file for the summary that the approver sees")
    parser.add_argument("--prune", action="store_true", help="also delete websites that are not in the files")
    parser.add_argument(
        "--max-loss-fraction",
        type=float,
        default=MAX_LOSS_FRACTION,
        metavar="FRACTION",
        help="limit of the guards (default: %(default)s)",
    )
    parser.add_argument(
        "--override-guards",
        action="append",
        default=[],
        metavar="GUARD",
        help="guard to override; repeat the option for several",
    )
    parser.add_argument("--state-path", metavar="FOLDER", help="state folder; only the plan is written to it")
    parser.add_argument("--list-name", metavar="NAME", help="name of the lists of these files in the state folder")


def run(args: argparse.Namespace) -> int:
    """Print the plan; return the exit status."""
    with connected(args.conn_id) as hook:
        from airflow_provider_analytics.operators.websites_as_code import PlanWebsitesOperator

        operator = PlanWebsitesOperator(
            task_id="plan",
            config_path=absolute(args.path),
            prune=args.prune,
            max_loss_fraction=args.max_loss_fraction,
            override_guards=args.override_guards,
            state_path=absolute(args.state_path),
            list_name=args.list_name,
        )
        result = operator.planned(hook, {})[1]
    markdown = f"{result['markdown']}\n"
    if args.markdown:
        Path(args.markdown).write_text(markdown, encoding="utf-8")
    sys.stdout.write(f"{markdown}digest: {result['digest']}\n")
    if result["guard_message"]:
        sys.stderr.write(f"{result['guard_message']}\nA guard blocks this plan.\n")
        return ExitStatus.FAILED
    return ExitStatus.CHANGES if result["changes"] else ExitStatus.NO_CHANGES


def absolute(path: str | None) -> str | None:
    """Return a URL or an absolute path; operators do not accept relative paths."""
    if path is None or "://" in path:
        return path
    return os.path.abspath(path)  # noqa: PTH100 - keeps links
