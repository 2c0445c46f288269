# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of docs/: a sandbox, and tasks that run as in Airflow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_versions import allow_execute_in_this_thread
from dag_runs import OutletEvents

from airflow_provider_analytics.operators import exclusions, snapshots, websites_as_code
from airflow_provider_analytics.sandbox.server import SandboxServer

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(autouse=True)
def nobody_else_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no test wait for the updates of other users."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.SETTLE_SECONDS", 0)


@pytest.fixture
def page() -> Callable[[str], str]:
    """Read a page of docs/ by its name."""
    return lambda name: (DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.fixture
def blocks(page: Callable[[str], str]) -> Callable[[str, str], list[str]]:
    """Return the code blocks of a page in a language: ``blocks("monitoring", "python")``."""
    return lambda name, language: re.findall(rf"^```{language}\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)


@pytest.fixture
def connect(analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Create a connection to the sandbox that differs in some fields: ``connect("conn_id", host=...)``."""

    def make(conn_id: str = "analytics_default", **changes: Any) -> None:
        fields = {**json.loads(analytics_sandbox.connection_json()), "extra": {"max_retries": 0}, **changes}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    return make


@pytest.fixture
def execute() -> Callable[..., Any]:
    """Run an operator like a manually triggered run: ``execute(Operator, argument=...)``."""

    def run(operator: type, *, try_number: int = 1, **arguments: Any) -> Any:
        ti = SimpleNamespace(
            dag_id="the_dag",
            run_id="manual__2026-01-02T03:04:05+00:00",
            task_id="task",
            map_index=-1,
            try_number=try_number,
            start_date=None,
            xcom_push=lambda **_: None,
        )
        with DAG("the_dag", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            task = operator(task_id="task", **arguments)
        allow_execute_in_this_thread()
        return task.execute(
            {
                "dag": dag,
                "dag_run": SimpleNamespace(run_type="manual"),
                "ti": ti,
                "outlet_events": OutletEvents(),
                "logical_date": datetime.now(UTC),
            }
        )

    return run


@pytest.fixture
def run_block(execute: Callable[..., Any], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a code block, each operator at once; return its names, and the results by task id.

    Its buckets are folders of the test, and its day is today. An argument is another text to replace.
    """
    buckets = {"s3://my-bucket": tmp_path.as_uri(), "s3://analytics-state": tmp_path.as_uri()}
    import_operators = re.compile(r"^from airflow_provider_analytics\.operators\.\w+ import .*\n", re.MULTILINE)

    def run(code: str, **places: str) -> dict[str, Any]:
        for there, here in {**buckets, "2026-11-20": datetime.now(UTC).date().isoformat(), **places}.items():
            code = code.replace(there, here)
        names: dict[str, Any] = {}

        def at_once(operator: type) -> Callable[..., None]:
            def call(*, task_id: str, **arguments: Any) -> None:
                given = {name: value for name, value in arguments.items() if "{{" not in str(value)}
                names[task_id] = execute(operator, **given)

            return call

        for module in (exclusions, snapshots, websites_as_code):
            found = {name: value for name, value in vars(module).items() if name.endswith("Operator")}
            names.update({name: at_once(operator) for name, operator in found.items()})
        exec(compile(import_operators.sub("", code), "docs", "exec"), names)
        return names

    return run
