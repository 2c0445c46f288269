# SPDX-License-Identifier: Apache-2.0
"""Shapes of Laravel 13.26: errors, paginators and cursors.

They follow ``ValidationException``, the exception handler, ``PaginatedResourceResponse``, ``LengthAwarePaginator``,
``Paginator`` and ``CursorPaginator`` of laravel/framework.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import quote, urlencode

#: Option ``paginator`` to the names that ``toArray`` returns besides the websites, in their order.
PAGINATORS = {
    "length": "current_page first_page_url from last_page last_page_url links next_page_url path per_page "
    "prev_page_url to total",
    "simple": "current_page current_page_url first_page_url from next_page_url path per_page prev_page_url to",
    "cursor": "path per_page next_cursor next_page_url prev_cursor prev_page_url",
}
_LINKS = ("first", "last", "prev", "next")
_IS_FORWARD = "_pointsToNextItems"

#: Returns the link to a page, given its number or cursor.
Link = Callable[[int | str | None], str | None]


class ApiError(Exception):
    """An error response: status, headers, and a body with a message."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.content = {"message": message, **others}


def invalid(errors: Mapping[str, list[str]]) -> ApiError:
    """Return the error for invalid input; ``errors`` maps names to messages."""
    message, *others = chain.from_iterable(errors.values())
    if len(others) == 1:
        message += " (and 1 more error)"
    elif others:
        message += f" (and {len(others)} more errors)"
    return ApiError(422, message, errors=errors)


@dataclass(frozen=True)
class Paginator:
    """A page of a list.

    :param number: its number.
    :param size: number of websites on a full page.
    :param total: number of matching websites on all pages.
    :param previous: number or cursor of the previous page.
    :param following: number or cursor of the next page.
    """

    websites: list[Any]
    number: int
    size: int
    total: int
    previous: int | str | None
    following: int | str | None


def page_by_number(
    websites: list[Any],
    number: int,
    size: int,
) -> Paginator:
    """Return a page of a sorted list."""
    start = (number - 1) * size
    end = start + size
    previous = following = None
    if number > 1:
        previous = number - 1
    if end < len(websites):
        following = number + 1
    return Paginator(
        websites[start:end],
        number=number,
        size=size,
        total=len(websites),
        previous=previous,
        following=following,
    )


def page_by_cursor(
    websites: list[Any],
    text: str | None,
    size: int,
    names: Sequence[str],
    *,
    descending: bool,
) -> Paginator:
    """Return the page of a list at a cursor; the first one for a cursor that cannot be decoded.

    :param names: fields by which the list is sorted.
    """
    start = 0
    end = size
    with contextlib.suppress(ValueError, TypeError, KeyError):
        cursor = json.loads(base64.urlsafe_b64decode(f"{text or ''}=="))
        at = sort_key(cursor, names)
        keys = [sort_key(website, names) for website in websites]
        comes_before = operator.lt
        if descending:
            comes_before = operator.gt
        before = len([key for key in keys if comes_before(key, at)])
        if cursor[_IS_FORWARD]:
            start = before + keys.count(at)
            end = start + size
        else:
            start = max(0, before - size)
            end = before
    found = websites[start:end]
    previous = following = None
    if found and start > 0:
        previous = _cursor(found[0], names, forward=False)
    if found and end < len(websites):
        following = _cursor(found[-1], names, forward=True)
    return Paginator(
        found,
        number=1,
        size=size,
        total=len(websites),
        previous=previous,
        following=following,
    )


def sort_key(
    website: Mapping[str, Any],
    names: Sequence[str],
) -> list[Any]:
    """Return the values of these fields, ignoring case."""
    key = []
    for name in names:
        value = website[name]
        if isinstance(value, str):
            value = value.lower()
        key.append(value)
    return key


def _cursor(
    website: Mapping[str, Any],
    names: Sequence[str],
    *,
    forward: bool,
) -> str:
    values = {name: website[name] for name in names}
    text = json.dumps({**values, _IS_FORWARD: forward})
    encoded = base64.urlsafe_b64encode(text.encode())
    return encoded.decode().rstrip("=")


def collection(
    page: Paginator,
    *,
    paginator: str,
    parameter: str,
    url: str,
    query: Mapping[str, str],
) -> dict[str, Any]:
    """Return a resource collection, the body of a list response.

    :param parameter: parameter that selects a page.
    :param url: URL of the list, for the links.
    :param query: parameters of the request, which the links keep.
    """
    # Laravel reads empty parameters as null, and leaves them out.
    kept = {name: value for name, value in query.items() if value}
    kept.pop(parameter, None)

    def link(selected: int | str | None) -> str | None:
        if selected is None:
            return None
        encoded = urlencode({**kept, parameter: selected}, quote_via=quote)
        return f"{url}?{encoded}"

    before = (page.number - 1) * page.size
    last = max(1, math.ceil(page.total / page.size))
    first_row = last_row = None
    if page.websites:
        first_row = before + 1
        last_row = before + len(page.websites)
    everything = {
        "current_page": page.number,
        "current_page_url": link(page.number),
        "first_page_url": link(1),
        "from": first_row,
        "last_page": last,
        "last_page_url": link(last),
        "links": _numbered_links(page, last, link),
        "next_cursor": page.following,
        "next_page_url": link(page.following),
        "path": url,
        "per_page": page.size,
        "prev_cursor": page.previous,
        "prev_page_url": link(page.previous),
        "to": last_row,
        "total": page.total,
    }
    names = PAGINATORS[paginator].split()
    paginated = {name: everything[name] for name in names}
    links = {name: paginated.pop(f"{name}_page_url", None) for name in _LINKS}
    return {"data": page.websites, "links": links, "meta": paginated}


def _numbered_links(
    page: Paginator,
    last: int,
    link: Link,
) -> list[dict[str, Any]]:
    """Return the links to the previous and the next page, and by number, as ``UrlWindow`` selects them."""
    number = page.number
    if last < 14:
        shown = [*range(1, last + 1)]
    elif number <= 7:
        shown = [*range(1, 11), last - 1, last]
    elif number > last - 7:
        shown = [1, 2, *range(last - 9, last + 1)]
    else:
        around = range(number - 3, number + 4)
        shown = [1, 2, *around, last - 1, last]

    def labeled(
        label: str,
        target: int | str | None,
    ) -> dict[str, Any]:
        return {
            "url": link(target),
            "label": label,
            "page": target,
            "active": label == str(number),
        }

    found = [labeled("&laquo; Previous", page.previous)]
    before = 0
    for page_number in shown:
        if page_number > before + 1:
            found.append({"url": None, "label": "...", "active": False})
        before = page_number
        found.append(labeled(str(page_number), page_number))
    found.append(labeled("Next &raquo;", page.following))
    return found
