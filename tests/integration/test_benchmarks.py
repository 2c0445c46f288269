# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: each runs once, and the compared HTTP DAGs equal the samples (``tests/benchmarks``)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def dags(folder: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the common properties of the DAGs of a folder and the compared DAGs."""
    from airflow.models import DagBag

    bag = DagBag(folder)
    assert bag.import_errors == {}
    for dag in bag.dags.values():
        tasks = sorted((task.task_id, sorted(task.upstream_task_ids)) for task in dag.tasks)
        yield dag.dag_id, type(dag.timetable).__name__, sorted(dag.params), tasks


def test_http_dags_contain_the_tasks_of_the_samples() -> None:
    pytest.importorskip("airflow.providers.http")
    ours, theirs = ({dag[0]: dag for dag in dags(folder)} for folder in (CHECKOUT / "dags", BENCHMARKS / "http_dags"))
    assert theirs == {name: ours[name] for name in theirs}
    assert len(theirs) == 4
