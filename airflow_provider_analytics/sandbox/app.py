"""The six operations of the interface as a FastAPI application.

The application models the interface, not the vendor's code. ``docs/internals/assumptions.md`` lists its assumptions
about undocumented behavior. :class:`airflow_provider_analytics.sandbox.options.Options` can change them.
"""

from __future__ import annotations

import base64
import functools
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from airflow_provider_analytics import __version__
from airflow_provider_analytics.sandbox import openapi
from airflow_provider_analytics.sandbox.fields import DEFAULTS, LISTS
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.parameters import (
    CREATE_FIELDS,
    LIST_PARAMETERS,
    UPDATE_FIELDS,
    InvalidInputError,
    Parameter,
    cursor_parameter,
    decode_pairs,
    offset_parameter,
    page_parameter,
    read_values,
    with_booleans,
)
from airflow_provider_analytics.sandbox.responses import (
    Page,
    Secrets,
    link_header,
    render_account,
    render_deleted,
    render_list,
    render_record,
)
from airflow_provider_analytics.sandbox.routes import PREFIX, ROUTES, Operation, routes_of
from airflow_provider_analytics.sandbox.store import DuplicateDomainError, Store, normalise

ACCOUNT = {"id": 1, "name": "Sandbox Account", "email": "account@example.com"}

_FORM = "application/x-www-form-urlencoded"
_WEBSITE_ID = re.compile(r"[1-9][0-9]{0,17}")
_PROXY_PAGE = "<!DOCTYPE html><title>Access denied</title><p>This request was blocked by a proxy."
_HOME = "<!DOCTYPE html><title>Sandbox</title><p>Sandbox of airflow-provider-analytics. The interface is under {}."

_LOGIN = "<!DOCTYPE html><title>Login</title><p>Log in to see your websites."
_LIMIT_HEADERS = {"X-RateLimit-Limit": "600", "X-RateLimit-Remaining": "599"}
_CACHE_HEADERS = {"Age": "30", "X-Cache": "HIT"}

_Bearer = HTTPBearer(auto_error=False, description="The API key of the account.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_Bearer)]


class ApiError(Exception):
    """An error response: status, message, messages by field and extra headers."""

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        errors: Mapping[str, list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = dict(errors or {})
        self.headers = dict(headers or {})


class ProxyError(Exception):
    """A request that a proxy in front of the service rejects."""


class LoginError(Exception):
    """A request with a wrong key, to which the service responds with its login page."""

    def __init__(self, *, is_redirect: bool) -> None:
        super().__init__()
        self.is_redirect = is_redirect


def create_app(store: Store, api_key: str, options_for: Callable[[Request], Options], root: str = "") -> FastAPI:
    """Return an application that serves ``store``.

    :param options_for: returns the options of a request.
    :param root: sub-path of the base URL such as ``/app``, or empty.
    """
    service = _Service(store, api_key, options_for, f"{root}{PREFIX}/websites")
    app = FastAPI(
        title="Sandbox of the website analytics service",
        summary="Models the interface, not the vendor's code.",
        version=__version__,
        openapi_url=f"{root}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )

    async def pass_the_proxy(request: Request) -> None:
        for name, value in options_for(request).required_headers.items():
            if request.headers.get(name) != value:
                raise ProxyError

    async def authenticate(request: Request, credentials: _Credentials) -> None:
        if credentials is None or not secrets.compare_digest(credentials.credentials.encode(), api_key.encode()):
            reported_as = options_for(request).wrong_key
            if reported_as in ("redirect", "page"):
                raise LoginError(is_redirect=reported_as == "redirect")
            raise ApiError(HTTPStatus(int(reported_as)), "Unauthenticated.", headers={"WWW-Authenticate": "Bearer"})

    router = APIRouter(prefix=root + PREFIX, dependencies=[Depends(pass_the_proxy), Depends(authenticate)])
    endpoints: dict[Operation, Callable[[Request], Awaitable[Response]]] = {
        "list": service.list_websites,
        "create": service.create_website,
        "show": service.show_website,
        "update": service.update_website,
        "delete": service.delete_website,
        "account": service.show_account,
    }
    for route in ROUTES:
        router.add_api_route(route.path, endpoints[route.operation], methods=[route.method], **openapi.describe(route))
    app.include_router(router)

    async def home() -> HTMLResponse:
        return HTMLResponse(_HOME.format(f"{root}{PREFIX}"))

    app.add_api_route(f"{root}/", home, include_in_schema=False)

    async def on_api_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)  # noqa: S101 - registered for this class only
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "json" not in request.headers.get("accept", ""):
            return RedirectResponse(f"{root}/", HTTPStatus.FOUND)
        shape = options_for(request).errors_as
        return _error_response(error.status, error.message, error.errors, error.headers, shape)

    async def on_login_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, LoginError)  # noqa: S101 - registered for this class only
        return RedirectResponse(f"{root}/login", HTTPStatus.FOUND) if error.is_redirect else HTMLResponse(_LOGIN)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(sorted(route.method for route in routes_of(request.url.path, root)))
        return _error_response(error.status_code, error.detail, {}, headers)

    async def on_proxy_error(_request: Request, _error: Exception) -> Response:
        return HTMLResponse(_PROXY_PAGE, HTTPStatus.FORBIDDEN, {"CF-Ray": "8f00sandbox-AMS"})

    app.add_exception_handler(ProxyError, on_proxy_error)
    app.add_exception_handler(LoginError, on_login_error)
    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(HTTPException, on_http_exception)
    return app


class _Service:
    """The endpoints. They are coroutines, so only one request at a time uses the store."""

    def __init__(self, store: Store, api_key: str, options_for: Callable[[Request], Options], list_path: str) -> None:
        self._store = store
        self._api_key = api_key
        self._options_for = options_for
        self._list_path = list_path

    async def list_websites(self, request: Request) -> Response:
        options = self._options_for(request)
        values = _parse(request.scope["query_string"], _list_parameters(options), options)
        url = f"{request.base_url}".rstrip("/") + self._list_path
        query = dict(decode_pairs(request.scope["query_string"]))
        page_of_list = self._page(values, options)
        content = render_list(page_of_list, url, query, options, self._secrets(options))
        return JSONResponse(content, headers=link_header(page_of_list, url, query, options) | _headers(options))

    async def create_website(self, request: Request) -> Response:
        options = self._options_for(request)
        _reject_query(request, options)
        values = await _form(request, CREATE_FIELDS, options)
        self._save_earlier(options)
        try:
            website = self._store.add(unique=not options.allow_duplicates, **_values_to_store(values, options, {}))
        except DuplicateDomainError as error:
            raise _invalid({"domain": ["The domain has already been taken."]}) from error
        return self._respond_to_write("create", options.create_status, website, values, options)

    async def show_website(self, request: Request) -> Response:
        options = self._options_for(request)
        store = self._readable_store()
        website_id = self._require_id(request, store, options)
        _reject_query(request, options)
        website = store.get(website_id, marked=options.deletes == "mark") or {}
        return JSONResponse(render_record(website, options, self._secrets(options)))

    async def update_website(self, request: Request) -> Response:
        options = self._options_for(request)
        website_id = self._require_id(request, self._store, options)
        _reject_query(request, options)
        values = await _form(request, UPDATE_FIELDS, options)
        self._save_earlier(options)
        others = DEFAULTS if options.updates == "reset others" else {}
        stored = _values_to_store(values, options, self._store.get(website_id) or {})
        website = self._store.update(website_id, {**others, **stored}) or {}
        return self._respond_to_write("update", options.update_status, website, values, options)

    async def delete_website(self, request: Request) -> Response:
        options = self._options_for(request)
        website_id = self._require_id(request, self._store, options)
        _reject_query(request, options)
        if options.deletes != "keep":
            self._save_earlier(options)
            self._store.delete(website_id, mark=options.deletes == "mark")
        return _write_response("delete", options.delete_status, render_deleted(website_id, options), options)

    async def show_account(self, request: Request) -> Response:
        options = self._options_for(request)
        _reject_query(request, options)
        return JSONResponse(render_account(ACCOUNT, options))

    def _respond_to_write(
        self, operation: str, status: int, website: Mapping[str, Any], sent: Mapping[str, Any], options: Options
    ) -> Response:
        record = {**website, **sent} if operation in options.echoes else website
        if operation in options.short_answers:
            record = {name: record[name] for name in ("id", "domain")}
        return _write_response(operation, status, render_record(record, options, self._secrets(options)), options)

    def _secrets(self, options: Options) -> Secrets:
        reveals = any("{password}" in template for template in options.extra_fields.values())
        return Secrets(self._api_key, self._store.passwords() if reveals else {})

    def _require_id(self, request: Request, store: Store, options: Options) -> int:
        text = request.path_params["id"]
        marked = options.deletes == "mark" and request.method == "GET"
        if not _WEBSITE_ID.fullmatch(text) or store.get(int(text), marked=marked) is None:
            raise ApiError(HTTPStatus(int(options.missing)), "The website does not exist.")
        return int(text)

    def _save_earlier(self, options: Options) -> None:
        """Copy the store before a write if later reads must return the old state."""
        if options.reads_behind:
            self._store.earlier.append((self._store.copy(), [options.reads_behind]))

    def _readable_store(self) -> Store:
        """Return the store that a read uses, and count the read."""
        while self._store.earlier and not self._store.earlier[0][1][0]:
            self._store.earlier.popleft()[0].close()
        if not self._store.earlier:
            return self._store
        store, left = self._store.earlier[0]
        left[0] -= 1
        return store

    def _page(self, values: Mapping[str, Any], options: Options) -> Page:
        ignored = options.ignored
        first = options.first_page
        offset = 0
        if options.paging == "cursor":
            asked = first
            offset = _offset(values.get(options.page_parameter))
        elif options.paging == "offset":
            asked = first + values.get("offset", 0) // values.get("per_page", 100)
        else:
            asked = values.get(options.page_parameter, first)
        served = first if "page" in ignored else max(first, asked + options.page_offset)
        size = None if "per_page" in ignored else values.get("per_page", 100)
        if options.page_size_limit is not None:
            size = min(size or options.page_size_limit, options.page_size_limit)
        store = self._readable_store()
        if options.search_matches == "late" and values.get("search"):
            # Each search uses the old index and then updates it.
            store, self._store.index = self._store.index or Store(), store.copy()
        sort_by = "domain" if options.order == "domain" else values.get("sort_by", "id")
        find = functools.partial(
            store.page,
            search="" if "search" in ignored else values.get("search", ""),
            search_matches=options.search_matches,
            favorite=None if "favorite" in ignored else values.get("favorite"),
            sort_by="id" if "sort" in ignored else sort_by,
            descending="sort" in ignored or values.get("sort", "desc") == "desc",
            limit=size,
            marked=options.deletes == "mark",
        )
        if options.behind_last != "empty" and size:
            last = max(first, first - 1 - -find(offset=0)[1] // size)
            if served > last and options.behind_last == "not found":
                raise ApiError(HTTPStatus.NOT_FOUND, "Invalid page.")
            served = min(served, last)
        if options.paging != "cursor":
            offset = (served - first) * (size or 0)
        websites, total = find(offset=offset)
        if options.row_cap is not None:
            websites = websites[: max(0, options.row_cap - offset)]
        if size is None and served > first:
            websites = []
        page_size = size or max(1, total)
        after = offset + len(websites)
        cursor = _cursor(after) if options.paging == "cursor" and after < total else None
        return Page(websites, asked=asked, served=served, size=page_size, total=total, next_cursor=cursor)


def _headers(options: Options) -> dict[str, str]:
    """Return the headers of a list response about rate limits and caches."""
    limits = _LIMIT_HEADERS if options.limit_headers == "given" else {}
    return limits | (_CACHE_HEADERS if options.cache_headers == "given" else {})


def _list_parameters(options: Options) -> tuple[Parameter, ...]:
    parameters: tuple[Parameter, ...] = LIST_PARAMETERS
    if options.favorite_filter != "boolean":
        parameters = with_booleans(parameters, options.favorite_filter)
    if options.paging == "offset":
        return (*parameters, offset_parameter())
    if options.paging == "cursor":
        return (*parameters, cursor_parameter(options.page_parameter))
    return (*parameters, page_parameter(options.page_parameter, options.first_page))


def _cursor(offset: int) -> str:
    return base64.urlsafe_b64encode(f"after-{offset}".encode()).decode()


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    try:
        return int(base64.urlsafe_b64decode(cursor).decode().removeprefix("after-"))
    except ValueError:
        raise _invalid({"cursor": ["The cursor is unknown."]}) from None


def _values_to_store(values: Mapping[str, Any], options: Options, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the service stores for a form.

    :param before: the website before the change.
    """
    stored = {name: value for name, value in values.items() if name not in options.ignored_fields}
    for name in LISTS:
        if stored.get(name):
            lines = _lines_to_store(stored[name].split("\n"), (before.get(name) or "").split("\n"), options)
            stored[name] = "\n".join(lines)
    if "domain" in stored:
        stored["domain"] = normalise(stored["domain"], options.domain_as)
    return stored


def _lines_to_store(lines: list[str], before: list[str], options: Options) -> list[str]:
    return {
        "all": lambda: lines,
        "new lines": lambda: [line for line in lines if line not in before] or lines,
        "last line": lambda: lines[-1:],
        "no comments": lambda: [line.partition("#")[0].strip() for line in lines if line.partition("#")[0].strip()],
        "no networks": lambda: [line for line in lines if "/" not in line],
        "40 characters": lambda: "\n".join(lines)[:40].split("\n"),
        "normalized": lambda: sorted({line.strip().upper() for line in lines}),
    }[options.lists_stored]()


def _parse(raw: bytes, parameters: Sequence[Parameter], options: Options) -> dict[str, Any]:
    try:
        return read_values(decode_pairs(raw), parameters, strict=options.strict_parameters)
    except InvalidInputError as error:
        raise _invalid(error.errors) from error


async def _form(request: Request, fields: Sequence[Parameter], options: Options) -> dict[str, Any]:
    body = await request.body()
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # An update without fields may have neither a body nor a Content-Type.
    if content_type != _FORM and (body or content_type):
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The body must be sent as {_FORM}.")
    return _parse(body, fields, options)


def _reject_query(request: Request, options: Options) -> None:
    """Reject query parameters; only the list operation accepts them."""
    _parse(request.scope["query_string"], (), options)


def _invalid(errors: Mapping[str, list[str]]) -> ApiError:
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "The given data was invalid.", errors)


def _write_response(operation: str, status: int, content: Any, options: Options) -> Response:
    if operation in options.empty_answers or status == HTTPStatus.NO_CONTENT:
        return Response(status_code=status)
    if operation in options.message_answers:
        return JSONResponse({"message": f"The {operation} was successful."}, status)
    return JSONResponse(content, status)


def _error_response(
    status: int,
    message: str,
    errors: Mapping[str, list[str]],
    headers: Mapping[str, str],
    shape: str = "message",
) -> Response:
    if shape == "problem":
        problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": message}
        return JSONResponse(problem, status, dict(headers), "application/problem+json")
    if shape == "page":
        return HTMLResponse(f"<!DOCTYPE html><title>{message}</title>", status, dict(headers))
    if shape == "text":
        return PlainTextResponse(message, status, dict(headers))
    return JSONResponse({"message": message, "errors": dict(errors)}, status, dict(headers))
