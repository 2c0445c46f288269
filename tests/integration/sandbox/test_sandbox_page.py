# SPDX-License-Identifier: Apache-2.0
"""docs/testing.md and docs/reference/sandbox.md: the examples run, and the tables name every field."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_analytics.sandbox.faults import Drift, Fault
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.sandbox.service import Options

DOCS = Path(__file__).parents[3] / "docs"
GUIDE, DOCUMENT = ((DOCS / name).read_text(encoding="utf-8") for name in ("testing.md", "reference/sandbox.md"))
#: The tests of both pages, except for tests with DAG files, which tests/system/test_quickstart.py runs.
PYTHON = [
    code
    for code in re.findall(r"```python\n(.*?)```", GUIDE + DOCUMENT, re.DOTALL)
    if "def test_" in code and "dags" not in code
]


def section(title: str) -> str:
    return DOCUMENT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(title: str) -> set[str]:
    """Return the names in the first column of a section's table."""
    cells = re.findall(r"^\| (`[^|]*`) \|", section(title), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`(]*)[^`]*`", cell)}


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_documented_examples_run(analytics_sandbox: SandboxServer, number: int) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(PYTHON[number], f"example {number}", "exec"), namespace)
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test(*[analytics_sandbox for _ in inspect.signature(test).parameters])


def test_command_prints_the_documented_output() -> None:
    """tests/integration/sandbox/test_sandbox_command.py runs the command."""
    install, command = re.findall(r"```sh\n(.*?)\n```", GUIDE, re.DOTALL)
    assert "[sandbox]" in install
    assert command.startswith("python -m airflow_provider_analytics.sandbox ")
    [printed] = re.findall(r"```output\n(.*?)\n```", GUIDE, re.DOTALL)
    name, _, value = shlex.split(printed)[0].partition("=")
    with SandboxServer() as server:
        assert name in server.connection_env
        assert json.loads(value).keys() == json.loads(server.connection_json()).keys()


PUBLIC = {name for name in vars(SandboxServer) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Options", set(Options.model_fields)),
        ("Faults", set(Fault.model_fields)),
        ("Fixture", PUBLIC - {"start", "stop"} | {"api_key"}),
    ],
)
def test_sandbox_page_names_every_option(title: str, names: set[str]) -> None:
    assert first_cells(title) == names


def test_sandbox_page_names_every_kind_of_drift() -> None:
    assert all(f"`{name}`" in section("Faults") for name in Drift.model_fields)
