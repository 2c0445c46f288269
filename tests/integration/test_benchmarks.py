# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: each runs once (``tests/benchmarks``)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from airflow_versions import needs_what_is_measured

CHECKOUT = Path(__file__).resolve().parents[2]
BENCHMARKS = CHECKOUT / "tests" / "benchmarks"

pytestmark = [needs_what_is_measured, pytest.mark.repository, pytest.mark.slow]


def test_every_benchmark_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "bench.py"), "--tiny", "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())["results"]
    assert len(results) == done.stdout.count("\n| ") - 2
    requests = {result["work"]: result["ratios"] for result in results if result["unit"] == " more than n"}
    assert list(requests.values()) == [[2.0], [2.0], [2.0]]
