from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def execute() -> Callable[..., Any]:
    """Run one operator as a task would, without a DAG run: ``execute(Operator, argument=...)``."""

    def run(operator: type, *, task_id: str = "sync", try_number: int = 1, **arguments: Any) -> Any:
        ti = SimpleNamespace(
            dag_id="the_dag",
            run_id="manual__2026-01-02T03:04:05+00:00",
            task_id=task_id,
            map_index=-1,
            try_number=try_number,
        )
        return operator(task_id=task_id, **arguments).execute({"ti": ti})

    return run


class Distortion:
    """A real server before the sandbox that hides fields, answers with errors, or holds requests back."""

    def __init__(self, sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        #: Fields that no list row shows, and fields that no record shows.
        self.hidden_in_lists: set[str] = set()
        self.hidden: set[str] = set()
        #: Method and path (below the prefix) to the status to answer with.
        self.failing: dict[tuple[str, str], int] = {}
        #: Called before a request is passed on.
        self.before: Callable[[str, str], None] = lambda method, path: None
        #: What a record of an update shows instead.
        self.shown_after_update: dict[str, Any] = {}

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        path = target.partition("?")[0].removeprefix("/api/v1")
        self.before(method, path)
        if (method, path) in self.failing:
            return self.failing[method, path], b'{"message": "asked for"}'
        connection = http.client.HTTPConnection(self.sandbox.url.removeprefix("http://"), timeout=30)
        with closing(connection):
            connection.request(method, target, body or None, headers)
            response = connection.getresponse()
            data = json.loads(response.read() or b"null")
        for record in data["data"] if path == "/websites" and method == "GET" else [data.get("data", {})]:
            for name in self.hidden | (self.hidden_in_lists if path == "/websites" else set()):
                record.pop(name, None)
            if method == "PATCH":
                record.update(self.shown_after_update)
        return response.status, json.dumps(data).encode()


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
