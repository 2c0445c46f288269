"""Response bodies, and the options that change what the interface leaves undocumented."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_analytics.sandbox.fields import FLAGS
from airflow_provider_analytics.sandbox.store import Website


class Options(BaseModel):
    """Behaviour of the server where the interface is not documented, or where servers may get it wrong.

    The defaults describe a well-behaved server.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Query parameter that selects a page.
    page_parameter: str = Field(default="page", min_length=1)
    #: Key that holds the websites of a list; None: the list is a bare JSON array.
    list_key: str | None = "data"
    #: Where a list has its page metadata: under ``meta``, at top level beside the websites, or nowhere. A bare array
    #: has none.
    metadata: Literal["meta", "flat", "none"] = "meta"
    #: Key that holds the record in responses to show, create, update and account; None: the record is bare.
    record_key: str | None = "data"

    create_status: int = Field(default=201, ge=200, le=299)
    update_status: int = Field(default=200, ge=200, le=299)
    delete_status: int = Field(default=200, ge=200, le=299)
    #: Operations whose response has no body. With status 204 there is never one.
    empty_answers: frozenset[Literal["create", "update", "delete"]] = frozenset()

    #: Render the integers of records and metadata as text.
    numbers_as_text: bool = False
    #: Render ``favorite`` as true/false, as 1/0, or as "true"/"false".
    favorite_as: Literal["boolean", "integer", "text"] = "boolean"
    #: Render ``email`` and ``exclude_bots`` as 0/1 or as false/true.
    flags_as: Literal["integer", "boolean"] = "integer"

    #: List parameters that are checked but have no effect. ``sort`` includes ``sort_by``; without ``per_page`` a page
    #: holds the whole list.
    ignored: frozenset[Literal["page", "per_page", "sort", "search", "favorite"]] = frozenset()
    #: Maximum number of websites per page, whatever ``per_page`` requests.
    page_size_limit: int | None = Field(default=None, ge=1)
    #: Added to the requested page number: -1 repeats the previous page, 1 skips one.
    page_offset: int = 0
    #: Whether the metadata have a total; without it there is no last page either.
    total: Literal["given", "absent"] = "given"
    #: Added to the true total, to model a wrong count.
    total_offset: int = 0
    #: Page number in the metadata. ``served`` and ``asked`` differ only if the page parameter is ignored or offset.
    current_page: Literal["served", "asked", "wrong", "absent"] = "served"

    #: Create a second website of the same domain instead of rejecting it.
    allow_duplicates: bool = False
    #: Reject unknown query parameters and form fields instead of ignoring them.
    strict_parameters: bool = True

    def changed(self, changes: Mapping[str, Any]) -> Options:
        """Return a copy with some options changed.

        :raises ValueError: for an unknown name or a bad value.
        """
        return Options.model_validate({**dict(self), **changes})


@dataclass(frozen=True)
class Page:
    """A page of a list.

    :param asked: requested page number.
    :param served: number of the page in the response.
    :param size: number of websites on a full page.
    :param total: number of matching websites on all pages.
    """

    websites: list[Website]
    asked: int
    served: int
    size: int
    total: int


def render_list(page: Page, url: str, options: Options) -> Any:
    """Return the JSON body of a list response; ``url`` is the URL of the list, for the links."""
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
    """Return the JSON body of a response with one record."""
    rendered = _render_record(record, options)
    return rendered if options.record_key is None else {options.record_key: rendered}


def render_deleted(website_id: int, options: Options) -> Any:
    """Return the JSON body of the response to a delete."""
    return {"id": _number(website_id, options), "object": "website", "deleted": True}


def _render_record(record: Mapping[str, Any], options: Options) -> dict[str, Any]:
    rendered = dict(record)
    if options.flags_as == "boolean":
        for name in FLAGS:
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
        # A server that does not count the websites cannot know the last page.
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
