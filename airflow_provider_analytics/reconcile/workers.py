"""Process many websites concurrently: bounded, stoppable, and with a circuit breaker for a service that is down."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.listing import PROGRESS_SECONDS
from airflow_provider_analytics.api.stopping import GRACE_SECONDS, LOOK_SECONDS
from airflow_provider_analytics.exceptions import (
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    RateLimitError,
    ServerError,
    StoppedError,
)

Item = TypeVar("Item")
Returned = TypeVar("Returned")

#: After this many consecutive failures the service counts as down, and the remaining websites are skipped. Otherwise
#: each of them would use up all its retries.
GIVE_UP_AFTER = 20
#: Seconds that requests under way get to end after a stop; then the client abandons them. Airflow kills the process 5 s
#: after it stops the task, and the ledger must be written before that.
END_SECONDS = GRACE_SECONDS + 2 * LOOK_SECONDS

#: Why an item was skipped.
NOT_TRIED = "Not tried: too many websites in a row failed, or the API key is not accepted any more"

_SERVICE_DOWN = (AnalyticsConnectionError, RateLimitError, ServerError)

log = logging.getLogger(__name__)


class NotTriedError(Exception):
    """A website that was skipped because the service is down."""


class Breaker:
    """Stops the work after many consecutive failures, or after the service rejects the API key.

    :param give_up_after: number of consecutive failures.
    """

    DEFAULT: ClassVar[int] = GIVE_UP_AFTER

    def __init__(self, give_up_after: int = GIVE_UP_AFTER) -> None:
        self._in_a_row = 0
        self._give_up_after = give_up_after
        self._open = threading.Event()
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether the service counts as down."""
        return self._open.is_set()

    def limit(self, give_up_after: int) -> None:
        """Set the number of consecutive failures after which to give up."""
        self._give_up_after = give_up_after

    def guard(self, work: Callable[[Item], Returned], item: Item) -> Returned:
        """Do the work; raise :class:`NotTriedError` if the service is down."""
        if self.is_open:
            raise NotTriedError
        down = False
        try:
            return work(item)
        except _SERVICE_DOWN:
            down = True
            raise
        except AuthenticationError:
            self._open.set()
            raise
        finally:
            with self._lock:
                self._in_a_row = self._in_a_row + 1 if down else 0
                if self._in_a_row >= self._give_up_after:
                    self._open.set()


class Progress:
    """Progress lines in the log, one every :data:`~.listing.PROGRESS_SECONDS` and one at the end.

    :param total: number of websites.
    :param verb: verb for the log lines, such as ``Checking``.
    """

    def __init__(self, total: int, verb: str) -> None:
        self.total = total
        self.done = 0
        self.verb = verb
        self.bad = 0
        self.said = time.monotonic()

    def step(self, *, good: bool) -> None:
        """Count a website."""
        self.done += 1
        self.bad += not good
        if time.monotonic() - self.said >= PROGRESS_SECONDS:
            self.say()

    def say(self) -> None:
        """Log a line if there is more than one website."""
        self.said = time.monotonic()
        if self.total > 1:
            log.info(
                "%s: %s of %s websites, %s failed", self.verb, f"{self.done:,}", f"{self.total:,}", f"{self.bad:,}"
            )


@dataclass
class Work(Generic[Item, Returned]):
    """Work to do for many items.

    :param items: the items.
    :param do: does the work for one item; called from several threads.
    :param name: returns the name of an item.
    :param failures: receives name to error message.
    :param not_tried: receives the names of the items that were skipped because the service is down.
    """

    items: Sequence[Item]
    do: Callable[[Item], Returned]
    name: Callable[[Item], str]
    failures: dict[str, str]
    not_tried: set[str] = field(default_factory=set)


def each(
    client: AnalyticsClient,
    work: Work[Item, Returned],
    progress: Progress,
    workers: int,
    breaker: Breaker | None = None,
) -> list[tuple[Item, Returned]]:
    """Do the work for each item concurrently; return the results in order of completion.

    :raises AuthenticationError: if the service rejects the API key; the remaining items are skipped.
    :raises StoppedError: if the client was stopped before the work was complete. Requests under way get
        :data:`END_SECONDS` to end; the others are canceled.
    """
    done: list[tuple[Item, Returned]] = []
    if not work.items:
        return done
    breaker = breaker or Breaker()
    futures: dict[Future[Returned], Item] = {}
    refused: list[AuthenticationError] = []
    left = 0
    ended: queue.SimpleQueue[Future[Returned]] = queue.SimpleQueue()

    def take(future: Future[Returned]) -> bool:
        """Record the result of an item; return False if it was canceled."""
        item = futures[future]
        name = work.name(item)
        try:
            done.append((item, future.result()))
        except (CancelledError, StoppedError):
            return False
        except NotTriedError:
            work.not_tried.add(name)
            work.failures[name] = NOT_TRIED
            return True
        except (AnalyticsError, ValueError) as error:
            work.failures[name] = error.text if isinstance(error, AnalyticsError) else str(error)
            if isinstance(error, AuthenticationError):
                refused.append(error)
        progress.step(good=name not in work.failures)
        return True

    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="analytics")
    try:
        for item in work.items:
            future = pool.submit(breaker.guard, work.do, item)
            futures[future] = item
            future.add_done_callback(ended.put)
        left = len(futures)
        while left and not client.stopped:
            try:
                left -= take(ended.get(timeout=LOOK_SECONDS))
            except queue.Empty:  # check for a stop while nothing ends
                continue
    except BaseException as error:
        if not isinstance(error, Exception):
            client.stop()
        raise
    finally:
        pool.shutdown(wait=not client.stopped, cancel_futures=True)
        if client.stopped:
            wait([future for future in futures if future.running()], END_SECONDS)
            while not ended.empty():
                left -= take(ended.get())
        progress.say()
    if refused:
        raise refused[0]
    if left:
        raise StoppedError(f"Stopped: {client.stopped_because}.")
    return done
