"""How the sandbox answers: every assumption about what the interface does not show, each one an option."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_analytics.sandbox.store import Website


class Options(BaseModel):
    """What the interface leaves open, or what a server may get wrong. The defaults are a well-behaved server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page_parameter: str = Field(default="page", min_length=1)
    """Name of the query parameter that selects a page."""
    list_key: str | None = "data"
    """Key under which a list answer holds the websites; None: the answer is a bare JSON array."""
    metadata: Literal["meta", "flat", "none"] = "meta"
    """Where the numbers about the page are: under ``meta``, at top level beside the websites, or nowhere.
    A bare array has none."""
    record_key: str | None = "data"
    """Key under which show, create, update and account hold the record; None: bare."""

    create_status: int = Field(default=201, ge=200, le=299)
    update_status: int = Field(default=200, ge=200, le=299)
    delete_status: int = Field(default=200, ge=200, le=299)
    empty_answers: frozenset[Literal["create", "update", "delete"]] = frozenset()
    """Operations answered without a body. A status of 204 has none in any case."""

    numbers_as_text: bool = False
    """Numbers of records and of metadata are rendered as text."""
    favorite_as: Literal["boolean", "integer", "text"] = "boolean"
    """``favorite`` as true/false, as 1/0, or as "true"/"false"."""
    flags_as: Literal["integer", "boolean"] = "integer"
    """``email`` and ``exclude_bots`` as 0/1 or as false/true."""

    ignored: frozenset[Literal["page", "per_page", "sort", "search", "favorite"]] = frozenset()
    """List parameters that are checked but have no effect. ``sort`` covers ``sort_by``; without ``per_page`` a page
    holds the whole list."""
    page_size_limit: int | None = Field(default=None, ge=1)
    """A page holds at most this many websites, whatever ``per_page`` asks."""
    page_offset: int = 0
    """Added to the page number that is asked for: -1 repeats the page before, 1 skips one."""
    total: Literal["given", "absent"] = "given"
    total_offset: int = 0
    """Added to the true total: a server that counts wrongly."""
    current_page: Literal["served", "asked", "wrong", "absent"] = "served"
    """Which page number the metadata names. ``served`` and ``asked`` differ only when the page parameter is ignored
    or offset."""

    allow_duplicates: bool = False
    """A second website of the same domain is created instead of refused."""
    strict_parameters: bool = True
    """Unknown query parameters and form fields are refused instead of left unread."""

    def changed(self, changes: Mapping[str, Any]) -> Options:
        """Return these options with some of them changed; unknown names and bad values are ValueErrors."""
        return Options.model_validate({**dict(self), **changes})


@dataclass(frozen=True)
class Page:
    """One page of a list, as served. ``size`` is the number of websites that a full page holds."""

    websites: list[Website]
    asked: int
    served: int
    size: int
    total: int


def render_list(page: Page, url: str, options: Options) -> Any:
    """Return the JSON value of a list answer; ``url`` is the list's own address, for the links."""
    websites = [_render_record(website, options) for website in page.websites]
    if options.list_key is None:
        return websites
    if options.metadata == "none":
        return {options.list_key: websites}
    metadata = _metadata(page, options)
    if options.metadata == "flat":
        return {options.list_key: websites, **metadata}
    return {options.list_key: websites, "links": _links(page, url, options), "meta": metadata}


def render_record(record: Mapping[str, Any], options: Options) -> Any:
    """Return the JSON value of an answer that holds one record."""
    rendered = _render_record(record, options)
    return rendered if options.record_key is None else {options.record_key: rendered}


def render_deleted(website_id: int, options: Options) -> Any:
    """Return the JSON value of the answer to a deletion."""
    return {"id": _number(website_id, options), "object": "website", "deleted": True}


def _render_record(record: Mapping[str, Any], options: Options) -> dict[str, Any]:
    rendered = dict(record)
    if options.flags_as == "boolean":
        for name in ("email", "exclude_bots"):
            if name in rendered:
                rendered[name] = bool(rendered[name])
    if "favorite" in rendered:
        favorite = rendered["favorite"]
        rendered["favorite"] = {"boolean": favorite, "integer": int(favorite), "text": str(favorite).lower()}[
            options.favorite_as
        ]
    return {name: _number(value, options) for name, value in rendered.items()}


def _number(value: Any, options: Options) -> Any:
    return str(value) if options.numbers_as_text and type(value) is int else value


def _last_page(page: Page) -> int:
    return max(1, math.ceil(page.total / page.size))


def _metadata(page: Page, options: Options) -> dict[str, Any]:
    first = (page.served - 1) * page.size + 1
    metadata: dict[str, Any] = {
        "current_page": {"served": page.served, "asked": page.asked, "wrong": page.asked + 1}.get(options.current_page),
        "per_page": page.size,
        "last_page": _last_page(page),
        "from": first if page.websites else None,
        "to": first + len(page.websites) - 1 if page.websites else None,
        "total": page.total + options.total_offset,
    }
    if options.current_page == "absent":
        del metadata["current_page"]
    if options.total == "absent":
        # A server that does not count knows no last page either.
        del metadata["total"], metadata["last_page"]
    return {name: _number(value, options) for name, value in metadata.items()}


def _links(page: Page, url: str, options: Options) -> dict[str, str | None]:
    def link(number: int) -> str:
        return f"{url}?{options.page_parameter}={number}"

    last = _last_page(page)
    return {
        "first": link(1),
        "last": link(last) if options.total == "given" else None,
        "prev": link(page.served - 1) if page.served > 1 else None,
        "next": link(page.served + 1) if page.served < last else None,
    }
