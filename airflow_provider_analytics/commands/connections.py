# SPDX-License-Identifier: Apache-2.0
"""The Airflow connection of a command."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from airflow_provider_analytics.exceptions import AnalyticsConfigError, AnalyticsError

if TYPE_CHECKING:
    from airflow_provider_analytics.hooks.analytics import AnalyticsHook


def add_connection(parser: argparse.ArgumentParser, default: str = "analytics_default") -> None:
    """Add ``--conn-id``.

    :param default: the default as text, for the help.
    """
    parser.add_argument("--conn-id", metavar="ID", help=f"Airflow connection of type analytics (default: {default})")


@contextmanager
def connected(conn_id: str | None) -> Iterator[AnalyticsHook]:
    """Yield a hook and close it afterwards. Inside the block, standard output is redirected to standard error.

    :param conn_id: id of the connection; None is ``analytics_default``.
    :raises AnalyticsConfigError: if the connection does not exist.
    """
    # Outside a task, Airflow 3 reads connections from its database only in a server process.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    # Airflow 2 logs to standard output, which must contain only the result of the command.
    with redirect_stdout(sys.stderr):
        from airflow.providers.common.compat.sdk import AirflowNotFoundException

        from airflow_provider_analytics.hooks.analytics import AnalyticsHook

        conn_id = conn_id or AnalyticsHook.default_conn_name
        with AnalyticsHook(conn_id) as hook:
            try:
                yield hook
            except AirflowNotFoundException:
                how = f"Create it in Airflow, or set the environment variable AIRFLOW_CONN_{conn_id.upper()}"
                problem = f"There is no connection {conn_id!r}. {how}"
                raise AnalyticsConfigError([problem], "the option --conn-id") from None
            except AnalyticsError as error:
                if not error.where and not isinstance(error, AnalyticsConfigError):
                    error.where = hook.where
                raise


@contextmanager
def without_logs() -> Iterator[None]:
    """Log nothing of this package: its lines can contain domains and messages of the service."""
    log = logging.getLogger("airflow_provider_analytics")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
