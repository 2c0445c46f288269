"""The check of ledgers without a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_analytics.reconcile.ledger import Identity, Ledger, OwnedWebsite, Try
from airflow_provider_analytics.reconcile.ledger_check import Service, check, describe, read_ledger

ADDRESS = "https://stats.example.com"
OFFICES = Identity(ADDRESS, "1", "offices")
A = OwnedWebsite("a.example", {"exclude_ips": ("1.1.1.1", "2.2.2.2")})
LEDGER = Ledger(OFFICES, {"exclude_ips": ("1.1.1.1", "2.2.2.2")}, {"7": A})
TRY = Try("dag.sync", "manual", 1, "token", "2026-11-23T05:00:00+00:00")
RECORD = {"id": 7, "domain": "a.example", "exclude_ips": "2.2.2.2\n1.1.1.1\n9.9.9.9"}


def found(ledger: Ledger, *records: dict[str, Any]) -> list[str]:
    return check({"x.json": ledger}, Service(ADDRESS, "1", records) if records else None)["x.json"]


def test_a_ledger_is_read_whatever_it_belongs_to() -> None:
    assert read_ledger(LEDGER.render(), "x.json") == LEDGER
    assert describe(LEDGER) == f"list 'offices' of {ADDRESS}, account 1 owns on 1 website: exclude_ips: 2 entries"
    assert describe(Ledger(Identity(ADDRESS, None, "x"))) == f"list 'x' of {ADDRESS} owns on 0 websites: no entries"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "service": "x", "account": "1", "list": "x"}'])
def test_what_is_no_ledger_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read.*Ledger: x\.json"):
        read_ledger(text, "x.json")


def test_nothing_is_found_in_a_ledger_that_fits() -> None:
    assert found(LEDGER) == []
    assert found(LEDGER, RECORD) == []


@pytest.mark.parametrize(
    ("ledger", "text"),
    [
        (
            replace(LEDGER, lists={"exclude_ips": ("1.1.1.1",)}),
            "a.example (id 7): exclude_ips: no longer on the list, but owned: 2.2.2.2",
        ),
        (
            replace(LEDGER, owner=TRY),
            "try 1 of dag.sync in run manual took the ledger at 2026-11-23T05:00:00+00:00 and has not finished: it "
            "runs, or was killed",
        ),
        (
            replace(LEDGER, websites={"a.example": replace(A, entries={}, claimed={"exclude_ips": ("1.1.1.1",)})}),
            "a.example (new, no id yet): exclude_ips: outcome unknown until the next run: 1.1.1.1",
        ),
    ],
)
def test_a_ledger_is_checked_by_itself(ledger: Ledger, text: str) -> None:
    assert found(ledger) == [text]


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (
            [{**RECORD, "id": 8}],
            "a.example (id 7): stale: the service has no such website; a.example now has id 8",
        ),
        ([{**RECORD, "id": 8, "domain": "b.example"}], "a.example (id 7): stale: the service has no such website"),
        ([{**RECORD, "domain": "b.example"}], "a.example (id 7): stale: the id now belongs to b.example"),
        (
            [{**RECORD, "domain": "b.example"}, {**RECORD, "id": 8}],
            "a.example (id 7): stale: the id now belongs to b.example; a.example now has id 8",
        ),
        (
            [{**RECORD, "exclude_ips": "1.1.1.1"}],
            "a.example (id 7): exclude_ips: stale: owned, but not on the website: 2.2.2.2",
        ),
    ],
)
def test_a_ledger_is_compared_with_the_websites(records: list[dict[str, Any]], text: str) -> None:
    assert found(LEDGER, *records) == [text]


def test_a_field_that_the_service_does_not_show_is_not_called_stale() -> None:
    assert found(LEDGER, {"id": 7, "domain": "a.example"}) == []


def test_a_ledger_of_another_service_is_not_compared() -> None:
    [text] = check({"x.json": LEDGER}, Service(ADDRESS, "2", []))["x.json"]
    assert text == f"not compared with the websites: the connection is for {ADDRESS}, account 2"


def test_two_lists_that_own_the_same_and_two_domains_of_an_id_are_found() -> None:
    other = replace(LEDGER, identity=replace(OFFICES, list="homes"))
    texts = check({"x.json": LEDGER, "y.json": other})
    assert texts == {"x.json": [], "y.json": ["a.example (id 7): exclude_ips: x.json also owns: 1.1.1.1, 2.2.2.2"]}
    moved = replace(other, websites={"7": replace(A, domain="b.example")})
    texts = check({"x.json": LEDGER, "y.json": moved})
    assert texts["y.json"] == ["b.example (id 7): in x.json this id is a.example: one of the two is stale"]
    elsewhere = replace(other, identity=replace(OFFICES, account="2"))
    assert check({"x.json": LEDGER, "y.json": elsewhere}) == {"x.json": [], "y.json": []}


def test_what_a_ledger_says_is_printed_as_plain_text() -> None:
    evil = replace(LEDGER, lists={"exclude_ips": ()}, websites={"7": replace(A, domain="a\x1b[31m.example")})
    assert all("\x1b" not in text for text in found(evil))
    assert found(evil)
