"""Response bodies, rendered according to the options."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from airflow_provider_analytics.sandbox.fields import FLAGS, LISTS
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.store import Website


@dataclass(frozen=True)
class Page:
    """A page of a list.

    :param asked: requested page number.
    :param served: number of the page in the response.
    :param size: number of websites on a full page.
    :param total: number of matching websites on all pages.
    :param next_cursor: cursor of the next page, with ``paging="cursor"``.
    """

    websites: list[Website]
    asked: int
    served: int
    size: int
    total: int
    next_cursor: str | None = None


@dataclass(frozen=True)
class Secrets:
    """Secrets that :attr:`Options.extra_fields` may reveal.

    :param passwords: stored password by website id.
    """

    api_key: str
    passwords: Mapping[int, str | None]


def render_list(page: Page, url: str, query: Mapping[str, str], options: Options, secrets: Secrets) -> Any:
    """Return the JSON body of a list response.

    :param url: URL of the list, for the links.
    :param query: query parameters of the request, for the links.
    """
    websites = [
        {name: value for name, value in _render(website, options, secrets).items() if name not in options.list_hides}
        for website in page.websites
    ]
    if options.list_key is None:
        return websites
    *outer, key = options.list_key.split(".")
    content: dict[str, Any] = {key: websites}
    if options.lists_beside is not None:
        content[options.lists_beside] = [{"id": 1, "name": "All"}]
    if options.metadata == "meta":
        content["meta"] = _metadata(page, options)
        if options.links == "given":
            content["links"] = _links(page, url, query, options)
        elif options.links == "list":
            content["meta"]["links"] = [
                {"url": link, "label": name, "active": False}
                for name, link in _links(page, url, query, options).items()
            ]
    elif options.metadata == "flat":
        content |= _metadata(page, options)
        if options.links == "given":
            content |= {f"{name}_page_url": link for name, link in _links(page, url, query, options).items()}
    for name in reversed(outer):
        content = {name: content}
    return content


def link_header(page: Page, url: str, query: Mapping[str, str], options: Options) -> dict[str, str]:
    """Return the header with links to other pages; empty unless ``links="header"``."""
    if options.links != "header":
        return {}
    links = _links(page, url, query, options)
    return {"Link": ", ".join(f'<{link}>; rel="{name}"' for name, link in links.items() if link)}


def render_record(record: Mapping[str, Any], options: Options, secrets: Secrets) -> Any:
    """Return the JSON body of a response with a website."""
    return _envelop(_render(record, options, secrets), options)


def render_account(account: Mapping[str, Any], options: Options) -> Any:
    """Return the JSON body of a response with the account."""
    names = ["id", "email", "name"]
    if options.account_shows == "nothing":
        account, names = {"plan": "unlimited"}, ["plan"]
    elif options.account_shows == "uuid":
        account, names = {**account, "uuid": "00000000-0000-4000-8000-000000000001"}, ["uuid", "email", "name"]
    else:
        names = names[names.index(options.account_shows) :]
    fields = {name: value for name, value in account.items() if name in names}
    return _envelop({name: _number(value, options) for name, value in fields.items()}, options)


def render_deleted(website_id: int, options: Options) -> Any:
    """Return the JSON body of the response to a delete."""
    return {"id": _number(website_id, options), "object": "website", "deleted": True}


def _envelop(rendered: dict[str, Any], options: Options) -> Any:
    if options.record_key is None:
        return rendered
    path, _, inner = options.record_key.partition(":")
    if inner:
        rendered = {"id": rendered.get("id"), inner: {name: rendered[name] for name in rendered if name != "id"}}
    for name in reversed(path.split(".")):
        rendered = {name: rendered}
    return rendered


def _render(record: Mapping[str, Any], options: Options, secrets: Secrets) -> dict[str, Any]:
    rendered = dict(record)
    if options.flags_as == "boolean":
        for name in FLAGS:
            if name in rendered:
                rendered[name] = bool(rendered[name])
    if "favorite" in rendered:
        favorite = rendered["favorite"]
        rendered["favorite"] = {
            "boolean": favorite,
            "integer": int(favorite),
            "text": str(favorite).lower(),
            "null": favorite or None,
        }[options.favorite_as]
    for name in LISTS:
        if name in rendered:
            rendered[name] = _list(rendered[name], options)
    rendered = {name: _number(value, options) for name, value in rendered.items()}
    known = {"api_key": secrets.api_key, "domain": record.get("domain", "")}
    for name, template in options.extra_fields.items():
        rendered[name] = template.format(password=secrets.passwords.get(record.get("id", 0)) or "", **known)
    return rendered


def _list(text: str | None, options: Options) -> Any:
    if text is None or options.lists_as == "lines":
        return text
    lines = text.split("\n")
    return {
        "CR LF": "\r\n".join(lines),
        "commas": ",".join(lines),
        "blanks": " ".join(lines),
        "br": "<br>".join(lines),
        "json": json.dumps(lines),
        "array": lines,
        "cut": text[:20],
        "cut with dots": text if len(text) <= 20 else f"{text[:20]}...",
        "null": None,
    }[options.lists_as]


def _number(value: Any, options: Options) -> Any:
    return str(value) if options.numbers_as_text and type(value) is int else value


def _total(page: Page, options: Options) -> int:
    total = len(page.websites) if options.total == "page" else page.total
    total += options.total_offset
    return total if options.total_cap is None else min(total, options.total_cap)


def _last_page(page: Page, options: Options) -> int:
    counted = len(page.websites) if options.total == "page" else page.total
    counted = counted if options.total_cap is None else min(counted, options.total_cap)
    return max(1, math.ceil(counted / page.size)) - 1 + options.first_page


def _metadata(page: Page, options: Options) -> dict[str, Any]:
    if options.paging == "cursor":
        return {"per_page": _number(page.size, options), "next_cursor": page.next_cursor}
    first = (page.served - options.first_page) * page.size + 1
    metadata: dict[str, Any] = {
        "current_page": {"served": page.served, "asked": page.asked, "wrong": page.asked + 1}.get(options.current_page),
        "per_page": page.size,
        "last_page": _last_page(page, options),
        "from": first if page.websites else None,
        "to": first + len(page.websites) - 1 if page.websites else None,
        "total": _total(page, options),
    }
    if options.current_page == "absent":
        del metadata["current_page"]
    if options.total == "absent":
        # A server that does not count the websites cannot know the last page.
        del metadata["total"], metadata["last_page"]
    return {name: _number(value, options) for name, value in metadata.items()}


def page_parameter_of(options: Options) -> str:
    """Return the query parameter that selects a page."""
    return "offset" if options.paging == "offset" else options.page_parameter


def _links(page: Page, url: str, query: Mapping[str, str], options: Options) -> dict[str, str | None]:
    def link(selected: int | str | None) -> str | None:
        if selected is None:
            return None
        return f"{url}?{urlencode({**query, page_parameter_of(options): str(selected)})}"

    if options.paging == "cursor":
        return {"prev": None, "next": link(page.next_cursor)}
    if options.paging == "offset":
        skipped = (page.served - options.first_page) * page.size
        following = skipped + page.size
        return {"first": link(0), "next": link(following if following < page.total else None)}
    last = _last_page(page, options)
    return {
        "first": link(options.first_page),
        "last": link(last if options.total != "absent" else None),
        "prev": link(page.served - 1 if page.served > options.first_page else None),
        "next": link(page.served + 1 if page.served < last else None),
    }
