"""A sync of a part of the websites: what it reads, counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from distortion import Distortion
from reconciling import Night

from airflow_provider_analytics.exceptions import AnalyticsError

NEW = "198.18.7.1"


@pytest.fixture
def domains(night: Night) -> list[Any]:
    night.sandbox.seed(940)
    return night.lists("domain")


def selected(night: Night, *websites: Any, **arguments: Any) -> tuple[int, Counter[str | None]]:
    """Return how many websites a dry run selects, and its requests."""
    night.sandbox.clear_requests()
    result = night.sync(NEW, websites=list(websites), dry_run=True, **arguments)
    assert result["updates"] == result["websites"]
    return result["websites"], night.operations


@pytest.mark.usefixtures("domains")
def test_a_few_ids_are_shown_and_more_are_read_from_the_list(night: Night) -> None:
    assert selected(night, 1) == (1, {"show": 1})
    # The first page of the list tells how long it is.
    assert selected(night, 1, 2) == (2, {"list": 1, "show": 2})
    assert selected(night, *range(1, 11)) == (10, {"list": 1, "show": 10})
    # The other pages are 11 more requests.
    assert selected(night, *range(1, 12)) == (11, {"list": 12})
    assert selected(night, *range(1, 501)) == (500, {"list": 12})
    assert selected(night, "*") == (940, {"list": 12})
    assert selected(night, 1, 2, except_websites=[2]) == (1, {"list": 1, "show": 2})


def test_a_wrong_base_url_is_not_taken_for_websites_that_are_gone(night: Night) -> None:
    night.add(5)
    for operation in ("show", "account"):
        night.sandbox.fault(operation, status=404, times=None)
    with pytest.raises(AnalyticsError, match="404"):
        selected(night, 3, accept=["no_match"])


def test_domains_are_looked_up(night: Night, domains: list[Any]) -> None:
    night.sandbox.configure(allow_duplicates=True)
    night.add("twice.example twice.example")
    assert selected(night, domains[0].upper()) == (1, {"list": 2, "show": 1})
    # The first page of the list, two searches of two requests, and a show of each.
    assert selected(night, *domains[:2], 17) == (3, {"list": 5, "show": 3})
    # All websites of a domain are selected; which these are, only the list can tell.
    assert selected(night, domains[0], "twice.example", 17)[0] == 4


@pytest.mark.usefixtures("domains")
def test_what_a_look_up_does_not_find_is_looked_for_in_the_list(night: Night) -> None:
    for missing in ("missing.example", 4711):
        with pytest.raises(Exception, match=f"No website matches websites: '{missing}'"):
            selected(night, missing)
    unmatched: dict[str, Any] = {"accept": ["no_match"]}
    assert selected(night, 1, 4711, **unmatched) == (
        1,
        {"account": 1, "list": 1, "show": 3},
    )  # one "not found" may be wrong
    # Nothing to select, nothing to read.
    assert selected(night, **unmatched) == (0, {})


@pytest.mark.usefixtures("domains")
def test_a_website_that_cannot_be_shown_is_read_from_the_list(night: Night, distortion: Distortion) -> None:
    distortion.failing = {("GET", "/websites/2"): 500}
    assert selected(night, 1, 2)[0] == 2


@pytest.mark.usefixtures("domains")
def test_a_part_is_synced_with_the_fewest_requests_and_its_own_list(night: Night) -> None:
    result = night.managed(NEW, websites=[1, 2, 3])
    assert (result["applied"], result["verified"]) == (3, True)
    # Shown to plan, right before the update, and to check; two that are changed alone are checked twice.
    assert night.operations == {"account": 1, "list": 1, "show": 10, "update": 3}
    night.managed("198.18.7.2", websites=[1, 2, 3])
    assert ["198.18.7.2" in (one or "") for one in night.lists()] == [True] * 3 + [False] * 937
    assert not [one for one in night.lists() if NEW in (one or "")]
