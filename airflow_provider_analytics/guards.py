# SPDX-License-Identifier: Apache-2.0
"""Names and limits of the guards, shared by snapshots, exclusion lists, and websites as code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_analytics.api.checks import names, one_of
from airflow_provider_analytics.api.domains import domain_key

#: Guard name to the change that it blocks. All operators that have the argument ``override_guards`` know all names, so
#: that the tasks of a DAG can share it.
GUARDS = {
    "fewer_websites": "a list in which many websites of the last run, snapshot, or export are missing",
    "other_source": "a snapshot of another service, account, or filter than the last one",
    "missing_fields": "a snapshot in which a field has lost its values",
    "clock_skew": "a snapshot taken before the last one, by the clock of the worker",
    "newer_version": "a snapshot after one that a newer version of this package wrote",
    "empty_list": "an empty list, or a file that deletes all websites",
    "no_match": "a selector that matches no website",
    "many_deleted": "a file that deletes many websites",
    "many_created": "a file that creates many websites that the last run saw",
    "made_public": "many statistics pages that become public",
    "entries_lost": "a list that loses many entries",
}
#: Default limit: a guard fails if a larger fraction is lost.
MAX_LOSS_FRACTION = 0.3
#: Smallest total that is checked, as in octoDNS. Of a small total, a single loss is a large fraction: 1 of 3 is 33%.
MIN_COUNTED = 10


def parse_guards(value: Iterable[str] | str | None) -> frozenset[str]:
    """Return the names of the guards to override, given as a list or as text separated by commas.

    :raises ValueError: for an unknown name.
    """
    return frozenset([one_of("override_guards", name, GUARDS) for name in names("override_guards", value)])


def website_keys(records: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str]]:
    """Return id and domain of each website, as ``fewer_websites`` compares them: an id can be used again."""
    return frozenset((str(record["id"]), domain_key(str(record.get("domain") or ""))) for record in records)


def are_websites_lost(lost: int, before: int, now: int, max_fraction: float) -> bool:
    """Return whether too many websites are missing; an empty list after another one always counts, unless for 1.

    :param lost: number of websites that are missing.
    :param before: number of websites before.
    :param now: number of websites now.
    :param max_fraction: largest fraction that can be missing.
    """
    is_empty_now = now == 0 and before > 0 and max_fraction < 1
    return is_empty_now or loses_too_much(lost, before, max_fraction)


def with_another_id(number: int) -> str:
    """Return the sentence about missing websites whose domains the list still has: their ids are new.

    :param number: how many there are.
    """
    return f"Of these domains, the list has {number:,} with another id."


def loses_too_much(lost: int, before: int, max_fraction: float) -> bool:
    """Return whether more than ``max_fraction`` was lost; False for totals below :data:`MIN_COUNTED`."""
    return before >= MIN_COUNTED and lost / before > max_fraction
