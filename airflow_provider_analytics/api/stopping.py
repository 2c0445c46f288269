"""Stop a client from outside: no request is begun any more, and all waiting ends."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds between two looks at whether the client was stopped, while it waits.
LOOK_SECONDS = 0.1


class Stopping:
    """Whether a client was stopped, and waits that end when it is.

    A flag without a lock, looked at again and again: it is set by a signal handler, which may interrupt the very thread
    that holds a lock.

    :param sleep: waits for a number of seconds, whatever happens; tests replace it. None waits until the client is
        stopped at most.
    """

    def __init__(self, sleep: Callable[[float], None] | None = None) -> None:
        self.is_set = False
        self._sleep = sleep

    def set(self) -> None:
        """Stop the client; safe in a signal handler."""
        self.is_set = True

    def wait(self, seconds: float) -> None:
        """Wait so many seconds, or until the client is stopped."""
        if self._sleep is not None:
            self._sleep(seconds)
            return
        end = time.monotonic() + seconds
        while not self.is_set and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))
