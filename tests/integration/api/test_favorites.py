"""A favorite filter is believed only as far as the rows agree with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import IncompleteListError
from airflow_provider_analytics.sandbox.server import SandboxServer

ClientWith = Callable[..., AnalyticsClient]


def fill(sandbox: SandboxServer, favorites: int, others: int) -> dict[bool, set[int]]:
    for number in range(favorites + others):
        sandbox.add_website(f"{number}.example", favorite=number < favorites)
    return {True: set(range(1, favorites + 1)), False: set(range(favorites + 1, favorites + others + 1))}


FILTERS: dict[str, dict[str, Any]] = {
    "honoured": {},
    "ignored": {"ignored": ["favorite"]},
    "false is true": {"favorite_filter": "truth of text"},
}


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (2, 3), (30, 120), (120, 30), (120, 130)], ids=str)
@pytest.mark.parametrize("shown_as", ["boolean", "integer", "text", "null"])
@pytest.mark.parametrize("filtered", FILTERS)
def test_a_list_of_favorites_is_right_or_refused(
    client_with: ClientWith,
    analytics_sandbox: SandboxServer,
    filtered: str,
    shown_as: str,
    sizes: tuple[int, int],
    wanted: bool,
) -> None:
    expected = fill(analytics_sandbox, *sizes)[wanted]
    analytics_sandbox.configure(favorite_as=shown_as, **FILTERS[filtered])
    # Without the filter, no website contradicts it if all are favorites, or none is.
    is_right = filtered == "honoured" or sizes == (0, 0) or (filtered == "ignored" and len(expected) == sum(sizes))
    if is_right or (filtered == "false is true" and wanted and expected):
        assert {website["id"] for website in client_with().list_websites(favorite=wanted)} == expected
    else:
        with pytest.raises(IncompleteListError, match=r"by the check 'favorite': .* boolean_format"):
            client_with().list_websites(favorite=wanted)
    if filtered == "false is true":
        found = client_with(boolean_format="1/0").list_websites(favorite=wanted)
        assert {website["id"] for website in found} == expected


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("filtered", ["ignored", "false is true"])
def test_a_filter_that_nothing_confirms_is_an_error_that_names_the_extra(
    client_with: ClientWith, analytics_sandbox: SandboxServer, filtered: str, wanted: bool
) -> None:
    expected = fill(analytics_sandbox, 2, 3)
    analytics_sandbox.configure(list_hides=["favorite"], **FILTERS[filtered])
    with pytest.raises(IncompleteListError, match="boolean_format"):
        client_with().list_websites(favorite=wanted)
    if filtered == "false is true":
        found = client_with(boolean_format="1/0").list_websites(favorite=wanted)
        assert {website["id"] for website in found} == expected[wanted]


def test_a_filter_that_works_costs_two_requests(client_with: ClientWith, analytics_sandbox: SandboxServer) -> None:
    fill(analytics_sandbox, 3, 200)
    assert len(client_with().list_websites(favorite=True)) == 3
    assert len(analytics_sandbox.requests) == 2
