# SPDX-License-Identifier: Apache-2.0
"""Responses that look like a success: a typed error for each operation, never a result (``api/laravel.py``)."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest
from fake_services import FakeService
from operations import OPERATIONS, PREFIX, READS, WRITES
from raw_server import Reply, Request, answer_read, http, list_body
from wire_client import WEBSITE, Time, do, error_of, served

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    NotAppliedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import EXCERPT_LENGTH
from airflow_provider_analytics.sandbox.requests import RecordedRequest

GOOD: dict[str, Any] = {
    **{key: {"data": WEBSITE} for key in OPERATIONS},
    "list": list_body({}, [WEBSITE]),
    "delete": {"id": 7, "object": "website", "deleted": True},
    "account": {"data": {"id": 1, "name": "me"}},
}
EMPTY_LIST = http(200, list_body({}, []))


def outcome(operation: str, reply: bytes | Reply) -> Any:
    """Return the error or the result of an operation with this response."""
    with served(reply, max_retries=0) as (client, _):
        try:
            return do(client, operation)
        except AnalyticsError as error:
            return error


def rejected(operation: str, reply: bytes | Reply) -> Any:
    found = outcome(operation, reply)
    assert isinstance(found, UnexpectedResponseError), found
    return found


BAD_BODIES: dict[str, bytes] = {
    "HTML": http(200, b"<html><body>Login</body></html>", kind="text/html"),
    "HTML without a type": http(200, b"<html><body>Login</body></html>", kind=None),
    "null": http(200, b"null"),
    "a list of numbers": http(200, [1, 2]),
    "data null": http(200, b'{"data": null, "error": "gone"}'),
    "an error with status 200": http(200, {"error": "database is down"}),
    "an error beside good data": http(200, {"success": False, "data": WEBSITE}),
    "a status inside": http(200, {"status": 500, "data": [WEBSITE]}),
    "the lowest error status inside": http(200, {"status": 400, "data": [WEBSITE]}),
    "cut short": http(200, b'{"data": {"id": 7, "dom'),
    "two documents": http(200, b'{"id": 7}{"id": 8}'),
    "nan": http(200, b'{"id": 7, "total": nan, "data": []}'),
    "invalid UTF-8": http(200, b'{"id": 7, "domain": "\xff\xfe"}'),
    "UTF-16": http(200, '{"id": 7}'.encode("utf-16")),
    "nested 100,000 deep": http(200, b'{"data":' + b"[" * 100_000),
    "a number of 5,000 digits": http(200, b'{"id": ' + b"9" * 5000 + b"}"),
    "partial content": http(206, GOOD["show"]),
    "accepted only": http(202, GOOD["show"]),
    "reset content": http(205),
    "status 299": http(299, GOOD["show"]),
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
}


#: Responses after which a write counts as sent.
READ_AFTERWARDS = ("partial content", "accepted only", "status 299")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", BAD_BODIES)
def test_invalid_response_is_not_a_success(operation: str, name: str) -> None:
    error = outcome(operation, BAD_BODIES[name])
    if operation in WRITES and (error is None or name in READ_AFTERWARDS):
        return  # the stored record is read afterwards
    assert isinstance(error, UnexpectedResponseError), error
    assert f"{PREFIX}/" in str(error)
    assert error.method == OPERATIONS[operation].method
    assert isinstance(error.status, int)
    assert len(error.excerpt) <= EXCERPT_LENGTH


@pytest.mark.parametrize("operation", READS)
def test_read_fails_on_an_empty_response_or_another_website(operation: str) -> None:
    for status in (200, 201, 204):
        assert "empty" in str(rejected(operation, http(status, b"")))
    error = rejected("show", http(200, {"data": {"id": 8}}))
    assert "The response is about website 8, but website 7 was requested." in str(error)


@pytest.mark.parametrize("status", [200, 201, 204])
@pytest.mark.parametrize("body", [b"", b" \r\n"])
def test_write_with_an_empty_response_is_verified(status: int, body: bytes) -> None:
    empty = http(status, body if status != 204 else b"")
    assert outcome("delete", empty) is None

    show, newest = http(200, GOOD["show"]), http(200, GOOD["list"])
    before = http(200, {"data": {**WEBSITE, "email": 0}})
    with served([before, empty, show], max_retries=0) as (client, server):
        assert client.update_website(7, email=True).record == WEBSITE
        assert server.sent == [f"{method} /api/v1/websites/7" for method in ("GET", "PATCH", "GET")]
    with served([empty, newest, show], max_retries=0) as (client, server):
        assert client.create_website("new.example", email=True).record == WEBSITE
        assert server.sent == ["POST /api/v1/websites", "GET /api/v1/websites", "GET /api/v1/websites/7"]
    for reply in (EMPTY_LIST, http(500), http(200, b"<html>")):
        assert error_of([empty, reply], lambda client: client.create_website("new.example")).created == ""


def without_length(body: bytes, *headers: str) -> Reply:
    """Return a response of HTTP/1.0, like some proxies: the end of the connection ends the body."""
    head = "\r\n".join(("HTTP/1.0 200 OK", "Content-Type: application/json", *headers))
    return Reply(head.encode() + b"\r\n\r\n" + body, then="close")


@pytest.mark.parametrize("operation", READS)
@pytest.mark.parametrize("is_zipped", [False, True])
def test_truncated_body_without_a_length_is_not_a_success(operation: str, is_zipped: bool) -> None:
    body = json.dumps(GOOD[operation]).encode()
    whole = gzip.compress(body) if is_zipped else body
    headers = ["Content-Encoding: gzip"] if is_zipped else []
    # After the JSON, gzip has eight more bytes.
    for place in range(0, len(whole) - 9, 3):
        rejected(operation, without_length(whole[:place], *headers))


def test_response_after_an_interim_response_belongs_to_its_request() -> None:
    def respond(request: Request) -> bytes | Reply:
        if request.target.endswith("/7"):
            return BAD_BODIES["early hints"] + http(200, {"data": {"id": 7}})
        return http(200, {"data": {"id": 8}})

    with served(respond) as (client, server):
        with pytest.raises(UnexpectedResponseError):
            client.get_website(7)
        assert client.get_website(8) == {"id": 8}
        assert server.connections == 2


def test_update_fails_if_the_service_omits_the_list_that_it_did_not_store(
    client: AnalyticsClient, analytics_sandbox: FakeService
) -> None:
    """The record of the website does not say whether the list is empty, or never returned, but other records do."""
    analytics_sandbox.add_website("other.example", exclude_ips="10.0.0.1")
    website = analytics_sandbox.add_website("shop.example")
    analytics_sandbox.configure(omits="empty", ignored_fields=["exclude_ips"])
    with pytest.raises(NotAppliedError, match=r"exclude_ips lacks 192\.0\.2\.1"):
        client.update_website(website["id"], exclude_ips=["192.0.2.1"])


def test_line_that_another_user_adds_to_a_new_website_at_once_is_no_failure(
    client: AnalyticsClient, analytics_sandbox: FakeService
) -> None:
    def add(request: RecordedRequest) -> None:
        if request.operation == "show":
            analytics_sandbox.change_website(1, exclude_ips="192.0.2.1\n10.9.9.9")

    analytics_sandbox.meanwhile(add)
    written = client.create_website("new.example", exclude_ips=["192.0.2.1"])
    assert (written.record["exclude_ips"], written.unsent) == ("192.0.2.1\n10.9.9.9", {})


def test_value_that_appears_with_the_update_was_changed_by_it(
    client: AnalyticsClient, analytics_sandbox: FakeService
) -> None:
    """The service omits empty values, and no website has another one, so no record contained the field before."""
    website = analytics_sandbox.add_website("shop.example", exclude_bots=0)
    analytics_sandbox.configure(omits="empty", updates="reset others")
    with pytest.raises(NotAppliedError, match="exclude_bots is True, was False"):
        client.update_website(website["id"], privacy=1)


def test_update_is_unverified_if_the_list_that_would_contain_the_field_cannot_be_read(
    client: AnalyticsClient, analytics_sandbox: FakeService
) -> None:
    website = analytics_sandbox.add_website("shop.example", privacy=1)
    analytics_sandbox.configure(omits="empty", ignored_fields=["exclude_ips"])
    analytics_sandbox.fault("list", status=403, times=None)
    assert "exclude_ips" in client.update_website(website["id"], exclude_ips=["192.0.2.1"]).unverified


# Rejected values, as frameworks report them, and writes that are applied later


@pytest.mark.parametrize(("operation", "body"), [*((read, b"{}") for read in READS), ("update", b"<html>Bad Request")])
def test_task_can_retry_a_read_with_status_400_and_a_write_with_a_web_page(operation: str, body: bytes) -> None:
    error = error_of(http(400, body), lambda client: do(client, operation), AnalyticsApiError)
    assert error.before_retry == ""


class LateService:
    """A service that responds to writes with 202, and applies them some seconds later."""

    def __init__(self, time: Time, seconds: float) -> None:
        self.time = time
        self.seconds = seconds
        self.record: dict[str, Any] | None = {**WEBSITE, "email": 0}
        self._changes: list[tuple[float, dict[str, Any] | None]] = []

    def __call__(self, request: Request) -> bytes:
        for at, record in self._changes:
            if self.time.now >= at:
                self.record = record
        if request.method == "GET":
            return answer_read(request, [self.record] if self.record else [])
        changed = {"POST": {**WEBSITE}, "PATCH": {**WEBSITE, "email": 1}, "DELETE": None}[request.method]
        self._changes.append((self.time.now + self.seconds, changed))
        return http(202, {"message": "queued"})


@pytest.fixture
def _real_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()


@pytest.mark.usefixtures("_real_waits")
@pytest.mark.parametrize("seconds", [2, 10, 25])
def test_client_waits_for_an_accepted_write(seconds: float) -> None:
    time = Time()
    service = LateService(time, seconds)
    with served(service, time) as (client, _):
        assert client.update_website(7, email=True).record["email"] == 1
    service = LateService(time, seconds)
    with served(service, time) as (client, _):
        client.delete_website(7)
    service = LateService(time, seconds)
    service.record = None
    with served(service, time) as (client, server):
        assert client.ensure_website("new.example").created
        assert [request.method for request in server.requests].count("POST") == 1


@pytest.mark.usefixtures("_real_waits")
def test_accepted_write_that_is_not_applied_in_time_is_reported_as_accepted() -> None:
    for call in (lambda client: client.update_website(7, email=True), lambda client: client.delete_website(7)):
        time = Time()
        error = error_of(LateService(time, 10_000), call, NotAppliedError, time=time)
        assert re.search(r"accepted the write.* \(202\), but it is not in effect after 31.5 s", str(error))


@pytest.mark.usefixtures("_real_waits")
def test_write_with_another_status_is_not_waited_for_longer() -> None:
    time = Time()
    record = http(200, {"data": {**WEBSITE, "email": 0}})
    error = error_of(record, lambda client: client.update_website(7, email=True), NotAppliedError, time=time)
    assert "accepted the write" not in str(error)
    assert sum(time.slept) < 20


@pytest.mark.usefixtures("_real_waits")
def test_update_that_is_stored_in_part_is_reported_after_three_equal_reads() -> None:
    """The privacy that was sent is returned, so the reads are current, and the address will not be stored."""
    time = Time()
    before = http(200, {"data": {**WEBSITE, "privacy": 0, "exclude_ips": None}})
    after = http(200, {"data": {**WEBSITE, "privacy": 1, "exclude_ips": None}})

    def update(client: AnalyticsClient) -> None:
        client.update_website(7, privacy="private", exclude_ips=["192.0.2.1"])

    error_of([before, after], update, NotAppliedError, "exclude_ips lacks 192.0.2.1", time=time)
    assert sum(time.slept) < 6


def test_texts_of_a_boolean_that_the_service_accepts_are_sent_from_then_on() -> None:
    record = {**WEBSITE, "favorite": False}

    def respond(request: Request) -> bytes:
        if request.method == "PATCH":
            text = request.body.decode().removeprefix("favorite=")
            if text not in ("false", "true"):
                return http(422, {"message": "Invalid.", "errors": {"favorite": ["Write true or false."]}})
            record["favorite"] = text == "true"
        return http(200, {"data": record})

    with served(respond) as (client, server):
        for value in (True, False):
            assert client.update_website(7, favorite=value).sent
        sent = [request.body for request in server.requests if request.method == "PATCH"]
    assert sent == [b"favorite=1", b"favorite=true", b"favorite=false"]


@pytest.mark.parametrize(
    ("service", "is_permanent"),
    [
        # A retry would find nothing to do, and hide the values that were lost.
        ({"updates": "reset others"}, True),
        ({"updates": "absent is zero", "ignored_fields": ["exclude_ips"]}, True),
        ({"lists_stored": "40 characters"}, True),
        ({"ignored_fields": ["exclude_ips"]}, False),
    ],
)
def test_update_that_loses_values_is_not_retried(
    client: AnalyticsClient, analytics_sandbox: FakeService, service: dict[str, Any], is_permanent: bool
) -> None:
    website = analytics_sandbox.add_website("shop.example", privacy=1, exclude_bots=1)
    analytics_sandbox.configure(**service)
    with pytest.raises(NotAppliedError) as caught:
        client.update_website(website["id"], exclude_ips=[f"192.0.2.{number}" for number in range(1, 9)])
    assert caught.value.permanent is is_permanent
