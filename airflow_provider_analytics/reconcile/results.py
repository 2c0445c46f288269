"""What became of each website of a plan: one result with one state, from which all else is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_analytics.exceptions import AuthenticationError, BulkError, NotAppliedError
from airflow_provider_analytics.reconcile.ledger import key_of
from airflow_provider_analytics.reconcile.plan import Change

#: Maximum number of websites that a result names for each reason.
_SHOWN = 20


class State(StrEnum):
    """What became of a website; each planned change ends in exactly one state."""

    #: It was as wanted already when its turn came.
    UNCHANGED = "unchanged"
    #: It was changed, and shows what was expected, as far as it shows it.
    APPLIED = "applied"
    #: The change was sent, and whether it was applied is unknown.
    UNCLEAR = "unclear"
    #: It could not be changed, or does not show what was expected.
    FAILED = "failed"
    #: The service refused the change for a reason that stays.
    REFUSED = "refused"
    #: No request was sent for it.
    NOT_TRIED = "not tried"


@dataclass
class Result:
    """What became of one website.

    :param planned: the change as it was planned.
    :param state: its state.
    :param why: why it is not applied; empty if it is.
    :param sent: the changes that were applied, in their order, each as it was sent; a create has the id.
    :param record: the record that was read last.
    :param unverified: fields of which the record does not tell whether they are as expected.
    :param besides: fields that were not sent and differ from before, with a phrase each.
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
        """Whether the website is as wanted, as far as it shows it."""
        return self.state in (State.UNCHANGED, State.APPLIED)


@dataclass(frozen=True)
class Outcome:
    """What became of a plan.

    :param results: one for each planned change.
    :param unread: websites that could not be read, so that nothing was planned for them, and why.
    :param unfaithful: the error of a service that changes more, or less, than was sent; nothing else was sent then.
    :param interrupted: what ended the work before all was done and verified, such as :class:`StoppedError`, or an API
        key that is not accepted any more; None if nothing did.
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
        """Number of websites that were changed with success."""
        return self.states[State.APPLIED]

    @property
    def sent(self) -> list[Change]:
        """The changes that were applied, in their order for each website."""
        return [change for one in self.results for change in one.sent]

    @property
    def unclear(self) -> frozenset[str]:
        """Keys of the websites that may or may not have been changed."""
        return frozenset(one.key for one in self.results if one.state is State.UNCLEAR)

    @property
    def changed(self) -> list[Mapping[str, Any]]:
        """Records of changed websites, as they were read last."""
        return [one.record for one in self.results if one.sent and one.record is not None]

    @property
    def unchanged(self) -> dict[str, Mapping[str, Any]]:
        """Records of websites that needed no change when their turn came, by id."""
        return {str(one.record["id"]): one.record for one in self.results if not one.sent and one.record is not None}

    @property
    def failures(self) -> dict[str, str]:
        """Website to why it is not as wanted, including those that could not be read.

        After a stop, the websites whose turn had not come did not fail.
        """
        is_stopped = self.interrupted is not None and not isinstance(self.interrupted, AuthenticationError)
        spared = State.NOT_TRIED if is_stopped else None
        failed = [one for one in self.results if not one.is_good and one.state is not spared]
        return {**self.unread, **{one.website: one.why for one in failed}}

    @property
    def unverified(self) -> list[str]:
        """Fields of which at least one changed website does not tell whether they are as expected."""
        return sorted({name for one in self.results for name in one.unverified})

    @property
    def besides(self) -> list[str]:
        """Changed websites on which other fields differ from before, with how, at most twenty."""
        named = [
            f"{one.website}: {'; '.join(f'{name} {how}' for name, how in one.besides.items())}"
            for one in self.results
            if one.besides
        ]
        return named[:_SHOWN]

    @property
    def is_verified(self) -> bool:
        """Whether all that was planned is there, was read again, and nothing else changed."""
        return not self.failures and not self.unverified and not self.besides and self.interrupted is None

    def raise_failures(self) -> None:
        """Raise an error if any website is not as wanted.

        :raises NotAppliedError: if the service does something else than it was asked for.
        :raises BulkError: with every website that failed.
        """
        if self.unfaithful is not None:
            raise self.unfaithful
        failures = self.failures
        if failures:
            failed = [one for one in self.results if not one.is_good]
            is_refused = not self.unread and all(one.state is State.REFUSED for one in failed)
            # A retry would find nothing to do, and hide what changed besides.
            permanent = is_refused or any(one.besides for one in failed)
            raise BulkError(failures, self.applied, self.states[State.NOT_TRIED], permanent)


def results_of(changes: Iterable[Change]) -> dict[str, Result]:
    """Return a result for each planned change, by the key of its website."""
    return {key_of(change): Result(change) for change in changes}
