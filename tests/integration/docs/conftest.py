# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of docs/: a sandbox, and tasks that run as in Airflow."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_analytics.operators import exclusions, snapshots, websites_as_code

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def page() -> Callable[[str], str]:
    """Read a page of docs/ by its name."""
    return lambda name: (DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.fixture
def blocks(page: Callable[[str], str]) -> Callable[[str, str], list[str]]:
    """Return the code blocks of a page in a language: ``blocks("monitoring", "python")``."""
    return lambda name, language: re.findall(rf"^```{language}\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)


@pytest.fixture
def run_block(execute: Callable[..., Any], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a code block, each operator at once; return its names, and the results by task id.

    Its buckets are folders of the test, and its day is today. An argument is another text to replace.
    """
    buckets = {"s3://my-bucket": tmp_path.as_uri(), "s3://analytics-state": tmp_path.as_uri()}
    import_operators = re.compile(r"^from airflow_provider_analytics\.operators\.\w+ import .*\n", re.MULTILINE)

    def run(code: str, **places: str) -> dict[str, Any]:
        for there, here in {**buckets, "2026-11-20": datetime.now(UTC).date().isoformat(), **places}.items():
            code = code.replace(there, here)
        names: dict[str, Any] = {}

        def at_once(operator: type) -> Callable[..., None]:
            def call(*, task_id: str, **arguments: Any) -> None:
                given = {name: value for name, value in arguments.items() if "{{" not in str(value)}
                names[task_id] = execute(operator, **given)

            return call

        for module in (exclusions, snapshots, websites_as_code):
            found = {name: value for name, value in vars(module).items() if name.endswith("Operator")}
            names.update({name: at_once(operator) for name, operator in found.items()})
        exec(compile(import_operators.sub("", code), "docs", "exec"), names)
        return names

    return run
