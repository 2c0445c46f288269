"""docs/sandbox.md: its examples run, and its tables name every field."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests

from airflow_provider_analytics.sandbox.faults import Drift, Fault
from airflow_provider_analytics.sandbox.options import PRESETS, Options
from airflow_provider_analytics.sandbox.server import SandboxServer

DOCUMENT = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def section(title: str) -> str:
    return DOCUMENT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(title: str) -> set[str]:
    """The names in the first column of a section's table."""
    cells = re.findall(r"^\| (`[^|]*`) \|", section(title), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`(]*)[^`]*`", cell)}


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_the_examples_run(analytics_sandbox: SandboxServer, number: int) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(PYTHON[number], f"docs/sandbox.md, example {number}", "exec"), namespace)
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test(*[analytics_sandbox for _ in inspect.signature(test).parameters])


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_the_control_examples_run(analytics_sandbox: SandboxServer) -> None:
    (commands,) = re.findall(r"```sh\n(curl .*?)```", DOCUMENT, re.DOTALL)
    environment = {**os.environ, "SANDBOX": analytics_sandbox.url}
    subprocess.run(["/bin/sh", "-ec", commands], env=environment, check=True, stdout=subprocess.DEVNULL)
    assert len(analytics_sandbox.websites()) == 250
    assert analytics_sandbox.options.paginator == "simple"
    assert [(fault.status, fault.times) for fault in analytics_sandbox.pending_faults] == [(503, 2)]


PUBLIC = {name for name in vars(SandboxServer) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Options", set(Options.model_fields)),
        ("Presets", set(PRESETS)),
        ("Faults", set(Fault.model_fields)),
        ("In pytest", PUBLIC - {"start", "stop"} | {"api_key"}),
    ],
)
def test_a_table_names_everything(title: str, names: set[str]) -> None:
    assert first_cells(title) == names


def test_every_kind_of_drift_and_every_control_endpoint_is_named(analytics_sandbox: SandboxServer) -> None:
    assert all(f"`{name}`" in section("Faults") for name in Drift.model_fields)
    paths = first_cells("Control endpoints")
    assert len(paths) == 6
    for path in paths:
        assert requests.options(f"{analytics_sandbox.url}{path}", timeout=10).status_code == 405
