# SPDX-License-Identifier: Apache-2.0
"""Supported Airflow versions: README claims only the runs in constraints/test_runs.md (``make test-matrix``)."""

from __future__ import annotations

import re
from pathlib import Path

import matrix
import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "constraints" / "test_runs.md").read_text("utf-8").partition("<!-- begin runs")[2]


def test_every_pinned_airflow_was_run_without_a_failure() -> None:
    rows = [re.split(r" *\| *", line.strip("| ")) for line in TABLE.splitlines() if line.startswith("| ")]
    table = {(airflow, python): cells for airflow, python, *cells in rows}
    for cell in matrix.pinned():
        discovery, *suites, samples = table[cell.airflow, cell.python]
        assert discovery == "yes"
        for counts in suites:
            assert re.fullmatch(r"[\d,]+(, \d+ skipped)?", counts), f"{cell}: {counts}"
        assert int(samples.partition(" of ")[0]) > 0


def test_readme_claims_only_tested_versions() -> None:
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    airflows = [cell.airflow for cell in matrix.pinned()]
    pythons = sorted({cell.python for cell in matrix.pinned()})
    minor = [version.rpartition(".")[0] for version in airflows]
    assert (
        f"Airflow {minor[0]} to {matrix.newest().rpartition('.')[0]} and Python {pythons[0]} to {pythons[-1]}" in readme
    )
    assert "docs/reference/compatibility.md" in readme
    assert f'apache-airflow>={minor[0]}"' in (ROOT / "pyproject.toml").read_text("utf-8")
