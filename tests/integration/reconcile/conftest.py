# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from connections import with_parallel_requests
from distortion import Distortion
from fixture_types import Execute
from nights import Nights
from raw_server import RawServer
from reconciling import Night
from task_process import TaskProcess
from zoo import Zoo

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture(autouse=True)
def nobody_else_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the updates of others."""
    monkeypatch.setattr("airflow_provider_analytics.reconcile.apply.application.SETTLE_SECONDS", 0)


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Run one operator as a task would, without a DAG run: ``execute(Operator, argument=...)``.

    ``parallel_requests`` is set in the connection, from then on.
    """

    def run(
        operator: type,
        *,
        task_id: str = "sync",
        try_number: int = 1,
        start_date: datetime | None = None,
        run_id: str = "manual__2026-01-02T03:04:05+00:00",
        run_began: datetime | None = None,
        parallel_requests: int | None = None,
        map_index: int = -1,
        **arguments: Any,
    ) -> Any:
        if parallel_requests:
            monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", with_parallel_requests(parallel_requests))
        ti = SimpleNamespace(
            dag_id="the_dag",
            run_id=run_id,
            task_id=task_id,
            map_index=map_index,
            try_number=try_number,
            start_date=start_date,
        )
        return operator(task_id=task_id, **arguments).execute(
            {"ti": ti, "dag_run": SimpleNamespace(start_date=run_began)}
        )

    return run


@pytest.fixture
def distortion(analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Distortion]:
    """Let what stands before the sandbox be the service of the default connection."""
    between = Distortion(analytics_sandbox)
    with RawServer(between) as server:
        connection = {
            **json.loads(analytics_sandbox.connection_json()),
            "host": server.url,
            "extra": {"max_retries": 0},
        }
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))
        yield between


@pytest.fixture
def night(analytics_sandbox: Zoo, execute: Execute, tmp_path: Path) -> Night:
    return Night(analytics_sandbox, execute, tmp_path)


@pytest.fixture
def nights(analytics_sandbox: Zoo, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    """Lists that share a state folder and a clock, and three websites."""
    found = Nights(analytics_sandbox, execute, tmp_path / "state")
    monkeypatch.setattr("airflow_provider_analytics.operators.state.now", lambda: found.now)
    for number in range(1, 4):
        analytics_sandbox.add_website(f"{number}.example")
    return found


@pytest.fixture(scope="module")
def task_log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "tasks.txt"


@pytest.fixture(scope="module")
def started(task_log_file: Path) -> Iterator[TaskProcess]:
    """A process that runs one operator at a time, and can be killed."""
    with task_log_file.open("w") as file, TaskProcess(file) as process:
        yield process


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a website be read as often as in the field, at once."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0,) * 4)
