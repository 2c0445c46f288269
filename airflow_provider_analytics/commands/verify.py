# SPDX-License-Identifier: Apache-2.0
"""Verify with a disposable website, and a limited number of requests, that a service follows its interface."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_analytics.commands.connections import SingleUse, add_connection, connected, without_logs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_connection(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation, as in CI")
    parser.add_argument(
        "--domain",
        action=SingleUse,
        help="domain of the disposable website; no website has it (default: acceptance-<random>.example.invalid)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, for an issue")


def run(args: argparse.Namespace) -> int:
    """Ask for confirmation, send the requests, print the report, and return the exit status."""
    from airflow_provider_analytics.acceptance import acceptance_report
    from airflow_provider_analytics.acceptance.disposable import CreatedWebsites
    from airflow_provider_analytics.acceptance.run import AcceptanceRun
    from airflow_provider_analytics.acceptance.transport import MAX_REQUESTS
    from airflow_provider_analytics.exceptions import StoppedError
    from airflow_provider_analytics.readable import readable

    def progress(number: int, step: str) -> None:
        sys.stderr.write(f"{number:3} of at most {MAX_REQUESTS}: {step}\n")
        sys.stderr.flush()

    with connected(args.conn_id) as hook, without_logs():
        settings = hook.client.settings
        created = CreatedWebsites(_record_path())
        acceptance = AcceptanceRun(settings, domain=args.domain, created=created, progress=progress)
        if not args.yes:
            _confirm(settings.base_url, acceptance.domain)
        try:
            with _removal_on_termination():
                acceptance.run()
        except KeyboardInterrupt:
            left = "" if acceptance.not_removed else " It left no website behind."
            raise StoppedError(f"The run was interrupted.{left}") from None
        finally:
            acceptance.transport.close()
            if acceptance.not_removed is not None:
                sys.stderr.write(f"{acceptance.not_removed.text}\n")
    text = f"{acceptance_report.as_json(acceptance)}\n" if args.json else acceptance_report.as_text(acceptance)
    sys.stdout.write(readable(text, None, breaks="keep"))
    return acceptance_report.status(acceptance)


def _record_path() -> Path:
    """Return the path of the file with created websites, in Airflow's folder."""
    return Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics_acceptance.json"


def _confirm(base_url: str, domain: str) -> None:
    """Ask for confirmation.

    :raises ValueError: if the user does not confirm.
    """
    sys.stderr.write(
        f"This creates the website {domain} at {base_url}, changes it, and deletes it. It changes no other website, "
        "except that it deletes such websites of earlier runs that were killed.\nEnter yes to continue: "
    )
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise ValueError("Not confirmed. Enter yes, or use the option --yes. No requests were sent.")


@contextmanager
def _removal_on_termination() -> Iterator[None]:
    """End the run at SIGTERM as at Ctrl-C: the website is removed first."""

    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
