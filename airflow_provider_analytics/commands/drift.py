"""Compare the websites with files; send nothing."""

from __future__ import annotations

import argparse

from airflow_provider_analytics.commands.connections import connected
from airflow_provider_analytics.commands.plan import add_shared_arguments, shared_arguments, show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_shared_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the differences; return 0 if there are none, 2 if there are some, 1 if a guard fails."""
    with connected(args.conn_id) as hook:
        from airflow_provider_analytics.operators.websites_as_code import CheckDriftOperator

        result = CheckDriftOperator(task_id="drift", **shared_arguments(args)).result(hook, {})
    return show(result, args)
