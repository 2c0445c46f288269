# SPDX-License-Identifier: Apache-2.0
"""Choose the canaries of a plan: the websites that are changed first, one after the other. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.api.verification import COMPARED, Record, has_value
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

    A list has a risk for each special character in the lines that the change keeps, because services that drop or
    rewrite lines select them by their form: comments, networks, patterns, IPv6 addresses. Several lines are another
    risk, because a service can store the first or the last line only.

    :param record: record of the website before the change; a field that it does not contain has no risk.
    """
    if change.action == "delete":
        return frozenset({Risk(Finding("delete", FindingKind.NOT_APPLIED, "website"))})
    sent = {field_change.field for field_change in change.fields}
    detail = ""
    if change.action == "create" and not all(FIELDS[name].on_create for name in sent & FIELDS.keys()):
        detail = "with an update"  # which can lose values of the create
    risks = {Risk(Finding(change.action, FindingKind.NOT_APPLIED, name), detail) for name in sent}
    if change.action == "create":
        risks.add(Risk(Finding("create", FindingKind.NOT_APPLIED, "domain")))
        if detail:
            defaults = [name for name in COMPARED if FIELDS[name].default and name not in sent]
            risks.update(Risk(Finding("create", FindingKind.UNSENT, name)) for name in defaults)
        return frozenset(risks)
    for name in COMPARED:
        if not has_value(name, record):
            continue
        finding = Finding("update", FindingKind.UNSENT, name)
        value = normalise(name, record[name])
        if name in LINE_FIELDS:
            kept = _kept_lines(name, value, change)
            risks.update(Risk(finding, detail) for detail in _details_of_lines(kept, is_sent=name in sent))
        elif name not in sent and not _is_safe(name, value):
            risks.add(Risk(finding, str(value)))
    return frozenset(risks)


def _kept_lines(name: str, lines: Sequence[str], change: Change) -> Sequence[str]:
    """Return the lines of a list that the change does not remove."""
    for field_change in change.fields:
        if field_change.field == name:
            return [line for line in lines if line in (field_change.after or ())]
    return lines


def _details_of_lines(lines: Sequence[str], *, is_sent: bool) -> set[str]:
    """Return the kinds of lines that a service can damage."""
    if not lines:
        return set()
    details = {f"lines, sent: {is_sent}"}
    if len(lines) > 1:
        details.add(f"several lines, sent: {is_sent}")
    for character in set("".join(lines)):
        if not character.isalnum():
            details.add(f"lines with {character}, sent: {is_sent}")
    return details


def _may_have_the_same_cause(finding: Finding, earlier: Finding) -> bool:
    """Return whether a service can be the cause of both findings, although they are about different fields."""
    if finding.kind is not earlier.kind:
        return False
    return finding.kind is FindingKind.UNSENT or {finding.field, earlier.field} <= LINE_FIELDS.keys()


def _is_safe(name: str, value: object) -> bool:
    """Return whether a service that resets or omits a field leaves this value."""
    field = FIELDS[name]
    return value == normalise(name, field.omitted) and field.default in (None, value)


@dataclass(frozen=True)
class Candidate:
    """A website of the plan.

    :param update: its change.
    :param record: its record, as the plan was made from it; empty if it has none.
    """

    update: Update
    record: Record

    @cached_property
    def risks(self) -> frozenset[Risk]:
        """The risks of the change."""
        return risks_of(self.update.planned, self.record)

    @property
    def is_update(self) -> bool:
        """Whether the website exists, and is kept."""
        return self.update.planned.action == "update"

    def length(self, fields: Collection[str]) -> int:
        """Return the number of characters in some lists after the change: a service may cut long lists."""
        lists = {}
        for name in LINE_FIELDS.keys() & fields:
            if has_value(name, self.record):
                lists[name] = normalise(name, self.record[name])
        for change in self.update.planned.fields:
            if change.field in LINE_FIELDS.keys() & fields:
                lists[change.field] = change.after
        return sum(len("\n".join(lines or ())) for lines in lists.values())


class Canaries:
    """Chooses one website after the other until each risk of the plan was taken by one of them.

    :param updates: the websites of the plan.
    :param records: website id to record, as the plan was made from it.
    """

    def __init__(self, updates: Iterable[Update], records: Mapping[str, Record]) -> None:
        self._candidates = [Candidate(update, records.get(str(update.website_id), {})) for update in updates]
        # Two tasks that start at the same time must not choose the same websites in the same order.
        RANDOM.shuffle(self._candidates)
        #: Risks of the canaries so far.
        self._taken: set[Risk] = set()
        #: Risk of a canary that is not as expected; another website with the same risk decides.
        self._suspected: dict[Risk, Update] = {}
        self._updated = 0
        self._failed = 0

    @property
    def suspected(self) -> list[Update]:
        """The canaries that are not as expected, and for which no second canary has decided yet."""
        return list(dict.fromkeys(self._suspected.values()))

    def next(self) -> Update | None:
        """Return the website to change next; None if the other websites risk nothing that no canary had.

        If a canary is not as expected, a website with the same risk comes next. For an unsent change, it is a random
        website: another task that changes websites in the same order as this one is unlikely to change it at the same
        time. For a value that is not stored, it is the website with the longest list.
        """
        self._candidates = [candidate for candidate in self._candidates if candidate.update.state is State.NOT_TRIED]
        if not self._candidates or self._failed >= MAX_FAILED:
            return None
        suspected = self._suspected.keys()
        deciding = [candidate for candidate in self._candidates if not candidate.risks.isdisjoint(suspected)]
        if not deciding:
            chosen = max(self._candidates, key=self._priority)
            if self._is_needed(chosen):
                return chosen.update
            return None
        if all(risk.finding.kind is FindingKind.UNSENT for risk in suspected):
            return RANDOM.choice(deciding).update
        fields = {risk.finding.field for risk in suspected}
        return max(deciding, key=lambda candidate: candidate.length(fields)).update

    def repeated(self, canary: Update) -> dict[Finding, Update]:
        """Return the findings that a canary shares with earlier ones, each with the earlier canary.

        Two unsent changes count, even of different fields: one website may have a value to lose that the other one
        lacks. So do two lists that are not in effect: a service may cut long lists, and each website has another one.
        """
        same_field: dict[Finding, Update] = {}
        other_field: dict[Finding, Update] = {}
        for risk, earlier in self._suspected.items():
            for finding in canary.findings:
                if (finding.action, finding.field) == (risk.finding.action, risk.finding.field):
                    same_field.update({finding: earlier, risk.finding: earlier})
                elif _may_have_the_same_cause(finding, risk.finding):
                    other_field.update({finding: earlier, risk.finding: earlier})
        return same_field or other_field

    def note(self, canary: Update, repeated: Collection[Finding] = ()) -> None:
        """Note that a canary was changed: if it was read back, its risks are taken, and it decides about suspicions.

        :param repeated: findings that the service did not cause.
        """
        if canary.comparison is None and canary.state is not State.UNCHANGED:
            self._failed += 1
            return
        risks = risks_of(canary.planned, canary.before)
        self._taken |= risks
        if canary.planned.action == "update":
            self._updated += 1
        if canary.comparison is None:
            return
        for risk in risks & self._suspected.keys():
            del self._suspected[risk]  # this website had it and is as expected, or other websites changed, too
        for risk in risks:
            if risk.finding in canary.findings - set(repeated):
                self._suspected[risk] = canary

    def _priority(self, candidate: Candidate) -> tuple[bool, bool, int, int]:
        new_risks = len(candidate.risks - self._taken)
        return self._is_needed(candidate), candidate.is_update, new_risks, candidate.length(LINE_FIELDS.keys())

    def _is_needed(self, candidate: Candidate) -> bool:
        if candidate.is_update and self._updated < UPDATES:
            return True
        return not candidate.risks <= self._taken
