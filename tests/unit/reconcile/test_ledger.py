from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_analytics.reconcile.ledger import Identity, Ledger

OFFICES = Identity("https://stats.example.com", "1", "offices", "exclude_ips")
RECORDS = [{"id": 1, "domain": "a.example"}, {"id": 2, "domain": "b.example"}]


def render(owned: dict[str, tuple[str, ...]], websites: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    return Ledger(OFFICES, websites=websites or {}).with_owned(RECORDS, owned, ("2.2.2.2", "1.1.1.1")).render()


def test_a_ledger_is_read_as_it_was_written() -> None:
    ledger = Ledger.parse(render({"1": ("2.2.2.2", "1.1.1.1"), "2": ()}), OFFICES)
    assert ledger.websites == {"1": {"domain": "a.example", "entries": ["1.1.1.1", "2.2.2.2"]}}
    assert ledger.entries == ("1.1.1.1", "2.2.2.2")
    assert ledger.owned(RECORDS) == {"1": ("1.1.1.1", "2.2.2.2")}


def test_websites_that_are_not_touched_stay_in_the_ledger() -> None:
    other = {"7": {"domain": "z.example", "entries": ["9.9.9.9"]}}
    assert Ledger.parse(render({}, other), OFFICES).websites == other


def test_an_id_that_means_another_website_now_owns_nothing() -> None:
    ledger = Ledger(OFFICES, websites={"1": {"domain": "before.example", "entries": ["1.1.1.1"]}})
    assert ledger.owned(RECORDS) == {}


GOOD = '"version": 1, "service": "https://stats.example.com", "account": "1", "list": "offices", "field": "exclude_ips"'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 1}',
        f'{{{GOOD}, "entries": [], "websites": []}}',
        f'{{{GOOD}, "entries": [7], "websites": {{}}}}',
        f'{{{GOOD}, "entries": [], "websites": {{"1": {{"domain": "a"}}}}}}',
        f'{{{GOOD}, "entries": [], "websites": {{"1": {{"domain": "a", "entries": [7]}}}}}}',
    ],
)
def test_a_corrupt_ledger_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="The ledger cannot be read"):
        Ledger.parse(text, OFFICES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("service", "https://other.example"),
        ("account", "2"),
        ("account", None),
        ("list", "vpn"),
        ("field", "exclude_params"),
    ],
)
def test_the_ledger_of_something_else_is_refused(name: str, value: Any) -> None:
    text = render({"1": ("1.1.1.1",)})
    with pytest.raises(ValueError, match=f"{name} is .*, here it is {value!r}") as caught:
        Ledger.parse(text, replace(OFFICES, **{name: value}))
    assert "ledger_path" in str(caught.value)


def test_a_ledger_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2"):
        Ledger.parse(render({}).replace('"version": 1', '"version": 2'), OFFICES)
