"""Detect undocumented behavior of the service of a connection with at most 15 reads."""

from __future__ import annotations

import argparse
import sys

from airflow_provider_analytics.commands.connections import add_connection, connected

_STATUSES = "Exit status: 0 no extras to set; 2 extras to set, printed as JSON; 1 failed, or does not work yet."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = _STATUSES
    add_connection(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON, for an issue")
    parser.add_argument(
        "--wrong-key",
        action="store_true",
        help="also send one request with a wrong key; some services lock a client out after several",
    )


def run(args: argparse.Namespace) -> int:
    """Send the requests, print the report, and return the exit status."""
    from airflow_provider_analytics.probe import report
    from airflow_provider_analytics.probe.findings import findings
    from airflow_provider_analytics.probe.seen import MAX_REQUESTS, Probe
    from airflow_provider_analytics.readable import readable

    def progress(what: str) -> None:
        sys.stderr.write(f"{probe.seen.requests + 1:2} of at most {MAX_REQUESTS}: {what}\n")
        sys.stderr.flush()

    with connected(args.conn_id) as hook, Probe(hook.client.settings, progress=progress) as probe:
        seen = probe.run(wrong_key=args.wrong_key)
    found = findings(seen)
    text = f"{report.as_json(seen, found)}\n" if args.json else report.as_text(seen, found)
    sys.stdout.write(readable(text, None, breaks="keep"))
    return report.status(found)
