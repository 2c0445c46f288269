# SPDX-License-Identifier: Apache-2.0
"""A website while a plan is applied: its state, the changes that were sent, and the record that was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_provider_analytics.api.client import Meant
from airflow_provider_analytics.api.fields import LINE_FIELDS, SETTABLE_FIELDS, normalize, raw_lines
from airflow_provider_analytics.api.verification import Comparison, Differences, ExpectedRecord, Record
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.reconcile.plan.changes import Change

#: Why a website is not tried, if the work ended before.
NOT_SENT = "Not tried, because the work ended before its turn."


class State(StrEnum):
    """State of a website; each planned change ends in exactly one state."""

    #: It needed no change when its turn came.
    UNCHANGED = "unchanged"
    #: It was changed, and all returned fields are as sent.
    APPLIED = "applied"
    #: The change was sent, but its outcome cannot be known.
    UNCLEAR = "unclear"
    #: It could not be changed, or is not as expected.
    FAILED = "failed"
    #: The service rejected the change, and a retry cannot succeed.
    REJECTED = "rejected"
    #: No request was sent for it.
    NOT_TRIED = "not_tried"


@dataclass(eq=False)
class Target:
    """A website whose change is applied. Its state is correct at any time: *unclear* while a write is under way.

    :param planned: the change as it was planned.
    :param state: its state.
    :param reason: why the change is not applied, for people; empty if it is.
    :param sent: the changes that were sent and not rejected, in order and as they were sent; a create has the id.
    :param unconfirmed: a change that failed, but might have been applied.
    :param expected: the expected record; empty if nothing was sent.
    :param is_read: whether it was read back after the last change.
    :param comparison: the record that was read last, compared with the expected one.
    :param is_rejected_method: whether the service rejected the method of the update, or does not permit it.
    :param is_another_website: whether it is, or might be, the website of someone else: its id belongs to another
        domain, or it was found after a lost create and has other values than a new one. A retry would change it.
    :param only_at_first: fields that are set only when the website is created, so that a retry leaves them unchanged.
    """

    planned: Change
    state: State = State.NOT_TRIED
    reason: str = NOT_SENT
    sent: list[Change] = field(default_factory=list)
    unconfirmed: Change | None = None
    expected: ExpectedRecord = field(default_factory=lambda: ExpectedRecord({}, {}))
    is_read: bool = False
    comparison: Comparison = field(default_factory=Comparison)
    is_rejected_method: bool = False
    is_another_website: bool = False
    only_at_first: frozenset[str] = frozenset()

    def set(self, state: State, reason: str = "") -> None:
        """Set state and reason together."""
        self.state, self.reason = state, reason

    def compared(self, comparison: Comparison) -> None:
        """Note the record that was read."""
        self.is_read, self.comparison = True, comparison

    @property
    def last(self) -> Change:
        """The last change that was sent, or the planned one."""
        if self.sent:
            return self.sent[-1]
        return self.planned

    @property
    def website(self) -> str:
        """Name of the website for logs and errors."""
        return self.last.website

    @property
    def website_id(self) -> str | None:
        """Id of the website; None while it is not created."""
        return self.last.website_id

    @property
    def meant(self) -> Meant:
        """The website that each write of this change means."""
        return Meant(str(self.website_id), self.planned.domain)

    def emptied_lists(self, record: Record) -> frozenset[str]:
        """Return the lists that had lines when the plan was made, and have none in this record."""
        planned = self.planned.record
        had_lines = {name for name in LINE_FIELDS if raw_lines(name, planned.get(name))}
        return frozenset(name for name in had_lines if not raw_lines(name, record.get(name)))

    @property
    def is_new(self) -> bool:
        """Whether this run creates the website."""
        return self.planned.action == "create"

    @property
    def is_good(self) -> bool:
        """Whether the website is as desired, in all fields that its record contains."""
        return self.state in (State.UNCHANGED, State.APPLIED)

    @property
    def might_be_applied(self) -> bool:
        """Whether the change was sent and not rejected, or might have been."""
        return self.unconfirmed is not None or (bool(self.sent) and self.state is State.APPLIED)

    @property
    def has_update(self) -> bool:
        """Whether an update was sent, or might have been; also one that follows a create."""
        return self.planned.action == "update" or any(change.action == "update" for change in self.sent)

    @property
    def lost(self) -> Differences:
        """Values that changed with an update, although they were not sent."""
        if not self.has_update:
            return {}
        return self.comparison.unsent

    @property
    def not_set(self) -> list[str]:
        """Fields of a created website that a later update sets, and that was not sent yet."""
        if not self.is_new or not self.sent:
            return []
        sent: set[str] = set()
        for change in self.sent:
            sent.update(change.settings)
        return [name for name in self.planned.settings if name not in sent]

    @property
    def lacking(self) -> frozenset[str]:
        """Settings that a website is known to lack that was created, or might have been."""
        if not self.is_new:
            return frozenset()
        if self.sent:
            return frozenset({*self.not_set, *self.comparison.not_applied})
        if self.unconfirmed is None:
            return frozenset()
        return frozenset(self.planned.settings.keys() - self.unconfirmed.settings.keys())

    @property
    def unverified(self) -> Sequence[str]:
        """Sent fields that were not read back, or that the record does not contain."""
        if self.is_read:
            return self.comparison.unverified
        if not self.sent:
            return ()
        return tuple(self.last.settings)

    @property
    def differences(self) -> str:
        """All differences from the expected record, as text."""
        return describe({**self.comparison.not_applied, **self.comparison.unsent}) or self.reason.rstrip(".")

    @property
    def values_before(self) -> str:
        """The values before the first update, as a sentence."""
        if self.planned.action != "update":
            return "Values before: none, because the website is new."
        before = self.expected.before
        values = []
        for name in SETTABLE_FIELDS:
            if name in before:
                values.append(f"{name} {readable(str(normalize(name, before[name])), 200)}")
        return f"Values before: {', '.join(values)}."


def describe(differences: Differences) -> str:
    """Return differences as text."""
    return "; ".join(f"{name} {how}" for name, how in differences.items())
