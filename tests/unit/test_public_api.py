"""The public surface is what ``docs/reference/public_api.txt`` says; a change of it is made on purpose."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from pathlib import Path

import public_api
import pytest
from airflow_versions import needs_what_is_measured

pytestmark = [pytest.mark.repository, needs_what_is_measured]

FILE = Path(__file__).parents[2] / "docs" / "reference" / "public_api.txt"


def test_the_public_surface_is_the_written_one() -> None:
    written, found = FILE.read_text(encoding="utf-8").splitlines(), public_api.render().splitlines()
    changes = "\n".join(difflib.unified_diff(written, found, "written", "found", lineterm="", n=0))
    assert not changes, f"The public surface changed. Run make generate, and say so in CHANGELOG.md:\n{changes}"


def test_no_two_classes_have_the_same_name() -> None:
    sources = (
        path.read_text(encoding="utf-8") for path in (FILE.parents[2] / "airflow_provider_analytics").rglob("*.py")
    )
    names = Counter(name for source in sources for name in re.findall(r"^class (\w+)", source, re.MULTILINE))
    assert [name for name, count in names.items() if count > 1] == []
