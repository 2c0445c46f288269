# SPDX-License-Identifier: Apache-2.0
"""Compute the changes that bring websites to their desired state. Pure functions on records.

:func:`plan_changes` returns the plan for all websites, and :func:`change_of` the change of one existing website. It is
called twice for each website: for the plan, and with a record that is fetched immediately before the update.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, PASSWORD_FROM, normalise, raw_lines
from airflow_provider_analytics.api.verification import Record, has_value
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.yaml_values import Place, Problem, ProblemsError
from airflow_provider_analytics.reconcile.plan.plan import Change, FieldChange, Plan
from airflow_provider_analytics.reconcile.records import SETTABLE_FIELDS, website_name, website_of


def plan_changes(desired: DesiredState, records: Sequence[Record], scope: Mapping[str, Any] | None = None) -> Plan:
    """Return the plan for these websites.

    :param scope: settings for which alone the plan is valid, see :class:`Plan`.
    :raises ProblemsError: with every website that cannot be planned.
    """
    compared = list(filter(desired.is_compared, records))
    problems = list(desired.problems)
    changes: list[Change] = []
    for record in compared:
        if str(record["id"]) in desired.deleted_ids:
            changes.append(deletion(record))
            continue
        try:
            change = change_of(desired, record)
        except ValueError as error:
            problems.append(_problem(desired, record, str(error)))
            continue
        if change is not None:
            changes.append(change)
    for website in desired.created:
        try:
            changes.append(creation(website))
        except ValueError as error:
            problems.append((website.place, str(error)))
    if problems:
        raise ProblemsError(problems)
    return Plan(tuple(changes), len(compared), tuple(desired.protected), tuple(desired.warnings), scope or {})


def _problem(desired: DesiredState, record: Record, problem: str) -> Problem:
    """Return the problem of a website, with its place in the file; without a file, its name is the place."""
    website = desired.of(record)
    if website is None or not website.place.source:
        return Place(website_name(*website_of(record))), problem
    return website.place, problem


def creation(website: DesiredWebsite) -> Change:
    """Return the change that creates a website.

    :raises ValueError: if the privacy or the password is missing.
    """
    privacy = website.settings.get("privacy")
    if privacy is None:
        raise ValueError(
            f"{website.domain} is new and has no privacy: set it here, in a group or in defaults; the default of the "
            "service is a public statistics page"
        )
    values = dict(website.settings)
    for name, entry_list in website.lists.items():
        values[name] = entry_list.new_lines(entry_list.entries)
    values.pop(PASSWORD_FROM, None)
    changes = []
    for name, value in values.items():
        # A new website has these anyway: an empty list, and a False that a create request cannot set.
        is_default = value == () or (not value and not FIELDS[name].on_create)
        if not is_default:
            changes.append(FieldChange(name, None, value))
    if privacy == "password":
        changes.append(_password_change(website, website.domain))
    return Change("create", website.domain, None, tuple(changes))


def deletion(record: Record) -> Change:
    """Return the change that deletes a website, with all fields of its record."""
    changes = [FieldChange(name, normalise(name, record[name]), None) for name in SETTABLE_FIELDS if name in record]
    return Change("delete", *website_of(record), tuple(changes))


def change_of(desired: DesiredState, record: Record, earlier: Record | None = None) -> Change | None:
    """Return the change of an existing website, or None if it needs no change.

    A field that is missing in the record is sent. A password is sent when ``privacy`` becomes ``password``. Records do
    not contain passwords, so a changed password cannot be detected.

    :param earlier: its record before this run changed it. Entries that this run has removed since, and that another
        list has now, are restored.
    :raises ValueError: if a list cannot be changed (:meth:`DesiredState.unreadable`), or the password is missing.
    """
    website = desired.of(record)
    if website is None:
        return None
    why = desired.unreadable(record)
    if why:
        raise ValueError(why)
    domain, website_id = website_of(record)
    changes = []
    for name in website.compared:
        if name in LINE_FIELDS:
            change = _list_change(desired, website, name, record, earlier or {})
        else:
            change = FieldChange(name, _value(name, record), website.settings[name])
        # A field that no record has can be omitted because it is empty everywhere.
        is_omitted = change.before is None and change.after == normalise(name, FIELDS[name].omitted)
        if change.before == change.after or is_omitted:
            continue
        changes.append(change)
        if name == "privacy" and change.after == "password":
            changes.append(_password_change(website, domain))
    if not changes:
        return None
    return Change("update", domain, website_id, tuple(changes))


def _value(name: str, record: Record) -> Any:
    """Return the normalized value of a field; None if the record does not contain it in a known form."""
    if not has_value(name, record):
        return None
    return normalise(name, record[name])


def _list_change(
    desired: DesiredState, website: DesiredWebsite, name: str, record: Record, earlier: Record
) -> FieldChange:
    """Return the change of a list; its lines before and after it can be equal."""
    mode = desired.modes[name]
    before = _value(name, record)
    if mode == "replace" and name in record:
        before = raw_lines(name, record[name])  # so that guards count the lost lines
    after = website.lists[name].entries
    if before is not None:
        after = reconcile(name, before, after, mode, desired.removable(name, record))
    after = _with_comments(website, name, before, after)
    return FieldChange(name, before, after + _restored_lines(desired, name, after, record, earlier))


def _with_comments(website: DesiredWebsite, name: str, before: Entries | None, after: Entries) -> Entries:
    """Return the lines of a list, with the comments to send with the added entries."""
    entry_list = website.lists[name]
    if not entry_list.lines or not after:
        return after
    if not before:
        return entry_list.new_lines(after)
    lines = []
    for line in after:
        # The list of the website has its own comment lines, so only the line of an added entry is sent.
        *_comments, own_line = entry_list.lines.get(line, (line,))
        lines.append(line if line in before else own_line)
    return tuple(lines)


def _restored_lines(desired: DesiredState, name: str, after: Entries, record: Record, earlier: Record) -> Entries:
    """Return the lines that the website had before this run, and that another list has now."""
    kept = desired.kept(name, record)
    if not kept or not has_value(name, earlier):
        return ()
    key = LINE_FIELDS[name].key
    missing = set(kept) - set(map(key, after))
    return tuple(line for line in normalise(name, earlier[name]) if key(line) in missing)


def _password_change(website: DesiredWebsite, domain: str) -> FieldChange:
    """Return the change that sets the password of the statistics page."""
    reference = website.settings.get(PASSWORD_FROM)
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

    Remaining lines keep their text, comment, and position; new entries are appended. Lists are compared as sets: if
    nothing is added or removed, ``current`` is returned. For example, in mode ``managed``::

        reconcile("exclude_ips", ("192.0.2.1", "192.0.2.2 # Ann"), ("192.0.2.3",), "managed", ("192.0.2.1",))
        # ("192.0.2.2 # Ann", "192.0.2.3")

    :param name: field of the website that contains the list.
    :param current: lines of the website's list.
    :param desired: entries as :meth:`EntryType.parser` returns them.
    :param mode: ``"merge"`` adds missing entries; ``"replace"`` makes the list equal to ``desired``; ``"managed"`` adds
        missing entries and removes the entries in ``owned`` that are no longer desired, except for lines with a
        comment.
    :param owned: entries that the list can remove.
    """
    key = LINE_FIELDS[name].key
    present = set(map(key, current))
    removable = {"merge": set(), "managed": present & set(owned), "replace": present - {""}}[mode]
    unwanted = removable - set(desired)

    def is_kept(line: str) -> bool:
        # A line with a comment belongs to people.
        return key(line) not in unwanted or (mode == "managed" and "#" in line)

    after = (*filter(is_kept, current), *(entry for entry in desired if entry not in present))
    if mode == "replace" and not any(map(key, after)):
        # The comments belong to the removed entries. A list with only comments is not changed.
        return () if unwanted else current
    return after
