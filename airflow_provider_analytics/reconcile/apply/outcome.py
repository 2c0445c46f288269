# SPDX-License-Identifier: Apache-2.0
"""The outcome of a plan: the state of each website, the result of the task, and its error."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_analytics.exceptions import (
    AuthenticationError,
    BulkError,
    NotAppliedError,
    StoppedError,
    StorageError,
    reasons_of,
)
from airflow_provider_analytics.readable import counted, first_of, readable
from airflow_provider_analytics.reconcile.apply.targets import State, Target, describe

#: Remedy for new websites without all of their settings.
_ONLY_AT_FIRST = (
    "With create_only or ignore, a retry leaves these settings of the new websites as they are. Run once without "
    "create_only and ignore."
)
#: Maximum number of unexpected changes in a result.
_MAX_UNEXPECTED = 20
#: Maximum number of websites in a log line.
_MAX_LOGGED = 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a plan.

    :param targets: one for each planned change.
    :param unread: website to why it could not be read; nothing was planned for these websites.
    :param stopped: the error for a service that changes unsent values, or does not store sent values.
    :param interrupted: the exception that ended the work before all was done and verified, such as
        :class:`StoppedError`, or the rejection of the API key; None if the work was complete.
    """

    targets: Sequence[Target] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    stopped: NotAppliedError | None = None
    interrupted: BaseException | None = None

    @property
    def states(self) -> dict[str, int]:
        """Number of websites by state; their sum is the number of planned changes."""
        counts = dict.fromkeys(map(str, State), 0)
        for target in self.targets:
            counts[target.state.value] += 1
        return counts

    @property
    def applied(self) -> int:
        """Number of websites that were changed successfully."""
        return self.states[State.APPLIED]

    @property
    def entries_added(self) -> int:
        """Number of entries that were added to lists; an entry on two websites counts twice."""
        return sum(len(_entries(target, "added")) for target in self.targets)

    @property
    def entries_removed(self) -> int:
        """Number of entries that were removed from lists; an entry on two websites counts twice."""
        return sum(len(_entries(target, "removed")) for target in self.targets)

    @property
    def not_tried(self) -> list[str]:
        """Websites for which no request was sent."""
        return [target.website for target in self.targets if target.state is State.NOT_TRIED]

    @property
    def failures(self) -> dict[str, str]:
        """Website to why it is not as desired, including websites that could not be read.

        After a stop, websites that were not tried do not count as failed.
        """
        is_stopped = self.interrupted is not None and not isinstance(self.interrupted, AuthenticationError)
        failures = dict(self.unread)
        for target in self.targets:
            is_left = is_stopped and target.state is State.NOT_TRIED
            if not target.is_good and not is_left:
                failures[target.website] = target.reason
        return failures

    @property
    def unverified(self) -> list[str]:
        """Fields that could not be verified on at least one changed website."""
        return sorted(set().union(*(target.unverified for target in self.targets)))

    @property
    def changed_unexpectedly(self) -> list[Target]:
        """Changed websites with unsent changes."""
        return [target for target in self.targets if target.comparison.unsent and target.is_good]

    @property
    def unexpected_changes(self) -> list[str]:
        """Changed websites with unsent changes, with a phrase each; after twenty, the number of the others."""
        changed = self.changed_unexpectedly
        phrases = [f"{target.website}: {describe(target.comparison.unsent)}" for target in changed[:_MAX_UNEXPECTED]]
        others = len(changed) - len(phrases)
        if others:
            phrases.append(f"and {counted(others, 'other website')}")
        return phrases

    @property
    def leaves_incomplete(self) -> bool:
        """Whether a retry leaves new websites without all of their settings, and would succeed."""
        return any(target.lacking & target.only_at_first and not target.is_good for target in self.targets)

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
        targets = {target.website: target for target in self.targets}
        for target in later.targets:
            earlier = targets.get(target.website)
            if earlier is not None and target.state is not State.UNCHANGED:
                target.sent = [*earlier.sent, *target.sent]
                # The second plan was made from a record that might lack lines already.
                whole = target.expected.following(earlier.expected).compare(target.comparison.record)
                target.comparison.unsent = {**whole.unsent, **target.comparison.unsent}
            if earlier is None or target.state is not State.UNCHANGED:
                targets[target.website] = target
        return replace(later, targets=list(targets.values()), unread={**self.unread, **later.unread})

    def raise_interruption(self) -> None:
        """Raise the exception that ended the work, with what was done.

        :raises StoppedError: if the task was stopped before all was done and verified.
        """
        if self.interrupted is None:
            return
        summary = self._summary_of_a_stop()
        if isinstance(self.interrupted, StoppedError):
            error = StoppedError(summary, "The next try completes the work.")
            if self.leaves_incomplete:
                error.remedy, error.permanent = _ONLY_AT_FIRST, True
                error.before_retry = "complete these websites first"
            if any(target.is_another_website for target in self.targets):
                error.remedy, error.permanent, error.before_retry = "", True, "check these websites first"
            raise error from None
        if isinstance(self.interrupted, (AuthenticationError, StorageError)):
            self.interrupted.so_far = summary
        else:
            log.warning("%s", summary)
        # Airflow expects to see its own exception again: for a timeout, and for a kill in Airflow 2.
        raise self.interrupted from None

    def _summary_of_a_stop(self) -> str:
        """Return the number of changed websites, and a line for each reason why others are not as expected."""
        changed = 0
        for target in self.targets:
            if target.sent and target.state is not State.UNCLEAR:
                changed += 1
        summary = f"Stopped: {changed:,} of {len(self.targets):,} websites changed"
        unclear = self.states[State.UNCLEAR]
        if unclear:
            summary += f", {unclear:,} might have been"
        return "\n".join([f"{summary}.", *reasons_of(self.failures, self.not_tried)])

    def raise_failures(self) -> None:
        """Raise an error if any website is not as desired.

        :raises NotAppliedError: if the service does not do what was requested.
        :raises BulkError: with every website that failed.
        """
        if self.stopped is not None:
            raise self.stopped
        if not self.failures:
            return
        # The error names only the first websites of each reason.
        names = first_of(list(self.failures), _MAX_LOGGED, show=readable)
        log.warning("Not as requested (%s): %s.", counted(len(self.failures), "website"), names)
        failed = [target for target in self.targets if not target.is_good]
        is_rejected = not self.unread and all(target.state is State.REJECTED for target in failed)
        # A retry would find nothing to do, and hide the values that were lost or not set.
        has_lost_values = any(target.state is State.FAILED and target.comparison.unsent for target in failed)
        # A retry would select the same id and change its new owner, or create the website again.
        has_another_website = any(target.is_another_website for target in failed)
        is_permanent = is_rejected or has_lost_values or has_another_website or self.leaves_incomplete
        error = BulkError(self.failures, self.applied, self.not_tried, is_permanent)
        if self.leaves_incomplete:
            error.remedy = _ONLY_AT_FIRST
        if self.unexpected_changes:
            error.so_far = f"Values that were not sent changed, too: {'; '.join(self.unexpected_changes)}."
        raise error


def _entries(target: Target, effect: str) -> set[str]:
    """Return the entries that were added to, or removed from, the lists of a website; sent again, they count once."""
    entries: set[str] = set()
    for change in target.sent:
        for field_change in change.fields:
            entries.update(getattr(field_change, effect))
    return entries
