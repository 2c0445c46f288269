# SPDX-License-Identifier: Apache-2.0
"""Check files of websites, without Airflow, a connection or a network."""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from airflow_provider_analytics.commands import ExitStatus
from airflow_provider_analytics.commands.connections import write_commands
from airflow_provider_analytics.readable import counted, readable
from airflow_provider_analytics.reconcile.desired.websites_file import in_a_folder, parse_websites_files
from airflow_provider_analytics.reconcile.desired.yaml_values import Problem, ProblemsError
from airflow_provider_analytics.storage import StoragePath, read_texts

#: Maximum number of problems that are printed; the summary counts the others.
MAX_PRINTED = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="PATH", help="YAML file, or folder of YAML files")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text: path:line:column: message (default); github: annotations of a workflow; gitlab: a code quality "
        "report",
    )


def run(args: argparse.Namespace) -> int:
    """Print the problems; return the exit status."""
    # The process ends right after the file is read, and a large file creates millions of objects.
    gc.disable()
    texts = _texts(args.path)
    problems_by_mode: list[Sequence[Problem]] = []
    # The mode of a list that names none depends on state_path, which a file does not contain.
    for default_mode in ("managed", "merge"):
        try:
            websites = parse_websites_files(texts, default_mode).websites
        except ProblemsError as error:
            problems_by_mode.append(error.problems)
            summary = counted(min(map(len, problems_by_mode)), "problem")
        else:
            problems_by_mode.append(())
            summary = f"{counted(len(websites), 'website')}, no problems"
            break
    problems = min(problems_by_mode, key=len)
    text = FORMATS[args.format](problems[:MAX_PRINTED])
    if args.format == "github":
        write_commands(text)
    else:
        sys.stdout.write(text)
    if len(problems) > MAX_PRINTED:
        summary += f". The first {MAX_PRINTED} are printed, and {len(problems) - MAX_PRINTED:,} are not"
    sys.stderr.write(f"{readable(args.path)}: {summary}\n")
    return ExitStatus.FAILED if problems else ExitStatus.NO_CHANGES


def _texts(path: str) -> Mapping[str, str | ValueError]:
    """Return the text of each file by path, as the problems name it, or why it cannot be read.

    :raises ValueError: if there is no file.
    """
    place = replace(StoragePath.of(os.path.abspath(path)), url=path)  # noqa: PTH100 - keeps links
    texts = read_texts(place, "path", in_a_folder)
    if not texts:
        raise ValueError(f"{readable(path)}: there is no such file or folder")
    if not Path(path).is_dir():
        [text] = texts.values()
        return {path: text}
    return {str(place / name): text for name, text in texts.items()}


def _as_text(problems: Sequence[Problem]) -> str:
    text = ""
    for where, message in problems:
        text += f"{readable(where.source, None)}:{where.line}:{where.column}: {readable(message, None)}\n"
    return text


def _as_github(problems: Sequence[Problem]) -> str:
    """Return workflow commands, which GitHub displays next to the lines of the pull request."""
    lines = []
    for where, text in problems:
        file, message = _escape(readable(where.source, None), "%:,"), _escape(readable(text, None), "%")
        lines.append(f"::error file={file},line={where.line},col={where.column}::{message}\n")
    return "".join(lines)


def _escape(text: str, characters: str) -> str:
    for character in characters:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _as_gitlab(problems: Sequence[Problem]) -> str:
    """Return a code quality report, which GitLab displays next to the lines of the merge request."""
    report = []
    for where, text in problems:
        file, message = readable(where.source, None), readable(text, None)
        report.append(
            {
                "description": message,
                "check_name": "websites",
                "fingerprint": hashlib.sha256(f"{file} {where.line} {where.column} {message}".encode()).hexdigest(),
                "severity": "major",
                "location": {"path": file, "lines": {"begin": where.line}},
            }
        )
    return json.dumps(report, indent=1) + "\n"


FORMATS: dict[str, Callable[[Sequence[Problem]], str]] = {"text": _as_text, "github": _as_github, "gitlab": _as_gitlab}
