# SPDX-License-Identifier: Apache-2.0
"""docs/internals/threat_model.md: every attack has an existing test, and every named path exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "internals" / "threat_model.md"


def test_every_attack_has_an_existing_test() -> None:
    text = DOCUMENT.read_text()
    attacks = text.partition("\n## Supply chain")[0]
    rows = [line for line in attacks.splitlines() if re.match(r"\| (?!attack|---)", line)]
    assert [row for row in rows if "`test" not in row] == []
    assert [path for path in re.findall(r"`(tests/[\w/]+\.py)`", text) if not (TESTS.parent / path).exists()] == []
    sources = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert {name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in sources} == set()
