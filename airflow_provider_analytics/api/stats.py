"""What a client counts while it works, and tells to whoever listens: the metrics of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from threading import Lock
from typing import Any

#: What the names of the metrics begin with.
METRICS_PREFIX = "analytics"
#: Counts that are a number of seconds.
TIMERS = ("waited",)
#: Is told the name of what was counted, and by how much.
Listener = Callable[[str, float], None]


def _counted(meaning: str, default: float = 0) -> Any:
    return dataclass_field(default=default, metadata={"meaning": meaning})


@dataclass
class Stats:
    """What a client has done so far; thread-safe.

    :param listener: is told each time something is counted, from any thread.
    """

    requests: int = _counted("Requests sent, retries among them")
    retries: int = _counted("Requests that are sent again, since an attempt failed")
    waited: float = _counted(
        "Time waited: for a retry, for `requests_per_minute`, until the service shows a write, or to read a list again",
        0.0,
    )
    pages: int = _counted("Pages of the list read, those that prove it among them")
    lists_read_again: int = _counted("Lists read again, because they changed during the reading")
    websites: int = _counted("Websites of lists that were proven complete")
    changes_applied: int = _counted("Websites created, changed or deleted with success")
    changes_failed: int = _counted("Websites whose creation, change or deletion failed, or is not shown by the service")
    listener: Listener | None = None

    def __post_init__(self) -> None:
        """Make the lock; see :meth:`forget_threads`."""
        self.forget_threads()

    def forget_threads(self) -> None:
        """Make the lock anew: in a process that was forked, a thread that is not there may hold it."""
        self._lock = Lock()

    def count(self, name: str, number: float = 1) -> None:
        """Add to one of the counts, by the name of its attribute."""
        if not number:
            return
        with self._lock:
            setattr(self, name, getattr(self, name) + number)
        if self.listener is not None:
            self.listener(name, number)


#: Name to meaning of all that is counted.
COUNTED: Mapping[str, str] = {one.name: one.metadata["meaning"] for one in fields(Stats) if "meaning" in one.metadata}
