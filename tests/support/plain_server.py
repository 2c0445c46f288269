# SPDX-License-Identifier: Apache-2.0
"""A small service without code of the sandbox or the package; a subclass decides on the forms of its responses."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Self
from urllib.parse import parse_qsl

from field_values import FLAGS, VALUES
from raw_server import RawServer, Request, http

KEY = "plain-key-0123456789"
_NEW: dict[str, Any] = {**dict.fromkeys(VALUES, ""), "privacy": 0, **dict.fromkeys(FLAGS, False), "exclude_bots": True}
del _NEW["password"]
_FALSE_TEXTS = ("0", "false", "False", "f", "off", "")


class RejectedError(Exception):
    """A request that the service rejects.

    :param status: status of the response.
    :param body: its body.
    """

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body


class PlainServer:
    """A service with websites."""

    def __init__(self) -> None:
        self.websites: dict[int, dict[str, Any]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._server = RawServer(self._respond)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)

    @property
    def url(self) -> str:
        """The base URL."""
        return self._server.url

    @property
    def requests(self) -> list[Request]:
        """All requests so far."""
        return self._server.requests

    def add(self, domain: str, **values: Any) -> int:
        """Add a website, and return its id."""
        website_id = next(self._ids)
        self.websites[website_id] = {"id": website_id, "domain": domain, **_NEW, **values}
        return website_id

    # Requests

    def _respond(self, request: Request) -> bytes:
        with self._lock:
            try:
                return self._handle(request)
            except RejectedError as error:
                return http(error.status, error.body)

    def _handle(self, request: Request) -> bytes:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            raise RejectedError(401, {"message": "Unauthenticated."})
        path = request.path.removeprefix("/api/v1")
        if path == "/account":
            return http(200, self.record({"id": 1, "email": "ann@example.com"}))
        if path == "/websites" and request.method == "GET":
            return self.list(self._found(request.query), request.query)
        form = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        if path == "/websites":
            return self._create(form)
        website = self.websites.get(int(path.rpartition("/")[2]))
        if website is None:
            raise RejectedError(404, {"message": "Not found."})
        if request.method == "GET":
            return http(200, self.record(website))
        if request.method == "DELETE":
            del self.websites[website["id"]]
            return http(204, kind=None)
        website.update(self._values(form))
        return http(200, self.record(website))

    def _found(self, query: dict[str, str]) -> list[dict[str, Any]]:
        rows = [row for row in self.websites.values() if query.get("search", "").lower() in row["domain"]]
        if "favorite" in query:
            rows = [row for row in rows if row["favorite"] == (query["favorite"] not in _FALSE_TEXTS)]
        key = query.get("sort_by", "id")
        return sorted(rows, key=lambda row: row[key], reverse=query.get("sort", "desc") == "desc")

    def _create(self, form: dict[str, str]) -> bytes:
        domain = form.pop("domain", "")
        if not domain or any(row["domain"] == domain for row in self.websites.values()):
            taken = {"domain": ["This value is required, or taken."]}
            raise RejectedError(422, {"message": "The given data was invalid.", "errors": taken})
        website_id = self.add(domain, **self._values(form))
        return http(201, self.record(self.websites[website_id]))

    def _values(self, form: dict[str, str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, text in form.items():
            if name == "privacy":
                values[name] = int(text)
            elif name in FLAGS:
                values[name] = text not in _FALSE_TEXTS
            elif name != "password":
                values[name] = text
        return values

    # Forms

    def record(self, website: dict[str, Any]) -> Any:
        """Return a record in a response."""
        return website

    def list(self, rows: list[dict[str, Any]], query: dict[str, str]) -> bytes:
        """Return the response with a page of the list."""
        raise NotImplementedError
