# SPDX-License-Identifier: Apache-2.0
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
    Everything else: no total, opaque ids, a filter that is not in :data:`STABLE_FILTERS`. The list is read until a page
    contains nothing new, and then in the opposite direction. Both readings must find the same ids; the second one may
    also find websites with higher ids, which were created since. A row is missed only if a row before it is removed
    after it was read. Then the removed row is missing in the second reading. The two readings must begin with different
    websites: otherwise the service ignores the sort order. This method also needs the conditions 1 to 3 below.

Ids are *opaque* if they are not numbers that descend: UUIDs, ULIDs, numbers of 19 digits as text. A new website may be
anywhere in such a list. So the second reading may find any further websites. Those were created since: a website that
the first reading missed would have moved to an earlier page, because a website was removed that the second reading does
not find either. While the list is read, its total may grow, but not shrink. Each reading must have at least as many
websites as its first total, and at most as many as its last one.

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
that is neither a filter nor the page size) and its value, a number, an offset or a cursor. It may also be in the header
``Link``, and a cursor may stand alone. The client never follows the link: it sends requests to the base URL only. So a
link of another scheme or host counts, as behind a proxy. Without such a link, the parameter is
:data:`dialect.PAGE_PARAMETER`, or the extra ``page_parameter``, and pages count from 1. If no response contains the
number of its page, the client fetches page 1 to check this. A link to a next page by number on the last page
contradicts the total. A cursor there is followed, because some services always return one: the page that it selects
must contain no other websites.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from threading import Event
from typing import Any, TypeVar

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.checks import flag
from airflow_provider_analytics.api.dialect import Page, Record, Selection
from airflow_provider_analytics.api.fields import normalise
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.api.transport import BodyTooLargeError
from airflow_provider_analytics.exceptions import AnalyticsApiError, IncompleteListError

#: Seconds before a list that changed during its reading is read again. Readings without a wait would all
#: get a total from the cache of the service.
WAITS_BETWEEN_READINGS: tuple[float, ...] = (0.5, 1.0, 2.0)
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
    """The list: each iteration reads it once, and raises an error if it cannot prove that no website is missing.

    Use the records only after the iteration has ended. Memory grows by about 100 bytes for each website, and by the
    pages that are read ahead. Once the consumer stops or a page fails, the listing sends no further requests.

    :param fetch: returns the page for a query. For a page that is read ahead, it is called from another thread, and
        also gets an event that is set when the page is no longer needed.
    :param query: filters and order; :data:`DEFAULT_QUERY` completes it.
    :param page_parameter: name of the query parameter that selects a page; None: taken from links of the service.
    :param parallel: maximum number of pages read at the same time, if the service is slow (:data:`AT_ONCE`).
    :param wait: waits for a number of seconds before the list is read again.
    :param stats: counts the websites, and the readings that are repeated.
    :raises IncompleteListError: while iterating, as soon as the proof fails.
    """

    #: The proof; None before the iteration has ended.
    proof: Proof | None = None
    #: Total that the first page contained; None before it was read, or if it contained none.
    total: int | None = None
    #: Query parameter that selected the pages after the first one; None as long as none was selected.
    selected_by: str | None = None

    def __init__(
        self,
        fetch: Callable[..., Page],
        query: Query,
        page_parameter: str | None = None,
        *,
        parallel: int = 1,
        wait: Callable[[float], None] = time.sleep,
        stats: Stats | None = None,
    ) -> None:
        self.wait = wait
        self.stats = stats or Stats()
        self._fetch_page = fetch
        self._query = DEFAULT_QUERY | query
        self._parameter = page_parameter
        self._parallel = parallel
        #: Whether this is the second reading of both directions.
        self._is_back = False
        #: Whether the ids do not show which websites are new.
        self._is_opaque = False
        #: Value of the ``favorite`` filter; None without one.
        self._wants_favorites = flag("favorite", query["favorite"]) if "favorite" in query else None

    # The listing has no reference to this generator: a reading that is dropped, as by ``break``, ends immediately.
    def __iter__(self) -> Iterator[Record]:
        """Yield the records, then prove that none is missing."""
        self.proof = None
        websites = 0
        for rows in self._rows():
            kept = dialect.not_deleted(rows)
            websites += len(kept)
            yield from kept
        method, created = self._prove()
        kept = dialect.not_deleted(created)
        yield from kept
        self.proof = Proof(method, websites + len(kept), self.total, self._fetched)
        self.stats.count("websites", self.proof.websites)

    def _rows(self) -> Iterator[list[Record]]:
        """Yield the rows of each page in order."""
        #: Keys are the ids that count, in the order in which they were read.
        self._ids: dict[Key, None] = {}
        #: Why the pages ended, if neither with an empty one nor with the total.
        self._end = ""
        #: Number of pages read, including heads, the other end and the second direction.
        self._fetched = 0
        self._shows_favorites = True
        pages = size = values = 0
        logged_at = time.monotonic()
        for number, page in enumerate(self._pages(), 1):
            self._fetched += 1
            pages, size, values = pages + 1, size + page.size, values + page.values
            _check_budget(pages, len(self._ids) + len(page.rows), size, values)
            yield self._take(page, number)
            if time.monotonic() - logged_at >= PROGRESS_SECONDS:
                logged_at = time.monotonic()
                verb = "Reading in the other direction" if self._is_back else "Reading"
                of = f" of {self.total:,}" if self.total is not None else ""
                log.info("%s: %s%s websites", verb, f"{len(self._ids):,}", of)
            if self._end or not page.rows:
                break
        self._check_total()

    def _check_total(self) -> None:
        most = self._last_total if self._is_opaque else self.total
        if self.total is not None and most is not None and not self.total <= len(self._ids) <= most:
            check = "page number" if self._end else "total"
            seen = f"the total is {self.total}, but {len(self._ids)} websites were found. {self._end}"
            raise _list_changed(check, seen.rstrip())

    # Pages

    def _pages(self) -> Pages:
        """Yield the pages. Fetch the head before them, if it is not the first one."""
        may_close = not self._is_back and self._query.keys() <= DEFAULT_QUERY.keys() | STABLE_FILTERS
        newest_first = self._query | NEWEST_FIRST
        head = self._fetch(newest_first) if may_close and self._query != newest_first else None
        began = time.perf_counter()
        # Omit the page parameter, because its name is an assumption.
        page = self._fetch_page(self._query)
        #: Seconds that the pages took, as long as one follows the other.
        self._seconds = time.perf_counter() - began
        head = head or page
        self.total = self._last_total = head.total
        _check_budget(0, max(head.total or 0, page.total or 0), 0, 0)
        self._is_one_page = head.total == page.total == len(page.rows)
        #: First head, and the id of its newest website if a second head can close the reading.
        self._head = head if may_close else None
        self._newest = _newest(head) if may_close else None
        if may_close:
            self._is_opaque = bool(head.rows) and not ids_descend(head.rows)
        following = page.following or Selection()
        self._parameter = self._parameter or following.parameter
        self._has_numbers = following.value is None or dialect.number(following.value) == 2
        yield page
        if not self._has_numbers:
            yield from self._by_cursor(following)
        elif not self._is_one_page:
            self._page_size = len(page.rows)
            if page.current_page is None and following.value is None:
                self._check_numbers()
            yield from self._by_number(len(page.rows))

    def _by_cursor(self, following: Selection | None) -> Pages:
        """Yield the pages after the first one, by cursors or offsets.

        Some services return a cursor on the last page, too. The page that it selects must contain no other websites.
        """
        used: list[str] = []
        while following and following.value is not None and following.value not in used and not self._end:
            used.append(following.value)
            page = self._selected(following.value, len(used) + 1)
            yield page
            following = page.following

    def _by_number(self, page_size: int) -> Pages:
        """Yield the pages after the first one, by numbers."""
        if self._end:
            return
        end = max(2, 1 - (self.total or 0) // -page_size)
        yield from self._in_order(range(2, end))
        for number in count(end):
            # If the ids are opaque, new websites count, and may have moved others to a further page.
            total = self._last_total if self._is_opaque else self.total
            if total is not None and len(self._ids) >= total:
                return
            yield self._page(number)

    def _in_order(self, numbers: range) -> Pages:
        """Yield the pages with these numbers. Fetch several pages at the same time, if that saves time.

        A page that reflects an older list than the page before it is fetched again.
        """
        left = deque(numbers)
        while left and (len(left) == 1 or self._parallel <= 1 or self._seconds < AT_ONCE * self._fetched):
            began = time.perf_counter()
            page = self._page(left.popleft())
            self._seconds += time.perf_counter() - began
            yield page
        if not left:
            return
        unwanted = Event()
        pool = ThreadPoolExecutor(max_workers=self._parallel, thread_name_prefix="analytics-list")
        pages: deque[tuple[int, Future[Page | None]]] = deque()
        try:
            while left or pages:
                # The pool queues as many again, so that no thread waits for the consumer.
                while left and len(pages) < 2 * self._parallel:
                    number = left.popleft()
                    pages.append((number, pool.submit(self._page_ahead, number, unwanted)))
                number, future = pages.popleft()
                page_ahead = future.result()
                if page_ahead is None:
                    self._parallel = 1  # the other pages may be as large
                if page_ahead is None or self._growth(page_ahead) < 0:
                    page_ahead = self._page(number)
                yield page_ahead
        finally:
            unwanted.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _page(self, number: int, *unwanted: Event) -> Page:
        """Return a page after the first one by its number. Called from several threads."""
        is_offset = self._page_parameter in dialect.OFFSET_PARAMETERS
        return self._selected(str((number - 1) * self._page_size if is_offset else number), number, *unwanted)

    def _selected(self, value: str, number: int, *unwanted: Event) -> Page:
        """Return the page that a value of the page parameter selects; an empty page if the service refuses it."""
        self.selected_by = self._page_parameter
        try:
            return self._fetch_page(self._query | {self._page_parameter: value}, *unwanted)
        except AnalyticsApiError as error:
            if error.status not in dialect.NO_SUCH_PAGE:
                raise
            self._end = f"Page {number} was refused: {error.text}"
            return Page([], self._last_total)

    def _page_ahead(self, number: int, unwanted: Event) -> Page | None:
        """Return a page that is read beside others; None if it is too large for that."""
        try:
            return self._page(number, unwanted)
        except BodyTooLargeError:
            return None

    @property
    def _page_parameter(self) -> str:
        return self._parameter or dialect.PAGE_PARAMETER

    def _fetch(self, query: Query) -> Page:
        """Return a page that is read in addition to those of the list."""
        self._fetched += 1
        return self._fetch_page(query)

    # Checks of a page

    def _check_numbers(self) -> None:
        """Check that pages count from 1: the proof may not notice that a page was skipped."""
        if self._is_back:
            return
        self._fetched += 1
        again, _ = self._split(self._page(1))
        known = len(again.keys() & self._ids.keys())
        # New websites with opaque ids may be on page 1. If pages count from 0, nearly all websites on it are unknown.
        least = len(again) / 2 if self._is_opaque else len(again)
        if known < least:
            raise _list_changed("page number", f"page 1 is not the first page: {self._hint}")

    def _take(self, page: Page, number: int) -> list[Record]:
        """Check a page. Return its websites, without those read before and those created during the reading."""
        self._check_favorites(page.rows, self._wants_favorites)
        growth = self._growth(page)
        if growth and (growth < 0 or (self._newest is None and not self._is_opaque)):
            raise _list_changed("total", f"the total was {self._last_total}, page {number} returned {page.total}.")
        self._last_total = page.total
        rows, _ = self._split(page)
        known = rows.keys() & self._ids.keys()
        if rows and len(known) == len(rows) and not growth:
            self._end = f"Page {number} contains only websites of earlier pages: {self._hint}"
            return []
        if self._has_numbers and not self._is_one_page and page.current_page not in (None, number):
            seen = f"page {number} was requested, the response is page {page.current_page}: {self._hint}"
            raise IncompleteListError("page number", seen)
        self._ids |= dict.fromkeys(rows)
        if self._has_numbers and page.following and rows and page.total == self.total == len(self._ids):
            raise IncompleteListError(
                "next link", f"page {number} completes the total of {self.total}, but links to a next page."
            )
        return [row for key, row in rows.items() if key not in known]

    def _growth(self, page: Page) -> int:
        """Return by how much the total has grown since the last page."""
        return (page.total or 0) - (self._last_total or 0)

    def _split(self, page: Page) -> tuple[dict[Key, Record], list[Record]]:
        """Return the websites of a page that count, by id, and those created during a closed reading."""
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
        which = f"the service seems to ignore the parameter {self._page_parameter!r}"
        return f"{which}; set the extra page_parameter to the right name."

    def _check_favorites(self, rows: list[Record], wanted: bool | None) -> None:
        """Raise an error if a row contradicts the filter."""
        for row in rows if wanted is not None else ():
            found = normalise("favorite", row.get("favorite", ""))
            if not isinstance(found, bool):
                self._shows_favorites = False
            elif found != wanted:
                raise IncompleteListError("favorite", f"website {row['id']} contradicts the filter: {_MISREAD}")

    # Proof

    def _prove(self) -> tuple[str, list[Record]]:
        """Return the method of the proof, and the websites created during the reading."""
        self._check_filter()
        if self._is_one_page:
            self._check_other_end()
            return "one page", []
        if self._newest is None:
            return "both directions", self._read_back()
        self._check_other_end()
        return "closed reading", self._close()

    def _check_filter(self) -> None:
        """If no row shows whether it is a favorite, compare the rows with those of the opposite filter."""
        wanted = self._wants_favorites
        if wanted is None or (self._ids and self._shows_favorites):
            return
        texts = next(texts for texts in dialect.BOOLEAN_FORMATS.values() if self._query["favorite"] in texts)
        others = self._fetch(self._query | {"favorite": texts[not wanted]}).rows
        self._check_favorites(others, not wanted)
        both = self._ids.keys() & map(_key, others)
        everything = {name: value for name, value in self._query.items() if name != "favorite"}
        if both or (not self._ids and not others and self._fetch(everything).rows):
            seen = f"the filter returns {len(self._ids)} websites, the opposite filter returns {len(both)} of them"
            raise _list_changed("favorite", f"{seen}: the list changed, or {_MISREAD}")

    def _check_other_end(self) -> None:
        """Compare the first websites in the opposite order with those read."""
        opposite = _in_opposite_order(self._query)
        page = self._head
        if page is None or opposite != opposite | NEWEST_FIRST:
            page = self._fetch(opposite | {"per_page": "10"})
        end, _ = self._split(page)
        self._check_order(end)
        last = next(reversed(self._ids), None)
        others = len(end.keys() - self._ids.keys())
        created = max(0, (page.total or 0) - (self._last_total or 0)) if self._is_opaque else 0
        if others > created or (self._ids and last not in end):
            read = f"{len(self._ids):,} websites were read, the last is {last}, the other end is"
            why = "the service returns only a part of the list, or the list changed."
            raise _list_changed("other end", f"{read} {', '.join(map(str, end))}: {why}")

    def _close(self) -> list[Record]:
        """Fetch the second head. Return the websites created since the first one, if nothing else changed."""
        second = self._fetch(self._query | NEWEST_FIRST)
        others, created = self._split(second)
        before, after = _first(self._head.rows if self._head else ()), _first(others.values())
        total = (self.total or 0) + len(created)
        if second.total != total or before != after:
            grown = f"The total was {self.total}, is {second.total}, and {len(created)} new websites are listed."
            newest = f" The newest of the others was {before}, and is {after}." if before != after else ""
            raise _list_changed("closing head", f"{grown}{newest} Websites were deleted, or a replica is behind.")
        self.total = total
        return created

    def _read_back(self) -> list[Record]:
        """Read the list in the opposite direction. Return the websites created since, if nothing else changed."""
        query = _in_opposite_order(self._query)
        back = Listing(self._fetch_page, query, self._parameter, parallel=self._parallel)
        back._is_back = True
        back._is_opaque = self._is_opaque
        others = [row for rows in back._rows() for row in rows if _key(row) not in self._ids]
        self._fetched += back._fetched
        self._check_order(back._ids)
        newest = max((key for key in self._ids if isinstance(key, int)), default=0)
        created = others
        if not self._is_opaque:
            created = [row for row in others if isinstance(key := _key(row), int) and key > newest]
        differing = len(self._ids.keys() - back._ids.keys()) + len(others) - len(created)
        has_grown = self._is_opaque and (back.total or 0) >= (self._last_total or 0)
        if differing or (self.total != back.total and not has_grown):
            seen = f"{differing} websites were found in one direction only. Totals: {self.total}, {back.total}."
            raise _list_changed("both directions", f"{self._end or back._end} {seen}".lstrip())
        self.total = back._last_total
        return created

    def _check_order(self, opposite: Iterable[Key]) -> None:
        """Raise an error if the opposite order begins with the same website."""
        first = next(iter(opposite), None)
        if len(self._ids) > 1 and first == next(iter(self._ids)):
            seen = f"both directions begin with website {first}: the service ignores the sort order."
            raise _list_changed("sort order", seen)


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
        listing = make_listing()
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


def _check_budget(pages: int, websites: int, size: int, values: int) -> None:
    """Raise an error if a list exceeds a limit."""
    for number, limit, what in (
        (pages, MAX_LIST_PAGES, "pages"),
        (websites, MAX_LIST_WEBSITES, "websites"),
        (size, MAX_LIST_BYTES, "bytes"),
        (values, MAX_LIST_VALUES, "values"),
    ):
        if number > limit:
            seen = f"the list has more than {limit:,} {what}, the limit of this package: the service may never end it."
            raise IncompleteListError("size", seen)


def _list_changed(check: str, seen: str) -> IncompleteListError:
    return IncompleteListError(check, seen, moved=True)


def _key(row: Record) -> Key:
    """Return the id of a website as it is compared: a number, also if it is written as text, or any other text."""
    website_id: Key = row["id"]
    is_number = isinstance(website_id, str) and _NUMBER.fullmatch(website_id)
    return int(website_id) if is_number else website_id


def _newest(head: Page) -> int | None:
    """Return the id of the newest website, if there is a total and the ids are numbers that descend."""
    newest = _key(head.rows[0]) if head.rows else None
    if head.total is None or not isinstance(newest, int) or not ids_descend(head.rows):
        return None
    return newest


def ids_descend(rows: Iterable[Record]) -> bool:
    """Return whether the ids of these websites are numbers, the highest first."""
    ids = [_key(row) for row in rows]
    numbers = [key for key in ids if isinstance(key, int)]
    return ids == sorted(numbers, reverse=True)


def _first(rows: Iterable[Record]) -> tuple[Any, Any]:
    """Return id and domain of the first website: an engine may give the highest id again after a delete."""
    row = next(iter(rows), {})
    return row.get("id"), row.get("domain")


def _in_opposite_order(query: Query) -> Query:
    return query | {"sort": "asc" if query["sort"] == "desc" else "desc"}
