# SPDX-License-Identifier: Apache-2.0
"""All operations work with each supported form of interface.md (``api/laravel.py``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest
from contract_table import FORMS
from distortion import Distortion
from fake_services import FakeService
from field_values import FLAGS
from raw_server import RawServer, Request, http
from wire_client import do, error_of, served

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import AnalyticsApiError, UnexpectedResponseError

Record = dict[str, Any]
WEBSITES = 120
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def usual(page: Any) -> Any:
    return {"data": page["data"], "total": page["meta"]["total"]}


def link(page: Any) -> str | None:
    """Return the link to the next page, with the parameter ``p``."""
    following: str | None = page["links"]["next"]
    return following and following.replace("&page=", "&p=")


def cursor(page: Any) -> str | None:
    return page["links"]["next"] and f"c{page['meta']['current_page'] + 1}"


@dataclass(frozen=True)
class Form:
    """A form of the responses; without arguments, a usual one.

    :param listed: changes the body of a page of the list, which is that of Laravel.
    :param selects: text before the number of a page in a query.
    :param marks: whether a deleted website is returned with a mark.
    :param written: response to a create or an update; empty for the record.
    :param rejection: response to each fifth request.
    :param extras: extras of the connection.
    :param total: the total that the client reads.
    """

    listed: Callable[[Any], Any] = usual
    selects: str = "&page="
    marks: bool = False
    row: Callable[[Record], Record] = lambda row: row
    record: Callable[[Record], Any] = lambda record: {"data": record}
    written: bytes = b""
    rejection: bytes = b""
    extras: Mapping[str, Any] = field(default_factory=dict)
    total: int | None = WEBSITES


@contextmanager
def service_of(form: Form, sandbox: FakeService) -> Iterator[tuple[AnalyticsClient, RawServer]]:
    """Run a service with this form in front of the fake service; return a client of it, and its server."""
    sandbox.configure(deletes="mark" if form.marks else "remove")
    forward = Distortion(sandbox).to_the_sandbox

    def respond(request: Request) -> bytes:
        if form.rejection and len(server.requests) % 5 == 0:
            return form.rejection
        target = _UUID.sub(lambda found: str(UUID(found[0]).int), request.target)
        if form.selects != Form.selects:
            target = re.sub(r"&page=\d+", "", target).replace(form.selects, "&page=")
        status, content = forward(replace(request, target=target))
        if "meta" in content:
            return http(status, form.listed({**content, "data": [form.row(row) for row in content["data"]]}))
        if request.method in ("POST", "PATCH") and form.written and status < 400:
            return form.written
        return http(status, form.record(form.row(content["data"])) if "data" in content else content)

    with served(respond, api_key=sandbox.api_key, **form.extras) as (client, server):
        yield client, server


def numbered(rows: list[Record]) -> Record:
    """Return an object with numbered keys, as PHP writes an array that was filtered."""
    return {str(2 * number): row for number, row in enumerate(rows)}


def flags(false: Any, true: Any) -> Form:
    """Return a form with these flags."""

    def row(website: Record) -> Record:
        return {name: (true if value else false) if name in FLAGS else value for name, value in website.items()}

    return Form(row=row)


def renamed(rename: Callable[[str], str]) -> Form:
    return Form(row=lambda row: {rename(name): value for name, value in row.items()})


def in_json_api(website: Record) -> Record:
    """Return a website with its fields under another key."""
    return {"id": str(website["id"]), "attributes": {name: website[name] for name in website if name != "id"}}


def empty_lists(value: Any) -> Form:
    return Form(row=lambda row: {name: value if found is None else found for name, found in row.items()})


#: Row of the table to its forms.
FORMS_OF_ROWS: dict[str, list[Form]] = {
    "list: bare": [Form(lambda page: page["data"], total=None)],
    "list: data": [Form()],
    "list: key": [Form(lambda page: {"websites": page["data"], "total": page["meta"]["total"]})],
    "list: paginator": [Form(lambda page: {"data": {"data": page["data"], "total": page["meta"]["total"]}})],
    "list: numbered": [
        Form(lambda page: {"data": numbered(page["data"]), "total": page["meta"]["total"]}),
        Form(lambda page: {"websites": numbered(page["data"]) or [], "total": page["meta"]["total"]}),
        Form(lambda page: numbered(page["data"]) or [], total=None),
    ],
    "list: empty": [
        Form(lambda page: {"data": page["data"] or None, "total": page["meta"]["total"]}),
        Form(lambda page: {"data": page["data"] or {}, "total": page["meta"]["total"]}),
    ],
    "total: place": [Form(), Form(lambda page: {"data": page["data"], "meta": {"total": page["meta"]["total"]}})],
    "total: none": [Form(lambda page: {"data": page["data"]}, total=None)],
    "page: number": [Form()],
    "page: parameter": [Form(selects="&p=", extras={"page_parameter": "p"})],
    "page: link": [
        Form(lambda page: {**usual(page), "links": {"next": link(page)}}, selects="&p="),
        Form(lambda page: {**usual(page), "next_page_url": link(page)}, selects="&p="),
    ],
    "page: cursor": [
        Form(lambda page: {"data": page["data"], "next_cursor": cursor(page)}, selects="&cursor=c", total=None),
    ],
    "record: bare": [Form(record=lambda record: record)],
    "record: data": [Form()],
    "record: key": [
        Form(record=lambda record: {"website": record}),
        Form(record=lambda record: {"website": record, "message": "Done."}),
    ],
    "record: none": [
        Form(written=http(204, kind=None)),
        Form(written=http(200, {"message": "Saved."})),
        Form(written=http(200, b"OK", kind="text/plain")),
    ],
    "status of a write: success": [
        Form(written=http(202, b"OK")),
        Form(written=http(206, b"OK")),
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
    # The last one is an entry of an array.
    "error: fields": [
        {"errors": {name: texts}}
        for name, texts in (("domain", ["is taken"]), ("domain", "is taken"), ("domain.0", ["is taken"]))
    ],
    "error: other": [b"is taken", ["is taken"], {"detail": "is taken"}],
}
#: Forms that no task can use, with a part of the message.
NOT_SUPPORTED: list[tuple[Form, str]] = [
    (renamed(lambda name: re.sub("_(.)", lambda found: found[1].upper(), name)), "with the key 'excludeBots'"),
    (renamed(lambda name: name if name == "id" else name.title().replace("_", "")), "with the key 'Domain'"),
    (flags("off", "on"), "with the value 'off'"),
    (Form(row=lambda row: {**row, "privacy": "public"}), "privacy with the value 'public'"),
    (Form(row=lambda row: {**row, "domain": {"name": row["domain"]}}), "domain with the value {'name': '1.example'}"),
    (Form(row=lambda row: {**row, "exclude_ips": {"0": "192.0.2.1"}}), "exclude_ips with the value {'0': '192.0.2.1'}"),
    (Form(row=in_json_api), "the fields of a website under the key 'attributes'"),
]
#: Lists that no task can use, with a part of the message.
LISTS_NOT_SUPPORTED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda page: {"_embedded": {"websites": page["data"]}, "page": {}}, "{_embedded: {websites: array of 1 x object}"),
    (lambda page: {"data": {row["domain"]: row for row in page["data"]}}, "{data: {1.example: object}}"),
    (lambda page: {"data": [{"domain": row["domain"]} for row in page["data"]]}, "a website without an id"),
]


def cases(rows: dict[str, list[Any]]) -> list[Any]:
    """Return a case for each form of the rows."""
    return [pytest.param(form, id=f"{row} {n}") for row, forms in rows.items() for n, form in enumerate(forms, start=1)]


@pytest.mark.parametrize("form", cases(FORMS_OF_ROWS))
def test_every_operation_works_with_a_supported_form(form: Form, analytics_sandbox: FakeService) -> None:
    for number in range(WEBSITES):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="192.0.2.1\n192.0.2.2")
    with service_of(form, analytics_sandbox) as (client, _):
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


OF_LISTS: tuple[Callable[[AnalyticsClient], object], ...] = (
    lambda client: client.list_websites(),
    lambda client: client.ensure_website("new.example"),
)
OF_RECORDS: tuple[Callable[[AnalyticsClient], object], ...] = (
    lambda client: client.get_website(1),
    lambda client: client.update_website(1, favorite=True),
    lambda client: client.delete_website(1),
)


@pytest.mark.parametrize(
    ("form", "shown", "calls"),
    [
        *(pytest.param(form, shown, OF_LISTS + OF_RECORDS, id=shown) for form, shown in NOT_SUPPORTED),
        *(pytest.param(Form(listed), shown, OF_LISTS, id=shown) for listed, shown in LISTS_NOT_SUPPORTED),
    ],
)
def test_operations_fail_before_a_write_with_a_form_that_is_not_supported(
    form: Form, shown: str, calls: tuple[Callable[[AnalyticsClient], object], ...], analytics_sandbox: FakeService
) -> None:
    analytics_sandbox.add_website("1.example")
    with service_of(form, analytics_sandbox) as (client, server):
        for call in calls:
            with pytest.raises(UnexpectedResponseError) as caught:
                call(client)
            error = str(caught.value).replace("\n", " ")
            assert re.search(rf"The service returns .*{re.escape(shown)}", error)
            assert "This form is not supported, so no task can use the service. Expected: " in error
            assert "reference/interface/#supported-forms" in error
        assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("body", cases(ERRORS_OF_ROWS))
def test_error_in_a_supported_form_is_returned_and_not_retried(body: Any, status: int) -> None:
    error = error_of(http(status, body), lambda client: do(client, "update"), AnalyticsApiError)
    assert "is taken" in str(error)
    assert error.errors == ({"domain": ["is taken"]} if "domain" in str(body) else {})
    # A 400 with another body might be of a proxy.
    if status == 422 or isinstance(body, dict):
        remedy = "correct the value first" if error.errors else "follow the message of the service first"
        assert error.before_retry == remedy


def test_table_of_supported_forms_has_a_test_for_each_row() -> None:
    rows = {f"{part}: {form}" for part, forms in FORMS.items() for form in forms}
    assert rows == {*FORMS_OF_ROWS, *ERRORS_OF_ROWS}
