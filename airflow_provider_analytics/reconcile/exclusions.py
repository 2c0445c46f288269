"""Exclusion lists: reconcile the list of one website, and plan the changes of many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_provider_analytics.api.checks import one_of
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, website_of
from airflow_provider_analytics.thresholds import loses_too_much

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


def raise_if_list_is_cut(before: Entries, now: Entries, max_removal_fraction: float) -> None:
    """Raise :class:`UnsafePlanError` if a list is much shorter than in its last run.

    :param before: the list of the last run.
    :param now: the list of this run.
    """
    fewer = len(before) - len(now)
    if loses_too_much(fewer, len(before), max_removal_fraction):
        raise UnsafePlanError(
            f"The list has {len(now):,} entries, in its last run it had {len(before):,}: {fewer / len(before):.0%} "
            f"fewer, more than max_removal_fraction={max_removal_fraction}. Nothing was sent. If this is intended, set "
            "force=True."
        )


class Reconciler:
    """Works out the change of an exclusion list from the record of a website, and which entries the list owns there.

    :param field: name of the list.
    :param desired: returns the desired entries of a record.
    :param mode: see :func:`reconcile`.
    :param owned: website id to the entries that earlier runs added (mode ``managed``).
    """

    def __init__(
        self,
        field: str,
        desired: Callable[[Mapping[str, Any]], Entries],
        *,
        mode: str,
        owned: Mapping[str, Entries] | None = None,
    ) -> None:
        one_of("mode", mode, MODES)
        self.field = field
        self.mode = mode
        #: Website id to the entries that the list owns once its change is applied.
        self.owned: dict[str, Entries] = dict(owned or {})
        self._desired = desired

    def adopt_matching(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Let the list own the entries that it has in common with the websites, whoever added them."""
        for record in records:
            if self.shows(record):
                keys = {LINE_FIELDS[self.field].key(line) for line in normalise(self.field, record[self.field])}
                website_id = str(record["id"])
                common = (entry for entry in self._desired(record) if entry in keys)
                self.owned[website_id] = tuple(dict.fromkeys((*self.owned.get(website_id, ()), *common)))

    def shows(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record shows the list."""
        return self.field in record and isinstance(normalise(self.field, record[self.field]), tuple)

    def change(self, record: Mapping[str, Any]) -> Change | None:
        """Return the change of a website, or None if its list is as desired; update :attr:`owned`.

        :raises UnsafePlanError: if the record does not show the list in modes merge and managed: its current entries
            would be lost.
        """
        domain, website_id = website_of(record)
        known = self.shows(record)
        if not known and self.mode != "replace":
            raise UnsafePlanError(f"The record does not show {self.field}: its current entries would be lost.")
        current: Entries = normalise(self.field, record[self.field]) if known else ()
        after, self.owned[website_id] = reconcile(
            self.field, current, self._desired(record), self.mode, self.owned.get(website_id, ())
        )
        if known and after == current:
            return None
        return Change("update", domain, website_id, (FieldChange(self.field, current if known else None, after),))

    def left(self, record: Mapping[str, Any]) -> Change | None:
        """Return what is left to change after it was applied; None, too, if the record does not show the list."""
        return self.change(record) if self.shows(record) else None

    def plan(self, records: Iterable[Mapping[str, Any]]) -> Plan:
        """Return the plan for the list of these websites.

        :raises UnsafePlanError: if records do not show the list in modes merge and managed.
        """
        compared = list(records)
        unseen = [website_of(record) for record in compared if not self.shows(record)]
        if unseen and self.mode != "replace":
            names = [domain or website_id for domain, website_id in unseen]
            listed = ", ".join(names[:_SHOWN_WEBSITES]) + (", ..." if len(names) > _SHOWN_WEBSITES else "")
            raise UnsafePlanError(
                f"The records of {len(names):,} websites do not show {self.field}, so mode={self.mode!r} would lose "
                f"their current entries: {listed}. Exclude them with except_websites, or use mode='replace'. Nothing "
                "was sent."
            )
        changes = [change for change in map(self.change, compared) if change is not None]
        return Plan.of(changes, compared)
