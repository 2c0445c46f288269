# SPDX-License-Identifier: Apache-2.0
"""Rate limit: delays each request until it can be sent."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

#: Waits longer than this many seconds are logged.
ANNOUNCED_FROM = 5.0
#: Longest pause, in seconds, that the service can request.
MAX_WAIT = 60.0
#: Seconds between two log lines.
REPORT_SECONDS = 30.0
#: Bounds of the interval between two requests, in seconds, while the service rejects requests, and the upper bound as
#: soon as it accepts one.
MIN_INTERVAL = 0.01
MAX_INTERVAL = 30.0
MAX_INTERVAL_ACCEPTED = 2.0
#: Factors of the interval after a rejection, and after a request that the service accepted.
SLOWDOWN = 1.5
RECOVERY = 0.97
#: Seconds in which at most ``per_minute`` requests are sent. A little more than a minute: a slow request can
#: arrive closer to the next ones than it was sent.
WINDOW = 61.0

log = logging.getLogger(__name__)


def until(seconds: float) -> str:
    """Return the time of day in ``seconds`` from now, for log lines."""
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%H:%M:%S} UTC"


class RateLimiter:
    """Delays the requests of all threads: at most ``per_minute`` in any 60 s, pauses, and a pace.

    The pace adapts to a limit that the service does not announce. A rejection lengthens the interval between two
    requests; each accepted request shortens it, until there is none.

    :param per_minute: the limit; None: no such limit.
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
        self._reported_at = -math.inf
        self._interval = 0.0
        self._slowed_at = self._last_turn = -math.inf
        #: When the service started to reject requests; None while it accepts them.
        self._rejecting_since: float | None = None
        self._lock = threading.Lock()
        self._turns = threading.Lock()
        self._reads = threading.Lock()

    def wait(self, requests: int = 1, unwanted: threading.Event | None = None) -> None:
        """Wait until the next request can be sent, or several without a pause between them.

        :param requests: number of requests, at most ``per_minute``.
        :param unwanted: set when the response is no longer needed.
        """
        with self._lock:
            now = self._clock()
            turn = max(now, self._not_before)
            reason = "the rate limit of the service is used up"
            limit = self._sent_at.maxlen
            if limit:
                too_many = len(self._sent_at) + requests - limit
                if too_many > 0:
                    free_at = self._sent_at[too_many - 1] + WINDOW
                    if free_at > turn:
                        turn = free_at
                        reason = f"requests_per_minute is {limit}"
                self._sent_at.extend([turn] * requests)
        if turn - now > ANNOUNCED_FROM:
            self.report(logging.INFO, f"Waiting {turn - now:.0f} s, until {until(turn - now)}: {reason}")
        if turn > now:
            self._sleep(turn - now, unwanted)

    def pause(self, seconds: float) -> None:
        """Delay all requests until ``seconds`` from now, at most :data:`MAX_WAIT`."""
        if seconds > 0:
            with self._lock:
                self._not_before = max(self._not_before, self._clock() + min(seconds, MAX_WAIT))

    def take_turn(self, *, is_write: bool) -> None:
        """Wait for the interval after the last request of any thread.

        A write overtakes the reads that wait: others can change the website after the read that it is based on.
        """
        if not self._interval:
            return
        if is_write:
            self._wait_for_interval()
        else:
            with self._reads:
                self._wait_for_interval()

    def _wait_for_interval(self) -> None:
        with self._turns:
            seconds = self._last_turn + self._interval - self._clock()
            if seconds > 0:
                self._sleep(seconds, None)
            self._last_turn = self._clock()

    def slow_down(self, sent_at: float, seconds: float, reason: str) -> None:
        """Slow all requests down, because the service rejected a request.

        :param sent_at: when it was sent. If that was before the last slowdown, the rejection is not about the new pace.
        :param seconds: seconds to pause, if the service requests it.
        :param reason: the reason, for the log.
        """
        self.pause(seconds)
        with self._lock:
            now = self._clock()
            is_first = self._rejecting_since is None
            if is_first:
                self._rejecting_since = now
            if sent_at > self._slowed_at:
                self._slowed_at = self._last_turn = now
                self._interval = min(max(SLOWDOWN * self._interval, MIN_INTERVAL), MAX_INTERVAL)
        if not is_first:
            return
        if seconds > ANNOUNCED_FROM:
            self.report(logging.WARNING, f"Waiting until {until(seconds)}: {reason}")
        else:
            self.report(logging.WARNING, f"Slowing down all requests: {reason}")

    def report(self, level: int, message: str) -> None:
        """Log a message; for all threads together, at most one in :data:`REPORT_SECONDS`."""
        with self._lock:
            is_news = self._clock() >= self._reported_at + REPORT_SECONDS
            if is_news:
                self._reported_at = self._clock()
        if is_news:
            log.log(level, "%s", message)

    def speed_up(self) -> None:
        """Speed up, because the service accepted a request."""
        if not self._interval:
            return
        with self._lock:
            since, self._rejecting_since = self._rejecting_since, None
            self._interval = min(self._interval, MAX_INTERVAL_ACCEPTED) * RECOVERY
            if self._interval < MIN_INTERVAL / 2:
                self._interval = 0.0
        if since is not None and self._clock() - since > ANNOUNCED_FROM:
            log.info("The service accepts requests again, after %.0f s.", self._clock() - since)
