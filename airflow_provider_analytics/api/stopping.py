"""Stop a client from outside: it sends no further requests, gives up those under way, and stops waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

#: Seconds between two checks whether the client was stopped, while it waits.
LOOK_SECONDS = 0.1
#: Seconds for which a check is valid that the work still belongs to this process.
WATCH_SECONDS = 1.0
#: Seconds that a write under way gets to end after a stop, so that its outcome is known. Airflow kills the process 5 s
#: after it told it to end, and the ledger is still to be written.
GRACE_SECONDS = 2.0

#: Returns why the work no longer belongs to this process, or None.
Look = Callable[[], str | None]


class Stopping:
    """Whether a client was stopped, and waits that end when it is.

    A flag without a lock, which is checked repeatedly: a signal handler sets it, and may interrupt the very thread that
    holds a lock.

    :param sleep: waits for a number of seconds and does not end early; tests replace it. None waits until the client is
        stopped.
    """

    def __init__(self, sleep: Callable[[float], None] | None = None) -> None:
        self.is_set = False
        #: Why, for messages.
        self.why = "the task was killed"
        self._since = 0.0
        self._sleep = sleep
        self._look: Look | None = None
        self._watched_at = 0.0

    def watch(self, look: Look) -> None:
        """Check from now on whether the work still belongs to this process; right now it does."""
        self._look, self._watched_at = look, time.monotonic()

    def check(self) -> None:
        """Stop if the work no longer belongs to this process. To be called before each request.

        It checks at most every :data:`WATCH_SECONDS`. While one thread checks, no other thread continues without the
        result. The clock runs on while a process is suspended, so a resumed process checks first.
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
        """Return whether a request under way is given up: a read at once, a write after :data:`GRACE_SECONDS`."""
        return self.is_set and (method == "GET" or time.monotonic() - self._since >= GRACE_SECONDS)

    def wait(self, seconds: float, unwanted: Event | None = None) -> None:
        """Wait so many seconds, or until the client is stopped, or until ``unwanted`` is set."""
        if self._sleep is not None:
            self._sleep(seconds)
            return
        end = time.monotonic() + seconds
        while not (self.is_set or (unwanted and unwanted.is_set())) and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))
