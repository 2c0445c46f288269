"""Attacks: each file is an attacker or an asset, each test an attempt. See docs/internals/threat_model.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_versions import allow_execute_in_this_thread
from dag_runs import OutletEvents
from fixture_types import Execute, Serving
from raw_server import RawServer, answer_read
from wire_client import KEY


@pytest.fixture
def execute() -> Execute:
    """Run one operator as a task would, without a DAG run: ``execute(Operator, argument=...)``."""

    def run(operator: type, *, task_id: str = "task", **arguments: Any) -> Any:
        allow_execute_in_this_thread()
        ti = SimpleNamespace(
            dag_id="dag",
            run_id="run",
            task_id=task_id,
            map_index=-1,
            try_number=1,
            start_date=None,
            xcom_push=lambda **_: None,
        )
        dag_run = SimpleNamespace(run_type="manual", run_after=datetime.now(UTC), triggering_user_name="Ann")
        with DAG("dag", schedule=None) as dag:
            task = operator(task_id=task_id, **arguments)
        return task.execute({"ti": ti, "dag": dag, "dag_run": dag_run, "outlet_events": OutletEvents()})

    return run


@pytest.fixture
def logged(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return all that was logged and printed so far: Airflow 2 uses logging, Airflow 3 prints."""
    caplog.set_level("DEBUG")
    said: list[str] = []

    def read() -> str:
        said.extend(capfd.readouterr())
        return "".join((*said, *(f"{record.getMessage()}\n" for record in caplog.records)))

    return read


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Run a service with records, to which the default connection leads: ``with serving(record, headers={...}):``.

    A write is answered with the record of the path.
    """

    @contextmanager
    def serve(*records: dict[str, Any], password: str = KEY, **extra: Any) -> Iterator[str]:
        with RawServer(partial(answer_read, records=records)) as server:
            fields = {"conn_type": "analytics", "host": server.url, "password": password}
            fields["extra"] = {"max_retries": 0, **extra}  # type: ignore[assignment]
            monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(fields))
            yield server.url

    return serve
