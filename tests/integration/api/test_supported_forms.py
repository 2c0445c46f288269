# SPDX-License-Identifier: Apache-2.0
"""All operations work with each supported form of interface.md (``api/laravel.py``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import urlencode
from uuid import UUID

import pytest
from contract_table import FORMS
from distortion import Distortion
from field_values import FLAGS
from raw_server import RawServer, Request, http
from wire_client import client_of, error_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import ListFilters
from airflow_provider_analytics.exceptions import AnalyticsApiError, UnexpectedResponseError
from airflow_provider_analytics.sandbox.server import SandboxServer

Record = dict[str, Any]
PATH = "/api/v1/websites"
WEBSITES = 120
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Page:
    """A page of the list.

    :param skipped: number of websites before the next page; None after the last page.
    """

    rows: list[Record]
    total: int
    skipped: int | None

    def link(self, parameter: str) -> str | None:
        """Return a link to the next page."""
        if self.skipped is None:
            return None
        number = self.skipped // 100 + 1
        return f"{PATH}?{parameter}={number}"


def by_number(parameter: str) -> Callable[[dict[str, str]], int]:
    """Return a function that returns the number of websites before a page; the first one is 1."""
    return lambda query: 100 * (int(query.get(parameter, "1")) - 1)


@dataclass(frozen=True)
class Form:
    """A form of the responses; without arguments, a usual one.

    :param skipped: number of websites before the page that a query selects.
    :param written: response to a write of a website with this id; None for the record.
    :param rejection: response to each fifth request.
    :param marks: whether a deleted website is returned with a mark.
    :param extras: extras of the connection.
    :param total: the total that the client reads.
    """

    body: Callable[[Page], Any] = lambda page: {"data": page.rows, "total": page.total}
    skipped: Callable[[dict[str, str]], int] = lambda query: by_number("page")(query)
    row: Callable[[Record], Record] = lambda row: row
    record: Callable[[Record], Any] = lambda record: {"data": record}
    written: Callable[[int], bytes] | None = None
    rejection: bytes = b""
    marks: bool = False
    extras: tuple[tuple[str, str], ...] = ()
    total: int | None = WEBSITES


class Server:
    """A service with a form: it changes the responses of a sandbox."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.sandbox = SandboxServer()
        self._forward = Distortion(self.sandbox).to_the_sandbox
        self._deleted: set[int] = set()
        self._server = RawServer(self._respond)
        self.requests = self._server.requests

    def __enter__(self) -> Self:
        self.sandbox.start()
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)
        self.sandbox.stop()

    def client(self, **extras: Any) -> AnalyticsClient:
        """Return a client of this service."""
        return client_of(self._server.url, api_key=self.sandbox.api_key, **extras)

    def _respond(self, request: Request) -> bytes:
        if self.form.rejection and len(self.requests) % 5 == 0:
            return self.form.rejection
        request = replace(request, target=_UUID.sub(lambda found: str(UUID(found[0]).int), request.target))
        if request.path == PATH and request.method == "GET":
            return self._list(request)
        if self.form.marks and request.method == "DELETE":
            self._deleted.add(int(request.path.rpartition("/")[2]))
            return http(204, kind=None)
        status, content = self._forward(request)
        if status < 400 and request.method in ("POST", "PATCH") and self.form.written:
            return self.form.written(content["data"]["id"])
        if "data" in content:
            content = self.form.record(self._row(content["data"]))
        return http(status, content)

    def _list(self, request: Request) -> bytes:
        """Respond with a page of the whole list."""
        query = {name: value for name, value in request.query.items() if name in ListFilters.__annotations__}
        rows: list[Record] = []
        for number in (1, 2):
            selected = urlencode({**query, "per_page": 100, "page": number})
            rows += self._forward(replace(request, target=f"{PATH}?{selected}"))[1]["data"]
        size, skipped = int(query["per_page"]), self.form.skipped(request.query)
        following = skipped + size if skipped + size < len(rows) else None
        shown = [self._row(row) for row in rows[skipped : skipped + size]]
        return http(200, self.form.body(Page(shown, len(rows), following)))

    def _row(self, website: Record) -> Record:
        deleted = {"deleted_at": "2026-11-20T00:00:00.000000Z"} if website["id"] in self._deleted else {}
        return self.form.row({**website, **deleted})


def numbered(rows: list[Record]) -> Record:
    """Return an object with numbered keys, as PHP writes an array that was filtered."""
    return {str(2 * number): row for number, row in enumerate(rows)}


def flags(false: Any, true: Any) -> Form:
    """Return a form with these flags."""

    def row(website: Record) -> Record:
        return {name: (true if value else false) if name in FLAGS else value for name, value in website.items()}

    return Form(row=row)


def by_link(name: str, *keys: str) -> Form:
    """Return a form with the link to the next page under a key, or nested keys."""

    def body(page: Page) -> Any:
        link: Any = page.link("p")
        for key in reversed(keys):
            link = {key: link}
        return {"data": page.rows, "total": page.total, name: link}

    return Form(body, skipped=by_number("p"))


def by_cursor(key: str, parameter: str) -> Form:
    def body(page: Page) -> Any:
        return {"data": page.rows, key: None if page.skipped is None else f"c{page.skipped}"}

    return Form(body, skipped=lambda query: int(query.get(parameter, "c0")[1:]), total=None)


def renamed(rename: Callable[[str], str]) -> Form:
    return Form(row=lambda row: {rename(name): value for name, value in row.items()})


def in_json_api() -> Form:
    """Return a form with the fields of a website under another key."""

    def row(website: Record) -> Record:
        return {"id": str(website["id"]), "attributes": {name: website[name] for name in website if name != "id"}}

    return Form(row=row)


def empty_lists(value: Any) -> Form:
    return Form(row=lambda row: {name: value if found is None else found for name, found in row.items()})


#: Row of the table to its forms.
FORMS_OF_ROWS: dict[str, list[Form]] = {
    "list: bare": [Form(lambda page: page.rows, total=None)],
    "list: data": [Form()],
    "list: key": [Form(lambda page: {"websites": page.rows, "total": page.total})],
    "list: paginator": [Form(lambda page: {"data": {"data": page.rows, "total": page.total}})],
    "list: numbered": [
        Form(lambda page: {"data": numbered(page.rows), "total": page.total}),
        Form(lambda page: {"websites": numbered(page.rows) or [], "total": page.total}),
        Form(lambda page: numbered(page.rows) or [], total=None),
    ],
    "list: empty": [
        Form(lambda page: {"data": page.rows or None, "total": page.total}),
        Form(lambda page: {"data": page.rows or {}, "total": page.total}),
    ],
    "total: place": [Form(), Form(lambda page: {"data": page.rows, "meta": {"total": page.total}})],
    "total: none": [Form(lambda page: {"data": page.rows}, total=None)],
    "page: number": [Form()],
    "page: parameter": [Form(skipped=by_number("p"), extras=(("page_parameter", "p"),))],
    "page: link": [by_link("links", "next"), by_link("next_page_url")],
    "page: cursor": [by_cursor("next_cursor", "cursor")],
    "record: bare": [Form(record=lambda record: record)],
    "record: data": [Form()],
    "record: key": [
        Form(record=lambda record: {"website": record}),
        Form(record=lambda record: {"website": record, "message": "Done."}),
    ],
    "record: none": [
        Form(written=lambda _: http(204, kind=None)),
        Form(written=lambda _: http(200, {"message": "Saved."})),
        Form(written=lambda _: http(200, b"OK", kind="text/plain")),
    ],
    "status of a write: success": [
        Form(written=lambda _: http(202, b"OK")),
        Form(written=lambda _: http(206, b"OK")),
    ],
    "deleted website: mark": [Form(marks=True)],
    "rate limit: pause": [Form(rejection=http(status, headers=[("Retry-After", "2")])) for status in (429, 503)],
    "rate limit: none": [Form(rejection=http(status)) for status in (429, 503)],
    "exclusion list: lines": [
        Form(),
        Form(row=lambda row: {**row, "exclude_ips": (row.get("exclude_ips") or "").replace("\n", "\r\n")}),
    ],
    "exclusion list: array": [Form(row=lambda row: {**row, "exclude_ips": (row.get("exclude_ips") or "").split("\n")})],
    "exclusion list: empty": [
        empty_lists(""),
        empty_lists(None),
        Form(row=lambda row: {name: value for name, value in row.items() if value is not None}),
    ],
    "privacy: numbers": [Form(), Form(row=lambda row: {**row, "privacy": str(row["privacy"])})],
    "boolean: json": [flags(False, True)],
    "boolean: numbers": [flags(0, 1)],
    "boolean: texts": [flags("false", "true"), flags("0", "1")],
    "boolean: omitted": [
        flags(None, True),
        Form(row=lambda row: {name: value for name, value in row.items() if value is not False}),
    ],
    "id: number": [Form()],
    "id: number as text": [Form(row=lambda row: {**row, "id": str(row["id"])})],
    "id: text": [Form(row=lambda row: {**row, "id": str(UUID(int=row["id"]))})],
}  # fmt: skip
#: Row of the table to the bodies of its errors.
ERRORS_OF_ROWS: dict[str, list[Any]] = {
    "error: message": [{"message": "is taken"}, {"error": "is taken"}],
    "error: fields": [{"errors": {"domain": ["is taken"]}}, {"errors": {"domain": "is taken"}}],
    "error: other": [b"is taken", ["is taken"], {"detail": "is taken"}],
}
#: Forms that no task can use, and what the message contains.
NOT_SUPPORTED: list[tuple[Form, str]] = [
    (renamed(lambda name: re.sub("_(.)", lambda found: found[1].upper(), name)), "with the key 'excludeBots'"),
    (renamed(lambda name: name if name == "id" else name.title().replace("_", "")), "with the key 'Domain'"),
    (flags("off", "on"), "with the value 'off'"),
    (Form(row=lambda row: {**row, "privacy": "public"}), "privacy with the value 'public'"),
    (Form(row=lambda row: {**row, "domain": {"name": row["domain"]}}), "domain with the value {'name': '1.example'}"),
    (Form(row=lambda row: {**row, "exclude_ips": {"0": "192.0.2.1"}}), "exclude_ips with the value {'0': '192.0.2.1'}"),
    (in_json_api(), "the fields of a website under the key 'attributes'"),
]
#: Lists that no task can use, and what the message contains.
LISTS_NOT_SUPPORTED: list[tuple[Callable[[Page], Any], str]] = [
    (lambda page: {"_embedded": {"websites": page.rows}, "page": {}}, "{_embedded: {websites: array of 1 x object}"),
    (lambda page: {"data": {row["domain"]: row for row in page.rows}}, "{data: {1.example: object}}"),
    (lambda page: {"data": [{"domain": row["domain"]} for row in page.rows]}, "a website without an id"),
]


def cases(rows: dict[str, list[Any]]) -> list[Any]:
    """Return a case for each form of the rows."""
    return [pytest.param(form, id=f"{row} {n}") for row, forms in rows.items() for n, form in enumerate(forms, start=1)]


@pytest.mark.parametrize("form", cases(FORMS_OF_ROWS))
def test_every_operation_works_with_a_supported_form(form: Form) -> None:
    extras: dict[str, Any] = dict(form.extras)
    with Server(form) as server:
        for number in range(WEBSITES):
            server.sandbox.add_website(f"{number}.example", exclude_ips="192.0.2.1\n192.0.2.2")
        with server.client(**extras) as client:
            listing = client.iter_websites()
            assert len(list(listing)) == WEBSITES
            assert listing.proof is not None
            assert listing.proof.total == form.total
            created = client.ensure_website("new.example")
            website_id = created.record["id"]
            changes: list[Any] = [{"favorite": True}, {"exclude_bots": False}, {"privacy": "private"}]
            for values in (*changes, {"exclude_ips": ["192.0.2.1", "192.0.2.3"]}):
                assert client.update_website(website_id, **values).sent
                assert not client.update_website(website_id, **values).sent
            assert [row["id"] for row in client.list_websites(favorite=True)] == [website_id]
            assert client.get_website(website_id)["domain"] == "new.example"
            client.delete_website(website_id)
            assert client.find_website("new.example") is None


@pytest.mark.parametrize(("form", "shown"), NOT_SUPPORTED, ids=[shown for _, shown in NOT_SUPPORTED])
def test_operations_fail_before_a_write_with_a_form_that_is_not_supported(form: Form, shown: str) -> None:
    with Server(form) as server:
        server.sandbox.add_website("1.example")
        with server.client() as client:
            calls: list[Callable[[], object]] = [
                client.list_websites,
                lambda: client.get_website(1),
                lambda: client.ensure_website("new.example"),
                lambda: client.update_website(1, favorite=True),
                lambda: client.delete_website(1),
            ]
            for call in calls:
                with pytest.raises(UnexpectedResponseError, match=re.escape(f"{shown}. This form is not supported")):
                    call()
        assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize(("body", "shown"), LISTS_NOT_SUPPORTED, ids=[shown for _, shown in LISTS_NOT_SUPPORTED])
def test_tasks_fail_before_a_write_with_a_list_that_is_not_supported(body: Callable[[Page], Any], shown: str) -> None:
    with Server(Form(body)) as server:
        server.sandbox.add_website("1.example")
        with server.client() as client:
            calls: list[Callable[[], object]] = [client.list_websites, lambda: client.ensure_website("new.example")]
            for call in calls:
                with pytest.raises(UnexpectedResponseError) as caught:
                    call()
                assert f"The service returns {shown}" in str(caught.value)
                assert "This form is not supported, so no task can use the service. Expected: " in str(caught.value)
                assert "reference/interface/#supported-forms" in str(caught.value)
        assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize("body", cases(ERRORS_OF_ROWS))
def test_error_in_a_supported_form_is_returned(body: Any) -> None:
    error = error_of(http(422, body), kind=AnalyticsApiError)
    assert "is taken" in str(error)
    expected = {"domain": ["is taken"]} if "domain" in str(body) else {}
    assert error.errors == expected


def test_table_of_supported_forms_has_a_test_for_each_row() -> None:
    rows = {f"{part}: {form}" for part, forms in FORMS.items() for form in forms}
    assert rows == {*FORMS_OF_ROWS, *ERRORS_OF_ROWS}
