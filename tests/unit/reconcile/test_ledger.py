from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_analytics.reconcile.ledger import owned_entries, parse_ledger, render_ledger

RECORDS = [{"id": 1, "domain": "a.example"}, {"id": 2, "domain": "b.example"}]


def render(owned: dict[str, tuple[str, ...]], ledger: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    return render_ledger(ledger or {}, RECORDS, owned, list_name="offices", field="exclude_ips")


def test_a_ledger_is_read_as_it_was_written() -> None:
    text = render({"1": ("2.2.2.2", "1.1.1.1"), "2": ()})
    ledger = parse_ledger(text, list_name="offices", field="exclude_ips")
    assert ledger == {"1": {"domain": "a.example", "entries": ["1.1.1.1", "2.2.2.2"]}}
    assert owned_entries(ledger, RECORDS) == {"1": ("1.1.1.1", "2.2.2.2")}


def test_websites_that_are_not_touched_stay_in_the_ledger() -> None:
    other = {"7": {"domain": "z.example", "entries": ["9.9.9.9"]}}
    assert parse_ledger(render({}, other), list_name="offices", field="exclude_ips") == other


def test_an_id_that_means_another_website_now_owns_nothing() -> None:
    ledger = {"1": {"domain": "before.example", "entries": ["1.1.1.1"]}}
    assert owned_entries(ledger, RECORDS) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 1}',
        '{"version": 1, "list": "offices", "field": "exclude_ips", "websites": []}',
        '{"version": 1, "list": "offices", "field": "exclude_ips", "websites": {"1": {"domain": "a"}}}',
        '{"version": 1, "list": "offices", "field": "exclude_ips", "websites": {"1": {"domain": "a", "entries": [7]}}}',
    ],
)
def test_a_corrupt_ledger_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the ledger cannot be read"):
        parse_ledger(text, list_name="offices", field="exclude_ips")


def test_the_ledger_of_another_list_is_refused() -> None:
    text = render({"1": ("1.1.1.1",)})
    with pytest.raises(ValueError, match="belongs to the list 'offices'"):
        parse_ledger(text, list_name="partners", field="exclude_ips")
    with pytest.raises(ValueError, match="belongs to the list 'offices'"):
        parse_ledger(text, list_name="offices", field="exclude_params")
    with pytest.raises(ValueError, match="version 2"):
        parse_ledger(text.replace('"version": 1', '"version": 2'), list_name="offices", field="exclude_ips")
