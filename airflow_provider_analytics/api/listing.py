"""The complete list of websites: paging, and the proof that no website is missing.

The interface documents neither how a page is selected nor what a page states about the whole list, and the list may
change while it is read. So a list counts as complete only if the reading proves it, in one of three ways:

``one page``
    One response held as many websites as its total states. One response is one point in time: the list cannot change
    within it.
``total``
    Sorted newest first, every page stated the same total, no id occurred twice, ids decreased from row to row, and
    their number is that total. A website that is created meanwhile shifts rows to later pages, so that one occurs
    twice; one that is deleted changes the total. Sorted oldest first, a deletion and a creation together could hide a
    row.
``both directions``
    All other cases (another sort order, a ``favorite`` filter, no total): read until a page brings nothing new, then
    again in the opposite direction; both readings must find the same ids. A row is missed only if a row before it is
    removed after having been read, and the second reading then lacks the removed row. A service that ignores the
    page parameter returns opposite ends of the list, unless one page holds all of it; one that ignores the sort order
    as well returns the same first row, and is refused. Only the second reading requests the first page by its number:
    if a service counts pages from 0, the two readings then differ.

A website that is unmarked as favourite and marked again shifts the rows of a ``favorite`` filter without a trace. So
if the favourites fill more than one page, all websites are read and the favourites selected from them. Only if the
rows do not show ``favorite``, the filtered list is read in both directions.

Pages are read sequentially. In parallel, page 3 may be older than page 2: a creation between the two then hides the
row that it shifts from page 2 to page 3, while a deletion on page 3 keeps all totals equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, TypeVar

from airflow_provider_analytics.api.checks import flag
from airflow_provider_analytics.api.dialect import Page
from airflow_provider_analytics.exceptions import IncompleteListError

#: Maximum number of readings of a list that changes meanwhile.
MAX_READINGS = 4
#: Maximum number of pages of one reading, for a service that states no total and never ends the list.
MAX_PAGES = 20_000

#: docs/interface.md, List parameters: the largest page, and the order whose proof needs the fewest requests.
DEFAULT_QUERY = {"per_page": "100", "sort_by": "id", "sort": "desc"}

Result = TypeVar("Result")


@dataclass(frozen=True)
class Proof:
    """Why a list counts as complete.

    :param method: ``one page``, ``total`` or ``both directions``, as described in the docstring of this module.
    :param websites: number of websites in the list.
    :param total: total that the service stated; None if it stated none, or if the favourites were selected from all
        websites.
    :param pages: number of pages read, in both directions.
    """

    method: str
    websites: int
    total: int | None
    pages: int

    def as_dict(self) -> dict[str, Any]:
        """Return the proof as plain JSON values."""
        return asdict(self)


class Listing(Iterator[dict[str, Any]]):
    """One reading of the list: an iterator over website records that raises if the list is not proven complete.

    Use the records only after the iterator is exhausted. Memory grows by the ids only.

    :param fetch: returns the page for query parameters.
    :param query: filters and sort order; :data:`DEFAULT_QUERY` supplies the rest.
    :param page_parameter: name of the query parameter that selects a page.
    :raises IncompleteListError: while iterating, as soon as the proof fails.
    """

    #: Why the list is complete; None until the iterator is exhausted.
    proof: Proof | None

    def __init__(self, fetch: Callable[[dict[str, str]], Page], query: dict[str, str], page_parameter: str) -> None:
        self.proof = None
        self._fetch = fetch
        self._query = DEFAULT_QUERY | query
        self._page_parameter = page_parameter
        self._records = self._read()

    def __next__(self) -> dict[str, Any]:
        """Return the next website record."""
        return next(self._records)

    def _read(self) -> Iterator[dict[str, Any]]:
        if "favorite" in self._query:
            yield from self._read_favorites(self._query["favorite"])
            return
        there = _Direction()
        for rows in self._walk(self._query, there):
            yield from rows
        self.proof = self._prove(self._query, there)

    def _read_favorites(self, asked: str) -> Iterator[dict[str, Any]]:
        there = _Direction()
        pages = self._walk(self._query, there)
        first, second = next(pages, []), next(pages, None)
        if second is None or not all(_shows_favorite(row) for row in first):
            for rows in (first, second or [], *pages):
                yield from rows
            self.proof = self._prove(self._query, there)
            return
        query = {name: value for name, value in self._query.items() if name != "favorite"}
        wanted = flag("favorite", asked)
        picked, wasted, there = 0, there.pages, _Direction()
        for rows in self._walk(query, there):
            for row in rows:
                if not _shows_favorite(row):
                    raise IncompleteListError(
                        "favorite", f"website {row['id']} does not show whether it is a favourite, unlike others."
                    )
                if flag("favorite", row["favorite"]) == wanted:
                    picked += 1
                    yield row
        proof = self._prove(query, there)
        self.proof = Proof(proof.method, picked, None, proof.pages + wasted)

    def _prove(self, query: dict[str, str], there: _Direction) -> Proof:
        """Return the proof after one direction was read; read the opposite direction if the proof needs it."""
        if there.is_one_page:
            method = "one page"
        elif there.total is not None and not there.repeated and _is_newest_first(query) and there.ids_fall:
            method = "total"
        else:
            back = _Direction()
            opposite = query | {"sort": _opposite(query["sort"])}
            for _ in self._walk(opposite, back, name_first=there.pages_with_rows > 1):
                pass
            self._compare(there, back)
            there.pages += back.pages
            method = "both directions"
        return Proof(method, len(there.ids), there.total, there.pages)

    def _walk(
        self, query: dict[str, str], seen: _Direction, name_first: bool = False
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of each page in one direction, and record in ``seen`` what the proof needs.

        :param name_first: request the first page by its number, too.
        """
        asked_size = int(query["per_page"])
        for number in count(1):
            if number > MAX_PAGES:
                raise IncompleteListError("pages", f"the list did not end after {MAX_PAGES} pages.")
            # The first page is requested without the parameter, as its name is an assumption.
            is_named = name_first or number > 1
            page = self._fetch(query | {self._page_parameter: str(number)} if is_named else query)
            self._check_numbers(page, number, seen)
            ids = [str(row["id"]) for row in page.rows]
            seen.pages = number
            if ids and seen.page_ids == ids:
                seen.repeated = True
                break
            for website_id in ids:
                if website_id in seen.ids:
                    raise IncompleteListError(
                        "distinct ids",
                        f"website {website_id} occurred twice; the list changed while it was read.",
                        moved=True,
                    )
                seen.add(website_id)
            if not ids:
                break
            yield page.rows
            # A service may cap the page size below the requested one. It then states so, or the pages show it.
            before = len(seen.page_ids) if seen.page_ids else page.per_page or len(ids)
            is_full = len(ids) >= min(asked_size, page.per_page or asked_size, before)
            seen.page_ids, seen.pages_with_rows = ids, number
            # After a full page there may be more websites than a wrong total states: last_page must agree with the
            # total, or the next page must be empty.
            if seen.total is not None and (
                len(seen.ids) > seen.total
                or (len(seen.ids) == seen.total and (not is_full or page.last_page == number))
            ):
                break
        self._check_total(seen)

    def _check_numbers(self, page: Page, number: int, seen: _Direction) -> None:
        if page.current_page not in (None, number):
            raise IncompleteListError(
                "page number",
                f"page {number} was requested, but the response says it is page {page.current_page}. {self._hint}",
            )
        if number == 1:
            seen.total = page.total
        elif page.total != seen.total:
            raise IncompleteListError(
                "total", f"page 1 states the total {seen.total}, page {number} states {page.total}.", moved=True
            )

    def _check_total(self, seen: _Direction) -> None:
        if seen.total is None or len(seen.ids) == seen.total:
            return
        found = f"the service states a total of {seen.total}, but {len(seen.ids)} websites were found"
        if seen.repeated:
            raise IncompleteListError(
                "page number", f"{found}: page {seen.pages} repeats the previous page. {self._hint}"
            )
        raise IncompleteListError("total", f"{found}.", moved=True)

    def _compare(self, there: _Direction, back: _Direction) -> None:
        if len(there.ids) > 1 and there.first_id == back.first_id:
            raise IncompleteListError(
                "sort order",
                f"both directions begin with website {there.first_id}: the service ignores the sort order, "
                "so a second reading proves nothing.",
            )
        if there.total != back.total:
            raise IncompleteListError(
                "total", f"one direction stated the total {there.total}, the other one {back.total}.", moved=True
            )
        if there.ids != back.ids:
            repeated = there.repeated or back.repeated
            raise IncompleteListError(
                "both directions",
                f"{len(there.ids - back.ids)} websites were found only in the {self._query['sort']} direction, "
                f"{len(back.ids - there.ids)} only in the opposite direction. {self._hint if repeated else ''}".strip(),
                moved=not repeated,
            )

    @property
    def _hint(self) -> str:
        return (
            f"The service seems to ignore the parameter {self._page_parameter!r}; set the extra page_parameter to "
            "the right name."
        )


@dataclass
class _Direction:
    """State of reading the pages in one direction."""

    ids: set[str] = field(default_factory=set)
    first_id: str | None = None
    total: int | None = None
    pages: int = 0
    pages_with_rows: int = 0
    #: Ids of the previous page.
    page_ids: list[str] | None = None
    #: The last page repeated the previous one: the page parameter is ignored, or there is no later page.
    repeated: bool = False
    ids_fall: bool = True
    _last_number: int | None = None

    def add(self, website_id: str) -> None:
        number = int(website_id) if website_id.isascii() and website_id.isdigit() and len(website_id) < 20 else None
        if self.first_id is None:
            self.first_id = website_id
        elif number is None or self._last_number is None or number >= self._last_number:
            self.ids_fall = False
        self._last_number = number
        self.ids.add(website_id)

    @property
    def is_one_page(self) -> bool:
        return self.pages == 1 and self.total is not None


def read_again(consume: Callable[[Listing], Result], make_listing: Callable[[], Listing]) -> Result:
    """Consume a listing, and again a new one if the list changed meanwhile, at most :data:`MAX_READINGS` in all.

    :raises IncompleteListError: if the last reading is not proven complete.
    """
    for reading in count(1):
        try:
            return consume(make_listing())
        except IncompleteListError as error:
            if not error.moved:
                raise
            if reading == MAX_READINGS:
                raise IncompleteListError(
                    error.check, f"{error.seen} Gave up after {reading} readings.", True
                ) from None
    raise AssertionError("unreachable")


def _is_newest_first(query: dict[str, str]) -> bool:
    return (query["sort_by"], query["sort"]) == ("id", "desc") and "favorite" not in query


def _shows_favorite(row: dict[str, Any]) -> bool:
    try:
        flag("favorite", row.get("favorite"))
    except ValueError:
        return False
    return True


def _opposite(sort: str) -> str:
    return "asc" if sort == "desc" else "desc"
