"""The engine: read, plan, guard, approve, change one website first, change the others, verify, settle.

The operators and the command line provide the desired state (a :class:`Source`) and format the result.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.exceptions import AuthenticationError, BulkError, GuardError, StoppedError
from airflow_provider_analytics.reconcile.apply import apply_plan
from airflow_provider_analytics.reconcile.approval import ApprovedPlan
from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS, Desired
from airflow_provider_analytics.reconcile.guards import LastList, Watch, guarded
from airflow_provider_analytics.reconcile.ledger import Ledger, Owned
from airflow_provider_analytics.reconcile.maintained import Listed
from airflow_provider_analytics.reconcile.plan import Change, Plan
from airflow_provider_analytics.reconcile.results import Outcome, State
from airflow_provider_analytics.reconcile.sending import ChangeOf
from airflow_provider_analytics.reconcile.websites import Websites

log = logging.getLogger(__name__)

#: Maximum number of websites in the error of a stop.
_MAX_NAMED = 10


class Source(Protocol):
    """The desired state before the websites are known: a list or a file."""

    @property
    def managed(self) -> Sequence[str]:
        """List fields that need a ledger."""

    @property
    def lists(self) -> Owned:
        """List field to the list of this run, if all websites get the same list."""

    @property
    def parts(self) -> Mapping[str, Sequence[Listed]]:
        """List field to its lists: the list for all websites, and the lists for some of them."""

    @property
    def fields(self) -> Collection[str]:
        """Fields that a compared record must contain."""

    def read(self, client: AnalyticsClient, workers: int) -> Websites:
        """Read the websites, with the fewest requests."""

    def resolve(self, records: Sequence[Mapping[str, Any]], *, again: bool = False) -> Desired:
        """Return the desired state of each website.

        :param again: whether it was resolved before; some websites were deleted since.
        """


class LedgerPort(Protocol):
    """The ledger of managed lists that this try took over."""

    @property
    def ledger(self) -> Ledger:
        """The ledger as it was read."""

    @property
    def replaced(self) -> str | None:
        """The try that took it over from this one, as text; None if no try did."""

    def claim(self, ledger: Ledger) -> None:
        """Write the ledger before changes are sent."""

    def settle(self, ledger: Ledger, *, is_open: bool) -> None:
        """Write the ledger at the end."""


class AuditPort(Protocol):
    """The audit trail."""

    def applied(self, change: Change) -> None:
        """Note a change that was applied."""

    def undone(self, change: Change) -> None:
        """Note that a change that was noted as applied does not hold."""

    def failed(self, failures: Mapping[str, str]) -> None:
        """Note the websites that failed, and why."""


@dataclass(frozen=True)
class Limits:
    """The limits of a plan.

    :param max_loss_fraction: largest fraction that may be lost, see :func:`guards.guarded`.
    :param force: override the guards.
    """

    max_loss_fraction: float
    force: bool = False


def plan(
    client: AnalyticsClient,
    source: Source,
    *,
    scope: Mapping[str, Any],
    limits: Limits,
    workers: int,
    ledger: LedgerPort | None = None,
    adopt: bool = False,
) -> Planned:
    """Read the websites, and plan the changes that bring them to the desired state.

    :param scope: what the plan is bound to.
    :param workers: maximum number of concurrent requests.
    :param ledger: the ledger, if the source has managed lists. It is taken over before, so that the websites are read
        after all claimed entries arrived.
    :param adopt: let the lists own the entries that they and the websites have in common, whoever added them.
    :raises ValueError: if the source cannot be resolved.
    :raises BulkError: if websites could not be read and the plan might create them.
    """
    websites = source.read(client, workers)
    desired = source.resolve(websites.records)
    compared = [record for record in websites.records if desired.is_compared(record)]
    doomed = [record for record in compared if str(record["id"]) in desired.doomed]
    kept = [record for record in compared if str(record["id"]) not in desired.doomed]
    owned = ledger.ledger if ledger else None
    kept, unread = websites.with_fields(kept, source.fields, owned.doubts if owned else None)
    # The plan contains all fields of deleted websites.
    doomed, also_unread = websites.with_fields(doomed, SETTABLE_FIELDS)
    unread |= also_unread
    read = {str(record["id"]): record for record in (*kept, *doomed)}
    gone = {str(record["id"]) for record in compared} - read.keys()
    records = [read.get(str(one["id"]), one) for one in websites.records if str(one["id"]) not in gone]
    if gone:  # a website that was deleted since the list was read counts as missing
        desired = source.resolve(records, again=True)
    if unread and desired.created:  # a website that could not be read must not be created
        raise BulkError(unread)
    compared = [record for record in records if desired.is_compared(record)]
    last_list: LastList | None = None
    if owned is not None:
        if adopt:
            owned = owned.adopt(compared, desired.lists(compared, source.managed))
        desired = desired.owning(owned, compared)
        last_list = next(((name, owned.lists.get(name, ()), now) for name, now in source.lists.items()), None)
    made = guarded(
        desired.plan(records, scope),
        limits.max_loss_fraction,
        force=limits.force,
        last_list=last_list,
        apart=_uncounted(source, owned),
    )
    return Planned(made, websites, records, compared, source, desired, limits, ledger, owned, unread)


def _uncounted(source: Source, owned: Ledger | None) -> dict[str, frozenset[str]]:
    """Return, by list field, the entries that no guard counts: addresses of host names, and expired entries."""
    moving = owned.moving if owned else {}
    expired = {name: frozenset(entry for one in parts for entry in one.expired) for name, parts in source.parts.items()}
    return {name: moving.get(name, frozenset()) | expired.get(name, frozenset()) for name in LINE_FIELDS}


@dataclass(frozen=True)
class Planned:
    """A plan, and the data that is needed to apply it.

    :param plan: the plan.
    :param websites: the websites as they were listed.
    :param records: current records of all listed websites.
    :param compared: the records that the plan compares.
    :param source: the source of the desired state.
    :param desired: the desired state of each website.
    :param limits: the limits of the plan.
    :param ledger: the ledger of managed lists.
    :param owned: its content, including adopted entries.
    :param unread: website to why it could not be read.
    :param approved: the approved plan, if there is one.
    """

    plan: Plan
    websites: Websites
    records: Sequence[Mapping[str, Any]]
    compared: Sequence[Mapping[str, Any]]
    source: Source
    desired: Desired
    limits: Limits
    ledger: LedgerPort | None = None
    owned: Ledger | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    approved: ApprovedPlan | None = None

    def sources_of(self, change: Change) -> dict[str, dict[str, str]]:
        """Return the sources of the entries that a change adds or removes: list field to entry to text."""
        wanted = self.desired.of({"id": change.website_id, "domain": change.domain})
        found: dict[str, dict[str, str]] = {}
        for one in change.fields:
            listed = wanted.listed.get(one.field, Listed()) if wanted else Listed()
            noted = self.owned.sources.get(one.field, {}) if self.owned else {}
            for line in (*one.added, *one.removed):
                entry = LINE_FIELDS[one.field].key(line)
                text = listed.source_of(entry) or (noted[entry].text if entry in noted else "")
                if text:
                    found.setdefault(one.field, {})[line] = text
        return found

    def raise_unread(self) -> None:
        """Raise :class:`BulkError` if websites could not be read: a plan without them is incomplete."""
        if self.unread:
            raise BulkError(self.unread)

    def only(self, approved: ApprovedPlan | None) -> Planned:
        """Return this plan if it may be applied: it is the approved one, or no guard trips.

        :raises GuardError: if it may not be applied.
        """
        if approved is None:
            self.plan.raise_if_unsafe()
            return self
        self.raise_unread()
        approved.raise_unless_whole(self.plan, self.records)
        # The guards were checked when the approved plan was made.
        was = approved.plan
        made = replace(self.plan, scope=was.scope, unsafe=was.unsafe, force=was.force)
        return replace(self, plan=made, approved=approved)

    def _change_of(self) -> ChangeOf:
        if self.approved is not None:
            return self.approved.only_approved(self.desired.change)
        apart = _uncounted(self.source, self.owned)
        return Watch(self.plan, self.limits.max_loss_fraction, apart).watching(self.desired.change)

    def apply(
        self,
        audit: AbstractContextManager[AuditPort],
        *,
        passwords: Mapping[str, str] | None = None,
        ignore_gone: bool = False,
    ) -> Outcome:
        """Apply the plan, and update the ledger and the audit trail before and afterwards.

        If the task is stopped during the run, both record what was sent and what may have been sent. Then the stop is
        raised.

        :param passwords: ``password_from`` reference to password.
        :param ignore_gone: do not count a website that no longer exists as a failure.
        :return: the outcome; its failures include the websites that could not be read.
        :raises StoppedError: if the task was stopped before all was done and verified.
        """
        claims = _Claims(self.ledger, self.owned, self.source.managed)
        # Written before anything is sent, so that entries added by a killed task are recorded.
        claims.add(self.plan.changes, self.source.lists)
        with audit as trail:
            outcome = apply_plan(
                self.websites,
                self.plan,
                self._change_of(),
                records=self.compared,
                shared=self.desired.shared,
                passwords=passwords,
                recorder=_Recorder(claims, trail),
                ignore_gone=ignore_gone,
            )
            outcome = replace(outcome, unread=self.unread)
            stop = self._stop_error(outcome, outcome.interrupted) if outcome.interrupted else None
            try:
                # The ledger first, because the audit trail may be the cause of the failure.
                claims.settle(self.compared, outcome, self.source.lists)
            except StoppedError as replaced:
                stop = stop or self._stop_error(outcome, replaced)
            finally:
                trail.failed(outcome.failures)
        if stop:
            raise stop from None
        return outcome

    def _stop_error(self, outcome: Outcome, by: BaseException) -> BaseException:
        """Return the exception to raise after a stop."""
        unclear = f", {len(outcome.unclear):,} may have been" if outcome.unclear else ""
        changed = sum(bool(one.sent) and one.state is not State.UNCLEAR for one in outcome.results)
        summary = f"Stopped: {changed:,} of {len(self.plan.changes):,} websites changed{unclear}"
        failed = [f"{website}: {why.rstrip('.')}" for website, why in outcome.failures.items()]
        if failed:
            more = f"; and {len(failed) - _MAX_NAMED:,} more" if len(failed) > _MAX_NAMED else ""
            summary += f". Not as expected: {'; '.join(failed[:_MAX_NAMED])}{more}"
        log.warning("%s", summary)
        if isinstance(by, AuthenticationError):
            by.so_far = f"{summary}."
        if not isinstance(by, StoppedError):
            # Airflow expects to see its own exception again: for a timeout, and for a kill in Airflow 2.
            return by
        replaced = self.ledger.replaced if self.ledger else None
        return StoppedError(f"{summary}.", f"The task was {replaced}." if replaced else "The next try does the rest.")


class _Claims:
    """The claims of this try in the ledger: entries that it may have added. Does nothing without a ledger."""

    def __init__(self, port: LedgerPort | None, before: Ledger | None, fields: Collection[str]) -> None:
        self._port = port
        self._before = before
        self._claimed = before
        self._fields = fields
        self._lock = threading.Lock()

    def add(self, changes: Sequence[Change], lists: Owned | None = None) -> None:
        """Claim all entries that these changes add, and write the ledger."""
        if self._port is None or self._claimed is None:
            return
        claimed = self._claimed.claim(changes, self._fields)
        self._claimed = replace(claimed, lists={**claimed.lists, **(lists or {})})
        self._port.claim(self._claimed)

    def cover(self, change: Change) -> bool:
        """Return whether all entries that a change adds were claimed; otherwise claim them.

        Called from several threads.
        """
        if self._claimed is None or self._claimed.covers(change, self._fields):
            return True
        with self._lock:
            if not self._claimed.covers(change, self._fields):
                self.add([change])
        return False

    def settle(self, compared: Sequence[Mapping[str, Any]], outcome: Outcome, lists: Owned) -> None:
        """Write the owned entries at the end."""
        if self._port is None or self._before is None:
            return
        seen = outcome.unchanged
        settled = self._before.settle(
            [seen.get(str(record["id"]), record) for record in compared],
            outcome.sent,
            lists,
            claimed=self._claimed,
            unclear=outcome.unclear,
            after=outcome.changed,
            fields=self._fields,
        )
        self._port.settle(settled, is_open=bool(outcome.unclear))


@dataclass(frozen=True)
class _Recorder:
    """Passes events to the claims and the audit trail."""

    claims: _Claims
    audit: AuditPort

    def claim(self, change: Change) -> bool:
        """Return whether the ledger covered a change that is about to be sent."""
        return self.claims.cover(change)

    def applied(self, change: Change) -> None:
        """Note a change that was applied."""
        self.audit.applied(change)

    def undone(self, change: Change) -> None:
        """Note that a change that was noted as applied does not hold."""
        self.audit.undone(change)


def same_scope(approved: Plan, scope: Mapping[str, Any]) -> None:
    """Raise :class:`GuardError` if a plan was approved for other settings."""
    differing = [name for name, value in scope.items() if approved.scope.get(name) != value]
    if differing:
        details = "; ".join(
            f"{name} was {approved.scope.get(name)!r}, here it is {scope[name]!r}" for name in differing
        )
        raise GuardError(f"The plan was approved for other settings: {details}.", "Nothing was sent. Plan again.")
