# SPDX-License-Identifier: Apache-2.0
"""Shared code of the operators that plan and apply: arguments, tables of lists, and the result."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, Variable, mask_secret

from airflow_provider_analytics.api.checks import invalid
from airflow_provider_analytics.operators.base import AnalyticsBaseOperator, require_run, skipped
from airflow_provider_analytics.operators.links import PlanLink
from airflow_provider_analytics.readable import Redactor, counted, first_of, readable

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.reconcile.apply.outcome import Outcome
    from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, EntrySource
    from airflow_provider_analytics.reconcile.job import Job, Planned
    from airflow_provider_analytics.reconcile.state import ListFile
    from airflow_provider_analytics.storage import StoragePath

#: Maximum number of changes in the return value, one line each; the counts include all changes.
SHOWN_CHANGES = 20
#: Attributes of an entry in the return value.
_REPORTED = ("until", "owner", "reason")

log = logging.getLogger(__name__)


class ReconcilingOperator(AnalyticsBaseOperator):
    """Base class of the operators that plan changes of many websites.

    :param state_path: folder (URL or absolute path) for the tables of managed lists, plans, and audit trails; shared by
        all workers, and by all lists of a service. (templated)
    :param list_name: name of the list in this folder. (templated)
    :param override_guards: names of the guards to override, see :data:`~.guards.GUARDS`: a list, or text separated by
        commas. (templated)
    :param max_loss_fraction: largest fraction that can be lost, see :mod:`~.plan_guards`; default 0.3.
        (templated)
    """

    state_path: str | None
    list_name: str | None
    override_guards: Iterable[str] | str
    max_loss_fraction: float

    operator_extra_links = (PlanLink(),)

    def prepare(self, hook: AnalyticsHook, context: Context) -> Job:
        """Return the desired state before the websites are read, and the tables of its lists."""
        raise NotImplementedError

    @property
    def default_mode(self) -> str:
        """Mode of lists that name none: ``managed`` with a state folder, otherwise ``merge``."""
        if self.state_path:
            return "managed"
        return "merge"

    def log_guards(self, planned: Planned) -> None:
        """Log each guard that blocks a plan; the log of the plan contains its cases."""
        for guard, finding in planned.plan.findings.items():
            self.log.warning("The guard %s blocks this plan: %s", guard, finding.partition("\n")[0])

    def log_outcome(self, what: str, outcome: Outcome, changes: str, more: str = "") -> None:
        """Log how many changes were applied, and how many failed or were not tried, if any.

        :param changes: noun for the changes, such as ``website``.
        :param more: further counts, as the end of the sentence.
        """
        unclear, not_tried = outcome.states["unclear"], len(outcome.not_tried)
        counts = {
            "unclear": unclear,
            "failed": len(outcome.failures) - unclear - not_tried,
            "not tried": not_tried,
        }
        others = [f"{number:,} {how}" for how, number in counts.items() if number]
        exceptions = ""
        if others:
            exceptions = f" ({', '.join(others)})"
        done = f"{outcome.applied:,} of {counted(len(outcome.targets), changes)}"
        self.log.info("%s %s%s%s.", what, done, exceptions, more)

    def folder(self, hook: AnalyticsHook, account: str | None) -> StoragePath | None:
        """Return the folder of the service and the account in the state folder; None without a state folder."""
        from airflow_provider_analytics.hooks.connection import storage_path
        from airflow_provider_analytics.reconcile.state import folder_of

        if not self.state_path:
            return None
        return folder_of(storage_path(self.state_path, "state_path"), hook.client.base_url, account)

    def list_file(self, folder: StoragePath | None, scope: Mapping[str, Any], context: Context, name: str) -> ListFile:
        """Return the file of the managed lists.

        :param scope: service and account.
        :param name: name of the list, if ``list_name`` is not given.
        """
        from airflow_provider_analytics.reconcile.desired.tables import Identity
        from airflow_provider_analytics.reconcile.state import ListFile

        if folder is None:
            raise ValueError("mode='managed' requires state_path, a folder: a URL or an absolute path")
        if not self.list_name and "ti" not in context:
            raise ValueError(
                "list_name is missing: outside a DAG run, a managed list has no default name. Give the name that the "
                "list has in its DAG"
            )
        return ListFile(folder, Identity(scope["service"], scope["account"], self.list_name or name))

    def planned(self, hook: AnalyticsHook, context: Context, **more: Any) -> tuple[Planned, dict[str, Any]]:
        """Write the plan to the state folder, and return it and the result of the task.

        :param more: further values of the result.
        """
        from airflow_provider_analytics.reconcile.engine import make_plan, store_plan
        from airflow_provider_analytics.reconcile.plan.plan_markdown import to_markdown

        job = self.prepare(hook, context)
        planned = make_plan(job)
        store_plan(job, planned)
        whole = to_markdown(planned.plan, is_whole=True)
        if to_markdown(planned.plan) != whole:
            # Airflow folds the lines between the two markers.
            self.log.info("::group::The whole plan\n%s", whole)
            self.log.info("::endgroup::")
        return planned, result_of(planned, None, getattr(context.get("ti"), "log_url", None), **more)

    def applied(
        self, hook: AnalyticsHook, context: Context, approved_digest: object, *, ignore_gone: bool = False
    ) -> tuple[Planned, Outcome]:
        """Plan the changes, check the approval or the guards, and apply them.

        :param approved_digest: the approval, see :func:`~.plan_guards.parse_digest`.
        :param ignore_gone: do not count a website that no longer exists as a failure.
        """
        from airflow_provider_analytics.reconcile.engine import apply_plan
        from airflow_provider_analytics.reconcile.plan.plan_guards import parse_digest
        from airflow_provider_analytics.reconcile.state import NewerRunError

        if self.state_path:
            require_run(context, ["ti"], "state_path")
        digest = parse_digest(approved_digest)
        job = self.prepare(hook, context)
        try:
            return apply_plan(job, digest, passwords_of, ignore_gone=ignore_gone)
        except NewerRunError as error:
            raise skipped(str(error)) from None


def account_of(hook: AnalyticsHook) -> str | None:
    """Return a text that identifies the account; None if its record has no such value."""
    from airflow_provider_analytics.api.laravel import account_id

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
        log.info("%s: %s of the list.\n%s", title, counted(len(lines), "line"), first_of(lines, SHOWN_CHANGES, "\n"))
    return report


def result_of(planned: Planned, outcome: Outcome | None, plan_url: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the result of the operators that plan and apply, bounded in size.

    :param outcome: outcome of the plan; None if it was not applied.
    :param plan_url: address of the log with the whole plan.
    :param more: further values of the operator.
    """
    from airflow_provider_analytics.reconcile.apply.outcome import Outcome
    from airflow_provider_analytics.reconcile.plan.plan_markdown import to_markdown

    plan, dry_run = planned.plan, outcome is None
    outcome = outcome or Outcome()
    if not planned.websites.records:
        log.warning("The account has no websites, so nothing was compared.")
    tables = planned.desired.tables
    result = {
        **more,
        "dry_run": dry_run,
        "list_is_new": tables is not None and tables.before.run is None,
        **plan.report(SHOWN_CHANGES),
        **_report_expiry(planned.source.parts),
        "unchanged": len(planned.compared) - sum(change.action != "create" for change in plan.changes),
        "applied": outcome.applied,
        "states": outcome.states,
        "verified": bool(not dry_run and outcome.is_verified and (plan.websites_compared or plan.changes)),
        "unverified": outcome.unverified,
        "unexpected_changes": outcome.unexpected_changes,
        "markdown": None,
        "plan_url": plan_url,
    }
    if dry_run:
        result["markdown"] = to_markdown(plan, url=plan_url)
    return planned.websites.client.for_output(result)


def passwords_of(references: Mapping[str, Iterable[str]], secrets: Redactor) -> dict[str, str]:
    """Return the password of each reference, and mask it in logs and in data.

    :param references: ``connection:NAME`` or ``variable:NAME`` to the domains that need its password.
    :param secrets: secrets of the connection; the passwords are added.
    :raises ValueError: if references are not allowed, have no password, or one that a service would change, such as
        with a line break at its end. The message contains the references but no password.
    """
    from airflow_provider_analytics.api.fields import FIELDS, PASSWORD_FROM, check_password_from

    passwords: dict[str, str] = {}
    missing, unusable = [], []
    for reference, domains in references.items():
        password = _password(check_password_from(reference))
        where = f"{PASSWORD_FROM}={reference!r} of {first_of(list(domains), 3)}"
        if not password:
            missing.append(where)
            continue
        passwords[reference] = password
        mask_secret(password)
        secrets.add(password)
        try:
            FIELDS["password"].from_user(password)
        except ValueError as error:
            unusable.append(f"{where}: {error}")
    if missing:
        remedy = "Create this Variable or connection. No changes were sent"
        raise ValueError(f"No password was found in {'; '.join(missing)}. {remedy}")
    if unusable:
        raise ValueError(f"{'; '.join(unusable)}. Correct the password in Airflow. No changes were sent")
    return passwords


def _password(reference: str) -> str | None:
    kind, _, name = reference.partition(":")
    if kind == "variable":
        found: str | None = Variable.get(name, None)
        return found
    try:
        connection = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        return None
    if connection.conn_type == "analytics":  # its password is an API key
        raise invalid("password_from", reference, "a connection of another type than analytics")
    return connection.password
