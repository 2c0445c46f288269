# SPDX-License-Identifier: Apache-2.0
"""Choose the canaries of a plan: the websites that are changed first, one after the other. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.api.verification import COMPARED, Record, has_value, omitted_value
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.reconcile.apply.results import Finding, FindingKind, State, Update
from airflow_provider_analytics.reconcile.plan.plan import Change

#: Number of updates that are canaries; further ones only if they risk something that no canary had.
UPDATES = 2
#: Number of canaries that may fail before they are read back; then the others are changed nevertheless.
MAX_FAILED = 3


class Risk(NamedTuple):
    """Something that a service can damage on a website.

    :param finding: how the damage would be reported.
    :param detail: the kind of value: another kind can be stored correctly, although this one is not.
    """

    finding: Finding
    detail: str = ""


def risks_of(change: Change, record: Record) -> frozenset[Risk]:
    """Return the risks of a change.

    A list has a risk for each special character in its lines, because services that drop or rewrite lines select them
    by their form: comments, networks, patterns, IPv6 addresses.

    :param record: record of the website before the change; a field that it does not contain has no risk.
    """
    sent = {field_change.field for field_change in change.fields if change.action != "delete"}
    # A create that is followed by an update can lose values by the update.
    is_followed = change.action == "create" and not all(FIELDS[name].on_create for name in sent & FIELDS.keys())
    detail = "with an update" if is_followed else ""
    risks = {Risk(Finding(change.action, FindingKind.NOT_APPLIED, name), detail) for name in sent}
    if change.action != "update":
        whole = "domain" if change.action == "create" else "website"
        return frozenset({Risk(Finding(change.action, FindingKind.NOT_APPLIED, whole)), *risks})
    for name in COMPARED:
        if not has_value(name, record):
            continue
        finding = Finding("update", FindingKind.UNSENT, name)
        value = normalise(name, record[name])
        if name in LINE_FIELDS:
            how = "sent" if name in sent else "not sent"
            forms = {character for line in value for character in line if not character.isalnum()}
            risks |= {Risk(finding, f"{how} {form}") for form in ("", *forms) if value}
        elif name not in sent and not _is_safe(name, value):
            risks.add(Risk(finding, str(value)))
    return frozenset(risks)


def _is_safe(name: str, value: object) -> bool:
    """Return whether a service that resets or omits a field leaves this value."""
    default = FIELDS[name].default
    return value == normalise(name, omitted_value(name)) and default in (None, value)


class Candidate(NamedTuple):
    """A website of the plan.

    :param update: its change.
    :param record: its record, as the plan was made from it; empty if it has none.
    :param risks: the risks of the change.
    """

    update: Update
    record: Record
    risks: frozenset[Risk]

    def length(self, fields: Collection[str]) -> int:
        """Return the number of characters in some lists after the change: a service may cut long lists."""
        lists = {name: normalise(name, self.record[name]) for name in LINE_FIELDS if has_value(name, self.record)}
        lists |= {change.field: change.after for change in self.update.planned.fields if change.field in LINE_FIELDS}
        return sum(len(line) + 1 for name in lists.keys() & fields for line in lists[name] or ())


class Canaries:
    """Chooses one website after the other until each risk of the plan was taken by one of them.

    :param updates: the websites of the plan.
    :param records: website id to record, as the plan was made from it.
    """

    def __init__(self, updates: Iterable[Update], records: Mapping[str, Record]) -> None:
        self._candidates: list[Candidate] = []
        for update in updates:
            record = records.get(str(update.website_id), {})
            self._candidates.append(Candidate(update, record, risks_of(update.planned, record)))
        # Two tasks that begin at the same time must not choose the same websites in the same order.
        RANDOM.shuffle(self._candidates)
        self._taken: set[Risk] = set()
        self._updated = 0
        self._failed = 0

    def next(self, suspected: Collection[Risk] = ()) -> Update | None:
        """Return the website to change next; None if the other websites risk nothing that no canary had.

        :param suspected: risks of canaries that are not as expected. A website with one of them comes next. For an
            unsent change, it is a random one: another task that changes websites in the same order as this one is
            unlikely to change it at the same time. For a value that is not stored, it is the one with the longest list.
        """
        self._candidates = [candidate for candidate in self._candidates if candidate.update.state is State.NOT_TRIED]
        if not self._candidates or self._failed >= MAX_FAILED:
            return None
        deciding = [candidate for candidate in self._candidates if not candidate.risks.isdisjoint(suspected)]
        if not deciding:
            chosen = max(self._candidates, key=self._value)
            return chosen.update if self._is_needed(chosen) else None
        if all(risk.finding.kind is FindingKind.UNSENT for risk in suspected):
            return RANDOM.choice(deciding).update
        fields = {risk.finding.field for risk in suspected}
        return max(deciding, key=lambda candidate: candidate.length(fields)).update

    def note(self, canary: Update) -> None:
        """Note that a canary was changed: its risks are taken if it was read back."""
        if canary.comparison is None and canary.state is not State.UNCHANGED:
            self._failed += 1
            return
        self._taken |= risks_of(canary.planned, canary.before)
        self._updated += canary.planned.action == "update"

    def _value(self, candidate: Candidate) -> tuple[bool, bool, int, int]:
        is_update = candidate.update.planned.action == "update"
        number = len(candidate.risks - self._taken)
        return self._is_needed(candidate), is_update, number, candidate.length(LINE_FIELDS.keys())

    def _is_needed(self, candidate: Candidate) -> bool:
        is_one_of_the_first = candidate.update.planned.action == "update" and self._updated < UPDATES
        return is_one_of_the_first or bool(candidate.risks - self._taken)
