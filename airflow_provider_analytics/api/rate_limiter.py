"""Rate limit: delays each request until it may be sent."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

#: Waits longer than this many seconds are logged.
ANNOUNCED_FROM = 5.0
#: Seconds in which at most ``per_minute`` requests are sent. A little more than a minute: a slow request may
#: arrive closer to the next ones than it was sent.
WINDOW = 61.0

log = logging.getLogger(__name__)


def until(seconds: float) -> str:
    """Return the time of day in ``seconds`` from now, for log lines."""
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%H:%M:%S} UTC"


class RateLimiter:
    """At most ``per_minute`` requests in any 60 s, shared by all threads.

    :param per_minute: the limit; None: only :meth:`pause` delays requests.
    :param sleep: waits for a number of seconds, or until the event is set.
    :param clock: returns the seconds of a monotonic clock.
    """

    def __init__(
        self, per_minute: int | None, sleep: Callable[[float, threading.Event | None], None], clock: Callable[[], float]
    ) -> None:
        self._sent_at: deque[float] = deque(maxlen=per_minute or 0)
        self._sleep = sleep
        self._clock = clock
        self._not_before = 0.0
        self._reason = ""
        self._announced_until = 0.0
        self._lock = threading.Lock()

    def wait(self, requests: int = 1, unwanted: threading.Event | None = None) -> None:
        """Wait until the next request may be sent, or several without a pause between them.

        :param requests: number of requests, at most ``per_minute``.
        :param unwanted: set when the response is no longer needed.
        """
        with self._lock:
            now = self._clock()
            turn, reason = max(now, self._not_before), self._reason
            if self._sent_at.maxlen:
                too_many = len(self._sent_at) + requests - self._sent_at.maxlen
                if too_many > 0 and self._sent_at[too_many - 1] + WINDOW > turn:
                    turn, reason = (
                        self._sent_at[too_many - 1] + WINDOW,
                        f"requests_per_minute is {self._sent_at.maxlen}",
                    )
                self._sent_at.extend([turn] * requests)
            # Logged once for all threads that wait at the same time.
            announced = turn - now > ANNOUNCED_FROM and turn > self._announced_until
            if announced:
                self._announced_until = turn + ANNOUNCED_FROM
        if announced:
            log.info("Waiting %.0f s, until %s: %s", turn - now, until(turn - now), reason)
        if turn > now:
            self._sleep(turn - now, unwanted)

    def pause(self, seconds: float, reason: str) -> None:
        """Delay all requests until ``seconds`` from now.

        :param reason: the reason, for the log.
        """
        if seconds <= 0:
            return
        with self._lock:
            not_before = self._clock() + seconds
            if not_before > self._not_before:
                self._not_before, self._reason = not_before, reason
