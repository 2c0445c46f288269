# SPDX-License-Identifier: Apache-2.0
"""One hook in several threads and processes: separate responses and a common limit (``hooks/analytics.py``)."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from raw_server import RawServer, Reply, Request, http

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.hooks import analytics
from airflow_provider_analytics.hooks.analytics import AnalyticsHook


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(url: str, **changes: Any) -> AnalyticsHook:
        fields = {"conn_type": "analytics", "host": url, "password": "s3cret-key", **changes}
        monkeypatch.setenv("AIRFLOW_CONN_SHARED", json.dumps(fields))
        return AnalyticsHook("shared")

    return make


def echo(request: Request) -> bytes:
    """Respond with the requested website."""
    return http(200, {"data": {"id": int(request.target.rpartition("/")[2])}})


forks = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


def in_a_fork(work: Callable[[], str], meanwhile: Callable[[], object] = lambda: None) -> str:
    """Return the result of ``work`` in a forked process, or its exception; "hangs" if it does not end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # Exceptions, test reports, and locks do not leave the child.
        signal.setitimer(signal.ITIMER_REAL, 10)
        try:
            os.write(writer, work().encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    meanwhile()
    with os.fdopen(reader) as output:
        said = output.read()
    os.waitpid(child, 0)
    return said or "hangs"


@forks
def test_forked_process_reads_only_its_own_responses(connect: Any) -> None:
    with RawServer(echo) as server, connect(server.url) as hook:
        assert hook.get_website(1) == {"id": 1}

        def read(first: int) -> str:
            return str(all(hook.get_website(number) == {"id": number} for number in range(first, first + 60)))

        mine: list[str] = []
        assert in_a_fork(lambda: read(1000), lambda: mine.append(read(2000))) == "True"
        assert mine == ["True"]
        # The child opened its own connection.
        assert server.connections == 2


@forks
def test_forked_process_opens_its_own_connection_even_if_that_of_its_parent_is_idle(connect: Any) -> None:
    with RawServer(echo) as server, connect(server.url) as hook:
        assert hook.get_website(1) == {"id": 1}
        assert in_a_fork(lambda: str(hook.get_website(2))) == "{'id': 2}"
        assert hook.get_website(3) == {"id": 3}
        assert server.connections == 2


@forks
def test_forked_process_stops_its_own_requests(connect: Any) -> None:
    """The watchdog thread does not exist in a fork, and a stop of the fork does not stop the parent."""
    waiting, forked = threading.Event(), threading.Event()

    def respond(request: Request) -> bytes | Reply:
        if request.target.endswith("/1"):
            waiting.set()
            forked.wait(30)
            return echo(request)
        return Reply(then="hang")

    def stop_a_request(hook: AnalyticsHook) -> str:
        threading.Timer(0.3, hook.client.stop).start()
        return str(hook.get_website(2))

    with (
        RawServer(respond) as server,
        connect(server.url, extra={"max_retries": 0}) as hook,
        ThreadPoolExecutor(1) as pool,
    ):
        mine = pool.submit(hook.get_website, 1)
        assert waiting.wait(30)
        assert in_a_fork(lambda: stop_a_request(hook)).startswith("StoppedError")
        forked.set()
        assert mine.result(30) == {"id": 1}


@forks
def test_forked_process_sends_requests_although_a_thread_of_its_parent_held_a_lock(connect: Any) -> None:
    counting, forked = threading.Event(), threading.Event()

    class SlowNumber(int):
        def __radd__(self, other: int) -> int:
            counting.set()
            forked.wait(30)
            return other + int(self)

    with RawServer(echo) as server, connect(server.url) as hook, ThreadPoolExecutor(1) as pool:
        counted = pool.submit(hook.client.stats.count, "websites", SlowNumber(1))
        assert counting.wait(30)
        assert in_a_fork(lambda: str(hook.get_website(2))) == "{'id': 2}"
        forked.set()
        counted.result(30)


def test_first_use_in_many_threads_creates_a_single_client(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[AnalyticsClient] = []
    begin, second = threading.Barrier(16), threading.Barrier(2)

    class Counted(AnalyticsClient):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)
            with suppress(threading.BrokenBarrierError):  # no second client is created while the first one is created
                second.wait(0.2)

    monkeypatch.setattr(analytics, "AnalyticsClient", Counted)

    def use(number: int) -> Any:
        begin.wait(30)
        return hook.get_website(number)

    with RawServer(echo) as server, connect(server.url) as hook, ThreadPoolExecutor(16) as pool:
        assert list(pool.map(use, range(16))) == [{"id": number} for number in range(16)]
    assert len(made) == 1


def test_connection_of_another_type_sends_nothing(connect: Any) -> None:
    with RawServer(echo) as server:
        hook = connect(server.url, conn_type="http")
        with pytest.raises(AnalyticsConfigError, match=r"of type 'http'.* Set its type to 'analytics'"):
            hook.get_website(1)
        worked, message = hook.test_connection()
        assert (worked, server.connections) == (False, 0)
        assert "s3cret-key" not in message


@pytest.mark.parametrize("host", ["http://localhost", "http://127.0.0.1", "http://[::1]:8080/app"])
@pytest.mark.parametrize("scheme", ["http", "all"])
def test_proxy_does_not_get_the_key_in_clear_text(host: str, scheme: str, connect: Any) -> None:
    """http is allowed to this machine only, and a proxy is another machine."""
    with RawServer(http(200, {"id": 1})) as proxy:
        hook = connect(host, extra={"proxies": {scheme: proxy.url}})
        with hook, pytest.raises(AnalyticsConfigError, match=r"proxies.* clear text") as caught:
            hook.get_account()
        assert proxy.requests == []
    assert host in str(caught.value)
    assert "s3cret-key" not in str(caught.value)
    for proxies in ({scheme: proxy.url}, {"https": proxy.url}):  # the second proxy is not used for http
        with connect(host, extra={"proxies": proxies, "allow_insecure_http": scheme in proxies}) as hook:
            assert hook.client.settings.proxies == proxies
