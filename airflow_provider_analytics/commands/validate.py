"""Check files of websites, without Airflow, a connection or a network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="PATH", help="YAML file, or folder of *.yaml files")


def run(args: argparse.Namespace) -> int:
    """Return 0 if the file has no problems, and 1 with a line for each otherwise."""
    from airflow_provider_analytics.reconcile.websites_file import parse_websites_file

    try:
        websites = parse_websites_file(Path(args.path).read_text(), args.path).websites
    except ValueError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{args.path}: {len(websites):,} websites, no problems\n")
    return 0
