"""Stop a client from outside: it sends no further requests, cancels those under way, and stops waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

#: Seconds between two checks for a stop while the client waits.
LOOK_SECONDS = 0.1
#: Seconds for which the result of :meth:`Stopping.check` is valid.
WATCH_SECONDS = 1.0
#: Seconds that a write under way has to finish after a stop, so that its outcome is known. Airflow kills the process 5
#: s after the signal to end, and the task still has to write the ledger.
GRACE_SECONDS = 2.0

#: Returns why the work no longer belongs to this process, or None.
Look = Callable[[], str | None]


class Stopping:
    """Stop flag of a client, and waits that end when it is set.

    The flag has no lock and is polled: a signal handler sets it, and may interrupt a thread that holds a lock.

    :param sleep: waits for a number of seconds and does not end early; tests replace it. None waits until the client is
        stopped.
    """

    def __init__(self, sleep: Callable[[float], None] | None = None) -> None:
        self.is_set = False
        #: Reason, for messages.
        self.why = "the task was killed"
        self._since = 0.0
        self._sleep = sleep
        self._look: Look | None = None
        self._watched_at = 0.0

    def watch(self, look: Look) -> None:
        """Check from now on whether the work still belongs to this process. At this moment it does."""
        self._look, self._watched_at = look, time.monotonic()

    def check(self) -> None:
        """Stop if the work no longer belongs to this process; call this before each request.

        Checks at most every :data:`WATCH_SECONDS`. While one thread checks, no other thread continues without the
        result. The clock continues while a process is suspended, so a resumed process checks first.
        """
        now = time.monotonic()
        if self._look is None or self.is_set or now - self._watched_at < WATCH_SECONDS:
            return
        why = self._look()
        if why is None:
            self._watched_at = now
        elif not self.is_set:
            self.why = why
            self.set()

    def set(self) -> None:
        """Stop the client; safe in a signal handler."""
        if not self.is_set:
            self._since, self.is_set = time.monotonic(), True

    def gives_up(self, method: str) -> bool:
        """Return whether to cancel a request under way: a read at once, a write after :data:`GRACE_SECONDS`."""
        return self.is_set and (method == "GET" or time.monotonic() - self._since >= GRACE_SECONDS)

    def wait(self, seconds: float, unwanted: Event | None = None) -> None:
        """Wait for a number of seconds, until the client is stopped, or until ``unwanted`` is set."""
        if self._sleep is not None:
            self._sleep(seconds)
            return
        end = time.monotonic() + seconds
        while not (self.is_set or (unwanted and unwanted.is_set())) and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))
