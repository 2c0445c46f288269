"""The complete list against every shape and fault: see ``fault_matrix.py`` for what a case is and when it holds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import fault_matrix
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from list_model import AXES, ORDERS, Server, page_function

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
        assert counts["taken"] > counts["tried"] * _GROUPS[group][0][0].taken


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("part", "kind"), [("_close", "out of order"), ("_check_total", "total of the first page")])
def test_the_moving_lists_fail_without_a_part_of_the_proof(
    part: str, kind: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listing, part, lambda *_: [])
    assert any(fault_matrix.MOVES[f"{order}, {kind}"].try_once(seed)[0] for seed in range(5000))


@pytest.mark.parametrize("order", ORDERS)
def test_the_capped_rows_fail_without_the_other_end(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listing, "_check_other_end", lambda reading: None)
    assert fault_matrix.run([case for case in _GROUPS["capped rows"] if case[1] == order])[1]


@given(
    st.builds(
        Server,
        key=st.sampled_from(AXES["key"]),
        metadata=st.sampled_from(AXES["metadata"]),
        total=st.sampled_from([*AXES["total"], "returned", "kept"]),
        echo=st.sampled_from(AXES["echo"]),
        page=st.sampled_from(AXES["page"]),
        links=st.sampled_from(AXES["links"]),
        sort=st.sampled_from(AXES["sort"]),
        # A single website shows neither whether the service sorts nor whether it selects pages.
        per_page=st.sampled_from(["honoured", "ignored"]) | st.integers(2, 12),
        size=st.integers(0, 70),
        row_cap=st.none() | st.integers(2, 70),
        deleted_every=st.none() | st.integers(1, 30),
    ),
    st.sampled_from([*ORDERS.values()]),
)
@settings(max_examples=500)
def test_no_list_that_stands_still_is_published_in_part(server: Server, order: dict[str, str]) -> None:
    assert fault_matrix.still(server, {"per_page": "10", **order}) is None


@pytest.mark.parametrize(
    ("server", "order", "requests"),
    [
        # The other end of the list is always checked; the head closes a reading of more than one page.
        (Server(size=0), "newest first", 2),
        (Server(size=1), "newest first", 2),
        (Server(size=99), "newest first", 2),
        (Server(size=100), "newest first", 2),
        (Server(size=101), "newest first", 4),
        (Server(size=200), "newest first", 4),
        (Server(size=251), "newest first", 5),
        (Server(size=10_000), "newest first", 102),
        # Oldest first, the head is the other end.
        (Server(size=1), "oldest first", 2),
        (Server(size=100), "oldest first", 2),
        (Server(size=101), "oldest first", 4),
        (Server(size=10_000), "oldest first", 102),
        # By domain, it is neither.
        (Server(size=1), "by domain", 3),
        (Server(size=10_000), "by domain", 103),
        (Server(size=99, numbers="total only"), "newest first", 2),
        (Server(size=250, per_page="ignored"), "newest first", 2),
        (Server(size=250, per_page=25), "newest first", 12),
        (Server(size=0, key=None, metadata="none"), "newest first", 2),
        # Page 1 once more, to see whether pages count from 1.
        (Server(size=1, key=None, metadata="none"), "newest first", 5),
        (Server(size=250, key=None, metadata="none"), "newest first", 9),
        (Server(size=251, echo="absent"), "newest first", 6),
        (Server(size=100, page="ignored", key=None, metadata="none"), "newest first", 5),
    ],
    ids=str,
)
def test_requests_are_the_arithmetic_minimum(server: Server, order: str, requests: int) -> None:
    asked: list[Mapping[str, str]] = []

    def serve(query: Mapping[str, str]) -> bytes:
        asked.append(query)
        return server.answer(query)

    got, _ = fault_matrix.read(serve, ORDERS[order])
    assert len(got) == server.size
    assert len(asked) == requests


@pytest.mark.parametrize(
    ("server", "check"),
    [
        (Server(page="ignored"), "page number"),
        (Server(page="ignored", echo="absent"), "page number"),
        (Server(page="repeated"), "page number"),
        (Server(total="low"), "total"),
        (Server(total="high"), "total"),
        (Server(total="rows", numbers="total only", per_page=25), "other end"),
        (Server(total="kept", deleted_every=10), "total"),
        (Server(total="kept", deleted_every=50, size=99), "total"),
        (Server(echo="wrong"), "page number"),
        (Server(sort="ignored", total="absent"), "sort order"),
        # From 0, page 2 is the third one: in both directions, the second of three would be missing.
        (Server(page="from 0", key=None, metadata="none", size=300), "page number"),
        (Server(page="from 0", total="capped", echo="absent", per_page=25, size=125), "page number"),
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
        Page(rows(*range(20, 10, -1)), 20, 1),
        Page(rows(*range(1, 11)), 20, 1),
        Page(rows(*range(12, 22)), 20, 2),
        Page([], 20, 3),
    ]
    fetch, _ = scripted(pages)
    with pytest.raises(IncompleteListError, match="the total is 20, but 19 websites were found") as caught:
        list(Listing(fetch, {"sort": "asc", "per_page": "10"}, "page"))
    assert (caught.value.check, caught.value.moved) == ("total", True)


def test_a_service_that_sorts_oldest_first_whatever_it_is_asked_is_not_believed_for_its_total() -> None:
    # As above, but newest first was asked for: the total alone would accept this without website 11.
    pages = [
        Page(rows(*range(1, 11)), 20, 1),
        Page(rows(*range(12, 22)), 20, 2),
        Page(rows(*range(1, 5), *range(6, 12)), 20, 1),
        Page(rows(*range(12, 22)), 20, 2),
    ]
    with pytest.raises(IncompleteListError) as caught:
        list(Listing(scripted(pages)[0], {"per_page": "10"}, "page"))
    assert caught.value.check == "sort order"


@given(
    kinds=st.sets(st.sampled_from(["create", "delete", "swap", "again", "mark"]), min_size=1),
    order=st.sampled_from([*ORDERS.values()]),
    total=st.booleans(),
    parallel=st.sampled_from([1, 4]),
    quiet=st.sampled_from([2, 12, 30]),
    lag=st.sampled_from([0, 3, 10_000]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=500)
def test_no_list_that_changes_is_published_without_a_website_that_stayed(
    kinds: set[str], order: dict[str, str], total: bool, parallel: int, quiet: int, lag: int, seed: int
) -> None:
    move = fault_matrix.Move(
        tuple(order.items()), total, tuple(sorted(kinds)), parallel=parallel if total else 1, quiet=quiet, lag=lag
    )
    assert move.try_once(seed)[0] is None


# The limits of a closed reading: each of these is the example of a condition in the docstring of ``listing.py``.


def closed(*pages: Page) -> set[int]:
    """Return the ids of a closed reading of these pages: each of ten rows, then the other end, and the closing head."""
    listing = Listing(scripted(list(pages))[0], {"per_page": "10"}, "page")
    found = {row["id"] for row in listing}
    assert listing.proof is not None
    assert listing.proof.method == "closed reading"
    return found


def test_a_restored_website_hides_one_if_another_one_is_deleted_during_the_same_reading() -> None:
    # 5 was deleted before. After page 1, 15 is deleted and 5 is restored: 11 moves to page 1.
    head, second = Page(rows(*range(21, 11, -1)), 20, 1), Page(rows(*range(10, 0, -1)), 20, 2)
    oldest = Page(rows(*range(1, 11)), 20, 1)
    assert closed(head, second, oldest, head) == set(range(1, 22)) - {11}
    # Without the deletion, 1 moves to page 3, and the oldest websites show it.
    with pytest.raises(IncompleteListError, match="other end") as caught:
        closed(head, Page(rows(*range(11, 1, -1)), 21, 2), oldest)
    assert caught.value.moved


def test_a_replica_that_is_one_create_and_one_delete_behind_hides_one() -> None:
    # The service has 1 to 31 without 15. Page 2 comes from a replica, which still has 15 and lacks 31.
    head, second = Page(rows(*range(31, 21, -1)), 30, 1), Page(rows(*range(20, 10, -1)), 30, 2)
    third, oldest = Page(rows(*range(10, 0, -1)), 30, 3), Page(rows(*range(1, 11)), 30, 1)
    assert closed(head, second, third, oldest, head) == set(range(1, 32)) - {21}
    # If the replica lacks only the create, the total shows it.
    with pytest.raises(IncompleteListError, match="total") as caught:
        closed(head, replace(second, total=29))
    assert caught.value.moved


@pytest.mark.parametrize(("newest", "again"), [(21, {}), (22, {"domain": "another.example"})])
def test_an_id_that_an_engine_gives_again_hides_no_website(newest: int, again: dict[str, str]) -> None:
    # 1 to 19 and 22 by domain. After page 1, 22 and one or two of its websites are deleted, so that as many move up,
    # and the next websites get ids from 20 on.
    moved = newest - 10
    first, second = range(1, 11), (*range(moved + 1, 20), *range(20, newest + 1))
    last = Page([*rows(newest, **again), *rows(*range(newest - 1, moved, -1))], 20, 1)
    pages = [
        Page(rows(22, *range(19, 10, -1)), 20, 1),
        Page(rows(*first), 20, 1),
        Page(rows(*second), 20, 2),
        Page(rows(*second[::-1]), 20, 1),
        last,
    ]
    listing = Listing(scripted(pages)[0], {"sort_by": "domain", "sort": "asc", "per_page": "10"}, "page")
    with pytest.raises(IncompleteListError) as caught:
        list(listing)
    assert (caught.value.check, caught.value.moved) == ("closing head", True)


@pytest.mark.parametrize(
    ("end", "check"),
    [((1, 3, 5, 6), None), ((3, 5), "other end"), ((1, 2, 3), "other end"), ((5, 3, 1), "sort order")],
    ids=str,
)
def test_the_other_end_agrees_with_the_websites_read(end: tuple[int, ...], check: str | None) -> None:
    listing = Listing(scripted([Page(rows(5, 3, 1), 3, 1), Page(rows(*end), len(end), 1)])[0], {}, "page")
    if check is None:  # 6 was created after the page was read
        assert [row["id"] for row in listing] == [5, 3, 1]
    else:
        with pytest.raises(IncompleteListError) as caught:
            list(listing)
        assert caught.value.check == check


@pytest.mark.parametrize(
    ("filters", "method"),
    [({}, "closed reading"), ({"search": "x", "search_by": "domain"}, "closed reading"), ({"tag": "x"}, None)],
    ids=str,
)
@pytest.mark.parametrize("order", ORDERS)
def test_a_filter_that_is_not_named_as_stable_is_read_in_both_directions(
    filters: dict[str, str], method: str | None, order: str
) -> None:
    listing = Listing(page_function(Server(size=250).answer), {**ORDERS[order], **filters})
    assert len(list(listing)) == 250
    assert listing.proof is not None
    assert listing.proof.method == (method or "both directions")


def test_a_total_alone_does_not_prove_favourites_that_the_rows_do_not_show() -> None:
    newest = [Page(rows(*range(20, 10, -1)), 20, 1), Page(rows(*range(10, 0, -1)), 20, 2)]
    others = Page(rows(21, 22), 2, 1)
    oldest = [Page(rows(*range(1, 11)), 20, 1), Page(rows(*range(11, 21)), 20, 2)]
    pages = [*newest, others, *oldest]
    listing = Listing(scripted(pages)[0], {"favorite": "true", "per_page": "10"}, "page")
    assert len(list(listing)) == 20
    assert listing.proof is not None
    assert (listing.proof.method, listing.proof.pages) == ("both directions", 5)


def test_a_favorite_switched_off_and_on_again_may_hide_another_one() -> None:
    """The limit that the module's head names: 11 stands behind the end of a page in either direction."""
    favorites = set(range(1, 22))
    changes = iter([{21}, set(), set(), {1}])

    def serve(query: Mapping[str, str]) -> bytes:
        found = sorted(favorites, reverse=query["sort"] == "desc")
        number = int(query.get("page", "1"))
        first = (number - 1) * 10
        body = [{"id": n, "favorite": True} for n in found[first : first + 10]]
        favorites.update(range(1, 22))
        favorites.difference_update(next(changes, set()))
        return msgspec.json.encode({"data": body, "current_page": number})

    listing = Listing(page_function(serve), {"favorite": "true", "per_page": "10"}, "page")
    assert {row["id"] for row in listing} == set(range(1, 22)) - {11}
    assert listing.proof is not None
    assert listing.proof.method == "both directions"


def test_favourites_that_fill_one_page_cost_two_requests() -> None:
    pages = [Page(rows(*ids, favorite=True), 3, 1) for ids in ((3, 2, 1), (1, 2, 3))]
    fetch, asked = scripted(pages)
    assert len(list(Listing(fetch, {"favorite": "true"}, "page"))) == 3
    assert [query["favorite"] for query in asked] == ["true", "true"]


@pytest.mark.parametrize("page", [1, 2])
def test_a_row_that_contradicts_the_filter_is_an_error_on_any_page(page: int) -> None:
    pages = [Page(rows(*range(200, 100, -1), favorite=True), 101, 1), Page(rows(100, favorite=True), 101, 2)]
    pages[page - 1].rows[-1]["favorite"] = 0
    with pytest.raises(IncompleteListError, match=r"contradicts the filter: .* boolean_format") as caught:
        list(Listing(scripted(pages)[0], {"favorite": "true"}, "page"))
    assert (caught.value.check, caught.value.moved) == ("favorite", False)


def test_rows_that_hide_whether_they_are_favorites_are_compared_with_the_others() -> None:
    first = Page(rows(*range(200, 100, -1), favorite=True), 101, 1)
    second, others = Page(rows(100), 101, 2), Page(rows(201, 100), 2, 1)
    with pytest.raises(IncompleteListError, match="ignores or misreads the filter") as caught:
        list(Listing(scripted([first, second, others])[0], {"favorite": "true"}, "page"))
    assert (caught.value.check, caught.value.moved) == ("favorite", True)


def test_a_list_that_moved_is_read_again_four_times_at_most() -> None:
    readings = 0
    waited: list[float] = []

    def make() -> Listing:
        nonlocal readings
        readings += 1
        server = Server(total="high" if readings < 4 else "right")
        return Listing(page_function(server.answer), {}, "page", wait=waited.append)

    assert len(read_again(list, make)) == 250
    assert readings == 4

    readings = -1
    with pytest.raises(IncompleteListError, match="Gave up after 4 attempts") as caught:
        read_again(list, make)
    assert caught.value.check == "total"
    assert readings == 3


@pytest.mark.parametrize(("second", "check"), [([2], "page number"), ([2, 1], "total")], ids=str)
def test_a_page_with_rows_of_earlier_pages_is_a_list_that_moved(second: list[int], check: str) -> None:
    # After page 1, the last website was deleted and one was created.
    total = 100 + len(second)
    pages = [Page(rows(*range(101, 1, -1)), total, 1), Page(rows(*second), total, 2), Page([], total, 3)]
    with pytest.raises(IncompleteListError) as caught:
        list(Listing(scripted(pages)[0], {}, "page"))
    assert (caught.value.check, caught.value.moved) == (check, True)


def test_nothing_is_yielded_behind_the_point_where_the_proof_fails_and_no_proof_is_given() -> None:
    pages = [Page(rows(*range(200, 100, -1)), 200, 1), Page(rows(*range(100, 0, -1)), 199, 2)]
    listing = Listing(scripted(pages)[0], {}, "page")
    got: list[int] = []
    with pytest.raises(IncompleteListError):
        got.extend(row["id"] for row in listing)
    assert listing.proof is None
    assert got == [*range(200, 100, -1)]


def test_memory_grows_by_ids_only() -> None:
    """From 1,000 to 100,000 websites of some 2 KB each: bounded per id, far below a row."""

    def serve(query: dict[str, str], size: int) -> Page:
        first = size - (int(query.get("page", "1")) - 1) * 100
        numbers = range(first, max(0, first - 100), -1) if query["sort"] == "desc" else range(1, 11)
        kept = [{"id": n, "note": f"{n:07d}" * 300} for n in numbers]
        return Page(kept, size)

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
