"""Exclusion lists: reconcile the list of one website, and plan the changes of many."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.reconcile.ledger import Ledger, Owned
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, website_of

MODES = ("merge", "replace", "managed")

_SHOWN_WEBSITES = 20


# Many websites have the same list, and get the same list.
@functools.lru_cache(maxsize=1 << 8)
def reconcile(name: str, current: Entries, desired: Entries, mode: str, owned: Entries = ()) -> Entries:
    """Return the reconciled lines of a list.

    Kept lines keep their text, comment and position; new entries are appended. Lists compare as sets: if nothing
    is added or removed, ``current`` is returned.

    :param name: field of the website that holds the list.
    :param current: lines of the website's list.
    :param desired: entries as :meth:`EntryType.parse` returns them.
    :param mode: ``"merge"`` adds missing entries; ``"replace"`` makes the list equal to ``desired``; ``"managed"`` adds
        missing entries and removes those in ``owned`` that are no longer desired, but for lines with a comment.
    :param owned: entries that earlier runs added.
    """
    key = LINE_FIELDS[name].key
    keys = [key(line) for line in current]
    present = set(keys)
    if mode == "replace":
        unwanted = present - set(desired) - {""}
    elif mode == "managed":
        unwanted = (present & set(owned)) - set(desired)
    else:
        unwanted = set()
    kept = tuple(
        line
        for line, entry in zip(current, keys, strict=True)
        # What a managed list added has no comment: a line with one is somebody's own.
        if entry not in unwanted or (mode == "managed" and "#" in line)
    )
    new = tuple(entry for entry in desired if entry not in present)
    after = kept + new
    if not any(key(line) for line in after):
        # Do not leave comments behind: the service may not support them and read them as entries. A list that
        # held only comments before is not changed.
        after = () if unwanted else current
    return after


def shows_list(name: str, record: Mapping[str, Any]) -> bool:
    """Return whether a record shows an exclusion list."""
    return name in record and isinstance(normalise(name, record[name]), tuple)


@dataclass(frozen=True)
class ExclusionList:
    """A list that is kept excluded on many websites.

    :param name: field of the website that holds the list.
    :param mode: see :func:`reconcile`.
    :param entries: entries for all websites.
    :param extra: website id to further entries for this website.
    :param owned: website id to the entries that earlier runs added (mode ``managed``).
    :param released: ids of websites that get their own list back: what the list owns there is removed.
    """

    name: str
    mode: str
    entries: Entries
    extra: Mapping[str, Entries] = field(default_factory=dict)
    owned: Mapping[str, Entries] = field(default_factory=dict)
    released: frozenset[str] = frozenset()

    def desired(self, record: Mapping[str, Any]) -> Entries:
        """Return the entries that a website should have."""
        website_id = str(record["id"])
        if website_id in self.released:
            return ()
        extra = self.extra.get(website_id)
        return tuple(dict.fromkeys((*self.entries, *extra))) if extra else self.entries

    def desired_lists(self, records: Iterable[Mapping[str, Any]]) -> dict[str, Owned]:
        """Return the desired entries by website id and list field."""
        return {str(record["id"]): {self.name: self.desired(record)} for record in records}

    def change(self, record: Mapping[str, Any]) -> Change | None:
        """Return the change of a website, or None if its list is as desired.

        :raises ValueError: if the record does not show the list in modes merge and managed: its current entries would
            be lost.
        """
        domain, website_id = website_of(record)
        known = shows_list(self.name, record)
        if not known and self.mode != "replace":
            raise ValueError(f"not changed: the record does not show {self.name}, its current entries would be lost")
        current: Entries = normalise(self.name, record[self.name]) if known else ()
        after = reconcile(self.name, current, self.desired(record), self.mode, self.owned.get(website_id, ()))
        if known and after == current:
            return None
        return Change("update", domain, website_id, (FieldChange(self.name, current if known else None, after),))

    def owning(self, ledger: Ledger, records: Iterable[Mapping[str, Any]]) -> Self:
        """Return the list with what the ledger says that it owns on these websites."""
        return replace(self, owned={str(record["id"]): ledger.owned(record).get(self.name, ()) for record in records})

    def plan(self, records: Iterable[Mapping[str, Any]], scope: Mapping[str, Any] | None = None) -> Plan:
        """Return the plan for the list of these websites.

        :param scope: what the plan is bound to.
        :raises GuardError: if records do not show the list in modes merge and managed.
        """
        compared = list(records)
        unseen = [website_of(record) for record in compared if not shows_list(self.name, record)]
        if unseen and self.mode != "replace":
            names = [readable(domain) or website_id for domain, website_id in unseen]
            listed = ", ".join(names[:_SHOWN_WEBSITES]) + (", ..." if len(names) > _SHOWN_WEBSITES else "")
            raise GuardError(
                f"The records of {len(names):,} websites do not show {self.name}, so mode={self.mode!r} would lose "
                f"their current entries: {listed}. Exclude them with except_websites, or use mode='replace'. Nothing "
                "was sent."
            )
        changes = [change for change in map(self.change, compared) if change is not None]
        return Plan.of(changes, compared, scope=scope)
