# SPDX-License-Identifier: Apache-2.0
"""The results of a plan: one :class:`Update` with one state per website; everything else is derived from them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from airflow_provider_analytics.api.fields import normalise
from airflow_provider_analytics.api.verification import Comparison, Differences, ExpectedRecord, Record, has_value
from airflow_provider_analytics.exceptions import (
    AuthenticationError,
    BulkError,
    NotAppliedError,
    StoppedError,
    StorageError,
)
from airflow_provider_analytics.readable import counted, first_of, readable
from airflow_provider_analytics.reconcile.plan.changes import Change
from airflow_provider_analytics.reconcile.records import SETTABLE_FIELDS

#: Why a website is not tried, if the work ended before.
NOT_SENT = "Not tried: the work ended before its turn."
#: Maximum number of websites with unexpected changes in a result, and of websites in the error of a stop.
_MAX_NAMED, _MAX_IN_A_STOP = 20, 10

log = logging.getLogger(__name__)


class State(StrEnum):
    """State of a website; each planned change ends in exactly one state."""

    #: It needed no change when its turn came.
    UNCHANGED = "unchanged"
    #: It was changed, and all returned fields are as sent.
    APPLIED = "applied"
    #: The change was sent, but the outcome is unknown.
    UNCLEAR = "unclear"
    #: It could not be changed, or is not as expected.
    FAILED = "failed"
    #: The service rejected the change, and a retry cannot succeed.
    REJECTED = "rejected"
    #: No request was sent for it.
    NOT_TRIED = "not_tried"


@dataclass(eq=False)
class Update:
    """The change of one website. Its state is correct at any time: it is *unclear* while a write is under way.

    :param planned: the change as it was planned.
    :param state: its state.
    :param reason: why the change is not applied, for people; empty if it is.
    :param sent: the changes that were sent and not rejected, in order and as they were sent; a create has the id.
    :param unconfirmed: a change that failed, but might have been applied.
    :param expected: the expected record; None if nothing was sent.
    :param comparison: the record that was read last, compared with the expected one; None if it was not read back.
    :param is_rejected_method: whether the service rejected the method of the update, or does not permit it.
    """

    planned: Change
    state: State = State.NOT_TRIED
    reason: str = NOT_SENT
    sent: list[Change] = field(default_factory=list)
    unconfirmed: Change | None = None
    expected: ExpectedRecord | None = None
    comparison: Comparison | None = None
    is_rejected_method: bool = False

    def set(self, state: State, reason: str = "") -> None:
        """Set state and reason together."""
        self.state, self.reason = state, reason

    @property
    def last(self) -> Change:
        """The last change that was sent, or the planned one."""
        if self.sent:
            return self.sent[-1]
        return self.planned

    @property
    def may_be_applied(self) -> bool:
        """Whether the change was sent and not rejected, or might have been."""
        return self.unconfirmed is not None or (bool(self.sent) and self.state is State.APPLIED)

    @property
    def is_missing(self) -> bool:
        """Whether the website was created, and is not found in the list yet."""
        return self.planned.action == "create" and self.comparison is None

    @property
    def has_update(self) -> bool:
        """Whether an update was sent, or might have been; also one that follows a create."""
        return self.planned.action == "update" or any(change.action == "update" for change in self.sent)

    @property
    def website(self) -> str:
        """Name of the website for logs and errors."""
        return self.last.website

    @property
    def website_id(self) -> str | None:
        """Id of the website; None while it is not created."""
        return self.last.website_id

    @property
    def before(self) -> Record:
        """Its record immediately before the first update; empty for a new website."""
        if self.expected is None or self.planned.action != "update":
            return {}
        return self.expected.before

    @property
    def unverified(self) -> tuple[str, ...]:
        """Sent fields that were not read back, or that the record does not contain."""
        if self.comparison is not None:
            return self.comparison.unverified
        if not self.sent:
            return ()
        return tuple(field_change.field for field_change in self.last.fields)

    @property
    def unsent(self) -> Differences:
        """Unsent changes, see :class:`Comparison`."""
        return (self.comparison or Comparison()).unsent

    @property
    def not_applied(self) -> Differences:
        """Sent values that are not in effect, see :class:`Comparison`."""
        return (self.comparison or Comparison()).not_applied

    def entries_sent(self, *, added: bool) -> list[str]:
        """Return the entries that were added to lists, or those that were removed."""
        entries: dict[str, None] = {}  # a change that was sent again counts once
        for change in self.sent:
            for field_change in change.fields:
                if added:
                    entries |= dict.fromkeys(field_change.added)
                else:
                    entries |= dict.fromkeys(field_change.removed)
        return list(entries)

    @property
    def not_stored(self) -> frozenset[str]:
        """Sent fields that the service did not store, although it accepted the change; ``website`` after a delete."""
        if self.comparison is None or self.unconfirmed is not None:
            return frozenset()
        fields = self.not_applied.keys() - self.unsent.keys()
        if self.comparison.other_domain is not None:
            fields |= {"domain"}
        return frozenset(fields)

    @property
    def lost(self) -> frozenset[str]:
        """Fields whose values changed with an update, although they were not sent."""
        if not self.has_update:
            return frozenset()
        return frozenset(self.unsent)

    @property
    def wrong(self) -> frozenset[str]:
        """Fields that are not as expected, whether they were sent or not."""
        return self.not_stored | self.lost

    @property
    def differences(self) -> str:
        """All differences from the expected record, as text."""
        return describe({**self.not_applied, **self.unsent}) or self.reason.rstrip(".")

    @property
    def values_before(self) -> str:
        """The values before the first update, as text."""
        if not self.before:
            return "none, because the website is new"
        values = []
        for name in SETTABLE_FIELDS:
            if name in self.before:
                value = self.before[name]
                if has_value(name, self.before):
                    value = normalise(name, value)
                values.append(f"{name} {readable(str(value), 200)}")
        return ", ".join(values)

    @property
    def is_good(self) -> bool:
        """Whether the website is as desired, in all fields that its record contains."""
        return self.state in (State.UNCHANGED, State.APPLIED)


def describe(differences: Differences) -> str:
    """Return differences as text."""
    return "; ".join(f"{name} {how}" for name, how in differences.items())


@dataclass(frozen=True)
class Outcome:
    """The outcome of a plan.

    :param updates: one for each planned change.
    :param unread: website to why it could not be read; nothing was planned for these websites.
    :param stopped: the error for a service that changes unsent values, or does not store sent values; no other websites
        were changed then.
    :param interrupted: the exception that ended the work before all was done and verified, such as
        :class:`StoppedError`, or the rejection of the API key; None if the work was complete.
    """

    updates: Sequence[Update] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    stopped: NotAppliedError | None = None
    interrupted: BaseException | None = None

    @property
    def states(self) -> dict[str, int]:
        """Number of websites by state; their sum is the number of planned changes."""
        counts = dict.fromkeys(map(str, State), 0)
        for update in self.updates:
            counts[update.state.value] += 1
        return counts

    @property
    def applied(self) -> int:
        """Number of websites that were changed successfully."""
        return self.states[State.APPLIED]

    @property
    def entries_added(self) -> int:
        """Number of entries that were added to lists; an entry on two websites counts twice."""
        return sum(len(update.entries_sent(added=True)) for update in self.updates)

    @property
    def entries_removed(self) -> int:
        """Number of entries that were removed from lists; an entry on two websites counts twice."""
        return sum(len(update.entries_sent(added=False)) for update in self.updates)

    @property
    def not_tried(self) -> list[str]:
        """Websites for which no request was sent."""
        return [update.website for update in self.updates if update.state is State.NOT_TRIED]

    @property
    def failures(self) -> dict[str, str]:
        """Website to why it is not as desired, including websites that could not be read.

        After a stop, websites that were not tried do not count as failed.
        """
        is_stopped = self.interrupted is not None and not isinstance(self.interrupted, AuthenticationError)
        failures = dict(self.unread)
        for update in self.updates:
            is_left = is_stopped and update.state is State.NOT_TRIED
            if not update.is_good and not is_left:
                failures[update.website] = update.reason
        return failures

    @property
    def unverified(self) -> list[str]:
        """Fields that could not be verified on at least one changed website."""
        return sorted(set().union(*(update.unverified for update in self.updates)))

    @property
    def unexpected_changes(self) -> list[str]:
        """Changed websites with unsent changes, with a phrase each; after twenty, the number of the others."""
        changed = [update for update in self.updates if update.unsent and update.is_good]
        phrases = [f"{update.website}: {describe(update.unsent)}" for update in changed[:_MAX_NAMED]]
        others = len(changed) - len(phrases)
        if others:
            phrases.append(f"and {counted(others, 'other website')}")
        return phrases

    @property
    def number_of_unexpected_changes(self) -> int:
        """Number of changed websites with unsent changes."""
        return len([update for update in self.updates if update.unsent and update.is_good])

    @property
    def is_complete(self) -> bool:
        """Whether the work was not interrupted, and no website failed."""
        return self.interrupted is None and not self.failures

    @property
    def is_verified(self) -> bool:
        """Whether all planned changes were applied and verified, and nothing else changed."""
        return self.is_complete and not self.unverified and not self.unexpected_changes

    def followed_by(self, later: Outcome) -> Outcome:
        """Return this outcome with that of a second plan for the same websites."""
        updates = {update.website: update for update in self.updates}
        for update in later.updates:
            earlier = updates.get(update.website)
            if earlier is not None and update.state is not State.UNCHANGED:
                update.sent = [*earlier.sent, *update.sent]
            if earlier is None or update.state is not State.UNCHANGED:
                updates[update.website] = update
        return replace(later, updates=list(updates.values()), unread={**self.unread, **later.unread})

    def raise_interruption(self) -> None:
        """Raise the exception that ended the work, with what was done.

        :raises StoppedError: if the task was stopped before all was done and verified.
        """
        if self.interrupted is None:
            return
        summary = self._summary_of_a_stop()
        log.warning("%s", summary)
        if isinstance(self.interrupted, StoppedError):
            raise StoppedError(f"{summary}.", "The next try does the rest.") from None
        if isinstance(self.interrupted, (AuthenticationError, StorageError)):
            self.interrupted.so_far = f"{summary}."
        # Airflow expects to see its own exception again: for a timeout, and for a kill in Airflow 2.
        raise self.interrupted from None

    def _summary_of_a_stop(self) -> str:
        """Return the number of changed websites, and the websites that are not as expected, grouped by reason."""
        changed = 0
        for update in self.updates:
            if update.sent and update.state is not State.UNCLEAR:
                changed += 1
        summary = f"Stopped: {changed:,} of {len(self.updates):,} websites changed"
        unclear = self.states[State.UNCLEAR]
        if unclear:
            summary += f", {unclear:,} might have been"
        reasons: dict[str, list[str]] = {}
        for website, reason in self.failures.items():
            reasons.setdefault(reason.rstrip("."), []).append(website)
        if reasons:
            failed = [f"{first_of(websites, _MAX_IN_A_STOP)}: {reason}" for reason, websites in reasons.items()]
            summary += f". Not as expected: {first_of(failed, _MAX_IN_A_STOP, '; ')}"
        return summary

    def raise_failures(self) -> None:
        """Raise an error if any website is not as desired.

        :raises NotAppliedError: if the service does not do what was requested.
        :raises BulkError: with every website that failed.
        """
        if self.stopped is not None:
            raise self.stopped
        if not self.failures:
            return
        failed = [update for update in self.updates if not update.is_good]
        is_rejected = not self.unread and all(update.state is State.REJECTED for update in failed)
        # A retry would find nothing to do, and hide the values that were lost.
        has_lost_values = any(update.state is State.FAILED and update.unsent for update in failed)
        error = BulkError(self.failures, self.applied, self.not_tried, is_rejected or has_lost_values)
        if self.unexpected_changes:
            error.so_far = f"Values that were not sent changed, too: {'; '.join(self.unexpected_changes)}."
        raise error
