from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_analytics.api.entries import Addresses
from airflow_provider_analytics.reconcile.desired import reconcile
from airflow_provider_analytics.reconcile.exclusions import ExclusionList
from airflow_provider_analytics.reconcile.lists import Identity, Lists, Run, Table
from airflow_provider_analytics.reconcile.maintained import Listed, read_list
from airflow_provider_analytics.reconcile.plan import Plan
from airflow_provider_analytics.reconcile.yaml_values import ProblemsError

# Without the unspecified ones, also mapped: Pythons write that one in different ways.
ADDRESSES = st.ip_addresses().filter(lambda address: int(address) not in (0, 0xFFFF << 32)).map(str)


def planned(mode: str, shown: object, *entries: str) -> Plan:
    """Return the plan of a list for a website that shows this list."""
    record = {"id": 1, "domain": "a.example", "exclude_ips": shown}
    return ExclusionList("exclude_ips", mode, Listed.of(entries)).resolve([record]).plan([record])


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
        ("managed", "1.1.1.1", "", HERE),  # what was typed by hand is not owned
        ("managed", "2.2.2.2", "2.2.2.2", HERE),
        ("managed", "", "8.8.8.8", HERE),  # gone already
        ("managed", "8.8.8.8", "8.8.8.8", f"{HERE}\n8.8.8.8"),  # added again
    ],
)
def test_modes(mode: str, wanted: str, owned: str, after: str) -> None:
    lines = reconcile("exclude_ips", tuple(HERE.splitlines()), tuple(wanted.split()), mode, tuple(owned.split()))
    assert "\n".join(lines) == after


LINES = st.lists(ADDRESSES, max_size=6).map(tuple)


@settings(deadline=None)
@given(current=LINES, given_list=LINES, owned=LINES, mode=st.sampled_from(["merge", "replace", "managed"]))
def test_a_list_reaches_what_is_wanted_and_stays_there(
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


@settings(deadline=None)
@given(versions=st.lists(LINES, min_size=1, max_size=4), typed=LINES)
def test_managed_versions_leave_the_last_one_and_what_no_version_had(
    versions: list[tuple[str, ...]], typed: tuple[str, ...]
) -> None:
    record: dict[str, object] = {"id": 1, "domain": "a.example", "exclude_ips": "\n".join(typed)}
    table, today = Table(Identity("s", "1", "office")), date(2026, 11, 23)
    run = Run("d/r", "t", datetime(2026, 11, 23, tzinfo=UTC))
    for version in versions:
        office = ExclusionList("exclude_ips", "managed", read_list("exclude_ips", version, Addresses()))
        before, table = table, table.noting(office.scopes, {}, run, today)
        tables = Lists(before, table, (), today, office.scopes, run)
        offices = replace(office.resolve([record]), tables=tables)
        for change in offices.plan([record]).changes:
            record["exclude_ips"] = "\n".join(change.settings["exclude_ips"])
    lines = {Addresses().key(line) for line in str(record["exclude_ips"]).split()}
    had = {Addresses().key(line) for version in versions for line in version}
    assert lines == {Addresses().key(line) for line in typed} - had | set(office.entries.entries)
    assert offices.plan([record]).changes == ()


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1\r\n2.2.2.2\r\n",
        "  1.1.1.1  \n\n 2.2.2.2",
        "2.2.2.2\n1.1.1.1",
        "\ufeff1.1.1.1\r2.2.2.2",
        ["1.1.1.1", "2.2.2.2"],
        ["", "\ufeff1.1.1.1\r", " 2.2.2.2"],
        ["1.1.1.1\n2.2.2.2"],
    ],
)
def test_line_ends_padding_and_order_make_no_difference(text: object) -> None:
    assert planned("replace", text, "1.1.1.1", "2.2.2.2").changes == ()


@pytest.mark.parametrize("empty", [None, "", " \n", [], [""], "\ufeff", "\r\n"])
def test_an_empty_list_of_the_service_is_no_list(empty: object) -> None:
    (change,) = planned("managed", empty, "1.1.1.1").changes
    assert (change.settings, change.fields[0].before) == ({"exclude_ips": ["1.1.1.1"]}, ())


@pytest.mark.parametrize("record", [{"id": 1}, {"id": 1, "exclude_ips": 7}, {"id": 1, "exclude_ips": {"a": 1}}])
@pytest.mark.parametrize("mode", ["merge", "managed", "replace"])
def test_a_list_that_is_not_shown_is_not_merged_into(record: dict[str, object], mode: str) -> None:
    desired = ExclusionList("exclude_ips", mode, Listed.of(("1.1.1.1",))).resolve([record])
    if mode == "replace":
        assert desired.plan([record]).changes[0].settings == {"exclude_ips": ["1.1.1.1"]}
    else:
        with pytest.raises(ProblemsError, match=r"The record does not show exclude_ips"):
            desired.plan([record])


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1,10.0.0.2",
        "10.0.0.1 10.0.0.2",
        "10.0.0.1; 10.0.0.2",
        "10.0.0.1<br>10.0.0.2",
        '["10.0.0.1", "10.0.0.2"]',
        "10.0.0.1\n10.0.0...",
        "10.0.0.1\n10.0",
        ["10.0.0.1, 10.0.0.2"],
    ],
    ids=str,
)
def test_what_is_no_entry_is_not_understood_and_not_sent_back(text: object) -> None:
    for mode in ("merge", "managed"):
        told = f"the line '.*', which is not one entry, so mode='{mode}' could lose it"
        with pytest.raises(ProblemsError, match=told):
            planned(mode, text, "1.1.1.1")
    # What is replaced counts as lost.
    (change,) = planned("replace", text, "1.1.1.1").changes
    assert change.settings == {"exclude_ips": ["1.1.1.1"]}
    assert change.fields[0].removed


@pytest.mark.parametrize(
    "text", ["10.0.0.1 # Ann\n# office", "10.0.0.0/8", "10.0.*.*", "10.0.0.1-10.0.0.9", "2001:db8::/32", "2001:db8:*"]
)
def test_what_people_write_into_a_list_is_kept(text: str) -> None:
    (change,) = planned("merge", text, "1.1.1.1").changes
    assert change.settings == {"exclude_ips": [*text.splitlines(), "1.1.1.1"]}
