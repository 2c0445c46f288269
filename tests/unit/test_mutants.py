# SPDX-License-Identifier: Apache-2.0
"""``make mutants``: the mistakes that ``scripts/mutants.py`` draws, and the plugin that makes them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import mutants
import pytest

CHECKOUT = Path(__file__).parents[2]
CODE = """
def work(first: int = 1, second: str = "") -> bool:
    numbers = [first + 2]
    numbers.append(3)
    first -= 1
    if not numbers or first is None:
        swap(first, second)
    return any(one in second for one in f"{first < 2}") and len(numbers) >= max(numbers)
"""
MISTAKES = [
    "first: int = 2",
    "[first - 2]",
    "first + 3",
    "\n    pass\n    first -= 1",
    "append(4)",
    "\n    pass\n    if",
    "first -= 2",
    "if numbers or",
    "not numbers and first",
    "first is not None",
    "swap(second, first)",
    "\n        pass\n    return",
    "all(one",
    "one not in second",
    "or len(",
    "(numbers) > max",
    "min(numbers)",
]


def test_every_kind_of_mistake_is_made(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(CODE)
    sources = [mutant.source for mutant in mutants.mutants_of(path)]
    for mistake in MISTAKES:
        assert mistake not in CODE
        assert sum(mistake in source for source in sources) == 1, mistake
    assert len(sources) == len(MISTAKES)


@pytest.mark.repository
def test_mistakes_in_the_package_are_valid_python() -> None:
    drawn = [mutant for path in sorted(mutants.PACKAGE.rglob("*.py")) for mutant in mutants.mutants_of(path)]
    for mutant in random.Random(1).sample(drawn, 300):
        compile(mutant.source, str(mutant.path), "exec", dont_inherit=True)
        assert mutant.diff.count("\n-") >= 1


@pytest.mark.parametrize(("changed", "status"), [("False", 1), ("True", 0)])
def test_plugin_makes_the_mistake_in_the_process_of_the_tests(tmp_path: Path, changed: str, status: int) -> None:
    (tmp_path / "code_under_test.py").write_text("VALUE = True")
    (tmp_path / "source.py").write_text(f"VALUE = {changed}")
    (tmp_path / "test_code.py").write_text(
        "import code_under_test\ndef test_value(): assert code_under_test.VALUE\ndef test_other(): assert False"
    )
    (tmp_path / "tests.txt").write_text("test_code.py::test_value")
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{CHECKOUT / 'tests' / 'support'}:{tmp_path}",
        "MUTANT_MODULE": "code_under_test",
        "MUTANT_SOURCE": str(tmp_path / "source.py"),
        "MUTANT_TESTS": str(tmp_path / "tests.txt"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutating", "-p", "no:cacheprovider", "test_code.py"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout
    assert "1 failed" in done.stdout if status else "1 passed" in done.stdout
