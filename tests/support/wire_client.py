# SPDX-License-Identifier: Apache-2.0
"""Clients with the clock of the test."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from operations import OPERATIONS
from raw_server import RawServer, Replies, Respond

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.sandbox.server import SandboxServer

KEY = "key-4f9a/+&=<tail>"
WEBSITE_ID = 7
WEBSITE = {"id": WEBSITE_ID, "domain": "new.example", "privacy": 0, "email": 1}


class Time:
    """A clock that moves only during a sleep, and the sleeps in their order."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def sleep(self, seconds: float) -> None:
        """Pass the time at once."""
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds

    def clock(self) -> float:
        """Return the seconds now."""
        return self.now


def client_of(url: str, time: Time | None = None, **settings: Any) -> AnalyticsClient:
    """Return a client whose waits take no time."""
    time = time or Time()
    given = {"base_url": url, "api_key": KEY, "timeout": 5, **settings}
    checked = Settings(**given)
    return AnalyticsClient(checked, Transport(checked, sleep=time.sleep, clock=time.clock))


def waiting_client_of(url: str, **settings: Any) -> AnalyticsClient:
    """Return a client with the real clock."""
    return AnalyticsClient(Settings(**{"base_url": url, "api_key": KEY, **settings}))


@contextmanager
def clients_of(sandbox: SandboxServer) -> Iterator[Callable[..., AnalyticsClient]]:
    """Return a function that creates clients of a sandbox: ``client_with(page_parameter="p")``."""
    with ExitStack() as made:
        yield lambda **settings: made.enter_context(
            client_of(**{"url": sandbox.url, "api_key": sandbox.api_key, **settings})
        )


@contextmanager
def served(
    respond: Respond | Replies, time: Time | None = None, *, tls: ssl.SSLContext | None = None, **settings: Any
) -> Iterator[tuple[AnalyticsClient, RawServer]]:
    """Run a server with these responses; return a client of it, and the server."""
    with RawServer(respond, tls) as server, client_of(server.url, time, **settings) as client:
        yield client, server


def error_of(
    respond: Respond | Replies,
    call: Callable[[AnalyticsClient], object] = AnalyticsClient.get_account,
    kind: type[Exception] = AnalyticsError,
    match: str | None = None,
    time: Time | None = None,
    **settings: Any,
) -> Any:
    """Return the error of a call without retries to a server with these responses."""
    with (
        served(respond, time, **{"max_retries": 0, **settings}) as (client, _),
        pytest.raises(kind, match=match) as caught,
    ):
        call(client)
    return caught.value


def do(client: AnalyticsClient, operation: str) -> Any:
    """Call an operation, on the website above if it needs a website."""
    return OPERATIONS[operation].call(client, WEBSITE_ID)
