"""A client that is stopped: requests under way end soon, waits end at once, and every error says what is known."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from operations import OPERATIONS, READS, WRITES
from raw_server import RawServer, Reply, Request, http
from wire_client import KEY, WEBSITE, do

from airflow_provider_analytics.api import listing, stopping
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.stopping import Stopping
from airflow_provider_analytics.api.transport import Transport, may_have_been_applied
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    StoppedError,
)
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import GetWebsiteOperator, ListWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Seconds that a request may take, and that a service asks to wait.
LONG = 60
RECORD = http(200, {"data": WEBSITE})
CUT = http(200, b'{"data"', length=100_000)

STALLS: dict[str, Reply] = {
    "no response": Reply(then="hang"),
    "headers that stop": Reply(b"HTTP/1.1 200 OK\r\nX-Slow: ", then="hang"),
    "a body that stops": Reply(CUT, then="hang"),
    "a body that drips": Reply(CUT, then="drip"),
}


class Stoppable:
    """Serves replies, and stops the client while it serves the request with this number."""

    def __init__(self, *replies: bytes | Reply, at: int = 1) -> None:
        self.client: AnalyticsClient
        self._replies = [*replies]
        self._at = at

    def __call__(self, request: Request) -> bytes | Reply:
        self._at -= 1
        if self._at == 0:
            self.client.stop()
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def client_of(url: str, **settings: Any) -> AnalyticsClient:
    """Return a client that really waits."""
    checked = Settings(**{"base_url": url, "api_key": KEY, "timeout": LONG, **settings})
    return AnalyticsClient(checked, Transport(checked))


@contextmanager
def soon() -> Iterator[None]:
    """Expect that the block takes far less time than a request may take."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LONG / 4


# Reads


@pytest.fixture(params=[False, True], ids=["http", "https"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Arguments of a server and of its client."""
    if not request.param:
        return {"server": {}, "client": {}}
    authority = Authority(tmp_path)
    return {"server": {"tls": authority.server_context("127.0.0.1")}, "client": {"verify": str(authority.path)}}


@pytest.mark.parametrize("operation", READS)
@pytest.mark.parametrize("stall", STALLS)
def test_a_read_is_given_up(operation: str, stall: str, tls: dict[str, Any]) -> None:
    service = Stoppable(STALLS[stall])
    with RawServer(service, **tls["server"]) as server, client_of(server.url, **tls["client"]) as client, soon():
        service.client = client
        with pytest.raises(StoppedError, match="the task was killed, before the service responded: GET /api/v1/"):
            do(client, operation)
        assert len(server.requests) == 1


def test_a_connection_on_which_a_read_was_given_up_is_closed() -> None:
    service = Stoppable(STALLS["a body that stops"])
    with RawServer(service) as server, client_of(server.url) as client:
        service.client = client
        with pytest.raises(StoppedError):
            client.get_website(7)
        assert server.closed.wait(30)


def test_pages_that_are_read_at_the_same_time_are_all_given_up() -> None:
    asked = threading.Barrier(4)

    def respond(request: Request) -> bytes | Reply:
        if "page" not in request.query:
            rows = [{"id": n} for n in range(1000, 900, -1)]
            return http(200, {"data": rows, "meta": {"total": 1000, "current_page": 1}})
        if asked.wait(30) == 0:
            client.stop()
        return Reply(then="hang")

    with RawServer(respond) as server, client_of(server.url, parallel_requests=4) as client, soon():
        with pytest.raises(StoppedError):
            client.list_websites()
        for thread in threading.enumerate():
            if thread.name.startswith("analytics-list"):
                thread.join(LONG)
                assert not thread.is_alive()


# Writes


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set once the client has looked several times whether to give a request up, after it was stopped."""
    left = iter(range(5))
    looked = threading.Event()
    gives_up = Stopping.gives_up

    def counted(self: Stopping, method: str, *, sent: bool) -> bool:
        if self.is_set and next(left, None) is None:
            looked.set()
        return gives_up(self, method, sent=sent)

    monkeypatch.setattr(Stopping, "gives_up", counted)
    return looked


@pytest.mark.parametrize("operation", WRITES)
def test_a_write_gets_time_to_end_so_that_its_outcome_is_known(
    operation: str, looks: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "GRACE_SECONDS", LONG)
    monkeypatch.setattr(stopping, "LOOK_SECONDS", 0.001)

    def respond(request: Request) -> bytes:
        client.stop()
        assert looks.wait(30)
        return RECORD

    with RawServer(respond) as server, client_of(server.url) as client, soon():
        assert do(client, operation) == (None if operation == "delete" else WEBSITE)
        assert len(server.requests) == 1


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("stall", STALLS)
def test_a_write_that_does_not_end_may_have_been_applied(
    operation: str, stall: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 0)
    service = Stoppable(STALLS[stall])
    with RawServer(service) as server, client_of(server.url) as client, soon():
        service.client = client
        with pytest.raises(AnalyticsError, match="The request may have been applied") as caught:
            do(client, operation)
        assert may_have_been_applied(caught.value)
        assert caught.value.before_retry == ""
        assert len(server.requests) == 1


def test_a_create_that_does_not_end_is_ambiguous(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 0)
    service = Stoppable(STALLS["no response"])
    with RawServer(service) as server, client_of(server.url) as client, soon():
        service.client = client
        with pytest.raises(AmbiguousWriteError, match="The request may have been applied"):
            client.create_website("new.example")
        assert server.sent == ["POST /api/v1/websites"]


def test_the_time_of_a_write_begins_with_the_first_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now)  # type: ignore[attr-defined]
    stop = Stopping()
    assert not stop.gives_up("GET")
    stop.set()
    assert stop.gives_up("GET")
    for later in (stopping.GRACE_SECONDS / 2, stopping.GRACE_SECONDS):
        now = later
        assert stop.gives_up("PATCH") is (later == stopping.GRACE_SECONDS)
        stop.set()


def test_an_update_that_was_to_follow_a_show_is_not_sent() -> None:
    service = Stoppable(RECORD)
    with RawServer(service) as server, client_of(server.url) as client:
        service.client = client
        with pytest.raises(StoppedError):
            client.change_website(7, lambda record: {"email": True})
        assert server.sent == ["GET /api/v1/websites/7"]


# Connections


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Is set at the end of the test: until then something hangs."""
    event = threading.Event()
    yield event
    event.set()


Connect = Callable[[Callable[[], None]], AnalyticsClient]


@pytest.fixture(params=["handshake", "proxy"])
def connect(request: pytest.FixtureRequest, held: threading.Event) -> Iterator[Connect]:
    """Make a client whose connection hangs, at a step that calls a function."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang(reached: Callable[[], None]) -> None:
            with listener.accept()[0] as accepted:
                accepted.recv(1)
                reached()
                held.wait(LONG)

        def make(reached: Callable[[], None]) -> AnalyticsClient:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            threading.Thread(target=hang, args=(reached,), daemon=True).start()
            if request.param == "proxy":
                return client_of("https://stats.example.test", proxies={"https": f"http://{address}"})
            return client_of(f"https://{address}")

        yield make


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_request_whose_connection_hangs_is_not_sent(operation: str, connect: Connect) -> None:
    with connect(lambda: client.stop()) as client, soon():
        with pytest.raises(StoppedError, match="the task was killed, so this was not sent: ") as caught:
            do(client, operation)
        assert not may_have_been_applied(caught.value)
        assert client.stats.requests == 1


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("resolves", [True, False])
def test_nothing_is_sent_after_a_look_up_during_which_the_client_was_stopped(
    operation: str, resolves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up itself cannot be interrupted: it ends when the resolver does."""
    getaddrinfo = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **more: Any) -> Any:
        client.stop()
        if not resolves:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return getaddrinfo(host, *arguments, **more)

    with RawServer([RECORD]) as server, client_of(server.url) as client:
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        with pytest.raises(AnalyticsError) as caught:
            do(client, operation)
        assert isinstance(caught.value, StoppedError) or not resolves
        assert not may_have_been_applied(caught.value)
        assert server.requests == []


def test_a_stop_that_interrupts_the_main_thread_ends_its_request() -> None:
    """Airflow stops a task by a signal, whose handler runs in the thread that waits for the response."""

    def respond(request: Request) -> Reply:
        os.kill(os.getpid(), signal.SIGUSR1)
        return Reply(then="hang")

    with RawServer(respond) as server, client_of(server.url) as client, soon():
        before = signal.signal(signal.SIGUSR1, lambda *_: client.stop())
        try:
            with pytest.raises(StoppedError):
                client.get_website(7)
        finally:
            signal.signal(signal.SIGUSR1, before)


# Waits


@pytest.fixture
def stopped_while_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop a client that begins to wait for long."""
    wait = Stopping.wait

    def stopped(self: Stopping, seconds: float, unwanted: threading.Event | None = None) -> None:
        if seconds > LONG / 2:
            threading.Timer(0.01, self.set).start()
        wait(self, seconds, unwanted)

    monkeypatch.setattr(Stopping, "wait", stopped)


REFUSED = http(503, headers=[("Retry-After", "50")])


@pytest.mark.usefixtures("stopped_while_waiting")
@pytest.mark.parametrize(
    ("reply", "settings"),
    [(REFUSED, {}), (RECORD, {"requests_per_minute": 2})],
    ids=["Retry-After", "requests_per_minute"],
)
def test_a_wait_before_a_read_ends(reply: bytes, settings: dict[str, Any]) -> None:
    with RawServer([reply]) as server, client_of(server.url, **settings) as client, soon():
        with pytest.raises(StoppedError, match="the task was killed, so this was not sent: GET"):
            [client.get_website(7) for _ in range(3)]
        assert len(server.requests) <= 2


@pytest.mark.usefixtures("stopped_while_waiting")
def test_a_wait_before_a_write_is_repeated_ends_with_the_error_of_its_first_attempt() -> None:
    with RawServer([REFUSED]) as server, client_of(server.url) as client, soon():
        with pytest.raises(AnalyticsApiError) as caught:
            client.update_website(7, email=True)
        assert may_have_been_applied(caught.value)
        assert len(server.requests) == 1


@pytest.mark.usefixtures("stopped_while_waiting")
def test_a_wait_before_a_list_is_read_again_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "WAITS_BETWEEN_READINGS", (LONG, LONG, LONG))
    moving = http(200, {"data": [{"id": 7}, {"id": 7}], "meta": {"total": 2}})
    with RawServer([moving]) as server, client_of(server.url) as client, soon():
        with pytest.raises(StoppedError):
            client.list_websites()
        assert len(server.requests) == 1


# Operators


class Slow:
    """A service whose responses stall, from the request with this number on; it kills the task with that request."""

    def __init__(self, number: int, stall: str) -> None:
        self.task: Any
        self._numbers = iter(range(1, number))
        self._stall = STALLS[stall]

    def __call__(self, request: Request) -> bytes | Reply:
        if next(self._numbers, None) is not None:
            return http(200, {"data": {"id": 1}})
        self.task.on_kill()
        return self._stall


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize(
    ("operator", "arguments", "number"),
    [
        (GetAccountOperator, {}, 1),
        (GetWebsiteOperator, {"website_id": 7}, 1),
        (GetWebsiteOperator, {"domain": "a.example"}, 1),
        (ListWebsitesOperator, {}, 1),
        (SnapshotWebsitesOperator, {"base_path": "..."}, 2),  # the account comes first
    ],
)
def test_a_task_that_hangs_in_a_slow_response_ends_and_is_not_green(
    operator: Any, arguments: Any, number: int, stall: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Slow(number, stall)
    if "base_path" in arguments:
        arguments = {"base_path": str(tmp_path)}
    with RawServer(service) as server, soon():
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", connection_to(server.url))
        service.task = operator(task_id="task", **arguments)
        with pytest.raises(StoppedError, match="Stopped: the task was killed, before the service responded: GET"):
            service.task.execute({})
        assert len(server.requests) == number
    assert list(tmp_path.iterdir()) == []


def connection_to(url: str) -> str:
    return f'{{"conn_type": "analytics", "host": "{url}", "password": "{KEY}", "extra": {{"timeout": {LONG}}}}}'


def test_a_task_that_was_killed_is_not_green_even_if_all_its_requests_ended(analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example")
    task = GetWebsiteOperator(task_id="task", website_id=1)
    with task.connected({}) as hook:
        assert hook.get_website(1)["domain"] == "a.example"

    def kill(error: Exception | None = None) -> None:
        with task.connected({}) as hook:
            hook.get_website(1)
            task.on_kill()
            if error:
                raise error

    with pytest.raises(StoppedError, match="Stopped: the task was killed"):
        kill()
    # Another error stays what it is.
    with pytest.raises(ZeroDivisionError):
        kill(ZeroDivisionError())
    # A retry in the same process is another try.
    assert task.execute({})["domain"] == "a.example"


def test_the_client_says_that_it_was_stopped() -> None:
    with client_of("http://127.0.0.1:9") as client:
        client.stop()
        assert client.stopped
        with pytest.raises(StoppedError):
            client.get_account()
        assert client.stats.requests == 0


def test_an_error_for_a_write_that_was_given_up_is_one_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who applies a plan counts it among those whose outcome is unknown."""
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 0)
    lost: list[bool] = []

    def respond(request: Request) -> bytes | Reply:
        if request.method == "GET":
            return RECORD
        client.stop()
        return Reply(then="hang")

    with RawServer(respond) as server, client_of(server.url) as client, soon():
        with pytest.raises(AnalyticsConnectionError) as caught:
            client.change_website(7, lambda record: {"email": True}, lambda: lost.append(True))
        assert caught.value.sent
        assert lost == [True]
        assert server.sent == ["GET /api/v1/websites/7", "PATCH /api/v1/websites/7"]
