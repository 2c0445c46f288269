from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_analytics.reconcile.selection import parse_selectors, select

WEBSITES: list[dict[str, Any]] = [
    {"id": 1, "domain": "www.example.com"},
    {"id": 2, "domain": "Shop.Example.com"},
    {"id": 3, "domain": "example.org"},
    {"id": 4, "domain": "shop.example.com."},
    {"id": 5},
]


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("WWW.example.com.", {"1"}),
        ("shop.example.com", {"2", "4"}),
        ("*.example.com", {"1", "2", "4"}),
        ("*", {"1", "2", "3", "4"}),
        ("3", {"3"}),
        (5, {"5"}),
        ("example.?rg", {"3"}),
    ],
)
def test_selectors(selector: str | int, ids: set[str]) -> None:
    assert select(WEBSITES, parse_selectors("websites", [selector])) == (ids, [])


def test_selectors_that_mean_nothing_are_named() -> None:
    assert select(WEBSITES, ["www.example.com", "nope.example", "9", "*.nope"]) == (
        {"1"},
        ["nope.example", "9", "*.nope"],
    )


def test_selectors_may_come_as_text() -> None:
    assert parse_selectors("websites", "a.example # main\n\n# no\n17") == ("a.example", "17")
    assert parse_selectors("websites", '["a.example", 17]') == ("a.example", "17")
    for bad in ([None], [True], [""], {"a": 1}, None, "None", "['a.example']"):
        with pytest.raises(ValueError, match="websites"):
            parse_selectors("websites", bad)  # type: ignore[arg-type]
