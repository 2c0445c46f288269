# SPDX-License-Identifier: Apache-2.0
"""Public API: it equals ``docs/reference/public_api.txt``, so a change is deliberate."""

from __future__ import annotations

import difflib
from pathlib import Path

import public_api
import pytest
from airflow_versions import needs_what_is_measured

FILE = Path(__file__).parents[2] / "docs" / "reference" / "public_api.txt"


@pytest.mark.repository
@needs_what_is_measured
def test_public_api_equals_the_documented_api() -> None:
    written, found = FILE.read_text(encoding="utf-8").splitlines(), public_api.render().splitlines()
    changes = "\n".join(difflib.unified_diff(written, found, "written", "found", lineterm="", n=0))
    assert not changes, (
        f"The public surface changed. Run make generate, and follow CONTRIBUTING.md, Public surface:\n{changes}"
    )
