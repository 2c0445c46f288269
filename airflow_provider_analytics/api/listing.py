"""The complete list of websites: paging, and the proof that nothing is missing.

docs/interface.md documents neither how a page is selected nor what a page states about the whole list, and the list
may change while it is read. So a list counts as complete only if the reading proves it:

``one page``
    One response held as many websites as the service says there are, and was not full. It shows the list at one moment.
``closed reading``
    A *head* is read: the first websites, newest first, with their total. Then all pages, in any order and at the same
    time, and then the head again. Accepted if both heads name the same total and the same newest website (id and
    domain), every page named that total, the ids are distinct, and their number is the total. Ids rise with creation
    (docs/interface.md, Rules), so a website created meanwhile and still there would be the newest in the second head:
    there is none. The total is the same, so none of the old ones is gone. So while a page was read, the list was the
    old one and k websites that came and went, and the page named a total of k more; it did not: k is 0. Every page
    was cut from one and the same list. A total that is late, from a cache, is refused or does no harm, as long as it is
    right when the first head is read: then no more than these websites can fill it. Without a filter and with
    ``search`` nothing else moves a website in or out, since a domain cannot change. The head must show falling numbers
    as ids, of which the first is the largest of all: else the service does not sort, and this proves nothing.
``both directions``
    Everything else (no total, ids that are no numbers, a ``favorite`` filter on several pages): read until a page
    brings nothing new, then once more in the opposite direction; both readings must find the same ids. A row is lost
    only behind one that was removed after it had been read, which the second reading then lacks. A service that
    ignores the page parameter shows another end of the list, unless one page holds all of it; one that ignores the
    sort order as well shows the same first row, and is rejected.

A full last page is always followed by one more request, whose page must be empty or refused: a total that is capped, or
counts the page and not the list, is not believed. The oldest websites are asked for then, too, and must be among those
read: a service may cap the rows as well. So they are where a list of several pages has a round number of websites. A
link to a next page on the last page contradicts the total.

A website that stops being a favourite and becomes one again moves the rows of a ``favorite`` filter without a trace.
So where the favourites fill more than one page, all websites are read and the favourites are picked out of them, if
the records show the flag. On one page the rows are checked against the filter: where they contradict it, the service
ignores or misreads it, and all websites are read as well.

Pages are selected as the service says: a link to the next page names the query parameter (the one that was not sent)
and its value, a number or a cursor. The link itself is never followed: a request goes to the base URL only. Where
there is no such link, the parameter is :data:`dialect.PAGE_PARAMETER`, or the extra ``page_parameter``.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
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
    IncompleteListError,
    NotFoundError,
    UnexpectedResponseError,
)

#: Maximum number of readings of a list that changes while it is read.
MAX_READINGS = 4
#: Maximum number of pages of one reading, for a service that never ends the list.
MAX_PAGES = 200_000
#: Seconds between two progress lines.
PROGRESS_SECONDS = 10.0
#: Seconds that a page takes on average below which the next one is read by the same thread: where nothing is waited
#: for, other threads do no more in the same time, and handing over costs up to half of the CPU of a page.
AT_ONCE = 0.005

#: Defaults of docs/interface.md, List parameters: the largest page, and newest first.
DEFAULT_QUERY = {"per_page": "100", "sort_by": "id", "sort": "desc"}
#: Query of a head: its order, and the smallest page.
_HEAD = {"per_page": "10", "sort_by": "id", "sort": "desc"}

Query = dict[str, str]
Records = Generator[dict[str, Any], None, None]
Rows = Generator[list[dict[str, Any]], None, None]
Result = TypeVar("Result")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Proof:
    """Why a list counts as complete.

    :param method: ``one page``, ``closed reading`` or ``both directions``, as described in the module docstring.
    :param websites: number of websites.
    :param total: total that the service named; None if it named none, or if the websites were picked out of all.
    :param pages: number of pages read, heads and the second direction included.
    """

    method: str
    websites: int
    total: int | None
    pages: int

    def as_dict(self) -> dict[str, Any]:
        """Return the proof as plain JSON values."""
        return asdict(self)


class Listing(Iterator[dict[str, Any]]):
    """One reading of the list: yields the website records, and raises if it cannot prove that they are all.

    Use the records only after the iterator is exhausted. Memory grows by the ids alone, by a few bytes for each, and by
    the pages that are read ahead. No request is begun any more once the consumer stops or a page fails; those under way
    are waited for, so that no thread outlives the call, unless what ends it is no error but a task that is killed or
    times out.

    :param fetch: returns the page for a query; called from several threads.
    :param query: filters and order; :data:`DEFAULT_QUERY` completes it.
    :param page_parameter: name of the query parameter that selects a page; None: as the service says.
    :param parallel: maximum number of pages read at the same time, where the service takes its time (:data:`AT_ONCE`).
    :param unwanted: is set when nobody waits for pages any more.
    :param stats: counts the websites, and the readings that begin anew.
    :param redact: removes secrets from what an error says that was seen.
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
        stats: Stats | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.stats = stats or Stats()
        self._redact = redact
        self._reader = _Reader(fetch, query, page_parameter, parallel, unwanted or Event(), self.stats)
        self._records = self._reader.read()
        self._process = _process

    def __next__(self) -> dict[str, Any]:
        """Return the next record.

        :raises RuntimeError: in a process that was forked meanwhile: pages that were asked for belong to the other one.
        """
        if self._process is not _process:
            raise RuntimeError(
                "This list of websites was begun in another process, which reads it on. Begin a new one here."
            )
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
        """Number of websites that the first page named; None before it was read, and if it named none."""
        return self._reader.total

    def close(self, *, wait: bool = True) -> None:
        """Stop reading: no request is begun any more.

        :param wait: whether to wait for the requests that are under way.
        """
        self._reader.is_interrupted = not wait
        if self._process is _process:
            self._records.close()


class _Reader:
    """What a listing does.

    It knows nothing of the listing: one that is dropped, as by ``break``, ends at once, and not when Python looks for
    garbage.
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
        self._progress = _Progress()

    @property
    def is_at_once(self) -> bool:
        """Whether the pages so far came so fast that nothing is gained by asking for several at the same time."""
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
        """Yield the records, and prove at the end that they are all."""
        if "favorite" in self._query:
            yield from self._read_favorites()
        else:
            reading = _Reading(self, self._query)
            yield from self._rows(reading)
            self.proof = self._prove(reading)
        if self.proof is not None:
            self._stats.count("websites", self.proof.websites)

    def _rows(self, reading: _Reading) -> Records:
        pages = reading.pages()
        try:
            for rows in pages:
                yield from rows
                self._progress.step(len(reading.ids), reading.total)
        finally:
            pages.close()

    def _prove(self, reading: _Reading) -> Proof:
        """Return the proof of a reading; read the head again, or the other direction, where the proof needs it."""
        # A window of a search engine, which caps total and rows, is a round number.
        is_round = not reading.is_one_page and len(reading.ids) % 10 == 0
        if (reading.ends_full or is_round) and (reading.is_one_page or reading.can_be_closed):
            reading.check_oldest()
        if reading.is_one_page:
            return Proof("one page", len(reading.ids), reading.total, self._fetched)
        if reading.can_be_closed:
            reading.close()
            return Proof("closed reading", len(reading.ids), reading.total, self._fetched)
        back = _Reading(self, reading.query | {"sort": _opposite(reading.query["sort"])}, like=reading)
        for _ in back.pages():
            self._progress.step(len(back.ids), back.total, "Reading in the other direction")
        _compare(reading, back)
        return Proof("both directions", len(reading.ids), reading.total, self._fetched)

    # Favourites

    def _read_favorites(self) -> Records:
        wanted = flag("favorite", self._query["favorite"])
        filtered = _Reading(self, self._query)
        pages = filtered.pages()
        try:
            first, second = next(pages, []), next(pages, None)
            flags = [_is_favorite(row) for row in first]
            shown = bool(flags) and None not in flags
            is_one_page = second is None
            if is_one_page and not flags:
                is_believed = self._nothing_is_left_out(wanted)
            elif is_one_page and shown:
                is_believed = all(found == wanted for found in flags)
            elif shown:
                is_believed = False
            else:
                self._check_that_the_filter_works(filtered)
                is_believed = True
            if is_believed:
                for rows in (first, second or [], *pages):
                    yield from rows
        finally:
            pages.close()
        if is_believed:
            self.proof = self._prove(filtered)
            return
        if is_one_page:
            log.info("Reading all websites, as the service does not filter by favorite: its records contradict it.")
        yield from self._pick(wanted)

    def _pick(self, wanted: bool) -> Records:
        """Read all websites and yield the favourites, or the others."""
        query = {name: value for name, value in self._query.items() if name != "favorite"}
        reading = _Reading(self, query)
        picked = 0
        for row in self._rows(reading):
            found = _is_favorite(row)
            if found is None:
                raise IncompleteListError(
                    "favorite", f"website {row['id']} does not show whether it is a favourite, and the filter cannot "
                    "be relied on. The extra boolean_format sets how favorite is written.",
                )  # fmt: skip
            if found == wanted:
                picked += 1
                yield row
        proof = self._prove(reading)
        self.proof = Proof(proof.method, picked, None, proof.pages)

    def _nothing_is_left_out(self, wanted: bool) -> bool:
        """Return whether an empty answer to a ``favorite`` filter agrees with what else the service shows."""
        others = self.fetch(self._query | _HEAD | {"favorite": self._opposite_favorite()})
        if others.rows:
            return all(_is_favorite(row) in (None, not wanted) for row in others.rows)
        query = {name: value for name, value in self._query.items() if name != "favorite"}
        return not self.fetch(query | _HEAD).rows

    def _check_that_the_filter_works(self, filtered: _Reading) -> None:
        others = self.fetch(self._query | {"favorite": self._opposite_favorite()})
        both = next((row["id"] for row in others.rows if row["id"] in filtered.ids), None)
        if both is not None:
            raise _moved(
                "favorite",
                f"website {both} is among the favourites and among the others: the list changed, or the service "
                "ignores or misreads the filter. The extra boolean_format sets how favorite is written.",
            )

    def _opposite_favorite(self) -> str:
        texts = next(texts for texts in dialect.BOOLEAN_FORMATS.values() if self._query["favorite"] in texts)
        return texts[1 - texts.index(self._query["favorite"])]


# Stands for this process: asking the system for its number before each record takes as long as the record itself.
_process = object()


def _after_fork() -> None:
    global _process
    _process = object()


os.register_at_fork(after_in_child=_after_fork)


class _Reading:
    """One walk through the pages of a query, with what the proof needs.

    :param like: a reading of the same list in another order: pages are selected as there.
    """

    def __init__(self, reader: _Reader, query: Query, like: _Reading | None = None) -> None:
        self.ids = _Ids()
        self.total: int | None = None
        #: The last page repeated the page before: the page parameter has no effect, or there is no later page.
        self.repeated = False
        self.first_id: str | None = None
        self._reader = reader
        self._fetch = reader.fetch
        #: The error of a page behind the last one, which a service may refuse.
        self.refusal: AnalyticsApiError | UnexpectedResponseError | None = None
        #: Whether the last page held as many websites as it could.
        self.ends_full = False
        self.query = query
        self._newest: list[dict[str, Any]] = []
        self._head_total: int | None = None
        self._pages_with_rows = 0
        self._full = 0
        self._parameter: str | None = like._parameter if like else reader.page_parameter
        self._base: int | None = like._base if like else None
        self._is_second = like is not None

    @property
    def is_one_page(self) -> bool:
        """Whether one response held all, and says so."""
        return self._pages_with_rows <= 1 and self.total is not None and not self.repeated

    @property
    def can_be_closed(self) -> bool:
        """Whether the head shows that newest first is honoured, and every page named a total."""
        if self.total is None or self.repeated or "favorite" in self.query or not self._newest:
            return False
        numbers = [_number(row["id"]) for row in self._newest]
        falling = [number for number in numbers if number is not None]
        is_falling = len(falling) == len(numbers) and falling == sorted(falling, reverse=True)
        return is_falling and falling[0] == self.ids.largest

    def pages(self) -> Rows:
        """Yield the rows of each page in order."""
        if not self._is_second and not _is_newest_first(self.query) and "favorite" not in self.query:
            self._take_head(self._fetch(self.query | _HEAD))
        # Without the page parameter, whose name is an assumption.
        page = self._fetch(self.query)
        if _is_newest_first(self.query):
            self._take_head(page)
        self.total = page.total
        if self._head_total is not None and page.total != self._head_total:
            raise _moved("total", f"the head named the total {self._head_total}, page 1 names {page.total}.")
        rows = self._take(page, 1)
        if rows:
            yield rows
        self._full = _size_of_a_full_page(page, self.query)
        selected = self._selection(page)
        if isinstance(selected, str):
            yield from self._by_cursor(page, selected)
        elif rows and not self._may_be_all(page, rows):
            yield from self._by_number(page, rows)
        self._check_total()

    def close(self) -> None:
        """Read the head again, and raise if it is another one."""
        head = self._fetch(self.query | _HEAD)
        if head.total != self.total:
            raise _moved("closing head", f"the total was {self.total} at first, and is {head.total} at the end.")
        before, after = self._newest[0], head.rows[0] if head.rows else {}
        if _identity(before) != _identity(after):
            raise _moved("closing head", f"the newest website was {before.get('id')}, and is {after.get('id')} now.")

    # Pages by number

    def _by_number(self, first: Page, rows: list[dict[str, Any]]) -> Rows:
        parameter = self._parameter or dialect.PAGE_PARAMETER
        base, known = self._numbering(first, rows, parameter)
        if known is not None:
            taken = self._take(known, 2)
            if not taken:
                return
            yield taken
        begin = 2 if known is None else 3
        expected = -(-self.total // len(rows)) if self.total else 0
        last: list[dict[str, Any]] = rows
        pages = self._in_parallel(parameter, base, range(begin, expected + 1))
        try:
            for number, page in pages:
                last = self._take(page, number)
                if not last:
                    return
                yield last
        finally:
            pages.close()
        for number in count(max(begin, expected + 1)):
            if self.total is not None and len(self.ids) >= self.total and len(last) < self._full:
                return
            if number > MAX_PAGES:
                raise IncompleteListError("pages", f"there was no end after {MAX_PAGES:,} pages.")
            self.ends_full = len(last) >= self._full
            page = self._page_behind(self.query | {parameter: str(base + number - 1)})
            last = self._take(page, number)
            if not last:
                return
            yield last

    def _page_behind(self, query: Query) -> Page:
        """Return a page that may be behind the last one: some services refuse it."""
        try:
            return self._fetch(query)
        except (AnalyticsApiError, UnexpectedResponseError) as error:
            if isinstance(error, AnalyticsApiError) and error.status not in dialect.NO_SUCH_PAGE:
                raise
            self.refusal = error
            return Page([], self.total)

    def check_oldest(self) -> None:
        """Raise if the oldest websites are not among those read."""
        page = self._fetch(self.query | _HEAD | {"sort": "asc"})
        oldest = [str(row["id"]) for row in page.rows]
        missing = [website_id for website_id in oldest if website_id not in self.ids]
        if missing:
            raise IncompleteListError(
                "oldest websites",
                f"the pages end after {len(self.ids):,} websites, and website {missing[0]} is none of them: the "
                "service shows only a part of a longer list.",
            )
        # Not the first website read: with another sort order, that may be the oldest.
        newest = [str(row["id"]) for row in self._newest]
        if len(self.ids) > len(oldest) and oldest and oldest[:1] == newest[:1]:
            raise IncompleteListError(
                "sort order",
                f"the oldest website is {oldest[0]}, as is the newest: the service ignores the sort order.",
            )

    def _numbering(self, first: Page, rows: list[dict[str, Any]], parameter: str) -> tuple[int, Page | None]:
        """Return the number of the first page, and the second page if it was read to find out."""
        if self._base is not None:
            return self._base, None
        if len(rows) < int(self.query["per_page"]):
            # Probably the only page. If it is not, and pages count from 0, the proof fails.
            return 1, None
        page = self._fetch(self.query | {parameter: "1"})
        again, there = ([str(row["id"]) for row in read] for read in (page.rows, rows))
        if again == there:
            self._base = 1
            return 1, None
        if not set(there).isdisjoint(again):
            raise _moved("page number", "page 1 changed while the list was read.")
        self._base = 0
        return 0, page

    def _in_parallel(self, parameter: str, base: int, numbers: range) -> Generator[tuple[int, Page], None, None]:
        """Yield pages in order; ``parallel`` of them are read at the same time, and at most twice as many are ahead."""
        reader = self._reader

        def fetch(number: int) -> Page:
            try:
                return self._fetch(self.query | {parameter: str(base + number - 1)})
            except NotFoundError as error:
                raise _moved("page number", f"page {number} does not exist any more: {error.text}") from None

        while numbers and (reader.parallel <= 1 or len(numbers) == 1 or reader.is_at_once):
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
                reader.unwanted.set()  # the other pages lead to nothing any more
                raise

        pool = ThreadPoolExecutor(max_workers=reader.parallel, thread_name_prefix="analytics-list")
        # As many again wait in the pool: a thread that has its page begins the next one, and not only when the consumer
        # has taken the page before.
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
            # A task that is killed or times out waits for nothing.
            wait = isinstance(error, (Exception, GeneratorExit)) and not reader.is_interrupted
            raise
        finally:
            pool.shutdown(wait=wait, cancel_futures=True)
            if wait:
                reader.unwanted.clear()  # what is read next, if anything, is wanted

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
                raise IncompleteListError("cursor", f"page {number} names the cursor {cursor!r} again.")
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

    # What a page shows

    def _take_head(self, page: Page) -> None:
        self._newest = page.rows[:10]
        self._head_total = page.total

    def _may_be_all(self, page: Page, rows: list[dict[str, Any]]) -> bool:
        return page.total == len(rows) and len(rows) < self._full and page.following is None

    def _take(self, page: Page, number: int) -> list[dict[str, Any]]:
        """Note the rows of a page and return them; none if the page repeats the one before."""
        ids = [row["id"] for row in page.rows]
        if ids and number > 1 and self._last_ids == ids:
            self.repeated = True
            return []
        shown = page.current_page
        if self._base is None and shown in (0, 1) and number == 1:
            self._base = shown
        expected = (1 if self._base is None else self._base) + number - 1
        if shown is not None and shown != expected:
            raise IncompleteListError(
                "page number",
                f"page {expected} was requested, the response is page {shown}. {self._hint}",
            )
        if number > 1 and page.total != self.total:
            raise _moved("total", f"page 1 names the total {self.total}, page {number} names {page.total}.")
        twice = self.ids.add(ids)
        if twice is not None:
            raise _moved("distinct ids", f"website {twice} came twice; the list changed while it was read.")
        if ids:
            self._pages_with_rows += 1
            self.first_id = self.first_id or str(ids[0])
            self._last_ids = ids
        self._check_link(page, number)
        return page.rows

    def _check_link(self, page: Page, number: int) -> None:
        if page.following is not None and page.rows and self.total is not None and len(self.ids) >= self.total:
            raise IncompleteListError(
                "next link", f"page {number} completes the total of {self.total}, yet links to a next page."
            )

    def _check_total(self) -> None:
        if self.total is None or len(self.ids) == self.total:
            return
        found = f"the service names a total of {self.total}, and {len(self.ids)} websites were found"
        if self.repeated:
            raise IncompleteListError("page number", f"{self._hint} The next page brought nothing new: {found}.")
        raise _moved("total", f"{found}.")

    @property
    def _hint(self) -> str:
        name = self._parameter or dialect.PAGE_PARAMETER
        return f"The service seems to ignore the parameter {name!r}; set the extra page_parameter to the right name."

    _last_ids: list[int | str] | None = None


class _Ids:
    """The ids of websites, as numbers and text: a set that takes 2 bytes for an id, where ids are close together."""

    def __init__(self) -> None:
        #: The largest number; None if any id is none, -1 without ids.
        self.largest: int | None = -1
        # Each word holds 64 numbers, a bit for each: texts in a set take 100 bytes for each, and 10 MB for 100,000.
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
        """Add ids; return one that was there already, or is among them twice."""
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
        """Return how many of these ids the other ones lack."""
        words = sum((word & ~other._words.get(place, 0)).bit_count() for place, word in self._words.items())
        return words + len(self._texts - other._texts)


class _Progress:
    """A log line every :data:`PROGRESS_SECONDS`."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def step(self, read: int, total: int | None, verb: str = "Reading") -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_SECONDS:
            self._said = now
            of = f" of {total:,}" if total is not None else ""
            log.info("%s: %s%s websites", verb, f"{read:,}", of)


def _result(future: Future[Result], failures: list[Exception]) -> Result:
    """Return the result of a thread; if it failed, raise what failed first in any of them, without its frames."""
    if future.exception() is not None:
        raise failures[0].with_traceback(None)
    return future.result()


def requests_of_a_list(websites: int) -> int:
    """Return about how many requests a complete list takes: its pages, and those that prove it."""
    size = int(DEFAULT_QUERY["per_page"])
    return websites // size + 3 if websites >= size else 1


def read_again(consume: Callable[[Listing], Result], make_listing: Callable[[], Listing]) -> Result:
    """Consume a listing, and a new one while the list changes, at most :data:`MAX_READINGS` of them.

    :raises IncompleteListError: of the last reading.
    """
    for reading in count(1):
        listing = make_listing()
        try:
            return consume(listing)
        except IncompleteListError as error:
            if not error.moved:
                raise error.with_traceback(None) from None
            if reading == MAX_READINGS:
                seen = f"{error.seen} This was reading {reading}, the last one."
                raise IncompleteListError(error.check, seen, True) from None
            listing.stats.count("lists_read_again")
            log.info(
                "Reading the list again, as it changed meanwhile (%d of %d): %s", reading, MAX_READINGS, error.seen
            )
        finally:
            # A task that is killed or times out waits for nothing.
            listing.close(wait=isinstance(sys.exception(), (Exception, NoneType)))
    raise AssertionError("unreachable")


def _compare(there: _Reading, back: _Reading) -> None:
    if len(there.ids) > 1 and there.first_id == back.first_id:
        raise IncompleteListError(
            "sort order",
            f"both directions begin with website {there.first_id}: the service ignores the sort order, so a second "
            "reading proves nothing.",
        )
    if there.total != back.total:
        raise _moved("total", f"one direction named the total {there.total}, the other one {back.total}.")
    only_there, only_back = there.ids.count_besides(back.ids), back.ids.count_besides(there.ids)
    if only_there or only_back:
        if there.refusal is not None:
            raise there.refusal
        repeated = there.repeated or back.repeated
        seen = f"{only_there} websites were found in the first direction only, {only_back} in the opposite one only."
        raise IncompleteListError("both directions", f"{there._hint} {seen}" if repeated else seen, moved=not repeated)


def _moved(check: str, seen: str) -> IncompleteListError:
    return IncompleteListError(check, seen, moved=True)


def _is_newest_first(query: Query) -> bool:
    return (query["sort_by"], query["sort"]) == ("id", "desc")


def _size_of_a_full_page(page: Page, query: Query) -> int:
    """Return how many rows a page can hold, by what the service says and shows; without a word of it, what it shows."""
    has_more = page.total is not None and page.total > len(page.rows)
    if page.per_page is None or (has_more and page.rows):
        return len(page.rows)
    return min(int(query["per_page"]), page.per_page)


def _is_favorite(row: dict[str, Any]) -> bool | None:
    """Return whether a record is a favourite, or None if it does not show it; null means that it is not."""
    if "favorite" not in row:
        return None
    if row["favorite"] is None:
        return False
    try:
        return flag("favorite", row["favorite"])
    except ValueError:
        return None


def _number(website_id: object) -> int | None:
    """Return the number that an id is, or None: a number has one way to be written."""
    if type(website_id) is int and 0 <= website_id < 10**18:  # nearly always
        return website_id
    text = str(website_id)
    is_number = text.isascii() and text.isdigit() and len(text) < 19 and (text[0] != "0" or text == "0")
    return int(text) if is_number else None


def _identity(row: dict[str, Any]) -> tuple[str, str]:
    domain = row.get("domain")
    return str(row.get("id")), domain_key(domain) if isinstance(domain, str) else ""


def _opposite(sort: str) -> str:
    return "asc" if sort == "desc" else "desc"
