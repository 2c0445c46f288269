"""Counters of a client, which it reports to a listener: the metrics of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from threading import Lock
from typing import Any

#: Prefix of the metric names.
METRICS_PREFIX = "analytics"
#: Counters in seconds.
TIMERS = ("waited",)
#: Receives the name of a counter, and the number that was added.
Listener = Callable[[str, float], None]


def _counted(meaning: str, default: float = 0) -> Any:
    return dataclass_field(default=default, metadata={"meaning": meaning})


@dataclass
class Stats:
    """Counters of a client; thread-safe.

    :param listener: called each time a counter changes, from any thread.
    """

    requests: int = _counted("Requests sent, retries among them")
    retries: int = _counted("Requests that are sent again, since an attempt failed")
    waited: float = _counted(
        "Time waited: for a retry, for a rate limit, until the service shows a write, or to read a list again",
        0.0,
    )
    pages: int = _counted("Pages of the list read, those that prove it among them")
    lists_read_again: int = _counted("Lists read again, because they changed during the reading")
    websites: int = _counted("Websites of lists that were proven complete")
    changes_applied: int = _counted("Websites created, changed or deleted with success")
    changes_failed: int = _counted("Websites whose creation, change or deletion failed, or is not shown by the service")
    listener: Listener | None = None

    def __post_init__(self) -> None:
        """Create the lock; see :meth:`forget_threads`."""
        self.forget_threads()

    def forget_threads(self) -> None:
        """Replace the lock: after a fork, a thread that does not exist in the child may hold it."""
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


#: Counter name to its meaning.
COUNTED: Mapping[str, str] = {one.name: one.metadata["meaning"] for one in fields(Stats) if "meaning" in one.metadata}
