#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the statements of the package that take a second reading, per 1,000 lines of code and folder.

Usage: statements.py [--lines] [FOLDER]

A line of code contains a token other than a comment or a docstring. Conditional expressions are ``a if b else c``, and
comprehension loops are the ``for`` clauses of comprehensions and generator expressions. "Nested" counts conditional
expressions within another one, and "arithmetic" counts comparisons and boolean operators that are operands of
arithmetic, such as ``total += a < b``. ``--lines`` also prints each place.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "airflow_provider_analytics"
COLUMNS = ("conditional", "comprehension", "nested", "arithmetic")
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the numbers of the lines of docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def code_lines(source: str, tree: ast.AST) -> int:
    """Return the number of lines with code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(tree))


def findings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the kind and the line of each finding."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            yield "conditional", node.lineno
            parts = [part for child in ast.iter_child_nodes(node) for part in ast.walk(child)]
            if any(isinstance(part, ast.IfExp) for part in parts):
                yield "nested", node.lineno
        elif isinstance(node, ast.comprehension):
            yield "comprehension", node.target.lineno
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ARITHMETIC):
            operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
            if any(isinstance(operand, (ast.Compare, ast.BoolOp)) for operand in operands):
                yield "arithmetic", node.lineno


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--lines", action="store_true", help="also print each place")
    arguments = parser.parse_args()
    lines: Counter[str] = Counter()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(arguments.folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        name = path.relative_to(arguments.folder).parts[0]
        for room in (name, "all"):
            lines[room] += code_lines(source, tree)
        for kind, line in findings(tree):
            counts[name][kind] += 1
            counts["all"][kind] += 1
            if arguments.lines:
                print(f"{path}:{line}: {kind}")  # noqa: T201
    table = [f"| per 1,000 lines of code | lines | {' | '.join(COLUMNS)} |", "|---|---|" + "---|" * len(COLUMNS)]
    for room in sorted(lines, key=lambda room: (room == "all", room)):
        rates = [f"{1000 * counts[room][kind] / max(lines[room], 1):.1f}" for kind in COLUMNS]
        table.append(f"| {room} | {lines[room]:,} | {' | '.join(rates)} |")
    print("\n".join(table))  # noqa: T201


if __name__ == "__main__":
    main()
