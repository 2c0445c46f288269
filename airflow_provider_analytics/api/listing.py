# SPDX-License-Identifier: Apache-2.0
"""The complete list of websites: paging, and the proof that no website is missing.

The interface documents neither pages nor totals, and the list can change while it is read. So a list counts as complete
only if the read proves it, by one of three methods:

``one page``
    One response contains as many websites as its total. It is the list at one moment.
``closed reading``
    The read starts with a *head*: the first websites, newest first, with their total. All pages follow, in any order
    and at the same time. A second head closes the read. Websites with a higher id than the newest one of the first head
    were created meanwhile, and do not count. Of the others, the pages must contain as many as the first total. The
    second head must begin with the created websites, as many as the total has grown, and then the newest website of
    the first head, by id and domain.
``both directions``
    Everything else: no total, ids that are texts, a filter that is not in :data:`STABLE_FILTERS`. The list is read
    until a page contains nothing new, and then in the opposite order. Both reads must find the same ids; the second one
    can also find higher ids, which were created since. A row is missed only if a row before it is removed after it was
    read. Then the removed row is missing in the second read.

Why the second head is enough: the newest website of the first head is in both heads, so it was in the list all the
time. So every website created during the read has a higher id, and all others were in the list of the first head. That
list had as many websites as were read: they are that list. The total has grown by the created websites, so none of the
others was deleted. This needs four conditions:

1. a new website gets a higher id than every website in the list (interface.md, Rules),
2. a deleted website is not restored with its id and domain,
3. no response reflects an older list than a response that arrived before the request was sent,
4. the totals of both heads are correct.

The first two methods also check the *other end*, because a total can be capped, or count the rows of the page: the
first ten websites in the opposite order must be among the websites read, and the last website read must be among them.

A create moves rows to later pages, never to earlier ones, so a list that only grows is read once: repeated rows are
skipped. A page with a lower total that was read ahead is read again, because it reflects an older list. Another lower
total is a list that changed. The created websites come last; without them, a lookup could miss the website that
another task has just created, and create it again. A website that is marked as deleted counts for the proof, but is not
part of the list.

The ``favorite`` filter: each row must contain the flag and match the filter. A website can lose and regain its mark, so
such a list is never closed by a second head.

Three limits remain. If a service returns no website, or the same single one, in both orders, the client accepts this.
If one website is deleted and an older one restored during the read (2), or a page comes from a replica that is one
create and one delete behind (3), as many websites can be missing. If the favorites fill more than one page and a
website loses and regains its mark during the read, both directions can miss the same other website.

The link to the next page says how pages are selected, by a number or a cursor; only its query is read. Without a link,
pages are selected by :data:`laravel.PAGE_PARAMETER` from 1, or by the extra ``page_parameter``.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Event
from typing import Any, TypeVar

from airflow_provider_analytics.api import laravel
from airflow_provider_analytics.api.checks import flag
from airflow_provider_analytics.api.fields import normalize
from airflow_provider_analytics.api.laravel import Page, Record, Selection
from airflow_provider_analytics.api.transport import BodyTooLargeError
from airflow_provider_analytics.api.waiting import Stats
from airflow_provider_analytics.exceptions import AnalyticsApiError, IncompleteListError
from airflow_provider_analytics.readable import counted

#: Seconds before a list that changed during its read is read again. Reads without a wait would all get a total from the
#: cache of the service.
WAITS_BETWEEN_READS: tuple[float, ...] = (0.5, 1.0, 2.0)
#: Seconds between two progress lines.
PROGRESS_SECONDS = 10.0
#: If a page takes fewer seconds on average, the same thread reads the next one. Other threads would not save time:
#: passing pages between threads costs up to half of the CPU time of a page.
AT_ONCE = 0.005

#: Limits of a list, for a service that never ends it. A service with 100,000 websites needs a tenth of them.
MAX_LIST_PAGES = 100_000
MAX_LIST_WEBSITES = 1_000_000
MAX_LIST_BYTES = 1024**3
MAX_LIST_VALUES = 20_000_000

#: Order of a head.
NEWEST_FIRST = {"sort_by": "id", "sort": "desc"}
#: Defaults of interface.md, List parameters: the largest page, and newest first.
DEFAULT_QUERY = {"per_page": "100", **NEWEST_FIRST}
#: Filters that allow a closed read. Only a create or a delete changes the result of such a filter, because a domain
#: cannot change (interface.md, Operations).
STABLE_FILTERS = frozenset({"search", "search_by"})
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
#: Value of the ``favorite`` filter to the opposite one.
_OPPOSITES = {"false": "true", "true": "false", "0": "1", "1": "0"}
_MISREAD = "the service ignores or misreads the filter. Read the list without it, and select the favorites yourself."

Query = dict[str, str]
#: Id of a website as it is compared.
Key = int | str
Pages = Iterator[Page]
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


class Listing(Iterable[Record]):
    """The list: each iteration reads it once and raises an error if it cannot prove that no website is missing.

    Use the records only after the iteration has ended. Memory grows by about 100 bytes for each website, and by the
    pages that are read ahead. Once the consumer stops or a page fails, the listing sends no further requests.

    :param fetch: returns the page for a query. For a page that is read ahead, it is called from another thread, and
        also gets an event that is set when the page is no longer needed.
    :param query: filters and order; :data:`DEFAULT_QUERY` completes it.
    :param page_parameter: name of the query parameter that selects a page; None: taken from links of the service.
    :param parallel: maximum number of pages read at the same time, if the service is slow (:data:`AT_ONCE`).
    :param wait: waits for a number of seconds before the list is read again.
    :param stats: counts the websites, and the reads that are repeated.
    :param change_format: changes how the ``favorite`` filter of the next listing is written, and returns whether that
        format was not tried yet.
    :raises IncompleteListError: while iterating, as soon as the proof fails.
    """

    def __init__(
        self,
        fetch: Callable[..., Page],
        query: Query,
        page_parameter: str | None = None,
        *,
        parallel: int = 1,
        wait: Callable[[float], None] = time.sleep,
        stats: Stats | None = None,
        change_format: Callable[[], bool] = lambda: False,
    ) -> None:
        self.wait = wait
        self.change_format = change_format
        self.stats = stats or Stats()
        #: The proof; None before the iteration has ended.
        self.proof: Proof | None = None
        self._fetch = fetch
        self._query = DEFAULT_QUERY | query
        self._page_parameter = page_parameter
        self._parallel = parallel
        #: The last read.
        self._last_read = self._new_read()

    @property
    def total(self) -> int | None:
        """Total that the first page contained; None before it was read, or if it contained none."""
        return self._last_read.total

    def _new_read(self) -> ListRead:
        return ListRead(PageRequests(self._fetch, self._query, self._page_parameter, self._parallel))

    # The listing has no reference to this generator: a read that is dropped, as by ``break``, ends immediately.
    def __iter__(self) -> Iterator[Record]:
        """Yield the records, then prove that none is missing."""
        self.proof = None
        self._last_read = read = self._new_read()
        websites = 0
        for rows in read.rows():
            existing = laravel.not_deleted(rows)
            websites += len(existing)
            yield from existing
        method, created = read.prove()
        existing = laravel.not_deleted(created)
        websites += len(existing)
        yield from existing
        self.proof = Proof(method, websites, read.total, read.pages_read)
        self.stats.count("websites", websites)


class PageRequests:
    """Requests for the pages of the list in one order.

    :param fetch: see :class:`Listing`.
    :param query: filters and order.
    :param parameter: name of the query parameter that selects a page; None: taken from links of the service.
    :param parallel: maximum number of pages read at the same time.
    """

    def __init__(self, fetch: Callable[..., Page], query: Query, parameter: str | None, parallel: int) -> None:
        self.query = query
        self.parallel = parallel
        self.fetch = fetch
        self._parameter = parameter
        #: Number of websites on the first page.
        self._page_size = 0
        #: Number of pages that were read one after the other, and the seconds that they took.
        self._pages_timed = 0
        self._seconds = 0.0

    @property
    def parameter(self) -> str:
        """Query parameter that selects a page."""
        return self._parameter or laravel.PAGE_PARAMETER

    def in_opposite_order(self) -> PageRequests:
        """Return the requests for the list in the opposite order."""
        return PageRequests(self.fetch, _in_opposite_order(self.query), self._parameter, self.parallel)

    def first(self) -> Page:
        """Return the first page. Its link to the next page can contain the name of the page parameter."""
        # Omit the page parameter, because its name is an assumption.
        page = self._timed(partial(self.fetch, self.query))
        self._page_size = len(page.rows)
        if page.following is not None:
            self._parameter = self._parameter or page.following.parameter
        return page

    def numbered(self, number: int, *unwanted: Event) -> Page:
        """Return a page after the first one by its number. Called from several threads."""
        return self.selected(str(number), *unwanted)

    def selected(self, value: str, *unwanted: Event) -> Page:
        """Return the page that a value of the page parameter selects."""
        return self.fetch(self.query | {self.parameter: value}, *unwanted)

    def page_count(self, websites: int) -> int:
        """Return the number of pages that contain this number of websites."""
        return math.ceil(websites / self._page_size)

    def in_order(self, numbers: range, is_older: Callable[[Page], bool]) -> Pages:
        """Yield the pages with these numbers. Fetch several pages at the same time, if that saves time.

        :param is_older: whether a page reflects an older list than the page before it. Such a page is fetched again.
        """
        left = deque(numbers)
        while left and (len(left) == 1 or self._is_fast_enough()):
            number = left.popleft()
            yield self._timed(partial(self.numbered, number))
        if left:
            yield from self._ahead(left, is_older)

    def _timed(self, fetch: Callable[[], Page]) -> Page:
        """Return a page, and add the time that it took."""
        start = time.perf_counter()
        page = fetch()
        self._seconds += time.perf_counter() - start
        self._pages_timed += 1
        return page

    def _is_fast_enough(self) -> bool:
        """Return whether other threads would not save time."""
        return self.parallel <= 1 or self._seconds < AT_ONCE * self._pages_timed

    def _ahead(self, left: deque[int], is_older: Callable[[Page], bool]) -> Pages:
        """Yield the pages with these numbers, and fetch the next ones in other threads meanwhile."""
        unwanted = Event()
        pool = ThreadPoolExecutor(max_workers=self.parallel, thread_name_prefix="analytics-list")
        pending: deque[tuple[int, Future[Page | None]]] = deque()
        try:
            while left or pending:
                # The pool queues as many again, so that no thread waits for the consumer.
                while left and len(pending) < 2 * self.parallel:
                    number = left.popleft()
                    pending.append((number, pool.submit(self._numbered_ahead, number, unwanted)))
                number, future = pending.popleft()
                page = future.result()
                if page is None:
                    self.parallel = 1  # the other pages might be as large
                if page is None or is_older(page):
                    page = self.numbered(number)
                yield page
        finally:
            unwanted.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _numbered_ahead(self, number: int, unwanted: Event) -> Page | None:
        """Return a page that is read at the same time as others; None if it is too large for that."""
        try:
            return self.numbered(number, unwanted)
        except BodyTooLargeError:
            return None


class ListRead:
    """One read of the list: the websites that were found, and the checks that prove that no website is missing.

    :param pages: requests for its pages.
    :param is_back: whether this is the second read of the method ``both directions``.
    """

    def __init__(self, pages: PageRequests, *, is_back: bool = False) -> None:
        self.pages = pages
        self.is_back = is_back
        #: Total of the head, and of the last page.
        self.total: int | None = None
        self.last_total: int | None = None
        #: Keys are the ids that count, in the order in which they were read.
        self.ids: dict[Key, None] = {}
        #: Why the pages ended, if neither with an empty one nor with the total.
        self.end = ""
        #: Number of pages read, including heads, the other end and the second direction.
        self.pages_read = 0
        #: First head, and the id of its newest website if a second head can close the read.
        self._head: Page | None = None
        self._newest: int | None = None
        self._is_one_page = False
        #: Whether pages are selected by numbers, and not by cursors.
        self._has_numbers = True
        #: Value of the ``favorite`` filter; None without one.
        self._wants_favorites: bool | None = None
        if "favorite" in pages.query:
            self._wants_favorites = flag("favorite", pages.query["favorite"])

    # Pages

    def rows(self) -> Iterator[list[Record]]:
        """Yield the rows of each page in order."""
        size = values = 0
        logged_at = time.monotonic()
        for number, page in enumerate(self._pages(), 1):
            self.pages_read += 1
            size += page.size
            values += page.values
            _check_limit(number, MAX_LIST_PAGES, "pages")
            _check_limit(len(self.ids) + len(page.rows), MAX_LIST_WEBSITES, "websites")
            _check_limit(size, MAX_LIST_BYTES, "bytes")
            _check_limit(values, MAX_LIST_VALUES, "values")
            yield self._take(page, number)
            if time.monotonic() - logged_at >= PROGRESS_SECONDS:
                logged_at = time.monotonic()
                self._log_progress()
            if self.end or not page.rows:
                break
        self._check_total()

    def _log_progress(self) -> None:
        progress = counted(len(self.ids), "website")
        if self.total is not None:
            progress = f"{len(self.ids):,} of {counted(self.total, 'website')}"
        if self.is_back:
            log.info("Reading in the other direction: %s.", progress)
        else:
            log.info("Reading: %s.", progress)

    def _pages(self) -> Pages:
        """Yield the pages. Fetch the head before them, if it is not the first page."""
        head = None
        if self._can_close and not _is_newest_first(self.pages.query):
            head = self._fetch(self.pages.query | NEWEST_FIRST)
        page = self.pages.first()
        self._start(head or page, page)
        following = page.following or Selection()
        self._has_numbers = following.value is None or laravel.number(following.value) == 2
        yield page
        if not self._has_numbers:
            yield from self._by_cursor(following)
        elif not self._is_one_page:
            if page.current_page is None and following.value is None:
                self._check_first_number()
            yield from self._by_number()

    @property
    def _can_close(self) -> bool:
        """Whether a second head can close the read."""
        return not self.is_back and self.pages.query.keys() <= DEFAULT_QUERY.keys() | STABLE_FILTERS

    def _start(self, head: Page, page: Page) -> None:
        """Take the facts from the head and the first page."""
        self.total = self.last_total = head.total
        for found in (head, page):
            _check_limit(_websites(found.total), MAX_LIST_WEBSITES, "websites")
        self._is_one_page = head.total == page.total == len(page.rows)
        if self._can_close:
            self._head = head
            self._newest = _newest(head)

    def _by_cursor(self, following: Selection | None) -> Pages:
        """Yield the pages after the first one, by cursors."""
        used: list[str] = []
        while following and following.value is not None and following.value not in used and not self.end:
            used.append(following.value)
            page = self.pages.selected(following.value)
            yield page
            following = page.following

    def _by_number(self) -> Pages:
        """Yield the pages after the first one, by numbers."""
        if self.end:
            return
        last = max(1, self.pages.page_count(_websites(self.total)))
        yield from self.pages.in_order(range(2, last + 1), lambda page: self._growth(page) < 0)
        for number in count(last + 1):
            if self.total is not None and len(self.ids) >= self.total:
                return
            yield self.pages.numbered(number)

    def _fetch(self, query: Query) -> Page:
        """Return a page that is read in addition to the pages of the list."""
        self.pages_read += 1
        return self.pages.fetch(query)

    # Checks of a page

    def _check_first_number(self) -> None:
        """Check that pages count from 1, if no response says so: the proof might not notice a skipped page."""
        if self.is_back:
            return
        self.pages_read += 1
        again, _ = self._split(self.pages.numbered(1))
        if not again.keys() <= self.ids.keys():
            raise _list_changed("page number", f"page 1 is not the first page: {self._hint}")

    def _take(self, page: Page, number: int) -> list[Record]:
        """Check a page. Return its websites, without those read before and those created during the read."""
        self._check_favorites(page.rows, self._wants_favorites)
        growth = self._growth(page)
        if growth < 0 or (growth > 0 and self._newest is None):
            raise _list_changed("total", f"the total was {self.last_total}, page {number} returned {page.total}.")
        self.last_total = page.total
        counted, _ = self._split(page)
        new = {key: row for key, row in counted.items() if key not in self.ids}
        if counted and not new and growth == 0:
            self.end = f"Page {number} contains only websites of earlier pages: {self._hint}"
            return []
        if self._has_numbers and not self._is_one_page:
            self._check_number(page, number)
        self.ids.update(dict.fromkeys(new))
        is_complete = page.total == self.total == len(self.ids)
        if counted and is_complete and self._has_numbers and page.following:
            raise IncompleteListError(
                "next link", f"page {number} completes the total of {self.total}, but links to a next page."
            )
        return list(new.values())

    def _check_number(self, page: Page, number: int) -> None:
        if page.current_page not in (None, number):
            seen = f"page {number} was requested, but the response is page {page.current_page}: {self._hint}"
            raise IncompleteListError("page number", seen)

    def _growth(self, page: Page) -> int:
        """Return by how much the total has grown since the last page."""
        return _websites(page.total) - _websites(self.last_total)

    def _split(self, page: Page) -> tuple[dict[Key, Record], list[Record]]:
        """Return the websites of a page that count, by id, and those created during a closed read."""
        counted = {}
        created = []
        for row in page.rows:
            key = _key(row)
            if self._newest is None or (isinstance(key, int) and key <= self._newest):
                counted[key] = row
            else:
                created.append(row)
        return counted, created

    @property
    def _hint(self) -> str:
        ignored = f"the service seems to ignore the parameter {self.pages.parameter!r}"
        return f"{ignored}; set the extra page_parameter to the right name."

    def _check_favorites(self, rows: list[Record], wanted: bool | None) -> None:
        """Raise an error if a row contradicts the filter, or does not say whether it is a favorite."""
        if wanted is None:
            return
        for row in rows:
            if "favorite" not in row:
                raise IncompleteListError(
                    "favorite", "the rows do not contain favorite, so the filter cannot be checked."
                )
            if normalize("favorite", row["favorite"]) is not wanted:
                raise IncompleteListError("favorite", f"website {row['id']} contradicts the filter: {_MISREAD}")

    # Proof

    def prove(self) -> tuple[str, list[Record]]:
        """Return the method of the proof, and the websites created during the read."""
        self._check_filter()
        if self._is_one_page:
            self._check_other_end()
            return "one page", []
        if self._newest is None:
            return "both directions", self._read_back()
        self._check_other_end()
        return "closed reading", self._close()

    def _check_total(self) -> None:
        """Check that as many websites were found as the total."""
        if self.total is None or len(self.ids) == self.total:
            return
        check = "total"
        if self.end:
            check = "page number"
        seen = f"the total is {self.total}, but the list has {counted(len(self.ids), 'website')}. {self.end}"
        raise _list_changed(check, seen.rstrip())

    def _check_filter(self) -> None:
        """If there are no favorites, or no others, check that the opposite filter finds the websites."""
        wanted = self._wants_favorites
        if wanted is None or self.ids:
            return
        query = self.pages.query
        others = self._fetch(query | {"favorite": _OPPOSITES[query["favorite"]]}).rows
        self._check_favorites(others, not wanted)
        if not others and self._fetch(_without_favorite(query)).rows:
            raise _list_changed("favorite", f"the filter and the opposite filter return no website: {_MISREAD}")

    def _check_other_end(self) -> None:
        """Compare the first websites in the opposite order with those read."""
        opposite = _in_opposite_order(self.pages.query)
        page = self._head
        if page is None or not _is_newest_first(opposite):
            page = self._fetch(opposite | {"per_page": "10"})
        end, _ = self._split(page)
        self._check_order(end)
        last = next(reversed(self.ids), None)
        if end.keys() - self.ids.keys() or (self.ids and last not in end):
            read = f"the last of {counted(len(self.ids), 'website')} is {last}, the other end is"
            why = "the service returns only a part of the list, or the list changed."
            raise _list_changed("other end", f"{read} {', '.join(map(str, end)) or 'empty'}: {why}")

    def _close(self) -> list[Record]:
        """Fetch the second head. Return the websites created since the first one, if nothing else changed."""
        second = self._fetch(self.pages.query | NEWEST_FIRST)
        others, created = self._split(second)
        before = None
        if self._head is not None:
            before = _first(self._head.rows)
        after = _first(others.values())
        total = _websites(self.total) + len(created)
        if second.total != total or before != after:
            new = counted(len(created), "new website")
            seen = f"The total was {self.total} and is {second.total}, and the list has {new}."
            if before != after:
                seen += f" The newest of the others was {before}, and is {after}."
            raise _list_changed("closing head", f"{seen} Websites were deleted, or a replica is behind.")
        self.total = total
        return created

    def _read_back(self) -> list[Record]:
        """Read the list in the opposite direction. Return the websites created since, if nothing else changed."""
        back = ListRead(self.pages.in_opposite_order(), is_back=True)
        others = []
        for rows in back.rows():
            others += [row for row in rows if _key(row) not in self.ids]
        self.pages_read += back.pages_read
        self._check_order(back.ids)
        created = self._newer(others)
        differing = len(self.ids.keys() - back.ids.keys()) + len(others) - len(created)
        if differing or self.total != back.total:
            seen = f"{counted(differing, 'website')} found in one direction only."
            if self.total != back.total:
                seen += f" Totals: {self.total}, {back.total}."
            raise _list_changed("both directions", f"{self.end or back.end} {seen}".lstrip())
        self.total = back.last_total
        return created

    def _newer(self, rows: list[Record]) -> list[Record]:
        """Return the websites whose ids are numbers, and higher than all ids of the read."""
        newest = max(_numbers(self.ids), default=0)
        newer = []
        for row in rows:
            key = _key(row)
            if isinstance(key, int) and key > newest:
                newer.append(row)
        return newer

    def _check_order(self, opposite: Iterable[Key]) -> None:
        """Raise an error if the opposite order starts with the same website."""
        first = next(iter(opposite), None)
        if len(self.ids) > 1 and first == next(iter(self.ids)):
            seen = f"both directions start with website {first}: the service ignores the sort order."
            raise _list_changed("sort order", seen)


def requests_of_a_list(websites: int) -> int:
    """Return the number of requests needed to read and prove a list of this size, newest first."""
    pages = math.ceil(websites / int(DEFAULT_QUERY["per_page"]))
    if pages <= 1:
        # The page, and the other end.
        return 2
    # The pages, the other end, and the second head.
    return pages + 2


def read_again(consume: Callable[[Listing], Returned], make_listing: Callable[[], Listing]) -> Returned:
    """Consume a listing. If the list changed, wait (:data:`WAITS_BETWEEN_READS`) and consume a new one.

    If the service does not understand the ``favorite`` filter, it is written in the other format.

    :raises IncompleteListError: if the last read fails, too.
    """
    all_seen = set()
    for seconds in (*WAITS_BETWEEN_READS, None):
        listing = make_listing()
        try:
            return consume(listing)
        except (IncompleteListError, AnalyticsApiError) as error:
            if _is_about_favorite(error) and listing.change_format():
                return read_again(consume, make_listing)
            if not isinstance(error, IncompleteListError):
                raise
            last = error.with_traceback(None)
        if not last.moved:
            raise last
        all_seen.add(last.seen)
        if seconds is not None:
            log.info("Reading the list again in %.1f s, because it might have changed: %s", seconds, last.seen)
            listing.stats.count("lists_read_again")
            listing.wait(seconds)
    how = "had the same result"
    if len(all_seen) > 1:  # a list that changes differs in another way each time
        how = "found that the list changed meanwhile"
    seen = f"{last.seen} All {len(WAITS_BETWEEN_READS) + 1} attempts {how}."
    raise IncompleteListError(last.check, seen, True)


def _is_about_favorite(error: IncompleteListError | AnalyticsApiError) -> bool:
    """Return whether the rows contradict the ``favorite`` filter, or the service rejects it."""
    if isinstance(error, IncompleteListError):
        return error.check == "favorite"
    return error.is_invalid and "favorite" in f"{error.message} {' '.join(error.errors)}"


def _check_limit(number: int, limit: int, unit: str) -> None:
    """Raise an error if a list exceeds a limit."""
    if number > limit:
        seen = (
            f"the list has more than {limit:,} {unit}, the limit of this package. The service might repeat it forever."
        )
        raise IncompleteListError("size", seen)


def _websites(total: int | None) -> int:
    """Return the number of websites of a total; 0 without a total."""
    return total or 0


def _list_changed(check: str, seen: str) -> IncompleteListError:
    return IncompleteListError(check, seen, moved=True)


def _key(row: Record) -> Key:
    """Return the id of a website as it is compared: a number, also if it is written as text, or any other text."""
    website_id: Key = row["id"]
    if isinstance(website_id, str) and _NUMBER.fullmatch(website_id):
        return int(website_id)
    return website_id


def _newest(head: Page) -> int | None:
    """Return the id of the newest website, if there is a total and the ids are numbers that descend."""
    if head.total is None or not ids_descend(head.rows):
        return None
    return next(iter(_numbers(map(_key, head.rows))), None)


def ids_descend(rows: Iterable[Record]) -> bool:
    """Return whether the ids of these websites are numbers, the highest first."""
    ids = list(map(_key, rows))
    return ids == sorted(_numbers(ids), reverse=True)


def _numbers(ids: Iterable[Key]) -> list[int]:
    """Return the ids that are numbers."""
    return [key for key in ids if isinstance(key, int)]


def _first(rows: Iterable[Record]) -> tuple[Any, Any]:
    """Return id and domain of the first website: an engine can give the highest id again after a delete."""
    row = next(iter(rows), {})
    return row.get("id"), row.get("domain")


def _in_opposite_order(query: Query) -> Query:
    if query["sort"] == "desc":
        return query | {"sort": "asc"}
    return query | {"sort": "desc"}


def _is_newest_first(query: Query) -> bool:
    return query | NEWEST_FIRST == query


def _without_favorite(query: Query) -> Query:
    """Return the query for all websites, favorites and others."""
    return {name: value for name, value in query.items() if name != "favorite"}
