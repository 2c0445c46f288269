# SPDX-License-Identifier: Apache-2.0
"""Plans: changes, digest, guards, and the text for an approval (``reconcile/plan/changes.py``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from guard_inputs import guarded_job, planned_for
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList
from airflow_provider_analytics.reconcile.plan.changes import Change, FieldChange, Plan, change_of
from airflow_provider_analytics.reconcile.plan.plan_guards import check_guards
from airflow_provider_analytics.reconcile.plan.plan_markdown import MAX_CHARACTERS, to_markdown

VALUES = st.none() | st.booleans() | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=3).map(tuple)
CHANGES = st.builds(
    Change,
    st.sampled_from(["create", "update", "delete"]),
    st.sampled_from(["a.example", "b.example", "c.example"]),
    st.none() | st.sampled_from(["1", "2"]),
    st.lists(
        st.builds(FieldChange, st.sampled_from(["privacy", "exclude_ips", "favorite"]), VALUES, VALUES),
        max_size=3,
        unique_by=lambda change: change.field,
    ).map(tuple),
)
PLANS = st.builds(
    Plan,
    st.lists(CHANGES, max_size=3, unique_by=lambda change: (change.action, change.domain, change.website_id)).map(
        tuple
    ),
    scope=st.dictionaries(st.sampled_from(["service", "prune"]), st.text(max_size=2) | st.booleans(), max_size=2),
    findings=st.dictionaries(st.sampled_from(["entries_lost", "many_deleted"]), st.text(max_size=2), max_size=1),
    override_guards=st.sampled_from([(), ("loss",), ("many_deleted", "entries_lost")]),
)


def update(number: int, before: tuple[str, ...], after: tuple[str, ...]) -> Change:
    return Change("update", f"{number:04}.example", str(number), (FieldChange("exclude_ips", before, after),))


def checked(changes: Iterable[Change], records: list[dict[str, Any]], limit: float) -> Plan:
    """Return the plan of these changes, with the findings of the guards."""
    planned = planned_for(Plan(tuple(changes), len(records)), records, None)
    return check_guards(guarded_job(limit), planned)


def gone(number: int) -> list[Change]:
    """Return this number of deletes."""
    return [Change("delete", f"{item}.example", str(item), ()) for item in range(number)]


def addresses(count: int) -> tuple[str, ...]:
    return tuple(f"10.0.0.{number}" for number in range(count))


@settings(deadline=None)
@given(element=PLANS, other=PLANS)
def test_plan_has_a_digest_and_survives_json(element: Plan, other: Plan) -> None:
    assert (element == other) == (element.digest == other.digest)
    assert Plan.from_dict(json.loads(json.dumps(element.to_dict()))) == element
    assert replace(element, changes=element.changes[::-1]).digest == element.digest


def test_edited_plan_is_rejected() -> None:
    data = Plan((update(1, (), ("1.1.1.1",)),)).to_dict()
    data["changes"][0]["fields"]["exclude_ips"][1] = ["6.6.6.6"]
    with pytest.raises(ValueError, match="was edited"):
        Plan.from_dict(data)
    with pytest.raises(ValueError, match="not a complete plan"):
        Plan.from_dict(Plan((update(1, (), ("1.1.1.1",)),)).report(5))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        # A moved office: every address is another one, and every list is as long as before.
        (addresses(2), ("203.0.113.1", "203.0.113.2"), None),
        (("# a", *addresses(1)), addresses(5), None),
        ((*["# a"] * 20, *addresses(3)), addresses(2), "10 of 30 exclude_ips entries would be lost (33%, more than"),
        # The number of lost entries of a list on a single line is unknown, so its words count.
        (("192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4",), ("192.0.2.9",), "30 of 40 exclude_ips entries would be lost"),
    ],
)
def test_replaced_lists_lose_only_the_difference_in_size(
    before: tuple[str, ...], after: tuple[str, ...], message: str | None
) -> None:
    records = [{"id": number, "exclude_ips": "\n".join(before)} for number in range(10)]
    unsafe = checked([update(number, before, after) for number in range(10)], records, 0.3).guard_message
    assert unsafe is None if message is None else (unsafe or "").startswith(message)


def test_guard_names_the_five_worst_websites_and_their_entries() -> None:
    records = [{"id": number, "exclude_ips": "\n".join(addresses(20))} for number in range(1, 9)]
    lines = (
        checked([update(n, addresses(20), addresses(20)[n:]) for n in range(1, 9)], records, 0.1).guard_message or ""
    ).split("\n")
    allowed = "more than max_loss_fraction=0.1 allows"
    assert lines[0] == f"36 of 160 exclude_ips entries would be lost (22%, {allowed})."
    assert lines[1] == "The first 5:"
    assert lines[2] == "- 0008.example (id 8) loses 10.0.0.0, 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 and 3 more"
    assert [line[2:6] for line in lines[2:7]] == ["0008", "0007", "0006", "0005", "0004"]


def opening(number: int, before: str | None = "private") -> Change:
    return Change("update", f"{number}.example", str(number), (FieldChange("privacy", before, "public"),))


@pytest.mark.parametrize("closed", [{"privacy": "2"}, {"privacy": None}, {}], ids=["password", "null", "not shown"])
def test_pages_that_become_public_are_compared_with_private_pages(closed: dict[str, Any]) -> None:
    shown: list[dict[str, Any]] = [{"privacy": 0}] * 90 + [closed] * 10
    records = [{"id": number, "domain": f"{number}.example", **element} for number, element in enumerate(shown)]
    unsafe = checked([opening(number) for number in range(90, 94)], records, 0.3).guard_message or ""
    assert unsafe.startswith("4 of 10 statistics pages that are not public would become public (40%, more than")
    assert "90.example (id 90)" in unsafe
    assert checked([opening(number) for number in range(90, 93)], records, 0.3).guard_message is None


def test_public_page_of_a_new_website_is_listed_first_and_not_blocked() -> None:
    new = [Change("create", f"{n}.example", None, (FieldChange("privacy", None, "public"),)) for n in range(50)]
    plan = checked(new, [], 0.3)
    assert (plan.guard_message, len(plan.made_public)) == (None, 50)
    assert "\n\n**50 statistics pages become public:** `0.example`, `1.example`" in to_markdown(plan)


def test_deletions_and_public_pages_are_listed_first_if_changes_are_cut() -> None:
    changes = [update(number, (), ("1.1.1.1",)) for number in range(200)]
    plan = Plan((*changes, opening(999), Change("delete", "z.example", "900", ())))
    assert plan.report(2)["changes"] == [
        "delete z.example (id 900)",
        "update 999.example (id 999): privacy private → public",
    ]
    assert len(json.dumps(Plan(tuple(update(n, (), addresses(25)) for n in range(200))).report(20))) < 3000
    assert to_markdown(plan, url="https://x/log").splitlines()[-1] == "The whole plan is in the log: <https://x/log>"
    for complete in (to_markdown(plan, is_whole=True, url="x"), to_markdown(Plan(tuple(changes[:1])), url="x")):
        assert "The whole plan" not in complete


def test_approval_text_starts_with_every_effect_for_any_length_of_the_plan() -> None:
    deletes = [Change("delete", f"gone-{n}.example", f"9{n}", ()) for n in range(120)]
    updates = [update(number, (), ("203.0.113.7",)) for number in range(300)]
    emails = [Change("update", f"e{n}.example", f"8{n}", (FieldChange("email", False, True),)) for n in range(2)]
    text = to_markdown(Plan((*updates, *emails, *deletes, opening(1), opening(2))))
    delete, update_ = text.split("### Delete (120)\n\n")[1].split("\n### Update (304)\n\n")
    assert delete.startswith("- delete 120 websites: `gone-0.example (id 90)`, ")
    effects = update_.splitlines()
    assert effects[0] == "- privacy: `private` → `public` on 2 websites: `1.example (id 1)`, `2.example (id 2)`"
    assert effects[1].startswith("- exclude_ips: add `203.0.113.7` on 300 websites: `0000.example (id 0)`, ")
    assert effects[1].endswith(" and 280 more")
    assert effects[2] == "- email: `false` → `true` on 2 websites: `e0.example (id 80)`, `e1.example (id 81)`"
    # If all values differ, every effect is named nevertheless.
    own = [update(number, (), (f"10.0.{number // 200}.{number % 200}",)) for number in range(500)]
    text = to_markdown(Plan((*own, *deletes, opening(1))))
    assert all(f"`10.0.{number // 200}.{number % 200}`" in text for number in range(500))


@pytest.mark.parametrize(
    ("websites", "entries"),
    [(1, 13_000), (200, 50), (300, 25)],
    ids=["one long list", "lists of 50 entries", "lists of 25 entries"],
)
def test_markdown_of_a_long_plan_is_limited_and_counts_the_rest(websites: int, entries: int) -> None:
    def update_of(number: int) -> Change:
        return update(number, (), tuple(f"2001:db8::{number:x}:{entry:x}" for entry in range(entries)))

    deletes = [Change("delete", f"gone-{n}.example", f"9{n}", ()) for n in range(40)]
    opened = [opening(number) for number in range(500, 530)]
    warnings = tuple(f"{number}: {'long ' * 400}" for number in range(60))
    shortened = update(600, ("192.0.2.9",), ())
    plan = Plan((*map(update_of, range(websites)), shortened, *deletes, *opened), warnings=warnings)
    text = to_markdown(plan, url=f"https://{'x' * 200}/log")
    assert 50_000 < len(text) <= 60_000
    assert "And 40 more warnings." in text
    assert "- delete 40 websites: " in text
    assert "- privacy: `private` → `public` on 30 websites: " in text
    assert "- exclude_ips: remove `192.0.2.9` on 1 website: " in text
    [omitted] = re.findall("^- exclude_ips: add ([0-9,]+) more$", text, re.MULTILINE)
    assert text.count("- exclude_ips: add `") + int(omitted.replace(",", "")) == websites * entries
    assert len(to_markdown(plan, is_whole=True)) > 60_000


def test_markdown_lists_the_websites_of_a_guard_below_its_finding() -> None:
    plan = replace(Plan((opening(1),)), findings={"made_public": "4 of 10 pages.\n- 1.example", "no_match": "None."})
    blocked, cases, other, counts = to_markdown(plan).split("\n\n")[1:5]
    assert blocked.endswith("override_guards=made_public:** 4 of 10 pages.")
    assert cases == "- `1.example`"
    assert other.endswith("override_guards=no_match:** None.")
    assert counts.startswith("**1 statistics page becomes public:**")


def test_markdown_has_every_kind_of_change() -> None:
    fields = (
        FieldChange("privacy", "public", "password"),
        FieldChange("password_from", None, "variable:page_password"),
        FieldChange("exclude_ips", ("1.1.1.1", "2.2.2.2 # x`y|<b>"), ("1.1.1.1", "3.3.3.3")),
    )
    create = Change("create", "new.example", None, (FieldChange("privacy", None, "private"),))
    delete = Change("delete", "gone.example", "8", (FieldChange("privacy", "public", None),))
    plan = Plan((create, Change("update", "old.example", "7", fields), delete), websites_compared=12)
    assert to_markdown(plan) == (
        "**1 to create, 1 to update, 1 to delete**, 12 websites compared.\n"
        "\n"
        f"Digest `{plan.digest}`\n"
        "\n### Delete (1)\n\n"
        "- delete 1 website: `gone.example (id 8)`\n"
        "\n### Create (1)\n\n"
        "- create 1 website: `new.example`\n"
        "- privacy: `private` on 1 website: `new.example`\n"
        "\n### Update (1)\n\n"
        "- exclude_ips: remove `` 2.2.2.2 # x`y|<b> `` on 1 website: `old.example (id 7)`\n"
        "- exclude_ips: add `3.3.3.3` on 1 website: `old.example (id 7)`\n"
        "- password_from: `variable:page_password` on 1 website: `old.example (id 7)`\n"
        "- privacy: `public` → `password` on 1 website: `old.example (id 7)`\n"
    )
    assert "Nothing to change." in to_markdown(Plan(()))


def test_report_counts_the_entries_of_remaining_websites_only() -> None:
    deleted = Change("delete", "gone.example", "2", (FieldChange("exclude_ips", ("10.0.0.1", "10.0.0.2"), None),))
    report = Plan((update(1, ("10.0.0.1",), ("10.0.0.3", "10.0.0.4")), deleted)).report(10)
    assert (report["entries_added"], report["entries_removed"]) == (2, 1)


def test_deletions_and_public_pages_are_named_up_to_the_limit() -> None:
    changes = (*gone(300), *[opening(number) for number in range(1000, 1300)])
    text = to_markdown(Plan(changes, 1000))
    assert len(text) <= MAX_CHARACTERS
    missing = [change.website for change in changes if f"`{change.website}`" not in text]
    assert missing == []


def test_deletions_and_public_pages_beyond_the_limit_are_counted() -> None:
    text = to_markdown(Plan((*gone(5000), *[opening(number) for number in range(10_000, 15_000)]), 10_000))
    assert len(text) <= MAX_CHARACTERS
    [public] = re.findall(r"^\*\*5,000 statistics pages become public:\*\* (.*) and ([\d,]+) more$", text, re.MULTILINE)
    [deleted] = re.findall(r"^- delete 5,000 websites: (.*) and ([\d,]+) more$", text, re.MULTILINE)
    for names, more in (public, deleted):
        assert names.count("`") // 2 + int(more.replace(",", "")) == 5000
        assert names.count("`") // 2 > 500


def test_warning_of_several_lines_has_a_line_for_each() -> None:
    warning = (
        "Overridden guard many_deleted: 4 of 10 websites would be deleted.\n- 1.example (id 1)\n- 2.example (id 2)"
    )
    text = to_markdown(Plan(tuple(gone(4)), 10, warnings=(warning,)))
    assert "\\n" not in text
    assert (
        "**Warning:** `Overridden guard many_deleted: 4 of 10 websites would be deleted.`\n\n"
        "- `1.example (id 1)`\n- `2.example (id 2)`\n"
    ) in text


def test_replaced_list_in_an_unknown_form_counts_as_the_lines_that_it_has() -> None:
    website = DesiredWebsite(lists={"exclude_ips": EntryList.of(("1.1.1.1",))})
    desired = DesiredState(by_id={"1": website}, modes={"exclude_ips": "replace"})
    change = change_of(desired, {"id": 1, "domain": "a.example", "exclude_ips": "2.2.2.2, 3.3.3.3"})
    assert change is not None
    (field_change,) = change.fields
    assert (field_change.before, field_change.after) == (("2.2.2.2, 3.3.3.3",), ("1.1.1.1",))
