# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents that install packages."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
)


def install_commands() -> list[str]:
    """Return each command with ``pip install``; a command of several documents once.

    Without the commands of a Dockerfile: the packages of the official image are installed already, and pip keeps them.
    """
    lines = [line.strip() for document in DOCUMENTS for line in document.read_text(encoding="utf-8").splitlines()]
    return [*dict.fromkeys(line for line in lines if line.startswith("pip install "))]
