# SPDX-License-Identifier: Apache-2.0
"""Exclusion lists: payloads, entries with dates and owners, and selectors (``reconcile/desired/exclusion_list.py``)."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_analytics.api.entries import Addresses, EntryType
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.operators.exclusions import chunk_websites
from airflow_provider_analytics.reconcile.desired import list_lines as maintained
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList, parse_selectors, select
from airflow_provider_analytics.reconcile.desired.list_lines import (
    EXPIRING_DAYS,
    EntryList,
    EntrySource,
    Resolution,
    merge_lists,
    read_list,
)
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
    expected = {"merge": before | set(wanted), "replace": set(wanted), "managed": (before - set(owned)) | set(wanted)}
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


TODAY = date(2026, 11, 23)
ADDRESS = "192.0.2.1"


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintained, "now", lambda: datetime(2026, 11, 23, 12, tzinfo=UTC))


def listed(*lines: str) -> EntryList:
    return read_list("exclude_ips", list(lines), LINE_FIELDS["exclude_ips"], host_names=True)


def line(until: str) -> str:
    return f"{ADDRESS} # until={until}" if until else ADDRESS


@pytest.mark.parametrize("item", [ADDRESS, "vpn.example.com"])
@pytest.mark.parametrize(
    ("first", "second", "until"),
    [
        ("2027-01-31", "2027-03-31", date(2027, 3, 31)),
        ("2027-03-31", "2027-01-31", date(2027, 3, 31)),
        ("2027-01-31", "", None),
        ("", "2027-01-31", None),
        ("2026-01-31", "2027-01-31", date(2027, 1, 31)),
        ("2027-01-31", "2026-01-31", date(2027, 1, 31)),
    ],
)
def test_entry_on_the_list_twice_remains_until_the_later_date(
    first: str, second: str, until: date | None, item: str
) -> None:
    found = listed(*(line(element).replace(ADDRESS, item) for element in (first, second)))
    assert {**found.sources, **found.names}[item].until == until
    assert found.expired == {}


@pytest.mark.usefixtures("time_zone")
def test_entry_expires_when_its_day_ends_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the clock of this test is the real one
    for _ in range(2):  # again, if the day ends meanwhile
        today = datetime.now(UTC).date()
        still = listed(line(today.isoformat()))
        over = listed(line((today - timedelta(days=1)).isoformat()))
        if today == datetime.now(UTC).date():
            break
    assert list(still.sources) == list(over.expired) == [ADDRESS]


def test_entry_that_expired_twice_has_the_later_date() -> None:
    found = listed(line("2026-01-31"), line("2026-03-31"), line("2026-02-28"))
    assert (found.sources, found.expired[ADDRESS].until) == ({}, date(2026, 3, 31))


def test_entry_in_two_lists_combines_owner_reason_and_names() -> None:
    of_names = [EntryList({ADDRESS: EntrySource(names=(name,))}) for name in ("a.example", "b.example", "a.example")]
    with_owners = [listed(f"{ADDRESS} # office, owner=a"), listed(f"{ADDRESS} # VPN, owner=b")]
    for lists, owner, reason in ((with_owners[:1], "a", "office"), (with_owners, "b", "VPN")):  # the later one decides
        combined = merge_lists([*of_names, *lists]).sources[ADDRESS]
        assert (combined.owner, combined.reason, combined.names) == (owner, reason, ("a.example", "b.example"))


@pytest.mark.parametrize(("days", "is_expired"), [(-1, True), (0, False), (1, False)])
def test_entry_is_on_the_list_on_its_expiration_date_and_not_after_it(days: int, is_expired: bool) -> None:
    found = listed(line(f"{TODAY + timedelta(days=days)}"))
    assert (ADDRESS in found.expired, ADDRESS in found.sources) == (is_expired, not is_expired)


@pytest.mark.parametrize(("days", "is_reported"), [(0, True), (EXPIRING_DAYS, True), (EXPIRING_DAYS + 1, False)])
def test_entry_is_reported_as_expiring_in_the_last_30_days(days: int, is_reported: bool) -> None:
    found = listed(line(f"{TODAY + timedelta(days=days)}"), "198.51.100.7")
    assert (ADDRESS in found.expiring(TODAY)) is is_reported
    assert "198.51.100.7" not in found.expiring(TODAY)


@pytest.mark.parametrize(
    ("removed_on", "text"), [("2027-02-01", "expired, until "), ("2027-01-31", "until "), ("", "until ")]
)
def test_source_says_expired_only_if_the_entry_was_removed_after_its_expiration_date(
    removed_on: str, text: str
) -> None:
    assert EntrySource(until=date(2027, 1, 31), removed_on=removed_on).text == f"{text}2027-01-31"


def test_addresses_of_a_host_name_are_not_reported_as_expiring() -> None:
    names = listed("vpn.example.com # until=2026-11-24")
    resolved = {"vpn.example.com": Resolution((ADDRESS,), datetime(2026, 11, 23, tzinfo=UTC))}
    assert names.with_answers(resolved).expiring(TODAY).keys() == {"vpn.example.com"}


def test_comment_line_is_sent_once_before_the_addresses_of_a_network() -> None:
    lines = [{"comment": "Berlin"}, {"entry": "192.0.2.0/31", "comment": "office"}]
    found = read_list("exclude_ips", lines, LINE_FIELDS["exclude_ips"], networks="expand", managed=False)
    assert found.new_lines(found.entries) == ("# Berlin", "192.0.2.0 # office", "192.0.2.1 # office")


@pytest.mark.parametrize(
    ("networks", "allowed"),
    [
        ("reject", "one IP address per line or entry, or a network with networks='expand' (sends each address) or"),
        ("expand", "one IP address per line or entry"),
    ],
)
def test_error_about_an_entry_allows_networks_with_another_argument(networks: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"Allowed: {allowed}")) as caught:
        read_list("exclude_ips", ["192.0.2.0/24", "x"], LINE_FIELDS["exclude_ips"], networks=networks)
    assert ("is a network, but" in str(caught.value)) == (networks == "reject")


def test_wrong_entry_of_a_list_without_addresses_is_no_host_name() -> None:
    class Paths(EntryType):
        def _check_word(self, entry: str) -> None:
            raise ValueError("does not begin with /")

    with pytest.raises(ValueError, match=r"'admin\.example' does not begin with /"):
        read_list("exclude_paths", ["admin.example"], Paths())


SELECTABLE: list[dict[str, Any]] = [
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
    assert select(SELECTABLE, parse_selectors("websites", [selector])) == (ids, [])


@pytest.mark.parametrize("selector", ["*.example.com", "*", "gone.example.com"])
def test_pattern_that_might_match_a_website_without_a_domain_is_rejected(selector: str) -> None:
    """With except_websites, a website that was to be excluded would be changed."""
    with pytest.raises(ValueError, match=f"website 6 has no domain.*{re.escape(repr(selector))}"):
        select([*SELECTABLE, {"id": 6}], [selector])
    assert select([*SELECTABLE, {"id": 6}], ["example.org", "6", "7"]) == ({"3", "6"}, ["7"])


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
