# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration tests: operators on the sandbox, storage, logs, and approvals."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from airflow_versions import answer_approval, attach, own_lines
from connections import with_parallel_requests
from distortion import Distortion
from fake_services import FakeService
from fixture_types import Execute
from mail import Inbox, mail_server
from nights import Nights
from raw_server import RawServer
from reconciling import Night
from task_process import TaskProcess

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def task_log(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return the log of the tasks so far: Airflow 2 uses logging, Airflow 3 prints it."""
    said: list[str] = []
    caplog.set_level("INFO", "airflow_provider_analytics")  # as in a task

    def read() -> str:
        said.extend(capfd.readouterr())
        return own_lines("".join((*said, caplog.text)))

    return read


@pytest.fixture
def memory() -> Any:
    """A storage that keeps files in memory; Airflow knows it only when it is attached."""
    file_system = fsspec.filesystem("memory")
    attach("memory", file_system)
    return file_system


# A single one, because a storage that Airflow attaches to a scheme remains attached in this process.
@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, Any]]:
    """Start a server that speaks S3; return the arguments of a file system on it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {"key": "test", "secret": "test", "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    finally:
        server.stop()


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str | None]]:
    """Respond to each approval of a run as a person: ``answer("Approve")`` returns the texts of the approvals."""

    def begin(option: str) -> list[str | None]:
        from airflow.models.hitl import HITLDetail
        from airflow.utils.session import create_session

        shown: list[str | None] = []

        def press_the_button(seconds: float) -> None:
            """Press the button of the UI at the moment in which the run waits for it."""
            if threading.current_thread() is not threading.main_thread():
                sleep(seconds)
                return
            with create_session() as session:
                for detail in [item for item in session.query(HITLDetail) if item.responded_at is None]:
                    shown.append(detail.body)
                    answer_approval(detail, option, "Ann", session)

        sleep = time.sleep
        monkeypatch.setattr(time, "sleep", press_the_button)
        return shown

    return begin


@pytest.fixture(autouse=True)
def no_wait_before_reading_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read websites back at once: no other process writes, unless a test starts it."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.SETTLE_SECONDS", 0)


@pytest.fixture
def connect(analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Create a connection to the sandbox without retries, which differs in some fields: ``connect("id", host=...)``."""

    def make(conn_id: str = "analytics_default", **changes: Any) -> None:
        fields = {**json.loads(analytics_sandbox.connection_json()), "extra": {"max_retries": 0}, **changes}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    return make


@pytest.fixture
def execute_task(monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Run one operator as a task would, without a DAG run: ``execute_task(Operator, argument=...)``.

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
    """Make the server in front of the sandbox the service of the default connection."""
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
def inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inbox]:
    """The mail server of the connection smtp_default, and the recipient of the mails of sample DAGs."""
    with mail_server() as inbox:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", inbox.connection)
        monkeypatch.setenv("AIRFLOW_VAR_ANALYTICS_NOTIFY", "team@example.com")
        yield inbox


@pytest.fixture
def night(analytics_sandbox: FakeService, execute_task: Execute, tmp_path: Path) -> Night:
    return Night(analytics_sandbox, execute_task, tmp_path)


@pytest.fixture
def nights(
    analytics_sandbox: FakeService, execute_task: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Nights:
    """Lists that share a state folder and a clock, and three websites."""
    found = Nights(analytics_sandbox, execute_task, tmp_path / "state")
    monkeypatch.setattr("airflow_provider_analytics.reconcile.state.now", lambda: found.now)
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
    """Read a website back as often as in production, but at once."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0,) * 4)
