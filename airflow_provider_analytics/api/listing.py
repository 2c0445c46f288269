"""The complete list of websites: paging, and the proof that no website is missing.

docs/interface.md documents neither how a page is selected nor what a page states about the whole list. The list may
also change during the reading. So a list counts as complete only if its reading proves it, by one of three methods:

``one page``
    One response contains as many websites as its total. It is the list at one moment.
``closed reading``
    The reading begins with a *head*: the first websites, newest first, with their total. All pages follow, in any order
    and at the same time. The same head closes the reading. Heads and pages must have the same total. The pages must
    have distinct ids, as many as the total, and none above the newest in the head. Both heads must begin with the same
    website, by id and domain. The ids in the head must descend: otherwise the service does not sort.
``both directions``
    Everything else: no total, ids that are not numbers, a filter that is not in :data:`STABLE_FILTERS`. The list is
    read until a page contains nothing new, and then in the opposite direction. Both readings must find the same ids. A
    row is missed only if a row before it is removed after it was read. Then the removed row is missing in the second
    reading. The two readings must begin with different websites: otherwise the service ignores the sort order. This
    method also needs the conditions 2 and 3 below.

The first two methods also check the *other end* of the list: its first ten websites in the opposite order. All of them
must be among the websites read, and the last website read must be among them. A service may cap the rows at any number,
and its total may be capped as well, or count the rows of the page. Then the pages end early, and the other end contains
websites that were not read. For a list that is read newest first, the other end is the oldest websites. For one that is
read oldest first, it is the head. One limit remains: if a service returns no website, or the same single one, in both
orders, the client accepts this.

A closed reading contains every website that was in the list all the time, if

1. a new website gets a higher id than every website in the list (docs/interface.md, Rules),
2. a deleted website is not restored with its id and domain,
3. no response reflects an older list than a response that arrived before the request was sent,
4. the total of the first head is correct.

The newest website is the same in both heads, so it was in the list all the time (2, 3). So every website created during
the reading has a higher id (1), and no page contains one. So all websites read were in the list of the first head
(2, 3). That list had as many websites (4) as were read: they are that list.

The proof does not need the other totals. They expose nearly every list that breaks a condition, unless the numbers
balance. The client accepts such a list in two cases. One website is deleted and an older one is restored during the
reading (2). Or a page comes from a replica that is one create and one delete behind (3). Then as many websites may be
missing as were restored. Only a second reading of every page could detect it. The other end detects a total that is
wrong from the beginning (4), if the list does not change during the reading.

If a website loses and regains its mark as a favorite, rows of a ``favorite`` filter move without a trace. So if the
favorites fill more than one page and the records contain the flag, the client reads all websites and selects the
favorites itself. If the favorites fit on one page, the client compares the rows with the filter. If they contradict it,
the service ignores or misreads the filter, and the client also reads all websites. One limit remains. If the records do
not contain the flag and the favorites fill more than one page, the readings in both directions may miss the same
website.

A website whose record is marked as deleted counts for the proof, but is not part of the list. If a service returns such
records and leaves them out of its total, the proof fails.

Links of the service determine how pages are selected. A link to the next page contains the query parameter (the one
that was not sent) and its value, a number or a cursor. The client never follows the link: it sends requests to the base
URL only. Without such a link, the parameter is :data:`dialect.PAGE_PARAMETER`, or the extra ``page_parameter``. A link
to a next page on the last page contradicts the total.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from threading import Event, Lock
from types import NoneType
from typing import Any, TypeVar

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.checks import flag
from airflow_provider_analytics.api.dialect import Page
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AuthenticationError,
    IncompleteListError,
    NotFoundError,
    UnexpectedResponseError,
)

#: Seconds before a list that changed during its reading is read again. Readings without a wait would all
#: get a total from the cache of the service.
WAITS_BETWEEN_READINGS: tuple[float, ...] = (0.5, 1.0, 2.0)
#: Maximum number of pages of one reading, in case the list of a service never ends.
MAX_PAGES = 200_000
#: Seconds between two progress lines.
PROGRESS_SECONDS = 10.0
#: If a page takes fewer seconds on average, the same thread reads the next one. Other threads would not save time:
#: passing pages between threads costs up to half of the CPU time of a page.
AT_ONCE = 0.005

#: Defaults of docs/interface.md, List parameters: the largest page, and newest first.
DEFAULT_QUERY = {"per_page": "100", "sort_by": "id", "sort": "desc"}
#: Filters that allow a closed reading. Only a create or a delete changes the result of such a filter, because a domain
#: cannot change (docs/interface.md, Operations).
STABLE_FILTERS = frozenset({"search", "search_by"})
#: Query of a head: its order, and the smallest page.
_HEAD = {"per_page": "10", "sort_by": "id", "sort": "desc"}

Query = dict[str, str]
Records = Generator[dict[str, Any], None, None]
Rows = Generator[list[dict[str, Any]], None, None]
Returned = TypeVar("Returned")

log = logging.getLogger(__name__)


#: Method of a proof to why the list is complete, for people.
WHY_COMPLETE: Mapping[str, str] = {
    "one page": "all websites are on one page",
    "closed reading": "totals and newest websites matched before and after",
    "both directions": "reading in both directions found the same websites",
}


@dataclass(frozen=True)
class Proof:
    """Why a list counts as complete.

    :param method: ``one page``, ``closed reading`` or ``both directions``, see the module docstring.
    :param websites: number of websites in the list, without deleted ones.
    :param total: total that the service returned; None without one, or if the client filtered the websites itself.
    :param pages: number of pages read, including heads, the other end and the second direction.
    """

    method: str
    websites: int
    total: int | None
    pages: int

    def as_dict(self) -> dict[str, Any]:
        """Return the proof as plain JSON values."""
        return asdict(self)


class Listing(Iterator[dict[str, Any]]):
    """One reading of the list: yields the website records, and raises an error if it cannot prove that none is missing.

    Use the records only after the iterator is exhausted. Memory grows by a few bytes for each id, and by the pages that
    are read ahead. Once the consumer stops or a page fails, the listing sends no further requests. It waits for the
    requests under way, so that no thread outlives the call, unless the task is killed or times out.

    :param fetch: returns the page for a query; called from several threads.
    :param query: filters and order; :data:`DEFAULT_QUERY` completes it.
    :param page_parameter: name of the query parameter that selects a page; None: taken from links of the service.
    :param parallel: maximum number of pages read at the same time, if the service is slow (:data:`AT_ONCE`).
    :param unwanted: set when the pages are no longer needed.
    :param wait: waits for a number of seconds before the list is read again.
    :param stats: counts the websites, and the readings that are repeated.
    :param redact: removes secrets from the message of an error.
    :raises IncompleteListError: while iterating, as soon as the proof fails.
    """

    def __init__(
        self,
        fetch: Callable[[Query], Page],
        query: Query,
        page_parameter: str | None = None,
        *,
        parallel: int = 1,
        unwanted: Event | None = None,
        wait: Callable[[float], None] = time.sleep,
        stats: Stats | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.stats = stats or Stats()
        self.wait = wait
        self._redact = redact
        self._reader = _Reader(fetch, query, page_parameter, parallel, unwanted or Event(), self.stats)
        self._records = self._reader.read()
        self._process = _process

    def __next__(self) -> dict[str, Any]:
        """Return the next record.

        :raises RuntimeError: in a process that was forked during the reading: the responses belong to its parent.
        """
        if self._process is not _process:
            raise RuntimeError("Another process reads this list of websites. Start a new one in this process.")
        try:
            return next(self._records)
        except IncompleteListError as error:
            raise IncompleteListError(error.check, self._redact(error.seen), error.moved) from None

    @property
    def proof(self) -> Proof | None:
        """The proof; None before the iterator is exhausted."""
        return self._reader.proof

    @property
    def total(self) -> int | None:
        """Total that the first page contained; None before it was read, or if it contained none."""
        return self._reader.total

    def close(self, *, wait: bool = True) -> None:
        """Stop reading, and send no further requests.

        :param wait: whether to wait for the requests under way.
        """
        self._reader.is_interrupted = not wait
        if self._process is _process:
            self._records.close()


class _Reader:
    """Implementation of a listing.

    It has no reference to the listing. So a listing that is dropped, as by ``break``, ends immediately, without waiting
    for the garbage collector.
    """

    def __init__(
        self,
        fetch: Callable[[Query], Page],
        query: Query,
        page_parameter: str | None,
        parallel: int,
        unwanted: Event,
        stats: Stats,
    ) -> None:
        self.proof: Proof | None = None
        self.total: int | None = None
        self.page_parameter = page_parameter
        self.parallel = parallel
        self.unwanted = unwanted
        self.is_interrupted = False
        self._stats = stats
        self._fetch_page = fetch
        self._fetched = 0
        self._seconds = 0.0
        self._lock = Lock()
        self._query = DEFAULT_QUERY | query
        self._yielded = 0
        self._progress = _Progress()

    @property
    def is_fast(self) -> bool:
        """Whether pages arrive so fast that reading several at the same time would not save time."""
        return self._seconds < AT_ONCE * self._fetched

    def fetch(self, query: Query) -> Page:
        """Return a page; called from several threads."""
        with self._lock:
            self._fetched += 1
        began = time.perf_counter()
        page = self._fetch_page(query)
        self._seconds += time.perf_counter() - began
        if self.total is None:
            self.total = page.total
        return page

    def read(self) -> Records:
        """Yield the records, then prove that none is missing."""
        try:
            if "favorite" in self._query:
                yield from self._read_favorites()
            else:
                reading = _Reading(self, self._query)
                yield from self._rows(reading)
                self.proof = self._prove(reading)
        except AuthenticationError as error:
            if self._yielded and not error.so_far:
                of = "" if self.total is None else f" of {self.total:,}"
                error.so_far = f"Stopped: {self._yielded:,}{of} websites read."
            raise
        if self.proof is not None:
            self._stats.count("websites", self.proof.websites)

    def _rows(self, reading: _Reading) -> Records:
        pages = reading.pages()
        try:
            for rows in pages:
                yield from self._not_deleted(rows)
                self._progress.step(len(reading.ids), reading.total)
        finally:
            pages.close()

    def _not_deleted(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows without deleted websites, and count them."""
        kept = dialect.not_deleted(rows)
        self._yielded += len(kept)
        return kept

    def _prove(self, reading: _Reading) -> Proof:
        """Return the proof of a reading, after sending the requests that it needs."""
        if reading.is_one_page:
            method = "one page"
            reading.check_other_end(reading.other_end())
        elif reading.can_be_closed:
            method = "closed reading"
            other_end = reading.other_end()
            reading.close()
            reading.check_other_end(other_end, is_closed=True)
        else:
            method = "both directions"
            back = _Reading(self, _in_opposite_order(reading.query), like=reading)
            for _ in back.pages():
                self._progress.step(len(back.ids), back.total, "Reading in the other direction")
            _compare(reading, back)
        return Proof(method, self._yielded, reading.total, self._fetched)

    # Favorites

    def _read_favorites(self) -> Records:
        wanted = flag("favorite", self._query["favorite"])
        filtered = _Reading(self, self._query)
        pages = filtered.pages()
        try:
            first, second = next(pages, []), next(pages, None)
            flags = [_is_favorite(row) for row in first]
            has_flags = bool(flags) and None not in flags
            is_one_page = second is None
            if is_one_page and not flags:
                is_filter_reliable = self._is_empty_result_consistent(wanted)
            elif is_one_page and has_flags:
                is_filter_reliable = all(found == wanted for found in flags)
            elif has_flags:
                is_filter_reliable = False
            else:
                self._check_filter(filtered)
                is_filter_reliable = True
            if is_filter_reliable:
                for rows in (first, second or [], *pages):
                    yield from self._not_deleted(rows)
        finally:
            pages.close()
        if is_filter_reliable:
            self.proof = self._prove(filtered)
            return
        if is_one_page:
            log.info("Reading all websites, as the service does not filter by favorite: its records contradict it.")
        yield from self._select_favorites(wanted)

    def _select_favorites(self, wanted: bool) -> Records:
        """Read all websites, and yield only the favorites, or only the others."""
        query = {name: value for name, value in self._query.items() if name != "favorite"}
        reading = _Reading(self, query)
        picked = 0
        for row in self._rows(reading):
            found = _is_favorite(row)
            if found is None:
                raise IncompleteListError(
                    "favorite", f"website {row['id']} does not show whether it is a favorite, and the filter is not "
                    "reliable. The extra boolean_format sets how favorite is written.",
                )  # fmt: skip
            if found == wanted:
                picked += 1
                yield row
        proof = self._prove(reading)
        self.proof = Proof(proof.method, picked, None, proof.pages)

    def _is_empty_result_consistent(self, wanted: bool) -> bool:
        """Return whether an empty response to a ``favorite`` filter is consistent with the rest of the list."""
        others = self.fetch(self._query | _HEAD | {"favorite": self._opposite_favorite()})
        if others.rows:
            return all(_is_favorite(row) in (None, not wanted) for row in others.rows)
        query = {name: value for name, value in self._query.items() if name != "favorite"}
        return not self.fetch(query | _HEAD).rows

    def _check_filter(self, filtered: _Reading) -> None:
        others = self.fetch(self._query | {"favorite": self._opposite_favorite()})
        both = next((row["id"] for row in others.rows if row["id"] in filtered.ids), None)
        if both is not None:
            raise _list_changed(
                "favorite",
                f"website {both} is among the favorites and among the others: the list changed, or the service "
                "ignores or misreads the filter. The extra boolean_format sets how favorite is written.",
            )

    def _opposite_favorite(self) -> str:
        texts = next(texts for texts in dialect.BOOLEAN_FORMATS.values() if self._query["favorite"] in texts)
        return texts[1 - texts.index(self._query["favorite"])]


# Identifies this process. A call of ``os.getpid`` before each record would take as long as the record itself.
_process = object()


def _after_fork() -> None:
    global _process
    _process = object()


os.register_at_fork(after_in_child=_after_fork)


class _Reading:
    """One pass through the pages of a query, with the data for the proof.

    :param like: a reading of the same list in another order; pages are selected in the same way.
    """

    def __init__(self, reader: _Reader, query: Query, like: _Reading | None = None) -> None:
        self.ids = _Ids()
        self.total: int | None = None
        #: Whether the last page repeated the previous one: the page parameter has no effect, or there is no later page.
        self.repeated = False
        self.first_id: str | None = None
        self._reader = reader
        self._fetch = reader.fetch
        #: Error of a request for the page after the last one, which a service may refuse.
        self.refusal: AnalyticsApiError | UnexpectedResponseError | None = None
        self.query = query
        #: First head, with at most ten rows.
        self._head: Page | None = None
        self._pages_with_rows = 0
        self._last_ids: list[int | str] = []
        self._parameter: str | None = like._parameter if like else reader.page_parameter
        self._base: int | None = like._base if like else None
        self._is_reverse = like is not None

    @property
    def is_one_page(self) -> bool:
        """Whether one response returned as many websites as its total."""
        return self._pages_with_rows <= 1 and self.total is not None

    @property
    def can_be_closed(self) -> bool:
        """Whether every page contained a total, and the ids in the head descend."""
        if self.total is None or self._head is None:
            return False
        numbers = [_number(row["id"]) for row in self._head.rows]
        falling = [number for number in numbers if number is not None]
        is_falling = len(falling) == len(numbers) and falling == sorted(falling, reverse=True)
        return is_falling and falling[:1] == [self.ids.largest]

    def pages(self) -> Rows:
        """Yield the rows of each page in order."""
        is_stable = self.query.keys() - DEFAULT_QUERY.keys() <= STABLE_FILTERS
        has_head = is_stable and not self._is_reverse
        if has_head and not _is_newest_first(self.query):
            self._take_head(self._fetch(self.query | _HEAD))
        # Omit the page parameter, because its name is an assumption.
        page = self._fetch(self.query)
        if has_head and self._head is None:
            self._take_head(page)
        self.total = page.total
        if self._head is not None and page.total != self._head.total:
            raise _list_changed(
                "total", f"the head returned the total {self._head.total}, page 1 returned {page.total}."
            )
        rows = self._take(page, 1)
        if rows:
            yield rows
        selected = self._selection(page)
        if isinstance(selected, str):
            yield from self._by_cursor(page, selected)
        elif rows and page.total != len(rows):
            yield from self._by_number(rows)
        self._check_total()

    def other_end(self) -> Page:
        """Return the first websites in the opposite order."""
        query = _in_opposite_order(self.query) | {"per_page": _HEAD["per_page"]}
        if self._head is not None and query == self.query | _HEAD:
            return self._head
        return self._fetch(query)

    def close(self) -> None:
        """Fetch the head again, and raise an error if it changed."""
        head = self._fetch(self.query | _HEAD)
        if head.total != self.total:
            raise _list_changed("closing head", f"the total was {self.total} at first, and is {head.total} at the end.")
        assert self._head is not None  # noqa: S101 - only a reading with a head can be closed
        before, after = self._head.rows[0], head.rows[0] if head.rows else {}
        if _identity(before) != _identity(after):
            raise _list_changed(
                "closing head", f"the newest website was {before.get('id')}, and is {after.get('id')} now."
            )

    def check_other_end(self, page: Page, *, is_closed: bool = False) -> None:
        """Raise an error if the websites of the other end contradict those read.

        :param page: the other end.
        :param is_closed: whether the list did not change during the reading.
        """
        moved = not is_closed or page.total != self.total
        end = [str(row["id"]) for row in page.rows]
        if len(self.ids) > 1 and end[:1] == [self.first_id]:
            raise _not_sorted(end[0], moved=moved)
        missing = next((website_id for website_id in end if website_id not in self.ids), None)
        last = [str(website_id) for website_id in self._last_ids[-1:]]
        if missing is not None:
            seen = f"website {missing} is at the other end of the list, but not among the {len(self.ids):,} read"
        elif not set(last) <= set(end):
            seen = f"website {last[0]} was read last, but it is not at the other end of the list"
        else:
            return
        raise IncompleteListError(
            "other end", f"{seen}: the service returns only a part of the list, or the list changed.", moved
        )

    # Pages by number

    def _by_number(self, rows: list[dict[str, Any]]) -> Rows:
        parameter = self._parameter or dialect.PAGE_PARAMETER
        base, known = self._numbering(rows, parameter)
        begin = 2
        if known is not None:
            begin, taken = 3, self._take(known, 2)
            if not taken:
                return
            yield taken
        expected = -(-self.total // len(rows)) if self.total else 0
        pages = self._in_parallel(parameter, base, range(begin, expected + 1))
        try:
            for number, page in pages:
                taken = self._take(page, number)
                if not taken:
                    return
                yield taken
        finally:
            pages.close()
        for number in count(max(begin, expected + 1)):
            if self.total is not None and len(self.ids) >= self.total:
                return
            if number > MAX_PAGES:
                raise IncompleteListError("pages", f"there was no end after {MAX_PAGES:,} pages.")
            taken = self._take(self._page_after(self.query | {parameter: str(base + number - 1)}), number)
            if not taken:
                return
            yield taken

    def _page_after(self, query: Query) -> Page:
        """Return a page, or an empty page if the service refuses it: it may be after the last one."""
        try:
            return self._fetch(query)
        except (AnalyticsApiError, UnexpectedResponseError) as error:
            if isinstance(error, AnalyticsApiError) and error.status not in dialect.NO_SUCH_PAGE:
                raise
            self.refusal = error
            return Page([], self.total)

    def _numbering(self, rows: list[dict[str, Any]], parameter: str) -> tuple[int, Page | None]:
        """Return the number of the first page, and the second page if it was fetched to find out.

        :param rows: rows of the first page.
        """
        if self._base is not None:
            return self._base, None
        page = self._page_after(self.query | {parameter: "1"})
        again, there = ([str(row["id"]) for row in read] for read in (page.rows, rows))
        if again == there:
            self._base = 1
            return 1, None
        if not set(there).isdisjoint(again):
            raise _list_changed("page number", "page 1 changed during the reading.")
        self._base = 0
        return 0, page

    def _in_parallel(self, parameter: str, base: int, numbers: range) -> Generator[tuple[int, Page], None, None]:
        """Yield pages in order. Fetch ``parallel`` pages at the same time, and at most twice as many ahead."""
        reader = self._reader

        def fetch(number: int) -> Page:
            try:
                return self._fetch(self.query | {parameter: str(base + number - 1)})
            except NotFoundError as error:
                raise _list_changed("page number", f"page {number} no longer exists: {error.text}") from None

        while numbers and (reader.parallel <= 1 or len(numbers) == 1 or reader.is_fast):
            yield numbers[0], fetch(numbers[0])
            numbers = numbers[1:]
        if not numbers:
            return
        left = iter(numbers)
        failures: list[Exception] = []

        def read_ahead(number: int) -> Page:
            try:
                return fetch(number)
            except Exception as error:
                failures.append(error)
                reader.unwanted.set()  # the other pages are no longer needed
                raise

        pool = ThreadPoolExecutor(max_workers=reader.parallel, thread_name_prefix="analytics-list")
        # The pool queues as many again, so that a thread fetches its next page without waiting for the consumer.
        waiting = deque((number, pool.submit(read_ahead, number)) for number in islice(left, 2 * reader.parallel))
        wait = True
        try:
            while waiting:
                number, future = waiting.popleft()
                page = _result(future, failures)
                waiting.extend((following, pool.submit(read_ahead, following)) for following in islice(left, 1))
                yield number, page
        except BaseException as error:
            reader.unwanted.set()
            # A task that is killed or times out does not wait.
            wait = isinstance(error, (Exception, GeneratorExit)) and not reader.is_interrupted
            raise
        finally:
            pool.shutdown(wait=wait, cancel_futures=True)
            if wait:
                reader.unwanted.clear()  # for the requests that follow

    # Pages by cursor

    def _by_cursor(self, page: Page, cursor: str) -> Rows:
        parameter = self._parameter or dialect.CURSOR_PARAMETER
        used = {cursor}
        for number in count(2):
            if number > MAX_PAGES:
                raise IncompleteListError("pages", f"there was no end after {MAX_PAGES:,} pages.")
            page = self._fetch(self.query | {parameter: cursor})
            rows = self._take(page, number)
            if rows:
                yield rows
            following = page.following
            if self.repeated or following is None or following.value is None:
                return
            cursor = following.value
            if cursor in used:
                raise IncompleteListError("cursor", f"page {number} returned the cursor {cursor!r} again.")
            used.add(cursor)

    def _selection(self, page: Page) -> str | None:
        """Take the page parameter from the links to the first and the next page; return a cursor, if there is one."""
        if page.first is not None and page.first.value in ("0", "1"):
            self._parameter = self._parameter or page.first.parameter
            self._base = int(page.first.value) if self._base is None else self._base
        following = page.following
        if following is None or following.value is None:
            return None
        self._parameter = self._parameter or following.parameter
        number = dialect.number(following.value)
        if number not in (1, 2):
            return following.value  # a cursor, or an offset
        if self._base is None:
            self._base = number - 1
        return None

    # Single pages

    def _take_head(self, page: Page) -> None:
        self._head = replace(page, rows=page.rows[:10])

    def _take(self, page: Page, number: int) -> list[dict[str, Any]]:
        """Record the rows of a page and return them; none if the page repeats the previous one."""
        ids = [row["id"] for row in page.rows]
        if ids and number > 1 and self._last_ids == ids:
            self.repeated = True
            return []
        current = page.current_page
        if self._base is None and current in (0, 1) and number == 1:
            self._base = current
        expected = (1 if self._base is None else self._base) + number - 1
        if current is not None and current != expected:
            raise IncompleteListError(
                "page number",
                f"page {expected} was requested, the response is page {current}. {self._hint}",
            )
        if number > 1 and page.total != self.total:
            raise _list_changed(
                "total", f"page 1 returned the total {self.total}, page {number} returned {page.total}."
            )
        duplicate = self.ids.add(ids)
        if duplicate is not None:
            raise _list_changed("distinct ids", f"website {duplicate} came twice. The list changed during the reading.")
        if ids:
            self._pages_with_rows += 1
            self.first_id = self.first_id or str(ids[0])
            self._last_ids = ids
        self._check_link(page, number)
        return page.rows

    def _check_link(self, page: Page, number: int) -> None:
        if page.following is not None and page.rows and self.total is not None and len(self.ids) >= self.total:
            raise IncompleteListError(
                "next link", f"page {number} completes the total of {self.total}, but links to a next page."
            )

    def _check_total(self) -> None:
        if self.total is None or len(self.ids) == self.total:
            return
        found = f"the total is {self.total}, but {len(self.ids)} websites were found"
        if self.repeated:
            raise IncompleteListError("page number", f"{self._hint} The next page brought nothing new: {found}.")
        raise _list_changed("total", f"{found}.")

    @property
    def _hint(self) -> str:
        name = self._parameter or dialect.PAGE_PARAMETER
        return f"The service seems to ignore the parameter {name!r}; set the extra page_parameter to the right name."


class _Ids:
    """Set of ids, numbers or text. It takes 2 bytes per id, if the ids are close together."""

    def __init__(self) -> None:
        #: Largest number; None if any id is not a number, -1 without ids.
        self.largest: int | None = -1
        # Each word stores 64 numbers, one bit each. A set of texts would take 100 bytes per id: 10 MB for 100,000.
        self._words: dict[int, int] = {}
        self._texts: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, website_id: int | str) -> bool:
        number = _number(website_id)
        if number is None:
            return str(website_id) in self._texts
        return bool(self._words.get(number >> 6, 0) >> (number & 63) & 1)

    def add(self, ids: Sequence[int | str]) -> int | str | None:
        """Add ids; return the first duplicate, if there is one."""
        words, texts = self._words, self._texts
        numbers = [_number(website_id) for website_id in ids]
        for website_id, number in zip(ids, numbers, strict=True):
            if number is None:
                if (text := str(website_id)) in texts:
                    return website_id
                texts.add(text)
                continue
            word, bit = words.get(number >> 6, 0), 1 << (number & 63)
            if word & bit:
                return website_id
            words[number >> 6] = word | bit
        self._count += len(ids)
        known = [number for number in (self.largest, *numbers) if number is not None]
        self.largest = max(known) if len(known) > len(ids) else None
        return None

    def count_besides(self, other: _Ids) -> int:
        """Return how many of these ids are not in the other set."""
        words = sum((word & ~other._words.get(place, 0)).bit_count() for place, word in self._words.items())
        return words + len(self._texts - other._texts)


class _Progress:
    """Logs the progress every :data:`PROGRESS_SECONDS`."""

    def __init__(self) -> None:
        self._logged_at = time.monotonic()

    def step(self, read: int, total: int | None, verb: str = "Reading") -> None:
        now = time.monotonic()
        if now - self._logged_at >= PROGRESS_SECONDS:
            self._logged_at = now
            of = f" of {total:,}" if total is not None else ""
            log.info("%s: %s%s websites", verb, f"{read:,}", of)


def _result(future: Future[Returned], failures: list[Exception]) -> Returned:
    """Return the result of a thread. If it failed, raise the first error of any thread, without its frames."""
    if future.exception() is not None:
        raise failures[0].with_traceback(None)
    return future.result()


def requests_of_a_list(websites: int) -> int:
    """Return the number of requests needed to read and prove a list of this size, newest first."""
    pages = max(1, -(-websites // int(DEFAULT_QUERY["per_page"])))
    return pages + 2 if pages > 1 else 2


def read_again(consume: Callable[[Listing], Returned], make_listing: Callable[[], Listing]) -> Returned:
    """Consume a listing. If the list changed, wait (:data:`WAITS_BETWEEN_READINGS`) and consume a new one.

    :raises IncompleteListError: if the last reading fails, too.
    """
    readings = len(WAITS_BETWEEN_READINGS) + 1
    for reading in count(1):
        listing = make_listing()
        try:
            return consume(listing)
        except IncompleteListError as error:
            if not error.moved:
                raise error.with_traceback(None) from None
            if reading == readings:
                seen = f"{error.seen} Gave up after {readings} attempts."
                raise IncompleteListError(error.check, seen, True) from None
            seconds = WAITS_BETWEEN_READINGS[reading - 1]
            log.info(
                "The list changed during the reading. Reading it again in %.1f s (attempt %d of %d failed): %s",
                seconds, reading, readings, error.seen,
            )  # fmt: skip
        finally:
            # A task that is killed or times out does not wait.
            listing.close(wait=isinstance(sys.exception(), (Exception, NoneType)))
        listing.stats.count("lists_read_again")
        listing.wait(seconds)
    raise AssertionError("unreachable")


def _compare(there: _Reading, back: _Reading) -> None:
    if len(there.ids) > 1 and there.first_id is not None and there.first_id == back.first_id:
        raise _not_sorted(there.first_id, moved=False)
    if there.total != back.total:
        raise _list_changed("total", f"the total was {there.total} in one direction, and {back.total} in the other.")
    only_there, only_back = there.ids.count_besides(back.ids), back.ids.count_besides(there.ids)
    if only_there or only_back:
        if there.refusal is not None:
            raise there.refusal
        repeated = there.repeated or back.repeated
        seen = f"{only_there} websites were found only in the first direction, {only_back} only in the opposite one."
        raise IncompleteListError("both directions", f"{there._hint} {seen}" if repeated else seen, moved=not repeated)


def _list_changed(check: str, seen: str) -> IncompleteListError:
    return IncompleteListError(check, seen, moved=True)


def _not_sorted(website_id: str, *, moved: bool) -> IncompleteListError:
    seen = f"both directions begin with website {website_id}: the service ignores the sort order."
    return IncompleteListError("sort order", seen, moved)


def _is_newest_first(query: Query) -> bool:
    return (query["sort_by"], query["sort"]) == ("id", "desc")


def _is_favorite(row: dict[str, Any]) -> bool | None:
    """Return whether a record is a favorite, or None without the flag; null means that it is not."""
    if "favorite" not in row:
        return None
    if row["favorite"] is None:
        return False
    try:
        return flag("favorite", row["favorite"])
    except ValueError:
        return None


def _number(website_id: object) -> int | None:
    """Return an id as a number, or None; a number has only one spelling."""
    if type(website_id) is int and 0 <= website_id < 10**18:  # nearly always
        return website_id
    text = str(website_id)
    is_number = text.isascii() and text.isdigit() and len(text) < 19 and (text[0] != "0" or text == "0")
    return int(text) if is_number else None


def _identity(row: dict[str, Any]) -> tuple[str, str]:
    domain = row.get("domain")
    return str(row.get("id")), domain_key(domain) if isinstance(domain, str) else ""


def _in_opposite_order(query: Query) -> Query:
    return query | {"sort": "asc" if query["sort"] == "desc" else "desc"}
