"""The complete list of websites: paging, and the proof that no website is missing.

docs/interface.md documents neither how a page is selected nor what a page states about the whole list. The list may
also change during the reading. So a list counts as complete only if its reading proves it, by one of three methods:

``one page``
    One response contains as many websites as its total. It is the list at one moment.
``closed reading``
    The reading begins with a *head*: the first websites, newest first, with their total. All pages follow, in any order
    and at the same time. Websites with higher ids than the newest one of the head were created during the reading: they
    do not count. Of the others, the pages must have as many as the total. A second head closes the reading: first the
    websites created during it, as many as the total has grown, and then the newest website of the first head, by id and
    domain. The ids in the first head must descend: otherwise the service does not sort.
``both directions``
    Everything else: no total, ids that are not numbers, a filter that is not in :data:`STABLE_FILTERS`. The list is
    read until a page contains nothing new, and then in the opposite direction. Both readings must find the same ids;
    the second one may also find websites with higher ids, which were created since. A row is missed only if a row
    before it is removed after it was read. Then the removed row is missing in the second reading. The two readings must
    begin with different websites: otherwise the service ignores the sort order. This method also needs the conditions 1
    to 3 below.

The first two methods also check the *other end* of the list: its first ten websites in the opposite order. All of them
must be among the websites read, and the last website read must be among them. A service may cap the rows at any number,
and its total may be capped as well, or count the rows of the page. Then the pages end early, and the other end contains
websites that were not read. For a list that is read newest first, the other end is the oldest websites. For one that is
read oldest first, it is the head. One limit remains: if a service returns no website, or the same single one, in both
orders, the client accepts this.

A closed reading returns the list at the moment of the second head, if

1. a new website gets a higher id than every website in the list (docs/interface.md, Rules),
2. a deleted website is not restored with its id and domain,
3. no response reflects an older list than a response that arrived before the request was sent,
4. the totals of both heads are correct.

The newest website of the first head is in both heads, so it was in the list all the time (2, 3). So every website
created during the reading has a higher id (1). So all websites that count were in the list of the first head (2, 3).
That list had as many websites (4) as were read: they are that list. The second head contains all websites created
since. The total has grown by their number, so none of the others was deleted (4).

So a list that only grows is read once, for a snapshot as for a lookup: many tasks may create websites at the same time.
A create moves rows to later pages, never to earlier ones, so pages may repeat rows, which are skipped. A page with a
lower total that was read ahead is read again: it reflects an older list than the page before it, and rows between the
two would be missing. Another lower total is a list that changed. The websites created during the reading come last,
whatever the order.
If they were left out, a lookup could miss the website that another task has just created, and create it again.

The proof does not need the totals of the pages. They expose nearly every list that breaks a condition, unless the
numbers balance. The client accepts such a list in two cases. One website is deleted and an older one is restored during
the reading (2). Or a page comes from a replica that is one create and one delete behind (3). Then as many websites may
be missing as were restored. Only a second reading of every page could detect it. The other end detects a total that is
wrong from the beginning (4), if the list does not change during the reading.

If the records of a ``favorite`` filter contradict it, the service ignores or misreads the filter. If they do not
contain the flag, or there are none, the client compares them with the opposite filter. A website may lose and regain
its mark, so such a list is never closed by a second head. One limit remains. If the favorites fill more than one page
and a website loses and regains its mark during the reading, both directions may miss the same other website.

A website whose record is marked as deleted counts for the proof, but is not part of the list. If a service returns such
records and leaves them out of its total, the proof fails.

Links of the service determine how pages are selected. A link to the next page contains the query parameter (the one
that is no filter) and its value, a number or a cursor. The client never follows the link: it sends requests to the base
URL only. So a link of another scheme or host counts, as behind a proxy. Without such a link, the parameter is
:data:`dialect.PAGE_PARAMETER`, or the extra ``page_parameter``. A link to a next page on the last page contradicts the
total.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import count, islice
from threading import Event, Lock
from typing import Any, TypeVar

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.checks import flag
from airflow_provider_analytics.api.dialect import Page, Record, Selection
from airflow_provider_analytics.api.fields import normalise
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
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
#: Seconds that requests under way get to end, once their pages are no longer needed.
END_SECONDS = 2.0

#: Order of a head.
NEWEST_FIRST = {"sort_by": "id", "sort": "desc"}
#: Defaults of docs/interface.md, List parameters: the largest page, and newest first.
DEFAULT_QUERY = {"per_page": "100", **NEWEST_FIRST}
#: Filters that allow a closed reading. Only a create or a delete changes the result of such a filter, because a domain
#: cannot change (docs/interface.md, Operations).
STABLE_FILTERS = frozenset({"search", "search_by"})
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
_MISREAD = "the service ignores or misreads the filter. The extra boolean_format sets how favorite is written."

Query = dict[str, str]
#: Id of a website as it is compared.
Key = int | str
Pages = Generator[Page, None, None]
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
    :param total: total that the service returned; None without one.
    :param pages: number of pages read, including heads, the other end and the second direction.
    """

    method: str
    websites: int
    total: int | None
    pages: int

    def as_dict(self) -> dict[str, Any]:
        """Return the proof as plain JSON values."""
        return asdict(self)


class Listing(Iterator[Record]):
    """One reading of the list: yields the website records, and raises an error if it cannot prove that none is missing.

    Use the records only after the iterator is exhausted. Memory grows by about 100 bytes for each website, and by the
    pages that are read ahead. Once the consumer stops or a page fails, the listing sends no further requests. Those
    under way get two seconds to end.

    :param fetch: returns the page for a query; called from several threads.
    :param query: filters and order; :data:`DEFAULT_QUERY` completes it.
    :param page_parameter: name of the query parameter that selects a page; None: taken from links of the service.
    :param parallel: maximum number of pages read at the same time, if the service is slow (:data:`AT_ONCE`).
    :param unwanted: set when the pages are no longer needed.
    :param wait: waits for a number of seconds before the list is read again.
    :param stats: counts the websites, and the readings that are repeated.
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
    ) -> None:
        self.stats = stats or Stats()
        self.wait = wait
        # Without a reference to the listing. So a listing that is dropped, as by ``break``, ends immediately, without
        # waiting for the garbage collector.
        self._reading = _Reading(fetch, DEFAULT_QUERY | query, page_parameter, parallel, unwanted or Event())
        self._records = self._reading.records(self.stats)

    def __next__(self) -> Record:
        """Return the next record.

        :raises RuntimeError: for a new page in a process that was forked during the reading: the responses belong to
            its parent.
        """
        return next(self._records)

    @property
    def proof(self) -> Proof | None:
        """The proof; None before the iterator is exhausted."""
        return self._reading.proof

    @property
    def total(self) -> int | None:
        """Total that the first page contained; None before it was read, or if it contained none."""
        return self._reading.total

    def close(self) -> None:
        """Stop reading, and send no further requests."""
        self._records.close()


@dataclass(eq=False)
class _Reading:
    """One pass through the pages of a query, and its proof.

    :param fetch_page: returns the page for a query.
    :param query: filters and order.
    :param parameter: query parameter that selects a page; None if it is unknown.
    :param parallel: maximum number of pages fetched at the same time.
    :param unwanted: set when the pages are no longer needed.
    :param base: number of the first page; None if it is unknown.
    :param is_back: whether this is the second reading of both directions.
    """

    fetch_page: Callable[[Query], Page]
    query: Query
    parameter: str | None
    parallel: int
    unwanted: Event
    base: int | None = None
    is_back: bool = False
    proof: Proof | None = None
    #: Keys are the ids that count, in the order in which they were read.
    ids: dict[Key, None] = field(default_factory=dict)
    total: int | None = None
    #: Total of the last page.
    last_total: int | None = None
    #: Why the pages ended, if neither with an empty one nor with the total.
    end: str = ""
    is_one_page: bool = False
    #: First head, and the id of its newest website if a second head can close the reading.
    head: Page | None = None
    newest: int | None = None
    shows_favorites: bool = True
    yielded: int = 0
    logged_at: float = field(default_factory=time.monotonic)
    #: Number of pages fetched, and the seconds that they took together.
    fetched: int = 0
    seconds: float = 0.0
    lock: Any = field(default_factory=Lock)
    process: int = field(default_factory=os.getpid)

    def records(self, stats: Stats) -> Generator[Record, None, None]:
        """Yield the records, then prove that none is missing."""
        with closing(self._rows()) as pages:
            for rows in pages:
                yield from self._not_deleted(rows)
        method, created = self._prove()
        yield from self._not_deleted(created)
        self.proof = Proof(method, self.yielded, self.total, self.fetched)
        stats.count("websites", self.yielded)

    def _not_deleted(self, rows: list[Record]) -> list[Record]:
        """Return the rows without deleted websites, and count them."""
        kept = dialect.not_deleted(rows)
        self.yielded += len(kept)
        return kept

    def _rows(self) -> Generator[list[Record], None, None]:
        """Yield the rows of each page in order."""
        with closing(self._pages()) as pages:
            for number, page in enumerate(pages, 1):
                yield self._take(page, number)
                self._log_progress()
                if self.process != os.getpid():
                    raise RuntimeError("Another process reads this list of websites. Start a new one in this process.")
                if self.end or not page.rows:
                    break
                if number >= MAX_PAGES:
                    raise IncompleteListError("pages", f"there was no end after {MAX_PAGES:,} pages.")
        self._check_total()

    def _log_progress(self) -> None:
        now = time.monotonic()
        if now - self.logged_at >= PROGRESS_SECONDS:
            self.logged_at = now
            verb = "Reading in the other direction" if self.is_back else "Reading"
            of = f" of {self.total:,}" if self.total is not None else ""
            log.info("%s: %s%s websites", verb, f"{len(self.ids):,}", of)

    # Pages

    def _pages(self) -> Pages:
        page = self._first_page()
        yield page
        following = page.following or Selection()
        self.parameter = self.parameter or following.parameter
        number = dialect.number(following.value)
        if following.value is not None and number not in (1, 2):
            yield from self._by_cursor(following)
        elif page.total != len(page.rows):
            if number is not None and self.base is None:
                self.base = number - 1
            yield from self._by_number(len(page.rows))

    def _first_page(self) -> Page:
        """Return the first page; fetch the head before it, if that is another page."""
        has_head = not self.is_back and self.query.keys() <= DEFAULT_QUERY.keys() | STABLE_FILTERS
        is_head = self.query == self.query | NEWEST_FIRST
        head = self._fetch(NEWEST_FIRST) if has_head and not is_head else None
        # Omit the page parameter, because its name is an assumption.
        page = self._fetch({})
        head = head or page
        self.total = self.last_total = head.total
        self.is_one_page = head.total == page.total == len(page.rows)
        if has_head:
            self.head = head
            self.newest = _newest(head)
        return page

    def _by_cursor(self, following: Selection | None) -> Pages:
        """Yield the pages after the first one, by cursors or offsets."""
        name = self.parameter or dialect.CURSOR_PARAMETER
        while following and following.value is not None:
            page = self._fetch({name: following.value})
            yield page
            following = page.following

    def _by_number(self, page_size: int) -> Pages:
        """Yield the pages after the first one, by numbers."""
        begin = 2
        if self.base is None:
            page = self._page_after(1)
            again, _ = self._split(page)
            self.base = 1 if again and again.keys() <= self.ids.keys() else 0
            if self.base == 0:
                yield page
                begin = 3
        end = max(begin, 1 - (self.total or 0) // -page_size)
        yield from self._in_order(range(begin, end))
        for number in count(end):
            if self.total is not None and len(self.ids) >= self.total:
                return
            yield self._page_after(number)

    def _in_order(self, numbers: range) -> Pages:
        """Yield the pages with these numbers. Fetch ``parallel`` pages at the same time, if that saves time.

        A page that reflects an older list than the page before it is fetched again.
        """
        while numbers and (len(numbers) == 1 or self.parallel <= 1 or self.seconds < AT_ONCE * self.fetched):
            yield self._page(numbers[0])
            numbers = numbers[1:]
        if not numbers:
            return
        failures: list[Exception] = []

        def read_ahead(number: int) -> Page:
            try:
                return self._page(number)
            except Exception as error:
                failures.append(error)
                self.unwanted.set()  # the other pages are no longer needed
                raise

        pool = ThreadPoolExecutor(max_workers=self.parallel, thread_name_prefix="analytics-list")
        pages: deque[Future[Page]] = deque()
        left = iter(numbers)
        try:
            for number in numbers:
                # The pool queues as many again, so that no thread waits for the consumer.
                more = islice(left, 2 * self.parallel - len(pages))
                pages.extend(pool.submit(read_ahead, following) for following in more)
                page = _result(pages.popleft(), failures)
                if self._growth(page) < 0:
                    page = _result(pool.submit(read_ahead, number), failures)
                yield page
        except BaseException:  # such as a consumer that stops
            self.unwanted.set()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            wait([page for page in pages if not page.done()], END_SECONDS)

    def _page(self, number: int) -> Page:
        """Return a page that should exist; called from several threads."""
        try:
            return self._fetch(self._selecting(number))
        except NotFoundError as error:
            raise _list_changed("page number", f"page {number} no longer exists: {error.text}") from None

    def _page_after(self, number: int) -> Page:
        """Return a page that may be after the last one; an empty page if the service refuses it."""
        try:
            return self._fetch(self._selecting(number))
        except (AnalyticsApiError, UnexpectedResponseError) as error:
            if isinstance(error, AnalyticsApiError) and error.status not in dialect.NO_SUCH_PAGE:
                raise
            self.end = f"Page {number} was refused: {error.text}"
            return Page([], self.last_total)

    def _fetch(self, parameters: Query) -> Page:
        """Return a page; called from several threads."""
        began = time.perf_counter()
        page = self.fetch_page(self.query | parameters)
        with self.lock:
            self.fetched += 1
            self.seconds += time.perf_counter() - began
        return page

    def _selecting(self, number: int) -> Query:
        return {self.parameter or dialect.PAGE_PARAMETER: str(self._number(number))}

    def _number(self, number: int) -> int:
        """Return the number of the service for a page; ``number`` counts from 1."""
        return number if self.base is None else self.base + number - 1

    # Checks of a page

    def _take(self, page: Page, number: int) -> list[Record]:
        """Check a page. Return its websites, without those read before and those created during the reading."""
        self._check_favorites(page.rows, self._wants_favorites)
        growth = self._growth(page)
        if growth and (growth < 0 or self.newest is None):
            raise _list_changed("total", f"the total was {self.last_total}, page {number} returned {page.total}.")
        self.last_total = page.total
        rows, _ = self._split(page)
        known = rows.keys() & self.ids.keys()
        if rows and len(known) == len(rows) and not growth:
            self.end = f"Page {number} contains only websites of earlier pages: {self._hint}"
            return []
        self._check_number(page.current_page, number)
        self.ids |= dict.fromkeys(rows)
        if page.following and rows and page.total == self.total == len(self.ids):
            raise IncompleteListError(
                "next link", f"page {number} completes the total of {self.total}, but links to a next page."
            )
        return [row for key, row in rows.items() if key not in known]

    def _growth(self, page: Page) -> int:
        """Return by how much the total has grown since the last page."""
        return (page.total or 0) - (self.last_total or 0)

    def _split(self, page: Page) -> tuple[dict[Key, Record], list[Record]]:
        """Return the websites of a page that count, by id, and those created during a closed reading."""
        counted = {}
        created = []
        for row in page.rows:
            key = _key(row)
            if self.newest is None or (isinstance(key, int) and key <= self.newest):
                counted[key] = row
            else:
                created.append(row)
        return counted, created

    def _check_number(self, current: int | None, number: int) -> None:
        """Raise an error if the service returned another page than requested."""
        if self.base is None and number == 1 and current in (0, 1):
            self.base = current
        expected = self._number(number)
        if current not in (None, expected):
            seen = f"page {expected} was requested, the response is page {current}: {self._hint}"
            raise IncompleteListError("page number", seen)

    @property
    def _hint(self) -> str:
        name = self.parameter or dialect.PAGE_PARAMETER
        return f"the service seems to ignore the parameter {name!r}; set the extra page_parameter to the right name."

    @property
    def _wants_favorites(self) -> bool | None:
        """Value of the ``favorite`` filter; None without one."""
        return flag("favorite", self.query["favorite"]) if "favorite" in self.query else None

    def _check_favorites(self, rows: list[Record], wanted: bool | None) -> None:
        """Raise an error if a row contradicts the filter."""
        for row in rows if wanted is not None else ():
            found = normalise("favorite", row.get("favorite", ""))
            if not isinstance(found, bool):
                self.shows_favorites = False
            elif found != wanted:
                raise IncompleteListError("favorite", f"website {row['id']} contradicts the filter: {_MISREAD}")

    # Proof

    def _prove(self) -> tuple[str, list[Record]]:
        """Return the method of the proof, and the websites created during a closed reading."""
        self._check_filter()
        if self.is_one_page:
            self._check_other_end()
            return "one page", []
        if self.newest is not None and self.head is not None:
            self._check_other_end()
            return "closed reading", self._close(self.head)
        return "both directions", self._read_back()

    def _check_total(self) -> None:
        if self.total is not None and len(self.ids) != self.total:
            check = "page number" if self.end else "total"
            seen = f"the total is {self.total}, but {len(self.ids)} websites were found. {self.end}"
            raise _list_changed(check, seen.rstrip())

    def _check_filter(self) -> None:
        """If no row shows whether it is a favorite, compare the rows with those of the opposite filter."""
        wanted = self._wants_favorites
        if wanted is None or (self.ids and self.shows_favorites):
            return
        texts = next(texts for texts in dialect.BOOLEAN_FORMATS.values() if self.query["favorite"] in texts)
        others = self._fetch({"favorite": texts[not wanted]}).rows
        self._check_favorites(others, not wanted)
        both = self.ids.keys() & map(_key, others)
        if both or not (self.ids or others or self._is_empty()):
            seen = f"the filter returns {len(self.ids)} websites, the opposite filter returns {len(both)} of them"
            raise _list_changed("favorite", f"{seen}: the list changed, or {_MISREAD}")

    def _is_empty(self) -> bool:
        """Return whether there is no website without the ``favorite`` filter."""
        self.fetched += 1
        query = {name: value for name, value in self.query.items() if name != "favorite"}
        return not self.fetch_page(query).rows

    def _check_other_end(self) -> None:
        """Compare the first websites in the opposite order with those read."""
        opposite = _in_opposite_order(self.query)
        page = self.head
        if page is None or opposite != opposite | NEWEST_FIRST:
            page = self._fetch(opposite | {"per_page": "10"})
        end, _ = self._split(page)
        self._check_order(end)
        last = next(reversed(self.ids), None)
        if not end.keys() <= self.ids.keys() or (self.ids and last not in end):
            seen = (
                f"{len(self.ids):,} websites were read, the last is {last}, the other end is {', '.join(map(str, end))}"
            )
            raise _list_changed(
                "other end", f"{seen}: the service returns only a part of the list, or the list changed."
            )

    def _close(self, first: Page) -> list[Record]:
        """Fetch the second head. Return the websites created since the first one, if nothing else changed."""
        second = self._fetch(NEWEST_FIRST)
        others, created = self._split(second)
        before, after = _first(first.rows), _first(others.values())
        total = (self.total or 0) + len(created)
        if second.total != total or before != after:
            seen = f"{len(created)} websites were created. The total was {self.total}, and is {second.total}."
            raise _list_changed("closing head", f"{seen} The newest of the others was {before}, and is {after}.")
        self.total = total
        return created

    def _read_back(self) -> list[Record]:
        """Read the list in the opposite direction. Return the websites created since, if nothing else changed."""
        query = _in_opposite_order(self.query)
        back = _Reading(
            self.fetch_page, query, self.parameter, self.parallel, self.unwanted, base=self.base, is_back=True
        )
        others = [row for rows in back._rows() for row in rows if _key(row) not in self.ids]
        self.fetched += back.fetched
        self._check_order(back.ids)
        newest = max((key for key in self.ids if isinstance(key, int)), default=0)
        created = [row for row in others if isinstance(key := _key(row), int) and key > newest]
        differing = len(self.ids.keys() - back.ids.keys()) + len(others) - len(created)
        if differing or self.total != back.total:
            seen = f"{differing} websites were found in one direction only. Totals: {self.total}, {back.total}."
            raise _list_changed("both directions", f"{self.end or back.end} {seen}".lstrip())
        return created

    def _check_order(self, opposite: Iterable[Key]) -> None:
        """Raise an error if the opposite order begins with the same website."""
        first = next(iter(opposite), None)
        if len(self.ids) > 1 and first == next(iter(self.ids)):
            seen = f"both directions begin with website {first}: the service ignores the sort order."
            raise _list_changed("sort order", seen)


def _result(page: Future[Page], failures: list[Exception]) -> Page:
    """Return a page that was read ahead; raise the first error of any thread if it failed."""
    if page.exception() is not None:
        raise failures[0].with_traceback(None)
    return page.result()


def requests_of_a_list(websites: int) -> int:
    """Return the number of requests needed to read and prove a list of this size, newest first."""
    pages = max(1, -(-websites // int(DEFAULT_QUERY["per_page"])))
    return pages + 2 if pages > 1 else 2


def read_again(consume: Callable[[Listing], Returned], make_listing: Callable[[], Listing]) -> Returned:
    """Consume a listing. If the list changed, wait (:data:`WAITS_BETWEEN_READINGS`) and consume a new one.

    :raises IncompleteListError: if the last reading fails, too.
    """
    all_seen = set()
    for seconds in (*WAITS_BETWEEN_READINGS, None):
        with closing(make_listing()) as listing:
            try:
                return consume(listing)
            except IncompleteListError as error:
                last = error.with_traceback(None)
        if not last.moved:
            raise last
        all_seen.add(last.seen)
        if seconds is not None:
            log.info("Reading the list again in %.1f s, because it may have changed: %s", seconds, last.seen)
            listing.stats.count("lists_read_again")
            listing.wait(seconds)
    # A list that changes is seen in another way each time.
    how = "The list changed during each reading." if len(all_seen) > 1 else "The same was seen each time."
    seen = f"{last.seen} Gave up after {len(WAITS_BETWEEN_READINGS) + 1} attempts. {how}"
    raise IncompleteListError(last.check, seen, True)


def _list_changed(check: str, seen: str) -> IncompleteListError:
    return IncompleteListError(check, seen, moved=True)


def _key(row: Record) -> Key:
    """Return the id of a website as it is compared: a number, also if it is written as text, or any other text."""
    website_id: Key = row["id"]
    is_number = isinstance(website_id, str) and _NUMBER.fullmatch(website_id)
    return int(website_id) if is_number else website_id


def _newest(head: Page) -> int | None:
    """Return the id of the newest website, if there is a total and the ids are numbers that descend."""
    ids = [_key(row) for row in head.rows]
    numbers = [key for key in ids if isinstance(key, int)]
    if head.total is None or not ids or ids != sorted(numbers, reverse=True):
        return None
    return numbers[0]


def _first(rows: Iterable[Record]) -> tuple[Any, Any]:
    """Return id and domain of the first website: an engine may give the highest id again after a delete."""
    row = next(iter(rows), {})
    return row.get("id"), row.get("domain")


def _in_opposite_order(query: Query) -> Query:
    return query | {"sort": "asc" if query["sort"] == "desc" else "desc"}
