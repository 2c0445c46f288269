"""The threat model in docs/internals/threat_model.md names every file of attacks, and only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parent.parent / "docs" / "internals" / "threat_model.md"


def test_the_threat_model_names_every_file_of_attacks() -> None:
    named = set(re.findall(r"`(test_\w+\.py)`", DOCUMENT.read_text()))
    assert named == {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}


def test_the_threat_model_names_only_tests_that_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text()))
    sources = "\n".join(path.read_text() for path in HERE.parent.rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()
    assert len(named) >= 7
