# SPDX-License-Identifier: Apache-2.0
"""docs/reference/performance.md: the table of requests per operation, and each benchmark once (``benchmarks``)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import request_counts
from airflow_versions import needs_what_is_measured


@pytest.mark.repository
def test_documented_request_counts_are_correct() -> None:
    text = request_counts.PAGE.read_text()
    assert request_counts.filled(text) == text


def test_create_among_250_websites_takes_at_most_seven_requests() -> None:
    created = request_counts.count()["`hook.ensure_website`, `CreateWebsiteOperator`, a new domain"]
    assert (created["create"], created.total() <= 7) == (1, True)


@needs_what_is_measured
@pytest.mark.repository
@pytest.mark.slow
def test_every_benchmark_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).parents[1] / "benchmarks" / "bench.py"),
            "--tiny",
            "--output",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())["results"]
    assert len(results) == done.stdout.count("\n| ") - 2
    requests = {result["work"]: result["ratios"] for result in results if result["unit"] == " more than n"}
    assert list(requests.values()) == [[2.0], [2.0], [2.0]]
