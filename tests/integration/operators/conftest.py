# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the operator tests: real DAG runs against a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseOperator
from dag_runs import RunDag
from fixture_types import RunTasks

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer, connect: Callable[..., None]) -> SandboxServer:
    """The sandbox behind a client without retries, so that tests do not wait for a backoff."""
    connect()
    return analytics_sandbox


@pytest.fixture
def run_tasks(run_dag: RunDag) -> RunTasks:
    """Run independent tasks in sequence in the same DAG run; return them by id.

    Each is given by its operator and arguments, and has a single retry without a delay.
    """

    def run(conf: dict[str, Any] | None = None, **tasks: tuple[type, dict[str, Any]]) -> Any:
        shared = {"retries": 1, "retry_delay": timedelta(0), "trigger_rule": "all_done"}
        with DAG("tasks", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            previous: BaseOperator | None = None
            for task_id, (operator, arguments) in tasks.items():
                current = operator(task_id=task_id, **shared, **arguments)
                if previous is not None:
                    previous >> current
                previous = current
        return run_dag(dag, conf=conf).tasks

    return run


@pytest.fixture(autouse=True)
def page_password(monkeypatch: pytest.MonkeyPatch) -> str:
    """Store a page password in Airflow, which is not a template."""
    password = "{{ 7 * 7 }}-{% p4ge&=%s3cret/'ü"
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic", "password": password}))
    return password
