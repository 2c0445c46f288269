"""The command line: ``airflow-provider-analytics COMMAND``, and ``airflow analytics COMMAND``.

Each command is a module of this package with the same name. The module defines ``add_arguments(parser)`` and
``run(args) -> int``, which returns the exit status. It is imported only when it is used. :data:`COMMANDS` has its help.
Commands may import everything except ``sandbox``. Airflow and slow modules are imported inside functions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

#: Help of each command, by the name of the command and its module.
COMMANDS = {
    "probe": "Find out what the tasks will do on a service, with at most 50 reads.",
    "verify": "Verify on a disposable website that a service does what its interface says.",
    "validate": "Check files of websites, without a connection.",
    "plan": "Plan the changes that make the websites match files; send nothing.",
    "drift": "Report where the websites differ from files; send nothing.",
    "why": "Explain why an entry is on the websites: its list, owner, dates and host name.",
}


class _Parser(argparse.ArgumentParser):
    """A parser that exits with 1 on a usage error: 2 means that there are changes."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None, prog: str = "airflow-provider-analytics") -> int:
    """Run a command and return its exit status; 1 if the arguments are invalid or the command fails.

    :param arguments: name of the command and its arguments; None: the arguments of the process.
    :param prog: text that the user typed before the name of the command.
    """
    from airflow_provider_analytics.commands.output import plain_output

    with plain_output():
        return _run(arguments, prog)


def _run(arguments: Sequence[str] | None, prog: str) -> int:
    parser = _Parser(
        prog=prog,
        description="Commands for websites of a web-analytics service.",
        epilog="\n".join(["commands:", *(f"  {name:<10} {text}" for name, text in COMMANDS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{prog} COMMAND ...",
    )
    parser.add_argument("command", choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    command = import_module(f"{__name__}.{parsed.command}")
    command_parser = _Parser(prog=f"{prog} {parsed.command}", description=COMMANDS[parsed.command])
    command.add_arguments(command_parser)
    args = command_parser.parse_args(parsed.arguments)

    from airflow_provider_analytics.exceptions import AnalyticsError

    try:
        status: int = command.run(args)
    except (AnalyticsError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return status
