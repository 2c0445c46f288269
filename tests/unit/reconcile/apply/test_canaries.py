# SPDX-License-Identifier: Apache-2.0
"""Canaries: the order in which the websites of a plan are changed first (``reconcile/apply/canaries.py``)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_analytics.api.verification import ExpectedRecord
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.reconcile.apply.canaries import Canaries
from airflow_provider_analytics.reconcile.apply.results import State, Update
from airflow_provider_analytics.reconcile.plan.plan import Change, FieldChange

NEW = "203.0.113.7"


def update_of(website_id: int) -> Update:
    change = FieldChange("exclude_ips", (), (NEW,))
    return Update(Change("update", f"{website_id}.example", str(website_id), (change,)))


def record_of(website_id: int, **settings: Any) -> dict[str, Any]:
    return {"id": website_id, "domain": f"{website_id}.example", "privacy": 1, "exclude_bots": 1, **settings}


def changed(update: Update, before: dict[str, Any], **unsent_changes: Any) -> Update:
    """Set the result of an empty update: the record before it, and the changes of the service."""
    update.set(State.APPLIED)
    update.expected = ExpectedRecord(before, {})
    update.comparison = update.expected.compare({**before, **unsent_changes})
    return update


def test_website_with_most_to_lose_is_the_first_canary() -> None:
    records = {str(number): record_of(number) for number in range(1, 21)}
    records["7"] = record_of(7, favorite=True, email=1, exclude_params="utm # Ann")
    canaries = Canaries([update_of(number) for number in range(1, 21)], records)
    first = canaries.next()
    assert first is not None
    assert first.website_id == "7"


def test_canaries_with_equal_risks_are_picked_in_random_order() -> None:
    records = {str(number): record_of(number) for number in range(1, 21)}
    first = set()
    for seed in range(40):
        RANDOM.seed(seed)
        canary = Canaries([update_of(number) for number in range(1, 21)], records).next()
        assert canary is not None
        first.add(canary.website_id)
    assert len(first) > 5


def test_third_website_that_checks_an_unsent_change_is_random() -> None:
    """Another task starts with the same websites, so the website with the next most to lose is likely to be changed."""
    lists = {number: "\n".join(f"param{line}" for line in range(number)) for number in range(1, 21)}
    records = {str(number): record_of(number, exclude_params=lists[number]) for number in range(1, 21)}
    second = set()
    for seed in range(40):
        RANDOM.seed(seed)
        canaries = Canaries([update_of(number) for number in range(1, 21)], records)
        first = canaries.next()
        assert first is not None
        assert first.website_id == "20"
        changed(first, records["20"], exclude_bots=False)
        assert {finding.field for finding in first.findings} == {"exclude_bots"}
        canaries.note(first)
        deciding = canaries.next()
        assert deciding is not None
        second.add(deciding.website_id)
    assert len(second) > 5


def test_canary_decides_only_about_its_own_risks() -> None:
    """The second canary cannot lose the private page, so a third website is the control."""
    records = {"1": record_of(1), "2": record_of(2, privacy=0), "3": {"id": 3, "domain": "3.example", "privacy": 1}}
    updates = {number: update_of(number) for number in (1, 2, 3)}
    canaries = Canaries([updates[1]], records)
    assert canaries.next() is updates[1]
    first = changed(updates[1], records["1"], privacy=0, exclude_bots=False)
    assert {finding.field for finding in first.findings} == {"exclude_bots", "privacy"}
    canaries = Canaries(updates.values(), records)
    canaries.note(first)
    second = changed(updates[2], records["2"])
    assert not second.findings
    canaries.note(second)
    assert canaries.next() is updates[3]


def not_stored(website_id: int, name: str, value: Any) -> Update:
    """Return an update whose value is not in effect."""
    before = record_of(website_id, exclude_ips="", exclude_params="", email=0)
    update = Update(Change("update", f"{website_id}.example", str(website_id), (FieldChange(name, None, value),)))
    update.set(State.FAILED)
    update.expected = ExpectedRecord(before, {name: value})
    update.comparison = update.expected.compare(before)
    return update


@pytest.mark.parametrize(
    ("first", "second", "fields"),
    [
        (("exclude_ips", (NEW,)), ("exclude_ips", (NEW,)), {"exclude_ips"}),
        (("exclude_params", ("utm",)), ("exclude_ips", (NEW,)), {"exclude_ips", "exclude_params"}),
        (("email", True), ("exclude_ips", (NEW,)), set()),
        (("email", True), ("privacy", "public"), set()),
    ],
)
def test_two_canaries_without_their_values_count_for_the_same_field_or_two_lists(
    first: tuple[str, Any], second: tuple[str, Any], fields: set[str]
) -> None:
    updates = [not_stored(1, *first), not_stored(2, *second)]
    canaries = Canaries(updates, {})
    canaries.note(updates[0])
    assert {finding.field for finding in canaries.repeated(updates[1])} == fields
