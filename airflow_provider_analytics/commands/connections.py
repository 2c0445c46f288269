# SPDX-License-Identifier: Apache-2.0
"""The Airflow connection of a command, and its standard streams.

The lines of a stream never contain commands to the system that runs the pipeline: GitHub executes lines of a job's
output that start with ``::``, or contain ``##[``. File names, domains and entries can contain these, and can be the
first text of a line.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

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


_ESCAPED = r"##\x5b"
_AT_LINE_START = re.compile(r"^(\s*):(?=:)")


def _plain_line(line: str) -> str:
    """Return a line in which the workflow commands of GitHub are escaped in Python syntax."""
    return _AT_LINE_START.sub(r"\1\\x3a", line).replace("##[", _ESCAPED)


class PlainLines:
    """A text stream that escapes workflow commands. It writes whole lines.

    :param stream: the stream to write to.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        #: The start of a line whose end is not known yet.
        self._line = ""

    def write(self, text: str) -> int:
        """Write the lines that end in a text."""
        *lines, self._line = f"{self._line}{text}".split("\n")
        for line in lines:
            self.stream.write(f"{_plain_line(line)}\n")
        return len(text)

    def end(self) -> None:
        """Write the last line, which has no line break."""
        self.stream.write(_plain_line(self._line))
        self._line = ""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self.stream, name)


@contextmanager
def plain_output() -> Iterator[None]:
    """Escape workflow commands in the standard streams, and characters that the terminal cannot print."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    output, errors = PlainLines(sys.stdout), PlainLines(sys.stderr)
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            yield
    finally:
        output.end()
        errors.end()


def write_commands(text: str) -> None:
    """Write workflow commands to standard output, one per line, in which all values are escaped."""
    stream: Any = sys.stdout
    while isinstance(stream, PlainLines):
        stream = stream.stream
    stream.write(text.replace("##[", _ESCAPED))
