# SPDX-License-Identifier: Apache-2.0
"""Stop a client from outside: it sends no further requests, cancels those under way, and stops waiting."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

#: Seconds between two checks for a stop while the client waits.
LOOK_SECONDS = 0.1
#: Seconds that a write under way has to finish after a stop, so that its outcome is known. Airflow kills the process 5
#: s after the signal to end, and the task still has to write the audit trail.
GRACE_SECONDS = 2.0

#: Why a request is not sent or not waited for, as the start of a sentence.
STOPPED = "Stopped: the task was killed"


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

    def begin_to_send(self, connection: Any) -> None:
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
