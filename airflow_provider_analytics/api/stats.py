# SPDX-License-Identifier: Apache-2.0
"""Counters of a client, which it reports to a listener: the metrics of docs/monitoring.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

#: Prefix of the metric names.
METRICS_PREFIX = "analytics"
#: Counters in seconds.
TIMERS = ("waited",)
#: Receives the name of a counter, and the number that was added.
Listener = Callable[[str, float], None]


@dataclass
class Stats:
    """Counters of a client; thread-safe. ``make generate`` writes the descriptions to docs/monitoring.md.

    :param requests: Requests sent, retries among them
    :param retries: Requests that are sent again, since an attempt failed
    :param waited: Time waited: for a retry or a rate limit, until the service returns a write, or to read a list again
    :param pages: Pages of the list read, those that prove it among them
    :param lists_read_again: Lists read again, because they changed during the reading
    :param websites: Websites of lists that were proven complete
    :param changes_applied: Websites created, changed or deleted with success
    :param changes_failed: Websites whose creation, change or deletion failed, or is not returned by the service
    :param listener: called each time a counter changes, from any thread.
    """

    requests: int = 0
    retries: int = 0
    waited: float = 0.0
    pages: int = 0
    lists_read_again: int = 0
    websites: int = 0
    changes_applied: int = 0
    changes_failed: int = 0
    listener: Listener | None = None

    def __post_init__(self) -> None:
        self.forget_threads()

    def forget_threads(self) -> None:
        """Replace the lock: after a fork, a thread that does not exist in the child can hold it."""
        self._lock = Lock()

    def count(self, name: str, number: float = 1) -> None:
        """Add a number to a counter.

        :param name: name of its attribute.
        """
        if not number:
            return
        with self._lock:
            setattr(self, name, getattr(self, name) + number)
        if self.listener is not None:
            self.listener(name, number)
