"""The Airflow connection of a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from airflow_provider_analytics.exceptions import AnalyticsConfigError, AnalyticsError

if TYPE_CHECKING:
    from airflow_provider_analytics.hooks.analytics import AnalyticsHook


class Once(argparse.Action):
    """An option that may be given once: argparse would take the last one."""

    def __call__(self, parser, namespace, values, option_string=None):  # type: ignore[no-untyped-def] # noqa: D102
        if getattr(namespace, self.dest, self.default) != self.default:
            parser.error(f"argument {option_string}: given more than once; allowed: once")
        setattr(namespace, self.dest, values)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add ``--conn-id``."""
    parser.add_argument(
        "--conn-id", action=Once, metavar="ID", help="Airflow connection of type analytics (default: analytics_default)"
    )


@contextmanager
def connected(conn_id: str | None) -> Iterator[AnalyticsHook]:
    """Give a hook, and close it. Meanwhile, what is written to standard output goes to standard error.

    :param conn_id: id of the connection; None is ``analytics_default``.
    :raises AnalyticsConfigError: if there is no such connection.
    """
    # Airflow 2 logs to standard output, where a command prints its result afterwards.
    with redirect_stdout(sys.stderr):
        yield from _connected(conn_id)


def _connected(conn_id: str | None) -> Iterator[AnalyticsHook]:
    # Outside a task, Airflow 3 looks a connection up in its database for a server only.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook

    conn_id = conn_id or AnalyticsHook.default_conn_name
    with AnalyticsHook(conn_id) as hook:
        try:
            yield hook
        except AirflowNotFoundException:
            raise AnalyticsConfigError(
                f"There is no connection {conn_id!r}.",
                f"Create it in Airflow, or set the environment variable AIRFLOW_CONN_{conn_id.upper()}.",
            ) from None
        except AnalyticsError as error:
            if not error.where and not isinstance(error, AnalyticsConfigError):
                error.where = hook.where
            raise
