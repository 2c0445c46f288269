# SPDX-License-Identifier: Apache-2.0
"""The command line: ``airflow-provider-analytics COMMAND``, and ``airflow analytics COMMAND``.

Each command is a module of this package with the same name. The module defines ``add_arguments(parser)`` and
``run(args) -> int``, which returns the exit status. It is imported only when it is used. :data:`COMMANDS` contains its
help. Commands may import everything except ``sandbox``. Airflow and slow modules are imported inside functions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from enum import IntEnum
from importlib import import_module
from typing import NoReturn

#: Help of each command, by the name of the command and its module.
COMMANDS = {
    "validate": "Validate websites files without a connection.",
    "plan": "Plan the changes that a websites file requires, without sending them.",
    "explain": "Explain why an entry is on the websites: its list, owner, dates, and host name.",
}


class ExitStatus(IntEnum):
    """Exit status of all commands."""

    #: No changes, or valid.
    NO_CHANGES = 0
    #: Failed, or invalid.
    FAILED = 1
    #: Changes, or findings.
    CHANGES = 2


#: For the help of each command, which can describe its findings.
EXIT_STATUSES = "Exit status: 0 no changes, or valid; 1 failed, or invalid; 2 changes, or findings."


class _Parser(argparse.ArgumentParser):
    """A parser that exits with status 1 for a usage error, because status 2 means changes."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        self.exit(ExitStatus.FAILED, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None, prog: str = "airflow-provider-analytics") -> int:
    """Run a command and return its exit status; 1 if the arguments are invalid or the command fails.

    :param arguments: name of the command and its arguments; None: the arguments of the process.
    :param prog: text that the user typed before the name of the command.
    """
    from airflow_provider_analytics.commands.connections import plain_output

    with plain_output():
        return _run(arguments, prog)


def _run(arguments: Sequence[str] | None, prog: str) -> int:
    help_lines = [f"  {name:<10} {text}" for name, text in COMMANDS.items()]
    parser = _Parser(
        prog=prog,
        description="Commands for websites of a web-analytics service.",
        epilog="\n".join(["commands:", *help_lines, "", EXIT_STATUSES]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{prog} COMMAND ...",
    )
    parser.add_argument("command", nargs="?", choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return ExitStatus.FAILED
    command = import_module(f"{__name__}.{parsed.command}")
    command_parser = _Parser(
        prog=f"{prog} {parsed.command}", description=COMMANDS[parsed.command], epilog=EXIT_STATUSES
    )
    command.add_arguments(command_parser)
    args = command_parser.parse_args(parsed.arguments)

    from airflow_provider_analytics.exceptions import AnalyticsError

    try:
        status: int = command.run(args)
    except (AnalyticsError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return ExitStatus.FAILED
    return status
