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
from dataclasses import dataclass, field
from typing import Any

from raw_server import Request, http

MARKER = "mrk7f3"
KEY = f"key-{MARKER}-0123456789"
COUNT = 137
Row = dict[str, Any]


@dataclass(frozen=True)
class LookAlike:
    """A server of one shape, to be served by :class:`raw_server.RawServer`.

    :param page: response to a list request, given the rows, oldest first.
    :param error: body of an error, given its status.
    :param identify: id of a website, given its number.
    :param extras: extras that its connection needs.
    :param status: exit status of the probe.
    """

    page: Callable[[Request, list[Row]], bytes]
    error: Callable[[int], Row]
    identify: Callable[[int], Any] = lambda number: number
    extras: Mapping[str, Any] = field(default_factory=dict)
    status: int = 0
    kind_of_error: str = "application/json"

    @property
    def websites(self) -> list[Row]:
        """The websites, oldest first."""
        return [
            {
                "id": self.identify(number),
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

    def __call__(self, request: Request) -> bytes:
        path = request.target.partition("?")[0].removeprefix("/api/v1")
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return http(401, self.error(401), kind=self.kind_of_error)
        if path == "/account":
            return http(200, {"id": self.identify(0), "name": f"team {MARKER}"})
        if path == "/websites":
            return self.page(request, self.websites)
        found = [row for row in self.websites if path == f"/websites/{row['id']}"]
        return http(200, found[0]) if found else http(404, self.error(404), kind=self.kind_of_error)


def _selected(found: list[Row], query: Mapping[str, str], parameter: str) -> tuple[list[Row], int, int, int]:
    """Return the rows of a page, its number and size, and the number of websites on all pages."""
    found = [row for row in found if query.get("search", "").lower() in row["domain"]]
    if "favorite" in query:
        found = [row for row in found if row["favorite"] == (query["favorite"] in ("true", "1"))]
    found = found[::-1] if query.get("sort", "desc") == "desc" else found
    page, size = int(query.get(parameter, "1")), int(query.get("per_page", "20"))
    return found[(page - 1) * size : page * size], page, size, len(found)


def _counted_pages(request: Request, websites: list[Row]) -> bytes:
    """Pages by ``page``; the total is called ``count``, which the package does not know."""
    rows, page, size, count = _selected(websites, request.query, "page")
    order = {"orderBy": f"createdAt {MARKER}"}
    return http(200, {"data": rows, "count": count, "page": page, "pageSize": size, **order})


def _cursor_by_id(request: Request, websites: list[Row]) -> bytes:
    """Pages by ``starting_after``, which nothing names; always the oldest first."""
    size, after = int(request.query.get("limit", "10")), request.query.get("starting_after")
    begin = next((place for place, row in enumerate(websites, 1) if row["id"] == after), 0)
    page = [{"object": "site", **row} for row in websites[begin : begin + size]]
    more = len(websites) > begin + size
    return http(200, {"object": "list", "url": f"/v1/sites?{MARKER}", "has_more": more, "data": page})


def _link_header(request: Request, websites: list[Row]) -> bytes:
    """Pages by ``p``, linked in a header only."""
    rows, page, size, count = _selected(websites, request.query, "p")
    others = "&".join(f"{name}={value}" for name, value in request.query.items() if name != "p")
    base = f"http://{request.headers['host']}/api/v1/websites?{others}"
    links = {"first": 1, "next": page + 1} if page * size < count else {"first": 1}
    listed = ", ".join(f'<{base}&p={number}>; rel="{name}"' for name, number in links.items())
    return http(200, rows, headers=[("Link", listed), ("X-Total", str(count)), ("RateLimit-Limit", "600")])


LOOK_ALIKES = {
    "counted pages": LookAlike(
        _counted_pages,
        lambda status: {"error": {"message": f"No {MARKER}", "code": "not-found", "status": status}},
        lambda number: str(uuid.UUID(int=number * 2**90 % 2**128)),
    ),
    "cursor by id": LookAlike(
        _cursor_by_id,
        lambda _: {"error": f"No such site {MARKER}"},
        lambda number: f"C{number:05}{MARKER.upper()}",
        status=1,
    ),
    "link header": LookAlike(
        _link_header,
        lambda status: {"type": "about:blank", "title": f"Not {MARKER}", "status": status, "detail": f"No {MARKER}"},
        extras={"page_parameter": "p"},
        status=2,
        kind_of_error="application/problem+json",
    ),
}
