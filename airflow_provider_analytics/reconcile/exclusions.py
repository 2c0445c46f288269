"""Exclusion lists: what a website's list has to become, and the plan for many websites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_provider_analytics.api.checks import one_of
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, website_of

MODES = ("merge", "replace", "managed")

_SHOWN_WEBSITES = 20


def reconcile(
    field: str, current: Entries, desired: Entries, mode: str, owned: Iterable[str] = ()
) -> tuple[Entries, Entries]:
    """Return the reconciled lines and those we own.

    Lines that stay keep their text, comment and place; new entries follow. Lists compare as sets: if nothing
    is to be added or removed, ``current`` comes back.

    :param current: the website's list, line by line.
    :param desired: entries as :meth:`EntryType.parse` returns them.
    :param mode: ``"merge"`` adds; ``"replace"`` makes it exactly ``desired``; ``"managed"`` adds, and removes
        those ``owned`` that are no longer desired.
    :param owned: entries that an earlier run added.
    """
    key = LINE_FIELDS[field].key
    keys = [key(line) for line in current]
    present = set(keys)
    if mode == "replace":
        unwanted = present - set(desired) - {""}
    elif mode == "managed":
        unwanted = (present & set(owned)) - set(desired)
    else:
        unwanted = set()
    kept = tuple(line for line, entry in zip(current, keys, strict=True) if entry not in unwanted)
    new = tuple(entry for entry in desired if entry not in present)
    after = kept + new
    if not any(key(line) for line in after):
        # Comments alone would be read as entries by a service that knows no comments; a list of comments
        # that nobody changes is left as it is.
        after = () if unwanted else current
    wanted = set(desired)
    return after, tuple(dict.fromkeys([*(entry for entry in owned if entry in wanted), *new]))


def plan_exclusions(
    field: str,
    records: Iterable[Mapping[str, Any]],
    desired: Callable[[Mapping[str, Any]], Entries],
    *,
    mode: str,
    owned: Mapping[str, Entries] | None = None,
) -> tuple[Plan, dict[str, Entries]]:
    """Return the plan for one list of these websites, and per website id the entries owned after it.

    :param desired: gives the entries wanted for a record.
    :param owned: website id to the entries that earlier runs added (mode ``managed``).
    :raises UnsafePlanError: in modes merge and managed, if records do not show the field: what is there
        would be lost.
    """
    one_of("mode", mode, MODES)
    changes, unseen, owned_after, compared = [], [], {}, []
    for record in records:
        domain, website_id = website_of(record)
        lines = normalise(field, record[field]) if field in record else None
        known = isinstance(lines, tuple)
        if not known and mode != "replace":
            unseen.append(domain or website_id)
            continue
        current: Entries = lines if isinstance(lines, tuple) else ()
        after, owned_after[website_id] = reconcile(
            field, current, desired(record), mode, (owned or {}).get(website_id, ())
        )
        compared.append(record)
        if after != current or not known:
            change = FieldChange(field, current if known else None, after)
            changes.append(Change("update", domain, website_id, (change,)))
    if unseen:
        listed = ", ".join(unseen[:_SHOWN_WEBSITES]) + (", ..." if len(unseen) > _SHOWN_WEBSITES else "")
        raise UnsafePlanError(
            f"the records of {len(unseen):,} websites do not show {field}, so mode={mode!r} cannot keep what is there: "
            f"{listed}. Leave them out with except_websites, or use mode='replace'. Nothing was sent."
        )
    return Plan.of(changes, compared), owned_after
