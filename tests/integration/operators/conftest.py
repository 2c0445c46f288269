"""Operators in real DAG runs against a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseOperator
from dag_runs import RunDag
from fixture_types import RunTasks

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> SandboxServer:
    """The sandbox behind a client that never repeats a request by itself, so that no test waits for a backoff."""
    connect(monkeypatch, "analytics_default", analytics_sandbox)
    return analytics_sandbox


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, server: SandboxServer, **changes: Any) -> None:
    fields = {**json.loads(server.connection_json()), "extra": {"max_retries": 0}, **changes}
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


@pytest.fixture
def connect_sandbox(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make a connection to the sandbox that differs in some fields: ``connect_sandbox("conn_id", host=...)``."""
    return lambda conn_id, **changes: connect(monkeypatch, conn_id, sandbox, **changes)


@pytest.fixture
def run_tasks(run_dag: RunDag, request: pytest.FixtureRequest) -> RunTasks:
    """Run tasks one after the other, each whatever became of the one before, in one DAG run; return them by id.

    Tasks have one retry, without a delay.
    """

    def run(conf: dict[str, Any] | None = None, dag_arguments: dict[str, Any] | None = None, **tasks: Any) -> Any:
        dag_id = re.sub(r"\W+", "_", request.node.name).strip("_")
        start = datetime(2026, 1, 1, tzinfo=UTC)
        with DAG(dag_id, schedule=None, start_date=start, **(dag_arguments or {})) as dag:
            previous: BaseOperator | None = None
            for task_id, wanted in tasks.items():
                shared = {"task_id": task_id, "retries": 1, "retry_delay": timedelta(0), "trigger_rule": "all_done"}
                current = wanted.operator(**{**shared, **wanted.arguments})
                if previous is not None:
                    previous >> current
                previous = current
        return run_dag(dag, conf=conf).tasks

    return run


@pytest.fixture(autouse=True)
def password_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a password of a statistics page in Airflow."""
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", '{"conn_type": "generic", "password": "s3cret-page"}')
