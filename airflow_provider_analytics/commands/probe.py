# SPDX-License-Identifier: Apache-2.0
"""Predict the behavior of the tasks on the service of a connection, with at most 50 reads."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, TextIO

from airflow_provider_analytics import __version__
from airflow_provider_analytics.commands import ExitStatus
from airflow_provider_analytics.commands.connections import add_connection, connected, without_logs
from airflow_provider_analytics.readable import counted, readable

if TYPE_CHECKING:
    from airflow_provider_analytics.probe import Probe, ProbeFinding

_UNKNOWN = (
    "Reads do not show how the service writes: whether an update stores values as sent, and keeps the other fields. "
    "The sample DAG try_your_service tests it on a new website."
)


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
    from airflow_provider_analytics.probe import LimitedReader, Probe

    # Captured here, because standard output is redirected while the connection is open.
    output = sys.stdout
    answers = sys.stderr if args.json else output

    def write(stream: TextIO, text: str) -> None:
        stream.write(readable(f"{text}\n", None, breaks="keep"))
        stream.flush()

    with connected(args.conn_id) as hook, without_logs(), LimitedReader(hook.client.settings) as reader:
        probe = Probe(reader)
        write(answers, f"{reader.settings.base_url}\n")
        probe.run(lambda finding: write(answers, as_answer(finding)))
    write(output, _as_json(probe) if args.json else _conclusion(probe))
    return status(probe)


def status(probe: Probe) -> ExitStatus:
    """Return the exit status."""
    if probe.extras:
        return ExitStatus.CHANGES
    if "FAILS" in {finding.mark for finding in probe.findings}:
        return ExitStatus.FAILED
    return ExitStatus.NO_CHANGES


def as_answer(found: ProbeFinding) -> str:
    """Return the line of a finding: its mark, the question, and the answer."""
    return f"{found.mark:5} {found.name:8}  {found.text}."


def _as_json(probe: Probe) -> str:
    """Return the report as JSON, without the host and without values of the service."""
    findings = {}
    for finding in probe.findings:
        findings[finding.name] = {"mark": finding.mark, "text": finding.text}
    report = {
        "provider": __version__,
        "status": status(probe),
        "requests": probe.reader.transport.stats.requests,
        "extras": probe.extras,
        "findings": findings,
    }
    return json.dumps(report, indent=2)


def _conclusion(probe: Probe) -> str:
    """Return the end of the report: what a probe cannot know, and what to do next."""
    remedy = "No extras to set."
    if probe.extras:
        remedy = f"Add to the extras of the connection:\n{json.dumps(probe.extras)}"
    elif status(probe) == ExitStatus.FAILED:
        remedy = "Not everything works with this service. Open an issue with the output of --json."
    sent = counted(probe.reader.transport.stats.requests, "request")
    return f"\n{_UNKNOWN}\n\nSent {sent}. {remedy}"
