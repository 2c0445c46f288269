# SPDX-License-Identifier: Apache-2.0
"""docs/sample_dags.md: it lists each sample, and each name that the sample reads."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from samples import SAMPLES


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.py")))
def test_sample_dags_page_lists_each_sample_with_its_variables(name: str, page: Callable[[str], str]) -> None:
    [row] = [line for line in page("sample_dags").splitlines() if line.startswith(f"| [`{name}`]")]
    assert row.count(f"/dags/{name}.py") == 1
    source = (SAMPLES / f"{name}.py").read_text(encoding="utf-8")
    variables = set(re.findall(r"var\.value\.(?:get\(')?(\w+)", source))
    is_variant = "as above" in row or "as for" in row
    assert is_variant or {variable for variable in variables if f"`{variable}`" not in row} == set()
    named = re.findall(r"`(\w+)`", row.rpartition(" | ")[2])
    assert {constant for constant in named if constant.isupper() and constant not in source} == set()
