# SPDX-License-Identifier: Apache-2.0
"""Guards of plans and lists at their limits, and approvals of plans (``reconcile/plan/plan_guards.py``)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from guard_inputs import guarded_job, planned_for

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.reconcile.desired.list_lines import EntrySource
from airflow_provider_analytics.reconcile.desired.tables import EVERYWHERE, Identity, ListTables, Run, Table
from airflow_provider_analytics.reconcile.plan.changes import Change, FieldChange, Plan
from airflow_provider_analytics.reconcile.plan.plan_guards import (
    check_guards,
    managed_lists_lose_entries,
    parse_digest,
    raise_unless_approved,
    raise_unless_remainder,
)

NOW = datetime(2026, 11, 23, 1, 30, tzinfo=UTC)
RUN = Run("dag/run", "sync", NOW)
ENTRIES = [f"192.0.2.{number}" for number in range(10)]


def lists_after(sources: dict[str, EntrySource], remaining: list[str]) -> ListTables:
    """Return the tables of a list from which some entries were removed today."""
    rows = {"exclude_ips": {EVERYWHERE: sources}}
    now = {"exclude_ips": {EVERYWHERE: {entry: sources[entry] for entry in remaining}}}
    yesterday = NOW - timedelta(days=1)
    before = Table(Identity("https://stats.example.com", "1", "office")).with_run(rows, {}, RUN, yesterday.date())
    return ListTables(before, (), RUN, NOW.date(), now)


@pytest.mark.parametrize(
    ("days", "blocked"),
    [
        pytest.param(None, True, id="no expiration date"),
        pytest.param(1, True, id="the day before it"),
        pytest.param(0, True, id="on it"),
        pytest.param(-1, False, id="after it"),
    ],
)
def test_entries_removed_before_the_end_of_their_expiration_date_count_as_lost(days: int | None, blocked: bool) -> None:
    until = None if days is None else NOW.date() + timedelta(days=days)
    lists = lists_after(dict.fromkeys(ENTRIES, EntrySource(until=until)), ENTRIES[4:])
    assert bool(managed_lists_lose_entries(guarded_job(0.3, lists=lists))) is blocked


@pytest.mark.parametrize(("lost", "blocked"), [(3, False), (4, True)])
def test_list_can_lose_exactly_30_percent(lost: int, blocked: bool) -> None:
    lists = lists_after(dict.fromkeys(ENTRIES, EntrySource()), ENTRIES[lost:])
    assert bool(managed_lists_lose_entries(guarded_job(0.3, lists=lists))) is blocked


@pytest.mark.parametrize(
    ("override", "remaining", "blocked"), [("empty_list", 0, False), ("empty_list", 1, True), ("", 0, True)]
)
def test_overridden_empty_list_can_lose_all_entries_but_not_most(override: str, remaining: int, blocked: bool) -> None:
    lists = lists_after(dict.fromkeys(ENTRIES, EntrySource()), ENTRIES[:remaining])
    assert bool(managed_lists_lose_entries(guarded_job(0.3, {override}, lists))) is blocked


def update(website_id: int, *fields: FieldChange) -> Change:
    return Change("update", f"{website_id}.example", str(website_id), fields)


def findings(changes: list[Change], records: list[dict[str, Any]], limit: float = 0.3) -> set[str]:
    planned = planned_for(Plan(tuple(changes), len(records)), records, None)
    return set(check_guards(guarded_job(limit), planned).findings)


def records_with(number: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": item, "domain": f"{item}.example", **fields} for item in range(number)]


@pytest.mark.parametrize(
    ("websites", "deleted", "limit", "found"),
    [
        (10, 3, 0.3, set()),
        (10, 4, 0.3, {"many_deleted"}),
        (9, 8, 0.3, set()),
        (9, 9, 0.3, {"empty_list"}),
        (10, 10, 0.3, {"empty_list"}),
        (10, 0, 0.0, set()),
        (10, 1, 0.0, {"many_deleted"}),
        (10, 9, 1.0, set()),
    ],
)
def test_plan_can_delete_the_allowed_fraction_but_never_all(
    websites: int, deleted: int, limit: float, found: set[str]
) -> None:
    changes = [Change("delete", f"{item}.example", str(item), ()) for item in range(deleted)]
    assert findings(changes, records_with(websites), limit) == found


@pytest.mark.parametrize(
    ("private", "opened", "found"),
    [(10, 3, set()), (10, 4, {"made_public"}), (9, 9, set()), (20, 6, set()), (20, 7, {"made_public"})],
)
def test_plan_can_make_30_percent_of_the_private_pages_public(private: int, opened: int, found: set[str]) -> None:
    records = [*records_with(private, privacy=1), *records_with(50, privacy=0)]
    changes = [update(item, FieldChange("privacy", "private", "public")) for item in range(opened)]
    assert findings(changes, records) == found


@pytest.mark.parametrize(("lost", "found"), [(3, set()), (4, {"entries_lost"})])
def test_lists_can_lose_30_percent_of_the_entries_of_all_websites(lost: int, found: set[str]) -> None:
    records = records_with(5, exclude_ips="192.0.2.1\n192.0.2.2")
    before = ("192.0.2.1", "192.0.2.2")
    element = [update(number, FieldChange("exclude_ips", before, before[:1])) for number in range(min(lost, 3))]
    both = [update(4, FieldChange("exclude_ips", before, before[:1]))] if lost > 3 else []
    assert findings([*element, *both], records) == found


def test_entries_of_deleted_websites_do_not_count_as_lost() -> None:
    records = records_with(20, exclude_ips="192.0.2.1")
    lists = FieldChange("exclude_ips", tuple(ENTRIES), None)
    assert findings([Change("delete", f"{item}.example", str(item), (lists,)) for item in range(3)], records) == set()


def deleted(websites: range) -> list[Change]:
    return [Change("delete", f"{item}.example", str(item), ()) for item in websites]


@pytest.mark.parametrize("number", [3, 4])
def test_pages_and_entries_of_deleted_websites_are_no_part_of_the_total(number: int) -> None:
    records = records_with(14, privacy=1, exclude_ips="192.0.2.1")
    opening = [update(item, FieldChange("privacy", "private", "public")) for item in range(number)]
    losing = [update(item, FieldChange("exclude_ips", ("192.0.2.1",), ())) for item in range(number)]
    for guard, changes in (("made_public", opening), ("entries_lost", losing)):
        assert findings(changes, records) == set()
        # 3 or 4 of 10 websites, because 4 of the 14 are deleted.
        found = findings([*changes, *deleted(range(10, 14))], records)
        assert found == ({guard} if number == 4 else set())


@pytest.mark.parametrize(("missing", "found"), [(3, set()), (4, {"fewer_websites"})])
def test_missing_websites_are_compared_with_those_of_the_last_run(missing: int, found: set[str]) -> None:
    last = {(str(item), f"{item}.example") for item in range(10)}
    created = {(str(item), f"{item}.example") for item in range(100, 150)}
    listed = {key for key in last if int(key[0]) >= missing} | created
    records = [{"id": website_id, "domain": domain} for website_id, domain in listed]
    assert set(check_guards(guarded_job(0.3), planned_for(Plan(()), records, last)).findings) == found


def test_deleted_websites_are_compared_with_all_websites() -> None:
    unchanged = [update(item, FieldChange("privacy", "private", "secret")) for item in range(4, 8)]
    assert findings([*deleted(range(4)), *unchanged], records_with(14)) == set()


@pytest.mark.parametrize(("number", "start"), [(1, "The only website would"), (12, "All 12 websites would")])
def test_finding_about_the_loss_of_all_websites_says_why(number: int, start: str) -> None:
    changes = tuple(Change("delete", f"{item}.example", str(item), ()) for item in range(number))
    plan = check_guards(guarded_job(0.3), planned_for(Plan(changes), records_with(number), None))
    problem = plan.findings["empty_list"].splitlines()[0]
    assert problem.startswith(start)
    assert "because the websites file" in problem


def test_overridden_finding_is_a_warning() -> None:
    changes = tuple(Change("delete", f"{item}.example", str(item), ()) for item in range(4))
    planned = planned_for(Plan(changes, 10, warnings=("first",)), records_with(10), None)
    plan = check_guards(guarded_job(0.3, ["many_deleted"]), planned)
    assert (dict(plan.findings), plan.override_guards) == ({}, ("many_deleted",))
    assert plan.warnings[0] == "first"
    assert plan.warnings[1].startswith("Overridden guard many_deleted: 4 of 10 websites would be deleted")


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
        pytest.param(
            (ADD_1, ADD_2, Change("update", "n.example", "5", (FieldChange("privacy", "public", "private"),)), GONE),
            [{**MADE, "favorite": 1}, *ALL],
            id="created with another value",
        ),
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
