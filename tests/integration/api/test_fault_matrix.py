"""The complete list against every shape and fault: see ``fault_matrix.py`` for what a case is and when it holds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from typing import Any

import fault_matrix
import msgspec
import pytest
from list_model import Server, page_function

from airflow_provider_analytics.api import listing as listing_module
from airflow_provider_analytics.api.dialect import Page
from airflow_provider_analytics.api.listing import Listing, read_again
from airflow_provider_analytics.exceptions import IncompleteListError

_GROUPS = fault_matrix.groups()


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(name, marks=pytest.mark.slow if len(cases) > 5000 or name == "writes" else ())
        for name, cases in _GROUPS.items()
    ],
)
def test_every_case_holds(group: str) -> None:
    counts, failures = fault_matrix.run(_GROUPS[group])
    assert not failures
    assert counts["tried"] == len(_GROUPS[group]) >= 500
    if group.startswith("moving"):
        # Neither every reading is refused, nor does the list stand still in all of them.
        assert counts["taken"] > counts["tried"] / 20


@pytest.mark.parametrize(("part", "kind"), [("close", "out of order"), ("_check_total", "total of the first page")])
def test_the_moving_lists_fail_without_a_part_of_the_proof(
    part: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_module._Reading, part, lambda reading: None)
    for order in ("newest first", "oldest first", "by domain"):
        assert fault_matrix.run(_GROUPS[f"moving: {order}, {kind}"])[1]


@pytest.mark.parametrize(
    ("server", "requests"),
    [
        (Server(size=0), 1),
        (Server(size=1), 1),
        (Server(size=99), 1),
        # The page behind a last one that is full, and the oldest websites; the closing head for more than one page.
        (Server(size=100), 3),
        (Server(size=101), 3),
        (Server(size=200), 5),
        (Server(size=251), 4),
        # The oldest websites, where their number is a round one.
        (Server(size=250), 5),
        (Server(size=10_000), 103),
        (Server(size=200, numbers="no last_page"), 5),
        (Server(size=99, numbers="no last_page"), 1),
        (Server(size=99, numbers="total only"), 3),
        (Server(size=250, per_page="ignored"), 3),
        (Server(size=250, per_page="capped"), 13),
        (Server(size=0, key=None, metadata="none"), 2),
        # Page 1 once more, to see whether pages count from 0.
        (Server(size=250, key=None, metadata="none"), 9),
        (Server(size=250, page="from 0", key=None, metadata="none"), 8),
        (Server(size=251, echo="absent"), 5),
        (Server(size=100, page="ignored", key=None, metadata="none"), 5),
    ],
    ids=str,
)
def test_requests_are_the_arithmetic_minimum(server: Server, requests: int) -> None:
    asked: list[Mapping[str, str]] = []

    def serve(query: Mapping[str, str]) -> bytes:
        asked.append(query)
        return server.answer(query)

    got, _ = fault_matrix.read(serve, {})
    assert len(got) == server.size
    assert len(asked) == requests


@pytest.mark.parametrize(
    ("server", "check"),
    [
        (Server(page="ignored"), "page number"),
        (Server(page="ignored", echo="absent"), "page number"),
        (Server(page="repeated"), "page number"),
        (Server(total="changing"), "total"),
        (Server(total="low"), "total"),
        (Server(total="high"), "total"),
        (Server(total="rows", numbers="total only", per_page="capped"), "total"),
        (Server(echo="wrong"), "page number"),
        (Server(sort="ignored", total="absent"), "sort order"),
    ],
    ids=str,
)
def test_a_refusal_names_the_check_and_what_was_seen(server: Server, check: str) -> None:
    with pytest.raises(IncompleteListError) as caught:
        fault_matrix.read(server.answer, {})
    assert caught.value.check == check
    assert any(character.isdigit() for character in caught.value.seen)
    if check == "page number":
        assert "page_parameter" in str(caught.value)


def rows(*ids: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": n, "domain": f"{n}.example", **fields} for n in ids]


def scripted(pages: list[Page]) -> tuple[Any, list[dict[str, str]]]:
    asked: list[dict[str, str]] = []

    def fetch(query: dict[str, str]) -> Page:
        asked.append(query)
        return pages[len(asked) - 1]

    return fetch, asked


def test_a_deletion_and_a_creation_between_two_pages_do_not_hide_a_row_oldest_first() -> None:
    # 1 to 20 oldest first: 5 is deleted after page 1, which moves 11 to page 1; 21 is created. The total stays.
    pages = [
        Page(rows(*range(20, 10, -1)), 20, 1, 2, 10),
        Page(rows(*range(1, 11)), 20, 1, 2, 10),
        Page(rows(*range(12, 22)), 20, 2, 2, 10),
        Page([], 20, 3, 2, 10),
        Page(rows(*range(21, 11, -1)), 20, 1, 2, 10),
        Page(rows(11, 10, 9, 8, 7, 6, 4, 3, 2, 1), 20, 2, 2, 10),
        Page([], 20, 3, 2, 10),
    ]
    fetch, _ = scripted(pages)
    with pytest.raises(IncompleteListError) as caught:
        list(Listing(fetch, {"sort": "asc", "per_page": "10"}, "page"))
    assert (caught.value.check, caught.value.moved) == ("both directions", True)


def test_a_service_that_sorts_oldest_first_whatever_it_is_asked_is_not_believed_for_its_total() -> None:
    # As above, but newest first was asked for: the total alone would accept this without website 11.
    pages = [
        Page(rows(*range(1, 11)), 20, 1, 2, 10),
        Page(rows(*range(12, 22)), 20, 2, 2, 10),
        Page([], 20, 3, 2, 10),
        Page(rows(*range(1, 5), *range(6, 12)), 20, 1, 2, 10),
        Page(rows(*range(12, 22)), 20, 2, 2, 10),
        Page([], 20, 3, 2, 10),
    ]
    with pytest.raises(IncompleteListError) as caught:
        list(Listing(scripted(pages)[0], {"per_page": "10"}, "page"))
    assert caught.value.check == "sort order"


def test_a_total_alone_does_not_prove_favourites_that_the_rows_do_not_show() -> None:
    newest = [Page(rows(*range(20, 10, -1)), 20, 1, 2, 10), Page(rows(*range(10, 0, -1)), 20, 2, 2, 10)]
    others = Page(rows(21, 22), 2, 1, 1, 10)
    oldest = [Page(rows(*range(1, 11)), 20, 1, 2, 10), Page(rows(*range(11, 21)), 20, 2, 2, 10)]
    behind = Page([], 20, 3, 2, 10)
    pages = [*newest, others, behind, *oldest, behind]
    listing = Listing(scripted(pages)[0], {"favorite": "true", "per_page": "10"}, "page")
    assert len(list(listing)) == 20
    assert listing.proof is not None
    assert (listing.proof.method, listing.proof.pages) == ("both directions", 7)


@pytest.mark.parametrize("shown", [True, False])
def test_a_favourite_switched_off_and_on_again_hides_no_other(shown: bool) -> None:
    """The one way to lose a row in both directions at once: 11 stands behind a page's end in either of them."""
    # The third request asks whether the others are others, the records not being able to tell.
    favorites = set(range(1, 22))
    changes = iter([{21}, {21}, {21}, set(), {1}, {1}] if shown else [{21}, set(), {21}, set(), {1}, {1}])

    def serve(query: Mapping[str, str]) -> bytes:
        wanted = query.get("favorite")
        found = [n for n in range(1, 22) if wanted is None or (n in favorites) == (wanted == "true")]
        found.sort(reverse=query["sort"] == "desc")
        number = int(query.get("page", "1"))
        first = (number - 1) * 10
        extra = {n: {"favorite": n in favorites} if shown else {} for n in found}
        body = [{"id": n, **extra[n]} for n in found[first : first + 10]]
        favorites.update(range(1, 22))
        favorites.difference_update(next(changes, set()))
        return msgspec.json.encode({"data": body, "current_page": number})

    listing = Listing(page_function(serve), {"favorite": "true", "per_page": "10"}, "page")
    if shown:
        assert 11 in {row["id"] for row in listing}
    else:
        # What the rows do not show cannot be proven; this is the limit that the module's head names.
        list(listing)
        assert listing.proof is not None
        assert listing.proof.method == "both directions"


def test_favourites_that_fill_one_page_cost_one_request() -> None:
    fetch, asked = scripted([Page(rows(3, 2, 1, favorite=True), 3, 1, 1, 100)])
    assert len(list(Listing(fetch, {"favorite": "true"}, "page"))) == 3
    assert [query["favorite"] for query in asked] == ["true"]


def test_favourites_on_several_pages_are_picked_out_of_all_websites() -> None:
    server = Server(size=250)

    def fetch(query: dict[str, str]) -> Page:
        page = page_function(server.answer)({"page": query.get("page", "1"), "sort": query["sort"]})
        kept = [{**row, "favorite": row["id"] % 2 == 0} for row in page.rows]
        return Page(kept, page.total, page.current_page, page.last_page, page.per_page)

    listing = Listing(fetch, {"favorite": "true"}, "page")
    assert [row["id"] for row in listing] == list(range(250, 0, -2))
    assert listing.proof is not None
    assert (listing.proof.method, listing.proof.websites, listing.proof.pages) == ("closed reading", 125, 7)


def test_rows_that_hide_whether_they_are_favourites_are_refused_among_others_that_show_it() -> None:
    first = Page(rows(*range(200, 100, -1), favorite=True), 101, 1, 2, 100)
    second = Page(rows(100, favorite=True), 101, 2, 2, 100)
    everything = Page(rows(*range(250, 150, -1)), 250, 1, 3, 100)
    fetch, _ = scripted([first, second, everything])
    with pytest.raises(IncompleteListError, match="does not show whether it is a favourite"):
        list(Listing(fetch, {"favorite": "true"}, "page"))


def test_a_list_that_moved_is_read_again_four_times_at_most() -> None:
    readings = 0

    def make() -> Listing:
        nonlocal readings
        readings += 1
        return Listing(page_function(Server(total="changing" if readings < 4 else "right").answer), {}, "page")

    assert len(read_again(list, make)) == 250
    assert readings == 4

    readings = -1
    with pytest.raises(IncompleteListError, match="This was reading 4, the last one") as caught:
        read_again(list, make)
    assert caught.value.check == "total"
    assert readings == 3


def test_a_page_of_known_rows_that_is_not_the_page_before_is_a_list_that_moved() -> None:
    # 101 websites; after page 1 the last one was deleted and one was created.
    pages = [Page(rows(*range(101, 1, -1)), 101, 1, 2, 100), Page(rows(2), 101, 2, 2, 100)]
    with pytest.raises(IncompleteListError) as caught:
        list(Listing(scripted(pages)[0], {}, "page"))
    assert (caught.value.check, caught.value.moved) == ("distinct ids", True)


def test_there_is_a_ceiling_on_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing_module, "MAX_PAGES", 12)
    asked = 0

    def endless(query: dict[str, str]) -> Page:
        nonlocal asked
        asked += 1
        return Page(rows(asked), per_page=1)

    with pytest.raises(IncompleteListError, match="no end after 12 pages"):
        list(Listing(endless, {}, "page"))
    assert asked == 12


def test_nothing_is_yielded_behind_the_point_where_the_proof_fails_and_no_proof_is_given() -> None:
    pages = [Page(rows(*range(200, 100, -1)), 200, 1, 2, 100), Page(rows(*range(100, 0, -1)), 199, 2, 2, 100)]
    listing = Listing(scripted(pages)[0], {}, "page")
    got: list[int] = []
    with pytest.raises(IncompleteListError):
        got.extend(row["id"] for row in listing)
    assert listing.proof is None
    assert list(listing) == []


def test_memory_grows_by_ids_only() -> None:
    """From 1,000 to 100,000 websites of some 2 KB each: bounded per id, far below a row."""

    def serve(query: dict[str, str], size: int) -> Page:
        first = size - (int(query.get("page", "1")) - 1) * 100
        numbers = range(first, max(0, first - 100), -1) if query["sort"] == "desc" else range(1, 11)
        kept = [{"id": n, "note": f"{n:07d}" * 300} for n in numbers]
        return Page(kept, size, None, -(-size // 100), 100)

    def peak(size: int) -> int:
        tracemalloc.start()
        count = sum(1 for _ in Listing(lambda query: serve(query, size), {}, "page"))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == size
        return found

    small, large = peak(1_000), peak(100_000)
    per_id = (large - small) / 99_000
    assert per_id < 250
    assert large < 100_000 * 2_100 / 5
