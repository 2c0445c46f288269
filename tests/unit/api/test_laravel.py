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
from airflow_provider_analytics.api.laravel import Answer
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
) -> Answer:
    """Return a response with a JSON body, or with other content."""
    if content is None:
        content = json.dumps(body).encode()
    return Answer(method, LIST, status, headers or {}, content, Redactor())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"a": [FIRST], "b": [SECOND]}, r"\{a: array of 1 x object, b: array of 1 x object\}"),
        ({"data": "text"}, r"returns \{data: text\}"),
        ({"data": {"items": [FIRST], "pages": 3, "more": [FIRST]}}, r"returns \{data: \{items: array"),
        ({"data": {}, "total": 3}, r"returns \{data: \{\}, total: number\}"),
        ({"result": {"data": [FIRST]}}, r"returns \{result: \{data: array of 1 x object"),
        ({"data": {"data": {"data": [FIRST]}}}, r"returns \{data: \{data: object"),
        ({"data": "", "total": 0}, r"returns \{data: text, total: number"),
        ({"total": 0}, r"returns \{total: number"),
        ("1.example", "returns text"),
        ([FIRST, "text"], "returns array of 2 x object"),
        ([[FIRST]], "returns array of 1 x array"),
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


def test_id_of_the_maximum_length_is_accepted() -> None:
    row = {"id": "x" * laravel.MAX_ID_LENGTH}
    assert laravel.page(answer([row])).rows == [row]


@pytest.mark.parametrize(
    "body",
    [{}, [], None, "text", {"message": "Created."}, {"a": FIRST, "b": SECOND}, {"id": None}, {"data": {"a": FIRST}}],
)
def test_body_without_a_record_fails_a_read_and_not_a_write(body: Any) -> None:
    assert laravel.record_or_none(answer(body, method="POST", status=201)) is None
    with pytest.raises(UnexpectedResponseError, match="Expected: a website with an id"):
        laravel.record(answer(body))


@pytest.mark.parametrize(
    ("account", "found"),
    [
        *(
            ({"plan": "free", name: "a@example.com"}, "a@example.com")
            for name in ("id", "uuid", "email", "username", "name")
        ),
        ({"email": "a@example.com", "uuid": "u", "name": "n"}, "u"),
        ({"id": 0, "uuid": "u"}, "0"),
        ({"id": "", "name": "n"}, "n"),
        ({}, None),
    ],
)
def test_account_is_identified_by_its_best_field(account: dict[str, Any], found: str | None) -> None:
    assert laravel.account_id(account) == found


def test_account_of_any_structure_is_read() -> None:
    assert laravel.account(answer({"data": {"email": "a@example.com"}})) == {"email": "a@example.com"}
    bodies: list[Any] = [{}, {"message": "ok"}, []]
    for body in bodies:
        with pytest.raises(UnexpectedResponseError, match="Expected: an account"):
            laravel.account(answer(body))


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
