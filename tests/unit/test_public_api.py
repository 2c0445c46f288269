# SPDX-License-Identifier: Apache-2.0
"""Public API: it equals ``docs/reference/public_api.txt``, so a change is deliberate."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

import public_api
import pytest
from airflow_versions import needs_what_is_measured

from airflow_provider_analytics.operators.websites import DeleteWebsiteOperator

CHECKOUT = Path(__file__).parents[2]
FILE = CHECKOUT / "docs" / "reference" / "public_api.txt"
PACKAGE = "airflow_provider_analytics"
SAMPLES = [*CHECKOUT.glob("dags/*.py"), *CHECKOUT.rglob("examples/**/*.py")]


@pytest.mark.repository
@needs_what_is_measured
def test_public_api_equals_the_documented_api() -> None:
    written, found = FILE.read_text(encoding="utf-8").splitlines(), public_api.render().splitlines()
    changes = "\n".join(difflib.unified_diff(written, found, "written", "found", lineterm="", n=0))
    assert not changes, (
        f"The public surface changed. Run make generate, and follow CONTRIBUTING.md, Public surface:\n{changes}"
    )


@pytest.mark.repository
def test_result_of_an_operator_is_the_same_after_a_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    operators = [DeleteWebsiteOperator, *public_api._operators()]
    monkeypatch.setattr(public_api, "_operators", lambda: operators)
    assert {*public_api.returned()} <= {*FILE.read_text(encoding="utf-8").splitlines()}


@pytest.mark.repository
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_imports_only_public_names(path: Path) -> None:
    public = {line.partition("(")[0] for line in FILE.read_text(encoding="utf-8").splitlines()}
    public |= {name.rpartition(".")[0] for name in public}  # modules
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            names = {f"{node.module}.{alias.name}".removeprefix(f"{PACKAGE}.exceptions.") for alias in node.names}
            assert names <= public
