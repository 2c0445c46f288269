# SPDX-License-Identifier: Apache-2.0
"""Selectors of websites, and chunks (``reconcile/desired/selection.py``)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.api.fields import FIELDS
from airflow_provider_analytics.operators.exclusions import chunk_websites
from airflow_provider_analytics.reconcile.desired.exclusion_list import parse_selectors, select

WEBSITES: list[dict[str, Any]] = [
    {"id": 1, "domain": "www.example.com"},
    {"id": 2, "domain": "Shop.Example.com"},
    {"id": 3, "domain": "example.org"},
    {"id": 4, "domain": "shop.example.com."},
    {"id": 5, "domain": "five.example.net"},
]


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("WWW.example.com.", {"1"}),
        ("shop.example.com", {"2", "4"}),
        ("*.example.com", {"1", "2", "4"}),
        ("*", {"1", "2", "3", "4", "5"}),
        ("3", {"3"}),
        (5, {"5"}),
        ("example.?rg", {"3"}),
    ],
)
def test_selectors_match_ids_domains_and_patterns(selector: str | int, ids: set[str]) -> None:
    assert select(WEBSITES, parse_selectors("websites", [selector])) == (ids, [])


@pytest.mark.parametrize("selector", ["*.example.com", "*", "gone.example.com"])
def test_pattern_that_might_match_a_website_without_a_domain_is_rejected(selector: str) -> None:
    """With except_websites, a website that was to be excluded would be changed."""
    with pytest.raises(ValueError, match=f"website 6 has no domain.*{re.escape(repr(selector))}"):
        select([*WEBSITES, {"id": 6}], [selector])
    assert select([*WEBSITES, {"id": 6}], ["example.org", "6", "7"]) == ({"3", "6"}, ["7"])


def test_selectors_can_be_text() -> None:
    assert parse_selectors("websites", "a.example # main\n\n# no\n17") == ("a.example", "17")
    assert parse_selectors("websites", '["a.example", 7]') == ("a.example", "7")
    assert parse_selectors("websites", "[ab].example\n[cd].example") == ("[ab].example", "[cd].example")
    for bad in ([None], [True], [""], {"a": 1}, None):
        with pytest.raises(ValueError, match="websites"):
            parse_selectors("websites", bad)


def test_selectors_can_have_a_thousand_patterns() -> None:
    patterns = [f"*{number}.example" for number in range(1001)]
    assert len(parse_selectors("websites", [*patterns[1:], "a.example"])) == 1001
    with pytest.raises(ValueError, match=r"websites has 1,001 patterns\. Allowed: at most 1,000"):
        parse_selectors("websites", patterns)


@pytest.mark.parametrize("text", ["['a.example', 'b.example']", "('a.example', 'b.example')", "{'a.example'}", "None"])
def test_python_list_rendered_by_a_template_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"except_websites=.* is not allowed. Allowed: a list, or its JSON .*tojson"):
        parse_selectors("except_websites", text)
    with pytest.raises(ValueError, match="exclude_params"):
        FIELDS["exclude_params"].from_user(text)


IDS = st.one_of(st.integers(min_value=0, max_value=10**9), st.uuids().map(str))


@given(st.lists(IDS, unique_by=str), st.integers(min_value=1, max_value=50))
def test_website_belongs_to_a_single_stable_chunk(ids: list[int | str], chunks: int) -> None:
    divided = chunk_websites([{"id": website_id, "domain": "a.example"} for website_id in ids], chunks)
    assert len(divided) == chunks
    assert sorted(item for chunk in divided for item in chunk) == sorted(map(str, ids))
    # Other websites have no effect.
    some = chunk_websites(ids[::2], chunks)
    assert all(set(chunk) <= set(whole) for chunk, whole in zip(some, divided, strict=True))


def test_chunks_have_equal_sizes_and_are_the_same_in_every_process() -> None:
    assert chunk_websites(range(1, 8), 3) == [["3", "6"], ["1", "4", "7"], ["2", "5"]]
    assert chunk_websites(["a1b2", "site-7"], 3) == [[], ["a1b2"], ["site-7"]]
    with pytest.raises(ValueError, match=r"chunks=0 is not allowed. Allowed: a whole number, 1 or more"):
        chunk_websites([], 0)
