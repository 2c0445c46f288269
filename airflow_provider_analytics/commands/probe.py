# SPDX-License-Identifier: Apache-2.0
"""Predict the behavior of the tasks on the service of a connection, with at most 50 reads."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

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
    """Print the answer to each question as it arrives, and the conclusion; return the exit status."""
    from airflow_provider_analytics.probe import probe_report
    from airflow_provider_analytics.probe.checks import Probe
    from airflow_provider_analytics.probe.reading import LimitedReader
    from airflow_provider_analytics.readable import readable

    # Captured here, because standard output is redirected while the connection is open.
    output = sys.stdout
    answers = sys.stderr if args.json else output

    def write(stream: TextIO, text: str) -> None:
        stream.write(readable(f"{text}\n", None, breaks="keep"))
        stream.flush()

    with connected(args.conn_id) as hook, without_logs(), LimitedReader(hook.client.settings) as reader:
        probe = Probe(reader)
        write(answers, f"{reader.settings.base_url}\n")
        probe.run(lambda finding: write(answers, probe_report.as_answer(finding)))
    write(output, probe_report.as_json(probe) if args.json else probe_report.conclusion(probe))
    return probe_report.status(probe)
