# SPDX-License-Identifier: Apache-2.0
"""Limits of rate, size, and time, and reuse of connections (``api/waiting.py``, ``api/transport.py``)."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from raw_server import http
from wire_client import Time, served

from airflow_provider_analytics.api import transport
from airflow_provider_analytics.api.client import Meant
from airflow_provider_analytics.api.waiting import MIN_INTERVAL
from airflow_provider_analytics.exceptions import (
    AnalyticsError,
    UnexpectedResponseError,
)

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
