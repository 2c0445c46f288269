"""The results of a plan: one result with one state per website; everything else is derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_analytics.exceptions import AuthenticationError, BulkError, NotAppliedError
from airflow_provider_analytics.reconcile.ledger import key_of
from airflow_provider_analytics.reconcile.plan import Change

#: Maximum number of websites with additional changes in a result.
_MAX_NAMED = 20


class State(StrEnum):
    """State of a website; each planned change ends in exactly one state."""

    #: It needed no change when its turn came.
    UNCHANGED = "unchanged"
    #: It was changed, and all returned fields are as expected.
    APPLIED = "applied"
    #: The change was sent, but the outcome is unknown.
    UNCLEAR = "unclear"
    #: It could not be changed, or is not as expected.
    FAILED = "failed"
    #: The service refused the change, and a retry cannot succeed.
    REFUSED = "refused"
    #: No request was sent for it.
    NOT_TRIED = "not tried"


@dataclass
class Result:
    """The result of one website.

    :param planned: the change as it was planned.
    :param state: its state.
    :param why: why the change is not applied; empty if it is.
    :param sent: the changes that were applied, in order and as they were sent; a create has the id.
    :param record: the record that was read last.
    :param unverified: fields that the record does not contain and that therefore could not be verified.
    :param besides: field to a phrase, for fields that were not sent but changed.
    """

    planned: Change
    state: State = State.NOT_TRIED
    why: str = ""
    sent: list[Change] = field(default_factory=list)
    record: Mapping[str, Any] | None = None
    unverified: tuple[str, ...] = ()
    besides: Mapping[str, str] = field(default_factory=dict)

    @property
    def website(self) -> str:
        """Name of the website for logs and errors."""
        return (self.sent[-1] if self.sent else self.planned).website

    @property
    def key(self) -> str:
        """Key of the website in the ledger: its id, or its domain while it has none."""
        return key_of(self.sent[-1] if self.sent else self.planned)

    @property
    def is_good(self) -> bool:
        """Whether the website is as desired, in all fields that its record contains."""
        return self.state in (State.UNCHANGED, State.APPLIED)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a plan.

    :param results: one result for each planned change.
    :param unread: website to why it could not be read; nothing was planned for these websites.
    :param unfaithful: the error for a service that changes more, or less, than was sent; no other websites were changed
        then.
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
    def sent(self) -> list[Change]:
        """The changes that were applied, in order for each website."""
        return [change for one in self.results for change in one.sent]

    @property
    def unclear(self) -> frozenset[str]:
        """Keys of the websites that may or may not have been changed."""
        return frozenset(one.key for one in self.results if one.state is State.UNCLEAR)

    @property
    def changed(self) -> list[Mapping[str, Any]]:
        """Last records of changed websites."""
        return [one.record for one in self.results if one.sent and one.record is not None]

    @property
    def unchanged(self) -> dict[str, Mapping[str, Any]]:
        """Records of websites that needed no change when their turn came, by id."""
        return {str(one.record["id"]): one.record for one in self.results if not one.sent and one.record is not None}

    @property
    def failures(self) -> dict[str, str]:
        """Website to why it is not as desired, including websites that could not be read.

        After a stop, websites that were not tried do not count as failed.
        """
        is_stopped = self.interrupted is not None and not isinstance(self.interrupted, AuthenticationError)
        spared = State.NOT_TRIED if is_stopped else None
        failed = [one for one in self.results if not one.is_good and one.state is not spared]
        return {**self.unread, **{one.website: one.why for one in failed}}

    @property
    def unverified(self) -> list[str]:
        """Fields that could not be verified on at least one changed website."""
        return sorted({name for one in self.results for name in one.unverified})

    @property
    def besides(self) -> list[str]:
        """Changed websites on which fields changed that were not sent, with a phrase each; at most twenty."""
        return [
            f"{one.website}: {'; '.join(f'{name} {how}' for name, how in one.besides.items())}"
            for one in self.results
            if one.besides and one.is_good
        ][:_MAX_NAMED]

    @property
    def is_verified(self) -> bool:
        """Whether all planned changes were applied and verified, and nothing else changed."""
        return not self.failures and not self.unverified and not self.besides and self.interrupted is None

    def raise_failures(self) -> None:
        """Raise an error if any website is not as desired.

        :raises NotAppliedError: if the service does not do what was requested.
        :raises BulkError: with every website that failed.
        """
        if self.unfaithful is not None:
            raise self.unfaithful
        failures = self.failures
        if failures:
            failed = [one for one in self.results if not one.is_good]
            is_refused = not self.unread and all(one.state is State.REFUSED for one in failed)
            # A retry would find nothing to do, and hide the additional changes.
            permanent = is_refused or any(one.besides for one in failed)
            raise BulkError(failures, self.applied, self.states[State.NOT_TRIED], permanent, self.besides)


def results_of(changes: Iterable[Change]) -> dict[str, Result]:
    """Return a result for each planned change, by the key of its website."""
    return {key_of(change): Result(change) for change in changes}
