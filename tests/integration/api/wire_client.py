"""Clients whose time is the test's own, and the operations they have."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport

KEY = "key-4f9a/+&=<tail>"
WEBSITE = {"id": 7, "domain": "new.example", "privacy": 0}

OPERATIONS: dict[str, Callable[[AnalyticsClient], Any]] = {
    "list": lambda client: client.list_websites(),
    "show": lambda client: client.get_website(7),
    "create": lambda client: client.create_website("new.example"),
    "update": lambda client: client.update_website(7, email=True),
    "delete": lambda client: client.delete_website(7),
    "account": lambda client: client.get_account(),
}
READS = ("list", "show", "account")
WRITES = ("create", "update", "delete")


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
