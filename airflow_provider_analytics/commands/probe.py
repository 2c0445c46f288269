# SPDX-License-Identifier: Apache-2.0
"""Predict the behavior of the tasks on the service of a connection, with at most 50 reads."""

from __future__ import annotations

import argparse
import sys

from airflow_provider_analytics.commands.connections import add_connection, connected, without_logs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        f"{parser.epilog} Findings are extras to set, printed as JSON. A service that does not work yet counts as "
        "failed."
    )
    add_connection(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON, for an issue")


def run(args: argparse.Namespace) -> int:
    """Send the requests, print the report, and return the exit status."""
    from airflow_provider_analytics.probe import probe_report
    from airflow_provider_analytics.probe.checks import Probe
    from airflow_provider_analytics.probe.reading import MAX_REQUESTS, LimitedReader
    from airflow_provider_analytics.readable import readable

    def progress(number: int, purpose: str) -> None:
        sys.stderr.write(f"{number:2} of at most {MAX_REQUESTS}: {purpose}\n")
        sys.stderr.flush()

    with (
        connected(args.conn_id) as hook,
        without_logs(),
        LimitedReader(hook.client.settings, progress=progress) as reader,
    ):
        probe = Probe(reader)
        probe.run()
    text = f"{probe_report.as_json(probe)}\n" if args.json else probe_report.as_text(probe)
    sys.stdout.write(readable(text, None, breaks="keep"))
    return probe_report.status(probe)
