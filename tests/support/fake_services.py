# SPDX-License-Identifier: Apache-2.0
"""Services other than a plain Laravel application: the sandbox with options for structures, behavior, and errors.

:class:`FakeService` is a :class:`SandboxServer` with the options of :class:`FakeServiceOptions`, and two more fields of
faults.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import parse_qsl

import idna
from field_values import FLAGS
from laravel_paginators import (
    SORT_FIELDS,
    CursorPage,
    cursor_collection,
    page_by_cursor,
    simple_collection,
)
from pydantic import Field, field_validator
from starlette.responses import JSONResponse, Response

from airflow_provider_analytics.api.fields import LINE_FIELDS, RECORD_FIELDS
from airflow_provider_analytics.sandbox import laravel
from airflow_provider_analytics.sandbox.app import App
from airflow_provider_analytics.sandbox.faults import Fault
from airflow_provider_analytics.sandbox.laravel import DEFAULTS, LIST_PARAMETERS, FormField, Paginator
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.sandbox.service import Options, Service
from airflow_provider_analytics.sandbox.store import Store, Website

_OTHER_SCHEME = {"http": "https", "https": "http"}
_LISTS = tuple(LINE_FIELDS)
#: The flags, as numbers and as a boolean.
_FALSE: dict[str, Any] = {**dict.fromkeys(FLAGS, 0), "favorite": False}
#: Option ``updates`` to the values of fields that were not sent.
_RESET: dict[str, dict[str, Any]] = {
    "keep others": {},
    "reset others": dict(DEFAULTS),
    "absent is false": _FALSE,
    "absent is zero": {**dict.fromkeys(RECORD_FIELDS[1:]), "privacy": 0, **_FALSE},
}
#: Option ``omits`` to the values that are left out of records.
_OMITTED: dict[str, tuple[Any, ...]] = {"nothing": (), "null": (None,), "empty": (None, "", 0, False)}
#: Templates of stored domains.
_DOMAINS = {"with www": "www.{}", "with scheme": "https://{}", "with port": "{}:443", "with slash": "{}/"}


class FakeServiceOptions(Options):
    """Differences of services. The defaults are those values of the sandbox."""

    # Lists

    #: Paginator of Laravel. ``length`` counts the websites. ``simple`` has no total and no last page. ``cursor`` has no
    #: page numbers either, and selects a page by a cursor.
    paginator: Literal["length", "simple", "cursor"] = "length"
    #: Query parameter that selects a page.
    page_parameter: str = Field(default="page", min_length=1)
    #: Scheme of the links: ``same`` as the base URL, or the ``other`` of http and https, as behind a proxy that ends
    #: TLS, whose headers the application does not trust.
    link_scheme: Literal["same", "other"] = "same"
    #: Key of the websites in a list response; None: the list is a bare JSON array. A dot separates nested keys. With
    #: ``data.data``, the metadata are in the same object as the inner list.
    list_key: str | None = "data"
    #: Place of the page metadata: under ``meta``, at the top level as Laravel's paginators have them, or nowhere.
    metadata: Literal["meta", "flat", "none"] = "meta"
    #: Place of links: by name as well, only as a list in the metadata, or nowhere.
    links: Literal["given", "list", "absent"] = "given"
    #: Parameters that are validated but have no effect. ``sort`` includes ``sort_by``. Without ``per_page``, a page
    #: contains the whole list.
    ignored: frozenset[Literal["page", "per_page", "sort", "search", "favorite"]] = frozenset()
    #: How ``favorite`` of a list is parsed: ``rule`` accepts only 1 and 0; for the last one, all other texts are true.
    favorite_filter: Literal["boolean", "rule", "truth of text"] = "boolean"
    #: Which domains ``search`` finds. ``late``: as at the previous search.
    search_matches: Literal["part", "case", "start", "label", "exact", "late", "nothing"] = "part"
    #: Fields that are missing in the rows of a list.
    list_hides: frozenset[str] = frozenset()
    #: Maximum number of websites per page.
    page_size_limit: int | None = Field(default=None, ge=1)
    #: What the total counts: the list, or the websites on the page after ``row_cap``.
    total: Literal["given", "page"] = "given"
    #: Added to the total.
    total_offset: int = 0
    #: Maximum of the total and thereby of the last page. Later pages are still returned.
    total_cap: int | None = Field(default=None, ge=1)
    #: Number of websites of a list that pages can return.
    row_cap: int | None = Field(default=None, ge=1)
    #: Response for a page after the last one: an empty page, or the last page again.
    behind_last: Literal["empty", "last"] = "empty"

    # Records

    #: Key of a record; None: bare.
    record_key: str | None = "data"
    #: Write all integers as text.
    numbers_as_text: bool = False
    #: Write ``favorite`` as true/false, as 1/0, as "true"/"false", or false as null.
    favorite_as: Literal["boolean", "integer", "text", "null"] = "boolean"
    #: Write ``email`` and ``exclude_bots`` as 0/1 or as false/true.
    flags_as: Literal["integer", "boolean"] = "integer"
    #: How exclusion lists are written; ``cut`` to 20 characters.
    lists_as: Literal["lines", "CR LF", "commas", "blanks", "br", "json", "array", "cut", "cut with dots", "null"] = (
        "lines"
    )
    #: Fields that records omit: null (jbuilder's ``ignore_nil!``), or null, zero, false and empty (Go's ``omitempty``).
    omits: Literal["nothing", "null", "empty"] = "nothing"
    #: Status for a website that does not exist; 200 has a message instead of the record.
    missing: Literal["404", "410", "403", "200"] = "404"
    #: Additional fields of records, as templates with ``{password}``, ``{api_key}`` and ``{domain}``.
    extra_fields: Mapping[str, str] = {}

    # Writes

    create_status: int = Field(default=201, ge=200, le=299)
    update_status: int = Field(default=200, ge=200, le=299)
    delete_status: int = Field(default=200, ge=200, le=299)
    #: Operations whose response has no body, as with status 204.
    empty_answers: frozenset[str] = frozenset()
    #: Operations whose response has a message instead of the record.
    message_answers: frozenset[str] = frozenset()
    #: Operations whose response has the values that were sent, whatever is stored.
    echoes: frozenset[str] = frozenset()
    #: Operations whose response has only the id and the domain.
    short_answers: frozenset[str] = frozenset()
    #: Effect of a delete: remove the website, mark it with ``deleted_at`` and still return it, or keep it.
    deletes: Literal["remove", "mark", "keep"] = "remove"
    #: Effect of an update on fields that were not sent: none; the default of a create; false for flags (Laravel's
    #: ``$request->boolean()``, an HTML checkbox); or zero, false and empty (Go, decoded into a whole struct).
    updates: Literal["keep others", "reset others", "absent is false", "absent is zero"] = "keep others"
    #: Stored part of an exclusion list. ``new lines``: all if none is new. ``normalized``: sorted, upper case, unique.
    lists_stored: Literal[
        "all", "new lines", "last line", "no comments", "no networks", "40 characters", "normalized"
    ] = "all"
    #: How a domain is stored.
    domain_as: Literal[
        "sent", "ascii", "unicode", "lower", "without www", "with www", "with scheme", "with port", "with slash",
        "IDNA 2003",
    ] = "sent"  # fmt: skip
    #: How a sent ``favorite`` is read: as a boolean, or as PHP reads texts: only the empty text and "0" are false.
    favorite_stored: Literal["boolean", "truth of text"] = "boolean"
    #: Fields that are validated but never stored.
    ignored_fields: frozenset[str] = frozenset()

    @field_validator("ignored_fields")
    @classmethod
    def _are_fields(cls, names: frozenset[str]) -> frozenset[str]:
        if names - set(DEFAULTS):
            raise ValueError(f"{sorted(names - set(DEFAULTS))} are no fields")
        return names


class FakeServiceFault(Fault):
    """A fault with two more fields."""

    #: Options for these requests.
    options: dict[str, Any] = Field(default_factory=dict)
    #: Replace the body by an error that repeats the header Authorization and the form.
    echo: bool = False

    @field_validator("options")
    @classmethod
    def _are_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        FakeServiceOptions().changed(options)
        return options

    @property
    def replaces_body(self) -> bool:
        return self.echo or super().replaces_body


class FakeStore(Store):
    """A store that can mark websites as deleted."""

    def clear(self) -> None:
        super().clear()
        self._marked: dict[int, Website] = {}

    def copy(self) -> FakeStore:
        copied = super().copy()
        copied._marked = dict(self._marked)
        return copied

    def mark(self, website_id: int) -> None:
        """Mark a website as deleted."""
        with self._lock:
            if website_id in self._websites:
                deleted = {**self._websites.pop(website_id), "deleted_at": "2026-11-20T00:00:00Z"}
                self._marked[website_id] = deleted

    def restore(self, website_id: int) -> bool:
        """Remove the mark; return whether there was one."""
        with self._lock:
            if website_id not in self._marked:
                return False
            website = {name: value for name, value in self._marked.pop(website_id).items() if name != "deleted_at"}
            self._websites = dict(sorted({**self._websites, website_id: website}.items()))
            return True

    def with_marked(self) -> Store:
        """Return a copy in which the marked websites are like others."""
        copied = self.copy()
        copied._websites = dict(sorted({**copied._websites, **copied._marked}.items()))
        return copied

    def passwords(self) -> list[str]:
        """Return the stored passwords."""
        return [password for password in self._passwords.values() if password]


class FakeEndpoints(Service):
    """The operations with differences: in reading requests, storing values, and returning records."""

    store_type = FakeStore
    store: FakeStore
    options: FakeServiceOptions
    api_key: str

    def clear(self) -> None:
        super().clear()
        self._index: FakeStore | None = None

    # Reading of requests

    def admit(self, request: RecordedRequest) -> Callable[[RecordedRequest], Response]:
        process = super().admit(request)
        if request.operation not in (None, "list"):
            self._check_names(request.query, ())
        return process

    def _field(self, field: FormField) -> FormField:
        """Return a field or parameter as this service reads it."""
        if field.parse is laravel.page:
            parse = str if self.options.paginator == "cursor" else laravel.page
            return replace(field, name=self.options.page_parameter, parse=parse)
        if field.parse is laravel.boolean_filter and self.options.favorite_filter == "rule":
            return replace(field, parse=laravel.boolean)
        if field.parse is laravel.boolean_filter and self.options.favorite_filter == "truth of text":
            return replace(field, parse=_truth_of_text)
        if field.parse is laravel.boolean and self.options.favorite_stored == "truth of text":
            return replace(field, parse=_truth_of_text)
        return field

    def values(self, pairs: Sequence[tuple[str, str]], allowed: Sequence[FormField]) -> dict[str, Any]:
        self._check_names(pairs, [self._field(field).name for field in allowed])
        number = self.options.page_parameter
        found = super().values(pairs, [self._field(field) for field in allowed])
        if number in found:
            found["page"] = found.pop(number)
        return found

    def _check_names(self, pairs: Sequence[tuple[str, str]], allowed: Collection[str]) -> None:
        names = [name for name, _ in pairs]
        wrong = {name for name in names if name not in allowed or names.count(name) > 1}
        if wrong:  # Laravel ignores them; the package sends none
            raise laravel.invalid({name: [f"The {name} field is prohibited."] for name in sorted(wrong)})

    def _obeyed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a list that have an effect."""
        ignored = {str(name) for name in self.options.ignored if name != "per_page"}
        if "sort" in ignored:
            ignored |= {"sort_by"}
        defaults = {parameter.name: parameter.default for parameter in LIST_PARAMETERS if parameter.name in ignored}
        return {**values, **defaults}

    def find(self, store: Store, values: Mapping[str, Any]) -> list[Website]:
        values, matches = self._obeyed(values), self.options.search_matches
        search = values["search"]
        if not search or matches == "part":
            return super().find(store, values)
        if matches == "late":
            assert isinstance(store, FakeStore)
            store, self._index = self._index or FakeStore(), store.copy()
            return super().find(store, values)
        found = super().find(store, {**values, "search": ""})
        return [website for website in found if _matches(website["domain"], search, matches)]

    def page(self, websites: list[Website], values: Mapping[str, Any]) -> Paginator:
        options = self.options
        size = len(websites) or 1 if "per_page" in options.ignored else values["per_page"]
        size = min(size, options.page_size_limit or size)
        selected = values["page"]
        if options.paginator == "cursor":
            cursor = selected if isinstance(selected, str) and "page" not in options.ignored else None
            order = self._obeyed(values)
            names, descending = SORT_FIELDS[order["sort_by"]], order["sort"] == "desc"
            return page_by_cursor(websites, cursor, size, names, descending=descending)
        last = Paginator([], number=1, size=size, total=len(websites)).last
        number = 1 if "page" in options.ignored else max(1, selected)
        if number > last and options.behind_last == "last":
            number = last
        found = super().page(websites, {**values, "per_page": size, "page": number})
        if options.row_cap is not None:
            found = replace(found, websites=found.websites[: max(0, options.row_cap - (number - 1) * size)])
        total = len(found.websites) if options.total == "page" else found.total
        total = min(total, options.total_cap or total)
        return replace(found, total=total)

    def collection(self, page: Paginator, url: str, query: Mapping[str, str]) -> dict[str, Any]:
        options = self.options
        if options.link_scheme == "other":
            scheme, _, address = url.partition(":")
            url = f"{_OTHER_SCHEME[scheme]}:{address}"
        body = laravel.collection(page, url=url, query=query, parameter=options.page_parameter)
        if options.paginator == "simple":
            return simple_collection(body)
        return cursor_collection(page, body) if isinstance(page, CursorPage) else body

    def readable_store(self) -> Store:
        store = super().readable_store()
        assert isinstance(store, FakeStore)
        return store.with_marked() if self.options.deletes == "mark" else store

    # Stored values

    def form(self, request: RecordedRequest, allowed: Sequence[FormField]) -> dict[str, Any]:
        options = self.options
        self._sent = super().form(request, allowed)
        stored = {name: value for name, value in self._sent.items() if name not in options.ignored_fields}
        before = self.require(request, self.store) if request.operation == "update" else {}
        for name in _LISTS:
            if stored.get(name):
                lines_before = (before.get(name) or "").split("\n")
                stored[name] = "\n".join(_stored(stored[name].split("\n"), lines_before, options.lists_stored))
        if "domain" in stored:
            stored["domain"] = _domain(stored["domain"], options.domain_as)
        return {**_RESET[options.updates], **stored} if before else stored

    def delete_website(self, request: RecordedRequest) -> Response:
        if self.options.deletes == "remove":
            return super().delete_website(request)
        website = self.require(request, self.store)
        if self.options.deletes == "mark":
            self.save_earlier()
            self.store.mark(website["id"])
        return JSONResponse({"id": website["id"], "object": "website", "deleted": True})

    # Returned values

    def respond(self, request: RecordedRequest, options: Options) -> Response:
        assert isinstance(options, FakeServiceOptions)
        response = super().respond(request, options)
        if not isinstance(response, JSONResponse):
            return response
        content = json.loads(bytes(response.body))
        kept = {name: response.headers[name] for name in response.headers if not name.startswith("content-")}
        if response.status_code >= 400:
            return self._error(response.status_code, content, kept)
        if request.operation == "list":
            content = self._list(content)
        elif request.operation == "account":
            content = self._wrapped(content["data"])
        elif "data" in content:
            content = self._wrapped(self._record(content["data"], str(request.operation)))
        if options.numbers_as_text:
            content = _as_text(content)
        return self._answer(str(request.operation), response.status_code, content, kept)

    def _answer(self, operation: str, status: int, content: Any, headers: Mapping[str, str]) -> Response:
        if operation in ("create", "update", "delete"):
            status = getattr(self.options, f"{operation}_status")
            if operation in self.options.empty_answers or status == 204:
                return Response(status_code=status, headers=headers)
            if operation in self.options.message_answers:
                content = {"message": f"The {operation} was successful."}
        return JSONResponse(content, status, headers)

    def _error(self, status: int, content: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
        if content["message"].startswith("No query results"):
            status = int(self.options.missing)
        return JSONResponse(content, status, headers)

    def _list(self, content: dict[str, Any]) -> Any:
        options = self.options
        rows = [self._record(website, "list") for website in content["data"]]
        meta, links = self._meta(content["meta"]), content["links"]
        if options.list_key is None:
            return rows
        *outer, key = options.list_key.split(".")
        body: Any = {key: rows}
        if options.metadata == "meta":
            body |= {"meta": meta, "links": links} if options.links == "given" else {"meta": meta}
        elif options.metadata == "flat":
            body |= meta
            if options.links == "given":
                body |= {f"{name}_page_url": link for name, link in links.items()}
        for name in reversed(outer):
            body = {name: body}
        return body

    def _meta(self, meta: dict[str, Any]) -> dict[str, Any]:
        options = self.options
        if options.links not in ("given", "list"):
            meta.pop("links", None)
        if "total" in meta:
            total = meta["total"] + options.total_offset
            meta["total"] = min(total, options.total_cap or total)
        return meta

    def _record(self, website: Website, operation: str) -> dict[str, Any]:
        options = self.options
        shown: dict[str, Any] = {**website, **self._sent} if operation in options.echoes else dict(website)
        for name in set(FLAGS) - {"favorite"} if options.flags_as == "boolean" else ():
            shown[name] = bool(shown[name])
        favorite = shown["favorite"]
        shown["favorite"] = {
            "boolean": favorite, "integer": int(favorite), "text": str(favorite).lower(), "null": favorite or None,
        }[options.favorite_as]  # fmt: skip
        for name in _LISTS:
            if shown.get(name):
                shown[name] = _written(shown[name], options.lists_as)
        password = self.store.password(website["id"]) or ""
        for name, template in options.extra_fields.items():
            shown[name] = template.format(password=password, api_key=self.api_key, domain=website["domain"])
        if operation in options.short_answers:
            return {name: shown[name] for name in ("id", "domain")}
        omitted = _OMITTED[options.omits]
        hidden = options.list_hides if operation == "list" else frozenset()
        return {name: value for name, value in shown.items() if value not in omitted and name not in hidden}

    def _wrapped(self, record: dict[str, Any]) -> Any:
        if self.options.record_key is None:
            return record
        return {self.options.record_key: record}


def _truth_of_text(text: str | None) -> bool:
    return text not in (None, "0")


def _matches(domain: str, search: str, how: str) -> bool:
    low, wanted = domain.lower(), search.lower()
    return {
        "case": search in domain,
        "start": low.startswith(wanted),
        "label": f".{wanted}." in f".{low}.",
        "exact": low == wanted,
        "nothing": False,
    }[how]


def _written(text: str, how: str) -> Any:
    lines = text.split("\n")
    return {
        "lines": text, "CR LF": "\r\n".join(lines), "commas": ",".join(lines), "blanks": " ".join(lines),
        "br": "<br>".join(lines), "json": json.dumps(lines), "array": lines, "cut": text[:20],
        "cut with dots": text if len(text) <= 20 else f"{text[:20]}...", "null": None,
    }[how]  # fmt: skip


def _stored(lines: list[str], before: list[str], how: str) -> list[str]:
    without_comments = [line.partition("#")[0].strip() for line in lines]
    return {
        "all": lines,
        "new lines": [line for line in lines if line not in before] or lines,
        "last line": lines[-1:],
        "no comments": [line for line in without_comments if line],
        "no networks": [line for line in lines if "/" not in line],
        "40 characters": "\n".join(lines)[:40].split("\n"),
        "normalized": sorted({line.strip().upper() for line in lines}),
    }[how]


def _domain(domain: str, how: str) -> str:
    if how == "lower":
        return domain.lower()
    if how == "without www":
        return domain.removeprefix("www.")
    if how in _DOMAINS:
        return _DOMAINS[how].format(domain.removeprefix("www."))
    try:
        if how == "IDNA 2003":
            return domain.encode("idna").decode()  # Python's codec
        if how == "ascii":
            return idna.encode(domain, uts46=True).decode()
        if how == "unicode":
            return idna.decode(domain, uts46=True)
    except UnicodeError:  # such as an underscore
        return domain.lower()
    return domain


def _as_text(value: Any) -> Any:
    """Return JSON with text in place of integers."""
    if isinstance(value, dict):
        return {name: _as_text(element) for name, element in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return str(value) if type(value) is int else value


#: Called for each request before it is processed.
Meanwhile = Callable[[RecordedRequest], Fault | Awaitable[Fault | None] | None]


class _App(App):
    fault_type = FakeServiceFault
    service_type = FakeEndpoints
    service: FakeEndpoints
    options: FakeServiceOptions

    def __init__(self, api_key: str, *arguments: Any) -> None:
        super().__init__(api_key, *arguments)
        self.service.api_key = api_key
        self.reset()

    def reset(self) -> None:
        super().reset()
        self.meanwhile: Meanwhile = lambda _: None

    async def next_fault(self, request: RecordedRequest) -> Fault:
        act = self.meanwhile(request)
        fault = await act if isinstance(act, Awaitable) else act
        return fault or await super().next_fault(request)

    def process(self, request: RecordedRequest, fault: Fault) -> Response:
        if not isinstance(fault, FakeServiceFault):
            return super().process(request, fault)
        if fault.echo:
            text = request.body.decode("latin-1")
            fields = {name: [value] for name, value in parse_qsl(text, keep_blank_values=True)}
            message = f"Could not handle Authorization: {request.header('authorization')} with body {text}"
            fault = fault.model_copy(update={"body": {"message": message, "errors": fields}})
        before = self.options
        self.options = before.changed(fault.options)
        try:
            return super().process(request, fault)
        finally:
            self.options = before


class FakeService(SandboxServer):
    """A sandbox that can play any of these services."""

    _app_type = _App
    _options_type = FakeServiceOptions
    _app: _App

    @property
    def options(self) -> FakeServiceOptions:
        """Current options."""
        return self._app.options

    @property
    def store(self) -> FakeStore:
        """The websites."""
        return self._app.service.store

    def meanwhile(self, act: Meanwhile) -> None:
        """Call ``act`` before each request is processed, until :meth:`reset`; apply the fault that it returns.

        If ``act`` is asynchronous, it is awaited.
        """
        self._app.meanwhile = act
