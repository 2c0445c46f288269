# SPDX-License-Identifier: Apache-2.0
"""The numbers of the package as text: ``docs/internals/limits.txt``, written by ``make generate``.

They are limits, waits, periods, and statuses. A changed line in a commit shows that one of them moves.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = "airflow_provider_analytics"


def render() -> str:
    """Return the text: a line for each constant of a module that is a number, or several numbers."""
    lines = []
    for path in sorted((CHECKOUT / PACKAGE).rglob("*.py")):
        module = ".".join(path.relative_to(CHECKOUT / PACKAGE).with_suffix("").parts)
        if path.name.startswith("__") or module.startswith("sandbox."):
            continue
        constants = vars(importlib.import_module(f"{PACKAGE}.{module}"))
        for name in _constants(path):
            value = constants[name]
            values = [value]
            if isinstance(value, frozenset):
                values = sorted(value, key=str)
            elif isinstance(value, tuple):
                values = list(value)
            if values and all(isinstance(number, (int, float, timedelta)) for number in values):
                lines.append(f"{module}.{name}: {', '.join(map(str, values))}")
    return "\n".join(["Written by `make generate`.", "", *lines, ""])


def _constants(path: Path) -> Iterator[str]:
    """Yield the constants of a module, in their order."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for inner in ast.walk(target):
                if isinstance(inner, ast.Name) and inner.id.isupper():
                    yield inner.id
