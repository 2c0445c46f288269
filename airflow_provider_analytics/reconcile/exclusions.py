"""Exclusion lists: reconcile the list of one website, and plan the changes of many."""

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

    Kept lines keep their text, comment and position; new entries are appended. Lists compare as sets: if nothing
    is added or removed, ``current`` is returned.

    :param current: lines of the website's list.
    :param desired: entries as :meth:`EntryType.parse` returns them.
    :param mode: ``"merge"`` adds missing entries; ``"replace"`` makes the list equal to ``desired``; ``"managed"`` adds
        missing entries and removes those in ``owned`` that are no longer desired.
    :param owned: entries that earlier runs added.
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
        # Do not leave comments behind: the service may not support them and read them as entries. A list that
        # held only comments before is not changed.
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
    """Return the plan for one exclusion list of these websites, and the entries owned afterwards by website id.

    :param desired: returns the desired entries of a record.
    :param owned: website id to the entries that earlier runs added (mode ``managed``).
    :raises UnsafePlanError: if records do not show the field in modes merge and managed: their current entries
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
            f"the records of {len(unseen):,} websites do not show {field}, so mode={mode!r} would lose their current "
            f"entries: {listed}. Exclude them with except_websites, or use mode='replace'. Nothing was sent."
        )
    return Plan.of(changes, compared), owned_after
