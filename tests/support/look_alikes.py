"""Three servers in the shapes of public web-analytics and hosting interfaces, for the probe: shapes, not code.

Each has the paths of the interface (docs/interface.md) and answers as the documentation of its kind shows:

* ``counted pages``: rows under ``data`` beside ``count``, ``page`` and ``pageSize``; ids are UUIDs; camel case.
* ``cursor by id``: an object ``list`` with ``has_more``; the cursor is the id of the last row, the oldest comes first,
  the sort order cannot be chosen; errors have one key ``error``.
* ``link header``: a bare array, other pages in the header ``Link``, problem details (RFC 9457) for errors.

All values contain :data:`MARKER`, numbers aside.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from raw_server import RawServer, Request, http

MARKER = "mrk7f3"
KEY = f"key-{MARKER}-0123456789"
COUNT = 137
Row = dict[str, Any]


def rows(identify: Callable[[int], Any]) -> list[Row]:
    """Return the websites, oldest first."""
    return [
        {
            "id": identify(number),
            "domain": f"site-{number}-{MARKER}.example",
            "privacy": number % 2,
            "email": 0,
            "exclude_bots": 1,
            "exclude_params": f"ref{MARKER}\nutm{MARKER}" if number % 3 == 0 else None,
            "exclude_ips": f"192.0.2.{number % 250}\n198.51.100.7" if number % 2 else None,
            "favorite": number % 10 == 0,
            "note": f"a note {MARKER}",
        }
        for number in range(1, COUNT + 1)
    ]


def _selected(found: list[Row], query: Mapping[str, str]) -> list[Row]:
    text = query.get("search", "").lower()
    found = [row for row in found if text in row["domain"]]
    if "favorite" in query:
        found = [row for row in found if row["favorite"] == (query["favorite"] in ("true", "1"))]
    return found[::-1] if query.get("sort", "desc") == "desc" else found


class LookAlike:
    """A server of one shape."""

    name: str
    extras: Mapping[str, Any]
    status: int

    def __init__(self) -> None:
        self.websites = rows(self.identify)

    def __call__(self, request: Request) -> bytes:
        path = request.target.partition("?")[0].removeprefix("/api/v1")
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return self.error(401)
        if path == "/account":
            return http(200, self.wrap({"id": self.identify(0), "name": f"team {MARKER}"}))
        if path == "/websites":
            return self.list(request)
        found = [row for row in self.websites if str(row["id"]) == path.removeprefix("/websites/")]
        return http(200, self.wrap(found[0])) if found else self.error(404)

    def identify(self, number: int) -> Any:
        """Return the id of a website."""
        return number

    def wrap(self, record: Row) -> Any:
        """Return the body of a record."""
        return record

    def list(self, request: Request) -> bytes:
        """Return the response to a list request."""
        raise NotImplementedError

    def error(self, status: int) -> bytes:
        """Return an error response."""
        raise NotImplementedError


class CountedPages(LookAlike):
    """Pages by ``page``; the total is called ``count``, which the package does not know."""

    name, extras, status = "counted pages", {}, 0

    def identify(self, number: int) -> Any:
        return str(uuid.UUID(int=number * 2**90 % 2**128))

    def list(self, request: Request) -> bytes:
        page, size = int(request.query.get("page", "1")), int(request.query.get("per_page", "20"))
        found = _selected(self.websites, request.query)
        body = {
            "data": found[(page - 1) * size : page * size], "count": len(found), "page": page, "pageSize": size,
            "orderBy": f"createdAt {MARKER}",
        }  # fmt: skip
        return http(200, body)

    def error(self, status: int) -> bytes:
        return http(status, {"error": {"message": f"No {MARKER}", "code": "not-found", "status": status}})


class CursorById(LookAlike):
    """Pages by ``starting_after``, which nothing names; always the oldest first."""

    name, extras, status = "cursor by id", {}, 1

    def identify(self, number: int) -> Any:
        return f"C{number:05}{MARKER.upper()}"

    def wrap(self, record: Row) -> Any:
        return {"object": "site", **record}

    def list(self, request: Request) -> bytes:
        size, after = int(request.query.get("limit", "10")), request.query.get("starting_after")
        found = self.websites
        begin = next((place for place, row in enumerate(found, 1) if row["id"] == after), 0)
        more = len(found) > begin + size
        page = [self.wrap(row) for row in found[begin : begin + size]]
        return http(200, {"object": "list", "url": f"/v1/sites?{MARKER}", "has_more": more, "data": page})

    def error(self, status: int) -> bytes:
        return http(status, {"error": f"No such site {MARKER}"})


class LinkHeader(LookAlike):
    """Pages by ``p``, linked in a header only."""

    name, extras, status = "link header", {"page_parameter": "p"}, 2

    def list(self, request: Request) -> bytes:
        page, size = int(request.query.get("p", "1")), int(request.query.get("per_page", "20"))
        found = _selected(self.websites, request.query)
        others = "&".join(f"{name}={value}" for name, value in request.query.items() if name != "p")
        base = f"http://{request.headers['host']}/api/v1/websites?{others}"
        links = [f'<{base}&p=1>; rel="first"']
        if page * size < len(found):
            links.append(f'<{base}&p={page + 1}>; rel="next"')
        headers = [("Link", ", ".join(links)), ("X-Total", str(len(found))), ("RateLimit-Limit", "600")]
        return http(200, found[(page - 1) * size : page * size], headers=headers)

    def error(self, status: int) -> bytes:
        problem = {"type": "about:blank", "title": f"Not {MARKER}", "status": status, "detail": f"No {MARKER}"}
        return http(status, problem, kind="application/problem+json")


LOOK_ALIKES: tuple[type[LookAlike], ...] = (CountedPages, CursorById, LinkHeader)


def serve(kind: type[LookAlike]) -> RawServer:
    """Return a server of a shape, to be used in a ``with`` statement."""
    return RawServer(kind())
