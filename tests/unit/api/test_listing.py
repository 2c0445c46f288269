# SPDX-License-Identifier: Apache-2.0
"""Pages of a list and the proof that it is complete, in memory (``api/listing.py``)."""

from __future__ import annotations

from threading import Event

import pytest
from shelf import listing, websites

from airflow_provider_analytics.api.laravel import Page, Selection
from airflow_provider_analytics.api.listing import Listing, requests_of_a_list
from airflow_provider_analytics.exceptions import AnalyticsApiError, IncompleteListError


@pytest.mark.parametrize("number", [0, 1, 99, 100, 101, 199, 200, 201, 300])
def test_list_is_read_with_the_expected_number_of_requests(number: int) -> None:
    read = listing(websites(number))
    assert len(list(read)) == number
    assert read.proof is not None
    assert read.proof.method == ("one page" if number <= 100 else "closed reading")
    assert (read.proof.websites, read.proof.total) == (number, number)
    assert read.proof.pages == requests_of_a_list(number)


@pytest.mark.parametrize(
    ("change", "is_complete"),
    [
        ("nothing", True),
        ("a website is created", True),
        ("an older website is deleted", False),
        ("the newest website is deleted", False),
        ("the newest website is replaced by another one with its id", False),
        ("one website is created, and an older one is deleted", False),
    ],
)
def test_second_read_of_page_1_detects_a_list_that_changed_after_its_last_page(change: str, is_complete: bool) -> None:
    records = websites(250)
    newest = records[0]
    is_read = False

    def fetch(query: dict[str, str]) -> Page:
        nonlocal is_read
        number = int(query.get("page", 1))
        if query["sort"] == "asc":
            is_read = True  # the other end is read after the pages
            return Page(records[::-1][:10], 250, 1)
        if not is_read:
            return Page(list(records[(number - 1) * 100 : number * 100]), 250, number)
        head, total = records[:100], 250
        if "created" in change:
            head, total = [{**newest, "id": newest["id"] + 1, "domain": "new.example"}, *head], total + 1
        if "older" in change:
            total -= 1
        if change == "the newest website is deleted":
            head, total = head[1:], 249
        if "replaced" in change:
            head = [{**newest, "domain": "another.example"}, *head[1:]]
        return Page(head, total, 1)

    read = Listing(fetch, {}, "page")
    if is_complete:
        assert len(list(read)) == 250 + (change == "a website is created")
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
