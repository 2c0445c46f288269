"""Operators for websites as code: plan, apply, export, and check for drift."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_analytics.api.checks import refused_together
from airflow_provider_analytics.exceptions import BulkError, StorageError
from airflow_provider_analytics.operators.base import AnalyticsOperator, permanent_failure
from airflow_provider_analytics.thresholds import MAX_LOSS_FRACTION

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.operators.planning import LedgerFile
    from airflow_provider_analytics.operators.task_arguments import TaskArguments
    from airflow_provider_analytics.reconcile.engine import Planned
    from airflow_provider_analytics.reconcile.plan import Plan
    from airflow_provider_analytics.reconcile.websites_file import WebsitesFile

ON_DRIFT = ("fail", "skip", "report")

#: Content of a file: see ``parse_websites``.
Config = Mapping[str, Any] | Iterable[Mapping[str, Any]] | str


class _Settings(NamedTuple):
    """The arguments of a plan, to which it is bound."""

    prune: bool
    max_loss_fraction: float
    ledger_path: str | None
    list_name: str | None
    adopt: bool
    only_missing: bool = False

    def differing(self, scope: Mapping[str, Any]) -> list[str]:
        """Return the names of given arguments that differ from those of a plan."""
        default = _Settings(False, MAX_LOSS_FRACTION, None, None, False)
        given = {name: value for name, value in self._asdict().items() if value != getattr(default, name)}
        return [name for name, value in given.items() if value != scope.get(name)]


class _WebsitesAsCodeOperator(AnalyticsOperator):
    """Base class of the operators that plan."""

    template_fields: Sequence[str] = (
        "config_path",
        "config",
        "prune",
        "max_loss_fraction",
        "ledger_path",
        "list_name",
        "max_workers",
        "analytics_conn_id",
    )
    #: Only operators that plan have these arguments.
    adopt: bool = False
    only_missing: bool = False
    #: Only operators that write have this argument.
    file_mode: str = "600"

    def __init__(
        self,
        *,
        config_path: str | None,
        config: Config | None,
        prune: bool,
        max_loss_fraction: float,
        ledger_path: str | None,
        list_name: str | None,
        max_workers: int,
        analytics_conn_id: str,
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.config_path = config_path
        self.config = config
        self.prune = prune
        self.max_loss_fraction = max_loss_fraction
        self.ledger_path = ledger_path
        self.list_name = list_name
        self.max_workers = max_workers

    @property
    def _source(self) -> str:
        """The file, for logs and errors."""
        return self.config_path or "config"

    def _settings(self) -> _Settings:
        from airflow_provider_analytics.api.checks import flag, fraction

        return _Settings(
            flag("prune", self.prune),
            fraction("max_loss_fraction", self.max_loss_fraction),
            self.ledger_path,
            self.list_name,
            flag("adopt", self.adopt),
            flag("only_missing", self.only_missing),
        )

    def _plan(
        self,
        hook: AnalyticsHook,
        settings: _Settings,
        *,
        force: bool = False,
        approved: Plan | None = None,
        to_apply_in: Context | None = None,
    ) -> Planned:
        """Compare the file with the complete list of websites.

        :param approved: the approved plan, which must be for the same service.
        :param to_apply_in: the context of the task, if it applies the plan.
        """
        from airflow_provider_analytics.api.checks import whole_number
        from airflow_provider_analytics.operators.planning import account_of, require_run_to_apply, resolved_names
        from airflow_provider_analytics.reconcile.engine import Limits, plan, same_scope
        from airflow_provider_analytics.reconcile.websites_as_code import WebsitesAsCode

        workers = whole_number("max_workers", self.max_workers, at_least=1)
        source = WebsitesAsCode(self._file(), settings.prune, settings.only_missing)
        if source.managed and to_apply_in is not None:
            require_run_to_apply(to_apply_in, ledger=True)
        # A plan for another service or account is a different plan.
        service = {"service": hook.client.base_url, "account": account_of(hook)}
        if approved:
            same_scope(approved, service)
        ledger = self._ledger(source.file, settings, service)
        for parts in source.parts.values():
            resolved_names(parts, ledger)
        if ledger and to_apply_in is not None:
            ledger.take_over(to_apply_in, hook.client)
        if ledger:
            ledger.note({name: parts for name, parts in source.parts.items() if name in source.managed}, {})
        return plan(
            hook.client,
            source,
            scope={**service, **{name: value for name, value in settings._asdict().items() if value is not None}},
            limits=Limits(settings.max_loss_fraction, force),
            workers=workers,
            ledger=ledger,
            adopt=settings.adopt,
        )

    def _file(self) -> WebsitesFile:
        from airflow_provider_analytics.hooks.object_storage import read_texts
        from airflow_provider_analytics.reconcile.websites_file import (
            in_a_folder,
            parse_websites,
            parse_websites_files,
        )

        if (self.config_path is None) == (self.config is None):
            raise ValueError(
                f"config_path={self.config_path!r} with config {'missing' if self.config is None else 'given'} is not "
                "allowed; allowed: one of the two"
            )
        if self.config_path is None:
            return parse_websites(self.config)
        texts = read_texts(self.config_path, "config_path", in_a_folder)
        if not texts:
            raise ValueError(f"config_path={self.config_path!r}: there is no such file; allowed: a YAML file")
        return parse_websites_files(texts)

    def _ledger(
        self, websites_file: WebsitesFile, settings: _Settings, service: Mapping[str, Any]
    ) -> LedgerFile | None:
        from airflow_provider_analytics.operators.planning import LedgerFile
        from airflow_provider_analytics.reconcile.ledger import Identity

        if not websites_file.managed:
            return None
        if not settings.ledger_path or not settings.list_name:
            raise ValueError(
                f"{self._source} has the mode managed for {', '.join(websites_file.managed)}, which needs ledger_path, "
                "a URL or an absolute path, and list_name, a name for the lists of this file"
            )
        identity = Identity(service["service"], service["account"], settings.list_name)
        return LedgerFile(settings.ledger_path, identity, adopt=settings.adopt, file_mode=self.file_mode)

    def _log_plan(self, what: str, result: Mapping[str, Any]) -> None:
        """Log a plan, with its counts at the end, because Airflow displays the end of a log first."""
        counts = ", ".join(f"{result[f'{action}s']:,} to {action}" for action in ("create", "update", "delete"))
        self.log.info("%s:\n%s", what, result["markdown"])
        self.log.info("%s: %s", what, counts)


class PlanWebsitesOperator(_WebsitesAsCodeOperator):
    """Plan the changes that make the websites match a file; send nothing (docs/websites_as_code.md).

    .. code-block:: python

        PlanWebsitesOperator(
            task_id="plan",
            config_path="/opt/airflow/dags/websites.yaml",
            plan_path="s3://analytics-state/plans/{{ run_id }}.json",
        )

    :param config_path: the YAML file, or a folder of ``*.yaml`` files (URL or absolute path). (templated)
    :param config: instead of ``config_path``: the content of the file as a dict or its JSON text, or a list of records
        with ``domain`` and settings, such as the output of another task. (templated)
    :param plan_path: where to write the complete plan as JSON, and as Markdown to ``<plan_path>.md`` (URL or absolute
        path). (templated)
    :param overwrite_plan: replace another plan at ``plan_path``. Otherwise another plan is an error, because someone
        may be approving it. (templated)
    :param file_mode: permissions of the plan on a disk of the worker: ``600`` (default: for its
        user only), ``640``, ``660``, ``644`` or ``664``, as text. (templated)
    :param prune: also delete websites that are not in the file. (templated)
    :param max_loss_fraction: largest fraction of the websites that may be deleted, of the entries of a list that may
        be lost, and of the statistics pages that may become public; default 0.3; checked from 10 on. (templated)
    :param force: override these guards; an approval of the plan includes this. (templated)
    :param ledger_path: for lists in mode ``managed``: a small file (URL or absolute path) that records which entries
        were added. (templated)
    :param list_name: for lists in mode ``managed``: their name in the ledger. (templated)
    :param adopt: for lists in mode ``managed``: let them own the entries that they and the websites have in common,
        whoever added them. (templated)
    :param only_missing: create the websites that do not exist, and leave all others unchanged. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict: ``digest`` (for :class:`ApplyWebsitesOperator`), ``markdown`` (for example for the body of an
        ``ApprovalOperator``; at most 100 changes), the numbers of ``creates``, ``updates``, ``deletes``, ``opened``
        (statistics pages that become public), ``protected`` (websites that are not deleted), ``entries_added``,
        ``entries_removed`` and ``websites`` compared, the first 20 changes as one line each (``changes``) and the
        number of further ones (``changes_left_out``), ``expired`` and ``expiring`` (entries whose last day is over, or
        at most 30 days away), ``scope`` (what the plan is bound to), ``unsafe`` (the message of the guard that trips,
        or None), ``force``, ``applied`` (0) and ``verified`` (False).
    :raises AirflowFailException: without a retry, if an argument is not allowed, the file has problems (all of them are
        listed), or the connection cannot be used.
    :raises BulkError: if websites could not be read.
    """

    template_fields: Sequence[str] = (
        *_WebsitesAsCodeOperator.template_fields,
        "plan_path",
        "overwrite_plan",
        "file_mode",
        "force",
        "adopt",
        "only_missing",
    )

    def __init__(
        self,
        *,
        config_path: str | None = None,
        config: Config | None = None,
        plan_path: str | None = None,
        overwrite_plan: bool = False,
        file_mode: str = "600",
        prune: bool = False,
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        force: bool = False,
        ledger_path: str | None = None,
        list_name: str | None = None,
        adopt: bool = False,
        only_missing: bool = False,
        max_workers: int = 8,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(
            config_path=config_path,
            config=config,
            prune=prune,
            max_loss_fraction=max_loss_fraction,
            ledger_path=ledger_path,
            list_name=list_name,
            max_workers=max_workers,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.plan_path = plan_path
        self.overwrite_plan = overwrite_plan
        self.file_mode = file_mode
        self.force = force
        self.adopt = adopt
        self.only_missing = only_missing

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan the changes, and write the plan to ``plan_path``."""
        with self.connected() as hook:
            result = self.result(hook)
        self._log_plan(f"Planned {self._source}", result)
        return result

    def result(self, hook: AnalyticsHook) -> dict[str, Any]:
        """Return the result of the task; the command ``plan`` prints it."""
        from airflow_provider_analytics.api.checks import flag
        from airflow_provider_analytics.operators.planning import result_of, write_plan

        planned = self._plan(hook, self._settings(), force=flag("force", self.force))
        result = result_of(planned, None, dry_run=True, plan_path=self.plan_path)
        if self.plan_path:
            overwrite = flag("overwrite_plan", self.overwrite_plan)
            write_plan(self.plan_path, planned.plan, hook.client.redact, overwrite=overwrite, file_mode=self.file_mode)
        return result


class ApplyWebsitesOperator(_WebsitesAsCodeOperator):
    """Make the websites match a file, with or without an approved plan (docs/websites_as_code.md).

    The operator reads the list and plans again. With ``plan_path`` and ``expected_digest``, it applies the approved
    plan completely or not at all. Each approved change must still be planned or already be in effect, and nothing
    else may be planned. Otherwise the task fails without a retry, and nothing is sent. A retry after a crash
    continues. The settings are those of the plan. Without the two arguments, any plan within the guards is applied.

    Each website is fetched immediately before it is changed, and read again at the end. Before a delete, the domain of
    the id is checked again. Passwords are read from the connection or variable in ``password_from``, only when they are
    needed.

    .. code-block:: python

        ApplyWebsitesOperator(
            task_id="apply",
            config_path="/opt/airflow/dags/websites.yaml",
            plan_path="s3://analytics-state/plans/{{ run_id }}.json",
            expected_digest="{{ params.approved_digest }}",
        )

    :param config_path: the YAML file, or a folder of ``*.yaml`` files (URL or absolute path). (templated)
    :param config: instead of ``config_path``; see :class:`PlanWebsitesOperator`. (templated)
    :param expected_digest: ``digest`` of the approved plan, or the output of an ``ApprovalOperator`` whose form has it
        (docs/websites_as_code.md); with ``plan_path``. (templated)
    :param plan_path: ``plan_path`` of :class:`PlanWebsitesOperator`; with ``expected_digest``. (templated)
    :param approval_valid_hours: hours after which an approval expires; default 24. (templated)
    :param refuse_own_approval: refuse an approval by the person who started the run; needs the output of an
        ``ApprovalOperator``. (templated)
    :param prune: also delete websites that are not in the file; with ``plan_path``, as in the plan. (templated)
    :param max_loss_fraction: largest fraction of the websites that may be deleted, of the entries of a list that may
        be lost, and of the statistics pages that may become public; default 0.3; checked from 10 on; with
        ``plan_path``, as in the plan. (templated)
    :param force: apply the plan even if these guards trip; with ``plan_path``, as in the plan. (templated)
    :param ledger_path: see :class:`PlanWebsitesOperator`; with ``plan_path``, as in the plan. (templated)
    :param list_name: see :class:`PlanWebsitesOperator`; with ``plan_path``, as in the plan. (templated)
    :param adopt: see :class:`PlanWebsitesOperator`; with ``plan_path``, as in the plan. (templated)
    :param only_missing: see :class:`PlanWebsitesOperator`; with ``plan_path``, as in the plan. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param audit_path: folder (URL or absolute path) for a JSON line per changed field and failed website. (templated)
    :param file_mode: permissions of ledger and audit trail on a disk of the worker: ``600`` (default: for its
        user only), ``640``, ``660``, ``644`` or ``664``, as text. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: the same dict as :class:`PlanWebsitesOperator`; ``applied`` is the number of changed websites, ``verified``
        whether all changes were read again and are in effect.
    :raises AirflowFailException: without a retry and before anything is sent, if an argument is not allowed, the file
        has problems, the plan is not the approved one, a guard trips, or the connection cannot be used.
    :raises BulkError: if websites could not be read; or at the end, if websites failed. A retry applies the remaining
        changes.
    :raises StoppedError: if Airflow stopped the task, or another try took over its ledger; a retry applies the
        remaining changes.
    """

    template_fields: Sequence[str] = (
        *_WebsitesAsCodeOperator.template_fields,
        "expected_digest",
        "plan_path",
        "approval_valid_hours",
        "refuse_own_approval",
        "force",
        "adopt",
        "only_missing",
        "audit_path",
        "file_mode",
    )

    def __init__(
        self,
        *,
        config_path: str | None = None,
        config: Config | None = None,
        expected_digest: str | Mapping[str, Any] | None = None,
        plan_path: str | None = None,
        approval_valid_hours: float = 24,
        refuse_own_approval: bool = False,
        prune: bool = False,
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        force: bool = False,
        ledger_path: str | None = None,
        list_name: str | None = None,
        adopt: bool = False,
        only_missing: bool = False,
        max_workers: int = 8,
        audit_path: str | None = None,
        file_mode: str = "600",
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(
            config_path=config_path,
            config=config,
            prune=prune,
            max_loss_fraction=max_loss_fraction,
            ledger_path=ledger_path,
            list_name=list_name,
            max_workers=max_workers,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.expected_digest = expected_digest
        self.plan_path = plan_path
        self.approval_valid_hours = approval_valid_hours
        self.refuse_own_approval = refuse_own_approval
        self.force = force
        self.adopt = adopt
        self.only_missing = only_missing
        self.audit_path = audit_path
        self.file_mode = file_mode

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan again, check the approval or the guards, and apply the plan."""
        from airflow_provider_analytics.api.checks import flag
        from airflow_provider_analytics.operators.audit import audit_trail
        from airflow_provider_analytics.operators.passwords import passwords_of
        from airflow_provider_analytics.operators.planning import (
            note_use,
            parse_file_mode,
            read_approved,
            require_run_to_apply,
            result_of,
        )
        from airflow_provider_analytics.reconcile.markdown import to_markdown

        with self.connected() as hook:
            settings, force = self._settings(), flag("force", self.force)
            require_run_to_apply(context, audit_path=self.audit_path)
            approved = read_approved(
                self.plan_path,
                self.expected_digest,
                context,
                valid_hours=self.approval_valid_hours,
                refuse_own=flag("refuse_own_approval", self.refuse_own_approval),
            )
            if approved:
                settings = self._approved_settings(approved.plan, settings, force=force)
            approved_plan = approved.plan if approved else None
            planned = self._plan(hook, settings, force=force, approved=approved_plan, to_apply_in=context)
            planned = planned.only(approved)
            mode = parse_file_mode(self.file_mode)
            audit = audit_trail(self.audit_path, context, hook.client.redact, mode, planned.sources_of)
            outcome = planned.apply(audit, passwords=passwords_of(planned.plan.password_sources))
            result = result_of(planned, outcome, dry_run=False, plan_path=self.plan_path)
            self.log.info("The plan is:\n%s", to_markdown(planned.plan))
            # Last, because Airflow displays the end of a log first.
            self.log.info(
                "Applied %s of %s changes, %s failed",
                *(f"{number:,}" for number in (outcome.applied, len(planned.plan.changes), len(outcome.failures))),
            )
            outcome.raise_failures()
            note_use(self.plan_path, approved, context, self.file_mode)
        return result

    def _approved_settings(self, approved: Plan, settings: _Settings, *, force: bool) -> _Settings:
        differing = settings.differing(approved.scope) + (["force"] if force and not approved.force else [])
        if differing:
            raise ValueError(f"{', '.join(differing)}: differs from the approved plan; set it on the plan task only")
        of_the_plan: dict[str, Any] = {name: approved.scope.get(name) for name in settings._fields}
        return settings._replace(**of_the_plan)


class CheckDriftOperator(_WebsitesAsCodeOperator):
    """Fail, skip or report if the websites differ from a file; send nothing (docs/websites_as_code.md).

    .. code-block:: python

        CheckDriftOperator(task_id="drift", config_path="/opt/airflow/dags/websites.yaml", on_drift="report")

    :param config_path: the YAML file, or a folder of ``*.yaml`` files (URL or absolute path). (templated)
    :param config: instead of ``config_path``; see :class:`PlanWebsitesOperator`. (templated)
    :param on_drift: ``"fail"`` (default, without a retry), ``"skip"`` or ``"report"``. (templated)
    :param prune: count websites that are not in the file as drift, too. (templated)
    :param max_loss_fraction: see :class:`PlanWebsitesOperator`; only reported, in ``unsafe``. (templated)
    :param ledger_path: see :class:`PlanWebsitesOperator`. (templated)
    :param list_name: see :class:`PlanWebsitesOperator`. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: the same dict as :class:`PlanWebsitesOperator`.
    :raises AirflowFailException: without a retry, if there is drift and ``on_drift="fail"``, an argument is not
        allowed, the file has problems, or the connection cannot be used. The message begins with the counts.
    :raises AirflowSkipException: if there is drift and ``on_drift="skip"``.
    :raises BulkError: if websites could not be read.
    """

    template_fields: Sequence[str] = (*_WebsitesAsCodeOperator.template_fields, "on_drift")

    def __init__(
        self,
        *,
        config_path: str | None = None,
        config: Config | None = None,
        on_drift: str = "fail",
        prune: bool = False,
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        ledger_path: str | None = None,
        list_name: str | None = None,
        max_workers: int = 8,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(
            config_path=config_path,
            config=config,
            prune=prune,
            max_loss_fraction=max_loss_fraction,
            ledger_path=ledger_path,
            list_name=list_name,
            max_workers=max_workers,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.on_drift = on_drift

    def execute(self, context: Context) -> dict[str, Any]:
        """Compare the websites with the file."""
        from airflow_provider_analytics.api.checks import one_of
        from airflow_provider_analytics.operators.planning import SHOWN_CHANGES
        from airflow_provider_analytics.readable import counted

        with self.connected() as hook:
            one_of("on_drift", self.on_drift, ON_DRIFT)
            plan, result = self._compare(hook)
        self._log_plan(f"Compared the websites with {self._source}", result)
        if plan.changes and self.on_drift != "report":
            differ = "differs" if len(plan.changes) == 1 else "differ"
            message = (
                f"{counted(len(plan.changes), 'website')} {differ} from {self._source}: "
                f"{result['creates']:,} to create, {result['updates']:,} to update, {result['deletes']:,} to delete.\n"
                + "\n".join(plan.lines(SHOWN_CHANGES))
            )
            if self.on_drift == "skip":
                raise AirflowSkipException(message)
            raise permanent_failure(message, "on_drift='fail' is set")
        return result

    def result(self, hook: AnalyticsHook) -> dict[str, Any]:
        """Return the result of the task; the command ``drift`` prints it."""
        return self._compare(hook)[1]

    def _compare(self, hook: AnalyticsHook) -> tuple[Plan, dict[str, Any]]:
        from airflow_provider_analytics.operators.planning import result_of

        planned = self._plan(hook, self._settings())
        return planned.plan, result_of(planned, None, dry_run=True, plan_path=None)


class ExportWebsitesOperator(AnalyticsOperator):
    """Write the current websites, or those of a snapshot, to a file for websites as code.

    Planned against the same websites, the file changes nothing. To restore a snapshot: export it, plan, apply. The top
    of the file lists what cannot be restored: ids, statistics, passwords, and fields that are missing in the records.
    See docs/websites_as_code.md.

    .. code-block:: python

        ExportWebsitesOperator(task_id="export", config_path="s3://analytics-state/websites.yaml")

    :param config_path: where to write the YAML file (URL or absolute path). (templated)
    :param groups: write a folder of files to ``config_path`` instead: file name without ``.yaml`` to the domains, or
        patterns such as ``*.customer.example``, of its websites. The first match counts; ``websites.yaml`` gets the
        other websites. (templated)
    :param base_path: ``base_path`` of :class:`SnapshotWebsitesOperator`; None exports the current state. (templated)
    :param snapshot_date: day of the snapshot, YYYY-MM-DD; only with ``base_path``. (templated)
    :param dataset: ``dataset`` of :class:`SnapshotWebsitesOperator`; default ``websites``. (templated)
    :param websites: domains, patterns such as ``*.example.com``, or ids of the websites; default: all. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict: ``config_path``, the number of ``websites``, their ``origin``, and ``left_out``, the number of
        websites and settings that the file omits; its top lists them.
    :raises AirflowFailException: without a retry, if an argument is not allowed, several websites have the same domain,
        or the connection cannot be used.
    :raises StorageError: if the snapshot does not exist or cannot be read.
    :raises BulkError: if websites could not be read.
    """

    template_fields: Sequence[str] = (
        "config_path",
        "groups",
        "base_path",
        "snapshot_date",
        "dataset",
        "websites",
        "max_workers",
        "analytics_conn_id",
    )

    def __init__(
        self,
        *,
        config_path: str,
        groups: Mapping[str, Sequence[str]] | None = None,
        base_path: str | None = None,
        snapshot_date: str | None = None,
        dataset: str = "websites",
        websites: Iterable[str | int] | str | int | None = None,
        max_workers: int = 8,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.config_path = config_path
        self.groups = groups
        self.base_path = base_path
        self.snapshot_date = snapshot_date
        self.dataset = dataset
        self.websites = websites
        self.max_workers = max_workers

    def execute(self, context: Context) -> dict[str, Any]:
        """Write the file."""
        from airflow_provider_analytics.hooks.object_storage import names_in, write_text
        from airflow_provider_analytics.operators.planning import SHOWN_CHANGES
        from airflow_provider_analytics.reconcile.selection import choose, parse_selectors
        from airflow_provider_analytics.reconcile.websites_export import export_folder, export_websites

        with self.connected() as hook:
            if (self.base_path is None) != (self.snapshot_date is None):
                raise refused_together(
                    "both, or neither for the current state",
                    base_path=self.base_path,
                    snapshot_date=self.snapshot_date,
                )
            selectors = None if self.websites is None else parse_selectors("websites", self.websites)
            records, origin = self._read_snapshot() if self.base_path else self._read_current(hook)
            records, restore = choose(records, selectors, ()), bool(self.base_path)
            if self.groups is None:
                text, left_out = export_websites(records, origin=origin, restore=restore)
                texts = {self.config_path: text}
            else:
                files, left_out = export_folder(records, self.groups, origin=origin, restore=restore)
                texts = {f"{self.config_path.rstrip('/')}/{name}": text for name, text in files.items()}
                others = {one for one in names_in(self.config_path, "config_path") if one.endswith(".yaml")} - set(
                    files
                )
                if others:
                    raise ValueError(
                        f"config_path={self.config_path!r}: there are other files of websites: "
                        f"{', '.join(sorted(others))}; allowed: a folder without, as a domain may be in one file only"
                    )
            for path, text in texts.items():
                write_text(path, "config_path", text)
        self.log.info("Exported %d websites of %s to %s", len(records), origin, self.config_path)
        if left_out:
            listed = "\n".join(left_out[:SHOWN_CHANGES])
            self.log.warning("The file omits %d items, listed at its top:\n%s", len(left_out), listed)
        return {
            "config_path": self.config_path,
            "websites": len(records),
            "origin": origin,
            "left_out": len(left_out),
        }

    def _read_current(self, hook: AnalyticsHook) -> tuple[list[Mapping[str, Any]], str]:
        from airflow_provider_analytics.api.checks import whole_number
        from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS
        from airflow_provider_analytics.reconcile.websites import complete_records

        workers = whole_number("max_workers", self.max_workers, at_least=1)
        records, unread = complete_records(hook.client, hook.list_websites(), SETTABLE_FIELDS, workers=workers)
        if unread:
            raise BulkError(unread)
        return hook.client.for_output(records), hook.client.base_url

    def _read_snapshot(self) -> tuple[list[Mapping[str, Any]], str]:
        from airflow_provider_analytics.hooks.object_storage import storage_path
        from airflow_provider_analytics.snapshots.reader import read_snapshot

        base = storage_path(str(self.base_path), "base_path")
        snapshot = read_snapshot(base, str(self.snapshot_date), self.dataset)
        if snapshot is None:
            raise StorageError(f"no snapshot of {self.snapshot_date} is published under {self.base_path}")
        return [json.loads(row["record"]) for row in snapshot.rows()], f"the snapshot of {self.snapshot_date}"
