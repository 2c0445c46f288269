# SPDX-License-Identifier: Apache-2.0
"""Work on many websites at the same time, and read the websites of the service with the fewest requests."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import NoneType
from typing import TypeVar

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.domains import spellings
from airflow_provider_analytics.api.fields import by_id, website_name, website_of
from airflow_provider_analytics.api.listing import PROGRESS_SECONDS, requests_of_a_list
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.api.waiting import GRACE_SECONDS, LOOK_SECONDS, MAX_WAIT, STOPPED
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    NotFoundError,
    StoppedError,
    StorageError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import counted

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


class Breaker:
    """Counts consecutive failures of the service; one that asks to wait longer than :data:`MAX_WAIT` opens it at once.

    :param at_first: number of consecutive failures after which the service counts as down, before the first success;
        later, it is :data:`GIVE_UP_AFTER`.
    """

    def __init__(self, at_first: int = GIVE_UP_AFTER) -> None:
        self._give_up_after = at_first
        self._in_a_row = 0
        self._asks_to_wait = False
        #: The last failure of the service.
        self._last = ""
        self.rejection: AuthenticationError | None = None

    @property
    def is_open(self) -> bool:
        """Whether the service counts as down, or rejects the API key."""
        return self.rejection is not None or self._asks_to_wait or self._in_a_row >= self._give_up_after

    @property
    def why(self) -> str:
        """Why the service counts as down, as the end of a sentence."""
        if self._asks_to_wait:
            return f"the service asks to wait longer than {MAX_WAIT:g} s"
        return f"{self._give_up_after} changes failed in a row, the last one with: {self._last.rstrip('.')}"

    def note(self, error: BaseException | None) -> None:
        """Count the outcome of one item; raise an error that is not about this item only."""
        if isinstance(error, StorageError) or not isinstance(error, (AnalyticsError, ValueError, NoneType)):
            raise error
        # A service that asks for a longer wait than the client takes rejects each request until then.
        is_long = isinstance(error, AnalyticsError) and (error.retry_after or 0.0) > MAX_WAIT
        if error is None:
            self._give_up_after = GIVE_UP_AFTER
        if error is None or not _is_down(error):
            self._in_a_row = 0
        else:
            self._in_a_row += 1
            self._last = reason_of(error)
            self._asks_to_wait = self._asks_to_wait or is_long
        if isinstance(error, AuthenticationError):
            self.rejection = self.rejection or error


def _is_down(error: BaseException) -> bool:
    if isinstance(error, AmbiguousWriteError) and error.earlier:
        error = error.earlier[-1]
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
    progress: Progress,
    breaker: Breaker,
) -> Iterator[Done[Item, Returned]]:
    """Do the work for each item, several at the same time; yield the items in order of completion.

    Items that are skipped because the service is down are not yielded.

    :param progress: counts the items, which can be a part of all.
    :raises AuthenticationError: if the service rejects the API key; the remaining items are skipped.
    :raises StoppedError: if the client was stopped before the work was complete. Requests under way get
        :data:`END_SECONDS` to end.
    """
    left = deque(items)
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
    if breaker.is_open:
        progress.log()
    if breaker.rejection:
        raise breaker.rejection
    if client.stopped and (left or under_way):
        raise StoppedError(f"{STOPPED}.")


class Progress:
    """Logs the progress of many websites every :data:`~.listing.PROGRESS_SECONDS`, and when all are done.

    :param verb: verb for the log, such as ``Checking``; empty: nothing is logged.
    :param total: number of websites; for a single one, nothing is logged.
    """

    def __init__(self, verb: str, total: int) -> None:
        self._verb, self._total, self._done, self._failed = verb, total, 0, 0
        self._logged_at, self._logged = time.monotonic(), -1

    def step(self, error: BaseException | None) -> None:
        """Count a website; log a line if it is time."""
        self._done += 1
        if error is not None:
            self._failed += 1
        if self._done == self._total or time.monotonic() - self._logged_at >= PROGRESS_SECONDS:
            self.log()

    def log(self) -> None:
        """Log a line, unless the last line was the same."""
        is_new = self._done != self._logged
        self._logged_at, self._logged = time.monotonic(), self._done
        if self._verb and self._total > 1 and is_new:
            done = f"{self._done:,} of {self._total:,} websites done, {self._failed:,} failed"
            log.info("%s: %s.", self._verb, done)


def reason_of(error: BaseException) -> str:
    """Return the text of an error for a list of failures, without service and connection."""
    if isinstance(error, AnalyticsError):
        return error.text
    return str(error)


#: Why a website was skipped.
NOT_READ = "Not read, because reading other websites failed."

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadResult:
    """Websites that were read one by one, or with the list.

    :param found: id, or selector, to current record, without websites that no longer exist.
    :param failures: id, or selector, to why it cannot be read.
    :param listed: the complete list, if it was read.
    """

    found: Mapping[str, Record]
    failures: Mapping[str, str] = field(default_factory=dict)
    listed: Sequence[Record] | None = None


@dataclass(frozen=True)
class Websites:
    """The listed websites of the service.

    :param records: the complete list, or the requested part.
    :param complete: whether this is the list of all websites.
    """

    client: AnalyticsClient
    records: Sequence[Record]
    complete: bool

    @property
    def newest(self) -> str | None:
        """Id of the newest listed website; None if the list is empty."""
        return max(filter(str.isdecimal, by_id(self.records)), key=int, default=None)

    def read_again(self, ids: Sequence[str], fields: Collection[str], *, one_by_one: bool = False) -> ReadResult:
        """Return current records of these websites.

        The list is read if its rows contain the fields and it takes fewer requests than reading one by one.

        :param fields: fields that the records must contain.
        :param one_by_one: do not read the list.
        """
        is_list_cheaper = self.complete and len(ids) > requests_of_a_list(len(self.records))
        if is_list_cheaper and not one_by_one and self._rows_contain(fields):
            listed = self.client.complete_rows(self.client.list_websites())
            rows = by_id(listed)
            return ReadResult({website_id: rows[website_id] for website_id in ids if website_id in rows}, listed=listed)
        verb = "Checking"
        if one_by_one:
            verb = ""  # these websites were read before
        read = _show_each(self.client, ids, verb, self.client.read_website)
        if len(read.found) + len(read.failures) < len(ids):
            self.client.get_account()  # with a wrong base URL, everything is "not found"
        return read

    def _rows_contain(self, fields: Collection[str]) -> bool:
        """Return whether the row of each website in the list contains these fields."""
        names = set(fields)
        return all(record.keys() >= names for record in self.records)


def _show_each(
    client: AnalyticsClient, ids: Sequence[str], verb: str, show: Callable[[str], Record | None]
) -> ReadResult:
    """Read websites one by one.

    :param show: returns the record of an id or selector; None, or :class:`NotFoundError`, if there is none.
    """

    def work(website_id: str) -> Record | None:
        try:
            return show(website_id)
        except NotFoundError:
            return None

    found: dict[str, Record] = {}
    failures: dict[str, str] = {}
    not_tried = set(ids)
    for website_id, record, error in each(client, ids, work, Progress(verb, len(ids)), Breaker()):
        not_tried.remove(website_id)
        if error is not None:
            failures[website_id] = reason_of(error)
        elif record is not None:
            found[website_id] = record
    failures |= dict.fromkeys(not_tried, NOT_READ)
    return ReadResult(found, failures)


def read_websites(client: AnalyticsClient, selectors: Sequence[str] | None) -> Websites:
    """Return all websites of the service, or at least the selected ones, with the fewest requests.

    Selected websites are read one by one or with the complete list, whichever takes fewer requests. The first page of
    the list contains its length. Domains are looked up by search; if that is not conclusive, the list is read.

    :param selectors: ids and domains, no patterns; None for all websites.
    :raises IncompleteListError: if the list cannot be proven complete.
    """
    if selectors is None:
        return Websites(client, client.complete_rows(client.list_websites()), complete=True)
    selectors = list(dict.fromkeys(selectors))
    listed: Sequence[Record] | None = None
    if len(selectors) > 1:
        listed = client.list_websites_within(sum(map(_requests_to_look_up, selectors)))
    if listed is None:
        found = _look_up(client, selectors)
        if found is not None:
            return Websites(client, found, complete=False)
        listed = client.list_websites()
    return Websites(client, client.complete_rows(listed), complete=True)


def _requests_to_look_up(selector: str) -> int:
    """Return the largest number of requests that find the website of an id or a domain."""
    if _is_an_id(selector):
        return 1
    return len(spellings(selector)) + 1


def _look_up(client: AnalyticsClient, selectors: Sequence[str]) -> list[Record] | None:
    """Return the websites of ids and domains; None if the complete list is needed to find them."""

    def show(selector: str) -> Record | None:
        if _is_an_id(selector):
            return client.website_or_none(selector)
        return client.search_website(selector)

    read = _show_each(client, selectors, "Looking up", show)
    missing = set(selectors) - read.found.keys()
    if read.failures or not all(map(_is_an_id, missing)):
        return None
    if missing:
        client.get_account()  # with a wrong base URL, everything is "not found"
    return list(by_id(read.found.values()).values())


def _is_an_id(selector: str) -> bool:
    return selector.isascii() and selector.isdigit()


def complete_records(
    client: AnalyticsClient,
    records: Sequence[Record],
    missing_fields: Callable[[Record], AbstractSet[str]],
    is_doubtful: Callable[[Record], bool] = lambda _: False,
) -> tuple[list[Record], dict[str, str]]:
    """Return the records with all fields, and failures by website.

    Websites that were deleted since the list was read, and websites that failed, are left out.

    :param missing_fields: returns the names of the fields that a record lacks. Then the website is fetched.
    :param is_doubtful: returns whether a record might be stale. Then the website is fetched, too.
    """
    lacking = [record for record in records if missing_fields(record)]
    if lacking:
        log.info(
            "Fetching %s of %s one by one, because list rows lack %s.",
            f"{len(lacking):,}",
            counted(len(records), "website"),
            ", ".join(sorted(set().union(*map(missing_fields, lacking)))),
        )
    incomplete = by_id([*lacking, *filter(is_doubtful, records)])
    if not incomplete:
        return list(records), {}
    read = _show_each(client, list(incomplete), "Fetching", client.website_or_none)
    completed: list[Record] = []
    for record in records:
        website_id = str(record["id"])
        if website_id not in incomplete:
            completed.append(record)
        elif website_id in read.found:
            fetched = read.found[website_id]
            # The plan is for the domain in the list. Before a change, the domain is checked.
            completed.append({**record, **fetched, "domain": record.get("domain") or fetched.get("domain")})
    failures = {}
    for website_id, why in read.failures.items():
        failures[website_name(*website_of(incomplete[website_id]))] = why
    return completed, failures
