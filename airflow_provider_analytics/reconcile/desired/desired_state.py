# SPDX-License-Identifier: Apache-2.0
"""The desired state of websites, and the changes that lead to it. Pure functions on records.

A list for many websites is a special case of a file with one field. Both are a :class:`Desired`, and one function
computes the change of a website.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import (
    FIELDS,
    LINE_FIELDS,
    PASSWORD_FROM,
    WEBSITE_FIELDS,
    normalise,
    raw_lines,
)
from airflow_provider_analytics.api.verification import Record, has_value, omitted_value
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList
from airflow_provider_analytics.reconcile.desired.tables import Lists
from airflow_provider_analytics.reconcile.desired.yaml_values import Place, Problem, ProblemsError
from airflow_provider_analytics.reconcile.plan.plan import Change, FieldChange, Plan, website_name, website_of

MODES = ("merge", "replace", "managed")
#: Characters of a line in an error.
_MAX_LINE = 60
#: Fields that can be set and that a record can contain.
SETTABLE_FIELDS = tuple(item.name for item in WEBSITE_FIELDS if item.on_update and item.column)

#: Returns the change of a website from its record, and from its record before the first update of this run, which is
#: empty until then. None if nothing is to be changed.
ChangeOf = Callable[[Record, Record], Change | None]

_NOWHERE = Place("")


@dataclass(frozen=True)
class DesiredWebsite:
    """The desired state of one website.

    :param settings: field to normalized value; only the fields that are given.
    :param domain: domain, as written in the file; empty if the website was selected from the records.
    :param place: place of the definition, for messages; empty if the website was selected from the records.
    :param ignored: fields that are sent when the website is created, and not changed afterwards.
    :param listed: list field to the list with its sources and comments.
    """

    settings: Mapping[str, Any]
    domain: str = ""
    place: Place = _NOWHERE
    ignored: frozenset[str] = frozenset()
    listed: Mapping[str, EntryList] = field(default_factory=dict)

    @property
    def compared(self) -> list[str]:
        """Fields that are compared with the record of an existing website."""
        return [name for name in self.settings if name != PASSWORD_FROM and name not in self.ignored]

    def creation(self) -> Change:
        """Return the change that creates the website.

        :raises ValueError: if the privacy or the password is missing.
        """
        privacy = self.settings.get("privacy")
        if privacy is None:
            raise ValueError(
                f"{self.domain} is new and has no privacy: set it here, in a group or in defaults; the default of the "
                "service is a public statistics page"
            )
        lists = {name: entry_list.new_lines(entry_list.entries) for name, entry_list in self.listed.items()}
        changes = [
            FieldChange(name, None, value)
            for name, value in {**self.settings, **lists}.items()
            # Omit the defaults of a new website: an empty list, and a False that a create request cannot set.
            if name != PASSWORD_FROM and value != () and (value or FIELDS[name].on_create)
        ]
        if privacy == "password":
            changes.append(self.password_change(self.domain))
        return Change("create", self.domain, None, tuple(changes))

    def password_change(self, domain: str) -> FieldChange:
        """Return the change that sets the password of the statistics page."""
        reference = self.settings.get(PASSWORD_FROM)
        if reference is None:
            raise ValueError(
                f"{domain} has privacy: password but no {PASSWORD_FROM}: set it, or once in defaults, to "
                "variable:page_password_NAME or connection:page_password_NAME, or use privacy: private"
            )
        return FieldChange(PASSWORD_FROM, None, reference)


# Cached, because many websites have the same list and get the same list.
@functools.lru_cache(maxsize=1 << 8)
def reconcile(name: str, current: Entries, desired: Entries, mode: str, owned: Entries = ()) -> Entries:
    """Return the reconciled lines of a list.

    Remaining lines keep their text, comment and position; new entries are appended. Lists are compared as sets: if
    nothing is added or removed, ``current`` is returned.

    :param name: field of the website that contains the list.
    :param current: lines of the website's list.
    :param desired: entries as :meth:`EntryType.parse` returns them.
    :param mode: ``"merge"`` adds missing entries; ``"replace"`` makes the list equal to ``desired``; ``"managed"`` adds
        missing entries and removes those in ``owned`` that are no longer desired, except for lines with a comment.
    :param owned: entries that the list may remove.
    """
    key = LINE_FIELDS[name].key
    keys = [key(line) for line in current]
    present = set(keys)
    removable = {"merge": set(), "managed": set(owned), "replace": present - {""}}[mode]
    unwanted = (present & removable) - set(desired)
    kept = tuple(
        line
        for line, entry in zip(current, keys, strict=True)
        # A line with a comment belongs to people.
        if entry not in unwanted or (mode == "managed" and "#" in line)
    )
    after = kept + tuple(entry for entry in desired if entry not in present)
    if mode == "replace" and not any(key(line) for line in after):
        # The comments belong to the removed entries. A list with only comments is not changed.
        return () if unwanted else current
    return after


def deletion(record: Record) -> Change:
    """Return the change that deletes a website, with all fields of its record."""
    names = (name for name in SETTABLE_FIELDS if name in record)
    fields = tuple(FieldChange(name, normalise(name, record[name]), None) for name in names)
    return Change("delete", *website_of(record), fields)


@dataclass(frozen=True)
class Desired:
    """The desired state of each website.

    :param by_id: website id to desired state.
    :param by_domain: domain key (:func:`domains.domain_key`) to desired state; used if the id is not in ``by_id``.
    :param created: websites to create.
    :param deleted_ids: ids of websites to delete.
    :param protected: websites that are not deleted because they are protected, as text for people.
    :param warnings: information for the approver, one sentence each.
    :param problems: websites that cannot be planned, found while the list was compared.
    :param modes: list field to its mode (:func:`reconcile`).
    :param tables: the tables of managed lists.
    """

    by_id: Mapping[str, DesiredWebsite] = field(default_factory=dict)
    by_domain: Mapping[str, DesiredWebsite] = field(default_factory=dict)
    created: Sequence[DesiredWebsite] = ()
    deleted_ids: frozenset[str] = frozenset()
    protected: Sequence[str] = ()
    warnings: Sequence[str] = ()
    problems: Sequence[Problem] = ()
    modes: Mapping[str, str] = field(default_factory=dict)
    tables: Lists | None = None

    def of(self, record: Record) -> DesiredWebsite | None:
        """Return the desired state of a website; None if it is left unchanged, or deleted."""
        domain, website_id = website_of(record)
        return self.by_id.get(website_id) or self.by_domain.get(domain_key(domain))

    def is_compared(self, record: Record) -> bool:
        """Return whether a website has a desired state, or is to be deleted."""
        return str(record["id"]) in self.deleted_ids or self.of(record) is not None

    @property
    def shared(self) -> frozenset[str]:
        """List fields in which entries of others stay."""
        return frozenset(name for name in LINE_FIELDS if self.modes.get(name) != "replace")

    def unreadable(self, record: Record) -> str:
        """Return why a list of a website cannot be changed without losing its entries; empty if all can."""
        wanted = self.of(record)
        for name in wanted.compared if wanted else ():
            if name not in self.shared or has_value(name, record):
                continue
            lines = raw_lines(name, record.get(name))
            if name in record and not lines:
                value = readable(str(record[name]), _MAX_LINE)
                return (
                    f"The service returns {name} in an unknown form ('{value}'), so mode={self.modes[name]!r} would "
                    "lose its current entries. Exclude the website"
                )
            if not lines:
                return (
                    f"No record contains {name}, so its current entries are unknown, and mode={self.modes[name]!r} "
                    "could lose them. If all lists are empty, add one entry to a website in the service, and run the "
                    "task again"
                )
            return (
                f"{name} has the line '{readable(lines[-1], _MAX_LINE)}', which holds several entries or is cut off, "
                f"so mode={self.modes[name]!r} would lose entries. Correct it on the website: one entry per line"
            )
        return ""

    def change(self, record: Record, earlier: Record | None = None) -> Change | None:
        """Return the change of an existing website, or None if it needs no change.

        A field that is missing in the record is sent. A password is sent when ``privacy`` becomes ``password``. Records
        do not contain passwords, so a changed password cannot be detected.

        :param earlier: its record before this run changed it. What this run removed since, and another list wants now,
            is put back.
        :raises ValueError: if a list cannot be changed (:meth:`unreadable`), or the password is missing.
        """
        wanted = self.of(record)
        if wanted is None:
            return None
        if why := self.unreadable(record):
            raise ValueError(why)
        domain, website_id = website_of(record)
        changes = []
        for name in wanted.compared:
            before = normalise(name, record[name]) if has_value(name, record) else None
            after = wanted.settings[name]
            if name in LINE_FIELDS:
                if self.modes[name] == "replace" and name in record:
                    before = raw_lines(name, record[name])  # so that guards count the lost lines
                after = self._lines_after(name, before, wanted, record)
                after += self._put_back(name, after, record, earlier or {})
            # A field that no record has may be omitted because it is empty everywhere.
            is_omitted = before is None and after == normalise(name, omitted_value(name))
            if before != after and not is_omitted:
                changes.append(FieldChange(name, before, after))
        if any(change.field == "privacy" and change.after == "password" for change in changes):
            changes.append(wanted.password_change(domain))
        return Change("update", domain, website_id, tuple(changes)) if changes else None

    def _lines_after(self, name: str, before: Entries | None, wanted: DesiredWebsite, record: Record) -> Entries:
        entries: Entries = wanted.settings[name]
        owned = self.tables.owned(name, record) if self.tables and self.modes[name] == "managed" else ()
        after = entries if before is None else reconcile(name, before, entries, self.modes[name], owned)
        listed = wanted.listed.get(name)
        if not listed or not listed.lines or not after:
            return after
        if not before:
            return listed.new_lines(after)
        return tuple(line if line in before else listed.lines.get(line, (line,))[-1] for line in after)

    def kept(self, name: str, record: Record) -> Collection[str]:
        """Return the entries of a list field that may not be removed, because other lists have them."""
        return self.tables.kept(name, record) if self.tables and self.modes.get(name) == "managed" else ()

    def _put_back(self, name: str, after: Entries, record: Record, earlier: Record) -> Entries:
        kept, key = self.kept(name, record), LINE_FIELDS[name].key
        present = set(map(key, after))
        lines = normalise(name, earlier[name]) if kept and has_value(name, earlier) else ()
        return tuple(line for line in lines if key(line) in kept and key(line) not in present)

    def plan(self, records: Sequence[Record], scope: Mapping[str, Any] | None = None) -> Plan:
        """Return the plan for these websites.

        :param scope: what the plan is bound to.
        :raises ProblemsError: with every website that cannot be planned.
        """
        compared = [record for record in records if self.is_compared(record)]
        problems = list(self.problems)
        changes: list[Change] = []
        for record in compared:
            try:
                change = deletion(record) if str(record["id"]) in self.deleted_ids else self.change(record)
                changes += [change] if change else []
            except ValueError as error:
                wanted = self.of(record)
                place = wanted.place if wanted else _NOWHERE
                place = Place(website_name(*website_of(record))) if place is _NOWHERE else place
                problems.append((place, str(error)))
        for wanted in self.created:
            try:
                changes.append(wanted.creation())
            except ValueError as error:
                problems.append((wanted.place, str(error)))
        if problems:
            raise ProblemsError(problems)
        return Plan(tuple(changes), len(compared), tuple(self.protected), tuple(self.warnings), scope or {})
