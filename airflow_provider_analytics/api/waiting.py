# SPDX-License-Identifier: Apache-2.0
"""Counters of a client, its stop from outside, and the pace of its requests.

A stopped client sends no further requests, cancels those under way, and stops waiting. The counters are the metrics of
docs/monitoring.md.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event, Lock
from typing import Any

#: Prefix of the metric names.
METRICS_PREFIX = "analytics"
#: Counters in seconds.
TIMERS = ("waited",)
#: Receives the name of a counter, and the number that was added.
Listener = Callable[[str, float], None]


@dataclass
class Stats:
    """Counters of a client; thread-safe. ``make generate`` writes the descriptions to docs/monitoring.md.

    :param requests: Requests sent, including retries
    :param retries: Requests sent again, because an attempt failed
    :param waited: Time waited: for a retry or a rate limit, until the service returns a write, or to read a list again
    :param pages: Pages of the list, including the pages that prove it
    :param lists_read_again: Lists read again, because they changed during the read
    :param websites: Websites of lists that were proven complete
    :param changes_applied: Websites created, changed, or deleted successfully
    :param changes_failed: Websites whose creation, change, or deletion failed or could not be verified
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


#: Seconds between two checks for a stop while the client waits.
LOOK_SECONDS = 0.1
#: Seconds that a write under way has to finish after a stop, so that its outcome is known. Airflow kills the process 5
#: s after the signal to end, and the task still has to write the audit trail.
GRACE_SECONDS = 2.0

#: Why a request is not sent or not waited for, as the start of a sentence.
STOPPED = "The client was stopped"


@dataclass
class Flight:
    """A request under way.

    :param method: HTTP method.
    :param deadline: time of the monotonic clock at which it is ended.
    :param sent: whether the service might have received a part of it.
    :param is_ended: whether it was ended early; its result is void, even if it looks complete.
    :param connection: a duplicate of its socket. The socket itself is of no use: a TLS handshake detaches it, and a
        response without a length closes it before it is read.
    """

    method: str
    deadline: float
    sent: bool = False
    is_ended: bool = False
    connection: socket.socket | None = None

    def end(self) -> None:
        """Shut the connection, so that the thread that uses it continues at once."""
        self.is_ended = True
        if self.connection is not None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)


class Stopping:
    """Stop flag of a client: ends waits and requests when it is set, and requests that take too long.

    The flag has no lock and is polled: a signal handler sets it, and can interrupt a thread that holds a lock. A thread
    (watchdog) polls it for the requests, and runs only while some are under way. Without it, each read still ends at
    the timeout of its socket.

    :param sleep: waits for a number of seconds and does not end early; tests replace it. None waits until the client is
        stopped.
    """

    def __init__(self, sleep: Callable[[float], None] | None = None) -> None:
        self.is_set = False
        self._since = 0.0
        self._sleep = sleep
        self.forget_threads()

    def forget_threads(self) -> None:
        """Forget the threads of the parent and their requests, in a forked process."""
        self._flights: dict[int, Flight] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def set(self) -> None:
        """Stop the client; safe in a signal handler."""
        if not self.is_set:
            self._since, self.is_set = time.monotonic(), True

    def gives_up(self, method: str, *, sent: bool = True) -> bool:
        """Return whether to cancel a request: a write that was sent after :data:`GRACE_SECONDS`, all others at once."""
        is_read = method == "GET" or not sent
        return self.is_set and (is_read or time.monotonic() - self._since >= GRACE_SECONDS)

    def wait(self, seconds: float, unwanted: Event | None = None) -> None:
        """Wait for a number of seconds, until the client is stopped, or until ``unwanted`` is set."""
        if self._sleep is not None:
            self._sleep(seconds)
            return
        end = time.monotonic() + seconds
        while not (self.is_set or (unwanted and unwanted.is_set())) and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))

    @contextmanager
    def watch(self, method: str, seconds: float) -> Iterator[Flight]:
        """Watch the request that this thread sends within the block.

        :param seconds: its maximum duration.
        """
        thread = threading.get_ident()
        flight = Flight(method, time.monotonic() + seconds)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="analytics-watchdog", daemon=True)
                self._thread.start()
            self._flights[thread] = flight
        try:
            yield flight
        finally:
            with self._lock:
                self._flights.pop(thread, None)
                if flight.connection is not None:
                    flight.connection.close()

    @property
    def method(self) -> str:
        """HTTP method of the request of this thread."""
        return self._flights[threading.get_ident()].method

    def hold(self, connection: Any) -> Flight:
        """Return the request of this thread, which uses this connection."""
        flight = self._flights[threading.get_ident()]
        if flight.connection is None:
            flight.connection = socket.socket(fileno=os.dup(connection.fileno()))
        return flight

    def start_sending(self, connection: Any) -> None:
        """Note that the request of this thread is sent from now on.

        :raises ConnectionAbortedError: if it was ended before.
        """
        flight = self.hold(connection)
        flight.is_ended = flight.is_ended or self.is_set
        if flight.is_ended:
            raise ConnectionAbortedError
        flight.sent = True

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                if not self._flights:
                    self._thread = None
                    return
                for flight in self._flights.values():
                    if time.monotonic() >= flight.deadline or self.gives_up(flight.method, sent=flight.sent):
                        flight.end()


#: Waits longer than this many seconds are logged.
ANNOUNCED_FROM = 5.0
#: Longest pause, in seconds, that the service can request.
MAX_WAIT = 60.0
#: Seconds between two log lines, unless a wait has not been announced.
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
        #: End of the waits that were announced.
        self._announced_until = -math.inf
        self._interval = 0.0
        self._slowed_at = self._last_turn = -math.inf
        #: When the service started to reject requests, and whether these are writes; None while it accepts them.
        self._rejecting_since: float | None = None
        self._rejects_writes = False
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
        seconds = turn - now
        if seconds > ANNOUNCED_FROM:
            self.report(logging.INFO, f"Waiting {seconds:.0f} s, until {until(seconds)}, because {reason}.", seconds)
        if seconds > 0:
            self._sleep(seconds, unwanted)

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

    def slow_down(self, sent_at: float, seconds: float, reason: str, *, is_write: bool = False) -> None:
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
                self._rejecting_since, self._rejects_writes = now, is_write
            if sent_at > self._slowed_at:
                self._slowed_at = self._last_turn = now
                self._interval = min(max(SLOWDOWN * self._interval, MIN_INTERVAL), MAX_INTERVAL)
        if not is_first:
            return
        if seconds > ANNOUNCED_FROM:
            self.report(logging.WARNING, f"Waiting until {until(seconds)}. {reason}", seconds)
        else:
            self.report(logging.WARNING, f"Slowing down all requests. {reason}")

    def report(self, level: int, message: str, seconds: float = 0.0) -> None:
        """Log a message; for all threads together, at most one in :data:`REPORT_SECONDS`.

        A wait that ends more than :data:`ANNOUNCED_FROM` seconds after the announced ones is always logged.

        :param seconds: duration of the wait that follows; 0 if none follows.
        """
        with self._lock:
            now = self._clock()
            is_unannounced = seconds > 0 and now + seconds > self._announced_until + ANNOUNCED_FROM
            if not is_unannounced and now < self._reported_at + REPORT_SECONDS:
                return
            self._reported_at = now
            self._announced_until = max(self._announced_until, now + seconds)
        log.log(level, "%s", message)

    def speed_up(self, *, is_write: bool = False) -> None:
        """Speed up, because the service accepted a request. An accepted read is no news if it rejects writes."""
        if not self._interval and self._rejecting_since is None:
            return
        since = None
        with self._lock:
            if is_write == self._rejects_writes:
                since, self._rejecting_since = self._rejecting_since, None
            self._interval = min(self._interval, MAX_INTERVAL_ACCEPTED) * RECOVERY
            if self._interval < MIN_INTERVAL / 2:
                self._interval = 0.0
        if since is not None and self._clock() - since > ANNOUNCED_FROM:
            log.info("The service accepts requests again, after %.0f s.", self._clock() - since)
