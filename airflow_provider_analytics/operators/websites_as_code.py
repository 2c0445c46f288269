# SPDX-License-Identifier: Apache-2.0
"""Operators for websites as code: plan, apply, export, and check for drift."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_analytics.api.checks import flag, fraction, invalid, invalid_together
from airflow_provider_analytics.exceptions import BulkError, GuardError, MissingSnapshotError
from airflow_provider_analytics.guards import MAX_LOSS_FRACTION, are_websites_lost, parse_guards
from airflow_provider_analytics.operators.base import AnalyticsBaseOperator, arguments_of, permanent_failure, skipped
from airflow_provider_analytics.operators.reconciling import SHOWN_CHANGES, ReconcilingOperator, account_of, result_of
from airflow_provider_analytics.readable import counted, first_of, readable

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.reconcile.desired.desired_state import WebsitesAsCode
    from airflow_provider_analytics.reconcile.job import Job
    from airflow_provider_analytics.storage import StoragePath

#: Content of a file: see ``parse_websites``.
Config = Mapping[str, Any] | Iterable[Mapping[str, Any]] | str


class _WebsitesAsCodeOperator(ReconcilingOperator):
    """Base class of the operators that compare the websites with a file."""

    config_path: str | None
    config: Config | None
    prune: bool
    create_only: bool

    def prepare(self, hook: AnalyticsHook, context: Context) -> Job:
        """Read the file and the tables."""
        from airflow_provider_analytics.reconcile.job import Job

        prune, create_only = flag("prune", self.prune), flag("create_only", self.create_only)
        source = replace(self._file(), prune=prune, create_only=create_only)
        # A plan for another service or account is a different plan.
        scope: dict[str, Any] = {"service": hook.client.base_url, "account": account_of(hook)}
        folder = self.folder(hook, scope["account"])
        scope |= {"prune": prune, "create_only": create_only}
        file = None
        dag_id = getattr(context.get("ti"), "dag_id", "")
        if source.managed or (folder and dag_id):
            file = self.list_file(folder, scope, context, dag_id)
            if source.managed:
                scope["list"] = file.table.identity.list
            elif file.table.run is None:  # the file never had a managed list
                file = None
        if file:
            file.start_run(source.scopes, {}, context)
        limit, override_guards = (
            fraction("max_loss_fraction", self.max_loss_fraction),
            parse_guards(self.override_guards),
        )
        return Job(hook.client, source, scope, limit, override_guards, folder, file, context)

    def _file(self) -> WebsitesAsCode:
        from airflow_provider_analytics.hooks.connection import storage_path
        from airflow_provider_analytics.reconcile.desired.websites_file import (
            in_a_folder,
            parse_websites,
            parse_websites_files,
        )
        from airflow_provider_analytics.storage import read_texts

        if (self.config_path is None) == (self.config is None):
            raise invalid_together(config_path=self.config_path, config=self.config)
        if self.config_path is None:
            return parse_websites(self.config, default_mode=self.default_mode)
        texts = read_texts(storage_path(self.config_path, "config_path"), "config_path", in_a_folder)
        if not texts:
            raise ValueError(f"config_path={self.config_path!r}: there is no such file")
        return parse_websites_files(texts, self.default_mode)

    def _log_plan(self, what: str, result: Mapping[str, Any]) -> None:
        """Log a plan, with its counts at the end, because Airflow displays the end of a log first."""
        source = self.config_path or "config"
        self.log.info("%s %s:\n%s", what, source, result["markdown"])
        self.log.info("%s %s: %s. No changes were sent.", what, source, _counts(result))


def _counts(result: Mapping[str, Any]) -> str:
    return f"{result['creates']:,} to create, {result['updates']:,} to update, {result['deletes']:,} to delete"


class PlanWebsitesOperator(_WebsitesAsCodeOperator):
    """Plan the changes that a websites file requires, without sending them.

    Guide: https://airflow-provider-analytics.github.io/airflow-provider-analytics/websites_as_code/

    .. code-block:: python

        PlanWebsitesOperator(task_id="plan", config_path="/data/websites.yaml", state_path="s3://analytics-state")

    :param config_path: YAML file, or folder of YAML files (URL or absolute path). (templated)
    :param config: instead of ``config_path``: content of the file as a dict or JSON text, or a list of records with
        ``domain`` and settings, for example from another task. (templated)
    :param prune: also delete websites that are not in the file. (templated)
    :param create_only: create missing websites, and leave all others unchanged. (templated)
    :param state_path: state folder (URL or absolute path). With it, lists are ``managed`` unless the file says
        otherwise. (templated)
    :param list_name: name of the lists of this file in the state folder; default: the id of the DAG. (templated)
    :param override_guards: guards to override in this run: ``fewer_websites``, ``many_created``, ``empty_list``,
        ``many_deleted``, ``made_public``, ``entries_lost``. (templated)
    :param max_loss_fraction: largest fraction of the websites that can be deleted, of the entries that a list can lose,
        and of the statistics pages that can become public; default 0.3. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with these keys:

        * ``dry_run`` (boolean, such as ``true``): true if the task only planned.
        * ``list_is_new`` (boolean, such as ``false``): true if a managed list had no table in the state folder: its
          first run, or a lost folder.
        * ``digest`` (string, such as ``"9f2c..."``): pass it as ``approved_digest`` to approve the plan.
        * ``scope`` (object, such as ``{"service": "https://stats.example.com", "prune": false}``): settings that the
          digest includes.
        * ``blocked_by`` (list of strings, such as ``[]``): names of the guards that block the plan.
        * ``guard_message`` (string or null, such as ``null``): their findings.
        * ``override_guards`` (list of strings, such as ``[]``): guards that this run overrides.
        * ``websites_compared`` (number, such as ``1000``): websites that were compared.
        * ``creates`` (number, such as ``2``): planned creates.
        * ``updates`` (number, such as ``37``): planned updates.
        * ``deletes`` (number, such as ``0``): planned deletions.
        * ``made_public`` (number, such as ``0``): statistics pages that become public.
        * ``protected`` (number, such as ``0``): websites that ``protect`` keeps from deletion.
        * ``entries_added`` (number, such as ``37``): planned additions to lists.
        * ``entries_removed`` (number, such as ``2``): planned removals from lists.
        * ``changes`` (list of strings, such as ``["create www.example.com"]``): the first 20 planned changes.
        * ``changes_omitted`` (number, such as ``17``): further changes.
        * ``expired`` (list of objects, such as ``[]``): expired list entries, with ``entry``, ``until``, ``owner``, and
          ``reason``.
        * ``expiring`` (list of objects, such as ``[]``): list entries that expire within 30 days.
        * ``unchanged`` (number, such as ``963``): websites without a planned change.
        * ``applied`` (number, such as ``36``): changes that were sent and verified; 0 for a plan.
        * ``states`` (object, such as ``{"unchanged": 1, "applied": 36, "unclear": 0, "failed": 0, "rejected": 0,
          "not_tried": 0}``): planned changes by result.
        * ``verified`` (boolean, such as ``true``): true if all changes are in effect, and nothing else changed; false
          for a plan.
        * ``unverified`` (list of strings, such as ``[]``): sent fields that the service does not return.
        * ``unexpected_changes`` (list of strings, such as ``[]``): at most 20 values that this task did not send, and
          that differ afterwards.
        * ``markdown`` (string or null, such as ``null``): the plan for a reviewer, at most 60,000 characters; null
          after an apply.
        * ``plan_url`` (string or null, such as ``null``): log of the task, with the whole plan; null after an apply,
          and outside a DAG run.

    :raises AirflowFailException: without a retry, if the file has problems. The error lists all of them, but problems
        that need the website list, such as a missing password, only if there are no others.
    :raises BulkError: if websites could not be read.
    """

    def __init__(
        self,
        *,
        config_path: str | None = None,
        config: Config | None = None,
        prune: bool = False,
        create_only: bool = False,
        state_path: str | None = None,
        list_name: str | None = None,
        override_guards: Iterable[str] | str = (),
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.config_path = config_path
        self.config = config
        self.prune = prune
        self.create_only = create_only
        self.state_path = state_path
        self.list_name = list_name
        self.override_guards = override_guards
        self.max_loss_fraction = max_loss_fraction
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan the changes, and write the plan to the state folder."""
        with self.connected(context) as hook:
            planned, result = self.planned(hook, context)
        self._log_plan("Planned", result)
        self.log_guards(planned)
        return result


class ApplyWebsitesOperator(_WebsitesAsCodeOperator):
    """Apply the changes that a websites file requires, with or without an approved plan.

    The operator plans again. With ``approved_digest``, the new plan must be the approved one, or the rest of it after a
    crash. Otherwise the task fails without a retry, and no changes are sent.

    Guide: https://airflow-provider-analytics.github.io/airflow-provider-analytics/websites_as_code/

    .. code-block:: python

        ApplyWebsitesOperator(
            task_id="apply",
            config_path="/opt/airflow/dags/websites.yaml",
            state_path="s3://analytics-state",
            approved_digest="{{ params.approved_digest }}",
        )

    :param approved_digest: ``digest`` of the approved plan, which needs the same arguments; ``"any"`` (default) applies
        any plan that no guard blocks. (templated)
    :param config_path: YAML file, or folder of YAML files (URL or absolute path). (templated)
    :param config: see :class:`PlanWebsitesOperator`. (templated)
    :param prune: also delete websites that are not in the file. (templated)
    :param create_only: see :class:`PlanWebsitesOperator`. (templated)
    :param state_path: see :class:`PlanWebsitesOperator`. (templated)
    :param list_name: see :class:`PlanWebsitesOperator`. (templated)
    :param override_guards: see :class:`PlanWebsitesOperator`. (templated)
    :param max_loss_fraction: see :class:`PlanWebsitesOperator`. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with the keys of ``PlanWebsitesOperator``.
    :raises AirflowFailException: without a retry and before any change is sent, if the file has problems, the plan is
        not the approved one, or a guard blocks it.
    :raises BulkError: at the end, if websites failed or could not be read; with ``approved_digest``, unreadable
        websites fail the task before any change. A retry applies the rest.
    :raises AirflowSkipException: before any change is sent, if a later run of this task has started with other entries.
    :raises StoppedError: if Airflow stopped the task, or such a later run started during the changes. A retry applies
        the rest.
    """

    def __init__(
        self,
        *,
        approved_digest: str | Mapping[str, Any] | None = "any",
        config_path: str | None = None,
        config: Config | None = None,
        prune: bool = False,
        create_only: bool = False,
        state_path: str | None = None,
        list_name: str | None = None,
        override_guards: Iterable[str] | str = (),
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.config_path = config_path
        self.config = config
        self.prune = prune
        self.create_only = create_only
        self.state_path = state_path
        self.list_name = list_name
        self.override_guards = override_guards
        self.max_loss_fraction = max_loss_fraction
        self.approved_digest = approved_digest
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan again, check the approval or the guards, and apply the plan."""
        from airflow_provider_analytics.reconcile.plan.plan_markdown import to_markdown

        with self.connected(context) as hook:
            planned, outcome = self.applied(hook, context, self.approved_digest)
            result = result_of(planned, outcome)
            self.log.info("The plan was:\n%s", to_markdown(planned.plan))
            # Last, because Airflow displays the end of a log first.
            self.log_outcome("Applied", outcome, "change")
            outcome.raise_failures()
        return result


class CheckDriftOperator(_WebsitesAsCodeOperator):
    """Fail, skip, or report if the websites differ from a websites file, without sending changes.

    .. code-block:: python

        CheckDriftOperator(task_id="drift", config_path="/opt/airflow/dags/websites.yaml", on_drift="log")

    :param on_drift: if there is drift: ``"fail"`` (default), ``"skip"`` downstream tasks, or ``"log"``. (templated)
    :param config_path: YAML file, or folder of YAML files (URL or absolute path). (templated)
    :param config: see :class:`PlanWebsitesOperator`. (templated)
    :param prune: also count websites that are not in the file as drift. (templated)
    :param create_only: see :class:`PlanWebsitesOperator`. (templated)
    :param state_path: see :class:`PlanWebsitesOperator`. (templated)
    :param list_name: see :class:`PlanWebsitesOperator`. (templated)
    :param override_guards: see :class:`PlanWebsitesOperator`. Only ``fewer_websites`` fails this task; other findings
        are in ``guard_message``. (templated)
    :param max_loss_fraction: see :class:`PlanWebsitesOperator`. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with the keys of ``PlanWebsitesOperator``.
    :raises AirflowFailException: without a retry, if there is drift and ``on_drift="fail"``, or the file has problems.
    :raises AirflowSkipException: if there is drift and ``on_drift="skip"``.
    :raises BulkError: if websites could not be read.
    """

    def __init__(
        self,
        *,
        on_drift: str = "fail",
        config_path: str | None = None,
        config: Config | None = None,
        prune: bool = False,
        create_only: bool = False,
        state_path: str | None = None,
        list_name: str | None = None,
        override_guards: Iterable[str] | str = (),
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.config_path = config_path
        self.config = config
        self.prune = prune
        self.create_only = create_only
        self.state_path = state_path
        self.list_name = list_name
        self.override_guards = override_guards
        self.max_loss_fraction = max_loss_fraction
        self.on_drift = on_drift
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Compare the websites with the file."""
        from airflow_provider_analytics.reconcile.plan.plan_markdown import effect_lines

        with self.connected(context) as hook:
            planned, result = self.planned(hook, context)
            plan = planned.plan
            guard = "fewer_websites"
            if guard in plan.findings:  # the drift of an incomplete list means nothing
                raise GuardError(plan.findings[guard], "The websites were not compared with the file.", guard)
        self._log_plan("Compared the websites with", result)
        if plan.changes and self.on_drift != "log":
            effects = [*effect_lines(plan, "delete"), *effect_lines(plan, "create"), *effect_lines(plan, "update")]
            counts = f"{counted(len(plan.changes), 'website')}, {_counts(result)}"
            different = f"The websites differ from {self.config_path or 'config'}: {counts}."
            message = "\n".join([different, *effects[:SHOWN_CHANGES]])
            if self.on_drift == "skip":
                raise skipped(message)
            raise permanent_failure(message, "to only report the differences, set on_drift='log'")
        return result


class ExportWebsitesOperator(AnalyticsBaseOperator):
    """Write the current websites, or the websites of a snapshot, to a file for websites as code.

    A plan of this file against the same websites is empty. The file contains no ids, statistics, and passwords, and its
    top lists the missing fields.

    Guide: https://airflow-provider-analytics.github.io/airflow-provider-analytics/websites_as_code/#export-and-restore

    .. code-block:: python

        ExportWebsitesOperator(task_id="export", output_path="s3://analytics-state/websites.yaml")

    :param output_path: YAML file to write (URL or absolute path). (templated)
    :param base_path: ``base_path`` of :class:`SnapshotWebsitesOperator`; None exports the current state. (templated)
    :param snapshot_date: day of the snapshot, YYYY-MM-DD; only with ``base_path``. (templated)
    :param snapshot_name: ``snapshot_name`` of :class:`SnapshotWebsitesOperator`; default ``websites``. (templated)
    :param websites: domains, patterns such as ``*.example.com``, and ids; default: all. (templated)
    :param override_guards: guards to override in this run: ``fewer_websites``. (templated)
    :param max_loss_fraction: largest fraction of the websites in the replaced file that can be missing; default 0.3.
        Not checked for a snapshot. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with these keys:

        * ``output_path`` (string, such as ``"s3://analytics-state/websites.yaml"``): the argument.
        * ``websites_exported`` (number, such as ``60``): websites in the file.
        * ``origin`` (string, such as ``"https://stats.example.com"``): service or snapshot that was exported.
        * ``omitted`` (number, such as ``0``): websites and settings, besides passwords, that the file omits; its top
          lists them.

    :raises AirflowFailException: without a retry, if a domain has several websites, the snapshot does not exist, or
        the guard blocks the export.
    :raises StorageError: if the snapshot cannot be read.
    :raises BulkError: if websites could not be read.
    """

    def __init__(
        self,
        *,
        output_path: str,
        base_path: str | None = None,
        snapshot_date: str | None = None,
        snapshot_name: str = "websites",
        websites: Iterable[str | int] | str | int | None = None,
        override_guards: Iterable[str] | str = (),
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.output_path = output_path
        self.base_path = base_path
        self.snapshot_date = snapshot_date
        self.snapshot_name = snapshot_name
        self.websites = websites
        self.override_guards = override_guards
        self.max_loss_fraction = max_loss_fraction
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Write the file."""
        from airflow_provider_analytics.hooks.connection import storage_path
        from airflow_provider_analytics.reconcile.desired.exclusion_list import (
            parse_selectors,
            raise_unmatched,
            select,
            similar_domain,
        )
        from airflow_provider_analytics.reconcile.desired.websites_export import export_websites
        from airflow_provider_analytics.storage import PRIVATE, write_text

        with self.connected(context) as hook:
            if (self.base_path is None) != (self.snapshot_date is None):
                missing = "base_path" if self.base_path is None else "snapshot_date"
                raise ValueError(
                    f"{missing} is missing. Set base_path and snapshot_date, or neither to export the current websites"
                )
            selectors: Sequence[str] | None = None
            if self.websites is not None:
                selectors = parse_selectors("websites", self.websites)
            if selectors == ():
                raise invalid("websites", self.websites, "a domain, a pattern, or an id; None for all websites")
            if self.base_path:
                records, origin = self._read_snapshot(hook)
            else:
                records, origin = self._read_current(hook)
            if selectors is not None:
                chosen, unmatched = select(records, selectors)
                raise_unmatched(
                    [f"websites: {selector!r}{similar_domain(selector, records)}" for selector in unmatched]
                )
                records = [record for record in records if str(record["id"]) in chosen]
            text, exported, omitted = export_websites(records, origin=origin, restore=bool(self.base_path))
            file = storage_path(self.output_path, "output_path")
            if not self.base_path:
                self._check_replaced(file, selectors, records)
            write_text(file, "output_path", text, PRIVATE)
        self.log.info("Exported %s of %s to %s.", counted(exported, "website"), origin, self.output_path)
        if omitted:
            listed = "\n".join(omitted[:SHOWN_CHANGES])
            self.log.warning("The file omits %s, listed at its top:\n%s", counted(len(omitted), "item"), listed)
        return {
            "output_path": self.output_path,
            "websites_exported": exported,
            "origin": origin,
            "omitted": len(omitted),
        }

    def _check_replaced(
        self, file: StoragePath, selectors: Sequence[str] | None, records: Sequence[Mapping[str, Any]]
    ) -> None:
        """Raise :class:`GuardError` if the new file would lack many websites of the file that it replaces."""
        from airflow_provider_analytics.api.domains import domain_key, matches
        from airflow_provider_analytics.reconcile.desired.websites_file import parse_websites_files
        from airflow_provider_analytics.storage import read_text

        limit = fraction("max_loss_fraction", self.max_loss_fraction)
        guard = "fewer_websites"
        if guard in parse_guards(self.override_guards):
            return
        try:
            text = read_text(file, "output_path")
            if text is None:
                return
            replaced = parse_websites_files({file.name: text}).by_domain
        except ValueError as error:
            self.log.warning("Not compared with the file that this export replaces: %s", error)
            return
        before = set()
        for name in replaced:
            if selectors is None or any(matches(selector, name) for selector in selectors):
                before.add(name)
        missing = before - {domain_key(str(record.get("domain") or "")) for record in records}
        if are_websites_lost(len(missing), len(before), len(records), limit):
            raise GuardError(
                f"The list lacks {len(missing):,} of {counted(len(before), 'website')} of {self.output_path}: "
                f"{first_of(sorted(missing), SHOWN_CHANGES, show=readable)}.",
                "The file was not replaced.",
                guard,
            )

    def _read_current(self, hook: AnalyticsHook) -> tuple[list[Mapping[str, Any]], str]:
        from airflow_provider_analytics.api.fields import SETTABLE_FIELDS
        from airflow_provider_analytics.reconcile.service_websites import complete_records

        records, unread = complete_records(
            hook.client, hook.list_websites(), lambda record: set(SETTABLE_FIELDS) - record.keys()
        )
        if unread:
            raise BulkError(unread)
        return hook.client.for_output(records), hook.client.base_url

    def _read_snapshot(self, hook: AnalyticsHook) -> tuple[list[Mapping[str, Any]], str]:
        from airflow_provider_analytics.hooks.connection import storage_path
        from airflow_provider_analytics.snapshots.catalog import read_snapshot
        from airflow_provider_analytics.storage import MAX_EXPORTED, check_limit

        base = storage_path(str(self.base_path), "base_path")
        snapshot = read_snapshot(base, str(self.snapshot_date), self.snapshot_name)
        if snapshot is None:
            raise MissingSnapshotError(f"No snapshot of {self.snapshot_date} is published in {self.base_path}.")
        records = []
        size = 0
        for row in snapshot.rows():
            size += len(row["record"])
            check_limit(snapshot.partition.manifest, "characters of records to export", size, MAX_EXPORTED)
            records.append(json.loads(row["record"]))
        return hook.client.for_output(records), f"the snapshot of {self.snapshot_date}"
