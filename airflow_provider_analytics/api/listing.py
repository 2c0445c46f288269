"""The complete list of websites: paging, and the proof that nothing is missing.

interface.md neither shows how a page is selected nor what a page says about the whole, and the list may change
while it is read. So a list counts as complete only when the reading of it proves so:

``one page``
    One answer held as many websites as the service says there are. One answer is one moment: nothing can move.
``total``
    Newest first, every page named the same total, no id came twice, ids fell from row to row, and their number
    is that total. A website that is created meanwhile pushes rows back, so that one is seen twice; one that is
    deleted changes the total. Oldest first, a deletion and a creation together could hide a row.
``both directions``
    Everything else (another order, a ``favorite`` filter, no total): read until a page brings nothing new, then
    once more in the opposite direction; both readings must find the same ids. A row is lost only behind one
    that was taken out after it had been read, which the second reading then lacks. A service that ignores the
    page parameter shows other ends of the list, unless one page holds all of it; one that ignores the sort
    order as well shows the same first row, and is refused. The first page is asked for with its number in the
    second reading only: where a service counts pages from 0, both readings then differ.

A website that stops being a favourite and becomes one again moves the rows of a ``favorite`` filter without any
trace. So where the favourites fill more than one page, all websites are read, and the favourites are picked out
of them. Only where the rows do not show what is a favourite, the filter is read in both directions.

Pages are read one after the other. In parallel, page 3 may be older than page 2: a creation between the two then
hides the row that it pushes over their border, while a deletion on page 3 keeps every total equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, TypeVar

from airflow_provider_analytics.api.checks import flag
from airflow_provider_analytics.api.dialect import Page
from airflow_provider_analytics.exceptions import IncompleteListError

#: Readings of a list that moves, before it is given up.
MAX_READINGS = 4
#: Ceiling on the pages of one reading: a service without end or total is left after so many.
MAX_PAGES = 20_000

#: interface.md, part 4, with the largest page and the order that a proof needs least requests for.
DEFAULT_QUERY = {"per_page": "100", "sort_by": "id", "sort": "desc"}

Result = TypeVar("Result")


@dataclass(frozen=True)
class Proof:
    """Why a list counts as complete.

    :param method: ``one page``, ``total`` or ``both directions``, as described at the head of this module.
    :param websites: how many websites the list has.
    :param total: how many the service said there are; None where it did not say, or where the websites were
        picked out of all.
    :param pages: how many pages were read, in both directions.
    """

    method: str
    websites: int
    total: int | None
    pages: int

    def as_dict(self) -> dict[str, Any]:
        """Return the proof as plain JSON values."""
        return asdict(self)


class Listing(Iterator[dict[str, Any]]):
    """One reading of the list: yields website records, then either proves itself or raises.

    A consumer may publish what it got only after exhaustion. Memory grows by the ids alone.

    :param fetch: returns the page for the query parameters given.
    :param query: filters and order; :data:`DEFAULT_QUERY` fills in what is missing.
    :param page_parameter: name of the parameter that selects a page.
    :raises IncompleteListError: while iterating, at the point where the proof fails.
    """

    def __init__(self, fetch: Callable[[dict[str, str]], Page], query: dict[str, str], page_parameter: str) -> None:
        self.proof: Proof | None = None
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
                        "favorite", f"website {row['id']} does not show whether it is a favourite, as others do."
                    )
                if flag("favorite", row["favorite"]) == wanted:
                    picked += 1
                    yield row
        proof = self._prove(query, there)
        self.proof = Proof(proof.method, picked, None, proof.pages + wasted)

    def _prove(self, query: dict[str, str], there: _Direction) -> Proof:
        """Return the proof for one direction that was read to its end; read the other one where that takes it."""
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
        """Yield the rows of each page in one direction, noting in ``seen`` what the proof needs.

        :param name_first: ask for the first page by its number too, not only for the later ones.
        """
        asked_size = int(query["per_page"])
        for number in count(1):
            if number > MAX_PAGES:
                raise IncompleteListError("pages", f"there was no end after {MAX_PAGES} pages.")
            # The first page is asked for without the parameter, whose name is an assumption.
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
                        f"website {website_id} came twice; the list changed while it was read.",
                        moved=True,
                    )
                seen.add(website_id)
            if not ids:
                break
            yield page.rows
            # A service may cap the page below what it was asked for. It then says so, or the pages show it.
            before = len(seen.page_ids) if seen.page_ids else page.per_page or len(ids)
            is_full = len(ids) >= min(asked_size, page.per_page or asked_size, before)
            seen.page_ids, seen.pages_with_rows = ids, number
            # Behind a full last page there may be more than a wrong total admits: another number must agree
            # with it, or the next page must be empty.
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
                f"page {number} was asked for, the answer calls itself page {page.current_page}. {self._hint}",
            )
        if number == 1:
            seen.total = page.total
        elif page.total != seen.total:
            raise IncompleteListError(
                "total", f"page 1 named the total {seen.total}, page {number} names {page.total}.", moved=True
            )

    def _check_total(self, seen: _Direction) -> None:
        if seen.total is None or len(seen.ids) == seen.total:
            return
        found = f"the service names a total of {seen.total}, and {len(seen.ids)} websites were found"
        if seen.repeated:
            raise IncompleteListError("page number", f"{found}: page {seen.pages} brought nothing new. {self._hint}")
        raise IncompleteListError("total", f"{found}.", moved=True)

    def _compare(self, there: _Direction, back: _Direction) -> None:
        if len(there.ids) > 1 and there.first_id == back.first_id:
            raise IncompleteListError(
                "sort order",
                f"both directions begin with website {there.first_id}: the service ignores the sort order, "
                "so that a second reading proves nothing.",
            )
        if there.total != back.total:
            raise IncompleteListError(
                "total", f"one direction named the total {there.total}, the other one {back.total}.", moved=True
            )
        if there.ids != back.ids:
            repeated = there.repeated or back.repeated
            raise IncompleteListError(
                "both directions",
                f"{len(there.ids - back.ids)} websites were found in the {self._query['sort']} direction only, "
                f"{len(back.ids - there.ids)} in the opposite direction only. {self._hint if repeated else ''}".strip(),
                moved=not repeated,
            )

    @property
    def _hint(self) -> str:
        return (
            f"The service seems to ignore the parameter {self._page_parameter!r}; the extra page_parameter names "
            "the right one."
        )


@dataclass
class _Direction:
    """What one walk through the pages has seen."""

    ids: set[str] = field(default_factory=set)
    first_id: str | None = None
    total: int | None = None
    pages: int = 0
    pages_with_rows: int = 0
    #: Ids of the page before.
    page_ids: list[str] | None = None
    #: The last page was the one before again: the page parameter is ignored, or there is no later page.
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
    """Consume a listing, and a new one while the list moves, at most :data:`MAX_READINGS` of them.

    :raises IncompleteListError: of the last reading.
    """
    for reading in count(1):
        try:
            return consume(make_listing())
        except IncompleteListError as error:
            if not error.moved:
                raise
            if reading == MAX_READINGS:
                raise IncompleteListError(
                    error.check, f"{error.seen} This was reading {reading}, the last one.", True
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
