# SPDX-License-Identifier: Apache-2.0
"""The hook against a real server: operations, the Test button, connections, and threads (``hooks/analytics.py``)."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from raw_server import RawServer, Reply, Request, http

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.exceptions import AnalyticsConfigError, NotFoundError
from airflow_provider_analytics.hooks import analytics
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.sandbox.server import SandboxServer

Connect = Callable[..., AnalyticsHook]


@pytest.fixture
def hook(analytics_sandbox: SandboxServer) -> Iterator[AnalyticsHook]:
    with AnalyticsHook() as hook:
        yield hook


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Create a hook whose connection has this URL, and these other fields."""

    def make(url: str, **changes: Any) -> AnalyticsHook:
        fields = {"conn_type": "analytics", "host": url, "password": "s3cret-key", **changes}
        monkeypatch.setenv("AIRFLOW_CONN_SHARED", json.dumps(fields))
        return AnalyticsHook("shared")

    return make


def test_hook_has_every_operation(hook: AnalyticsHook, analytics_sandbox: SandboxServer) -> None:
    created = hook.create_website(
        "www.example.com",
        privacy="password",
        password="s3cret",
        email=True,
        exclude_bots=False,
        exclude_ips=["10.0.0.1"],
    )
    website_id = created["id"]
    assert analytics_sandbox.stored_password(website_id) == "s3cret"
    assert hook.update_website(website_id, privacy=Privacy.PRIVATE, exclude_ips=[], favorite=True)["favorite"] is True
    shown = hook.get_website(website_id)
    expected = {"privacy": 1, "email": 1, "exclude_bots": 0, "exclude_ips": None}
    assert {name: shown[name] for name in expected} == expected
    assert hook.list_websites(favorite=True) == list(hook.iter_websites(search="www")) == [shown]
    assert hook.find_website("WWW.example.com.") == shown
    assert hook.find_website("example.com") is None
    assert hook.get_account()["id"] == 1
    hook.delete_website(website_id)
    assert analytics_sandbox.websites() == []
    with pytest.raises(NotFoundError, match="404"):
        hook.delete_website(website_id)
    hook.close()
    assert hook.get_account()["id"] == 1


#: Number of websites, options, and the report of the connection test about the first page.
FIRST_PAGES: list[tuple[int, dict[str, Any], str]] = [
    (142, {}, "142 websites"),
    (142, {"links": "absent", "page_parameter": "p"}, "142 websites"),
    (1, {}, "1 website"),
    (142, {"metadata": "none"}, "100 websites on the first page, and no total"),
]


@pytest.mark.parametrize(("count", "options", "said"), FIRST_PAGES)
def test_connection_test_reports_the_first_page(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer, count: int, options: dict[str, Any], said: str
) -> None:
    analytics_sandbox.seed(count)
    analytics_sandbox.configure(**options)
    assert hook.test_connection() == (
        True,
        f"Connected to {analytics_sandbox.url} as account@example.com. The account has {said}.",
    )
    assert [request.operation for request in analytics_sandbox.requests] == ["account", "list"]


def test_connection_test_reports_a_slow_service(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_analytics.hooks.analytics.MAX_SECONDS_OF_A_TEST", 0.2)
    # Each byte arrives in time, so only the limit of the whole test ends it.
    with RawServer(Reply(http(200, b"{", length=100_000), then="drip")) as server:
        message = f"The service did not respond within 0 s: {server.url}"
        assert connect(server.url).test_connection() == (False, message)


FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "maintenance": ({"status": 503}, ["503", "Service Unavailable"]),
    "too many requests": ({"status": 429, "headers": {"Retry-After": "30"}}, ["429", "requests_per_minute"]),
    "no account": ({"body": {"error": "nothing here"}}, ["200", "nothing here"]),
    "dropped": ({"drop": True}, ["closed the connection"]),
    "echo of the key": ({"status": 400, "echo": True}, ["400", "***"]),
}


@pytest.mark.parametrize(("fault", "expected"), FAULTS.values(), ids=FAULTS)
def test_connection_test_reports_each_failure(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer, fault: dict[str, Any], expected: list[str]
) -> None:
    analytics_sandbox.fault("account", times=None, **fault)
    worked, message = hook.test_connection()
    assert not worked
    assert analytics_sandbox.api_key not in message
    assert len(analytics_sandbox.requests) <= 1, "a person waits for the answer: one attempt"
    for part in (analytics_sandbox.url.removeprefix("http://"), "this connection", *expected):
        assert part in message


def results_of(page: str) -> dict[str, Any]:
    """Run the code of a page of docs/reference, and return its variables."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / page).read_text(encoding="utf-8")
    found: dict[str, Any] = {"page": text}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if ") -> " not in block:  # the signature of a method
            exec(block, found)
    return found


def test_documented_example_runs(analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("open.example", privacy=0)
    analytics_sandbox.add_website("closed.example", privacy=1)
    found = results_of("hook.md")
    assert found["private"] == ["closed.example"]
    named = set(re.findall(r"`(\w+)`", found["page"].partition("```")[0])) - {"AnalyticsHook"}
    assert all(callable(getattr(AnalyticsHook, name)) for name in named)


@pytest.mark.parametrize("is_permitted", [True, False])
def test_documented_exception_is_caught(analytics_sandbox: SandboxServer, is_permitted: bool) -> None:
    analytics_sandbox.seed(17)
    if not is_permitted:
        analytics_sandbox.fault("show", status=403)
    assert (results_of("exceptions.md")["website"] is not None) == is_permitted


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        *(
            (value, "is set, but it is neither JSON nor a URI")
            for value in ("{'conn_type': 'analytics'}", "analytics_default", '{"conn_type": "analytics",}')
        ),
        (
            '{"conn_type": "analytics", "host": "https://a.example", "password": 12345678}',
            "is JSON, but .* as text, in double quotes",
        ),
    ],
)
def test_invalid_connection_variable_of_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", value)
    with pytest.raises(AnalyticsConfigError, match=f"AIRFLOW_CONN_BROKEN {problem}"):
        AnalyticsHook("broken").get_account()


# Several threads and processes: separate responses and a common limit


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
def test_forked_process_reads_only_its_own_responses(connect: Connect) -> None:
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
def test_forked_process_stops_its_own_requests(connect: Connect) -> None:
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
def test_forked_process_sends_requests_although_a_thread_of_its_parent_held_a_lock(connect: Connect) -> None:
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


def test_first_use_in_many_threads_creates_a_single_client(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[AnalyticsClient] = []
    begin, second = threading.Barrier(16), threading.Barrier(2)

    class Counted(AnalyticsClient):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)
            with suppress(threading.BrokenBarrierError):  # no second client is created while the first one is created
                second.wait(0.2)

    monkeypatch.setattr(analytics, "AnalyticsClient", Counted)

    def use(shared: AnalyticsHook, number: int) -> Any:
        begin.wait(30)
        return shared.get_website(number)

    with RawServer(echo) as server, connect(server.url) as shared, ThreadPoolExecutor(16) as pool:
        found = pool.map(partial(use, shared), range(16))
        assert list(found) == [{"id": number} for number in range(16)]
    assert len(made) == 1


def test_connection_of_another_type_sends_nothing(connect: Connect) -> None:
    with RawServer(echo) as server:
        hook = connect(server.url, conn_type="http")
        with pytest.raises(AnalyticsConfigError, match=r"of type 'http'.* Set its type to 'analytics'"):
            hook.get_website(1)
        worked, message = hook.test_connection()
        assert (worked, server.connections) == (False, 0)
        assert "s3cret-key" not in message


@pytest.mark.parametrize("host", ["http://localhost", "http://127.0.0.1", "http://[::1]:8080/app"])
@pytest.mark.parametrize("others", [[], ["https"]], ids=len)
@pytest.mark.parametrize("scheme", ["http", "all"])
def test_proxy_does_not_get_the_key_in_clear_text(host: str, scheme: str, others: list[str], connect: Connect) -> None:
    """http is allowed to this machine only, and a proxy is another machine."""
    with RawServer(http(200, {"id": 1})) as proxy:
        hook = connect(host, extra={"proxies": dict.fromkeys([*others, scheme], proxy.url)})
        with hook, pytest.raises(AnalyticsConfigError, match=r"proxies.* clear text") as caught:
            hook.get_account()
        assert proxy.requests == []
    assert host in str(caught.value)
    assert "s3cret-key" not in str(caught.value)
    for proxies in ({scheme: proxy.url}, {"https": proxy.url}):  # the second proxy is not used for http
        with connect(host, extra={"proxies": proxies, "allow_insecure_http": scheme in proxies}) as hook:
            assert hook.client.settings.proxies == proxies
