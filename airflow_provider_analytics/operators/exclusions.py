"""Operators that sync the exclusion lists of many websites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.operators.base import AnalyticsOperator
from airflow_provider_analytics.thresholds import MAX_LOSS_FRACTION

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.api.entries import Entries
    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.operators.task_arguments import TaskArguments
    from airflow_provider_analytics.reconcile.ledger import Ledger

#: Maximum number of changes in the return value, one line each; the counts cover the rest.
SHOWN_CHANGES = 20

#: What ``adopt`` may be.
ADOPT = ("matching",)

_FILTERS = ("search", "search_by", "favorite")


class _SyncExclusionsOperator(AnalyticsOperator):
    """Base class of the operators for both lists; they differ in the type of the entries."""

    #: Field of the website that holds the list.
    field: ClassVar[str]
    #: Argument with the desired entries.
    argument: ClassVar[str]
    #: How networks in lists of IP addresses are handled.
    networks: str = "reject"

    template_fields: Sequence[str] = (
        "websites",
        "except_websites",
        "per_website",
        "mode",
        "ledger_path",
        "list_name",
        "adopt",
        "allow_empty",
        "allow_no_match",
        "max_removal_fraction",
        "force",
        "is_dry_run",
        "max_workers",
        "audit_path",
        "analytics_conn_id",
    )
    template_ext: Sequence[str] = (".txt",)

    def __init__(
        self,
        *,
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None,
        except_websites: Iterable[str | int] | str | int,
        per_website: Mapping[str, Iterable[str] | str] | None,
        mode: str,
        ledger_path: str | None,
        list_name: str | None,
        adopt: str | None,
        allow_empty: bool,
        allow_no_match: bool,
        max_removal_fraction: float,
        force: bool,
        dry_run: bool,
        max_workers: int,
        audit_path: str | None,
        analytics_conn_id: str,
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.websites = websites
        self.except_websites = except_websites
        self.per_website = per_website
        self.mode = mode
        self.ledger_path = ledger_path
        self.list_name = list_name
        self.adopt = adopt
        #: The ledger as it was read or written last.
        self._ledger_text: str | None = None
        self.allow_empty = allow_empty
        self.allow_no_match = allow_no_match
        self.max_removal_fraction = max_removal_fraction
        self.force = force
        self.is_dry_run = dry_run  # BaseOperator.dry_run is a method
        self.max_workers = max_workers
        self.audit_path = audit_path

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan the changes, check the guards, and apply them."""
        with self.connected() as hook:
            return self._sync(hook, context)

    def _sync(self, hook: AnalyticsHook, context: Context) -> dict[str, Any]:
        from airflow_provider_analytics.api.checks import flag, fraction, one_of, whole_number
        from airflow_provider_analytics.operators.audit import audit_trail
        from airflow_provider_analytics.reconcile.apply import Outcome, apply_until_held, complete_records
        from airflow_provider_analytics.reconcile.exclusions import MODES, Reconciler, raise_if_list_is_cut
        from airflow_provider_analytics.reconcile.selection import extra_entries

        one_of("mode", self.mode, MODES)
        dry_run = flag("dry_run", self.is_dry_run)
        allow_no_match = flag("allow_no_match", self.allow_no_match)
        max_removal_fraction = fraction("max_removal_fraction", self.max_removal_fraction)
        workers = whole_number("max_workers", self.max_workers, at_least=1)
        common, per_website = self._desired(allow_empty=flag("allow_empty", self.allow_empty))
        if self.adopt is not None:
            one_of("adopt", self.adopt, ADOPT)
        ledger = self._read_ledger(hook, context) if self.mode == "managed" else None

        chosen = self._choose(hook, allow_no_match=allow_no_match)
        extra = extra_entries(chosen, per_website, allow_no_match=allow_no_match)
        records, unread = complete_records(hook.client, chosen, [self.field], workers=workers)

        def desired(record: Mapping[str, Any]) -> Entries:
            return tuple(dict.fromkeys((*common, *extra.get(str(record["id"]), ()))))

        def reconciler(owned: Mapping[str, Entries]) -> Reconciler:
            return Reconciler(self.field, desired, mode=self.mode, owned=owned)

        before = reconciler(ledger.owned(records) if ledger else {})
        if ledger and self.adopt:
            before.adopt_matching(records)
        planned, current = reconciler(before.owned), reconciler(before.owned)
        plan = planned.plan(records)
        unsafe = None
        if not flag("force", self.force):
            try:
                plan.raise_if_unsafe(max_removal_fraction)
                raise_if_list_is_cut(ledger.entries if ledger else (), common, max_removal_fraction)
            except UnsafePlanError as error:
                if not dry_run:
                    raise
                unsafe = str(error)
        outcome = Outcome((), {})
        if not dry_run:
            claimed = {one: (*before.owned.get(one, ()), *entries) for one, entries in planned.owned.items()}
            if ledger:
                # Written before anything is sent: entries added by a task that is then killed must count as added.
                self._write_ledger(ledger.with_owned(records, claimed, common))
            with audit_trail(self.audit_path, context, hook.client.redact) as audit:
                outcome = apply_until_held(
                    hook.client,
                    plan,
                    current.change,
                    current.left,
                    lambda ids: self._read_again(hook, ids, records=chosen, workers=workers),
                    workers=workers,
                    applied=audit.applied,
                )
                audit.failed({**unread, **outcome.failures})
            if ledger:
                # What is owned follows from the records that were read right before each change.
                changed = {str(change.website_id) for change in plan.changes} - outcome.failed_ids
                settled = {**planned.owned, **{one: current.owned[one] for one in changed}}
                unclear = outcome.failed_ids - outcome.refused_ids
                settled |= {one: claimed[one] for one in unclear if one in claimed}
                settled |= {one: before.owned.get(one, ()) for one in outcome.refused_ids}
                self._write_ledger(ledger.with_owned(records, settled, common))
        result: dict[str, Any] = {
            "field": self.field,
            "mode": self.mode,
            "dry_run": dry_run,
            **plan.to_dict(SHOWN_CHANGES),
            "unchanged": len(records) - len(plan.changes),
            "applied": len({change.website_id for change in outcome.done}),
            "unsafe": unsafe,
            "verified": not dry_run and not outcome.failures and not unread,
        }
        result = hook.client.for_output(result)
        if dry_run:
            more = [f"and {result['changes_left_out']:,} more"] if result["changes_left_out"] else []
            self.log.info(
                "Planned %s for %s of %s websites: %s entries to add, %s to remove%s",
                self.field,
                *(f"{result[name]:,}" for name in ("updates", "websites", "entries_added", "entries_removed")),
                "".join(f"\n{line}" for line in (*result["changes"], *more)),
            )
        else:
            self.log.info(
                "Synced %s on %s of the %s websites that differed; %s compared, %s failed",
                self.field,
                *(f"{result[name]:,}" for name in ("applied", "updates", "websites")),
                f"{len(unread) + len(outcome.failures):,}",
            )
        Outcome(outcome.done, {**unread, **outcome.failures}).raise_failures()
        return result

    def _read_again(
        self, hook: AnalyticsHook, ids: Sequence[str], *, records: Sequence[Mapping[str, Any]], workers: int
    ) -> list[Mapping[str, Any]]:
        """Return the websites that were changed, with the fewest requests: from the list, or one by one."""
        from airflow_provider_analytics.reconcile.apply import read_websites

        pages = -(-len(records) // 100) + 2
        if len(ids) <= pages or not all(self.field in record for record in records):
            return list(read_websites(hook.client, ids, workers=workers))
        wanted = set(ids)
        return [record for record in hook.list_websites() if str(record["id"]) in wanted]

    def _desired(self, *, allow_empty: bool) -> tuple[Entries, dict[str, Entries]]:
        """Return the entries for all websites, and those per selector; raise all problems at once."""
        from airflow_provider_analytics.api.fields import LINE_FIELDS

        arguments = {self.argument: getattr(self, self.argument)}
        arguments |= {f"per_website[{one!r}]": entries for one, entries in (self.per_website or {}).items()}
        parsed: list[Entries] = []
        problems = []
        for argument, value in arguments.items():
            try:
                parsed.append(LINE_FIELDS[self.field].parse(argument, value, self.networks))
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError(". ".join(problems))
        if not parsed[0] and not allow_empty:
            raise ValueError(f"{self.argument} is empty; set allow_empty=True if this is intended")
        return parsed[0], dict(zip(self.per_website or {}, parsed[1:], strict=True))

    def _choose(self, hook: AnalyticsHook, *, allow_no_match: bool) -> list[Mapping[str, Any]]:
        from airflow_provider_analytics.api.checks import one_of
        from airflow_provider_analytics.reconcile.selection import choose, raise_unmatched

        if not isinstance(self.websites, Mapping):
            records = hook.list_websites()
            return choose(records, self.websites, self.except_websites, allow_no_match=allow_no_match)
        for name in self.websites:
            one_of("websites", name, _FILTERS)
        found = hook.list_websites(**self.websites)
        raise_unmatched([] if found else [f"websites: {self.websites!r}"], allow_no_match=allow_no_match)
        return choose(found, None, self.except_websites, allow_no_match=allow_no_match)

    def _read_ledger(self, hook: AnalyticsHook, context: Context) -> Ledger:
        from airflow_provider_analytics.hooks.object_storage import read_text
        from airflow_provider_analytics.reconcile.ledger import Identity, Ledger

        if not self.ledger_path:
            raise ValueError("mode='managed' needs ledger_path: the URL or absolute path of a file for the ledger")
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else ti.map_index
        mapped = f"[{map_index}]" if map_index >= 0 else ""
        account = hook.get_account().get("id")
        identity = Identity(
            service=hook.client.base_url,
            account=None if account is None else str(account),
            list=self.list_name or f"{ti.dag_id}.{self.task_id}{mapped}",
            field=self.field,
        )
        self._ledger_text = read_text(self.ledger_path, "ledger_path")
        if self._ledger_text is not None:
            return Ledger.parse(self._ledger_text, identity)
        follows = "it owns those that it has in common" if self.adopt else "none of them is ever removed"
        self.log.warning(
            "Found no ledger at %s, as on a first run: all entries count as added by hand, and %s.",
            self.ledger_path,
            follows,
        )
        return Ledger(identity)

    def _write_ledger(self, ledger: Ledger) -> None:
        from airflow_provider_analytics.hooks.object_storage import read_text, write_text

        if read_text(str(self.ledger_path), "ledger_path") != self._ledger_text:
            raise UnsafePlanError(
                f"The ledger {self.ledger_path} was changed by somebody else since it was read: two runs must not "
                "share one. Set max_active_runs=1, and give each list a ledger_path of its own."
            )
        self._ledger_text = ledger.render()
        write_text(str(self.ledger_path), "ledger_path", self._ledger_text)


class SyncExcludedIpsOperator(_SyncExclusionsOperator):
    """Sync the excluded IP addresses of many websites with one list (docs/exclusions.md).

    Reads the list of websites, plans the changes, checks the guards, and only then changes each website that differs,
    by what it shows at that moment. What was changed is read again at the end. Lists compare as sets; order and
    comments of existing entries are kept. A website that fails does not stop the others: :class:`BulkError` names all
    failed websites at the end, and a retry updates only what still differs.

    .. code-block:: python

        SyncExcludedIpsOperator(
            task_id="office_addresses",
            excluded_ips="{{ var.value.excluded_ips }}",
            mode="managed",
            ledger_path="s3://analytics-state/office_addresses.json",
        )

    :param excluded_ips: IP addresses: a list, or text with one per line, ``#`` comments and blank lines allowed; a
        value that ends in ``.txt`` is read as a template file. An empty list needs ``allow_empty``. (templated)
    :param networks: how networks such as ``203.0.113.0/24`` are handled, since the interface documents addresses only:
        ``"reject"`` (default), ``"expand"`` (to single addresses, up to 1,024 per list) or ``"send"``. (templated)
    :param websites: None (default) for all, or a list of domains, globs (``*.example.com``) and ids, or filters of the
        list request: ``{"favorite": True}``, ``{"search": "shop"}``. (templated)
    :param except_websites: domains, globs and ids to exclude. (templated)
    :param per_website: domain, glob or id to additional entries for these websites. (templated)
    :param mode: ``"merge"`` (default) adds missing entries; ``"replace"`` makes each list equal to this one;
        ``"managed"`` adds missing entries and removes those that earlier runs of this list added and it no longer
        contains, so that entries added by hand stay. (templated)
    :param ledger_path: for ``"managed"``: a small file (URL or absolute path) that records which entries were added.
        Use one ledger per list, and never two runs at the same time (``max_active_runs=1``). (templated)
    :param list_name: name of the list in the ledger; default ``<dag id>.<task id>``, and ``[<map index>]`` if the task
        is mapped. (templated)
    :param adopt: for ``"managed"``: ``"matching"`` lets the list own the entries that it has in common with the
        websites, whoever added them: after a lost ledger, and for the move from ``"merge"``. (templated)
    :param allow_empty: allow an empty ``excluded_ips``. (templated)
    :param allow_no_match: allow selectors that match no website. (templated)
    :param max_removal_fraction: largest fraction of the entries on the selected websites that may be removed; default
        0.3; checked from 10 entries up. (templated)
    :param force: apply the plan even if this guard trips. (templated)
    :param dry_run: send and write nothing. (templated, as ``is_dry_run``)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param audit_path: folder (URL or absolute path) for a JSON line per changed field and failed website. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with the same keys in every mode: ``field``, ``mode``, ``dry_run``, ``digest`` of the plan, the
        numbers of ``websites`` compared, ``creates`` and ``deletes`` (0), ``updates`` planned, ``unchanged``,
        ``applied``, ``entries_added`` and ``entries_removed`` (as planned), ``unsafe`` (the message of a guard that
        trips in a dry run, or None), ``verified`` (whether what was changed was read again and holds), the first 20
        changes as one line each (``changes``), and the number of further changes (``changes_left_out``).
    :raises AirflowFailException: without a retry and before anything is sent, if an argument is not allowed, the guard
        trips, records do not show the list in mode ``"merge"`` or ``"managed"``, or the connection cannot be used.
    :raises BulkError: at the end, if websites failed.
    """

    field = "exclude_ips"
    argument = "excluded_ips"
    template_fields: Sequence[str] = ("excluded_ips", "networks", *_SyncExclusionsOperator.template_fields)

    def __init__(
        self,
        *,
        excluded_ips: Iterable[str] | str,
        networks: str = "reject",
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None = None,
        except_websites: Iterable[str | int] | str | int = (),
        per_website: Mapping[str, Iterable[str] | str] | None = None,
        mode: str = "merge",
        ledger_path: str | None = None,
        list_name: str | None = None,
        adopt: str | None = None,
        allow_empty: bool = False,
        allow_no_match: bool = False,
        max_removal_fraction: float = MAX_LOSS_FRACTION,
        force: bool = False,
        dry_run: bool = False,
        max_workers: int = 8,
        audit_path: str | None = None,
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
            allow_empty=allow_empty,
            allow_no_match=allow_no_match,
            max_removal_fraction=max_removal_fraction,
            force=force,
            dry_run=dry_run,
            max_workers=max_workers,
            audit_path=audit_path,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.excluded_ips = excluded_ips
        self.networks = networks


class SyncExcludedParamsOperator(_SyncExclusionsOperator):
    """Sync the excluded URL query parameters of many websites with one list (docs/exclusions.md).

    Works like :class:`SyncExcludedIpsOperator`.

    .. code-block:: python

        SyncExcludedParamsOperator(task_id="tracking_parameters", excluded_params=["gclid", "fbclid"])

    :param excluded_params: names of query parameters, case-sensitive: a list, or text with one per line, ``#`` comments
        and blank lines allowed; a value that ends in ``.txt`` is read as a template file. An empty list needs
        ``allow_empty``. (templated)
    :param websites: None (default) for all, or a list of domains, globs (``*.example.com``) and ids, or filters of the
        list request: ``{"favorite": True}``, ``{"search": "shop"}``. (templated)
    :param except_websites: domains, globs and ids to exclude. (templated)
    :param per_website: domain, glob or id to additional entries for these websites. (templated)
    :param mode: ``"merge"`` (default) adds missing entries; ``"replace"`` makes each list equal to this one;
        ``"managed"`` adds missing entries and removes those that earlier runs of this list added and it no longer
        contains, so that entries added by hand stay. (templated)
    :param ledger_path: for ``"managed"``: a small file (URL or absolute path) that records which entries were added.
        Use one ledger per list, and never two runs at the same time (``max_active_runs=1``). (templated)
    :param list_name: name of the list in the ledger; default ``<dag id>.<task id>``, and ``[<map index>]`` if the task
        is mapped. (templated)
    :param adopt: for ``"managed"``: ``"matching"`` lets the list own the entries that it has in common with the
        websites, whoever added them: after a lost ledger, and for the move from ``"merge"``. (templated)
    :param allow_empty: allow an empty ``excluded_params``. (templated)
    :param allow_no_match: allow selectors that match no website. (templated)
    :param max_removal_fraction: largest fraction of the entries on the selected websites that may be removed; default
        0.3; checked from 10 entries up. (templated)
    :param force: apply the plan even if this guard trips. (templated)
    :param dry_run: send and write nothing. (templated, as ``is_dry_run``)
    :param max_workers: maximum number of concurrent requests; default 8. (templated)
    :param audit_path: folder (URL or absolute path) for a JSON line per changed field and failed website. (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with the same keys as that of :class:`SyncExcludedIpsOperator`.
    :raises AirflowFailException: without a retry and before anything is sent, if an argument is not allowed, the guard
        trips, records do not show the list in mode ``"merge"`` or ``"managed"``, or the connection cannot be used.
    :raises BulkError: at the end, if websites failed.
    """

    field = "exclude_params"
    argument = "excluded_params"
    template_fields: Sequence[str] = ("excluded_params", *_SyncExclusionsOperator.template_fields)

    def __init__(
        self,
        *,
        excluded_params: Iterable[str] | str,
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None = None,
        except_websites: Iterable[str | int] | str | int = (),
        per_website: Mapping[str, Iterable[str] | str] | None = None,
        mode: str = "merge",
        ledger_path: str | None = None,
        list_name: str | None = None,
        adopt: str | None = None,
        allow_empty: bool = False,
        allow_no_match: bool = False,
        max_removal_fraction: float = MAX_LOSS_FRACTION,
        force: bool = False,
        dry_run: bool = False,
        max_workers: int = 8,
        audit_path: str | None = None,
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
            allow_empty=allow_empty,
            allow_no_match=allow_no_match,
            max_removal_fraction=max_removal_fraction,
            force=force,
            dry_run=dry_run,
            max_workers=max_workers,
            audit_path=audit_path,
            analytics_conn_id=analytics_conn_id,
            **kwargs,
        )
        self.excluded_params = excluded_params
