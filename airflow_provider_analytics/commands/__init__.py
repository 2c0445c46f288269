"""The command line: ``python -m airflow_provider_analytics COMMAND``, and ``airflow analytics COMMAND``.

A command is a module of this package with the name of the command. It has ``add_arguments(parser)`` and
``run(args) -> int``, which returns the exit status, and is imported only when it is used. Its line in :data:`COMMANDS`
is its help. May import everything but ``sandbox``; Airflow and whatever is slow is imported inside functions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

#: Name of a command, which is the name of its module, to its help.
COMMANDS = {
    "probe": "Find out what a service does where its interface says nothing, in at most 15 reads.",
    "validate": "Check files of websites, without a connection.",
    "plan": "Plan the changes that make the websites match files; send nothing.",
    "drift": "Show where the websites differ from files; send nothing.",
    "ledgers": "Check ledgers of managed lists without a run: what they own, and what is stale.",
    "why": "Say why an entry is on the websites: its list, owner, dates and host name, from ledgers.",
}


class _Parser(argparse.ArgumentParser):
    """A parser that exits with 1 on a usage error: 2 means that there are changes."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None, prog: str = "python -m airflow_provider_analytics") -> int:
    """Run a command and return its exit status; 1 if the arguments are not allowed, or it failed.

    :param arguments: name of the command and its arguments; None takes those of the process.
    :param prog: what the user typed before the name of the command.
    """
    parser = _Parser(
        prog=prog,
        description="Commands for websites of a web-analytics service.",
        epilog="\n".join(["commands:", *(f"  {name:<10} {text}" for name, text in COMMANDS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{prog} COMMAND ...",
    )
    parser.add_argument("command", choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    command = import_module(f"{__name__}.{given.command}")
    of_command = _Parser(prog=f"{prog} {given.command}", description=COMMANDS[given.command])
    command.add_arguments(of_command)
    args = of_command.parse_args(given.arguments)

    from airflow_provider_analytics.exceptions import AnalyticsError

    try:
        status: int = command.run(args)
    except (AnalyticsError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return status
