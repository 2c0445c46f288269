"""No request waits without a limit, in whatever phase it is: it ends at its deadline, at a stop, or with its socket."""

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
from operations import update
from raw_server import RawServer, Reply, Request, http
from wire_client import KEY, WEBSITE

from airflow_provider_analytics.api import transport
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.stopping import Stopping
from airflow_provider_analytics.api.transport import Transport, may_have_been_applied
from airflow_provider_analytics.exceptions import (
    AnalyticsConnectionError,
    AnalyticsError,
    StoppedError,
)

#: Seconds that hanging may take at most, and far more than any of these tests needs.
LONG = 60
RECORD = http(200, {"data": WEBSITE})
CUT = http(200, b'{"data"', length=100_000)
HEAD = b"HTTP/1.1 200 OK\r\nX-Slow: "


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

    def call(self, client: AnalyticsClient) -> Any:
        """Send a request that reaches the phase; the body of an update is far larger than the buffers of sockets."""
        if self.phase == "send":
            return update(client, 7, exclude_params="x" * 40_000_000)
        if self.phase == "reused connection":
            client.get_website(7)
        return client.get_website(7)

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
        server = self._stack.enter_context(RawServer(respond, tls=context))
        self.settings["base_url"] = server.url

    def _full_queue(self) -> None:
        """Connect once more than the queue of a listener holds: the next connect gets no answer."""
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            queued = self._stack.enter_context(socket.socket())
            queued.settimeout(0.1)
            with suppress(TimeoutError):
                queued.connect(listener.getsockname())
        self.settings["base_url"] = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def _silent(self) -> None:
        """Accept connections, and read one byte, or nothing at all."""
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def serve() -> None:
            with suppress(OSError), listener.accept()[0] as accepted:
                accepted.recv(1)
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


def client_of(service: Hanging, timeout: float) -> AnalyticsClient:
    """Return a client whose time is real, and which sends each request once."""
    settings = Settings(**{"api_key": KEY, "timeout": timeout, "max_retries": 0, **service.settings})
    return AnalyticsClient(settings, Transport(settings))


@contextmanager
def soon() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LONG / 4


@in_phases(*PHASES)
def test_it_ends_in_time(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_TIMEOUTS", 1.5)
    is_reached = threading.Event()
    hanging.reached = is_reached.set
    with client_of(hanging, 0.4) as client, soon(), pytest.raises(AnalyticsConnectionError) as caught:
        hanging.call(client)
    # On a busy machine, the time may be over before anything is sent.
    is_unclear = hanging.phase not in UNSENT and is_reached.is_set()
    assert may_have_been_applied(caught.value) or not is_unclear
    assert not may_have_been_applied(caught.value) or hanging.phase not in UNSENT


@in_phases(*(phase for phase in PHASES if phase not in ("connect", "send")))
def test_a_read_ends_at_a_stop(hanging: Hanging) -> None:
    with client_of(hanging, LONG) as client, soon():
        hanging.reached = client.stop
        with pytest.raises(StoppedError, match="this was not sent" if hanging.phase in UNSENT else "before the serv"):
            hanging.call(client)


@in_phases("send")
def test_a_write_that_the_service_does_not_read_ends_at_a_stop(hanging: Hanging) -> None:
    with client_of(hanging, LONG) as client, soon():
        hanging.reached = client.stop
        with pytest.raises(AnalyticsConnectionError, match="The request may have been applied"):
            hanging.call(client)


@pytest.fixture
def dying_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each thread of the client end as soon as it starts."""
    run = threading.Thread.run

    def dying(thread: threading.Thread) -> None:
        if not thread.name.startswith("analytics"):
            run(thread)

    monkeypatch.setattr(threading.Thread, "run", dying)


@in_phases(*(phase for phase in PHASES if phase not in DRIPPING))
@pytest.mark.usefixtures("dying_threads")
def test_it_ends_without_the_watchdog(hanging: Hanging) -> None:
    """Each read, and the handshake as a whole, has the timeout of the socket."""
    with client_of(hanging, 0.5) as client, soon(), pytest.raises(AnalyticsConnectionError):
        hanging.call(client)


@pytest.mark.usefixtures("dying_threads")
def test_no_request_needs_another_thread() -> None:
    with RawServer([RECORD]) as server:
        settings = Settings(base_url=server.url, api_key=KEY)
        with AnalyticsClient(settings, Transport(settings)) as client:
            assert [client.get_website(7) for _ in range(3)] == [WEBSITE] * 3


def watchdogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "analytics-watchdog"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watchdog_that_died_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    gives_up = Stopping.gives_up
    monkeypatch.setattr(Stopping, "gives_up", lambda *_, **__: 1 / 0)

    def respond(request: Request) -> bytes | Reply:
        if request.method == "PATCH":
            for thread in watchdogs():
                thread.join(LONG)
            return RECORD
        monkeypatch.setattr(Stopping, "gives_up", gives_up)
        client.stop()
        return Reply(then="hang")

    with RawServer(respond) as server:
        settings = Settings(base_url=server.url, api_key=KEY, timeout=LONG)
        with AnalyticsClient(settings, Transport(settings)) as client, soon():
            assert update(client, 7, email="1") == WEBSITE
            with pytest.raises(StoppedError):
                client.get_website(7)


def test_a_response_that_looks_complete_is_void_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the watchdog has shut the connection, a body without a length seems to end."""
    monkeypatch.setattr(transport, "MAX_TIMEOUTS", 1)
    complete = Reply(b'HTTP/1.0 200 OK\r\n\r\n{"data": {"id": 7}}', then="drip")
    with RawServer([complete]) as server:
        settings = Settings(base_url=server.url, api_key=KEY, timeout=0.3, max_retries=0)
        with AnalyticsClient(settings, Transport(settings)) as client, pytest.raises(AnalyticsConnectionError):
            client.get_website(7)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_thread_and_no_descriptor_is_left() -> None:
    def respond(request: Request) -> Reply:
        number = int(request.target.rpartition("/")[2])
        return (Reply(RECORD), Reply(CUT, then="close"), Reply(HEAD, then="reset"), Reply(http(500)))[number % 4]

    number = 100
    with RawServer(respond) as server:
        settings = Settings(base_url=server.url, api_key=KEY, max_retries=0)
        before = descriptors()
        with AnalyticsClient(settings, Transport(settings)) as client:
            for website_id in range(number):
                with suppress(AnalyticsError):
                    update(client, website_id, email="1")
        for thread in watchdogs():
            thread.join(LONG)
        assert watchdogs() == []
        # The server may still have to close some of its connections.
        assert descriptors() < before + number / 4
