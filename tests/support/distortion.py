# SPDX-License-Identifier: Apache-2.0
"""A server that changes the responses of the sandbox on their way to the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

from raw_server import Request, http

from airflow_provider_analytics.sandbox.server import SandboxServer

Website = dict[str, Any]


class Distortion:
    """A proxy of the sandbox that hides fields, returns errors, or delays requests."""

    def __init__(self, sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        #: Fields that are missing in list rows.
        self.hidden_in_lists: set[str] = set()
        #: Method and path (below the prefix) to the status of the response.
        self.failing: dict[tuple[str, str], int] = {}
        #: Called before a request is forwarded; returns a status for the response, or None.
        self.before: Callable[[str, str], int | None] = lambda method, path: None
        #: Called with each record of a response, to change it; ``path`` is the path of the request.
        self.change: Callable[[str, str, Website], None] = lambda method, path, record: None
        #: Forwards requests; a test can replace it.
        self.forward: Callable[[Request], tuple[int, Any]] = self.to_the_sandbox

    def __call__(self, request: Request) -> bytes:
        """Respond to a request, like a server of ``raw_server.py``."""
        return http(*self.forward(request))

    def to_the_sandbox(self, request: Request) -> tuple[int, Any]:
        """Return status and content of the response."""
        method, path = request.method, request.target.partition("?")[0].removeprefix("/api/v1")
        if status := self.before(method, path) or self.failing.get((method, path)):
            return status, {"message": "asked for"}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
        with closing(HTTPConnection(self.sandbox.url.removeprefix("http://"), timeout=30)) as connection:
            connection.request(method, request.target, request.body or None, headers)
            response = connection.getresponse()
            data = json.loads(response.read() or b"null")
        is_list = path == "/websites" and method == "GET"
        for record in data["data"] if is_list else [(data or {}).get("data", {})]:
            for name in self.hidden_in_lists if path == "/websites" else ():
                record.pop(name, None)
            self.change(method, path, record)
        return response.status, data
