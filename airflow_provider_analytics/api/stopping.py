"""Stop a client from outside: no request is begun any more, and all waiting ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

#: Seconds between two looks at whether the client was stopped, while it waits.
LOOK_SECONDS = 0.1
#: Seconds for which a look at whether the work is still this process's own is good.
WATCH_SECONDS = 1.0

#: Returns why the work is no longer this process's own, or None.
Look = Callable[[], str | None]


class Stopping:
    """Whether a client was stopped, and waits that end when it is.

    A flag without a lock, looked at again and again: it is set by a signal handler, which may interrupt the very thread
    that holds a lock.

    :param sleep: waits for a number of seconds, whatever happens; tests replace it. None waits until the client is
        stopped at most.
    """

    def __init__(self, sleep: Callable[[float], None] | None = None) -> None:
        self.is_set = False
        #: Why, for messages.
        self.why = "the task was killed"
        self._sleep = sleep
        self._look: Look | None = None
        self._watched_at = 0.0

    def watch(self, look: Look) -> None:
        """Ask from now on whether the work is still this process's own; it is so right now."""
        self._look, self._watched_at = look, time.monotonic()

    def check(self) -> None:
        """Stop if the work is no longer this process's own. To be called before each request.

        At most every :data:`WATCH_SECONDS` it looks; while one thread looks, no other one goes on without. The clock
        goes on while a process is stopped, so that one that is continued looks first.
        """
        now = time.monotonic()
        if self._look is None or self.is_set or now - self._watched_at < WATCH_SECONDS:
            return
        why = self._look()
        if why is None:
            self._watched_at = now
        elif not self.is_set:
            self.why, self.is_set = why, True

    def set(self) -> None:
        """Stop the client; safe in a signal handler."""
        self.is_set = True

    def wait(self, seconds: float, unwanted: Event | None = None) -> None:
        """Wait so many seconds, or until the client is stopped, or until ``unwanted`` is set."""
        if self._sleep is not None:
            self._sleep(seconds)
            return
        end = time.monotonic() + seconds
        while not (self.is_set or (unwanted and unwanted.is_set())) and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))
