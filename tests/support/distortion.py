"""A server that spoils what the sandbox says, before the client hears it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

from airflow_provider_analytics.sandbox.server import SandboxServer


class Distortion:
    """A real server before the sandbox that hides fields, answers with errors, or holds requests back."""

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
