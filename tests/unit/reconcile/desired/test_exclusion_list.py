# SPDX-License-Identifier: Apache-2.0
"""Exclusion lists: the payload by mode and current value (``reconcile/desired/exclusion_list.py``)."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_analytics.api.entries import Addresses
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, read_list
from airflow_provider_analytics.reconcile.desired.tables import Identity, Run, Table
from airflow_provider_analytics.reconcile.desired.yaml_values import ProblemsError
from airflow_provider_analytics.reconcile.plan.changes import Plan, plan_changes, reconcile

# Without unspecified addresses, also mapped ones: Python versions write them in different ways.
ADDRESSES = st.ip_addresses().filter(lambda address: int(address) not in (0, 0xFFFF << 32)).map(str)


def planned(mode: str, shown: object, *entries: str) -> Plan:
    """Return the plan of a list for a website with this current list."""
    record = {"id": 1, "domain": "a.example", "exclude_ips": shown}
    return plan_changes(ExclusionList("exclude_ips", mode, EntryList.of(entries)).resolve([record]), [record])


HERE = "# Ann\n1.1.1.1 # home\n2.2.2.2"


@pytest.mark.parametrize(
    ("mode", "wanted", "owned", "after"),
    [
        ("merge", "1.1.1.1 9.9.9.9", "", f"{HERE}\n9.9.9.9"),
        ("merge", "2.2.2.2", "", HERE),
        ("replace", "9.9.9.9 1.1.1.1", "", "# Ann\n1.1.1.1 # home\n9.9.9.9"),
        ("replace", "2.2.2.2 1.1.1.1", "", HERE),
        ("replace", "", "", ""),  # drops comments too
        ("managed", "9.9.9.9", "2.2.2.2", "# Ann\n1.1.1.1 # home\n9.9.9.9"),
        ("managed", "1.1.1.1", "", HERE),  # an entry typed by hand is not owned
        ("managed", "2.2.2.2", "2.2.2.2", HERE),
        ("managed", "", "8.8.8.8", HERE),  # it is already gone
        ("managed", "8.8.8.8", "8.8.8.8", f"{HERE}\n8.8.8.8"),  # added again
    ],
)
def test_exclusion_list_by_mode_and_current_value(mode: str, wanted: str, owned: str, after: str) -> None:
    lines = reconcile("exclude_ips", tuple(HERE.splitlines()), tuple(wanted.split()), mode, tuple(owned.split()))
    assert "\n".join(lines) == after


LINES = st.lists(ADDRESSES, max_size=6).map(tuple)


@settings(deadline=None)
@given(current=LINES, given_list=LINES, owned=LINES, mode=st.sampled_from(["merge", "replace", "managed"]))
def test_list_reaches_its_desired_value_and_remains_unchanged(
    current: tuple[str, ...], given_list: tuple[str, ...], owned: tuple[str, ...], mode: str
) -> None:
    wanted = read_list("exclude_ips", given_list, Addresses()).entries
    after = reconcile("exclude_ips", current, wanted, mode, owned)
    keys = {Addresses().key(line) for line in after}
    before = {Addresses().key(line) for line in current}
    expected = {
        "merge": before | set(wanted),
        "replace": set(wanted),
        "managed": (before - set(owned)) | set(wanted),
    }
    assert keys == expected[mode]
    assert reconcile("exclude_ips", after, wanted, mode, tuple(entry for entry in owned if entry in wanted)) == after


@pytest.mark.parametrize(
    ("mode", "shown", "after"),
    [
        # The same list in other forms, and no list.
        *(
            ("replace", same, None)
            for same in (
                "  2.2.2.2  \r\n\r\n 1.1.1.1\r\n",
                "\ufeff1.1.1.1\r2.2.2.2",
                ["", "\ufeff1.1.1.1\r", " 2.2.2.2"],
            )
        ),
        *(("managed", empty, []) for empty in (None, " \r\n", [], [""], "\ufeff")),
        # Lines of people are kept.
        *(
            ("merge", text, [text])
            for text in ("10.0.0.1 # Ann", "# office", "10.0.*.*", "10.0.0.1-10.0.0.9", "2001:db8:*")
        ),
        # Values in an unknown form are only replaced.
        *(("replace", shown, []) for shown in (7, {"a": 1}, "10.0.0.1,10.0.0.2")),
    ],
    ids=str,
)
def test_update_payload_by_current_value_and_mode(mode: str, shown: object, after: list[str] | None) -> None:
    changes = planned(mode, shown, "1.1.1.1", "2.2.2.2").changes
    assert [change.settings["exclude_ips"] for change in changes] == (
        [] if after is None else [[*after, "1.1.1.1", "2.2.2.2"]]
    )


@pytest.mark.parametrize("mode", ["merge", "managed"])
@pytest.mark.parametrize(
    ("shown", "message"),
    [
        *((shown, "The service returns exclude_ips as '.*'. This form is not supported") for shown in (7, {"a": 1})),
        *(
            (
                text,
                "the line '.*', which has several entries or is cut off. This form is not supported, so mode='{mode}'",
            )
            for text in (
                "10.0.0.1,10.0.0.2",
                "10.0.0.1 10.0.0.2",
                "10.0.0.1; 10.0.0.2",
                "10.0.0.1<br>10.0.0.2",
                '["10.0.0.1", "10.0.0.2"]',
                "10.0.0.1\n10.0...",
                ["10.0.0.1, 10.0.0.2"],
            )
        ),
    ],
    ids=str,
)
def test_unknown_list_form_is_an_error_and_not_sent(shown: object, message: str, mode: str) -> None:
    with pytest.raises(ProblemsError, match=message.format(mode=mode)):
        planned(mode, shown, "1.1.1.1")


WEBSITES = [{"id": 1, "domain": "a.example"}, {"id": 2, "domain": "b.example"}]


def test_mapped_tasks_share_the_scope_of_all_websites() -> None:
    part = ExclusionList("exclude_ips", "managed", EntryList.of(("1.1.1.1",)), ("a.example",), is_part=True)
    assert part.scopes["exclude_ips"].keys() == {"*"}
    assert replace(part, is_part=False).scopes["exclude_ips"].keys() == {"a.example"}


def test_website_of_per_website_gets_both_lists() -> None:
    additional = {"a.example": EntryList.of(("2.2.2.2",))}
    source = ExclusionList("exclude_ips", "merge", EntryList.of(("1.1.1.1",)), per_website=additional)
    entries = {key: website.settings["exclude_ips"] for key, website in source.resolve(WEBSITES).by_id.items()}
    assert entries == {"1": ("1.1.1.1", "2.2.2.2"), "2": ("1.1.1.1",)}


SELECTIONS: dict[str, Any] = {
    "websites": {"websites": ("a.example",)},
    "except_websites": {"except_websites": ("b.example",)},
    "unmanage_websites": {"unmanage_websites": ("b.example",)},
}


def entries_in_the_table(**selection: Any) -> list[set[str]]:
    """Return the entries that the table of a managed list has for each of the websites."""
    source = ExclusionList("exclude_ips", "managed", EntryList.of(("1.1.1.1",)), **selection)
    began = datetime(2026, 11, 23, tzinfo=UTC)
    table = Table(Identity("https://stats.example.com", "1", "office"))
    table = table.with_run(source.scopes, {}, Run("dag/run", "sync", began), began.date())
    return [set(table.entries_of("exclude_ips", website)) for website in WEBSITES]


@pytest.mark.parametrize("argument", SELECTIONS)
def test_table_has_no_entries_for_a_website_that_an_argument_leaves_out(argument: str) -> None:
    assert entries_in_the_table() == [{"1.1.1.1"}, {"1.1.1.1"}]
    assert entries_in_the_table(**SELECTIONS[argument]) == [{"1.1.1.1"}, set()]


@pytest.mark.parametrize("argument", sorted(SELECTIONS.keys() - {"websites"}))
def test_table_has_no_additional_entries_for_a_website_that_an_argument_leaves_out(argument: str) -> None:
    additional = {"*.example": EntryList.of(("2.2.2.2",))}
    found = entries_in_the_table(**SELECTIONS[argument], per_website=additional)
    assert found == [{"1.1.1.1", "2.2.2.2"}, set()]


def test_each_argument_that_selects_websites_is_tested() -> None:
    selectors = {item.name for item in fields(ExclusionList) if "Selectors" in str(item.type)}
    assert selectors == SELECTIONS.keys()


@pytest.mark.parametrize("argument", ["except_websites", "unmanage_websites"])
def test_per_website_cannot_select_a_website_that_another_argument_excludes(argument: str) -> None:
    additional = {"a.example": EntryList.of(("2.2.2.2",))}
    source = ExclusionList("exclude_ips", "merge", EntryList.of(("1.1.1.1",)), per_website=additional)
    excluded: dict[str, Any] = {argument: ("a.example",)}
    excluding = replace(source, **excluded)
    with pytest.raises(GuardError, match=r"No website matches per_website: 'a\.example'"):
        excluding.resolve(WEBSITES)


def test_excluded_website_without_a_domain_does_not_disturb_per_website() -> None:
    additional = {"a.example": EntryList.of(("2.2.2.2",)), "*.b.example": EntryList()}
    source = ExclusionList("exclude_ips", "merge", EntryList(), except_websites=("3",), per_website=additional)
    resolved = replace(source, allow_no_match=True).resolve([*WEBSITES, {"id": 3, "domain": None}])
    assert resolved.by_id.keys() == {"1", "2"}
