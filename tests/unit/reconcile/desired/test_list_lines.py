# SPDX-License-Identifier: Apache-2.0
"""Owners, reasons, and expiration dates of list entries (``reconcile/desired/list_lines.py``)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import pytest

from airflow_provider_analytics.api.entries import EntryType
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.reconcile.desired import list_lines as maintained
from airflow_provider_analytics.reconcile.desired.list_lines import (
    EXPIRING_DAYS,
    KEEP_UNRESOLVED_DAYS,
    EntryList,
    EntrySource,
    Resolution,
    merge_lists,
    read_list,
    resolve,
)

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


@pytest.mark.parametrize("days", [KEEP_UNRESOLVED_DAYS, KEEP_UNRESOLVED_DAYS + 1])
def test_host_name_that_does_not_resolve_keeps_its_addresses_for_seven_days(days: int) -> None:
    at = datetime(2026, 11, 23, 12, tzinfo=UTC)
    last = {"vpn.example.com": Resolution((ADDRESS,), at - timedelta(days=days))}
    if days > KEEP_UNRESOLVED_DAYS:
        with pytest.raises(Exception, match="older than 7 days"):
            resolve({"vpn.example.com": "timeout"}, last, at)
    else:
        found, [warning] = resolve({"vpn.example.com": "timeout"}, last, at)
        assert found == last
        assert "2026-11-16 is used until 2026-11-23: 192.0.2.1" in warning


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
