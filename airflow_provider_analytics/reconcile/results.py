"""The results of a plan: one result with one state per website; everything else is derived from them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_provider_analytics.api.verification import Comparison, Differences, Expected, Record
from airflow_provider_analytics.exceptions import (
    AuthenticationError,
    BulkError,
    NotAppliedError,
    StoppedError,
    StorageError,
)
from airflow_provider_analytics.readable import first_of
from airflow_provider_analytics.reconcile.plan import Change

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
    #: The service refused the change, and a retry cannot succeed.
    REFUSED = "refused"
    #: No request was sent for it.
    NOT_TRIED = "not tried"


@dataclass(eq=False)
class Result:
    """The result of one website. Its state is correct at any time: it is *unclear* while a write is under way.

    :param planned: the change as it was planned.
    :param state: its state.
    :param why: why the change is not applied; empty if it is.
    :param sent: the changes that were sent and not refused, in order and as they were sent; a create has the id.
    :param unconfirmed: a change that failed, but may have been applied.
    :param may_repeat: whether that change is a create that was refused, and may be sent again once it is known that the
        website does not exist.
    :param expected: the expected record; None if nothing was sent.
    :param comparison: the record that was read last, compared with the expected one; None if it was not read back.
    :param is_contradicted: whether the service returned something else than what was sent.
    :param is_doubted: whether values were lost, and it is not known whether the service or someone else lost them.
    """

    planned: Change
    state: State = State.NOT_TRIED
    why: str = NOT_SENT
    sent: list[Change] = field(default_factory=list)
    unconfirmed: Change | None = None
    may_repeat: bool = False
    expected: Expected | None = None
    comparison: Comparison | None = None
    is_contradicted: bool = False
    is_doubted: bool = False

    def set(self, state: State, why: str = "") -> None:
        """Set state and reason together."""
        self.state, self.why = state, why

    @property
    def last(self) -> Change:
        """The last change that was sent, or the planned one."""
        return self.sent[-1] if self.sent else self.planned

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
        return self.expected.before if self.expected and self.planned.action == "update" else {}

    @property
    def unverified(self) -> tuple[str, ...]:
        """Sent fields that were not read back, or that the record does not contain."""
        if self.comparison is None:
            return tuple(one.field for one in self.last.fields) if self.sent else ()
        return self.comparison.unverified

    @property
    def unexpected(self) -> Differences:
        """Values and lines that were not sent but changed."""
        return self.comparison.unexpected if self.comparison else {}

    @property
    def lost(self) -> Record:
        """Unexpected changes that services cause: field to the value before."""
        return self.comparison.lost if self.comparison else {}

    @property
    def differences(self) -> str:
        """What is not as expected, as text."""
        return describe({**self.comparison.not_applied, **self.unexpected}) if self.comparison else ""

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

    :param results: one result for each planned change.
    :param unread: website to why it could not be read; nothing was planned for these websites.
    :param unfaithful: the error for a service that loses other values, or does not apply what is sent; no other
        websites were changed then.
    :param interrupted: the exception that ended the work before all was done and verified, such as
        :class:`StoppedError`, or the rejection of the API key; None if the work was complete.
    """

    results: Sequence[Result] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    unfaithful: NotAppliedError | None = None
    interrupted: BaseException | None = None

    @property
    def states(self) -> dict[str, int]:
        """Number of websites by state; their sum is the number of planned changes."""
        return {state.value: sum(one.state is state for one in self.results) for state in State}

    @property
    def applied(self) -> int:
        """Number of websites that were changed successfully."""
        return self.states[State.APPLIED]

    @property
    def not_tried(self) -> int:
        """Number of websites for which no request was sent."""
        return self.states[State.NOT_TRIED]

    @property
    def failures(self) -> dict[str, str]:
        """Website to why it is not as desired, including websites that could not be read.

        After a stop, websites that were not tried do not count as failed.
        """
        is_stopped = self.interrupted is not None and not isinstance(self.interrupted, AuthenticationError)
        failed = [one for one in self.results if not one.is_good and not (is_stopped and one.state is State.NOT_TRIED)]
        return {**self.unread, **{one.website: one.why for one in failed}}

    @property
    def unverified(self) -> list[str]:
        """Fields that could not be verified on at least one changed website."""
        return sorted({name for one in self.results for name in one.unverified})

    @property
    def unexpected_changes(self) -> list[str]:
        """Changed websites on which others changed something during the run, with a phrase each; at most twenty."""
        changed = [one for one in self.results if one.unexpected and one.is_good]
        return [f"{one.website}: {describe(one.unexpected)}" for one in changed[:_MAX_NAMED]]

    @property
    def is_verified(self) -> bool:
        """Whether all planned changes were applied and verified, and nothing else changed."""
        return not (self.failures or self.unverified or self.unexpected_changes or self.interrupted)

    def raise_interruption(self) -> None:
        """Raise the exception that ended the work, with what was done.

        :raises StoppedError: if the task was stopped before all was done and verified.
        """
        if self.interrupted is None:
            return
        unclear = self.states[State.UNCLEAR]
        changed = sum(bool(one.sent) and one.state is not State.UNCLEAR for one in self.results)
        also = f", {unclear:,} may have been" if unclear else ""
        summary = f"Stopped: {changed:,} of {len(self.results):,} websites changed{also}"
        reasons: dict[str, list[str]] = {}
        for website, why in self.failures.items():
            reasons.setdefault(why.rstrip("."), []).append(website)
        failed = [f"{first_of(websites, _MAX_IN_A_STOP)}: {why}" for why, websites in reasons.items()]
        summary += f". Not as expected: {first_of(failed, _MAX_IN_A_STOP, '; ')}" if failed else ""
        log.warning("%s", summary)
        if isinstance(self.interrupted, StoppedError):
            raise StoppedError(f"{summary}.", "The next try does the rest.") from None
        if isinstance(self.interrupted, (AuthenticationError, StorageError)):
            self.interrupted.so_far = f"{summary}."
        # Airflow expects to see its own exception again: for a timeout, and for a kill in Airflow 2.
        raise self.interrupted from None

    def raise_failures(self) -> None:
        """Raise an error if any website is not as desired.

        :raises NotAppliedError: if the service does not do what was requested.
        :raises BulkError: with every website that failed.
        """
        if self.unfaithful is not None:
            raise self.unfaithful
        if self.failures:
            failed = [one for one in self.results if not one.is_good]
            is_refused = not self.unread and all(one.state is State.REFUSED for one in failed)
            # A retry would find nothing to do, and hide what was lost.
            permanent = is_refused or any(one.is_doubted for one in failed)
            raise BulkError(self.failures, self.applied, self.not_tried, permanent)
