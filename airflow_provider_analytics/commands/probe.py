"""``probe``: what the service of a connection does where its interface says nothing, in at most 15 reads."""

from __future__ import annotations

import argparse
import sys

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.probe import report
from airflow_provider_analytics.probe.findings import findings
from airflow_provider_analytics.probe.seen import MAX_REQUESTS, Probe
from airflow_provider_analytics.readable import readable

EPILOG = """\
exit status: 0 no extras to set, 2 extras to set (printed as JSON to paste), 1 failed, or the service does not work yet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--conn-id", default=AnalyticsHook.default_conn_name, metavar="ID", help="connection (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, for an issue")
    parser.add_argument(
        "--wrong-key",
        action="store_true",
        help="also send one request with a wrong key; some services lock a client out after several",
    )


def run(args: argparse.Namespace) -> int:
    """Send the requests, print the report and return the exit status."""

    def progress(what: str) -> None:
        sys.stderr.write(f"{probe.seen.requests + 1:2} of at most {MAX_REQUESTS}: {what}\n")
        sys.stderr.flush()

    with AnalyticsHook(args.conn_id) as hook:
        try:
            probe = Probe(hook.client.settings, progress=progress)
            with probe:
                seen = probe.run(wrong_key=args.wrong_key)
        except AnalyticsError as error:
            sys.stderr.write(f"{readable(str(error), None, breaks='keep')}\n")
            return report.FAILED
    found = findings(seen)
    text = f"{report.as_json(seen, found)}\n" if args.json else report.as_text(seen, found)
    sys.stdout.write(readable(text, None, breaks="keep"))
    return report.status(found)
