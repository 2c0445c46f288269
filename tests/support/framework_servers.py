# SPDX-License-Identifier: Apache-2.0
"""Small services in the style of four web frameworks, without code of the sandbox or the package.

They have the responses, statuses, and errors of an application without its own configuration of the framework. Options
add common mistakes.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl

from field_values import FLAGS, VALUES
from raw_server import RawServer, Request, http

KEY = "framework-key-0123456789"
#: Values of the fields of an empty struct in a Go program.
_ZERO: dict[str, Any] = {**dict.fromkeys(VALUES, ""), "privacy": 0, **dict.fromkeys(FLAGS, False)}
del _ZERO["password"]
_NEW = {**_ZERO, "exclude_bots": True}
_FALSE_TEXTS = ("0", "false", "False", "f", "off", "")


class RejectedError(Exception):
    """A request that the service rejects.

    :param status: status of the response.
    :param body: its body.
    """

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body


class FrameworkServer:
    """A service with websites.

    :param resets: an update sets the fields that it does not contain to the values of an empty form.
    :param inverts: flags are stored as the opposite.
    :param deletes: whether a delete removes the website.
    """

    name: ClassVar[str]
    update_methods: ClassVar[tuple[str, ...]] = ("PUT", "PATCH")

    def __init__(self, *, resets: bool = False, inverts: bool = False, deletes: bool = True) -> None:
        self.resets = resets
        self.inverts = inverts
        self.deletes = deletes
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
            raise RejectedError(401, self.error("Unauthenticated."))
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
            raise RejectedError(404, self.error("Not found."))
        if request.method == "GET":
            return http(200, self.record(website))
        if request.method == "DELETE":
            if self.deletes:
                del self.websites[website["id"]]
            return self.deleted(website)
        return self._update(request.method, website, form)

    def _found(self, query: dict[str, str]) -> list[dict[str, Any]]:
        rows = [row for row in self.websites.values() if query.get("search", "").lower() in row["domain"]]
        if "favorite" in query:
            rows = [row for row in rows if row["favorite"] == self.flag("favorite", query["favorite"])]
        key = query.get("sort_by", "id")
        return sorted(rows, key=lambda row: row[key], reverse=query.get("sort", "desc") == "desc")

    def _create(self, form: dict[str, str]) -> bytes:
        domain = form.pop("domain", "")
        if not domain or any(row["domain"] == domain for row in self.websites.values()):
            raise RejectedError(self.rejected_status, self.rejected("domain", "This value is required, or taken."))
        website_id = self.add(domain, **self._values(form))
        return http(201, self.record(self.websites[website_id]))

    def _update(self, method: str, website: dict[str, Any], form: dict[str, str]) -> bytes:
        if method not in self.update_methods:
            raise RejectedError(405, self.error("Method not allowed."))
        values = self._values(form)
        website.update({**_ZERO, **values} if self.resets else values)
        return self.updated(website)

    def _values(self, form: dict[str, str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, text in form.items():
            if name == "privacy":
                values[name] = int(text)
            elif name in FLAGS:
                values[name] = self.flag(name, text) != self.inverts
            elif name != "password":
                values[name] = text
        return values

    # Differences of the frameworks

    rejected_status: ClassVar[int] = 422

    def flag(self, name: str, text: str) -> bool:
        """Return a flag as the framework reads it."""
        return text not in _FALSE_TEXTS

    def error(self, message: str) -> Any:
        """Return the body of an error."""
        return {"message": message}

    def rejected(self, field: str, message: str) -> Any:
        """Return the body for a rejected value."""
        return {"message": message, "errors": {field: [message]}}

    def record(self, website: dict[str, Any]) -> Any:
        """Return a record in a response."""
        return website

    def list(self, rows: list[dict[str, Any]], query: dict[str, str]) -> bytes:
        """Return the response with a page of the list."""
        raise NotImplementedError

    def updated(self, website: dict[str, Any]) -> bytes:
        """Return the response to an update."""
        return http(200, self.record(website))

    def deleted(self, website: dict[str, Any]) -> bytes:
        """Return the response to a delete."""
        return http(204, kind=None)


def _page(query: dict[str, str]) -> tuple[int, int, int]:
    """Return page number, page size, and the number of rows before the page."""
    number, size = int(query.get("page", "1")), int(query.get("per_page", "100"))
    return number, size, (number - 1) * size


class Laravel(FrameworkServer):
    """Records under ``data``, flags as numbers, empty texts as null, a paginator with the total."""

    name = "laravel"

    def record(self, website: dict[str, Any]) -> Any:
        return {"data": self._row(website)}

    def _row(self, website: dict[str, Any]) -> dict[str, Any]:
        row = {name: None if value == "" else value for name, value in website.items()}
        for name in set(FLAGS) - {"favorite"}:
            value = row.get(name)
            if isinstance(value, bool):
                row[name] = int(value)
        return row

    def list(self, rows: list[dict[str, Any]], query: dict[str, str]) -> bytes:
        number, size, skipped = _page(query)
        last = max(1, -(-len(rows) // size))
        following = f"/api/v1/websites?page={number + 1}" if number < last else None
        meta = {"current_page": number, "last_page": last, "per_page": size, "total": len(rows)}
        shown = [self._row(row) for row in rows[skipped : skipped + size]]
        return http(200, {"data": shown, "links": {"next": following}, "meta": meta})

    def deleted(self, website: dict[str, Any]) -> bytes:
        return http(200, {"id": website["id"], "object": "website", "deleted": True})


class Django(FrameworkServer):
    """Django REST framework: bare records, ``results``, messages per field, and a PUT that needs the whole record."""

    name = "django"
    rejected_status = 400

    def error(self, message: str) -> Any:
        return {"detail": message}

    def rejected(self, field: str, message: str) -> Any:
        return {field: [message]}

    def list(self, rows: list[dict[str, Any]], query: dict[str, str]) -> bytes:
        number, size, skipped = _page(query)
        if number > 1 and skipped >= len(rows):
            raise RejectedError(404, self.error("Invalid page."))
        has_more = skipped + size < len(rows)
        following = f"{self.url}/api/v1/websites?page={number + 1}" if has_more else None
        results = rows[skipped : skipped + size]
        return http(200, {"count": len(rows), "next": following, "previous": None, "results": results})

    def _update(self, method: str, website: dict[str, Any], form: dict[str, str]) -> bytes:
        if method == "PUT":
            raise RejectedError(400, self.rejected("domain", "This field is required."))
        return super()._update(method, website, form)


class Rails(FrameworkServer):
    """Bare arrays with the headers ``Link`` and ``X-Total``, texts with the line breaks of a form."""

    name = "rails"

    def record(self, website: dict[str, Any]) -> Any:
        return {
            name: value.replace("\n", "\r\n") if isinstance(value, str) else value for name, value in website.items()
        }

    def list(self, rows: list[dict[str, Any]], query: dict[str, str]) -> bytes:
        number, size, skipped = _page(query)
        headers = [("X-Total", str(len(rows)))]
        if skipped + size < len(rows):
            headers.append(("Link", f'<{self.url}/api/v1/websites?page={number + 1}>; rel="next"'))
        return http(200, [self.record(row) for row in rows[skipped : skipped + size]], headers=headers)

    def rejected(self, field: str, message: str) -> Any:
        return {"errors": {field: [message]}}


class Go(FrameworkServer):
    """Structs with ``omitempty``, a cursor, no body after an update, and no PATCH."""

    name = "go"
    update_methods = ("PUT",)

    def record(self, website: dict[str, Any]) -> Any:
        return {name: value for name, value in website.items() if value not in (0, "", False)}

    def list(self, rows: list[dict[str, Any]], query: dict[str, str]) -> bytes:
        size, skipped = int(query.get("per_page", "100")), int(query.get("cursor", "c0").removeprefix("c"))
        body: dict[str, Any] = {"websites": [self.record(row) for row in rows[skipped : skipped + size]]}
        if skipped + size < len(rows):
            body["next_cursor"] = f"c{skipped + size}"
        return http(200, body)

    def error(self, message: str) -> Any:
        return {"error": {"code": "not_accepted", "message": message}}

    def rejected(self, field: str, message: str) -> Any:
        return self.error(f"{field}: {message}")

    def updated(self, website: dict[str, Any]) -> bytes:
        return http(204, kind=None)


FRAMEWORKS: dict[str, type[FrameworkServer]] = {server.name: server for server in (Laravel, Django, Rails, Go)}
