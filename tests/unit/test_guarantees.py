"""Each guarantee names tests, and only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "guarantees.md").read_text()
PROMISES = re.split(r"^## ", DOCUMENT.partition("\n## Conditions")[0], flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text.partition("\n")[0])
def test_a_promise_names_its_tests(promise: str) -> None:
    """Its heading is its anchor."""
    assert "* **Tests:**" in promise


def test_each_condition_names_promises() -> None:
    conditions = (ROOT / "docs" / "internals" / "assumptions.md").read_text().partition("\n## The sandbox")[0]
    rows = [line.strip("| ").split(" | ") for line in conditions.splitlines() if line.startswith("| ")][1:]
    named = {promise for *_, promises in rows for promise in promises.split("; ")}
    assert len(rows) > 10
    assert named <= {promise.partition("\n")[0] for promise in PROMISES}


def test_the_tests_that_are_named_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT))
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()
    assert len(named) >= 15
