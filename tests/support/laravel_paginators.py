# SPDX-License-Identifier: Apache-2.0
"""Laravel's paginators without a total, ``simplePaginate()`` and ``cursorPaginate()``, as resource collections."""

from __future__ import annotations

import base64
import contextlib
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_analytics.sandbox.laravel import Paginator

#: Parameter ``sort_by`` to the fields of the order.
SORT_FIELDS = {"id": ("id",), "domain": ("domain", "id")}


@dataclass(frozen=True)
class CursorPage(Paginator):
    """A page of a list with the cursor of the next one."""

    next_cursor: str | None = None


def page_by_cursor(
    websites: list[Any], text: str | None, size: int, names: Sequence[str], *, descending: bool
) -> CursorPage:
    """Return the page of a list at a cursor; the first one for a cursor that cannot be decoded.

    :param names: fields by which the list is sorted.
    """
    start, end = 0, size
    with contextlib.suppress(ValueError, TypeError, KeyError):
        cursor = json.loads(base64.urlsafe_b64decode(f"{text or ''}=="))
        at = _sort_key(cursor, names)
        keys = [_sort_key(website, names) for website in websites]
        comes_before = operator.ge if descending else operator.le
        start = len([key for key in keys if comes_before(key, at)])
        end = start + size
    found = websites[start:end]
    return CursorPage(
        found,
        number=1,
        size=size,
        total=len(websites),
        next_cursor=_cursor(found[-1], names) if found and end < len(websites) else None,
    )


def _sort_key(website: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    values = [website[name] for name in names]
    return [value.lower() if isinstance(value, str) else value for value in values]


def _cursor(website: Mapping[str, Any], names: Sequence[str]) -> str:
    text = json.dumps({name: website[name] for name in names})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def simple_collection(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of ``simplePaginate()``, given that of ``paginate()``."""
    links, meta = body["links"], body["meta"]
    shown = {
        "current_page": meta["current_page"],
        "current_page_url": f"{_link_without_page(body)}{meta['current_page']}",
        **{name: meta[name] for name in ("from", "path", "per_page", "to")},
    }
    return {"data": body["data"], "links": {**links, "last": None}, "meta": shown}


def cursor_collection(page: CursorPage, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of ``cursorPaginate()``, given that of ``paginate()``."""
    links: dict[str, str | None] = dict.fromkeys(("first", "last", "prev", "next"))
    if page.next_cursor is not None:
        links["next"] = f"{_link_without_page(body)}{page.next_cursor}"
    shown = {name: body["meta"][name] for name in ("path", "per_page")}
    return {"data": body["data"], "links": links, "meta": {**shown, "next_cursor": page.next_cursor}}


def _link_without_page(body: dict[str, Any]) -> str:
    first: str = body["links"]["first"]
    return first.removesuffix("1")
