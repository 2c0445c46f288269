# SPDX-License-Identifier: Apache-2.0
"""Rate limits: the client waits as the service asks, and slows down (``api/waiting.py``)."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time as real_time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl

import pytest
from fake_services import FakeService
from raw_server import RawServer, Request, answer_read, http
from wire_client import WEBSITE, Time, do, served, waiting_client_of

from airflow_provider_analytics.api import transport
from airflow_provider_analytics.api.client import AnalyticsClient, Meant
from airflow_provider_analytics.api.rejections import REJECTED_SECONDS
from airflow_provider_analytics.api.transport import MAX_REJECTED_SECONDS
from airflow_provider_analytics.api.waiting import MAX_INTERVAL, MIN_INTERVAL, REPORT_SECONDS
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsError,
    UnexpectedResponseError,
)

#: The response of nginx 1.22 without server_tokens.
PAGE = (
    b"<html>\r\n<head><title>503 Service Temporarily Unavailable</title></head>\r\n<body>\r\n"
    b"<center><h1>503 Service Temporarily Unavailable</h1></center>\r\n<hr><center>nginx</center>\r\n"
    b"</body>\r\n</html>\r\n"
)
WEBSITES = 100
THREADS = 8


class Service:
    """Websites behind nginx: ``limit_req`` counts requests in a bucket that leaks at a rate, and rejects the excess.

    :param rate: requests per second; None for no limit.
    :param burst: capacity of the bucket in requests.
    :param status: status of a rejected request.
    """

    def __init__(
        self, rate: float | None, burst: int = 0, status: int = 503, clock: Callable[[], float] = real_time.monotonic
    ) -> None:
        self.rate, self.burst = rate, burst
        #: Method and website of each accepted request.
        self.accepted: list[tuple[str, str]] = []
        self.rejected = 0
        self.records = {
            str(number): {**WEBSITE, "id": number, "domain": f"{number}.example", "exclude_ips": ""}
            for number in range(1, WEBSITES + 1)
        }
        self._rejection = http(status, PAGE, kind="text/html")
        self._clock = clock
        self._excess, self._last = 0.0, 0.0
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> bytes:
        with self._lock:
            if self.rate is not None and not self._is_allowed(self.rate):
                self.rejected += 1
                return self._rejection
            website_id = request.path.rpartition("/")[2]
            self.accepted.append((request.method, website_id))
            if request.method == "GET":
                return answer_read(request, [*self.records.values()])
            self.records[website_id].update(parse_qsl(request.body.decode()))
            return http(200, {"data": self.records[website_id]})

    def _is_allowed(self, rate: float) -> bool:
        now = self._clock()
        excess = max(self._excess - rate * (now - self._last) + 1, 0.0) if self._last else 0.0
        if excess > self.burst:
            return False
        self._excess, self._last = excess, now
        return True


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("burst", [0, 5])
@pytest.mark.parametrize("rate", [1, 5, 10, 50])
@pytest.mark.long
def test_throughput_exceeds_half_of_the_rate_that_the_service_allows(
    rate: float, burst: int, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    time = Time()
    service = Service(rate, burst, status, time.clock)
    began = time.now
    with served(service, time) as (client, _):
        for number in range(1, WEBSITES + 1):
            client.write_to(
                Meant(number), "PATCH", lambda found: client.send_update(Meant(found["id"]), {"email": True})
            )
    seconds = time.now - began
    assert Counter(method for method, _ in service.accepted)["PATCH"] == WEBSITES
    assert len(service.accepted) / seconds > rate / 2
    assert service.rejected < len(service.accepted) / 5
    warnings = warnings_of(caplog)
    assert 1 <= len(warnings) <= 1 + seconds / REPORT_SECONDS
    assert all("set the extra requests_per_minute" in warning.lower() for warning in warnings)


@pytest.mark.long
@pytest.mark.parametrize(("burst", "status"), [(0, 503), (5, 429)])
def test_all_threads_slow_down_together(burst: int, status: int, caplog: pytest.LogCaptureFixture) -> None:
    rate, websites = 40, 40
    service = Service(rate, burst, status)
    with RawServer(service) as server, waiting_client_of(server.url) as client, ThreadPoolExecutor(THREADS) as pool:

        def change(number: int) -> None:
            client.write_to(Meant(number), "PATCH", lambda _: client.send_update(Meant(number), {"email": True}))

        list(pool.map(change, range(1, websites + 1)))
    assert Counter(method for method, _ in service.accepted)["PATCH"] == websites
    assert len(warnings_of(caplog)) == 1
    # An update follows its read, before the reads of other websites.
    places = {request: place for place, request in enumerate(service.accepted)}
    between = [places["PATCH", str(number)] - places["GET", str(number)] - 1 for number in range(1, websites + 1)]
    assert sum(between) / websites < THREADS / 2


def test_rate_recovers_once_there_is_no_limit() -> None:
    time = Time()
    service = Service(5, clock=time.clock)
    with served(service, time) as (client, _):
        for _ in range(20):
            client.get_website(7)
        service.rate = None
        for _ in range(200):
            client.get_website(7)
        time.slept.clear()
        for _ in range(20):
            client.get_website(7)
    assert time.slept == []


@pytest.mark.parametrize(
    ("status", "reason"), [(429, r"(?i)set the extra requests_per_minute"), (503, "The service is unavailable")]
)
@pytest.mark.parametrize("operation", ["show", "update", "delete"])
def test_request_is_retried_for_a_minute_then_fails(status: int, reason: str, operation: str) -> None:
    time = Time()
    began = time.now
    with served(http(status, PAGE, kind="text/html"), time) as (client, server):
        with pytest.raises(AnalyticsApiError, match=reason) as caught:
            do(client, operation)
        assert len(server.requests) < REJECTED_SECONDS
        assert len(caught.value.earlier) == len(server.requests) - 1
    assert REJECTED_SECONDS <= time.now - began <= REJECTED_SECONDS + MAX_INTERVAL


def test_log_says_every_half_minute_that_a_request_is_still_rejected(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with served(http(503), Time()) as (client, _), pytest.raises(AnalyticsApiError):
        client.get_website(7)
    still = [message for message in caplog.messages if message.startswith("Still rejected after ")]
    assert 3 <= len(still) <= REJECTED_SECONDS / REPORT_SECONDS
    for message in still:
        assert re.match(r"Still rejected after \d+ s, giving up at [\d:]+ UTC: GET /api/v1/websites/7\.", message)


def test_rate_limits_do_not_use_up_the_retries_of_failures() -> None:
    replies = [http(503), http(429), http(500)] * 3 + [http(200, {"data": WEBSITE})]
    with served(replies, max_retries=3) as (client, _):
        assert client.get_website(7) == WEBSITE


@pytest.mark.parametrize("rejection", [http(429), http(503, PAGE, kind="text/html")], ids=["429", "503 of nginx"])
def test_create_is_retried_after_a_response_that_rejects_it(rejection: bytes) -> None:
    with served([rejection] * 10 + [http(201, {"data": WEBSITE})]) as (client, server):
        assert client.send_create("new.example", {}) == WEBSITE
        assert server.sent == ["POST /api/v1/websites"] * 11


#: Responses of gateways that might have passed the request on, which then might arrive later.
UNCLEAR_RESPONSES: dict[str, bytes] = {
    "no page": http(503),
    "HAProxy": http(503, b"<html><body><h1>503 Service Unavailable</h1>\nNo server is available.", kind="text/html"),
    "Envoy": http(503, b"upstream connect error or disconnect/reset before headers", kind="text/plain"),
    "AWS": http(503, PAGE.replace(b"<hr><center>nginx</center>\r\n", b""), kind="text/html"),
    "Retry-After": http(503, {"message": "busy"}, headers=[("Retry-After", "3")]),
    "502 of nginx": http(
        502, PAGE.replace(b"503 Service Temporarily Unavailable", b"502 Bad Gateway"), kind="text/html"
    ),
    "504 of nginx": http(504, PAGE.replace(b"503 Service Temporarily Unavailable", b"504 Timed Out"), kind="text/html"),
}


@pytest.mark.parametrize("response", UNCLEAR_RESPONSES)
def test_create_is_ambiguous_after_a_response_of_a_gateway(response: str) -> None:
    """The website appears later, and the next run finds it before it would create it again."""
    stored: list[dict[str, object]] = []

    def respond(request: Request) -> bytes:
        return UNCLEAR_RESPONSES[response] if request.method == "POST" else answer_read(request, stored)

    with served(respond) as (client, server):
        with pytest.raises(AmbiguousWriteError, match="In your own code, call ensure_website"):
            client.ensure_website("new.example")
        stored.append(WEBSITE)
        assert not client.ensure_website("new.example").created
        assert [request.method for request in server.requests].count("POST") == 1


@pytest.mark.parametrize("operation", ["show", "update", "create"])
def test_status_403_without_requests_left_is_a_permission_and_is_not_repeated(operation: str) -> None:
    time = Time()
    denied = http(403, {"message": "No permission"}, headers=[("X-RateLimit-Remaining", "0")])
    with served(denied, time) as (client, _), pytest.raises(AnalyticsApiError, match="permission") as caught:
        do(client, operation)
    assert "RateLimit" not in str(caught.value)
    assert time.slept == []


@pytest.mark.parametrize("operation", ["list", "update", "create"])
def test_request_waits_while_other_tasks_use_up_each_minute(operation: str) -> None:
    """Two other tasks with the same key use all requests of ten minutes."""
    time = Time()
    free_at = time.now + 600

    def respond(request: Request) -> bytes:
        if time.now < free_at:
            return http(429, headers=[("Retry-After", str(60 - int(time.now) % 60))])
        record = http(200, {"data": WEBSITE})
        return record if request.method != "GET" else answer_read(request, [WEBSITE])

    with served(respond, time) as (client, server):
        do(client, operation)
        assert len(server.requests) < 20


def test_request_waits_while_other_requests_of_the_task_are_accepted() -> None:
    """The service does not say when to continue. Another thread reads meanwhile."""
    time = Time()
    free_at = time.now + 10 * REJECTED_SECONDS

    def respond(request: Request) -> bytes:
        if request.path.endswith("/7") and time.now < free_at:
            client.get_account()
            return http(429)
        return answer_read(request, [WEBSITE])

    with served(respond, time) as (client, _):
        assert client.get_website(7) == WEBSITE


def test_rejected_update_does_not_wait_forever_if_its_reads_are_accepted() -> None:
    time = Time()
    began = time.now

    def respond(request: Request) -> bytes:
        return http(429) if request.method == "PATCH" else answer_read(request, [WEBSITE])

    with served(respond, time) as (client, _), pytest.raises(AnalyticsApiError):
        client.write_to(Meant(7), "PATCH", lambda _: client.send_update(Meant(7), {"email": False}))
    assert time.now - began < 2 * REJECTED_SECONDS


def test_request_that_is_always_rejected_fails_although_others_are_accepted() -> None:
    time = Time()
    began = time.now

    def respond(request: Request) -> bytes:
        if request.path.endswith("/7"):
            client.get_account()
            return http(429, headers=[("Retry-After", "60")])
        return answer_read(request, [WEBSITE])

    with served(respond, time) as (client, _), pytest.raises(AnalyticsApiError):
        client.get_website(7)
    assert MAX_REJECTED_SECONDS <= time.now - began < 2 * MAX_REJECTED_SECONDS


@pytest.mark.parametrize("body", ["<html><center><h1>503</h1></center><hr><center>nginx</center></html>", "<p>Down"])
def test_status_503_is_a_rate_limit_only_after_requests_that_succeeded(
    client_with: Callable[..., AnalyticsClient], analytics_sandbox: FakeService, body: str
) -> None:
    client = client_with(max_retries=0)
    analytics_sandbox.fault("list", status=503, body=body, times=2)
    with pytest.raises(AnalyticsApiError, match=r"The service is unavailable \(503") as first:
        client.list_websites()
    client.get_account()
    with pytest.raises(AnalyticsApiError, match=r"The service is unavailable \(503") as second:
        client.list_websites()
    assert "requests_per_minute" not in str(first.value)
    assert "If it limits the rate of requests, set the extra requests_per_minute" in str(second.value)


# Limits of size, and reuse of connections


RECORD = http(200, {"id": 7})


def test_retries_count_as_requests() -> None:
    time = Time()
    with served([http(500), http(500), http(500), RECORD], time, requests_per_minute=2) as (client, _):
        client.get_website(7)
    assert time.now - 1000 >= 60


@pytest.mark.parametrize(
    ("settings", "replies"),
    [
        pytest.param({"requests_per_minute": 3}, [], id="a limit of requests"),
        pytest.param({"requests_per_minute": 2}, [], id="the smallest limit"),
        pytest.param({}, [http(429, headers=[("Retry-After", "40")])], id="Retry-After"),
        pytest.param({}, [http(503), http(500), http(500), http(500)], id="back-off"),
    ],
)
def test_update_follows_its_read_without_a_wait(settings: dict[str, Any], replies: list[bytes]) -> None:
    """The read after a wait returns the changes of other users during the wait."""
    time = Time()
    events: list[Any] = []
    rejections = list(replies)

    def respond(request: Any) -> bytes:
        events.append(request.method)
        return rejections.pop(0) if request.method == "PATCH" and rejections else RECORD

    slept = time.sleep
    time.sleep = lambda seconds: (events.append(seconds), slept(seconds))  # type: ignore[method-assign, assignment, func-returns-value]
    with served(respond, time, **settings) as (client, _):
        for _ in range(4):
            client.write_to(Meant(7), "PATCH", lambda _: client.send_update(Meant(7), {"email": True}))
    assert max(event for event in events if event not in ("GET", "PATCH")) > 4 * MIN_INTERVAL
    # Only the pace with which the service is requested after a rejected request.
    between = [after for before, after in pairwise(events) if before == "GET"]
    assert all(after == "PATCH" or after <= 4 * MIN_INTERVAL for after in between)
    if not replies:
        assert set(between) == {"PATCH"}


@pytest.fixture
def small_bodies(monkeypatch: pytest.MonkeyPatch) -> int:
    assert transport.MAX_BODY_BYTES == 50 * 1024 * 1024
    monkeypatch.setattr(transport, "MAX_BODY_BYTES", 100_000)
    return 100_000


@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("status", [200, 500])
def test_response_body_has_a_size_limit(small_bodies: int, excess: int, zipped: bool, status: int) -> None:
    record = json.dumps({"id": 7})
    body = (record + " " * (small_bodies - len(record) + excess)).encode()
    headers = [("Content-Encoding", "gzip")] if zipped else []
    reply = http(status, gzip.compress(body) if zipped else body, headers=headers)
    with served(reply, max_retries=0) as (client, _):
        if excess:
            with pytest.raises(UnexpectedResponseError, match="larger than 100000 bytes"):
                client.get_website(7)
        elif status == 200:
            assert client.get_website(7) == {"id": 7}


@pytest.mark.long
def test_gzip_bomb_is_abandoned_at_the_size_limit(small_bodies: int) -> None:
    """About 100 KB that would become 100 MB: the unpacked size never exceeds the limit."""
    bomb = gzip.compress(b" " * 100_000_000)
    with served(http(200, bomb, headers=[("Content-Encoding", "gzip")])) as (client, _):
        tracemalloc.start()
        try:
            with pytest.raises(UnexpectedResponseError, match="larger than 100000 bytes"):
                client.get_website(7)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert client.stats.requests == 1
    assert peak < 20 * small_bodies


def test_long_wait_is_logged_once_with_its_reason_and_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with served(RECORD, requests_per_minute=2) as (client, _):
        for _ in range(3):
            client.get_website(7)
    [message] = caplog.messages
    assert re.fullmatch(r"Waiting 61 s, until \d\d:\d\d:\d\d UTC, because requests_per_minute is 2\.", message)


def test_connections_are_reused_and_closed() -> None:
    with served(RECORD) as (client, server):
        for _ in range(20):
            client.get_website(7)
        assert server.connections == 1
        server.closed.clear()
        client.close()
        assert server.closed.wait(5)
        client.get_website(7)
        assert server.connections == 2


def test_connection_is_reused_after_an_error_with_a_complete_body(small_bodies: int) -> None:
    redirect = http(302, b"", headers=[("Location", "/")])
    replies = [http(404), http(422, {"message": "no"}), http(200, {"data": 7}), redirect]
    with served([*replies, RECORD, http(200, b" " * (small_bodies * 2)), RECORD]) as (client, server):
        for connections in (1, 2):
            for _ in replies if connections == 1 else [None]:
                with pytest.raises(AnalyticsError, match="GET /api/v1"):
                    client.get_website(7)
            assert client.get_website(7) == {"id": 7}
            assert server.connections == connections
