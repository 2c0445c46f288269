from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from connections import with_parallel_requests
from distortion import Distortion
from fixture_types import Execute

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture(autouse=True)
def nobody_else_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the updates of others."""
    monkeypatch.setattr("airflow_provider_analytics.reconcile.apply.SETTLE_SECONDS", 0)


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
        **arguments: Any,
    ) -> Any:
        if parallel_requests:
            monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", with_parallel_requests(parallel_requests))
        ti = SimpleNamespace(
            dag_id="the_dag",
            run_id=run_id,
            task_id=task_id,
            map_index=-1,
            try_number=try_number,
            start_date=start_date,
        )
        return operator(task_id=task_id, **arguments).execute(
            {"ti": ti, "dag_run": SimpleNamespace(start_date=run_began)}
        )

    return run


@pytest.fixture
def distortion(analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Distortion]:
    between = Distortion(analytics_sandbox)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")
            }
            status, data = between.answer(self.command, self.path, headers, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status >= 400 and between.retry_after is not None:
                self.send_header("Retry-After", str(between.retry_after))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *args: Any) -> None:
            """A client that is killed is part of the tests."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        connection = {
            "conn_type": "analytics",
            "host": f"http://127.0.0.1:{server.server_port}",
            "password": analytics_sandbox.api_key,
            "extra": {"max_retries": 0},
        }
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))
        yield between
        server.shutdown()
        thread.join()
