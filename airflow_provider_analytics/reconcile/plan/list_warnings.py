# SPDX-License-Identifier: Apache-2.0
"""Warnings about lists: internal addresses; of managed lists, entries taken over, removed late, or kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from airflow_provider_analytics.api.entries import internal_addresses
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.readable import counted, first_of
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.tables import ListTables, entries_of
from airflow_provider_analytics.reconcile.desired.websites_config import WebsitesAsCode

#: Maximum number of entries in a warning.
_MAX_NAMED = 10

_OWNED_NOW = "it manages these entries from now on, even if somebody added them by hand"
_REMOVED_LATE = "To be removed, because it left the list earlier"
_ON_ANOTHER_LIST = "Not removed, because another list has it"
_WITH_A_COMMENT = "Not removed, because its line has a comment"


def internal_warnings(source: ExclusionList | WebsitesAsCode) -> list[str]:
    """Return a warning about private and loopback addresses on the lists, once for each list field."""
    warnings = []
    for name, parts in source.parts.items():
        listed = dict.fromkeys(entry for part in parts for entry in part.entries)
        internal = internal_addresses(listed)
        if internal:
            warnings.append(
                f"{name} has private or loopback addresses, which a service on the internet never sees. List the "
                f"public address of the network instead of: {first_of(internal, _MAX_NAMED)}"
            )
    return warnings


def list_warnings(lists: ListTables, desired: DesiredState, compared: Sequence[Record]) -> list[str]:
    """Return the warnings for the compared websites, each with its entries and their numbers of websites.

    For example: ``["Not removed, because another list has it: 192.0.2.1 (list 'vpn') on 3 websites"]``.
    """
    owned_now = f"First run of the list {lists.table.identity.list!r}: {_OWNED_NOW}"
    found: dict[str, Counter[str]] = {owned_now: Counter()}
    for reason in (_REMOVED_LATE, _ON_ANOTHER_LIST, _WITH_A_COMMENT):
        found[reason] = Counter()
    for record in compared:
        website = desired.of(record)
        if website is None:
            continue
        for name in lists.table.rows:
            wanted = set(website.settings.get(name, ()))
            if lists.before.run is None:
                found[owned_now].update(entries_of(name, record) & wanted)
            for entry, reason in _entries_to_remove(lists, name, record, wanted):
                found[reason][entry] += 1
    warnings = []
    for reason, entries in found.items():
        if entries:
            named = [f"{entry} on {counted(number, 'website')}" for entry, number in entries.most_common()]
            warnings.append(f"{reason}: {first_of(named, _MAX_NAMED)}")
    return warnings


def _entries_to_remove(lists: ListTables, name: str, record: Record, wanted: set[str]) -> list[tuple[str, str]]:
    """Return the entries of a website that are not on the list any more, with the warning about each.

    There is no warning about an entry that leaves the list in this run and is removed. A warning about an entry that
    remains is given once, when it leaves the list.

    :param wanted: the entries that the website gets.
    """
    present = entries_of(name, record)
    without_comment = entries_of(name, record, plain=True)
    on_other_lists = lists.kept(name, record)
    owned = lists.owned(name, record)
    found = []
    for entry, source in lists.before.entries_of(name, record).items():
        if entry not in present or entry in wanted:
            continue
        if source.left:
            if entry in owned and entry in without_comment:
                found.append((entry, _REMOVED_LATE))
        elif entry in on_other_lists:
            found.append((f"{entry} (list {on_other_lists[entry]!r})", _ON_ANOTHER_LIST))
        elif entry not in without_comment:
            found.append((entry, _WITH_A_COMMENT))
    return found
