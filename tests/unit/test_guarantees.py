"""Each guarantee names tests, and only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_analytics.probe.unknowns import PROMISES as NAMES

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "guarantees.md").read_text()
PROMISES = re.split(r"^## ", DOCUMENT.partition("\n## Conditions")[0], flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text.partition("\n")[0])
def test_a_promise_names_its_tests(promise: str) -> None:
    """Its heading is its anchor."""
    assert "* **Tests:**" in promise


def test_the_probe_knows_the_promises_by_their_headings() -> None:
    assert {promise.partition("\n")[0] for promise in PROMISES} >= set(NAMES)


def test_the_tests_that_are_named_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT))
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()
    assert len(named) >= 15
