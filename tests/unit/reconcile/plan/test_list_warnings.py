# SPDX-License-Identifier: Apache-2.0
"""Warnings about the entries of a managed list (``reconcile/plan/plan_guards.py``)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from airflow_provider_analytics import SITE
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList
from airflow_provider_analytics.reconcile.desired.tables import Identity, ListTables, Run, Table
from airflow_provider_analytics.reconcile.plan.plan_guards import list_warnings

NOW = datetime(2026, 11, 23, 1, 30, tzinfo=UTC)
SERVICE = "https://stats.example.com"


def run_of(table: Table, *entries: str, days_ago: int = 0) -> Table:
    """Return the table after a run of the list with these entries."""
    at = NOW - timedelta(days=days_ago)
    return table.with_run(source_of(*entries).scopes, {}, Run("dag/run", "sync", at), at.date())


def source_of(*entries: str) -> ExclusionList:
    return ExclusionList("exclude_ips", "managed", EntryList.of(entries))


def warnings_of(before: Table, lines: str, *entries: str, others: tuple[Table, ...] = ()) -> list[str]:
    """Return the warnings of a run with these entries, for a website with these lines."""
    source = source_of(*entries)
    lists = ListTables(before, others, Run("dag/run", "sync", NOW), NOW.date(), source.scopes)
    records = [{"id": 1, "domain": "a.example", "exclude_ips": lines}]
    return list_warnings(lists, replace(source.resolve(records), tables=lists), records)


EMPTY = Table(Identity(SERVICE, "1", "office"))
OFFICE = run_of(EMPTY, "1.1.1.1", "2.2.2.2", days_ago=1)


def test_first_run_names_the_entries_that_the_list_owns() -> None:
    (warning,) = warnings_of(EMPTY, "1.1.1.1\n9.9.9.9", "1.1.1.1", "3.3.3.3")
    assert warning == (
        "The list 'office' has no table. Either it runs for the first time: then it manages the following entries from "
        "now on, even if someone added them by hand. Or its state folder was lost: then entries that were removed "
        f"from the list before remain on the websites, see {SITE}troubleshooting/#the-list-table-is-lost. Entries: "
        "1.1.1.1 on 1 website."
    )


def test_removed_entry_needs_no_warning() -> None:
    assert warnings_of(OFFICE, "1.1.1.1\n2.2.2.2", "1.1.1.1") == []
    assert warnings_of(OFFICE, "1.1.1.1", "1.1.1.1") == []  # a person has removed it


def test_earlier_removed_entry_is_named_if_it_is_removed_from_websites() -> None:
    left = run_of(OFFICE, "1.1.1.1")
    (warning,) = warnings_of(left, "1.1.1.1\n2.2.2.2", "1.1.1.1")
    assert warning == "Removing entries that were removed from the list earlier: 2.2.2.2 on 1 website."
    assert warnings_of(left, "1.1.1.1", "1.1.1.1") == []
    assert warnings_of(left, "1.1.1.1\n2.2.2.2 # Ann", "1.1.1.1") == []


def test_removed_entry_is_named_if_another_list_has_it() -> None:
    vpn = run_of(Table(Identity(SERVICE, "1", "vpn")), "2.2.2.2")
    (warning,) = warnings_of(OFFICE, "1.1.1.1\n2.2.2.2", "1.1.1.1", others=(vpn,))
    assert warning == "Not removed, because another list contains them: 2.2.2.2 (list 'vpn') on 1 website."


def test_removed_entry_is_named_if_its_line_has_a_comment() -> None:
    (warning,) = warnings_of(OFFICE, "1.1.1.1\n2.2.2.2 # Ann", "1.1.1.1")
    assert warning == "Not removed, because their lines have a comment: 2.2.2.2 on 1 website."
