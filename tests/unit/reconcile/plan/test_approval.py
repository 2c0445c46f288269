# SPDX-License-Identifier: Apache-2.0
"""Approvals: an approved plan is applied completely or not at all (``reconcile/plan/plan_guards.py``)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.reconcile.plan.changes import Change, FieldChange, Plan
from airflow_provider_analytics.reconcile.plan.plan_guards import (
    parse_digest,
    raise_unless_approved,
    raise_unless_remainder,
)


def listing(number: int, before: str, after: str) -> Change:
    fields = (FieldChange("exclude_ips", tuple(before.split()), tuple(after.split())),)
    return Change("update", f"{number}.example", str(number), fields)


def setting(domain: str, website_id: str | None, **values: Any) -> Change:
    fields = tuple(FieldChange(name, None, value) for name, value in values.items())
    return Change("update" if website_id else "create", domain, website_id, fields)


def gone(domain: str, website_id: str) -> Change:
    return Change("delete", domain, website_id, ())


ADD_1, ADD_2 = listing(1, "", "1.1.1.1"), listing(2, "", "1.1.1.1")
NEW, GONE = setting("n.example", None, privacy="private", favorite=True), gone("g.example", "9")
WHOLE = (ADD_1, ADD_2, NEW, GONE)
APPROVED = Plan(WHOLE)
ONE, TWO = ({"id": number, "domain": f"{number}.example", "exclude_ips": None} for number in (1, 2))
DONE = {"id": 2, "domain": "2.example", "exclude_ips": "7.7.7.7\r\n::ffff:1.1.1.1"}
MADE = {"id": 5, "domain": "N.example.", "privacy": 1, "favorite": 0}
MARKED = {**MADE, "favorite": "1"}
DOOMED = {"id": 9, "domain": "g.example"}
ALL: list[dict[str, Any]] = [ONE, TWO, DOOMED]


@pytest.mark.parametrize(
    ("planned", "records"),
    [
        pytest.param(WHOLE, ALL, id="nothing was done"),
        pytest.param((ADD_1, NEW, GONE), [ONE, DONE, DOOMED], id="an update was applied"),
        pytest.param((listing(1, "3.3.3.3", "3.3.3.3 1.1.1.1"), ADD_2, NEW, GONE), ALL, id="somebody typed an entry"),
        pytest.param((ADD_1, ADD_2, setting("n.example", "5", favorite=True), GONE), [MADE, *ALL], id="created"),
        pytest.param((), [{**ONE, "exclude_ips": "1.1.1.1"}, DONE, MARKED], id="all was done"),
    ],
)
def test_remainder_of_an_approved_plan_can_be_applied(planned: tuple[Change, ...], records: list[Any]) -> None:
    raise_unless_remainder(Plan(planned), APPROVED, records)


@pytest.mark.parametrize(
    ("planned", "records", "message"),
    [
        ((ADD_1, NEW, GONE), ALL, r"no longer planned: update 2\.example \(id 2\): exclude_ips add 1\.1\.1\.1"),
        ((ADD_1, ADD_2, GONE), ALL, "no longer planned: create n.example"),
        ((ADD_1, ADD_2, NEW), ALL, "no longer planned: delete g.example"),
        ((), [], "no longer planned: update 1.example"),  # the websites are gone
        ((*WHOLE, listing(3, "", "1.1.1.1")), ALL, "not approved: update 3.example"),
        ((listing(1, "", "6.6.6.6"), ADD_2, NEW, GONE), ALL, "not approved: .*exclude_ips add 6.6.6.6"),
        # A person typed the entry, and the file replaces the list.
        ((listing(1, "8.8.8.8", "1.1.1.1"),), ALL, "not approved: .*exclude_ips remove 8.8.8.8"),
        ((setting("n.example", "5", privacy="public"),), [MADE], "not approved: .*privacy public"),
        # Somebody else created the website with a value that no new website of this plan has.
        (
            (Change("update", "n.example", "5", (FieldChange("privacy", "password", "private"),)),),
            [MADE],
            "not approved: .*privacy password → private",
        ),
        ((gone("n.example", "5"),), [MADE], "not approved: delete n.example"),  # created, then deleted
        # The domain has another id now, and the id has another domain.
        ((gone("g.example", "10"),), [{**DOOMED, "id": 10}], "not approved: delete g.example"),
        (
            (ADD_1, ADD_2, NEW, gone("important.example", "9")),
            [ONE, TWO, {**DOOMED, "domain": "important.example"}],
            "not approved: delete important.example",
        ),
    ],
)
def test_other_changes_are_rejected_by_the_approval(
    planned: tuple[Change, ...], records: list[Any], message: str
) -> None:
    with pytest.raises(GuardError, match=f"(?s)^The plan is not the approved one.*{message}"):
        raise_unless_remainder(Plan(planned), APPROVED, records)


def test_change_is_compared_with_the_approval_right_before_it_is_sent() -> None:
    raise_unless_approved(None, APPROVED)
    raise_unless_approved(listing(1, "", "1.1.1.1"), APPROVED)
    with pytest.raises(ValueError, match=r"since the plan was approved: .*exclude_ips remove 7\.7\.7\.7"):
        raise_unless_approved(listing(1, "7.7.7.7", "1.1.1.1"), APPROVED)


def test_setting_changed_since_the_approval_is_another_change() -> None:
    def opening(before: str) -> Plan:
        return Plan((Change("update", "a.example", "1", (FieldChange("privacy", before, "public"),)),))

    with pytest.raises(GuardError, match=r"not approved: .*privacy password → public"):
        raise_unless_remainder(opening("password"), opening("private"), [])


DIGEST = APPROVED.digest


def answer(option: str = "Approve", **params: Any) -> dict[str, Any]:
    return {"chosen_options": [option], "params_input": params or None}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(answer("Reject", approved_digest=DIGEST), "not approved. Response: .*Reject", id="rejected"),
        pytest.param(
            answer(), r'no digest of a plan.*"params_input": \{"approved_digest": "\.\.\."\}', id="no digest was sent"
        ),
        pytest.param({"digest": DIGEST}, "Allowed: the digest of a plan, or the output", id="no answer"),
        pytest.param(DIGEST[1:], "Allowed: the digest of a plan, or the output", id="no digest"),
        *(
            pytest.param(item, "The plan was not approved", id=f"only marked as success: {item!r}")
            for item in (None, "None", "")
        ),
    ],
)
def test_invalid_approval_is_rejected(value: Any, message: str) -> None:
    with pytest.raises((GuardError, ValueError), match=f"(?s){message}"):
        parse_digest(value)


def test_response_of_a_person_is_an_approval() -> None:
    assert parse_digest(answer(approved_digest=DIGEST)) == parse_digest(f"{DIGEST}\n") == DIGEST


def test_settings_of_the_approval_must_be_equal() -> None:
    approved = Plan(WHOLE, scope={"service": "https://stats.example.com", "prune": True})
    raise_unless_remainder(Plan(WHOLE, scope=approved.scope), approved, ALL)
    with pytest.raises(GuardError, match="approved for other settings: prune was True, here it is False"):
        raise_unless_remainder(Plan(WHOLE, scope={**approved.scope, "prune": False}), approved, ALL)


def test_overridden_guards_of_the_approval_must_be_equal() -> None:
    accepted = Plan(WHOLE, override_guards=("many_deleted",))
    raise_unless_remainder(accepted, accepted, ALL)
    with pytest.raises(GuardError, match=r"override_guards was \[\], here it is \['many_deleted'\]"):
        raise_unless_remainder(accepted, APPROVED, ALL)
    with pytest.raises(GuardError, match=r"override_guards was \['many_deleted'\], here it is \[\]"):
        raise_unless_remainder(APPROVED, accepted, ALL)
    blocked = Plan(WHOLE, findings={"many_deleted": "4 of 10 websites would be deleted"})
    with pytest.raises(GuardError, match="4 of 10 websites would be deleted"):
        raise_unless_remainder(blocked, APPROVED, ALL)


def test_website_that_was_created_is_updated_to_the_approved_values() -> None:
    update = Change("update", "n.example", "5", (FieldChange("privacy", "public", "private"),))
    raise_unless_remainder(Plan((ADD_1, ADD_2, update, GONE)), APPROVED, [{**MADE, "favorite": 1}, *ALL])
