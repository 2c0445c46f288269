# SPDX-License-Identifier: Apache-2.0
"""Shared code of the operators that plan and apply: arguments, tables of lists, and the result."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_analytics.api.checks import fraction
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.guards import MAX_LOSS_FRACTION, parse_guards
from airflow_provider_analytics.operators.base import AnalyticsBaseOperator, require_run
from airflow_provider_analytics.readable import counted, first_of, readable

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.operators.state import ListFile
    from airflow_provider_analytics.reconcile.apply.results import Outcome
    from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
    from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, EntrySource
    from airflow_provider_analytics.reconcile.desired.tables import ListTables
    from airflow_provider_analytics.reconcile.desired.websites_config import WebsitesAsCode
    from airflow_provider_analytics.reconcile.engine import PlanRun
    from airflow_provider_analytics.storage import StoragePath

#: Maximum number of changes in the return value, one line each; the counts include all changes.
SHOWN_CHANGES = 20
#: Attributes of an entry in the return value.
_REPORTED = ("until", "owner", "reason")

log = logging.getLogger(__name__)


class PlanInput(NamedTuple):
    """The desired state before the websites are read.

    :param source: the list, or the file.
    :param scope: the service, account, and settings that the plan is bound to.
    :param folder: folder of the service and the account in the state folder.
    :param file: file of the list's table.
    :param lists: the tables with this run.
    """

    source: ExclusionList | WebsitesAsCode
    scope: Mapping[str, Any]
    folder: StoragePath | None
    file: ListFile | None
    lists: ListTables | None


class ReconcilingOperator(AnalyticsBaseOperator):
    """Base class of the operators that plan changes of many websites.

    :param state_path: folder (URL or absolute path) for the tables of managed lists, plans and audit trails; shared by
        all workers, and by all lists of a service. (templated)
    :param list_name: name of the list in this folder. (templated)
    :param override_guards: names of the guards to override, see :data:`~.guards.GUARDS`: a list, or text separated by
        commas. (templated)
    :param max_loss_fraction: largest fraction that can be lost, see :mod:`~.plan_guards`; default 0.3.
        (templated)
    """

    def __init__(
        self,
        *,
        state_path: str | None = None,
        list_name: str | None = None,
        override_guards: Iterable[str] | str = (),
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.state_path = state_path
        self.list_name = list_name
        self.override_guards = override_guards
        self.max_loss_fraction = max_loss_fraction

    def prepare(self, hook: AnalyticsHook, context: Context) -> PlanInput:
        """Return the desired state before the websites are read."""
        raise NotImplementedError

    @property
    def _limit(self) -> float:
        return fraction("max_loss_fraction", self.max_loss_fraction)

    @property
    def default_mode(self) -> str:
        """Mode of lists that name none: ``managed`` with a state folder, otherwise ``merge``."""
        if self.state_path:
            return "managed"
        return "merge"

    def folder(self, hook: AnalyticsHook, account: str | None) -> StoragePath | None:
        """Return the folder of the service and the account in the state folder; None without a state folder."""
        from airflow_provider_analytics.operators.state import folder_of

        if not self.state_path:
            return None
        return folder_of(self.state_path, hook.client.base_url, account)

    def list_file(self, folder: StoragePath | None, scope: Mapping[str, Any], context: Context, name: str) -> ListFile:
        """Return the file of the managed lists.

        :param scope: service and account.
        :param name: name of the list, if ``list_name`` is not given.
        """
        from airflow_provider_analytics.operators.state import ListFile
        from airflow_provider_analytics.reconcile.desired.tables import Identity

        if folder is None:
            raise ValueError("mode='managed' requires state_path, a folder: a URL or an absolute path")
        if not self.list_name and "ti" not in context:
            raise ValueError(
                "list_name is missing: outside a DAG run, a managed list has no default name. Give the name that the "
                "list has in its DAG"
            )
        return ListFile(folder, Identity(scope["service"], scope["account"], self.list_name or name))

    def plan(self, hook: AnalyticsHook, prepared: PlanInput, *, is_again: bool = False) -> PlanRun:
        """Read the websites, and plan the changes.

        :param is_again: whether this run has changed websites already. Warnings would be about its own changes.
        """
        from airflow_provider_analytics.operators.state import read_last_websites
        from airflow_provider_analytics.reconcile.engine import plan

        last = None
        if not is_again:
            last = read_last_websites(prepared.folder, prepared.scope)
        limit = self._limit
        planned = plan(
            hook.client,
            prepared.source,
            scope={**prepared.scope, "max_loss_fraction": limit},
            max_loss_fraction=limit,
            override_guards=parse_guards(self.override_guards),
            lists=prepared.lists,
            last=last,
        )
        if not is_again:
            for warning in planned.plan.warnings:
                self.log.warning("%s", warning)
        return planned

    def planned(self, hook: AnalyticsHook, context: Context, **more: Any) -> tuple[PlanRun, dict[str, Any]]:
        """Write the plan to the state folder, and return it and the result of the task.

        :param more: further values of the result.
        """
        from airflow_provider_analytics.operators.state import write_last_websites, write_plan

        prepared = self.prepare(hook, context)
        planned = self.plan(hook, prepared)
        planned.raise_unread()
        whole = None
        if prepared.folder:
            whole = write_plan(prepared.folder, planned.plan, hook.client.redact)
            if "ti" in context and not planned.plan.findings:
                write_last_websites(prepared.folder, prepared.scope, planned)
        return planned, result_of(planned, None, whole, **more)

    def applied(
        self, hook: AnalyticsHook, context: Context, approved_digest: object, *, ignore_gone: bool = False
    ) -> tuple[PlanRun, Outcome]:
        """Plan the changes, check the approval or the guards, and apply them.

        Without an approval, the list is announced before the websites are read. What another list removes before it
        has read this is seen to be missing.

        :param approved_digest: the approval, see :func:`~.reconcile.approval.parse_digest`.
        :param ignore_gone: do not count a website that no longer exists as a failure.
        """
        from airflow_provider_analytics.operators.audit import audit_trail
        from airflow_provider_analytics.operators.passwords import passwords_of
        from airflow_provider_analytics.operators.state import read_plan, write_last_websites
        from airflow_provider_analytics.reconcile.plan.approval import parse_digest
        from airflow_provider_analytics.reconcile.plan.plan_guards import GuardInput, managed_lists_lose_entries

        if self.state_path:
            require_run(context, ["ti"], "state_path")
        digest = parse_digest(approved_digest)
        prepared = self.prepare(hook, context)
        folder, file, lists = prepared.folder, prepared.file, prepared.lists
        if file and lists and digest is None:
            override_guards = parse_guards(self.override_guards)
            given = GuardInput(self._limit, override_guards, prepared.source.managed, lists)
            left = managed_lists_lose_entries(given)
            if left and "entries_lost" not in override_guards:
                raise GuardError("\n".join(left), "No changes were sent.", "entries_lost")
            file.write(lists, only_announced=True)

        def plan(*, is_again: bool = False) -> PlanRun:
            planned = self.plan(hook, prepared, is_again=is_again)
            return planned.check_approval(digest, lambda digest: read_plan(folder, digest))

        planned = plan()
        if file and lists:
            others = [other.rows for other in lists.others]
            file.read()
            file.write(lists)
            if others != [other.rows for other in lists.others]:  # another list changed while the websites were read
                planned = plan()
        passwords = passwords_of(planned.plan.password_sources, hook.client.redact)
        audited = folder if planned.plan.changes else None

        def read_tables() -> None:
            if file and lists:
                file.read_others(lists)

        with audit_trail(audited, context, hook.client.redact, planned.sources_of) as trail:

            def apply(planned: PlanRun) -> Outcome:
                return planned.apply(trail.sent, passwords=passwords, ignore_gone=ignore_gone, read_tables=read_tables)

            outcome = apply(planned)
            is_complete = digest is None and not outcome.failures and outcome.interrupted is None
            if file and lists and is_complete and file.runs_at_the_same_time(lists.run):
                # The other list might have fetched a website before it could see the update of this one.
                self.log.info("Another list ran in the hour before, or at the same time: reading all websites again.")
                hook.client.wait(sum(hook.client.confirm_waits))
                again = plan(is_again=True)
                if again.plan.changes:
                    outcome = outcome.followed_by(apply(again))
            try:
                trail.failed(outcome.failures)
            finally:
                outcome.raise_interruption()
        if file and lists:
            file.raise_if_overtaken(lists)
        if folder and not outcome.failures:
            write_last_websites(folder, prepared.scope, planned)
        return planned, outcome


def account_of(hook: AnalyticsHook) -> str | None:
    """Return a text that identifies the account; None if its record has no such value."""
    from airflow_provider_analytics.api.dialect import account_id

    return account_id(hook.get_account())


def _report_expiry(parts: Mapping[str, Sequence[EntryList]]) -> dict[str, Any]:
    """Return the expired and expiring entries for a result, and log them.

    :param parts: list field to the lists of this run.
    """
    from airflow_provider_analytics.reconcile.desired.list_lines import now

    expired: list[tuple[str, EntrySource]] = []
    expiring: list[tuple[str, EntrySource]] = []
    for lists in parts.values():
        for listed in lists:
            expired += listed.expired.items()
            expiring += listed.expiring(now().date()).items()
    return {
        "expired": _report_entries("Expired", expired),
        "expiring": _report_entries("Will expire soon", expiring),
    }


def _report_entries(title: str, entries: Iterable[tuple[str, EntrySource]]) -> list[dict[str, str]]:
    """Return entries with their owners, reasons, and expiration dates for a result, and log them."""
    report, lines = [], []
    for entry, source in dict.fromkeys(entries):
        values = {"entry": entry}
        for name in _REPORTED:
            value = getattr(source, name)
            if value:
                values[name] = str(value)
        report.append(values)
        lines.append(readable(f"{entry}: {source.text}"))
    if lines:
        log.info("%s: %s of the list\n%s", title, counted(len(lines), "line"), first_of(lines, SHOWN_CHANGES, "\n"))
    return report


def result_of(planned: PlanRun, outcome: Outcome | None, whole: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the result of the operators that plan and apply, bounded in size.

    :param outcome: outcome of the plan; None if it was not applied.
    :param whole: path of the complete plan as Markdown.
    :param more: further values of the operator.
    """
    from airflow_provider_analytics.reconcile.apply.results import Outcome
    from airflow_provider_analytics.reconcile.plan.plan_markdown import to_markdown

    plan, dry_run = planned.plan, outcome is None
    outcome = outcome or Outcome()
    if not planned.websites.records:
        log.warning("The account has no websites, so nothing was compared.")
    result = {
        **more,
        "dry_run": dry_run,
        **plan.report(SHOWN_CHANGES),
        **_report_expiry(planned.source.parts),
        "unchanged": len(planned.compared) - sum(change.action != "create" for change in plan.changes),
        "applied": outcome.applied,
        "states": outcome.states,
        "verified": bool(not dry_run and outcome.is_verified and (plan.websites_compared or plan.changes)),
        "unverified": outcome.unverified,
        "unexpected_changes": outcome.unexpected_changes,
        "markdown": to_markdown(plan, whole=whole) if dry_run else None,
    }
    return planned.websites.client.for_output(result)
