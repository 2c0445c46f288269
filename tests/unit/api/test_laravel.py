# SPDX-License-Identifier: Apache-2.0
"""Forms of responses: records, pages of the list, errors, and rate limits (``api/laravel.py``)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

import pytest

from airflow_provider_analytics.api import laravel
from airflow_provider_analytics.api.checks import MAX_DEPTH
from airflow_provider_analytics.api.laravel import Answer, Page, Selection
from airflow_provider_analytics.exceptions import UnexpectedResponseError
from airflow_provider_analytics.readable import Redactor

LIST = "/api/v1/websites"
FIRST, SECOND = {"id": 1, "domain": "a.example"}, {"id": "x-2", "domain": "b.example"}


def answer(
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    *,
    status: int = 200,
    method: str = "GET",
    content: bytes | None = None,
    secrets: tuple[str, ...] = (),
) -> Answer:
    """Return a response with a JSON body, or with other content."""
    if content is None:
        content = json.dumps(body).encode()
    redact = Redactor()
    for secret in secrets:
        redact.add(secret)
    return Answer(method, LIST, status, headers or {}, content, redact)


@pytest.mark.parametrize(
    ("link", "selected"),
    [
        ("?page=2", Selection("page", "2")),
        ("https://other.example/app/api/v1/websites?page=2", Selection("page", "2")),
        ("http://10.0.0.1/websites/?page=2", Selection("page", "2")),
        ("?p=2", Selection("p", "2")),
        ("?per_page=10&sort=desc&search=a&p=2", Selection("p", "2")),
        ("?tenant=7&page=2", Selection("page", "2")),
        ("?tenant=7&lang=de&cursor=abc", Selection("cursor", "abc")),
        ("?tenant=7&offset=100", Selection()),
        ("?tenant=7&lang=de", Selection()),
        ("?page=2&cursor=abc", Selection()),
        ("?sort=desc", Selection()),
        ("", Selection()),
        ("/api/v1/accounts?page=2", Selection()),
        ("//[broken?page=2", Selection()),
    ],
)
def test_next_link_selects_a_page_by_the_parameter_that_is_not_a_filter(link: str, selected: Selection) -> None:
    assert laravel.selection(link, LIST) == selected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([FIRST, SECOND], {}),
        ({"data": [FIRST, SECOND]}, {}),
        ({"websites": [FIRST, SECOND]}, {}),
        ({"websites": [FIRST, SECOND], "links": [], "errors": []}, {}),
        ({"data": [FIRST, SECOND], "accounts": [{"id": 5}]}, {}),
        ({"data": {"0": FIRST, "2": SECOND}, "total": 2}, {"total": 2}),
        ({"data": {"data": [FIRST, SECOND], "total": 9, "current_page": 1}}, {"total": 9, "current_page": 1}),
        ({"data": [FIRST, SECOND], "total": "9", "current_page": "3"}, {"total": 9, "current_page": 3}),
        ({"data": [FIRST, SECOND], "meta": {"total": 9, "links": [{"label": "1"}]}, "links": {"next": "?page=2"}},
         {"total": 9, "following": Selection("page", "2")}),
        ({"data": [FIRST, SECOND], "next_page_url": "?page=2"}, {"following": Selection("page", "2")}),
        ({"data": [FIRST, SECOND], "next_page_url": "?sort=asc"}, {"following": Selection()}),
        ({"data": [FIRST, SECOND], "meta": {"next_cursor": "c"}}, {"following": Selection("cursor", "c")}),
        ({"data": [FIRST, SECOND], "next_cursor": None, "next_page_url": None}, {}),
        ({"data": [FIRST, SECOND], "next_cursor": True, "total": True}, {}),
    ],
)  # fmt: skip
def test_rows_and_metadata_of_a_page_are_found(body: Any, expected: dict[str, Any]) -> None:
    page = laravel.page(answer(body))
    found = {name: getattr(page, name) for name in ("total", "current_page", "following")}
    assert page.rows == [FIRST, SECOND]
    assert found == {"total": None, "current_page": None, "following": None, **expected}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"a": [FIRST], "b": [SECOND]}, r"\{a: array of 1 x object, b: array of 1 x object\}"),
        ({"data": "text"}, r"returns \{data: text\}"),
        ({"data": {"items": [FIRST], "pages": 3, "more": [FIRST]}}, r"returns \{data: \{items: array"),
        ({"data": {}, "total": 3}, r"returns \{data: \{\}, total: number\}"),
        ([FIRST, "text"], "returns array of 2 x object"),
        ([{"domain": "a.example"}], "a website without an id"),
        ([{"id": True}], "the id True"),
        ([{"id": 1.5}], "the id 1.5"),
        ([{"id": ""}], "the id ''"),
        ([{"id": "x" * (laravel.MAX_ID_LENGTH + 1)}], "the id 'xxx"),
        ([{"id": "a\u200bb"}], "a website with the id"),
        ({"error": "down", "data": [FIRST]}, "reports a failure"),
        ({"success": "false", "data": [FIRST]}, "reports a failure"),
        ({"status": 400, "data": [FIRST]}, "reports a failure"),
        ({"status": "failed", "data": [FIRST]}, "reports a failure"),
    ],
)
def test_page_that_cannot_be_used_is_an_error(body: Any, problem: str) -> None:
    with pytest.raises(UnexpectedResponseError, match=problem):
        laravel.page(answer(body))


@pytest.mark.parametrize("status", [399, "200", "ok", None, True])
def test_unknown_status_in_the_body_is_ignored(status: object) -> None:
    assert laravel.page(answer({"status": status, "success": True, "error": None, "data": [FIRST]})).rows == [FIRST]


def test_id_of_the_maximum_length_is_accepted() -> None:
    row = {"id": "x" * laravel.MAX_ID_LENGTH}
    assert laravel.page(answer([row])).rows == [row]


def test_page_counts_its_bytes_and_about_its_values() -> None:
    page = laravel.page(answer(content=b'{"data": [{"id": 1}, {"id": 2}]}'))
    assert page == Page([{"id": 1}, {"id": 2}], size=32, values=8)


@pytest.mark.parametrize(
    "body",
    [
        FIRST,
        {"data": FIRST},
        {"website": FIRST},
        {"message": "Created.", "website": FIRST},
        {"status": 201, "x": FIRST},
    ],
)
def test_record_is_the_body_or_its_only_object(body: Any) -> None:
    assert laravel.record(answer(body)) == FIRST


@pytest.mark.parametrize(
    "body",
    [{}, [], None, "text", {"message": "Created."}, {"a": FIRST, "b": SECOND}, {"id": None}, {"data": {"a": FIRST}}],
)
def test_body_without_a_record_fails_a_read_and_not_a_write(body: Any) -> None:
    assert laravel.record_or_none(answer(body, method="POST", status=201)) is None
    with pytest.raises(UnexpectedResponseError, match="Expected: a website with an id"):
        laravel.record(answer(body))


@pytest.mark.parametrize("text", [b"OK", b"true", b"Created", b"\r\n"])
def test_text_without_a_record_is_read_back_after_a_write(text: bytes) -> None:
    for kind in ("text/plain", "application/json", "text/html"):
        found = answer(content=text, headers={"Content-Type": kind}, method="PATCH")
        assert laravel.record_or_none(found) is None


def test_record_of_a_response_that_reports_no_outcome_is_not_used() -> None:
    assert laravel.record_or_none(answer(FIRST, method="POST", status=202)) is None
    assert laravel.record_or_none(answer(FIRST, method="POST", status=201)) == FIRST


@pytest.mark.parametrize(
    ("status", "is_read", "is_write"),
    [(200, True, True), (201, True, True), (204, True, True), (202, False, True), (206, False, True),
     (207, False, True), (304, False, False), (400, False, False)],
)  # fmt: skip
def test_status_is_a_success_by_its_code_for_reads_and_writes(status: int, is_read: bool, is_write: bool) -> None:
    assert laravel.is_success(answer(status=status)) is is_read
    assert laravel.is_success(answer(status=status, method="PATCH")) is is_write


def test_field_nested_too_deeply_is_an_error() -> None:
    deep: Any = "end"
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert laravel.record(answer({"id": 1, "extra": deep}))["extra"] == deep
    with pytest.raises(UnexpectedResponseError, match="nested more than"):
        laravel.record(answer({"id": 1, "extra": [deep]}))


@pytest.mark.parametrize("body", [{"id": "key-5f2a", "domain": "a.example"}, {"id": 1, "domain": "key-5f2a.example"}])
def test_secret_in_an_id_or_a_domain_is_an_error(body: Any) -> None:
    with pytest.raises(UnexpectedResponseError, match="a secret in an id or in a domain"):
        laravel.record(answer(body, secrets=("key-5f2a",)))
    with pytest.raises(UnexpectedResponseError, match="a secret in an id or in a domain"):
        laravel.page(answer([FIRST, body], secrets=("key-5f2a",)))


def test_account_is_identified_by_its_best_field() -> None:
    assert laravel.account(answer({"data": {"email": "a@example.com"}})) == {"email": "a@example.com"}
    assert laravel.account_id({"email": "a@example.com", "uuid": "u", "name": "n"}) == "u"
    assert laravel.account_id({"id": 0, "uuid": "u"}) == "0"
    assert laravel.account_id({"id": "", "name": "n"}) == "n"
    assert laravel.account_id({}) is None
    bodies: list[Any] = [{}, {"message": "ok"}, []]
    for body in bodies:
        with pytest.raises(UnexpectedResponseError, match="Expected: an account"):
            laravel.account(answer(body))


@pytest.mark.parametrize("kind", ["application/json", "application/vnd.api+json", "text/html", "text/plain", ""])
def test_json_of_any_usual_type_is_read(kind: str) -> None:
    assert laravel.document(answer({"a": 1}, {"Content-Type": kind})) == {"a": 1}


@pytest.mark.parametrize(
    ("content", "kind", "problem"),
    [
        (b" \n", "application/json", "The response is empty"),
        (b"f({})", "application/jsonp", "not JSON. Its type is 'application/jsonp'"),
        (b"{", "text/html", "not JSON. Its type is 'text/html'"),
        (b"<!DOCTYPE html><p>Login", "text/html", "a web page"),
        (b"<html>", "text/plain", "a web page"),
        (b"{", "application/json", "not JSON"),
        (b'{"a": "\\ud83d", "b": nan}', "", "not JSON"),
    ],
)
def test_response_that_is_not_json_is_garbled(content: bytes, kind: str, problem: str) -> None:
    with pytest.raises(UnexpectedResponseError, match=problem) as error:
        laravel.document(answer(content=content, headers={"Content-Type": kind}))
    assert error.value.is_garbled


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), ("5", 5), (" 5 ", 5), ("0", 0), (-1, None), ("1.5", None), (1.5, None), (True, None), (None, None),
     ("", None), ("9" * 18, 10**18 - 1), ("9" * 19, None)],
)  # fmt: skip
def test_number_is_a_whole_number_or_its_text(value: object, number: int | None) -> None:
    assert laravel.number(value) == number


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        (" 1.5 ", 1.5),
        (formatdate(0, usegmt=True), 0),
        ("Mon, 01 Jan 0001 00:00:00 -0000", 0),
        *((text, None) for text in ("soon", "-5", "", "1,2", "Mon, 99 Foo 2026")),
    ],
)
def test_time_to_retry_after_is_read(value: str, seconds: float | None) -> None:
    assert laravel.retry_after({"Retry-After": value}) == seconds


@pytest.mark.usefixtures("time_zone")
def test_time_to_retry_after_can_be_a_date_in_any_time_zone() -> None:
    seconds = laravel.retry_after({"Retry-After": formatdate(time.time() + 3600, usegmt=True)})
    assert seconds is not None
    assert 3000 < seconds < 4000


@pytest.mark.parametrize(
    ("body", "message", "errors"),
    [
        ({"message": "No."}, "No.", {}),
        ({"error": "No."}, "No.", {}),
        ({"message": "No.", "errors": {"domain": ["Taken.", "Old."], "email": "Bad."}}, "No.",
         {"domain": ["Taken.", "Old."], "email": ["Bad."]}),
        ({"message": "No.", "errors": {"exclude_ips.0": ["Bad."]}}, "No.", {"exclude_ips": ["Bad."]}),
        ({"detail": "No."}, '{"detail": "No."}', {}),
        (["No."], '["No."]', {}),
    ],
)  # fmt: skip
def test_messages_of_an_error_are_found(body: Any, message: str, errors: dict[str, list[str]]) -> None:
    assert laravel.error_details(answer(body, status=422, method="POST")) == (message, errors)


def test_messages_of_an_error_are_limited() -> None:
    many = [f"Problem {number}" for number in range(laravel.MAX_MESSAGES + 1)]
    _, errors = laravel.error_details(answer({"message": "No.", "errors": {"domain": many}}, status=422))
    assert errors == {"domain": many[: laravel.MAX_MESSAGES]}
    _, errors = laravel.error_details(answer({"message": "No.", "errors": dict.fromkeys(many, "Bad.")}, status=422))
    assert list(errors) == many[: laravel.MAX_MESSAGES]


def test_facts_of_an_error_are_read_from_headers() -> None:
    headers = {"Retry-After": "7", "X-Request-Id": "r-1", "X-RateLimit-Remaining": "0", "Server": "nginx"}
    always = ["Retry-After 7 s", "X-Request-Id r-1"]
    limited = ["Retry-After 7 s", "X-RateLimit-Remaining 0", "X-Request-Id r-1"]
    assert laravel.error_facts(answer(status=429, headers=headers)) == limited
    assert laravel.error_facts(answer(status=422, headers=headers)) == always


def test_page_of_nginx_or_a_login_is_recognized() -> None:
    page = b"<html><head><title>503 Service &amp; more</title></head><hr><center>nginx</center>"
    limited = answer(content=page, status=503, headers={"Content-Type": "text/html"})
    assert laravel.is_html(limited)
    assert laravel.is_limited(limited)
    assert laravel.page_title(limited) == "503 Service & more"
    assert not laravel.is_limited(answer(content=page, status=502))
    assert not laravel.is_html(answer({"a": "<html>"}, {"Content-Type": "text/html"}))
    assert laravel.page_title(answer(content=b" " * 5000 + page)) == ""


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"excludeIps": ""}, "exclude_ips with the key 'excludeIps'"),
        ({"ExcludeBots": True}, "exclude_bots with the key 'ExcludeBots'"),
        ({"favorite": "on"}, "favorite with the value 'on'"),
        ({"exclude_bots": "OFF"}, "exclude_bots with the value 'OFF'"),
    ],
)
def test_read_fails_if_a_field_has_an_unsupported_form(fields: dict[str, Any], shown: str) -> None:
    unsupported = {**FIRST, **fields}
    for read in (lambda: laravel.page(answer([unsupported, SECOND])), lambda: laravel.record(answer(unsupported))):
        with pytest.raises(UnexpectedResponseError, match=f"{shown}. This form is not supported"):
            read()
    # A response to a write is no proof that it failed.
    assert laravel.record_or_none(answer(unsupported, method="PATCH")) == unsupported
    for supported in ({"exclude_ips": None, "excludeIps": ""}, {"favorite": "true", "email": "1", "createdAt": 1}):
        assert laravel.record(answer({**FIRST, **supported}))["id"] == 1
