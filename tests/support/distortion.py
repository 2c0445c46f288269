"""A server that spoils what the sandbox says, before the client hears it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

from raw_server import Request, http

from airflow_provider_analytics.sandbox.server import SandboxServer


class Distortion:
    """Answers of the sandbox, for a :class:`raw_server.RawServer` before it: it hides fields, fails or holds back."""

    def __init__(self, sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        #: Fields that no list row shows, and fields that no record shows.
        self.hidden_in_lists: set[str] = set()
        self.hidden: set[str] = set()
        #: Method and path (below the prefix) to the status to answer with.
        self.failing: dict[tuple[str, str], int] = {}
        #: Seconds of ``Retry-After`` that these answers ask for.
        self.retry_after: int | None = None
        #: Called before a request is passed on.
        self.before: Callable[[str, str], None] = lambda method, path: None
        #: Called with the body of each response.
        self.rewrite: Callable[[bytes], bytes] = lambda body: body
        #: What a record of an update shows instead.
        self.shown_after_update: dict[str, Any] = {}

    def __call__(self, request: Request) -> bytes:
        kept = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
        status, body = self.answer(request.method, request.target, kept, request.body)
        is_asked = status >= 400 and self.retry_after is not None
        return http(status, self.rewrite(body), headers=[("Retry-After", str(self.retry_after))] if is_asked else [])

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        path = target.partition("?")[0].removeprefix("/api/v1")
        self.before(method, path)
        if (method, path) in self.failing:
            return self.failing[method, path], b'{"message": "asked for"}'
        connection = HTTPConnection(self.sandbox.url.removeprefix("http://"), timeout=30)
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
