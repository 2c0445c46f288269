# SPDX-License-Identifier: Apache-2.0
"""Make small mistakes in a copy of the package, and print those that no test notices: ``make mutants N=40 SEED=1``.

The first run records in build/mutants which tests cover which line, which takes longer than ``make test-fast``. It does
so again if the package has changed. A mistake is made by an import hook (tests/support/mutating.py), so no file is
edited. A mistake that no test notices is printed as a diff: add a test, or show that the mistake changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import pytest

log = logging.getLogger(__name__)

CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "airflow_provider_analytics"
RECORD = CHECKOUT / "build" / "mutants" / "data"
PYTEST = ["-m", "pytest", "-q", "-p", "mutating", "-p", "no:cacheprovider"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT / "tests" / "support")}
#: The tests of ``make test-fast``.
FAST = ["-m", "not (kill or browser or system or slow)", "-n", "2", "--dist", "loadfile"]
FOLDERS = [f"tests/{name}" for name in ("unit", "contract", "integration", "fuzzer")]
#: Maximum number of tests that are run for a mistake: some lines are covered by thousands.
MAX_TESTS = 300
#: Seconds after which the tests of a mistake are ended. A mistake that makes them hang is noticed.
TIMEOUT = 300

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.And: ("and", "or"), ast.Or: ("or", "and"), ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.BitOr: ("|", "&"), ast.BitAnd: ("&", "|"),
}  # fmt: skip
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min", "True": "False", "False": "True"}


class Mutant(NamedTuple):
    """A mistake: the text between two offsets of a file is replaced."""

    path: Path
    line: int
    start: int
    end: int
    text: str

    @property
    def source(self) -> str:
        """Return the source with the mistake."""
        source = self.path.read_bytes()
        return (source[: self.start] + self.text.encode() + source[self.end :]).decode()

    @property
    def diff(self) -> str:
        """Return the mistake as a diff."""
        name = str(self.path.relative_to(CHECKOUT))
        lines = difflib.unified_diff(
            self.path.read_text().splitlines(), self.source.splitlines(), name, name, "", "", 1
        )
        return "\n".join(line.rstrip("\n") for line in lines)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield the mistakes that can be made in a file."""
    source = path.read_bytes()
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))

    def start_of(node: Any) -> int:
        return starts[int(node.lineno) - 1] + int(node.col_offset)

    def end_of(node: Any) -> int:
        return starts[int(node.end_lineno) - 1] + int(node.end_col_offset)

    def between(first: Any, second: Any, operator: ast.AST) -> Iterator[Mutant]:
        old, new = OPERATORS.get(type(operator), ("", ""))
        at = source.find(old.encode(), end_of(first), start_of(second))
        if old and at >= 0:
            yield Mutant(path, first.end_lineno, at, at + len(old), new)

    def instead(node: Any, text: str) -> Mutant:
        return Mutant(path, node.lineno, start_of(node), end_of(node), text)

    tree = ast.parse(source)
    skipped = _skipped(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg:  # the argument is not passed on
                    yield instead(keyword, "**{}")
        if isinstance(node, ast.Compare):
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                yield from between(left, right, operator)
        elif isinstance(node, ast.BoolOp):
            for first, second in zip(node.values, node.values[1:], strict=False):
                yield from between(first, second, node.op)
        elif isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, node.op)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield Mutant(path, node.lineno, start_of(node), start_of(node) + len("not "), "")
        elif isinstance(node, ast.Name) and node.id in NAMES:
            yield instead(node, NAMES[node.id])
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield instead(node, NAMES[str(node.value)])
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield instead(node, str(node.value + 1))
        elif isinstance(node, ast.Call) and _has_two_names(node.args):
            swapped = f"{ast.unparse(node.args[1])}, {ast.unparse(node.args[0])}"
            yield Mutant(path, node.lineno, start_of(node.args[0]), end_of(node.args[1]), swapped)
        elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and _does_something(node.value)):
            yield instead(node, "pass")


def _skipped(tree: ast.AST) -> set[ast.AST]:
    """Return the nodes that are no mistakes: annotations, and arguments of decorators, such as ``frozen``.

    In f-strings, Python 3.11 reports wrong places.
    """
    roots = []
    for node in ast.walk(tree):
        roots += [getattr(node, "annotation", None), getattr(node, "returns", None)]
        roots += getattr(node, "decorator_list", [])
        if isinstance(node, ast.JoinedStr):
            roots += node.values
    return {node for root in roots if root is not None for node in ast.walk(root)}


def _has_two_names(arguments: Sequence[ast.expr]) -> bool:
    names = [argument.id for argument in arguments[:2] if isinstance(argument, ast.Name)]
    return len(set(names)) == 2


def _does_something(node: ast.expr) -> bool:
    """Return whether a statement is a call that does more than log."""
    return isinstance(node, ast.Call) and not ast.unparse(node.func).startswith(("log.", "self.log.", "super()"))


def record() -> None:
    """Record which tests cover which line."""
    for old in RECORD.parent.glob(f"{RECORD.name}*"):
        old.unlink()
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    run = [sys.executable, "-m", "coverage", "run", f"--data-file={RECORD}", *PYTEST, *FAST, *FOLDERS]
    if subprocess.run(run, cwd=CHECKOUT, env=ENVIRONMENT, check=False).returncode:
        RECORD.unlink(missing_ok=True)
        raise SystemExit("Tests fail without a mistake, so they notice none. Repair them first.")
    combine = [sys.executable, "-m", "coverage", "combine", "--quiet", f"--data-file={RECORD}", str(RECORD.parent)]
    subprocess.run(combine, cwd=CHECKOUT, check=True)


def tests_of(mutant: Mutant, data: coverage.CoverageData) -> list[str]:
    """Return the tests that cover the line of a mistake: one case of each test function first, the nearest first."""
    contexts = data.contexts_by_lineno(str(mutant.path))
    found = set(contexts.get(mutant.line, ())) - {""}
    if not found and mutant.line in contexts:  # the line runs during the import
        found = set().union(*contexts.values()) - {""}
    folder = mutant.path.parent.name

    def distance(test: str) -> tuple[bool, int, str]:
        kind = next(number for number, name in enumerate(FOLDERS) if test.startswith(name))
        return f"/{folder}/" not in test, kind, test

    cases: Counter[str] = Counter()
    rounds: dict[str, int] = {}
    for test in sorted(found, key=distance):
        function = test.partition("[")[0]
        rounds[test] = cases[function]
        cases[function] += 1
    return sorted(rounds, key=rounds.__getitem__)[:MAX_TESTS]


def is_noticed(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Run tests with a mistake, and return whether one of them fails."""
    if not tests:
        return False
    with tempfile.TemporaryDirectory() as folder:
        return _is_noticed(mutant, tests, Path(folder))


def _is_noticed(mutant: Mutant, tests: Sequence[str], folder: Path) -> bool:
    source, listed = folder / "source.py", folder / "tests.txt"
    source.write_text(mutant.source)
    listed.write_text("\n".join(tests))
    module = ".".join(mutant.path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
    variables = {"MUTANT_MODULE": module, "MUTANT_SOURCE": str(source), "MUTANT_TESTS": str(listed)}
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    process = subprocess.Popen(
        [sys.executable, *PYTEST, "-x", *files],
        cwd=CHECKOUT,
        env={**ENVIRONMENT, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(TIMEOUT) not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int, nargs="?", default=40, help="number of mistakes")
    parser.add_argument("--seed", type=int, default=1, help="the same seed draws the same mistakes")
    parser.add_argument("--only", default="", metavar="TEXT", help="draw only in files whose path contains this text")
    parser.add_argument("--record", action="store_true", help="record again which tests cover which line")
    arguments = parser.parse_args()
    seed = arguments.seed
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
    paths = sorted(path for path in PACKAGE.rglob("*.py") if arguments.only in str(path.relative_to(CHECKOUT)))
    changed_at = max(path.stat().st_mtime for path in PACKAGE.rglob("*.py"))
    if arguments.record or not RECORD.exists() or RECORD.stat().st_mtime < changed_at:
        record()
    data = coverage.CoverageData(str(RECORD))
    data.read()
    everything = [mutant for path in paths for mutant in mutants_of(path)]
    drawn = random.Random(seed).sample(everything, min(arguments.number, len(everything)))  # noqa: S311
    tests = [tests_of(mutant, data) for mutant in drawn]
    noticed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(is_noticed, drawn, tests)
        for number, (mutant, is_found) in enumerate(zip(drawn, results, strict=True), 1):
            place = f"{number}/{len(drawn)} {mutant.path.relative_to(CHECKOUT)}:{mutant.line}"
            if is_found:
                noticed += 1
                log.info("%s: noticed", place)
            else:
                covering = len(tests[number - 1])
                log.info("%s: not noticed by the %s tests that cover the line\n%s\n", place, covering, mutant.diff)
    percentage = 100 * noticed / max(1, len(drawn))
    log.info("Noticed %s of %s mistakes (%.0f %%), seed %s.", noticed, len(drawn), percentage, seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
