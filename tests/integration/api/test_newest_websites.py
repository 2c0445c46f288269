# SPDX-License-Identifier: Apache-2.0
"""The first page of the list as the newest websites (``newest_websites`` of ``api/client.py``)."""

from __future__ import annotations

import pytest
from fake_services import FakeService

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import IncompleteListError


@pytest.mark.parametrize(("websites", "requests"), [(0, 1), (99, 1), (100, 3), (150, 5)])
def test_first_page_is_the_whole_list_only_if_it_is_not_full(
    client: AnalyticsClient, analytics_sandbox: FakeService, websites: int, requests: int
) -> None:
    analytics_sandbox.seed(websites)
    assert len(client.newest_websites(None)) == websites
    assert len(analytics_sandbox.requests) == requests


def test_full_page_of_a_service_with_a_capped_total_is_not_the_whole_list(
    client: AnalyticsClient, analytics_sandbox: FakeService
) -> None:
    analytics_sandbox.seed(150)
    analytics_sandbox.configure(total_cap=100)
    with pytest.raises(IncompleteListError):
        client.newest_websites(None)


@pytest.mark.parametrize(("known", "requests"), [("150", 1), ("51", 1), ("50", 5)])
def test_first_page_is_enough_if_it_contains_the_known_website(
    client: AnalyticsClient, analytics_sandbox: FakeService, known: str, requests: int
) -> None:
    analytics_sandbox.seed(150)
    found = {str(record["id"]) for record in client.newest_websites(known)}
    assert {str(number) for number in range(int(known), 151)} <= found
    assert len(analytics_sandbox.requests) == requests
