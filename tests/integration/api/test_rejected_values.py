# SPDX-License-Identifier: Apache-2.0
"""Rejected values, as frameworks report them, and writes that are applied later (``api/laravel.py``)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from operations import READS
from raw_server import Request, answer_read, http
from wire_client import WEBSITE, Time, do, error_of, served

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import AnalyticsApiError, NotAppliedError

BAD_IP = "Enter a valid IP address."
#: Kind of body to the body of its response, the messages by field, and a part of the message.
BODIES: dict[str, tuple[dict[str, Any], dict[str, list[str]], str]] = {
    "Laravel": ({"message": "Bad.", "errors": {"exclude_ips": [BAD_IP]}}, {"exclude_ips": [BAD_IP]}, "Bad."),
    "an entry of an array": (
        {"message": "Bad.", "errors": {"exclude_ips.0": [BAD_IP]}},
        {"exclude_ips": [BAD_IP]},
        "Bad.",
    ),
    "a message alone": ({"message": "exclude_ips: bad"}, {}, "exclude_ips: bad"),
}


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("framework", BODIES)
def test_rejected_value_is_reported_completely_and_not_retried(framework: str, status: int) -> None:
    body, errors, message = BODIES[framework]
    error = error_of(http(status, body), lambda client: do(client, "update"), AnalyticsApiError)
    assert error.errors == errors
    assert message in str(error)
    assert all(text in str(error) for texts in errors.values() for text in texts)
    assert error.before_retry == ("correct the value first" if errors else "follow the message of the service first")


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
