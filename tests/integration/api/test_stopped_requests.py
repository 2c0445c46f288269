# SPDX-License-Identifier: Apache-2.0
"""Stops and deadlines of requests (``api/waiting.py``, ``api/transport.py``)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest
from certificates import Authority
from operations import OPERATIONS, WRITES, update
from raw_server import RawServer, Replies, Reply, Request, Respond, http
from wire_client import WEBSITE, do, waiting_client_of

from airflow_provider_analytics.api import listing, transport
from airflow_provider_analytics.api import waiting as api_waiting
from airflow_provider_analytics.api.client import AnalyticsClient, Meant
from airflow_provider_analytics.api.rejections import might_have_been_applied
from airflow_provider_analytics.api.waiting import Stopping
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    StoppedError,
)
from airflow_provider_analytics.operators.websites import GetWebsiteOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Seconds that a request may take, and that a service asks to wait: far more than any of these tests needs.
LONG = 60
RECORD = http(200, {"data": WEBSITE})
CUT = http(200, b'{"data"', length=100_000)
HEAD = b"HTTP/1.1 200 OK\r\nX-Slow: "


@contextmanager
def soon() -> Iterator[None]:
    """Expect that the block takes far less time than a request may take."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LONG / 4


@contextmanager
def waiting(respond: Respond | Replies, **settings: Any) -> Iterator[tuple[AnalyticsClient, RawServer]]:
    """Run a server; return a client that really waits, and the server. The block must be short."""
    settings = {"timeout": LONG, **settings}
    with RawServer(respond) as server, soon(), waiting_client_of(server.url, **settings) as client:
        yield client, server


def test_response_soon_after_a_stop_counts_and_is_the_last_request() -> None:
    def respond(request: Request) -> bytes:
        client.stop()
        return RECORD

    for operation in WRITES:
        with waiting(respond) as (client, _):
            assert do(client, operation) == (None if operation == "delete" else WEBSITE)
    with waiting(respond) as (client, server):
        with pytest.raises(StoppedError):
            client.write_to(Meant(7), "PATCH", lambda _: client.send_update(Meant(7), {"email": True}))
        assert client.stopped
        assert server.sent == ["GET /api/v1/websites/7"]
        assert client.stats.requests == 1


def test_time_limit_of_a_write_starts_at_the_first_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(api_waiting.time, "monotonic", lambda: now)  # type: ignore[attr-defined]
    stop = Stopping()
    assert not stop.gives_up("GET")
    stop.set()
    assert stop.gives_up("GET")
    for later in (api_waiting.GRACE_SECONDS / 2, api_waiting.GRACE_SECONDS):
        now = later
        assert stop.gives_up("PATCH") is (later == api_waiting.GRACE_SECONDS)
        stop.set()


# Phases of a request


class Hanging:
    """A service that hangs in a phase of a request.

    :param phase: name of the phase.
    :param folder: folder for certificates.
    """

    def __init__(self, phase: str, folder: Path) -> None:
        self.phase = phase
        self.folder = folder
        #: Called when the phase is reached.
        self.reached: Callable[[], None] = lambda: None
        self.release = threading.Event()
        self.settings: dict[str, Any] = {}
        self._stack = ExitStack()
        self._count = 0

    def __enter__(self) -> Self:
        make = {"connect": self._full_queue, "handshake": self._silent, "tunnel": self._silent, "send": self._silent}
        make.get(self.phase, self._serve)()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._stack.close()

    def client(self, timeout: float) -> AnalyticsClient:
        """Return a client that sends each request once."""
        settings = {"timeout": timeout, "max_retries": 0, **self.settings}
        return waiting_client_of(settings.pop("base_url"), **settings)

    def call(self, client: AnalyticsClient, operation: str = "show") -> Any:
        """Send a request that reaches the phase; the body of an update is far larger than the buffers of sockets."""
        if self.phase == "send":
            return update(client, 7, exclude_params="x" * 40_000_000)
        if self.phase == "reused connection":
            client.get_website(7)
        return do(client, operation)

    def _serve(self) -> None:
        replies = {
            "head": Reply(then="hang"),
            "reused connection": Reply(then="hang"),
            "dripping head": Reply(HEAD, then="drip"),
            "body": Reply(CUT, then="hang"),
            "dripping body": Reply(CUT, then="drip"),
            "body without a length": Reply(b'HTTP/1.0 200 OK\r\n\r\n{"data"', then="hang"),
            "TLS body": Reply(CUT, then="hang"),
        }

        def respond(request: Request) -> bytes | Reply:
            self._count += 1
            if self.phase == "reused connection" and self._count == 1:
                return RECORD
            self.reached()
            return replies[self.phase]

        context = None
        if self.phase == "TLS body":
            authority = Authority(self.folder)
            context = authority.server_context("127.0.0.1")
            self.settings["verify"] = str(authority.path)
        self.settings["base_url"] = self._stack.enter_context(RawServer(respond, tls=context)).url

    def _full_queue(self) -> None:
        """Connect once more than the queue of a listener accepts: the next connect gets no response."""
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            queued = self._stack.enter_context(socket.socket())
            queued.settimeout(0.1)
            with suppress(TimeoutError):
                queued.connect(listener.getsockname())
        self.settings["base_url"] = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def _silent(self) -> None:
        """Accept connections, and read a single byte, or nothing at all."""
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def serve() -> None:
            with suppress(OSError), listener.accept()[0] as accepted:
                if accepted.recv(1):  # nothing is received from a client whose time ended before it sent
                    self.reached()
                self.release.wait(LONG)

        threading.Thread(target=serve, daemon=True).start()
        settings: dict[str, dict[str, Any]] = {
            "handshake": {"base_url": f"https://{address}"},
            "tunnel": {"base_url": "https://stats.example.test", "proxies": {"https": f"http://{address}"}},
            "send": {"base_url": f"http://{address}"},
        }
        self.settings = settings[self.phase]


UNSENT = ("connect", "handshake", "tunnel")
DRIPPING = ("dripping head", "dripping body")
READING = ("head", "reused connection", "body", "body without a length", "TLS body")
PHASES = (*UNSENT, "send", *READING, *DRIPPING)


@pytest.fixture
def hanging(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hanging]:
    with Hanging(request.param, tmp_path) as service:
        yield service


def in_phases(*phases: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("hanging", phases, indirect=True)


@pytest.mark.long
@in_phases(*PHASES)
@pytest.mark.chosen(7)
def test_hanging_request_ends_in_time(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    """If every byte arrives within the timeout, the socket's timeout starts again with each byte."""
    monkeypatch.setattr(transport, "MAX_TIMEOUTS", 1.5)
    is_reached = threading.Event()
    hanging.reached = is_reached.set
    with hanging.client(0.4) as client, soon(), pytest.raises(AnalyticsConnectionError) as caught:
        hanging.call(client)
    # On a busy machine, the time might end before anything is sent.
    is_unclear = hanging.phase not in UNSENT and is_reached.is_set()
    assert might_have_been_applied(caught.value) or not is_unclear
    assert not might_have_been_applied(caught.value) or hanging.phase not in UNSENT
    if hanging.phase == "connect":
        assert "did not accept the connection within 0." in str(caught.value)
        assert not caught.value.sent
    if hanging.phase in DRIPPING and is_unclear:
        assert "did not finish its response within 0.6 s" in str(caught.value)


@pytest.mark.long
@pytest.mark.parametrize("operation", OPERATIONS)
@in_phases(*(phase for phase in PHASES if phase != "connect"))
@pytest.mark.chosen(25)
def test_hanging_request_ends_at_a_stop(hanging: Hanging, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_waiting, "GRACE_SECONDS", 0)
    is_sent = hanging.phase not in UNSENT
    is_write = is_sent and (operation in WRITES or hanging.phase == "send")
    message = "before the service responded" if is_sent else "before .* was sent"
    with hanging.client(LONG) as client, soon():
        hanging.reached = client.stop
        # The plan counts an error of the connection as an unknown outcome.
        kind = AnalyticsConnectionError if is_write else StoppedError
        with pytest.raises(kind, match=f"The client was stopped {message}") as caught:
            hanging.call(client, operation)
        assert client.stats.requests == 1 + (hanging.phase == "reused connection")
    assert might_have_been_applied(caught.value) == is_write == ("might have been applied" in str(caught.value))
    assert not is_write or caught.value.before_retry == ""


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("resolves", [True, False])
def test_client_sends_nothing_if_it_was_stopped_during_the_dns_lookup(
    operation: str, resolves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lookup itself cannot be interrupted: it ends when the resolver returns."""
    getaddrinfo = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **more: Any) -> Any:
        client.stop()
        if not resolves:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return getaddrinfo(host, *arguments, **more)

    with waiting(RECORD) as (client, server):
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        with pytest.raises(AnalyticsError) as caught:
            do(client, operation)
        assert isinstance(caught.value, StoppedError) or not resolves
        assert not might_have_been_applied(caught.value)
        assert server.requests == []


# The watchdog


@pytest.mark.long
@in_phases(*(phase for phase in PHASES if phase not in DRIPPING))
@pytest.mark.chosen(5)
def test_hanging_request_ends_at_the_socket_timeout_if_no_watchdog_runs(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read, and the handshake as a whole, has the timeout of the socket."""
    run = threading.Thread.run
    ends_at_once = "analytics"
    monkeypatch.setattr(threading.Thread, "run", lambda item: None if item.name.startswith(ends_at_once) else run(item))
    with hanging.client(0.5) as client, soon(), pytest.raises(AnalyticsConnectionError):
        hanging.call(client)


def join_watchdogs() -> int:
    """Wait for the watchdogs; return their number."""
    found = [thread for thread in threading.enumerate() if thread.name == "analytics-watchdog"]
    for thread in found:
        thread.join(LONG)
    return len(found)


def test_response_that_looks_complete_is_discarded_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the watchdog has closed the connection, a body without a length seems to end."""
    monkeypatch.setattr(transport, "MAX_TIMEOUTS", 1)
    complete = Reply(b'HTTP/1.0 200 OK\r\n\r\n{"data": {"id": 7}}', then="drip")
    with waiting(complete, timeout=0.3, max_retries=0) as (client, _), pytest.raises(AnalyticsConnectionError):
        client.get_website(7)


def test_stopped_client_leaves_no_thread_and_no_descriptor() -> None:
    def respond(request: Request) -> Reply:
        number = int(request.path.rpartition("/")[2])
        return (Reply(RECORD), Reply(CUT, then="close"), Reply(HEAD, then="reset"), Reply(http(500)))[number % 4]

    def descriptors() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    number = 100
    with RawServer(respond) as server:
        before = descriptors()
        with waiting_client_of(server.url, max_retries=0) as client:
            for website_id in range(number):
                with suppress(AnalyticsError):
                    update(client, website_id, email="1")
        join_watchdogs()
        assert join_watchdogs() == 0
        # The server might still have to close some of its connections.
        assert descriptors() < before + number / 4


# Waits


REJECTED = http(503, headers=[("Retry-After", "50")])
MOVING = http(200, {"data": [{"id": 7}, {"id": 7}], "meta": {"total": 2}})


@pytest.mark.parametrize(
    ("reply", "settings", "call", "error"),
    [
        pytest.param(REJECTED, {}, lambda item: item.get_website(7), StoppedError, id="Retry-After"),
        # A write that waits for its retry has the error of its first attempt.
        pytest.param(REJECTED, {}, lambda item: item.update_website(7, email=True), AnalyticsApiError, id="a write"),
        pytest.param(RECORD, {"requests_per_minute": 2}, lambda item: item.get_website(7), StoppedError, id="a limit"),
        pytest.param(MOVING, {}, lambda item: item.list_websites(), StoppedError, id="a list that is read again"),
    ],
)
def test_wait_ends_at_a_stop(
    reply: bytes, settings: dict[str, Any], call: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = Stopping.wait

    def stop_soon(self: Stopping, seconds: float, unwanted: threading.Event | None = None) -> None:
        if seconds > LONG / 2:
            threading.Timer(0.01, self.set).start()
        wait(self, seconds, unwanted)

    monkeypatch.setattr(Stopping, "wait", stop_soon)
    monkeypatch.setattr(listing, "WAITS_BETWEEN_READS", (LONG, LONG, LONG))
    with waiting(reply, **settings) as (client, server):
        with pytest.raises(error) as caught:
            [call(client) for _ in range(3)]
        assert len(server.requests) <= 2
    assert might_have_been_applied(caught.value) or "The client was stopped before GET" in str(caught.value)


# Operators


def test_killed_task_fails_even_if_all_its_requests_ended(analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example")
    task = GetWebsiteOperator(task_id="task", website_id=1)

    def kill(error: Exception | None = None) -> None:
        with task.connected({}) as hook:
            hook.get_website(1)
            task.on_kill()
            if error:
                raise error

    with pytest.raises(StoppedError, match="The task was killed"):
        kill()
    # Another error is unchanged.
    with pytest.raises(ZeroDivisionError):
        kill(ZeroDivisionError())
    # A retry in the same process is another try.
    assert task.execute({})["domain"] == "a.example"


def test_task_killed_before_its_start_sends_nothing(analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example")
    task = GetWebsiteOperator(task_id="task", website_id=1)
    task.on_kill()
    with pytest.raises(StoppedError):
        task.execute({})
    assert not analytics_sandbox.requests
    # A retry in the same process is another try, also after a kill that came too late.
    for _ in range(2):
        assert task.execute({})["domain"] == "a.example"
        task.on_kill()
