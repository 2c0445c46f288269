"""A favorite filter is believed only as far as the rows agree with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import IncompleteListError
from airflow_provider_analytics.sandbox.server import SandboxServer

ClientWith = Callable[..., AnalyticsClient]

FILTERS: dict[str, dict[str, Any]] = {
    "honoured": {},
    "ignored": {"ignored": ["favorite"]},
    "false is true": {"favorite_filter": "truth of text"},
}


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (2, 3), (30, 120), (120, 30), (120, 130)], ids=str)
@pytest.mark.parametrize("shown_as", ["boolean", "integer", "text", "null", "hidden"])
@pytest.mark.parametrize("filtered", FILTERS)
def test_a_list_of_favorites_is_right_or_refused(
    client_with: ClientWith,
    analytics_sandbox: SandboxServer,
    filtered: str,
    shown_as: str,
    sizes: tuple[int, int],
    wanted: bool,
) -> None:
    for number in range(sum(sizes)):
        analytics_sandbox.add_website(f"{number}.example", favorite=number < sizes[0])
    first = range(1, sizes[0] + 1)
    expected = set(first) if wanted else set(range(1, sum(sizes) + 1)) - set(first)
    shown = {"list_hides": ["favorite"]} if shown_as == "hidden" else {"favorite_as": shown_as}
    analytics_sandbox.configure(**shown, **FILTERS[filtered])
    # Without the filter, no website contradicts it if all are favorites, or none is.
    is_right = filtered == "honoured" or sizes == (0, 0)
    if shown_as != "hidden":
        is_right |= filtered == "ignored" and len(expected) == sum(sizes)
        is_right |= filtered == "false is true" and wanted and bool(expected)
    if is_right:
        assert {website["id"] for website in client_with().list_websites(favorite=wanted)} == expected
        assert len(analytics_sandbox.requests) == 2 or sum(sizes) > 100 or not expected or shown_as == "hidden"
    else:
        with pytest.raises(IncompleteListError, match=r"by the check 'favorite': .* boolean_format"):
            client_with().list_websites(favorite=wanted)
    if filtered == "false is true":
        found = client_with(boolean_format="1/0").list_websites(favorite=wanted)
        assert {website["id"] for website in found} == expected
