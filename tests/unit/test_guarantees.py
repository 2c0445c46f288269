# SPDX-License-Identifier: Apache-2.0
"""docs/guarantees.md: every guarantee has tests, and the named tests exist (tests/guarantee_tests.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "guarantees.md").read_text()
TESTS = (ROOT / "tests" / "guarantee_tests.md").read_text()


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


GUARANTEES = headings(DOCUMENT.partition("\n## Conditions")[0])


def test_every_guarantee_has_tests() -> None:
    assert headings(TESTS) == GUARANTEES
    for guarantee in re.split(r"^## ", TESTS, flags=re.MULTILINE)[1:]:
        assert re.search(r"^\* (`test_\w+`|the \[attacks\])", guarantee, re.MULTILINE), guarantee


@pytest.mark.parametrize("page", ["tests/guarantee_tests", "docs/internals/threat_model"])
def test_tests_named_in_a_document_exist(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / f"{page}.md").read_text()))
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()
    assert len(named) >= 5
