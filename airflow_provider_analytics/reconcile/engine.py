"""The engine: read, plan, guard, approve, write the table of the list, apply, verify.

The operators and the command line provide the desired state (a :class:`Source`) and format the result.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
from airflow_provider_analytics.exceptions import AuthenticationError, BulkError, GuardError, StoppedError
from airflow_provider_analytics.readable import counted
from airflow_provider_analytics.reconcile.apply import apply_plan
from airflow_provider_analytics.reconcile.approval import ApprovedPlan
from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS, Desired
from airflow_provider_analytics.reconcile.guards import guarded
from airflow_provider_analytics.reconcile.lists import Lists, Rows
from airflow_provider_analytics.reconcile.maintained import Listed
from airflow_provider_analytics.reconcile.plan import Change, Plan, website_name, website_of
from airflow_provider_analytics.reconcile.results import Outcome, State
from airflow_provider_analytics.reconcile.sending import Recorder
from airflow_provider_analytics.reconcile.websites import Websites

log = logging.getLogger(__name__)

#: Maximum number of websites in the error of a stop, and of entries in a warning.
_MAX_NAMED = 10


class Source(Protocol):
    """The desired state before the websites are known: a list or a file."""

    @property
    def managed(self) -> Sequence[str]:
        """List fields that need a table."""

    @property
    def scopes(self) -> Rows:
        """Managed list field to scope to the entries of this run."""

    @property
    def parts(self) -> Mapping[str, Sequence[Listed]]:
        """List field to its lists: the list for all websites, and the lists for some of them."""

    @property
    def fields(self) -> Collection[str]:
        """Fields that a compared record must contain."""

    def read(self, client: AnalyticsClient) -> Websites:
        """Read the websites, with the fewest requests."""

    def resolve(self, records: Sequence[Mapping[str, Any]], *, again: bool = False) -> Desired:
        """Return the desired state of each website.

        :param again: whether it was resolved before; some websites were deleted since.
        """


class AuditPort(Recorder, Protocol):
    """The audit trail."""

    def failed(self, failures: Mapping[str, str]) -> None:
        """Note the websites that failed, and why."""


def plan(
    client: AnalyticsClient,
    source: Source,
    *,
    scope: Mapping[str, Any],
    max_loss_fraction: float,
    accept: Collection[str] = (),
    lists: Lists | None = None,
) -> Planned:
    """Read the websites, and plan the changes that bring them to the desired state.

    :param scope: what the plan is bound to.
    :param max_loss_fraction: largest fraction that may be lost, see :func:`guards.guarded`.
    :param accept: names of the guards to override.
    :param lists: the tables, if the source has managed lists.
    :raises ValueError: if the source cannot be resolved.
    :raises BulkError: if websites could not be read and the plan might create them.
    """
    websites = source.read(client)
    desired = source.resolve(websites.records)
    compared = [record for record in websites.records if desired.is_compared(record)]
    doomed = [record for record in compared if str(record["id"]) in desired.doomed]
    kept = [record for record in compared if str(record["id"]) not in desired.doomed]
    kept, unread = websites.with_fields(kept, source.fields, lists.doubts if lists else None)
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
    desired = replace(desired, tables=lists)
    compared = [record for record in records if desired.is_compared(record)]
    unread |= {website_name(*website_of(one)): why for one in compared if (why := desired.unreadable(one))}
    records = [one for one in records if not desired.unreadable(one)]
    compared = [record for record in records if desired.is_compared(record)]
    warnings = _warnings(lists, desired, compared) if lists else []
    expired = {name: [entry for one in parts for entry in one.expired] for name, parts in source.parts.items()}
    made = guarded(
        desired.plan(records, scope),
        max_loss_fraction,
        accept=accept,
        managed=source.managed,
        lists=lists,
        expired=expired,
    )
    made = replace(made, warnings=(*made.warnings, *warnings))
    return Planned(made, websites, records, compared, source, desired, unread)


def _warnings(lists: Lists, desired: Desired, compared: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the first run of a list takes over, what goes because it left the list before, and what stays."""
    taken: Counter[str] = Counter()
    again: Counter[str] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    for record in compared:
        wanted = desired.of(record)
        for name in lists.table.rows if wanted else ():
            lines = normalise(name, record.get(name))
            there = {LINE_FIELDS[name].key(line) for line in lines} if isinstance(lines, tuple) else set()
            listed = set(wanted.settings.get(name, ())) if wanted else set()
            taken.update(there & listed)
            before = lists.before.entries_of(name, record)
            again.update(
                one for one in there.intersection(lists.owned(name, record)) if one in before and before[one].left
            )
            others = lists.kept(name, record)
            # Said once, when the entry leaves: the command why tells it later.
            leaving = {one for one in there - listed if one in before and not before[one].left}
            kept.update((entry, others[entry]) for entry in leaving if entry in others)
    found = []
    if lists.before.run is None and taken:
        named = ", ".join(f"{entry} on {counted(number, 'website')}" for entry, number in taken.most_common(_MAX_NAMED))
        found.append(
            f"First run of the list {lists.table.identity.list!r}: it owns its entries from now on, whoever typed "
            f"them: {named}{_more(len(taken))}"
        )
    if again:
        named = ", ".join(f"{entry} on {counted(number, 'website')}" for entry, number in again.most_common(_MAX_NAMED))
        found.append(f"Still there, although it left the list before: {named}{_more(len(again))}")
    if kept:
        named = ", ".join(
            f"{entry} on {counted(number, 'website')} (list {other!r})"
            for (entry, other), number in kept.most_common(_MAX_NAMED)
        )
        found.append(f"Not removed, because another list has it: {named}{_more(len(kept))}")
    return found


def _more(number: int) -> str:
    return f", and {number - _MAX_NAMED:,} more" if number > _MAX_NAMED else ""


@dataclass(frozen=True)
class Planned:
    """A plan, and the data that is needed to apply it.

    :param plan: the plan.
    :param websites: the websites as they were listed.
    :param records: current records of all listed websites.
    :param compared: the records that the plan compares.
    :param source: the source of the desired state.
    :param desired: the desired state of each website.
    :param unread: website to why it could not be read.
    :param approved: the approved plan, if there is one.
    """

    plan: Plan
    websites: Websites
    records: Sequence[Mapping[str, Any]]
    compared: Sequence[Mapping[str, Any]]
    source: Source
    desired: Desired
    unread: Mapping[str, str] = field(default_factory=dict)
    approved: ApprovedPlan | None = None

    def sources_of(self, change: Change) -> dict[str, dict[str, str]]:
        """Return the sources of the entries that a change adds or removes: list field to entry to text."""
        record = {"id": change.website_id, "domain": change.domain}
        wanted = self.desired.of(record)
        lists = self.desired.tables
        found: dict[str, dict[str, str]] = {}
        for one in change.fields:
            listed = wanted.listed.get(one.field, Listed()) if wanted else Listed()
            noted = lists.table.entries_of(one.field, record) if lists else {}
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

    def only(self, digest: str | None, find: Callable[[str], Plan | None]) -> Planned:
        """Return this plan if it may be applied: it is the approved one, or what is left of it, or no guard trips.

        :param digest: digest of the approved plan; None if no approval is needed.
        :param find: returns the plan with a digest; None if there is none.
        :raises GuardError: if it may not be applied.
        """
        if digest is None:
            self.plan.raise_if_unsafe()
            return self
        self.raise_unread()
        if self.plan.digest == digest:
            self.plan.raise_if_unsafe()
            return replace(self, approved=ApprovedPlan(self.plan))
        found = find(digest)
        if found is None:
            settings = ", ".join(f"{name} {value!r}" for name, value in self.plan.scope.items())
            raise GuardError(
                f"The plan is not the approved one: its digest is {self.plan.digest}, approved is {digest}.",
                f"Nothing was sent. Plan again, with the file and the settings of this task: {settings}.",
            )
        same_scope(found, self.plan.scope)
        refused = {guard: text for guard, text in self.plan.findings.items() if guard not in found.accept}
        replace(self.plan, findings=refused).raise_if_unsafe()
        approved = ApprovedPlan(found)
        approved.raise_unless_whole(self.plan, self.records)
        return replace(self, approved=approved)

    def apply(
        self,
        audit: AbstractContextManager[AuditPort],
        *,
        write: Callable[[Lists], None] | None = None,
        passwords: Mapping[str, str] | None = None,
        ignore_gone: bool = False,
    ) -> Outcome:
        """Write the table, apply the plan, and note each change in the audit trail.

        If the task is stopped during the run, the audit trail and the outcome have what was sent and what may have been
        sent. Then the stop is raised.

        :param write: writes the table of the list before anything is sent.
        :param passwords: ``password_from`` reference to password.
        :param ignore_gone: do not count a website that no longer exists as a failure.
        :return: the outcome; its failures include the websites that could not be read.
        :raises StoppedError: if the task was stopped before all was done and verified.
        """
        change_of = self.desired.change
        with audit as trail:
            if self.desired.tables is not None and write is not None:
                write(self.desired.tables)
            outcome = apply_plan(
                self.websites,
                self.plan,
                self.approved.only_approved(change_of) if self.approved else change_of,
                trail,
                records=self.compared,
                shared=self.desired.shared,
                passwords=passwords,
                ignore_gone=ignore_gone,
            )
            outcome = replace(outcome, unread=self.unread)
            stop = _stop_error(outcome) if outcome.interrupted else None
            trail.failed(outcome.failures)
        if stop:
            raise stop from None
        return outcome


def _stop_error(outcome: Outcome) -> BaseException:
    """Return the exception to raise after a stop."""
    unclear = outcome.states[State.UNCLEAR]
    changed = sum(bool(one.sent) and one.state is not State.UNCLEAR for one in outcome.results)
    also = f", {unclear:,} may have been" if unclear else ""
    summary = f"Stopped: {changed:,} of {len(outcome.results):,} websites changed{also}"
    failed = [f"{website}: {why.rstrip('.')}" for website, why in outcome.failures.items()]
    if failed:
        summary += f". Not as expected: {'; '.join(failed[:_MAX_NAMED])}{_more(len(failed))}"
    log.warning("%s", summary)
    if isinstance(outcome.interrupted, StoppedError):
        return StoppedError(f"{summary}.", "The next try does the rest.")
    if isinstance(outcome.interrupted, AuthenticationError):
        outcome.interrupted.so_far = f"{summary}."
    # Airflow expects to see its own exception again: for a timeout, and for a kill in Airflow 2.
    return outcome.interrupted or StoppedError(summary)


def same_scope(approved: Plan, scope: Mapping[str, Any]) -> None:
    """Raise :class:`GuardError` if a plan was approved for other settings."""
    differing = [name for name, value in scope.items() if approved.scope.get(name) != value]
    if differing:
        details = "; ".join(
            f"{name} was {approved.scope.get(name)!r}, here it is {scope[name]!r}" for name in differing
        )
        raise GuardError(f"The plan was approved for other settings: {details}.", "Nothing was sent. Plan again.")
