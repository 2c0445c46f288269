"""Every field of a fault, as a client on a real socket meets it."""

from __future__ import annotations

import contextlib
import errno
import http.client
import time
from collections.abc import Iterator
from typing import Literal
from urllib.parse import urlsplit

import pytest
from fixture_types import Call
from operations import PREFIX, endpoints

from airflow_provider_analytics.sandbox.requests import Operation
from airflow_provider_analytics.sandbox.server import SandboxServer

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Client:
    """One connection, kept open as long as the server lets it."""

    def __init__(self, sandbox: SandboxServer) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(sandbox.url).netloc, timeout=10)
        self._headers = {"Authorization": f"Bearer {sandbox.api_key}", "Accept": "application/json"}

    def send(self, method: str, path: str, form: str | None = None) -> http.client.HTTPResponse:
        headers = {**self._headers, **(FORM if form else {})}
        self.connection.request(method, f"{PREFIX}{path}", body=form, headers=headers)
        return self.connection.getresponse()


@pytest.fixture
def client(analytics_sandbox: SandboxServer) -> Iterator[Client]:
    client = Client(analytics_sandbox)
    with contextlib.closing(client.connection):
        yield client


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    """A sandbox with two websites."""
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.add_website("b.example")
    return analytics_sandbox


def stored(sandbox: SandboxServer) -> list[str]:
    return [website["domain"] for website in sandbox.websites()]


# Which requests


def test_a_fault_ends_after_its_times(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", status=503, skip=1, times=2)

    assert [call("GET", "/websites").status_code for _ in range(5)] == [200, 503, 503, 200, 200]


def test_a_fault_concerns_its_operation_only(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("show", status=500)

    assert [call("GET", path).status_code for path in ("/websites", "/account", "/websites/1")] == [200, 200, 500]


@pytest.mark.parametrize(
    ("operation", "method", "path"),
    [*endpoints(), ("any", "GET", "/nothing")],
)
def test_every_operation_can_fail(
    call: Call, sandbox: SandboxServer, operation: Operation | Literal["any"], method: str, path: str
) -> None:
    sandbox.fault(operation, status=500)
    before = sandbox.websites()

    answer = call(method, path)

    assert (answer.status_code, answer.json()) == (500, {"message": "Server Error"})
    assert sandbox.websites() == before
    assert sandbox.pending_faults == []


def test_a_fault_may_concern_one_page_or_one_website(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", status=500, target=r"page=3\b")
    sandbox.fault("show", status=502, target=r"/websites/2$", times=None)

    assert [call("GET", f"/websites?page={page}").status_code for page in (30, 2, 3, 3)] == [200, 200, 500, 200]
    assert [call("GET", f"/websites/{number}").status_code for number in (1, 2, 2)] == [200, 502, 502]


def test_a_fault_reaches_clients_without_the_right_key(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault(status=503)

    assert call("GET", "/account", headers={"Authorization": "Bearer wrong"}).status_code == 503
    assert call("GET", "/account", headers={"Authorization": "Bearer wrong"}).status_code == 401


# Answers


@pytest.mark.parametrize("retry_after", ["2", "Fri, 20 Nov 2026 00:00:30 GMT"])
@pytest.mark.parametrize("status", [429, 503])
def test_status_with_headers(call: Call, sandbox: SandboxServer, status: int, retry_after: str) -> None:
    sandbox.fault("list", status=status, headers={"Retry-After": retry_after, "X-RateLimit-Remaining": "0"})

    answer = call("GET", "/websites")

    assert answer.status_code == status
    assert (answer.headers["Retry-After"], answer.headers["X-RateLimit-Remaining"]) == (retry_after, "0")


def test_headers_alone_are_added_to_the_real_answer(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", headers={"X-RateLimit-Remaining": "1", "content-type": "text/plain"})

    answer = call("GET", "/websites")

    assert (answer.headers["X-RateLimit-Remaining"], answer.headers["Content-Type"]) == ("1", "text/plain")
    assert len(answer.json()["data"]) == 2


def test_a_header_can_be_removed(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", headers={"Content-Type": None})

    answer = call("GET", "/websites")

    assert "Content-Type" not in answer.headers
    assert len(answer.json()["data"]) == 2


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        ("<h1>Maintenance</h1>", b"<h1>Maintenance</h1>", "text/html; charset=utf-8"),
        ("", b"", "text/html; charset=utf-8"),
        (b"\x00\xff", b"\x00\xff", None),
        ({"unexpected": True}, b'{"unexpected":true}', "application/json"),
        ([1, 2], b"[1,2]", "application/json"),
    ],
)
def test_another_body(call: Call, sandbox: SandboxServer, body: object, sent: bytes, kind: str | None) -> None:
    sandbox.fault("create", body=body)

    answer = call("POST", "/websites", data={"domain": "c.example"})

    assert (answer.status_code, answer.content, answer.headers.get("Content-Type")) == (200, sent, kind)
    assert "c.example" not in stored(sandbox)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect(call: Call, sandbox: SandboxServer, status: int) -> None:
    sandbox.fault("delete", status=status, headers={"Location": "http://127.0.0.1:9/login"})

    answer = call("DELETE", "/websites/1")

    assert (answer.status_code, answer.headers["Location"], answer.content) == (status, "http://127.0.0.1:9/login", b"")
    assert len(stored(sandbox)) == 2


def test_a_replaced_answer_after_the_request_was_carried_out(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("create", status=502, commit=True)
    sandbox.fault("create", body="", commit=True)

    answers = [call("POST", "/websites", data={"domain": f"{name}.example"}) for name in ("c", "d")]

    assert [(answer.status_code, answer.text) for answer in answers][1] == (201, "")
    assert answers[0].status_code == 502
    assert stored(sandbox)[2:] == ["c.example", "d.example"]


def test_a_bodiless_status(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("update", status=204, body="text that cannot be sent")

    answer = call("PATCH", "/websites/1")

    assert (answer.status_code, answer.content) == (204, b"")
    assert "Content-Length" not in answer.headers
    assert call("GET", "/account").status_code == 200


# Time


def test_a_delay_before_the_answer(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("account", delay=0.2)

    started = time.monotonic()
    answer = call("GET", "/account")

    assert answer.status_code == 200
    assert time.monotonic() - started >= 0.2


def test_a_delay_does_not_hold_up_others(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", delay=60)
    waiting = Client(sandbox)
    waiting.connection.request("GET", "/api/v1/websites")

    assert call("GET", "/account").status_code == 200
    waiting.connection.close()


def test_a_write_may_be_stored_although_the_answer_is_late(client: Client, sandbox: SandboxServer) -> None:
    sandbox.fault("create", delay=60)
    client.connection.timeout = 0.1

    with pytest.raises(TimeoutError):
        client.send("POST", "/websites", "domain=c.example")

    assert "c.example" in stored(sandbox)
    assert sandbox.requests[-1].status is None


# The connection


@pytest.mark.parametrize("commit", [None, False, True])
def test_a_dropped_connection(client: Client, sandbox: SandboxServer, commit: bool | None) -> None:
    sandbox.fault("create", drop=True, commit=commit)

    with pytest.raises(ConnectionResetError) as caught:
        client.send("POST", "/websites", "domain=c.example")

    # http.client raises a subclass of this error for an ordinary end of the connection.
    assert caught.value.errno == errno.ECONNRESET
    assert ("c.example" in stored(sandbox)) is (commit is True)
    assert [(request.operation, request.status) for request in sandbox.requests] == [("create", None)]


def test_the_sandbox_goes_on_after_a_drop(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", drop=True)
    with contextlib.suppress(OSError):
        call("GET", "/websites")

    assert call("GET", "/websites").status_code == 200


@pytest.mark.parametrize("commit", [None, False])
def test_a_body_shorter_than_announced(client: Client, sandbox: SandboxServer, commit: bool | None) -> None:
    sandbox.fault("list", headers={"Content-Length": "100000"}, commit=commit)

    answer = client.send("GET", "/websites")
    with pytest.raises(http.client.IncompleteRead) as caught:
        answer.read()

    assert answer.status == 200
    assert bool(caught.value.partial) == (commit is None)


# Drift


def test_drift_happens_between_two_requests(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", skip=1, drift={"create": ["new.example"], "delete": ["a.example", 2]})

    readings = [[website["domain"] for website in call("GET", "/websites").json()["data"]] for _ in range(3)]

    assert readings == [["b.example", "a.example"], ["b.example", "a.example"], ["new.example"]]


def test_drift_at_random_is_repeatable(call: Call, sandbox: SandboxServer) -> None:
    def after_drift() -> list[dict[str, object]]:
        sandbox.reset()
        sandbox.seed(20)
        sandbox.fault("list", times=None, drift={"create": 2, "delete": 3, "flip_favorite": 1})
        for _ in range(3):
            call("GET", "/websites")
        return sandbox.websites()

    first = after_drift()

    assert len(first) == 17
    assert first == after_drift()


def test_drift_flips_favorites(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", times=2, drift={"flip_favorite": ["a.example"]})

    shown = [call("GET", "/websites?favorite=true").json()["meta"]["total"] for _ in range(3)]

    assert shown == [0, 1, 0]


def test_drift_may_delete_more_than_there_are(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", drift={"delete": 50})

    call("GET", "/websites")

    assert sandbox.websites() == []
