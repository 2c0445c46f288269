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

_IS_FORWARD = "_pointsToNextItems"
#: Parameter ``sort_by`` to the fields of the order.
SORT_FIELDS = {"id": ("id",), "domain": ("domain", "id")}


@dataclass(frozen=True)
class CursorPage(Paginator):
    """A page of a list with the cursors of its neighbors."""

    previous_cursor: str | None = None
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
        comes_before = operator.gt if descending else operator.lt
        before = len([key for key in keys if comes_before(key, at)])
        if cursor[_IS_FORWARD]:
            start = before + keys.count(at)
            end = start + size
        else:
            start, end = max(0, before - size), before
    found = websites[start:end]
    return CursorPage(
        found,
        number=1,
        size=size,
        total=len(websites),
        previous_cursor=_cursor(found[0], names, forward=False) if found and start > 0 else None,
        next_cursor=_cursor(found[-1], names, forward=True) if found and end < len(websites) else None,
    )


def _sort_key(website: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    values = [website[name] for name in names]
    return [value.lower() if isinstance(value, str) else value for value in values]


def _cursor(website: Mapping[str, Any], names: Sequence[str], *, forward: bool) -> str:
    text = json.dumps({**{name: website[name] for name in names}, _IS_FORWARD: forward})
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
    cursors = {"next": page.next_cursor, "prev": page.previous_cursor}
    links: dict[str, str | None] = dict.fromkeys(("first", "last", "prev", "next"))
    for name, cursor in cursors.items():
        if cursor is not None:
            links[name] = f"{_link_without_page(body)}{cursor}"
    shown = {name: body["meta"][name] for name in ("path", "per_page")}
    shown |= {f"{name}_cursor": cursor for name, cursor in cursors.items()}
    return {"data": body["data"], "links": links, "meta": shown}


def _link_without_page(body: dict[str, Any]) -> str:
    first: str = body["links"]["first"]
    return first.removesuffix("1")
