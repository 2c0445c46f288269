# SPDX-License-Identifier: Apache-2.0
"""Shapes of Laravel 13.26: errors and pages.

They follow ``ValidationException``, the exception handler, ``PaginatedResourceResponse`` and
``LengthAwarePaginator`` of laravel/framework.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import quote, urlencode


class ApiError(Exception):
    """An error response: status, headers, and a body with a message."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **others: Any) -> None:
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
    """

    websites: list[Any]
    number: int
    size: int
    total: int

    @property
    def last(self) -> int:
        """Number of the last page."""
        return max(1, math.ceil(self.total / self.size))


def collection(page: Paginator, *, url: str, query: Mapping[str, str], parameter: str = "page") -> dict[str, Any]:
    """Return a resource collection, the body of a list response.

    :param url: URL of the list, for the links.
    :param query: parameters of the request, which the links keep.
    :param parameter: parameter that selects a page.
    """
    # Laravel reads empty parameters as null and leaves them out.
    kept = {name: value for name, value in query.items() if value}
    kept.pop(parameter, None)

    def link(number: int) -> str | None:
        if number < 1 or number > max(page.number, page.last):
            return None
        encoded = urlencode({**kept, parameter: number}, quote_via=quote)
        return f"{url}?{encoded}"

    before = (page.number - 1) * page.size
    first_row = last_row = None
    if page.websites:
        first_row = before + 1
        last_row = before + len(page.websites)
    links = {"first": link(1), "last": link(page.last), "prev": link(page.number - 1), "next": link(page.number + 1)}
    meta = {
        "current_page": page.number,
        "from": first_row,
        "last_page": page.last,
        "path": url,
        "per_page": page.size,
        "to": last_row,
        "total": page.total,
    }
    return {"data": page.websites, "links": links, "meta": meta}
