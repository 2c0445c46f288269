# SPDX-License-Identifier: Apache-2.0
"""Lists in the form of other frameworks' paginators: each style is a function of a request and the records."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from raw_server import Request, http

Record = dict[str, Any]
Style = Callable[[Request, Sequence[Record]], bytes]
PATH = "/api/v1/websites"


def _sorted(request: Request, records: Sequence[Record]) -> list[Record]:
    """Return the records in the requested order; an unknown domain search finds the domains that contain it."""
    query = request.query
    wanted = query.get("search", "").lower()
    found = [record for record in records if wanted in record["domain"]]
    return sorted(found, key=itemgetter(query.get("sort_by", "id")), reverse=query.get("sort", "desc") == "desc")


def _link(request: Request, selection: Mapping[str, object]) -> str:
    """Return a link that repeats the query of the request, except for the parameters that select a page."""
    return f"{PATH}?{urlencode({**request.query, **{name: str(value) for name, value in selection.items()}})}"


def _numbered(
    name: str, size_name: str | None = None
) -> Callable[[Request, Sequence[Record]], tuple[list[Record], int, str | None]]:
    """Return a paginator by page numbers: it returns the rows, the total and the link to the next page."""

    def paginate(request: Request, records: Sequence[Record]) -> tuple[list[Record], int, str | None]:
        found = _sorted(request, records)
        size, number = int(request.query.get("per_page", "100")), int(request.query.get(name, "1"))
        selection: dict[str, Any] = {name: number + 1}
        if size_name:
            selection[size_name] = size
        link = _link(request, selection) if number * size < len(found) else None
        return found[(number - 1) * size : number * size], len(found), link

    return paginate


def _offset(name: str, limit: str, default: int = 100) -> Any:
    """Return a paginator by offsets, which knows only its own parameter of the page size."""

    def paginate(request: Request, records: Sequence[Record]) -> tuple[list[Record], int, str | None]:
        found = _sorted(request, records)
        size, first = int(request.query.get(limit, default)), int(request.query.get(name, "0"))
        more = first + size < len(found)
        link = _link(request, {limit: size, name: first + size}) if more else None
        return found[first : first + size], len(found), link

    return paginate


def _token(name: str, *, never_null: bool = False) -> Any:
    """Return a paginator by opaque tokens: it returns the rows, the total and the next token."""

    def paginate(request: Request, records: Sequence[Record]) -> tuple[list[Record], int, str | None]:
        found, size = _sorted(request, records), int(request.query.get("per_page", "100"))
        token = request.query.get(name)
        first = int(base64.urlsafe_b64decode(f"{token}===")) if token and not token.isdecimal() else 0
        has_next = never_null or first + size < len(found)
        following = base64.urlsafe_b64encode(str(min(first + size, len(found))).encode()).decode() if has_next else None
        return found[first : first + size], len(found), following

    return paginate


def _style(paginate: Any, body: Callable[..., Any], total_header: str | None = None) -> Style:
    """Return a style: ``body`` gets the rows, the total and the link or token.

    :param total_header: header of the total; then the header ``Link`` has the links.
    """

    def respond(request: Request, records: Sequence[Record]) -> bytes:
        rows, total, following = paginate(request, records)
        headers = []
        if total_header:
            first = f'<http://app.internal{_link(request, {})}>; rel="first"'
            link = f', <http://app.internal{following}>; rel="next"' if following else ""
            headers = [("Link", f"{first}{link}"), (total_header, str(total))]
        return http(200, body(rows, total, following), headers=headers)

    return respond


def _drf(rows: list[Record], total: int, link: str | None) -> Any:
    return {"count": total, "next": link, "previous": None, "results": rows}


def _laravel(rows: list[Record], total: int, link: str | None) -> Any:
    return {"data": rows, "links": {"next": link}, "meta": {"total": total}}


def _bare(rows: list[Record], total: int, link: str | None) -> Any:
    return rows


def _next_cursor(rows: list[Record], total: int, cursor: str | None) -> Any:
    return {"websites": rows, "next_cursor": cursor, "total": total}


def _next_page_token(rows: list[Record], total: int, token: str | None) -> Any:
    return {"websites": rows, "next_page_token": token}


#: Name to the style, and the query parameter that selects its pages. Other forms of links, cursors, and totals are in
#: test_supported_forms.py and test_dialect.py.
STYLES: dict[str, tuple[Style, str]] = {
    "limit and offset, small pages": (_style(_offset("offset", "limit", 30), _drf), "offset"),
    "next_page_token": (_style(_token("page_token"), _next_page_token), "page_token"),
    "JSON:API page[number]": (_style(_numbered("page[number]", "page[size]"), _laravel), "page[number]"),
    "JSON:API page[offset]": (_style(_offset("page[offset]", "page[limit]"), _laravel), "page[offset]"),
    "Link and X-Total": (_style(_numbered("p"), _bare, "X-Total"), "p"),
    "a cursor that is never null": (_style(_token("cursor", never_null=True), _next_cursor), "cursor"),
    "a link with a cursor that is never null": (
        _style(
            lambda request, records: (
                (found := _token("after", never_null=True)(request, records))[0],
                found[1],
                _link(request, {"after": found[2]}),
            ),
            _laravel,
        ),
        "after",
    ),
}
