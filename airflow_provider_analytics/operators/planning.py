"""What the operators that plan and apply have in common: the files of ledgers and plans, and applying."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_analytics.exceptions import BulkError, StoppedError, UnsafePlanError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.reconcile.apply import ChangeOf, Outcome, Websites
    from airflow_provider_analytics.reconcile.approval import ApprovedPlan
    from airflow_provider_analytics.reconcile.ledger import Identity, Ledger, Owned
    from airflow_provider_analytics.reconcile.plan import Plan

#: Maximum number of changes in the return value, one line each; the counts cover the rest.
SHOWN_CHANGES = 20
#: What ``adopt`` may be.
ADOPT = ("matching",)

log = logging.getLogger(__name__)


class LedgerFile:
    """The file of a ledger, which nobody else may write meanwhile.

    :param path: URL or absolute path.
    :param identity: what the ledger must belong to.
    :param adopt: whether the list owns what it has in common with the websites, for the message of a missing file.
    """

    def __init__(self, path: str, identity: Identity, *, adopt: bool) -> None:
        from airflow_provider_analytics.hooks.object_storage import read_text
        from airflow_provider_analytics.reconcile.ledger import Ledger

        self._path = path
        self._text = read_text(path, "ledger_path")
        #: The ledger as it was read.
        self.ledger = Ledger(identity) if self._text is None else Ledger.parse(self._text, identity, path)
        if self._text is None:
            follows = "it owns those that it has in common" if adopt else "none of them is ever removed"
            log.warning(
                "Found no ledger at %s, as on a first run: all entries count as added by hand, and %s.", path, follows
            )

    def write(self, ledger: Ledger) -> None:
        """Write the ledger, unless somebody else wrote the file since it was read.

        :raises UnsafePlanError: if somebody did.
        """
        from airflow_provider_analytics.hooks.object_storage import read_text, write_text

        if read_text(self._path, "ledger_path") != self._text:
            raise UnsafePlanError(
                f"The ledger {self._path} was changed by somebody else since it was read: two runs must not share one. "
                "Set max_active_runs=1, and give each list a ledger_path of its own."
            )
        self._text = ledger.render()
        write_text(self._path, "ledger_path", self._text)

    def settle(self, ledger: Ledger) -> None:
        """Write the ledger at the end; if somebody else wrote the file meanwhile, let it own what both own.

        :raises UnsafePlanError: if somebody did.
        """
        from airflow_provider_analytics.hooks.object_storage import read_text, write_text
        from airflow_provider_analytics.reconcile.ledger import Ledger

        try:
            self.write(ledger)
        except UnsafePlanError:
            theirs = read_text(self._path, "ledger_path")
            if theirs is not None:
                both = Ledger.parse(theirs, ledger.identity, self._path).with_that_of(ledger)
                write_text(self._path, "ledger_path", both.render())
            raise


def account_of(hook: AnalyticsHook) -> str | None:
    """Return what tells the account from others; None if it does not show anything of the kind."""
    from airflow_provider_analytics.api.dialect import account_id

    return account_id(hook.get_account())


def write_plan(path: str, plan: Plan, redact: Callable[[str], str], *, overwrite: bool) -> None:
    """Write a plan as JSON, and as Markdown to ``<path>.md``.

    :param overwrite: replace another plan.
    :raises UnsafePlanError: if there is another plan, which somebody may be approving at this moment.
    """
    from airflow_provider_analytics.hooks.object_storage import read_text, write_text
    from airflow_provider_analytics.reconcile.markdown import to_markdown

    found = None if overwrite else read_text(path, "plan_path")
    if found is not None and f'"digest": "{plan.digest}"' not in found:
        raise UnsafePlanError(
            f"There is another plan at {path} already, which somebody may be approving: start a new run. Give each run "
            "a plan_path of its own, or set overwrite_plan=True if plans are approved by their digest."
        )
    write_text(path, "plan_path", json.dumps(plan.to_dict(), indent=1) + "\n")
    write_text(markdown_path(path), "plan_path", redact(to_markdown(plan, limit=None)))


def markdown_path(plan_path: str) -> str:
    """Return where the Markdown of a plan is."""
    return f"{plan_path}.md"


def read_approved(plan_path: str | None, expected_digest: str | None) -> ApprovedPlan | None:
    """Return the approved plan, or None if neither argument is given.

    :raises ValueError: if only one of them is given, or there is no plan.
    :raises UnsafePlanError: if the plan is not the approved one, or must not be applied.
    """
    from airflow_provider_analytics.hooks.object_storage import read_text
    from airflow_provider_analytics.reconcile.approval import ApprovedPlan
    from airflow_provider_analytics.reconcile.plan import Plan

    if plan_path is None and expected_digest is None:
        return None
    if not plan_path or not expected_digest:
        raise ValueError(
            f"expected_digest={expected_digest!r} with plan_path={plan_path!r} is not allowed; allowed: both, to apply "
            "an approved plan, or neither"
        )
    text = read_text(plan_path, "plan_path")
    if text is None:
        raise ValueError(f"plan_path={plan_path!r}: there is no such file; allowed: the plan_path of the plan task")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"plan_path={plan_path!r}: this is not a complete plan: {error}. Plan again") from error
    try:
        plan = Plan.from_dict(data)
    except ValueError as error:
        raise ValueError(f"plan_path={plan_path!r}: {error}") from error
    if plan.digest != expected_digest:
        raise UnsafePlanError(
            f"The plan is not the approved one: that at {plan_path} has the digest {plan.digest}, expected_digest is "
            f"{expected_digest}. Plan again. Nothing was sent."
        )
    plan.raise_if_unsafe("plan again with force=True")
    return ApprovedPlan(plan)


def same_scope(approved: Plan, scope: Mapping[str, Any]) -> None:
    """Raise :class:`UnsafePlanError` if a plan was approved for something else."""
    differing = [name for name, value in scope.items() if approved.scope.get(name) != value]
    if differing:
        told = "; ".join(f"{name} was {approved.scope.get(name)!r}, here it is {scope[name]!r}" for name in differing)
        raise UnsafePlanError(f"The plan was approved for something else: {told}. Nothing was sent.")


@dataclass(frozen=True)
class Planned:
    """A plan, and what it takes to apply it.

    :param websites: the websites as they were listed.
    :param records: records of the compared websites.
    :param change_of: works the change of a website out anew.
    :param max_removal_fraction: what the guards allow.
    :param ledger_file: the ledger of managed lists.
    :param managed: list fields that the ledger is about.
    :param lists: list field to the list of this run.
    :param unread: websites that could not be read, and why.
    :param ignore_gone: whether a website that no longer exists is no failure.
    """

    plan: Plan
    websites: Websites
    records: Sequence[Mapping[str, Any]]
    change_of: ChangeOf
    max_removal_fraction: float
    ledger_file: LedgerFile | None = None
    managed: Collection[str] = ()
    lists: Owned = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    ignore_gone: bool = False

    def raise_unread(self) -> None:
        """Raise :class:`BulkError` if websites could not be read: a plan without them is not the whole plan."""
        if self.unread:
            raise BulkError(self.unread)

    def only(self, approved: ApprovedPlan | None) -> Planned:
        """Return this plan if it may be applied: it is the approved one, or no guard trips.

        :raises UnsafePlanError: if it may not.
        """
        from airflow_provider_analytics.reconcile.guards import Watch

        if approved is None:
            self.plan.raise_if_unsafe()
            watch = Watch(self.plan, self.max_removal_fraction)
            return replace(self, change_of=watch.watching(self.change_of))
        self.raise_unread()
        approved.raise_unless_whole(self.plan, self.records)
        # The guards were judged when the plan was made.
        was = approved.plan
        plan = replace(self.plan, scope=was.scope, unsafe=was.unsafe, force=was.force)
        return replace(self, plan=plan, change_of=approved.only_approved(self.change_of))

    def apply(
        self,
        context: Context,
        redact: Callable[[str], str],
        *,
        audit_path: str | None,
        passwords: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Apply the plan, write the audit trail, and keep the ledger true before and afterwards.

        If the task is stopped meanwhile, both record what was sent and what may have been, and the stop is raised.

        :return: the outcome, with the websites that could not be read among the failures.
        :raises StoppedError: if the task was stopped before all was done and checked.
        """
        from airflow_provider_analytics.operators.audit import audit_trail
        from airflow_provider_analytics.reconcile.apply import apply_plan

        before = self.ledger_file.ledger if self.ledger_file else None
        claimed = before.claim(self.plan.changes, self.managed) if before else None
        if self.ledger_file and claimed:
            # Written before anything is sent: entries added by a task that is then killed must count as added.
            self.ledger_file.write(replace(claimed, lists={**claimed.lists, **self.lists}))
        with audit_trail(audit_path, context, redact) as audit:
            outcome = apply_plan(
                self.websites,
                self.plan,
                self.change_of,
                passwords=passwords,
                applied=audit.applied,
                undone=audit.undone,
                ignore_gone=self.ignore_gone,
            )
            outcome = replace(outcome, failures={**self.unread, **outcome.failures})
            stop = self._stopped(outcome, outcome.interrupted) if outcome.interrupted else None
            try:
                # First the ledger: the audit trail may be what failed.
                if self.ledger_file and before and claimed:
                    self.ledger_file.settle(
                        before.settle(
                            self.records,
                            outcome.sent,
                            self.lists,
                            claimed=claimed,
                            unclear=outcome.unclear,
                            differing=outcome.differing,
                            fields=self.managed,
                        )
                    )
            finally:
                audit.failed(outcome.failures)
        if stop:
            raise stop from None
        return outcome

    def _stopped(self, outcome: Outcome, by: BaseException) -> BaseException:
        """Return what to raise after a stop, and log how far it came."""
        unclear = f", {len(outcome.unclear):,} may have been" if outcome.unclear else ""
        told = f"Stopped: {outcome.applied:,} of {len(self.plan.changes):,} websites changed{unclear}"
        log.warning("%s", told)
        # A timeout, or Airflow 2 on a kill, raises an exception of its own, which it expects to see again.
        return StoppedError(f"{told}. The next try does the rest.") if isinstance(by, StoppedError) else by
