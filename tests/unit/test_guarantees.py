# SPDX-License-Identifier: Apache-2.0
"""docs/guarantees.md: every guarantee has tests, and the named tests exist (docs/internals/promises.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "guarantees.md").read_text()
TESTS = (ROOT / "docs" / "internals" / "promises.md").read_text()


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


PROMISES = headings(DOCUMENT.partition("\n## Conditions")[0])


def test_every_promise_has_tests() -> None:
    assert headings(TESTS) == PROMISES
    for promise in re.split(r"^## ", TESTS, flags=re.MULTILINE)[1:]:
        assert re.search(r"^\* (`test_\w+`|the \[attacks\])", promise, re.MULTILINE), promise


def test_every_condition_names_promises() -> None:
    conditions = (ROOT / "docs" / "internals" / "assumptions.md").read_text().partition("\n## The sandbox")[0]
    rows = [line.strip("| ").split(" | ") for line in conditions.splitlines() if line.startswith("| ")][1:]
    named = {promise for *_, promises in rows for promise in promises.split("; ")}
    assert len(rows) > 10
    assert named <= set(PROMISES)


@pytest.mark.parametrize("page", ["internals/promises", "internals/threat_model", "comparison"])
def test_tests_named_in_the_guarantees_exist(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / f"{page}.md").read_text()))
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()
    assert len(named) >= 7
