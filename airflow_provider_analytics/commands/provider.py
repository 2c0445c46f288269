# SPDX-License-Identifier: Apache-2.0
"""The commands as ``airflow analytics COMMAND``. Airflow 3.2 and later let providers add commands.

Every call of ``airflow`` imports this module. Therefore it imports only the names of the commands from the package.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_provider_analytics.commands import COMMANDS, main

if TYPE_CHECKING:
    from airflow.cli.cli_config import GroupCommand

_PROG = "airflow analytics"


def get_cli_commands() -> list[GroupCommand]:
    """Return the command group that Airflow adds to its command line."""
    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand, lazy_load_command

    class Arguments(Arg):
        """Everything after the name of the command, for the parser of the command."""

        def add_to_parser(self, parser: argparse.ArgumentParser) -> None:
            """Make the parser pass on all options, including --help."""
            parser.prefix_chars = "\0"
            parser.add_argument("arguments", nargs=argparse.REMAINDER)

    run = lazy_load_command(f"{__name__}.run")
    rest = Arguments(("arguments",))  # type: ignore[no-untyped-call]
    subcommands = [ActionCommand(name, text, run, (rest,)) for name, text in COMMANDS.items()]
    return [GroupCommand("analytics", "Commands for websites of a web-analytics service", subcommands)]


def run(args: argparse.Namespace) -> None:
    """Run the command and exit with its status."""
    raise SystemExit(main([args.subcommand, *args.arguments], _PROG))
