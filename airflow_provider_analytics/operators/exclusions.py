"""Operators that sync the exclusion lists of many websites."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from airflow_provider_analytics.api.checks import flag, refused, refused_together
from airflow_provider_analytics.operators.base import AnalyticsOperator, require_run
from airflow_provider_analytics.thresholds import MAX_LOSS_FRACTION

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.operators.planning import LedgerFile
    from airflow_provider_analytics.operators.task_arguments import TaskArguments
    from airflow_provider_analytics.reconcile.approval import ApprovedPlan
    from airflow_provider_analytics.reconcile.engine import Planned
    from airflow_provider_analytics.reconcile.exclusions import ExclusionList
    from airflow_provider_analytics.reconcile.maintained import Listed
    from airflow_provider_analytics.reconcile.results import Outcome

_FILTERS = ("search", "search_by", "favorite")


class _SyncExclusionsOperator(AnalyticsOperator):
    """Base class of the operators for both lists, which differ in the type of the entries."""

    #: Field of the website that contains the list.
    field: ClassVar[str]
    #: How networks in lists of IP addresses are handled.
    networks: str = "reject"
    #: Only lists of IP addresses may contain host names.
    resolve_names: bool = False
    keep_unresolved: float = 7
    allow_private_answers: bool = False

    template_fields: Sequence[str] = (
        "websites",
        "except_websites",
        "per_website",
        "mode",
        "ledger_path",
        "list_name",
        "adopt",
        "release",
        "allow_empty",
        "allow_no_match",
        "max_loss_fraction",
        "force",
        "is_dry_run",
        "plan_path",
        "overwrite_plan",
        "expected_digest",
        "approval_valid_hours",
        "refuse_own_approval",
        "max_workers",
        "audit_path",
        "file_mode",
        "analytics_conn_id",
    )

    def __init__(
        self,
        *,
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None,
        except_websites: Iterable[str | int] | str | int,
        per_website: Mapping[str, Iterable[str] | str] | str | None,
        mode: str,
        ledger_path: str | None,
        list_name: str | None,
        adopt: bool,
        release: Iterable[str | int] | str | int,
        allow_empty: bool,
        allow_no_match: bool,
        max_loss_fraction: float,
        force: bool,
        dry_run: bool,
        plan_path: str | None,
        overwrite_plan: bool,
        expected_digest: str | Mapping[str, Any] | None,
        approval_valid_hours: float,
        refuse_own_approval: bool,
        max_workers: int,
        audit_path: str | None,
        file_mode: str,
        analytics_conn_id: str,
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        if isinstance(per_website, Mapping) and any("{{" in str(one) or "{%" in str(one) for one in per_website):
            # Airflow renders the values of a dict, but not its keys.
            raise ValueError(
                f"per_website={per_website!r} is not allowed: a template cannot be a key; allowed: a dict without "
                "templates in its keys, or a template of a JSON object"
            )
        self.websites = websites
        self.except_websites = except_websites
        self.per_website = per_website
        self.mode = mode
        self.ledger_path = ledger_path
        self.list_name = list_name
        self.adopt = adopt
        self.release = release
        self.allow_empty = allow_empty
        self.allow_no_match = allow_no_match
        self.max_loss_fraction = max_loss_fraction
        self.force = force
        self.is_dry_run = dry_run  # BaseOperator.dry_run is a method
        self.plan_path = plan_path
        self.overwrite_plan = overwrite_plan
        self.expected_digest = expected_digest
        self.approval_valid_hours = approval_valid_hours
        self.refuse_own_approval = refuse_own_approval
        self.max_workers = max_workers
        self.audit_path = audit_path
        self.file_mode = file_mode

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan the changes, check the guards, and apply them."""
        from airflow_provider_analytics.operators.audit import audit_trail
        from airflow_provider_analytics.operators.planning import (
            note_use,
            parse_file_mode,
            read_approved,
            write_plan,
        )

        with self.connected() as hook:
            dry_run = flag("dry_run", self.is_dry_run)
            if dry_run and self.expected_digest is not None:
                raise ValueError("dry_run=True with expected_digest is not allowed: one plans, the other applies")
            self._require_run(context, dry_run=dry_run)
            approved = None
            if not dry_run:
                approved = read_approved(
                    self.plan_path,
                    self.expected_digest,
                    context,
                    valid_hours=self.approval_valid_hours,
                    refuse_own=flag("refuse_own_approval", self.refuse_own_approval),
                )
            planned = self._plan(hook, context, approved, dry_run=dry_run)
            outcome = None
            if dry_run:
                planned.raise_unread()
                if self.plan_path:
                    overwrite = flag("overwrite_plan", self.overwrite_plan)
                    write_plan(
                        self.plan_path,
                        planned.plan,
                        hook.client.redact,
                        overwrite=overwrite,
                        file_mode=self.file_mode,
                    )
            else:
                planned = planned.only(approved)
                mode = parse_file_mode(self.file_mode)
                audit = audit_trail(self.audit_path, context, hook.client.redact, mode, planned.sources_of)
                outcome = planned.apply(audit, ignore_gone=True)
            result = self._result(planned, outcome, dry_run=dry_run)
            if outcome:
                outcome.raise_failures()
                note_use(self.plan_path, approved, context, self.file_mode)
        return result

    def _require_run(self, context: Context, *, dry_run: bool) -> None:
        """Raise :class:`ValueError` if the arguments need a run but there is none."""
        from airflow_provider_analytics.operators.planning import require_run_to_apply

        if not dry_run:
            require_run_to_apply(context, ledger=self.mode == "managed", audit_path=self.audit_path)
        elif self.mode == "managed" and not self.list_name:
            require_run(context, ["ti"], "The mode managed without list_name")

    def _plan(self, hook: AnalyticsHook, context: Context, approved: ApprovedPlan | None, *, dry_run: bool) -> Planned:
        """Plan the changes."""
        from airflow_provider_analytics.api.checks import flag, fraction, positive_number, whole_number
        from airflow_provider_analytics.operators.planning import account_of, resolved_names
        from airflow_provider_analytics.reconcile.engine import Limits, plan, same_scope

        adopt = flag("adopt", self.adopt)
        limits = Limits(fraction("max_loss_fraction", self.max_loss_fraction), flag("force", self.force))
        workers = whole_number("max_workers", self.max_workers, at_least=1)
        source = self._source()
        everywhere, per_website = self._parse_lists(allow_empty=flag("allow_empty", self.allow_empty))
        keep_days = positive_number("keep_unresolved", self.keep_unresolved, "7", at_most=3650)
        private = flag("allow_private_answers", self.allow_private_answers)
        names = flag("resolve_names", self.resolve_names)
        for name, given in (("adopt", adopt), ("release", self.release), ("resolve_names", names)):
            if given and not source.managed:
                raise ValueError(f"{name} is not allowed with mode={self.mode!r}; allowed: mode='managed'")
        scope: dict[str, Any] = {"service": hook.client.base_url, "field": self.field, "mode": self.mode}
        if source.managed or self.plan_path:
            scope["account"] = account_of(hook)
        ledger = self._ledger(scope, context) if source.managed else None
        if ledger:
            scope["list"] = ledger.ledger.identity.list
        if approved:
            same_scope(approved.plan, scope)
        lists = [everywhere, *per_website.values()]
        resolved = resolved_names(lists, ledger, keep_days=keep_days, private=private)
        source = replace(
            source,
            entries=everywhere.with_answers(resolved),
            per_website={one: found.with_answers(resolved) for one, found in per_website.items()},
        )
        if ledger and not dry_run:
            ledger.take_over(
                context, hook.client
            )  # before the websites are read, so that its outstanding entries are included
        if ledger:
            ledger.note(source.parts, resolved)
        return plan(
            hook.client,
            source,
            scope={**scope, "max_loss_fraction": limits.max_loss_fraction},
            limits=limits,
            workers=workers,
            ledger=ledger,
            adopt=adopt,
        )

    def _source(self) -> ExclusionList:
        """Return the websites that get the list, without its entries."""
        from airflow_provider_analytics.api.checks import one_of
        from airflow_provider_analytics.reconcile.desired import MODES
        from airflow_provider_analytics.reconcile.exclusions import ExclusionList
        from airflow_provider_analytics.reconcile.maintained import Listed
        from airflow_provider_analytics.reconcile.selection import parse_selectors

        one_of("mode", self.mode, MODES)
        filters = self.websites if isinstance(self.websites, Mapping) else {}
        for name in filters:
            one_of("websites", name, _FILTERS)
        if filters and self.release:
            raise ValueError("release is not allowed with a filter in websites; allowed: a list of selectors, or None")
        selected = None if isinstance(self.websites, Mapping) else self.websites
        return ExclusionList(
            self.field,
            self.mode,
            Listed(),
            None if selected is None else parse_selectors("websites", selected),
            parse_selectors("except_websites", self.except_websites),
            {},
            parse_selectors("release", self.release),
            dict(filters),
            flag("allow_no_match", self.allow_no_match),
        )

    def _result(self, planned: Planned, outcome: Outcome | None, *, dry_run: bool) -> dict[str, Any]:
        """Return the result, and log a summary."""
        from airflow_provider_analytics.operators.planning import SHOWN_CHANGES, result_of
        from airflow_provider_analytics.readable import counted

        plan = planned.plan
        result = result_of(
            planned, outcome, dry_run=dry_run, plan_path=self.plan_path, field=self.field, mode=self.mode
        )
        if outcome is None:
            self.log.info(
                "Planned %s for %s of %s websites: %s entries to add, %s to remove%s",
                self.field,
                *(f"{result[name]:,}" for name in ("updates", "websites", "entries_added", "entries_removed")),
                "".join(f"\n{line}" for line in plan.lines(SHOWN_CHANGES)),
            )
            if plan.unsafe:
                self.log.warning("Guard %s: %s", "overridden" if plan.force else "tripped", result["unsafe"])
        else:
            if plan.unsafe:
                self.log.warning("Guard overridden: %s", result["unsafe"])
            if not plan.changes and not outcome.failures:
                self.log.info(
                    "Nothing to sync: %s is as wanted on %s", self.field, counted(result["websites"], "website")
                )
                return result
            self.log.info(
                "Synced %s on %s of %s websites that differed: %s entries to add, %s to remove; %s compared, %s failed",
                self.field,
                *(
                    f"{result[name]:,}"
                    for name in ("applied", "updates", "entries_added", "entries_removed", "websites")
                ),
                f"{len(outcome.failures):,}",
            )
        return result

    def _parse_lists(self, *, allow_empty: bool) -> tuple[Listed, dict[str, Listed]]:
        """Return the list for all websites, and the lists per selector; raise all problems at once."""
        from airflow_provider_analytics.api.fields import LINE_FIELDS
        from airflow_provider_analytics.reconcile.maintained import read_list

        host_names = flag("resolve_names", self.resolve_names)
        per_website = _json_object("per_website", self.per_website)
        arguments = {self.field: self._list_value()}
        arguments |= {f"per_website[{one!r}]": entries for one, entries in per_website.items()}
        parsed: list[Listed] = []
        problems = []
        for argument, value in arguments.items():
            try:
                parsed.append(
                    read_list(
                        argument,
                        value,
                        LINE_FIELDS[self.field],
                        networks=self.networks,
                        managed=self.mode == "managed",
                        host_names=host_names,
                    )
                )
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError(". ".join(problems))
        if not parsed[0].entries and not parsed[0].names and not allow_empty:
            why = "Does its source exist, such as a Variable?"
            if parsed[0].expired:
                why = f"all of it has expired: {', '.join(list(parsed[0].expired)[:3])}."
            raise ValueError(f"{self.field} is empty: {why} To clear the lists, set allow_empty=True")
        return parsed[0], dict(zip(per_website, parsed[1:], strict=True))

    def _list_value(self) -> Any:
        """Return the given list, or the text of the given file."""
        from airflow_provider_analytics.hooks.object_storage import read_text

        value, path = getattr(self, self.field), getattr(self, f"{self.field}_path")
        if (value is None) == (path is None):
            raise refused_together("one of the two", **{self.field: value, f"{self.field}_path": path})
        if path is not None:
            text = read_text(path, f"{self.field}_path")
            if text is None:
                raise ValueError(f"{self.field}_path={path!r}: there is no such file; allowed: a text file")
            return text
        # Otherwise the person who sets the value, for example a Variable, could choose a file that this task reads.
        if isinstance(value, str) and len(value.split()) == 1 and re.search(r"^[./~]|://|\.txt$", value.strip()):
            raise refused(self.field, value, f"entries; a file is given by {self.field}_path")
        return value

    def _ledger(self, scope: Mapping[str, Any], context: Context) -> LedgerFile:
        from airflow_provider_analytics.operators.planning import LedgerFile, task_name
        from airflow_provider_analytics.reconcile.ledger import Identity

        if not self.ledger_path:
            raise ValueError("mode='managed' needs ledger_path: the URL or absolute path of a file for the ledger")
        if self.plan_path and not self.list_name:
            raise ValueError("mode='managed' with plan_path needs list_name, the same for both tasks")
        identity = Identity(scope["service"], scope["account"], self.list_name or task_name(context))
        return LedgerFile(self.ledger_path, identity, adopt=flag("adopt", self.adopt), file_mode=self.file_mode)


def _json_object(argument: str, value: Any) -> Mapping[str, Any]:
    """Return a dict; it may be given as JSON text, because templates render to text."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = next((key for key, number in Counter(key for key, _ in pairs).items() if number > 1), None)
        if twice is not None:
            raise refused(argument, value, f"each key once; {twice!r} is there twice")
        return dict(pairs)

    if isinstance(value, str):
        with suppress(json.JSONDecodeError):
            value = json.loads(value, object_pairs_hook=unique)
    if value is not None and not isinstance(value, Mapping):
        raise refused(argument, value, "a dict of domains, globs or ids to entries, or the text of a JSON object")
    return value or {}


class SyncExcludedIpsOperator(_SyncExclusionsOperator):
    """Sync the excluded IP addresses of many websites with one list (docs/exclusions.md).

    The operator reads the list of websites, plans the changes and checks the guards. Then it fetches each website that
    differs and changes it. At the end it reads all changed websites again. Lists are compared as sets; order and
    comments of existing entries are kept. A website that fails does not stop the others. :class:`BulkError` lists all
    failed websites at the end, and a retry updates only websites that still differ.

    .. code-block:: python

        SyncExcludedIpsOperator(
            task_id="office_addresses",
            exclude_ips="{{ var.value.exclude_ips }}",
            mode="managed",
            ledger_path="s3://analytics-state/office_addresses.json",
        )

    :param exclude_ips: IP addresses: a list, or text with one per line, ``#`` comments and blank lines allowed. An
        empty list needs ``allow_empty``. For ``"managed"``, a comment may contain an owner and a last day:
        ``203.0.113.7  # office, owner=it@example.com, until=2027-01-31``. (templated)
    :param exclude_ips_path: URL or absolute path of a file with such text, instead of ``exclude_ips``. (templated)
    :param networks: how to handle networks such as ``203.0.113.0/24``: ``"reject"`` (default), ``"expand"`` (to single
        addresses, up to 1,024 per list) or ``"send"``. The interface documents single addresses only. (templated)
    :param resolve_names: allow host names such as ``vpn.example.com`` in the list, for ``"managed"``: each run looks up
        their addresses, IPv4 and IPv6. (templated)
    :param keep_unresolved: number of days for which the last addresses of a host name are kept if it does not resolve;
        default 7. After that, the task fails. (templated)
    :param allow_private_answers: allow host names with private, loopback and other addresses that are not public.
        (templated)
    :param websites: None (default) for all, or a list of domains, globs (``*.example.com``) and ids, or filters of the
        list request: ``{"favorite": True}``, ``{"search": "shop"}``. (templated)
    :param except_websites: domains, globs and ids to exclude. (templated)
    :param per_website: domain, glob or id to additional entries for these websites; a dict, or the text of a JSON
        object. (templated, but for the keys of a dict)
    :param mode: ``"merge"`` (default) adds missing entries; ``"replace"`` makes each list equal to this one;
        ``"managed"`` adds missing entries and removes entries that earlier runs added and that are no longer on the
        list. Entries that were added manually stay. (templated)
    :param ledger_path: for ``"managed"``: a small file (URL or absolute path) that records which entries were added.
        Use one ledger per list, and never two runs at the same time (``max_active_runs=1``). (templated)
    :param list_name: name of the list in the ledger; default ``<dag id>.<task id>``, and ``[<map index>]`` if the task
        is mapped. Required with ``plan_path``. (templated)
    :param adopt: for ``"managed"``: let the list own the entries that it and the websites have in common, whoever added
        them. Use it after a lost ledger, and for the move from ``"merge"``. (templated)
    :param release: for ``"managed"``: domains, globs and ids of websites to stop managing: the entries that this list
        added there are removed, and nothing is added. (templated)
    :param allow_empty: allow an empty ``exclude_ips``. (templated)
    :param allow_no_match: allow selectors that match no website. (templated)
    :param max_loss_fraction: largest fraction of the entries on the selected websites that may be lost, and of the
        list itself in mode ``"managed"``; default 0.3; checked if there are 10 entries or more. (templated)
    :param force: apply the plan even if this guard trips. (templated)
    :param dry_run: plan only: send nothing, and write only ``plan_path``. (templated, as ``is_dry_run``)
    :param plan_path: URL or absolute path. With ``dry_run``: where to write the complete plan as JSON, and as Markdown
        to ``<plan_path>.md``. With ``expected_digest``: path of the approved plan. (templated)
    :param overwrite_plan: with ``dry_run``, replace another plan at ``plan_path``. Otherwise another plan is an error,
        because someone may be approving it. (templated)
    :param expected_digest: ``digest`` of the approved plan, or the output of an ``ApprovalOperator`` whose form has it
        (docs/websites_as_code.md). Exactly the approved plan is applied, or nothing. If None: any plan within the
        guards is applied. (templated)
    :param approval_valid_hours: hours after which an approval expires; default 24. (templated)
    :param refuse_own_approval: refuse an approval by the person who started the run; needs the output of an
        ``ApprovalOperator``. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param audit_path: folder (URL or absolute path) for a JSON line per changed field and failed website. (templated)
    :param file_mode: permissions of ledger, plan and audit trail on a disk of the worker: ``600`` (default: for its
        user only), ``640``, ``660``, ``644`` or ``664``, as text. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with the same keys in every mode: ``field``, ``mode``, ``dry_run``, ``digest`` of the plan, the
        numbers of ``websites`` compared, ``creates`` and ``deletes`` (0), ``updates`` planned, ``unchanged``,
        ``applied``, ``entries_added`` and ``entries_removed`` (as planned), ``unsafe`` (the message of a guard that
        trips, or None), ``force``, ``verified`` (whether all changes were read again and are in effect), the first 20
        changes as one line each (``changes``), the number of further changes (``changes_left_out``), the lines of the
        list whose last day is over (``expired``) or at most 30 days away (``expiring``), as dicts with ``entry``,
        ``until``, ``owner`` and ``reason``, and ``markdown`` (the plan of a dry run, with at most 100 changes;
        otherwise None).
    :raises AirflowFailException: without a retry and before anything is sent, if an argument is not allowed, the guard
        trips, the list is missing in records in mode ``"merge"`` or ``"managed"``, or the connection cannot be used.
    :raises UnresolvedError: before anything is sent, if a host name has not resolved for longer than
        ``keep_unresolved``.
    :raises BulkError: at the end, if websites failed.
    :raises StoppedError: if Airflow stopped the task, or another try took over its ledger; the next try applies the
        remaining changes.
    """

    field = "exclude_ips"
    template_fields: Sequence[str] = (
        "exclude_ips",
        "exclude_ips_path",
        "networks",
        "resolve_names",
        "keep_unresolved",
        "allow_private_answers",
        *_SyncExclusionsOperator.template_fields,
    )

    def __init__(
        self,
        *,
        exclude_ips: Iterable[str] | str | None = None,
        exclude_ips_path: str | None = None,
        networks: str = "reject",
        resolve_names: bool = False,
        keep_unresolved: float = 7,
        allow_private_answers: bool = False,
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None = None,
        except_websites: Iterable[str | int] | str | int = (),
        per_website: Mapping[str, Iterable[str] | str] | str | None = None,
        mode: str = "merge",
        ledger_path: str | None = None,
        list_name: str | None = None,
        adopt: bool = False,
        release: Iterable[str | int] | str | int = (),
        allow_empty: bool = False,
        allow_no_match: bool = False,
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        force: bool = False,
        dry_run: bool = False,
        plan_path: str | None = None,
        overwrite_plan: bool = False,
        expected_digest: str | Mapping[str, Any] | None = None,
        approval_valid_hours: float = 24,
        refuse_own_approval: bool = False,
        max_workers: int = 8,
        audit_path: str | None = None,
        file_mode: str = "600",
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(
            websites=websites,
            except_websites=except_websites,
            per_website=per_website,
            mode=mode,
            ledger_path=ledger_path,
            list_name=list_name,
            adopt=adopt,
            release=release,
            allow_empty=allow_empty,
            allow_no_match=allow_no_match,
            max_loss_fraction=max_loss_fraction,
            force=force,
            dry_run=dry_run,
            plan_path=plan_path,
            overwrite_plan=overwrite_plan,
            expected_digest=expected_digest,
            approval_valid_hours=approval_valid_hours,
            refuse_own_approval=refuse_own_approval,
            max_workers=max_workers,
            audit_path=audit_path,
            file_mode=file_mode,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.exclude_ips = exclude_ips
        self.exclude_ips_path = exclude_ips_path
        self.networks = networks
        self.resolve_names = resolve_names
        self.keep_unresolved = keep_unresolved
        self.allow_private_answers = allow_private_answers


class SyncExcludedParamsOperator(_SyncExclusionsOperator):
    """Sync the excluded URL query parameters of many websites with one list (docs/exclusions.md).

    Works like :class:`SyncExcludedIpsOperator`.

    .. code-block:: python

        SyncExcludedParamsOperator(task_id="tracking_parameters", exclude_params=["gclid", "fbclid"])

    :param exclude_params: names of query parameters, case-sensitive: a list, or text with one per line, ``#`` comments
        and blank lines allowed. An empty list needs ``allow_empty``. (templated)
    :param exclude_params_path: URL or absolute path of a file with such text, instead of ``exclude_params``.
        (templated)
    :param websites: None (default) for all, or a list of domains, globs (``*.example.com``) and ids, or filters of the
        list request: ``{"favorite": True}``, ``{"search": "shop"}``. (templated)
    :param except_websites: domains, globs and ids to exclude. (templated)
    :param per_website: domain, glob or id to additional entries for these websites; a dict, or the text of a JSON
        object. (templated, but for the keys of a dict)
    :param mode: ``"merge"`` (default) adds missing entries; ``"replace"`` makes each list equal to this one;
        ``"managed"`` adds missing entries and removes entries that earlier runs added and that are no longer on the
        list. Entries that were added manually stay. (templated)
    :param ledger_path: for ``"managed"``: a small file (URL or absolute path) that records which entries were added.
        Use one ledger per list, and never two runs at the same time (``max_active_runs=1``). (templated)
    :param list_name: name of the list in the ledger; default ``<dag id>.<task id>``, and ``[<map index>]`` if the task
        is mapped. Required with ``plan_path``. (templated)
    :param adopt: for ``"managed"``: let the list own the entries that it and the websites have in common, whoever added
        them. Use it after a lost ledger, and for the move from ``"merge"``. (templated)
    :param release: for ``"managed"``: domains, globs and ids of websites to stop managing: the entries that this list
        added there are removed, and nothing is added. (templated)
    :param allow_empty: allow an empty ``exclude_params``. (templated)
    :param allow_no_match: allow selectors that match no website. (templated)
    :param max_loss_fraction: largest fraction of the entries on the selected websites that may be lost, and of the
        list itself in mode ``"managed"``; default 0.3; checked if there are 10 entries or more. (templated)
    :param force: apply the plan even if this guard trips. (templated)
    :param dry_run: plan only: send nothing, and write only ``plan_path``. (templated, as ``is_dry_run``)
    :param plan_path: URL or absolute path. With ``dry_run``: where to write the complete plan as JSON, and as Markdown
        to ``<plan_path>.md``. With ``expected_digest``: path of the approved plan. (templated)
    :param overwrite_plan: with ``dry_run``, replace another plan at ``plan_path``. Otherwise another plan is an error,
        because someone may be approving it. (templated)
    :param expected_digest: ``digest`` of the approved plan, or the output of an ``ApprovalOperator`` whose form has it
        (docs/websites_as_code.md). Exactly the approved plan is applied, or nothing. If None: any plan within the
        guards is applied. (templated)
    :param approval_valid_hours: hours after which an approval expires; default 24. (templated)
    :param refuse_own_approval: refuse an approval by the person who started the run; needs the output of an
        ``ApprovalOperator``. (templated)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param audit_path: folder (URL or absolute path) for a JSON line per changed field and failed website. (templated)
    :param file_mode: permissions of ledger, plan and audit trail on a disk of the worker: ``600`` (default: for its
        user only), ``640``, ``660``, ``644`` or ``664``, as text. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with the same keys as that of :class:`SyncExcludedIpsOperator`.
    :raises AirflowFailException: without a retry and before anything is sent, if an argument is not allowed, the guard
        trips, the list is missing in records in mode ``"merge"`` or ``"managed"``, or the connection cannot be used.
    :raises BulkError: at the end, if websites failed.
    :raises StoppedError: if Airflow stopped the task, or another try took over its ledger; the next try applies the
        remaining changes.
    """

    field = "exclude_params"
    template_fields: Sequence[str] = ("exclude_params", "exclude_params_path", *_SyncExclusionsOperator.template_fields)

    def __init__(
        self,
        *,
        exclude_params: Iterable[str] | str | None = None,
        exclude_params_path: str | None = None,
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None = None,
        except_websites: Iterable[str | int] | str | int = (),
        per_website: Mapping[str, Iterable[str] | str] | str | None = None,
        mode: str = "merge",
        ledger_path: str | None = None,
        list_name: str | None = None,
        adopt: bool = False,
        release: Iterable[str | int] | str | int = (),
        allow_empty: bool = False,
        allow_no_match: bool = False,
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        force: bool = False,
        dry_run: bool = False,
        plan_path: str | None = None,
        overwrite_plan: bool = False,
        expected_digest: str | Mapping[str, Any] | None = None,
        approval_valid_hours: float = 24,
        refuse_own_approval: bool = False,
        max_workers: int = 8,
        audit_path: str | None = None,
        file_mode: str = "600",
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(
            websites=websites,
            except_websites=except_websites,
            per_website=per_website,
            mode=mode,
            ledger_path=ledger_path,
            list_name=list_name,
            adopt=adopt,
            release=release,
            allow_empty=allow_empty,
            allow_no_match=allow_no_match,
            max_loss_fraction=max_loss_fraction,
            force=force,
            dry_run=dry_run,
            plan_path=plan_path,
            overwrite_plan=overwrite_plan,
            expected_digest=expected_digest,
            approval_valid_hours=approval_valid_hours,
            refuse_own_approval=refuse_own_approval,
            max_workers=max_workers,
            audit_path=audit_path,
            file_mode=file_mode,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.exclude_params = exclude_params
        self.exclude_params_path = exclude_params_path
