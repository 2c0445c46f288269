# SPDX-License-Identifier: Apache-2.0
"""Complete lists and writes for every structure and fault (``tests/support/fault_matrix.py`` defines the cases)."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
import uuid
from collections.abc import Callable, Iterable
from threading import Event
from typing import Any

import fault_matrix
import pytest
from list_model import ORDERS, Server, page_function
from raw_server import Request, answer_read, http, rows
from shelf import listing, websites
from wire_client import served

from airflow_provider_analytics.api.laravel import Page, Selection
from airflow_provider_analytics.api.listing import Listing, read_again, requests_of_a_list
from airflow_provider_analytics.exceptions import AnalyticsApiError, DomainError, IncompleteListError

_GROUPS = fault_matrix.groups(complete="FAULT_MATRIX" in os.environ)


@pytest.mark.long
@pytest.mark.parametrize(
    "group",
    [pytest.param(name, marks=pytest.mark.slow if name in fault_matrix.LONG else ()) for name in _GROUPS],
)
@pytest.mark.chosen(20)
def test_fault_group_has_no_wrong_outcome(group: str) -> None:
    cases = _GROUPS[group]()
    counts, failures = fault_matrix.run(cases)
    assert not failures
    assert counts["tried"] == len(cases) >= 100
    if group.startswith("moving"):
        # Some reads are accepted, and in some of them the list changes.
        assert counts["taken"] > counts["tried"] * cases[0][0].taken


@pytest.mark.parametrize(
    ("server", "check"),
    [
        (Server(page="ignored"), "page number"),
        (Server(page="repeated"), "page number"),
        (Server(total="high"), "total"),
        (Server(total="rows", numbers="total only", per_page=25), "other end"),
        (Server(total="kept", deleted_every=50, size=99), "total"),
        (Server(echo="wrong"), "page number"),
        (Server(links="always"), "next link"),
        (Server(sort="ignored", total="absent"), "sort order"),
        (Server(page="from 0", total="capped", echo="absent", per_page=25, size=125), "page number"),
    ],
    ids=str,
)
def test_incomplete_list_error_names_the_check_and_the_numbers(server: Server, check: str) -> None:
    with pytest.raises(IncompleteListError) as caught:
        fault_matrix.read(server.answer, {})
    assert caught.value.check == check
    assert any(character.isdigit() for character in caught.value.seen)
    if check == "page number":
        assert "page_parameter" in str(caught.value)


# Lists page by page


def down(first: int, last: int, **fields: Any) -> list[dict[str, Any]]:
    return rows(*range(first, last - 1, -1), **fields)


def up(first: int, last: int, **fields: Any) -> list[dict[str, Any]]:
    return rows(*range(first, last + 1), **fields)


def scripted(pages: Iterable[Page], query: dict[str, str]) -> Listing:
    """Return the list that consists of these pages, of ten rows or of another number."""
    left = iter(pages)
    return Listing(lambda _: next(left), {"per_page": "10", **query}, "page")


BY_DOMAIN, FAVORITES = {"sort_by": "domain", "sort": "asc"}, {"favorite": "true"}
#: Query, pages, the failing check, whether the list changed, and a part of the message.
REJECTED: dict[str, tuple[dict[str, str], list[Page], str, bool, str]] = {
    # 1 to 19 and 22 by domain. After page 1, 22 and one or two of its websites are deleted, so that as many move up,
    # and the next websites get ids from 20 on.
    **{
        f"an id up to {newest} is given again": (
            BY_DOMAIN,
            [
                Page([*rows(22), *down(19, 11)], 20, 1),
                Page(up(1, 10), 20, 1),
                Page([*up(newest - 9, 19), *up(20, newest)], 20, 2),
                Page([*down(newest, 20), *down(19, newest - 9)], 20, 1),
                Page([*rows(newest, **again), *down(newest - 1, newest - 9)], 20, 1),
            ],
            "closing head", True, "",
        )
        for newest, again in ((21, {}), (22, {"domain": "another.example"}))
    },
    **{
        f"the other end is {ids}": ({}, [Page(rows(5, 3, 1), 3, 1), Page(rows(*ids), len(ids), 1)], check, True, "")
        for ids, check in (((3, 5), "other end"), ((1, 2, 3), "other end"), ((5, 3, 1), "sort order"))
    },
    "a row contradicts the filter": (
        FAVORITES,
        [Page([*down(20, 12, favorite=True), *rows(11, favorite=0)], 11, 1)],
        "favorite", False, "contradicts the filter: .* without it",
    ),
    "a row of page 2 contradicts the filter": (
        FAVORITES,
        [Page(down(20, 11, favorite=True), 11, 1), Page(rows(10, favorite=0), 11, 2)],
        "favorite", False, "contradicts the filter: .* without it",
    ),
    "a row of page 2 has no flag": (
        FAVORITES,
        [Page(down(20, 11, favorite=True), 11, 1), Page(rows(10), 11, 2)],
        "favorite", False, "do not contain favorite",
    ),
    # After page 1, the last website was deleted and one was created.
    "page 2 has a row of page 1": ({}, [Page(down(11, 2), 11, 1), Page(rows(2), 11, 2)], "page number", True, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_list_that_might_lack_a_website_is_rejected(case: str) -> None:
    query, pages, check, moved, message = REJECTED[case]
    listing = scripted(pages, query)
    got: list[dict[str, Any]] = []
    with pytest.raises(IncompleteListError, match=message or None) as caught:
        got.extend(listing)
    assert (caught.value.check, caught.value.moved) == (check, moved)
    # Rows after the failed check are not returned, and there is no proof.
    assert listing.proof is None
    assert len(got) <= sum(len(page.rows) for page in pages)


def test_website_created_after_the_page_is_not_in_a_list_of_one_page() -> None:
    listing = scripted([Page(rows(5, 3, 1), 3, 1), Page(rows(1, 3, 5, 6), 4, 1)], {})
    assert {row["id"] for row in listing} == {1, 3, 5}
    assert listing.proof is not None
    assert (listing.proof.method, listing.proof.pages) == ("one page", 2)


@pytest.mark.parametrize(
    ("filters", "method"),
    [
        ({}, "closed reading"),
        ({"search": "x", "search_by": "domain"}, "closed reading"),
        ({"tag": "x"}, "both directions"),
    ],
    ids=str,
)
@pytest.mark.parametrize("order", ORDERS)
def test_list_with_an_unstable_filter_is_read_in_both_directions(
    filters: dict[str, str], method: str, order: str
) -> None:
    listing = Listing(page_function(Server(size=250).answer), {**ORDERS[order], **filters})
    assert len(list(listing)) == 250
    assert listing.proof is not None
    assert listing.proof.method == method


@pytest.mark.parametrize("sizes", [(250, 250, 250, 0), (250,) * 4, (250, 251) * 2], ids=str)
def test_changed_list_is_read_again_at_most_four_times(sizes: tuple[int, ...]) -> None:
    left = iter(sizes)

    def make() -> Listing:
        size = next(left)
        server = Server(size=size, total="high" if size else "right")
        return Listing(page_function(server.answer), {}, "page", wait=lambda seconds: None)

    if not sizes[-1]:
        assert read_again(list, make) == []
        return
    seen = "had the same result" if len({*sizes}) == 1 else "found that the list changed meanwhile"
    with pytest.raises(IncompleteListError, match=f"All 4 attempts {seen}") as caught:
        read_again(list, make)
    assert caught.value.check == "total"


@pytest.mark.long
def test_memory_of_a_list_grows_only_by_its_ids() -> None:
    """From 1,000 to 25,000 websites of about 2 KB each: limited per id, far below a row."""

    def serve(query: dict[str, str], size: int) -> Page:
        first = size - (int(query.get("page", "1")) - 1) * 100
        numbers = range(first, max(0, first - 100), -1) if query["sort"] == "desc" else range(1, 11)
        return Page([{"id": n, "note": f"{n:07d}" * 300} for n in numbers], size)

    def peak(size: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in Listing(lambda query: serve(query, size), {}, "page")) == size
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    small, large = peak(1_000), peak(25_000)
    assert (large - small) / 24_000 < 250


# Requests and checks


@pytest.mark.parametrize("number", [0, 1, 99, 100, 101, 199, 200, 201, 300])
def test_list_is_read_with_the_expected_number_of_requests(number: int) -> None:
    read = listing(websites(number))
    assert len(list(read)) == number
    assert read.proof is not None
    assert read.proof.method == ("one page" if number <= 100 else "closed reading")
    assert (read.proof.websites, read.proof.total) == (number, number)
    assert read.proof.pages == requests_of_a_list(number)


STORED = websites(250)
NEW = {**STORED[0], "id": 251, "domain": "new.example"}


@pytest.mark.parametrize(
    ("head", "total", "is_complete"),
    [
        pytest.param(STORED[:100], 250, True, id="nothing"),
        pytest.param([NEW, *STORED[:100]], 251, True, id="a website is created"),
        pytest.param(STORED[:100], 249, False, id="an older website is deleted"),
        pytest.param(STORED[1:100], 249, False, id="the newest website is deleted"),
        pytest.param([{**STORED[0], "domain": "another.example"}, *STORED[1:100]], 250, False, id="its id is reused"),
        pytest.param([NEW, *STORED[:100]], 250, False, id="one is created, and an older one is deleted"),
    ],
)
def test_second_read_of_page_1_detects_a_list_that_changed_after_its_last_page(
    head: list[dict[str, Any]], total: int, is_complete: bool
) -> None:
    is_read = False

    def fetch(query: dict[str, str]) -> Page:
        nonlocal is_read
        number = int(query.get("page", 1))
        if query["sort"] == "asc":
            is_read = True  # the other end is read after the pages
            return Page(STORED[::-1][:10], 250, 1)
        if is_read:
            return Page(head, total, 1)
        return Page(STORED[(number - 1) * 100 : number * 100], 250, number)

    read = Listing(fetch, {}, "page")
    if is_complete:
        assert len(list(read)) == total
    else:
        with pytest.raises(IncompleteListError, match="Websites were deleted, or a replica is behind") as raised:
            list(read)
        assert raised.value.check == "closing head"


@pytest.mark.parametrize("parallel", [1, 8])
def test_page_that_the_service_rejects_is_an_error_after_all_earlier_pages(parallel: int) -> None:
    """A page that is rejected while it is read ahead does not end the reading of earlier pages."""
    records = websites(500)
    is_rejected = Event()

    def fetch(query: dict[str, str], *_: Event) -> Page:
        number = int(query.get("page", 1))
        if number == 5:
            is_rejected.set()
            raise AnalyticsApiError(422, "GET", "/api/v1/websites", "page must be at most 4")
        if number == 2 and parallel > 1:
            is_rejected.wait(5)
        return Page(list(records[(number - 1) * 100 : number * 100]), 500, number)

    found: list[object] = []
    with pytest.raises(AnalyticsApiError, match="page must be at most 4"):
        found += Listing(fetch, {}, "page", parallel=parallel)
    assert len(found) == 400


@pytest.mark.parametrize("total", [250, None])
def test_given_page_parameter_takes_precedence_over_the_link_of_the_service(total: int | None) -> None:
    """Without a total, the list is read in both directions."""
    records = websites(250)
    queries = []

    def fetch(query: dict[str, str]) -> Page:
        queries.append(query)
        number = int(query.get("p", 1))
        ordered = records if query["sort"] == "desc" else records[::-1]
        rows = list(ordered[(number - 1) * 100 : number * 100])
        following = Selection("page", str(number + 1)) if number < 3 else None
        return Page(rows, total, number, following)

    read = Listing(fetch, {}, "p")
    assert len(list(read)) == 250
    assert read.proof is not None
    assert read.proof.pages == len(queries)


# Ids without an order, while others create websites


def _scrambled(n: int) -> str:
    return hashlib.sha256(str(n).encode()).hexdigest()


#: Kind of an id to the id of a website.
IDS: dict[str, Callable[[int], str]] = {
    "19 digits as text": lambda n: str(10**18 + int(_scrambled(n)[:12], 16)),
    "UUIDv4": lambda n: str(uuid.UUID(f"{_scrambled(n)[:12]}4{_scrambled(n)[12:15]}8{_scrambled(n)[15:30]}")),
}


class Service:
    """A service with such ids, which sorts by them, without a unique domain."""

    def __init__(self, size: int, kind: str, **meta: Any) -> None:
        self.make_id = IDS[kind]
        self.websites: list[dict[str, Any]] = []
        for n in range(size):
            self.create(f"{n}.example")
        self._meta = meta
        #: Called before each list request.
        self.meanwhile: Callable[[], object] = lambda: None

    def create(self, domain: str) -> dict[str, Any]:
        self.websites.append({"id": self.make_id(len(self.websites)), "domain": domain})
        return self.websites[-1]

    def __call__(self, request: Request) -> bytes:
        if request.method == "POST":
            return http(201, {"data": self.create(request.body.decode().removeprefix("domain="))})
        if request.path.endswith("/websites"):
            self.meanwhile()
        return answer_read(request, self.websites, **self._meta)


@pytest.mark.parametrize("meta", [{}, {"total": None}], ids=str)
@pytest.mark.parametrize("size", [90, 250])
@pytest.mark.parametrize("kind", IDS)
def test_list_with_opaque_ids_is_read_again_after_a_website_was_created(
    kind: str, size: int, meta: dict[str, Any]
) -> None:
    """Their order does not say which websites are new, so a new one is a list that changed."""
    queries: list[dict[str, Any]] = [*ORDERS.values()]
    for query in queries:
        service = Service(size, kind, **meta)
        created: list[Any] = []

        def create_one() -> None:
            if not created:  # noqa: B023
                created.append(service.create("new.example"))  # noqa: B023

        with served(service) as (client, _):
            next(iter(client.iter_websites(**query)))
            service.meanwhile = create_one
            found = [website["id"] for website in client.list_websites(**query)]
        assert sorted(found) == sorted(website["id"] for website in service.websites)


@pytest.mark.parametrize("kind", IDS)
def test_second_website_of_a_domain_is_found_among_opaque_ids(kind: str) -> None:
    """Another task creates the domain between the lookup and the create; the new websites are not the first ones."""
    service = Service(250, kind)
    with served(service) as (client, server):
        find = client.look_up

        def look_up(domain: str) -> Any:
            found = find(domain)
            service.create(domain)
            return found

        client.look_up = look_up  # type: ignore[method-assign]
        with pytest.raises(DomainError, match="2 websites have the domain"):
            client.ensure_website("new.example")
        assert server.sent.count("POST /api/v1/websites") == 1
