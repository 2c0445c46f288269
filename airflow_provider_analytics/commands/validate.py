"""Check files of websites, without Airflow, a connection or a network."""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_analytics.reconcile.desired import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="PATH", help="YAML file, or folder of *.yaml files")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text: path:line:column: message (default); github: annotations of a workflow; gitlab: a code quality "
        "report",
    )


def run(args: argparse.Namespace) -> int:
    """Print the problems; return 1 if there are any, and 0 otherwise."""
    # The process ends right after the file is read, and a large file creates millions of objects.
    gc.disable()
    from airflow_provider_analytics.reconcile.websites_file import ProblemsError, parse_websites_files

    problems: Sequence[Problem] = ()
    try:
        number = len(parse_websites_files(_texts(Path(args.path))).websites)
    except ProblemsError as error:
        problems = error.problems
    sys.stdout.write(FORMATS[args.format](problems))
    plural = "" if len(problems) == 1 else "s"
    summary = f"{len(problems):,} problem{plural}" if problems else f"{number:,} websites, no problems"
    sys.stderr.write(f"{args.path}: {summary}\n")
    return 1 if problems else 0


def _texts(path: Path) -> Mapping[str, str]:
    """Return the text of each file by path.

    :raises ValueError: if there is no file, or a file cannot be read.
    """
    from airflow_provider_analytics.reconcile.websites_file import in_a_folder

    if not path.exists():
        raise ValueError(f"{path}: there is no such file or folder")
    texts = {}
    try:
        files = in_a_folder(str(path), [one.name for one in path.iterdir()]) if path.is_dir() else [""]
        for name in files:
            one = path / name
            texts[str(one)] = one.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{one}: {error.reason}; allowed: a text file in UTF-8") from error
    except OSError as error:
        raise ValueError(
            f"{error.filename or path}: {error.strerror or error}; allowed: a file that can be read"
        ) from error
    return texts


def _as_text(problems: Sequence[Problem]) -> str:
    return "".join(f"{where.source}:{where.line}:{where.column}: {_line(text)}\n" for where, text in problems)


def _as_github(problems: Sequence[Problem]) -> str:
    """Return workflow commands, which GitHub displays next to the lines of the pull request."""
    return "".join(
        f"::error file={_escape(where.source, ':,')},line={where.line},col={where.column}::{_escape(_line(text))}\n"
        for where, text in problems
    )


def _escape(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _as_gitlab(problems: Sequence[Problem]) -> str:
    """Return a code quality report, which GitLab displays next to the lines of the merge request."""
    report = [
        {
            "description": _line(text),
            "check_name": "websites",
            "fingerprint": hashlib.sha256(f"{where.source} {where.line} {where.column} {text}".encode()).hexdigest(),
            "severity": "major",
            "location": {"path": where.source, "lines": {"begin": where.line}},
        }
        for where, text in problems
    ]
    return json.dumps(report, indent=1) + "\n"


def _line(text: str) -> str:
    from airflow_provider_analytics.readable import readable

    return readable(text, None)


FORMATS: dict[str, Callable[[Sequence[Problem]], str]] = {
    "text": _as_text,
    "github": _as_github,
    "gitlab": _as_gitlab,
}
