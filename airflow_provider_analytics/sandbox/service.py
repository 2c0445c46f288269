# SPDX-License-Identifier: Apache-2.0
"""The operations of the interface.

The service models the interface, not the vendor's code. ``docs/internals/assumptions.md`` lists its assumptions about
undocumented behavior.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, JSONResponse, Response

from airflow_provider_analytics.api.fields import OPERATIONS
from airflow_provider_analytics.api.laravel import API_PREFIX
from airflow_provider_analytics.sandbox import laravel
from airflow_provider_analytics.sandbox.laravel import ApiError, FormField
from airflow_provider_analytics.sandbox.requests import RecordedRequest, operations_at
from airflow_provider_analytics.sandbox.store import Store, Website

ACCOUNT = {"id": 1, "name": "Sandbox Account", "email": "account@example.com"}

_FORM = "application/x-www-form-urlencoded"
_WEBSITE_ID = re.compile(r"[0-9]{1,18}")
#: Requests that the sandbox claims to allow. It counts them and rejects none.
_RATE_LIMIT = 1_000_000


def _redirect(url: str) -> Response:
    return HTMLResponse(f"<!DOCTYPE html><title>Redirecting to {escape(url)}</title>", 302, {"Location": url})


class Options(BaseModel):
    """Behavior of the simulated service where the interface leaves it open."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Create a second website of the same domain instead of rejecting it.
    allow_duplicates: bool = False
    #: Number of reads after each write that return the websites as they were before the write.
    reads_behind: int = Field(default=0, ge=0)
    #: Seconds after each write in which reads return the websites as they were before the write.
    seconds_behind: float = Field(default=0, ge=0)

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with some options changed.

        :raises ValueError: for an unknown name or a bad value.
        """
        return self.model_validate({**dict(self), **changes})


@dataclass
class _EarlierRequest:
    """A copy of the store before a write: all reads return it until a time, then the next ``reads`` do."""

    store: Store
    until: float
    reads: int


class Service:
    """Processes requests, one at a time.

    :param root: sub-path of the base URL such as ``/app``, or empty.
    """

    store_type: type[Store] = Store

    def __init__(self, root: str) -> None:
        self.store = self.store_type()
        self.options = Options()
        self._root = root
        self.clear()

    def clear(self) -> None:
        """Delete all websites, and forget all requests."""
        self.store.clear()
        self._earlier: deque[_EarlierRequest] = deque()
        self._admitted = 0

    def respond(self, request: RecordedRequest, options: Options) -> Response:
        """Process a request."""
        self.options = options
        self._limit_headers: Mapping[str, str] = {}
        try:
            process = self.admit(request)
            response = process(request)
        except ApiError as error:
            response = self._error_response(request, error)
        response.headers.update(self._limit_headers)
        return response

    def admit(self, request: RecordedRequest) -> Callable[[RecordedRequest], Response]:
        """Return the method that processes a request, if it has an operation and the right key."""
        if request.operation is None:
            return self._respond_without_operation
        if not request.authorized:
            raise ApiError(401, "Unauthenticated.")
        self._limit_headers = self.count()
        process: Callable[[RecordedRequest], Response] = getattr(self, OPERATIONS[request.operation].hook)
        return process

    def count(self) -> Mapping[str, str]:
        """Count a request, and return the headers with the state of the rate limit."""
        self._admitted += 1
        remaining = max(0, _RATE_LIMIT - self._admitted)
        return {"X-RateLimit-Limit": str(_RATE_LIMIT), "X-RateLimit-Remaining": str(remaining)}

    def _respond_without_operation(self, request: RecordedRequest) -> Response:
        methods = list(operations_at(request.path, self._root))
        if not methods:
            path = request.path.removeprefix(self._root).strip("/")
            raise ApiError(404, f"The route {path} could not be found.")
        if request.method == "OPTIONS":
            return HTMLResponse("", headers={"Allow": ",".join(methods)})
        allowed = ", ".join(methods)
        message = f"The {request.method} method is not supported for this route. Supported methods: {allowed}."
        raise ApiError(405, message, {"Allow": allowed})

    def _error_response(self, request: RecordedRequest, error: ApiError) -> Response:
        accepted = (request.header("accept") or "").partition(",")[0]
        if "/json" in accepted or "+json" in accepted:
            return JSONResponse(error.content, error.status, error.headers)
        # The application takes the client for a browser.
        home = f"{request.origin}{self._root}"
        if error.status == HTTPStatus.UNAUTHORIZED:
            return _redirect(f"{home}/login")
        if "errors" in error.content:
            return _redirect(home)
        return HTMLResponse(f"<!DOCTYPE html><title>{escape(str(error))}</title>", error.status, error.headers)

    # Operations, by the name of their method of the hook

    def list_websites(self, request: RecordedRequest) -> Response:
        """Return a page of the list."""
        given = self.values(request.query, laravel.LIST_PARAMETERS)
        defaults = {parameter.name: parameter.default for parameter in laravel.LIST_PARAMETERS}
        values = {**defaults, **given}
        websites = self.find(self.readable_store(), values)
        page = self.page(websites, values)
        url = f"{request.origin}{self._root}{API_PREFIX}/websites"
        body = self.collection(page, url, dict(request.query))
        return JSONResponse(body)

    def create_website(self, request: RecordedRequest) -> Response:
        """Create a website."""
        values = self.form(request, laravel.CREATE_FIELDS)
        if self.store.find(values["domain"]) and not self.options.allow_duplicates:
            raise laravel.invalid({"domain": ["The domain has already been taken."]})
        self.save_earlier()
        website = self.store.add(**values)
        return JSONResponse({"data": website}, 201)

    def get_website(self, request: RecordedRequest) -> Response:
        """Return a website."""
        website = self.require(request, self.readable_store())
        return JSONResponse({"data": website})

    def update_website(self, request: RecordedRequest) -> Response:
        """Change a website."""
        values = self.form(request, laravel.UPDATE_FIELDS)
        website = self.require(request, self.store)
        self.save_earlier()
        changed = self.store.update(website["id"], values)
        return JSONResponse({"data": changed})

    def delete_website(self, request: RecordedRequest) -> Response:
        """Delete a website."""
        website = self.require(request, self.store)
        self.save_earlier()
        self.store.delete(website["id"])
        deleted = {"id": website["id"], "object": "website", "deleted": True}
        return JSONResponse(deleted)

    def get_account(self, request: RecordedRequest) -> Response:
        """Return the account."""
        return JSONResponse({"data": ACCOUNT})

    # Input

    def form(self, request: RecordedRequest, allowed: Sequence[FormField]) -> dict[str, Any]:
        """Return the values to store."""
        header = request.header("content-type") or ""
        content_type = header.partition(";")[0].strip().lower()
        # An update without fields can have neither a body nor a Content-Type.
        if content_type != _FORM and (request.body or content_type):
            raise ApiError(415, f"The body must be sent as {_FORM}.")
        return self.values(request.form, allowed)

    def values(self, pairs: Sequence[tuple[str, str]], allowed: Sequence[FormField]) -> dict[str, Any]:
        """Return the values of a query string or a form."""
        return laravel.read_values(pairs, allowed)

    def require(self, request: RecordedRequest, store: Store) -> Website:
        """Return the website that a path names."""
        text = unquote(request.path.rpartition("/websites/")[2].partition("/")[0])
        website = store.get(int(text)) if _WEBSITE_ID.fullmatch(text.strip()) else None
        if website is None:
            raise ApiError(404, f"No query results for model [App\\Models\\Website] {text}")
        return website

    # Reads

    def find(self, store: Store, values: Mapping[str, Any]) -> list[Website]:
        """Return all websites that match the parameters of a list, in its order."""
        found = store.websites()
        search = (values["search"] or "").lower()
        favorite = values["favorite"]
        if search:
            found = [website for website in found if search in website["domain"].lower()]
        if favorite is not None:
            found = [website for website in found if website["favorite"] is favorite]
        if values["sort_by"] == "domain":
            found.sort(key=lambda website: website["domain"].lower())
        if values["sort"] == "desc":
            found.reverse()
        return found

    def page(self, websites: list[Website], values: Mapping[str, Any]) -> laravel.Paginator:
        """Return the requested page of a list."""
        size = values["per_page"]
        end = values["page"] * size
        return laravel.Paginator(websites[end - size : end], number=values["page"], size=size, total=len(websites))

    def collection(self, page: laravel.Paginator, url: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the body of a list response."""
        return laravel.collection(page, url=url, query=query)

    def readable_store(self) -> Store:
        """Return the store that a read uses, and count the read."""
        now = time.monotonic()
        for earlier in self._earlier:
            earlier.reads -= 1
        while self._earlier and self._earlier[0].reads < 0 and self._earlier[0].until <= now:
            self._earlier.popleft()
        if self._earlier:
            return self._earlier[0].store
        return self.store

    def save_earlier(self) -> None:
        """Copy the store before a write if later reads must return the old state."""
        reads = self.options.reads_behind
        seconds = self.options.seconds_behind
        if reads or seconds:
            until = time.monotonic() + seconds
            earlier = _EarlierRequest(self.store.copy(), until, reads)
            self._earlier.append(earlier)
