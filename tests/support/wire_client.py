"""Clients whose time is the test's own."""

from __future__ import annotations

import threading
from typing import Any

from operations import OPERATIONS

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport

KEY = "key-4f9a/+&=<tail>"
WEBSITE_ID = 7
WEBSITE = {"id": WEBSITE_ID, "domain": "new.example", "privacy": 0, "email": 1}


class Time:
    """A clock that moves only when somebody sleeps, and the sleeps in their order."""

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
    """Return a client that waits without waiting."""
    time = time or Time()
    given = {"base_url": url, "api_key": KEY, "timeout": 5, **settings}
    checked = Settings(**given)
    return AnalyticsClient(checked, Transport(checked, sleep=time.sleep, clock=time.clock))


def do(client: AnalyticsClient, operation: str) -> Any:
    """Carry out an operation, on the website above where it is about one."""
    return OPERATIONS[operation].call(client, WEBSITE_ID)
