# SPDX-License-Identifier: Apache-2.0
"""Process many websites concurrently: bounded, stoppable, and with a circuit breaker for a service that is down."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import NoneType
from typing import TypeVar

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.listing import PROGRESS_SECONDS
from airflow_provider_analytics.api.rate_limiter import MAX_WAIT
from airflow_provider_analytics.api.stopping import GRACE_SECONDS, LOOK_SECONDS, STOPPED
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    StoppedError,
    StorageError,
    UnexpectedResponseError,
)

Item = TypeVar("Item")
Returned = TypeVar("Returned")
#: An item, what its work returned, and its error: one of the two is None.
Done = tuple[Item, Returned | None, BaseException | None]

#: After this many consecutive failures the service counts as down, and the remaining websites are skipped. Otherwise
#: each of them would use up all its retries.
GIVE_UP_AFTER = 20
#: Seconds that requests under way get to end after a stop; then they are abandoned. Airflow kills the process 5 s after
#: it stops the task, and the audit trail must be written before that.
END_SECONDS = GRACE_SECONDS + 2 * LOOK_SECONDS

log = logging.getLogger(__name__)


class Breaker:
    """Counts consecutive failures of the service; one that asks to wait longer than :data:`MAX_WAIT` opens it at once.

    :param give_up_after: number of consecutive failures after which the service counts as down.
    """

    def __init__(self, give_up_after: int = GIVE_UP_AFTER) -> None:
        self._give_up_after = give_up_after
        self._in_a_row = 0
        self.rejection: AuthenticationError | None = None

    @property
    def is_open(self) -> bool:
        """Whether the service counts as down, or rejects the API key."""
        return self.rejection is not None or self._in_a_row >= self._give_up_after

    def note(self, error: BaseException | None) -> None:
        """Count the outcome of one item; raise an error that is not about this item only."""
        if isinstance(error, StorageError) or not isinstance(error, (AnalyticsError, ValueError, NoneType)):
            raise error
        # A service that asks for a longer wait than the client takes rejects each request until then.
        is_long = isinstance(error, AnalyticsError) and (error.retry_after or 0.0) > MAX_WAIT
        if not _is_down(error):
            self._in_a_row = 0
        elif is_long:
            self._in_a_row = self._give_up_after
        else:
            self._in_a_row += 1
        if isinstance(error, AuthenticationError):
            self.rejection = self.rejection or error


def _is_down(error: BaseException | None) -> bool:
    if isinstance(error, AnalyticsApiError):
        return error.is_limited or error.status >= 500
    # A web page instead of JSON is that of a maintenance, of a login or of a proxy.
    return isinstance(error, (AnalyticsConnectionError, UnexpectedResponseError))


def run_uninterrupted(client: AnalyticsClient, work: Callable[[], None]) -> BaseException | None:
    """Do the work in another thread; return the exception that ended it or interrupted this thread.

    To end a task, Airflow 2 raises an exception in the main thread, between any two steps. Work that records what it
    sends must not be interrupted between the two. After an interruption, the client is stopped, and requests under way
    get :data:`END_SECONDS` to end.
    """
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # A daemon, so that a process that ends does not wait for it.
    thread = threading.Thread(target=run, name="analytics-work", daemon=True)
    try:
        thread.start()
        thread.join()
    except BaseException as interruption:
        client.stop()
        ended.wait(END_SECONDS)
        return interruption
    return next(iter(errors), None)


def each(
    client: AnalyticsClient,
    items: Iterable[Item],
    work: Callable[[Item], Returned],
    verb: str,
    breaker: Breaker,
) -> Iterator[Done[Item, Returned]]:
    """Do the work for each item, several at the same time; yield the items in order of completion.

    Items that are skipped because the service is down are not yielded.

    :param verb: verb for the progress in the log, such as ``Checking``; logged every :data:`~.listing.PROGRESS_SECONDS`
        and at the end, if there is more than one item.
    :raises AuthenticationError: if the service rejects the API key; the remaining items are skipped.
    :raises StoppedError: if the client was stopped before the work was complete. Requests under way get
        :data:`END_SECONDS` to end.
    """
    left = deque(items)
    progress = _Progress(verb, len(left))
    parallel = client.settings.parallel_requests
    under_way: dict[Future[Returned], Item] = {}
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="analytics")

    def ended(seconds: float) -> Iterator[Done[Item, Returned]]:
        for future in wait(under_way, seconds, FIRST_COMPLETED).done:
            item, error = under_way.pop(future), future.exception()
            if isinstance(error, StoppedError):
                left.append(item)
                continue
            breaker.note(error)
            progress.step(error)
            result = None
            if error is None:
                result = future.result()
            yield item, result, error

    try:
        while not client.stopped:
            while left and len(under_way) < parallel and not breaker.is_open:
                item = left.popleft()
                under_way[pool.submit(work, item)] = item
            if not under_way:
                break
            yield from ended(LOOK_SECONDS)  # looks for a stop while nothing ends
    except BaseException as error:
        # Such as Airflow's timeout; but not a consumer that stops.
        if not isinstance(error, (Exception, GeneratorExit)):
            client.stop()
        raise
    finally:
        pool.shutdown(wait=not client.stopped)
        wait(under_way, END_SECONDS)
    yield from ended(0)
    progress.log()
    if breaker.rejection:
        raise breaker.rejection
    if client.stopped and (left or under_way):
        raise StoppedError(f"{STOPPED}.")


class _Progress:
    """Logs the progress of many websites."""

    def __init__(self, verb: str, total: int) -> None:
        self._verb, self._total, self._done, self._failed = verb, total, 0, 0
        self._logged_at, self._logged = time.monotonic(), -1

    def step(self, error: BaseException | None) -> None:
        """Count a website; log a line if it is time."""
        self._done += 1
        if error is not None:
            self._failed += 1
        if time.monotonic() - self._logged_at >= PROGRESS_SECONDS:
            self.log()

    def log(self) -> None:
        """Log a line if there is more than one website, and the last line was another one."""
        is_new = self._done != self._logged
        self._logged_at, self._logged = time.monotonic(), self._done
        if self._total > 1 and is_new:
            done = f"{self._done:,} of {self._total:,} websites done, {self._failed:,} failed"
            log.info("%s: %s", self._verb, done)


def reason_of(error: BaseException) -> str:
    """Return the text of an error for a list of failures, without service and connection."""
    if isinstance(error, AnalyticsError):
        return error.text
    return str(error)
