# SPDX-License-Identifier: Apache-2.0
"""Pages and proof of a list in memory: ``api/listing.py``."""

from __future__ import annotations

import pytest
from shelf import listing, websites

from airflow_provider_analytics.api.dialect import Page
from airflow_provider_analytics.api.listing import Listing, requests_of_a_list
from airflow_provider_analytics.exceptions import IncompleteListError


@pytest.mark.parametrize("number", [0, 1, 99, 100, 101, 199, 200, 201, 300])
def test_list_is_read_with_the_expected_number_of_requests(number: int) -> None:
    read = listing(websites(number))
    assert len(list(read)) == number
    assert read.proof is not None
    assert read.proof.method == ("one page" if number <= 100 else "closed reading")
    assert (read.proof.websites, read.proof.total) == (number, number)
    # The first page is requested again, to find out whether pages are counted from 1.
    checks = 1 if read.proof.pages > requests_of_a_list(number) else 0
    assert read.proof.pages == requests_of_a_list(number) + checks
    assert checks == 0


@pytest.mark.parametrize("capped", [100, 200])
def test_full_last_page_is_not_the_end_if_the_total_is_capped(capped: int) -> None:
    records = websites(capped + 50)

    def fetch(query: dict[str, str]) -> Page:
        number = int(query.get("page", 1))
        ordered = records if query["sort"] == "desc" else records[::-1]
        return Page(list(ordered[(number - 1) * 100 : min(number * 100, capped)]), capped, number)

    with pytest.raises(IncompleteListError, match="other end"):
        list(Listing(fetch, {}, "page"))
