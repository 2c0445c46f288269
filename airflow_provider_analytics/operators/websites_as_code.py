"""Operators for websites as code: plan, apply, export, and check for drift."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_analytics.exceptions import BulkError, SnapshotError, UnsafePlanError
from airflow_provider_analytics.operators.base import AnalyticsOperator, permanent_failure
from airflow_provider_analytics.thresholds import MAX_LOSS_FRACTION

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.operators.task_arguments import TaskArguments
    from airflow_provider_analytics.reconcile.plan import Plan

#: Maximum number of changes in the return value, one line each; the counts cover the rest.
SHOWN_CHANGES = 20
ON_DRIFT = ("fail", "skip", "report")


class _WebsitesAsCodeOperator(AnalyticsOperator):
    """Base class of the operators that plan."""

    template_fields: Sequence[str] = (
        "config_path",
        "prune",
        "max_removal_fraction",
        "max_workers",
        "analytics_conn_id",
    )

    def __init__(
        self,
        *,
        config_path: str,
        prune: bool,
        max_removal_fraction: float,
        max_workers: int,
        analytics_conn_id: str,
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.config_path = config_path
        self.prune = prune
        self.max_removal_fraction = max_removal_fraction
        self.max_workers = max_workers

    def _plan(self, hook: AnalyticsHook, *, prune: bool) -> tuple[Plan, list[Mapping[str, Any]]]:
        """Compare the file with the complete list of websites; return the plan, and the current records."""
        from airflow_provider_analytics.api.checks import fraction, whole_number
        from airflow_provider_analytics.hooks.object_storage import read_text
        from airflow_provider_analytics.reconcile.apply import complete_records
        from airflow_provider_analytics.reconcile.websites_as_code import plan_websites, relevant_records
        from airflow_provider_analytics.reconcile.websites_file import parse_websites_file

        fraction("max_removal_fraction", self.max_removal_fraction)
        workers = whole_number("max_workers", self.max_workers, at_least=1)
        text = read_text(self.config_path, "config_path")
        if text is None:
            raise ValueError(f"config_path={self.config_path!r}: there is no such file; allowed: a YAML file")
        websites_file = parse_websites_file(text, self.config_path.rpartition("/")[2])
        # A plan that was made for another service or account is another plan.
        account = hook.get_account().get("id")
        scope = {"service": hook.client.base_url, "account": None if account is None else str(account), "prune": prune}
        everything = hook.list_websites()
        named, others = relevant_records(websites_file, everything)
        named, unread = complete_records(hook.client, named, websites_file.fields, workers=workers)
        if unread:  # a website that could not be read must not be planned as new
            raise BulkError(unread)
        plan = replace(plan_websites(websites_file, [*named, *others], prune=prune), scope=scope)
        # Those that the file no longer names as well: an approved plan may be about them.
        whole = {str(record["id"]): record for record in (*everything, *named)}
        return plan, list(whole.values())

    def _result(self, hook: AnalyticsHook, plan: Plan, applied: int = 0) -> dict[str, Any]:
        """Return the result of all these operators, bounded in size."""
        try:
            plan.raise_if_unsafe(float(self.max_removal_fraction))
            unsafe = None
        except UnsafePlanError as error:
            unsafe = str(error)
        warning = f"**Guard tripped:** {unsafe}\n\n" if unsafe else ""
        result = {
            **plan.to_dict(SHOWN_CHANGES),
            "unsafe": unsafe,
            "markdown": warning + plan.to_markdown(),
            "applied": applied,
        }
        return hook.client.for_output(result)


class PlanWebsitesOperator(_WebsitesAsCodeOperator):
    """Plan the changes that make the websites match a file; send nothing (docs/websites_as_code.md).

    .. code-block:: python

        PlanWebsitesOperator(
            task_id="plan",
            config_path="/opt/airflow/dags/websites.yaml",
            plan_path="s3://analytics-state/plans/{{ run_id }}.json",
        )

    :param config_path: the YAML file (URL or absolute path). (templated)
    :param plan_path: where to write the complete plan as JSON, and as Markdown to ``<plan_path>.md`` (URL or absolute
        path). (templated)
    :param prune: also delete websites that are not in the file. (templated)
    :param max_removal_fraction: largest fraction of the websites, or of the entries of a list, that may be removed;
        default 0.3; checked from 10 up. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict: ``digest`` (for :class:`ApplyWebsitesOperator`), ``markdown`` (for example for the body of an
        ``ApprovalOperator``), the numbers of ``creates``, ``updates``, ``deletes``, ``entries_added``,
        ``entries_removed`` and ``websites`` compared, the first 20 changes as one line each (``changes``) and the
        number of further ones (``changes_left_out``), ``unsafe`` (the message of the guard that trips, or None), and
        ``applied`` (0).
    :raises AirflowFailException: without a retry, if an argument is not allowed, the file has problems (all of them are
        listed), or the connection cannot be used.
    :raises BulkError: if websites could not be read.
    """

    template_fields: Sequence[str] = (*_WebsitesAsCodeOperator.template_fields, "plan_path")

    def __init__(
        self,
        *,
        config_path: str,
        plan_path: str | None = None,
        prune: bool = False,
        max_removal_fraction: float = MAX_LOSS_FRACTION,
        max_workers: int = 8,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(
            config_path=config_path,
            prune=prune,
            max_removal_fraction=max_removal_fraction,
            max_workers=max_workers,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.plan_path = plan_path

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan the changes, and write the plan to ``plan_path``."""
        from airflow_provider_analytics.api.checks import flag
        from airflow_provider_analytics.hooks.object_storage import write_text

        with self.connected() as hook:
            plan, _ = self._plan(hook, prune=flag("prune", self.prune))
            result = self._result(hook, plan)
            if self.plan_path:
                write_text(self.plan_path, "plan_path", json.dumps(plan.to_dict(), indent=1) + "\n")
                write_text(f"{self.plan_path}.md", "plan_path", hook.client.redact(plan.to_markdown(len(plan.changes))))
        self.log.info("Planned %s:\n%s", self.config_path, result["markdown"])
        return result


class ApplyWebsitesOperator(_WebsitesAsCodeOperator):
    """Make the websites match a file, if the plan is still the approved one (docs/websites_as_code.md).

    Reads the list and plans again. Only a plan with the expected digest is applied: if the file or a website changed
    since, the digest differs and the task fails without a retry. A second run finds nothing to change and succeeds.
    With ``plan_path`` a retry after a crash continues, if the remaining changes are part of the approved plan.

    Before a delete, the domain of the id is checked once more. Passwords are read from the connection or variable
    that ``password_from`` names, only when they are needed.

    .. code-block:: python

        ApplyWebsitesOperator(
            task_id="apply",
            config_path="/opt/airflow/dags/websites.yaml",
            plan_path="s3://analytics-state/plans/{{ run_id }}.json",
            expected_digest="{{ ti.xcom_pull(task_ids='plan')['digest'] }}",
        )

    :param config_path: the YAML file (URL or absolute path). (templated)
    :param expected_digest: ``digest`` of the approved plan; None applies any plan within the guards. (templated)
    :param plan_path: ``plan_path`` of :class:`PlanWebsitesOperator`. (templated)
    :param prune: also delete websites that are not in the file; without ``plan_path`` only. (templated)
    :param max_removal_fraction: largest fraction of the websites, or of the entries of a list, that may be removed;
        default 0.3; checked from 10 up. (templated)
    :param force: apply the plan even if this guard trips. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param audit_path: folder (URL or absolute path) for a JSON line per changed field and failed website. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: the same dict as :class:`PlanWebsitesOperator`; ``applied`` is the number of websites changed.
    :raises AirflowFailException: without a retry and before anything is sent, if an argument is not allowed, the file
        has problems, the plan is not the approved one, a guard trips, or the connection cannot be used.
    :raises BulkError: if websites could not be read; or at the end, if websites failed: then a retry applies the
        remaining changes (with ``plan_path``, or without ``expected_digest``).
    """

    template_fields: Sequence[str] = (
        *_WebsitesAsCodeOperator.template_fields,
        "expected_digest",
        "plan_path",
        "force",
        "audit_path",
    )

    def __init__(
        self,
        *,
        config_path: str,
        expected_digest: str | None = None,
        plan_path: str | None = None,
        prune: bool = False,
        max_removal_fraction: float = MAX_LOSS_FRACTION,
        force: bool = False,
        max_workers: int = 8,
        audit_path: str | None = None,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(
            config_path=config_path,
            prune=prune,
            max_removal_fraction=max_removal_fraction,
            max_workers=max_workers,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.expected_digest = expected_digest
        self.plan_path = plan_path
        self.force = force
        self.audit_path = audit_path

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan again, check the digest and the guards, and apply the plan."""
        from airflow_provider_analytics.api.checks import flag
        from airflow_provider_analytics.operators.audit import audit_trail
        from airflow_provider_analytics.reconcile.apply import apply_plan

        with self.connected() as hook:
            approved = self._approved(self.plan_path) if self.plan_path and self.expected_digest is not None else None
            prune = flag("prune", self.prune) if approved is None else bool(approved.scope.get("prune"))
            plan, records = self._plan(hook, prune=prune)
            self._check_approved(plan, approved, records)
            if not flag("force", self.force):
                plan.raise_if_unsafe(float(self.max_removal_fraction))
            passwords = _passwords(plan)
            with audit_trail(self.audit_path, context, hook.client.redact) as audit:
                outcome = apply_plan(
                    hook.client, plan, workers=int(self.max_workers), passwords=passwords, applied=audit.applied
                )
                audit.failed(outcome.failures)
            result = self._result(hook, plan, len(outcome.done))
            self.log.info(
                "Applied %s of %s changes, %s failed. The plan was:\n%s",
                *(f"{number:,}" for number in (len(outcome.done), len(plan.changes), len(outcome.failures))),
                result["markdown"],
            )
            outcome.raise_failures()
        return result

    def _check_approved(self, plan: Plan, approved: Plan | None, records: Iterable[Mapping[str, Any]]) -> None:
        """Raise unless this is the approved plan, or what is left of it after a crash."""
        if self.expected_digest is None or plan.digest == self.expected_digest:
            return
        if approved is None:
            if not plan.changes:
                self.log.info("Applied nothing: the websites match %s.", self.config_path)
                return
            told = ""
        else:
            if approved.scope != plan.scope:
                raise UnsafePlanError(
                    f"The plan was approved for {dict(approved.scope)}, this is {dict(plan.scope)}. Nothing was sent."
                )
            dropped = plan.unfulfilled(approved, records)
            if plan.remainder_of(approved) and not dropped:
                self.log.info("Continuing the approved plan: %d changes are left.", len(plan.changes))
                return
            told = f" Approved, and no longer planned: {'; '.join(change.summary for change in dropped[:5])}."
            told = told if dropped else ""
        raise UnsafePlanError(
            f"The plan is not the approved one: the file or the websites changed since. Plan again; nothing was sent."
            f"{told} Its digest is {plan.digest}, expected_digest is {self.expected_digest}."
        )

    def _approved(self, path: str) -> Plan:
        from airflow_provider_analytics.hooks.object_storage import read_text
        from airflow_provider_analytics.reconcile.plan import Plan

        text = read_text(path, "plan_path")
        if text is None:
            raise ValueError(f"plan_path={path!r}: there is no such file; allowed: the plan_path of the plan task")
        approved = Plan.from_dict(json.loads(text))
        if approved.digest != self.expected_digest:
            raise UnsafePlanError(
                f"the plan at {path} has the digest {approved.digest}, expected_digest is {self.expected_digest}: plan "
                "again. Nothing was sent."
            )
        return approved


class CheckDriftOperator(_WebsitesAsCodeOperator):
    """Fail, skip or report if the websites differ from a file; send nothing (docs/websites_as_code.md).

    .. code-block:: python

        CheckDriftOperator(task_id="drift", config_path="/opt/airflow/dags/websites.yaml", on_drift="report")

    :param config_path: the YAML file (URL or absolute path). (templated)
    :param on_drift: ``"fail"`` (default, without a retry), ``"skip"`` or ``"report"``. (templated)
    :param prune: websites that are not in the file count as drift, too. (templated)
    :param max_removal_fraction: as for :class:`PlanWebsitesOperator`; only reported, in ``unsafe``. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: the same dict as :class:`PlanWebsitesOperator`.
    :raises AirflowFailException: without a retry, if there is drift and ``on_drift="fail"``, an argument is not
        allowed, the file has problems, or the connection cannot be used.
    :raises AirflowSkipException: if there is drift and ``on_drift="skip"``.
    :raises BulkError: if websites could not be read.
    """

    template_fields: Sequence[str] = (*_WebsitesAsCodeOperator.template_fields, "on_drift")

    def __init__(
        self,
        *,
        config_path: str,
        on_drift: str = "fail",
        prune: bool = False,
        max_removal_fraction: float = MAX_LOSS_FRACTION,
        max_workers: int = 8,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(
            config_path=config_path,
            prune=prune,
            max_removal_fraction=max_removal_fraction,
            max_workers=max_workers,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.on_drift = on_drift

    def execute(self, context: Context) -> dict[str, Any]:
        """Compare the websites with the file."""
        from airflow_provider_analytics.api.checks import flag, one_of

        with self.connected() as hook:
            one_of("on_drift", self.on_drift, ON_DRIFT)
            result = self._result(hook, self._plan(hook, prune=flag("prune", self.prune))[0])
        self.log.info("Compared the websites with %s:\n%s", self.config_path, result["markdown"])
        if result["changes"] and self.on_drift != "report":
            message = f"The websites differ from {self.config_path}: {'; '.join(result['changes'])}"
            if result["changes_left_out"]:
                message += f"; and {result['changes_left_out']:,} more"
            if self.on_drift == "skip":
                raise AirflowSkipException(message)
            raise permanent_failure(message, "on_drift='fail' asks for it")
        return result


class ExportWebsitesOperator(AnalyticsOperator):
    """Write the current websites, or those of a snapshot, to a file for websites as code.

    Planned against the same websites, the file changes nothing. To restore a snapshot: export it, plan, apply. What
    cannot be restored (ids, statistics, passwords, and fields that the records do not show) is listed at the top of the
    file. See docs/websites_as_code.md.

    .. code-block:: python

        ExportWebsitesOperator(task_id="export", config_path="s3://analytics-state/websites.yaml")

    :param config_path: where to write the YAML file (URL or absolute path). (templated)
    :param base_path: ``base_path`` of :class:`SnapshotWebsitesOperator`; None exports the current state. (templated)
    :param snapshot_date: day of the snapshot, YYYY-MM-DD; only with ``base_path``. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: ``{"config_path": ..., "websites": ..., "origin": ...}``: path of the file, number of websites, and their
        source.
    :raises AirflowFailException: without a retry, if an argument is not allowed, several websites have the same domain,
        or the connection cannot be used.
    :raises SnapshotError: if the snapshot does not exist or cannot be read.
    :raises BulkError: if websites could not be read.
    """

    template_fields: Sequence[str] = ("config_path", "base_path", "snapshot_date", "max_workers", "analytics_conn_id")

    def __init__(
        self,
        *,
        config_path: str,
        base_path: str | None = None,
        snapshot_date: str | None = None,
        max_workers: int = 8,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.config_path = config_path
        self.base_path = base_path
        self.snapshot_date = snapshot_date
        self.max_workers = max_workers

    def execute(self, context: Context) -> dict[str, Any]:
        """Write the file."""
        from airflow_provider_analytics.hooks.object_storage import write_text
        from airflow_provider_analytics.reconcile.websites_file import export_websites

        with self.connected() as hook:
            if (self.base_path is None) != (self.snapshot_date is None):
                raise ValueError(
                    f"base_path={self.base_path!r} and snapshot_date={self.snapshot_date!r} are not allowed together; "
                    "allowed: both, or neither for the current state"
                )
            records, origin = self._recorded() if self.base_path else self._current(hook)
            text = export_websites(records, origin=origin)
            write_text(self.config_path, "config_path", text)
        self.log.info("Exported %d websites of %s to %s", len(records), origin, self.config_path)
        return {"config_path": self.config_path, "websites": len(records), "origin": origin}

    def _current(self, hook: AnalyticsHook) -> tuple[list[Mapping[str, Any]], str]:
        from airflow_provider_analytics.api.checks import whole_number
        from airflow_provider_analytics.reconcile.apply import complete_records
        from airflow_provider_analytics.reconcile.websites_file import SETTABLE_FIELDS

        workers = whole_number("max_workers", self.max_workers, at_least=1)
        records, unread = complete_records(hook.client, hook.list_websites(), SETTABLE_FIELDS, workers=workers)
        if unread:
            raise BulkError(unread)
        return records, hook.client.base_url

    def _recorded(self) -> tuple[list[Mapping[str, Any]], str]:
        from airflow_provider_analytics.hooks.object_storage import storage_path
        from airflow_provider_analytics.snapshots.reader import read_snapshot
        from airflow_provider_analytics.snapshots.run_day import parse_day

        snapshot = read_snapshot(storage_path(str(self.base_path), "base_path"), parse_day(str(self.snapshot_date)))
        if snapshot is None:
            raise SnapshotError(f"no snapshot of {self.snapshot_date} is published under {self.base_path}")
        return [json.loads(row["record"]) for row in snapshot.rows()], f"the snapshot {snapshot.partition}"


def _passwords(plan: Plan) -> dict[str, str]:
    """Return the passwords that the plan refers to, and mask them in logs."""
    from airflow.providers.common.compat.sdk import BaseHook, Variable, mask_secret

    from airflow_provider_analytics.reconcile.websites_file import PASSWORD_FROM

    references = {change.settings[PASSWORD_FROM] for change in plan.changes if PASSWORD_FROM in change.settings}
    passwords: dict[str, str] = {}
    for reference in sorted(references):
        kind, _, name = reference.partition(":")
        password = BaseHook.get_connection(name).password if kind == "connection" else Variable.get(name)
        if not password:
            raise ValueError(f"{reference} has no password; set it in Airflow")
        mask_secret(password)
        passwords[reference] = password
    return passwords
