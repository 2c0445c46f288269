# SPDX-License-Identifier: Apache-2.0
"""Retries: requests, waits, and creates that are never applied twice (``api/transport.py``)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from local_airflow import free_port
from operations import OPERATIONS, READS
from raw_server import Reply, Request, answer_read, http, list_body
from wire_client import WEBSITE, Time, client_of, do, error_of, served

from airflow_provider_analytics.api.client import AnalyticsClient, Meant
from airflow_provider_analytics.api.transport import FIRST_BACKOFF, MAX_BACKOFF
from airflow_provider_analytics.api.waiting import ANNOUNCED_FROM, MAX_WAIT, MIN_INTERVAL, Stopping
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    NotAppliedError,
    NotFoundError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

GOOD = {
    "list": http(200, list_body({}, [WEBSITE])),
    "account": http(200, {"data": {"id": 1}}),
    "delete": http(204, kind=None),
}
RECORD = http(200, {"data": WEBSITE})
REPEATABLE = (*READS, "update", "delete")

CUT = http(200, b'{"data"', length=500)
BROKEN, FAILED = AnalyticsConnectionError, AnalyticsApiError
#: Faults of any request, and their errors.
FAULTS: dict[str, tuple[bytes | Reply, type[AnalyticsError]]] = {
    "closed without an answer": (Reply(then="close"), BROKEN),
    "reset without an answer": (Reply(then="reset"), BROKEN),
    "no HTTP": (Reply(b"hello\r\n\r\n", then="close"), BROKEN),
    "cut in the first line": (Reply(b"HTTP/1.1 20", then="close"), BROKEN),
    "cut in the body": (Reply(CUT, then="close"), BROKEN),
    "reset in the body": (Reply(CUT, then="reset"), BROKEN),
    "no answer in time": (Reply(then="hang"), BROKEN),
    "a body that stops": (Reply(CUT, then="hang"), BROKEN),
    "a body that is not gzip": (http(200, b"{}", headers=[("Content-Encoding", "gzip")]), BROKEN),
    "408": (http(408, {"message": "too slow"}), FAILED),
    "500": (http(500, {"message": "oops"}), FAILED),
    "502, an HTML page": (http(502, b"<html>Bad gateway</html>", kind="text/html"), FAILED),
    "504": (http(504), FAILED),
    "429": (http(429, {"message": "slow down"}), FAILED),
    "503": (http(503), FAILED),
    "503 with Retry-After": (http(503, headers=[("Retry-After", "3")]), FAILED),
    "520, of a proxy": (http(520, b"<html>Unknown error</html>", kind="text/html"), FAILED),
}
#: Fault to a part of its error.
PROBLEMS = {
    "cut in the body": "The response was cut off",
    "reset in the body": "The response was cut off",
    "no answer in time": "did not respond within 0.05 s",
    "a body that stops": "The response stalled for 0.05 s",
    "a body that is not gzip": "its gzip stream cannot be read",
}
#: Faults that last until the client times out.
STALLING = ("no answer in time", "a body that stops")
#: Responses of a rate limit, which have their own time limit for retries: see test_rate_limits.py.
REFUSALS = ("429", "503", "503 with Retry-After")
#: After these, a create might have been applied: a proxy might send 503 after it has passed the request on.
UNCLEAR = tuple(name for name in FAULTS if name != "429")


def good(operation: str) -> bytes:
    return GOOD.get(operation, RECORD)


def timeout_for(fault: str, stalling: float = 0.5) -> float:
    """Return a timeout in which even a busy machine responds; shorter for a fault that the client waits for."""
    return stalling if fault in STALLING else 30


@pytest.mark.parametrize("operation", REPEATABLE)
@pytest.mark.parametrize("fault", FAULTS)
def test_request_succeeds_after_two_faults(operation: str, fault: str) -> None:
    reply, _ = FAULTS[fault]
    requests = 2 + OPERATIONS[operation].requests
    # A timeout of 0.05 s avoids most of the waiting. If the good response took longer, a longer timeout decides.
    for stalling in (0.05, 0.5, 5):
        time = Time()
        replies: list[bytes | Reply] = [reply, reply, good(operation)]
        stopping = timeout_for(fault, stalling)
        with served(replies, time, timeout=stopping) as (client, server), suppress(AnalyticsConnectionError):
            do(client, operation)
            received = [request.raw for request in server.received(requests)]
            if client.stats.retries == 2 or fault not in STALLING:
                break
    assert (len(received), len(set(received[:3]))) == (requests, 1)
    assert (client.stats.requests, client.stats.retries) == (requests, 2)
    assert len(time.slept) == 2 or fault in REFUSALS


@pytest.mark.parametrize("operation", REPEATABLE)
@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in REFUSALS])
@pytest.mark.long
def test_request_fails_after_the_last_retry(operation: str, fault: str) -> None:
    reply, kind = FAULTS[fault]
    with served(reply, timeout=timeout_for(fault, 0.05), max_retries=2) as (client, server):
        with pytest.raises(kind) as caught:
            do(client, operation)
        assert len(server.received(3)) == client.stats.requests == 3
    error: Any = caught.value
    assert [type(earlier) for earlier in error.earlier] == [kind, kind]
    assert PROBLEMS.get(fault, "") in str(error)
    if fault.endswith("in the body"):
        assert (error.status, error.transient, error.sent) == (200, True, True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 418, 422, 501, 505])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_permanent_failure_is_sent_once(operation: str, status: int) -> None:
    with served(http(status, {"message": "no"})) as (client, server):
        with pytest.raises(AnalyticsApiError):
            do(client, operation)
        assert [request.method for request in server.requests].count(server.requests[0].method) == 1


def test_backoff_doubles_with_jitter_up_to_its_maximum() -> None:
    seen: list[list[float]] = []
    for _ in range(30):
        time = Time()
        error_of(http(500), kind=AnalyticsApiError, time=time, max_retries=7)
        seen.append(time.slept)
    for number, waits in enumerate(zip(*seen, strict=True)):
        bound = min(FIRST_BACKOFF * 2**number, MAX_BACKOFF)
        assert all(bound / 2 <= wait <= bound for wait in waits)
        assert max(waits) > 3 * bound / 4 > min(waits)
        assert len(set(waits)) > 20


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"X-RateLimit-Reset": "20"}, MIN_INTERVAL),
        ({"Retry-After": "60"}, 60),
        ({"X-RateLimit-Reset": "20", "Retry-After": "7"}, 7),
        ({"Retry-After": "soon"}, MIN_INTERVAL),
    ],
)
@pytest.mark.parametrize(
    ("operation", "status"), [("create", 429), *((name, status) for name in REPEATABLE for status in (429, 503))]
)
def test_client_waits_as_long_as_retry_after(
    operation: str, status: int, headers: dict[str, str], seconds: float
) -> None:
    time = Time()
    rejection = http(status, headers=[*headers.items()])
    with served([rejection, good(operation)], time) as (client, server):
        do(client, operation)
        assert len(server.requests) == 1 + OPERATIONS[operation].requests
    assert time.slept[0] == pytest.approx(seconds)
    assert sum(time.slept[1:]) <= MIN_INTERVAL


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("value", ["61", "86400", "9" * 400, "Fri, 01 Jan 2100 00:00:00 GMT"])
@pytest.mark.parametrize("operation", ["list", "create", "update"])
def test_request_fails_at_once_if_retry_after_is_too_long(operation: str, value: str, status: int) -> None:
    time = Time()
    with served(http(status, headers=[("Retry-After", value)]), time) as (client, server):
        with pytest.raises(AnalyticsApiError) as caught:
            do(client, operation)
        assert len(server.requests) == 1
    asked = caught.value.retry_after or 0
    assert asked > MAX_WAIT
    assert f"a pause of {asked:.0f} s, but a task waits at most 60 s" in caught.value.remedy
    assert time.slept == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_connection_refused_by_the_host_is_retried_then_reported(operation: str) -> None:
    time = Time()
    with client_of(f"http://127.0.0.1:{free_port()}", time, max_retries=2) as client:
        with pytest.raises(AnalyticsConnectionError, match="cannot be reached") as caught:
            do(client, operation)
        assert client.stats.requests == 3
    assert (caught.value.sent, len(time.slept)) == (False, 2)


class Service:
    """Stores each post, then loses the response in one of several ways."""

    def __init__(self, reply: bytes | Reply, stores: bool) -> None:
        self.stored: list[str] = []
        self._reply = reply
        self._stores = stores

    def __call__(self, request: Request) -> bytes | Reply:
        if request.method == "POST":
            if self._stores:
                self.stored.append(request.body.decode())
            return self._reply
        return answer_read(request, [WEBSITE] if self.stored else [])


@pytest.mark.parametrize("fault", UNCLEAR)
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.long
def test_create_with_a_lost_response_is_never_retried_and_never_succeeds(fault: str, stored: bool) -> None:
    """Another task might have created the website that a lookup finds now."""
    service = Service(FAULTS[fault][0], stores=stored)
    with served(service, timeout=timeout_for(fault)) as (client, server):
        with pytest.raises(AmbiguousWriteError) as caught:
            client.create_website("new.example")
        assert isinstance(caught.value.earlier[-1], FAULTS[fault][1])
        assert server.sent == ["POST /api/v1/websites"]
        if stored:
            written = client.ensure_website("new.example")
            assert (written.record, written.created) == (WEBSITE, False)
            assert service.stored == ["domain=new.example"]


def test_unclear_create_has_outcome_cause_remedy_and_request_in_lines_of_their_own() -> None:
    with served(http(502)) as (client, _), pytest.raises(AmbiguousWriteError) as caught:
        client.create_website("new.example")
    outcome, cause, remedy, request, _ = str(caught.value).splitlines()
    assert outcome == "Website 'new.example' might have been created."
    assert "502 Bad Gateway" in cause
    assert remedy.startswith("A retry of an operator looks the website up first.")
    assert request.endswith("Request: POST /api/v1/websites.")


#: A list that lacks websites.
UNPROVEN = http(200, {"data": [{"id": 1, "domain": "other.example"}], "total": 9})


@pytest.mark.parametrize("fault", [*FAULTS, "unproven"])
@pytest.mark.long
def test_failed_lookup_never_leads_to_a_create(fault: str) -> None:
    reply = FAULTS.get(fault, (UNPROVEN,))[0]
    with served(reply, timeout=timeout_for(fault, 0.05), max_retries=1) as (client, server):
        with pytest.raises(AnalyticsError):
            client.ensure_website("new.example")
        assert "POST /api/v1/websites" not in server.sent


@pytest.mark.parametrize(
    ("first", "succeeds"),
    [*((name, True) for name in ("no answer in time", "500", "503", "cut in the body")), ("429", False)],
)
def test_delete_succeeds_if_its_retry_finds_nothing(first: str, succeeds: bool) -> None:
    """404 is a success only if an earlier attempt might have deleted the website."""
    replies = [RECORD, FAULTS[first][0], http(404, {"message": "no such website"})]
    with served(replies, timeout=timeout_for(first)) as (client, server):
        if succeeds:
            client.delete_website(7)
        else:
            with pytest.raises(NotFoundError):
                client.delete_website(7)
        assert [request.method for request in server.requests][:3] == ["GET", "DELETE", "GET"]
        assert len(server.requests) == 4


def test_delete_succeeds_if_a_read_before_its_retry_is_old() -> None:
    """The response to the delete is lost, a replica still returns the website, and the retry finds nothing."""
    gone = http(404, {"message": "no such website"})
    with served([RECORD, FAULTS["500"][0], RECORD, gone]) as (client, server):
        client.delete_website(7)
        assert [request.method for request in server.requests][:4] == ["GET", "DELETE", "GET", "DELETE"]


@pytest.mark.parametrize("expected", [None, WEBSITE["domain"]])
def test_delete_succeeds_if_its_id_is_given_to_a_new_website_at_once(expected: str | None) -> None:
    other = http(200, {"data": {**WEBSITE, "domain": "colleague.example"}})
    with served([RECORD, http(204), other]) as (client, server):
        client.delete_website(7, expected_domain=expected)
        assert [request.method for request in server.requests] == ["GET", "DELETE", "GET"]


def test_closed_idle_connection_does_not_count_as_a_fault() -> None:
    with served(Reply(RECORD, then="close"), max_retries=0) as (client, server):
        for _ in range(3):
            server.closed.clear()
            assert client.get_website(7) == WEBSITE
            server.closed.wait(5)
        assert server.connections == 3


def test_retry_is_logged_with_attempt_wait_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    caplog.set_level("INFO")
    with served([http(500, {"message": "busy"}), RECORD], time) as (client, _):
        client.get_website(7)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == (
        f"Attempt 1 of 4 failed, retrying in {time.slept[0]:.1f} s: GET /api/v1/websites/7. "
        "The service failed (500 Internal Server Error). Check the log of the service."
    )


def test_each_long_wait_between_attempts_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Only two lines would be logged if there were one in thirty seconds; short waits have none of their own."""
    time = Time()
    caplog.set_level("INFO")
    with served(http(500, {}), time, max_retries=6) as (client, _), suppress(AnalyticsApiError):
        client.get_website(7)
    long = [seconds for seconds in time.slept if seconds > ANNOUNCED_FROM]
    assert [message.partition(":")[0].partition(", ")[2] for message in caplog.messages[-len(long) :]] == [
        f"retrying in {seconds:.1f} s" for seconds in long
    ]
    assert len(caplog.messages) < len(time.slept)


def test_retried_update_is_computed_from_a_new_read() -> None:
    """Between the two attempts, another user adds a line."""
    lists = ["192.0.2.1", "192.0.2.1\n192.0.2.2"]
    before, later = (http(200, {"data": {**WEBSITE, "exclude_ips": lines}}) for lines in lists)
    seen: list[str] = []

    def add(record: dict[str, Any]) -> None:
        seen.append(record["exclude_ips"])
        client.send_update(Meant(7), {"exclude_ips": (*record["exclude_ips"].split(), "192.0.2.9")})

    with served([before, http(500), later, RECORD]) as (client, server):
        client.write_to(Meant(7), "PATCH", add)
        assert [request.method for request in server.requests] == ["GET", "PATCH", "GET", "PATCH"]
        assert server.requests[-1].body == b"exclude_ips=192.0.2.1%0A192.0.2.2%0A192.0.2.9"
    assert seen == lists


def test_update_with_a_lost_response_is_compared_with_the_record_before_it() -> None:
    whole = {"id": 7, "domain": "new.example", "exclude_params": "", "exclude_bots": 1}
    before = {**whole, "privacy": 1, "email": 0, "exclude_ips": "192.0.2.1", "favorite": True}
    reset = {**whole, "privacy": 0, "email": 1, "exclude_ips": "", "favorite": False}
    replies = [http(200, {"data": before}), http(500), http(200, {"data": reset})]
    with served(replies) as (client, server):
        with pytest.raises(NotAppliedError, match="privacy is 'public', was 'private'; exclude_ips lacks 192"):
            client.update_website(7, email=True)
        assert [request.method for request in server.requests[:4]] == ["GET", "PATCH", "GET", "PATCH"]


@pytest.mark.parametrize("before", [["show"], ["show", "update"], ["create"], ["list", "create"]], ids=str)
def test_create_uses_a_new_connection(before: list[str]) -> None:
    """The service might be about to close an idle connection, and a create is not sent again."""
    with served([RECORD]) as (client, server):
        for operation in before:
            with suppress(AnalyticsError):
                do(client, operation)
        connections = server.connections
        do(client, "create")
        assert server.connections == connections + 1
        do(client, "show")
        assert server.connections == connections + 1


#: Responses with status 200 that are not JSON.
GARBLED: dict[str, bytes] = {
    "a web page": http(200, b"<!doctype html><title>Maintenance</title>", kind="text/html"),
    "a web page as JSON": http(200, b"<html>Loading...</html>"),
    "an empty body": http(200),
    "a cut body": http(200, b'{"data": [{"id": 7, "dom'),
    "bytes": http(200, bytes(range(128, 255))),
    "PHP's warning": http(200, b"<br />\n<b>Warning</b>: mysqli_connect() in /app.php\n{}"),
    "text": http(200, b"OK", kind="text/plain"),
}


@pytest.mark.parametrize("response", GARBLED)
@pytest.mark.parametrize("operation", READS)
def test_read_is_retried_after_a_response_that_is_not_json(operation: str, response: str) -> None:
    time = Time()
    with served([GARBLED[response], GARBLED[response], good(operation)], time) as (client, server):
        do(client, operation)
        assert len(server.requests) == 2 + OPERATIONS[operation].requests
    assert len(time.slept) == 2
    with served(GARBLED[response], max_retries=2) as (client, server):
        with pytest.raises(UnexpectedResponseError):
            do(client, operation)
        assert len(server.requests) == 3


@pytest.mark.parametrize("response", GARBLED)
def test_write_is_not_retried_after_a_response_that_is_not_json(response: str) -> None:
    for operation in ("create", "update"):
        with served([GARBLED[response], RECORD]) as (client, server), suppress(UnexpectedResponseError):
            do(client, operation)
        assert len(server.requests) == 1


def test_update_is_retried_if_the_read_before_it_is_not_json() -> None:
    with served([GARBLED["a web page"], RECORD, RECORD]) as (client, server):
        client.write_to(Meant(7), "PATCH", lambda _: client.send_update(Meant(7), {"email": True}))
        assert [request.method for request in server.requests] == ["GET", "GET", "PATCH"]


@pytest.mark.parametrize("body", [{"data": 7}, {"error": "no"}, []], ids=str)
def test_request_is_not_retried_after_json_of_another_structure(body: Any) -> None:
    with served(http(200, body)) as (client, server):
        with pytest.raises(UnexpectedResponseError):
            client.get_website(7)
        assert len(server.requests) == 1


def test_hint_about_https_is_given_only_before_the_first_success() -> None:
    with served([Reply(b"", then="close"), RECORD, Reply(b"", then="close")], max_retries=0) as (client, _):
        for is_first in (True, False):
            with pytest.raises(AnalyticsConnectionError) as caught:
                client.get_website(7)
            assert ("write https:// in the Base URL" in str(caught.value)) is is_first
            if is_first:
                client.get_website(7)


@pytest.mark.parametrize(
    ("fault", "work", "reason"),
    [
        ({"operation": "list", "skip": 1, "drift": {"delete": 1}}, AnalyticsClient.list_websites, "Reading the list"),
        ({"operation": "update", "status": 204}, lambda it: it.update_website(1, favorite=True), "Sending the change"),
        (
            {"operation": "update", "status": 204},
            lambda it: it.update_website(1, favorite=True),
            "Waiting up to 6 s to find out whether the change of a website is stored.",
        ),
        ({"operation": "show", "status": 500}, lambda it: it.get_website(1), "Attempt 1 of 4"),
    ],
)
def test_log_names_the_reason_before_the_wait(
    fault: dict[str, Any],
    work: Callable[[AnalyticsClient], object],
    reason: str,
    client: AnalyticsClient,
    analytics_sandbox: SandboxServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("INFO")
    logs: list[str] = []
    monkeypatch.setattr(Stopping, "wait", lambda *_: logs.append(caplog.text))
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0.5, 1.0, 2.0, 4.0))
    analytics_sandbox.seed(250)
    for website in analytics_sandbox.websites():
        analytics_sandbox.change_website(website["id"], favorite=False)
    analytics_sandbox.fault(**fault)
    work(client)
    assert reason in logs[-1]
