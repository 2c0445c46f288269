"""The one engine: read, plan, guard, approve, one website first, the others, verify, settle.

The operators and the command line say what is wanted (a :class:`Source`) and what is shown at the end.
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

#: Maximum number of websites that the error of a stop names.
_SHOWN = 10


class Source(Protocol):
    """What is wanted, before the websites are known: a list, or a file."""

    @property
    def managed(self) -> Sequence[str]:
        """List fields that need a ledger."""

    @property
    def lists(self) -> Owned:
        """List field to the list of this run, where all websites get the same."""

    @property
    def parts(self) -> Mapping[str, Sequence[Listed]]:
        """List field to its lists: one for all websites, and others for some of them."""

    @property
    def fields(self) -> Collection[str]:
        """Fields that a compared record has to show."""

    def read(self, client: AnalyticsClient, workers: int) -> Websites:
        """Read the websites, with the fewest requests."""

    def resolve(self, records: Sequence[Mapping[str, Any]], *, again: bool = False) -> Desired:
        """Return what is wanted of each website.

        :param again: it was resolved before, and some websites are gone since.
        """


class LedgerPort(Protocol):
    """The ledger of managed lists, as this try has taken it over."""

    @property
    def ledger(self) -> Ledger:
        """The ledger as it was read."""

    @property
    def replaced(self) -> str | None:
        """Who has taken it over from this try."""

    def claim(self, ledger: Ledger) -> None:
        """Write the ledger before changes are sent."""

    def settle(self, ledger: Ledger, *, is_open: bool) -> None:
        """Write the ledger at the end."""


class AuditPort(Protocol):
    """The audit trail."""

    def applied(self, change: Change) -> None:
        """Note a change that was applied."""

    def undone(self, change: Change) -> None:
        """Note that a change that was noted as applied is not there."""

    def failed(self, failures: Mapping[str, str]) -> None:
        """Note the websites that failed, and why."""


@dataclass(frozen=True)
class Limits:
    """What a plan may do.

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
    """Read the websites and plan the changes that make them what a source wants.

    :param scope: what the plan is bound to.
    :param workers: maximum number of concurrent requests.
    :param ledger: the ledger, if the source has managed lists; taken over before, so that all that it claims is shown.
    :param adopt: let the lists own what they have in common with the websites, whoever added it.
    :raises ValueError: if the source cannot be resolved.
    :raises BulkError: if websites could not be read that may be missing in the plan.
    """
    websites = source.read(client, workers)
    desired = source.resolve(websites.records)
    compared = [record for record in websites.records if desired.is_compared(record)]
    doomed = [record for record in compared if str(record["id"]) in desired.doomed]
    kept = [record for record in compared if str(record["id"]) not in desired.doomed]
    owned = ledger.ledger if ledger else None
    kept, unread = websites.with_fields(kept, source.fields, owned.doubts if owned else None)
    # What is deleted is shown whole.
    doomed, also_unread = websites.with_fields(doomed, SETTABLE_FIELDS)
    unread |= also_unread
    read = {str(record["id"]): record for record in (*kept, *doomed)}
    gone = {str(record["id"]) for record in compared} - read.keys()
    records = [read.get(str(one["id"]), one) for one in websites.records if str(one["id"]) not in gone]
    if gone:  # a website that is gone since the list was read is missing now
        desired = source.resolve(records, again=True)
    if unread and desired.created:  # one that could not be read must not be planned as new
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
        apart=_apart(source, owned),
    )
    return Planned(made, websites, records, compared, source, desired, limits, ledger, owned, unread)


def _apart(source: Source, owned: Ledger | None) -> dict[str, frozenset[str]]:
    """Return, by list field, what no guard counts: addresses of host names, which move, and what has expired."""
    moving = owned.moving if owned else {}
    expired = {name: frozenset(entry for one in parts for entry in one.expired) for name, parts in source.parts.items()}
    return {name: moving.get(name, frozenset()) | expired.get(name, frozenset()) for name in LINE_FIELDS}


@dataclass(frozen=True)
class Planned:
    """A plan, and what it takes to apply it.

    :param plan: the plan.
    :param websites: the websites as they were listed.
    :param records: current records of all listed websites.
    :param compared: those of them that the plan is about.
    :param source: what is wanted.
    :param desired: what is wanted of each website.
    :param limits: what the plan may do.
    :param ledger: the ledger of managed lists.
    :param owned: what it says, with what was adopted.
    :param unread: websites that could not be read, and why.
    :param approved: the plan that was approved, if there is one.
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

    def told(self, change: Change) -> dict[str, dict[str, str]]:
        """Return where the entries come from that a change adds or removes: list field to entry to a text."""
        wanted = self.desired.of({"id": change.website_id, "domain": change.domain})
        found: dict[str, dict[str, str]] = {}
        for one in change.fields:
            listed = wanted.listed.get(one.field, Listed()) if wanted else Listed()
            noted = self.owned.sources.get(one.field, {}) if self.owned else {}
            for line in (*one.added, *one.removed):
                entry = LINE_FIELDS[one.field].key(line)
                text = listed.told(entry) or (noted[entry].text if entry in noted else "")
                if text:
                    found.setdefault(one.field, {})[line] = text
        return found

    def raise_unread(self) -> None:
        """Raise :class:`BulkError` if websites could not be read: a plan without them is not the whole plan."""
        if self.unread:
            raise BulkError(self.unread)

    def only(self, approved: ApprovedPlan | None) -> Planned:
        """Return this plan if it may be applied: it is the approved one, or no guard trips.

        :raises GuardError: if it may not.
        """
        if approved is None:
            self.plan.raise_if_unsafe()
            return self
        self.raise_unread()
        approved.raise_unless_whole(self.plan, self.records)
        # The guards were judged when the plan was made.
        was = approved.plan
        made = replace(self.plan, scope=was.scope, unsafe=was.unsafe, force=was.force)
        return replace(self, plan=made, approved=approved)

    def _change_of(self) -> ChangeOf:
        if self.approved is not None:
            return self.approved.only_approved(self.desired.change)
        apart = _apart(self.source, self.owned)
        return Watch(self.plan, self.limits.max_loss_fraction, apart).watching(self.desired.change)

    def apply(
        self,
        audit: AbstractContextManager[AuditPort],
        *,
        passwords: Mapping[str, str] | None = None,
        ignore_gone: bool = False,
    ) -> Outcome:
        """Apply the plan, and keep ledger and audit trail true before and afterwards.

        If the task is stopped during the run, both record what was sent and what may have been, and the stop is raised.

        :param passwords: ``password_from`` reference to password.
        :param ignore_gone: whether a website that no longer exists is no failure.
        :return: the outcome, with the websites that could not be read among the failures.
        :raises StoppedError: if the task was stopped before all was done and verified.
        """
        claims = _Claims(self.ledger, self.owned, self.source.managed)
        # Written before anything is sent: entries added by a task that is then killed must count as added.
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
            stop = self._stopped(outcome, outcome.interrupted) if outcome.interrupted else None
            try:
                # First the ledger: the audit trail may be what failed.
                claims.settle(self.compared, outcome, self.source.lists)
            except StoppedError as replaced:
                stop = stop or self._stopped(outcome, replaced)
            finally:
                trail.failed(outcome.failures)
        if stop:
            raise stop from None
        return outcome

    def _stopped(self, outcome: Outcome, by: BaseException) -> BaseException:
        """Return what to raise after a stop."""
        unclear = f", {len(outcome.unclear):,} may have been" if outcome.unclear else ""
        changed = sum(bool(one.sent) and one.state is not State.UNCLEAR for one in outcome.results)
        told = f"Stopped: {changed:,} of {len(self.plan.changes):,} websites changed{unclear}"
        failed = [f"{website}: {why.rstrip('.')}" for website, why in outcome.failures.items()]
        if failed:
            more = f"; and {len(failed) - _SHOWN:,} more" if len(failed) > _SHOWN else ""
            told += f". Not as expected: {'; '.join(failed[:_SHOWN])}{more}"
        log.warning("%s", told)
        if isinstance(by, AuthenticationError):
            by.so_far = f"{told}."
        if not isinstance(by, StoppedError):
            # A timeout, or Airflow 2 on a kill, raises an exception of its own, which it expects to see again.
            return by
        replaced = self.ledger.replaced if self.ledger else None
        return StoppedError(f"{told}.", f"The task was {replaced}." if replaced else "The next try does the rest.")


class _Claims:
    """What the ledger says that this try may have added; without a ledger it does nothing."""

    def __init__(self, port: LedgerPort | None, before: Ledger | None, fields: Collection[str]) -> None:
        self._port = port
        self._before = before
        self._claimed = before
        self._fields = fields
        self._lock = threading.Lock()

    def add(self, changes: Sequence[Change], lists: Owned | None = None) -> None:
        """Write claims of all that these changes add."""
        if self._port is None or self._claimed is None:
            return
        claimed = self._claimed.claim(changes, self._fields)
        self._claimed = replace(claimed, lists={**claimed.lists, **(lists or {})})
        self._port.claim(self._claimed)

    def cover(self, change: Change) -> bool:
        """Return whether a change adds only what is claimed; claim it if it does not. Called from several threads."""
        if self._claimed is None or self._claimed.covers(change, self._fields):
            return True
        with self._lock:
            if not self._claimed.covers(change, self._fields):
                self.add([change])
        return False

    def settle(self, compared: Sequence[Mapping[str, Any]], outcome: Outcome, lists: Owned) -> None:
        """Write what is owned at the end."""
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
    """Hands on what happens to claims and audit trail."""

    claims: _Claims
    audit: AuditPort

    def claim(self, change: Change) -> bool:
        """Return whether the ledger covers a change that is about to be sent."""
        return self.claims.cover(change)

    def applied(self, change: Change) -> None:
        """Note a change that was applied."""
        self.audit.applied(change)

    def undone(self, change: Change) -> None:
        """Note that a change that was noted as applied is not there."""
        self.audit.undone(change)


def same_scope(approved: Plan, scope: Mapping[str, Any]) -> None:
    """Raise :class:`GuardError` if a plan was approved for something else."""
    differing = [name for name, value in scope.items() if approved.scope.get(name) != value]
    if differing:
        told = "; ".join(f"{name} was {approved.scope.get(name)!r}, here it is {scope[name]!r}" for name in differing)
        raise GuardError(f"The plan was approved for other settings: {told}.", "Nothing was sent. Plan again.")
