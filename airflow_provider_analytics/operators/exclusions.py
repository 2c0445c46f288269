"""Operators that keep the exclusion lists of many websites in step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_analytics.operators.base import AnalyticsOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.reconcile.exclusions import Entries

#: Changes that a return value shows, one line each; the counts tell the rest.
SHOWN_CHANGES = 20

_FILTERS = ("search", "search_by", "favorite")


class _SyncExclusionsOperator(AnalyticsOperator):
    """What the operators of both lists do; they differ in how an entry is read."""

    field: ClassVar[str]
    argument: ClassVar[str]

    template_fields: Sequence[str] = (
        *AnalyticsOperator.template_fields,
        "websites",
        "except_websites",
        "per_website",
        "mode",
        "ledger",
        "list_name",
        "allow_empty",
        "allow_no_match",
        "max_removal_fraction",
        "force",
        "is_dry_run",
        "audit",
    )
    template_ext: Sequence[str] = (".txt",)

    def __init__(
        self,
        *,
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None = None,
        except_websites: Iterable[str | int] | str | int = (),
        per_website: Mapping[str, Iterable[str] | str] | None = None,
        mode: str = "merge",
        ledger: str | None = None,
        list_name: str | None = None,
        allow_empty: bool = False,
        allow_no_match: bool = False,
        max_removal_fraction: float = 0.3,
        force: bool = False,
        dry_run: bool = False,
        max_workers: int = 8,
        audit: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.websites = websites
        self.except_websites = except_websites
        self.per_website = per_website
        self.mode = mode
        self.ledger = ledger
        self.list_name = list_name
        self.allow_empty = allow_empty
        self.allow_no_match = allow_no_match
        self.max_removal_fraction = max_removal_fraction
        self.force = force
        self.is_dry_run = dry_run  # BaseOperator.dry_run is a method
        self.max_workers = max_workers
        self.audit = audit

    def execute(self, context: Context) -> dict[str, Any]:
        """Bring the lists to what is wanted; see the class."""
        with self.connected() as hook:
            return self._sync(hook, context)

    @abstractmethod
    def _parse(self, argument: str, value: Iterable[str] | str) -> Entries:
        """Return the entries that the value of an argument holds."""

    def _sync(self, hook: AnalyticsHook, context: Context) -> dict[str, Any]:
        from airflow_provider_analytics.api.fields import parse_flag
        from airflow_provider_analytics.hooks.object_storage import audit_trail
        from airflow_provider_analytics.reconcile.apply import Outcome, apply_plan, complete_records
        from airflow_provider_analytics.reconcile.exclusions import MODES, check_choice, extra_entries, plan_exclusions
        from airflow_provider_analytics.reconcile.ledger import owned_entries

        check_choice("mode", self.mode, MODES)
        dry_run = parse_flag("dry_run", self.is_dry_run)
        allow_no_match = parse_flag("allow_no_match", self.allow_no_match)
        common, per_website = self._desired(allow_empty=parse_flag("allow_empty", self.allow_empty))
        ledger = self._read_ledger(context) if self.mode == "managed" else {}

        chosen = self._choose(hook, allow_no_match=allow_no_match)
        extra = extra_entries(chosen, per_website, allow_no_match=allow_no_match)
        records, unread = complete_records(hook.client, chosen, [self.field], workers=self.max_workers)
        owned_before = owned_entries(ledger, records)
        plan, owned = plan_exclusions(
            self.field,
            records,
            lambda record: tuple(dict.fromkeys((*common, *extra.get(str(record["id"]), ())))),
            mode=self.mode,
            owned=owned_before,
        )
        if not parse_flag("force", self.force):
            plan.raise_if_unsafe(float(self.max_removal_fraction))
        outcome = Outcome((), {})
        if not dry_run:
            if self.mode == "managed":
                # Before anything is sent: what a task adds and is then killed has to count as added.
                both = {one: (*owned_before.get(one, ()), *entries) for one, entries in owned.items()}
                self._write_ledger(context, ledger, records, both)
            with audit_trail(self.audit, context) as applied:
                outcome = apply_plan(hook.client, plan, workers=self.max_workers, applied=applied)
            if self.mode == "managed":
                undone = {change.website_id for change in set(plan.changes) - set(outcome.done)}
                both |= {one: entries for one, entries in owned.items() if one not in undone}
                self._write_ledger(context, ledger, records, both)
        result = {
            "field": self.field,
            "mode": self.mode,
            "dry_run": dry_run,
            **plan.to_dict(SHOWN_CHANGES),
            "unchanged": len(records) - len(plan.changes),
            "applied": len(outcome.done),
        }
        self.log.info("%s", result)
        Outcome(outcome.done, {**unread, **outcome.failures}).raise_failures()
        return result

    def _desired(self, *, allow_empty: bool) -> tuple[Entries, dict[str, Entries]]:
        """Return the entries for all websites, and those per selector; with every problem at once."""
        arguments = {self.argument: getattr(self, self.argument)}
        arguments |= {f"per_website[{one!r}]": entries for one, entries in (self.per_website or {}).items()}
        parsed: list[Entries] = []
        problems = []
        for argument, value in arguments.items():
            try:
                parsed.append(self._parse(argument, value))
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError(". ".join(problems))
        if not parsed[0] and not allow_empty:
            raise ValueError(f"{self.argument} is empty; allow_empty=True if that is meant")
        return parsed[0], dict(zip(self.per_website or {}, parsed[1:], strict=True))

    def _choose(self, hook: AnalyticsHook, *, allow_no_match: bool) -> list[Mapping[str, Any]]:
        from airflow_provider_analytics.reconcile.exclusions import check_choice, choose, raise_unmatched

        if not isinstance(self.websites, Mapping):
            records = hook.list_websites()
            return choose(records, self.websites, self.except_websites, allow_no_match=allow_no_match)
        for name in self.websites:
            check_choice("websites", name, _FILTERS)
        found = hook.list_websites(**self.websites)
        raise_unmatched([] if found else [f"websites: {self.websites!r}"], allow_no_match=allow_no_match)
        return choose(found, None, self.except_websites, allow_no_match=allow_no_match)

    def _list_name(self, context: Context) -> str:
        return self.list_name or f"{context['ti'].dag_id}.{self.task_id}"

    def _read_ledger(self, context: Context) -> dict[str, dict[str, Any]]:
        from airflow_provider_analytics.hooks.object_storage import read_text
        from airflow_provider_analytics.reconcile.ledger import parse_ledger

        if not self.ledger:
            raise ValueError("mode='managed' needs ledger, a path that remembers what the list has added")
        text = read_text(self.ledger)
        if text is None:
            self.log.info("There is no ledger at %s yet: every entry counts as typed by hand.", self.ledger)
            return {}
        return parse_ledger(text, list_name=self._list_name(context), field=self.field)

    def _write_ledger(
        self,
        context: Context,
        ledger: Mapping[str, Mapping[str, Any]],
        records: Iterable[Mapping[str, Any]],
        owned: Mapping[str, Iterable[str]],
    ) -> None:
        from airflow_provider_analytics.hooks.object_storage import write_text
        from airflow_provider_analytics.reconcile.ledger import render_ledger

        text = render_ledger(ledger, records, owned, list_name=self._list_name(context), field=self.field)
        write_text(str(self.ledger), text)


class SyncExcludedIpsOperator(_SyncExclusionsOperator):
    """Keeps the excluded IP addresses of many websites in step with one list.

    Reads the list of websites, works out what differs, checks its guards, and only then sends an update for
    each website that differs. Lists compare as sets; order and comments of what is already there are kept.
    Running it again repeats only what still differs. A website that fails does not stop the others: at the end
    :class:`BulkError` names each of them, and a retry takes up what is left.

    The return value has the same shape in every mode: ``field``, ``mode``, ``dry_run``, ``digest`` of the plan,
    ``websites`` compared, ``updates``, ``unchanged``, ``applied``, ``entries_added``, ``entries_removed``, the first
    changes as one line each (``changes``), and how many more there are (``changes_left_out``).

    :param excluded_ips: IP addresses: a list, or a text with one per line, ``#`` comments and blank lines
        allowed; a value that ends in ``.txt`` is read as a template file. An empty list is refused unless
        ``allow_empty``. (templated)
    :param websites: None for all of them, or a list of domains, globs (``*.example.com``) and ids, or a
        filter for the service's list: ``{"favorite": True}``, ``{"search": "shop"}``. (templated)
    :param except_websites: domains, globs and ids to leave alone. (templated)
    :param per_website: domain, glob or id to further entries for these websites. (templated)
    :param mode: ``"merge"`` adds what is missing; ``"replace"`` makes each list exactly this one;
        ``"managed"`` adds, and removes what earlier runs of this list added and it no longer holds, so that
        entries typed by hand stay. (templated)
    :param ledger: for ``"managed"``: path of a small file (any ObjectStoragePath) that remembers what was added.
        One list, one ledger; do not let two runs share it at the same time (``max_active_runs=1``). (templated)
    :param list_name: name written in the ledger; default ``<dag id>.<task id>``. (templated)
    :param networks: what becomes of entries such as ``203.0.113.0/24``; the service promises to understand
        addresses only. ``"reject"``, ``"expand"`` (each address, up to 1,024 in all) or ``"send"``. (templated)
    :param allow_empty: accept an empty ``excluded_ips``. (templated)
    :param allow_no_match: accept selectors that match no website. (templated)
    :param max_removal_fraction: most of the entries on the chosen websites that may be removed; counted from
        10 entries up, only strictly more trips. (templated)
    :param force: apply a plan that trips this guard. (templated)
    :param dry_run: send nothing. (templated, as ``is_dry_run``)
    :param max_workers: how many requests at most are under way.
    :param audit: folder (any ObjectStoragePath) for a JSON line per change. (templated)
    :raises UnsafePlanError: before anything is sent, where the guard trips, or where records do not show the
        list that is to be merged into. Fails the task without a retry, as does every :class:`ValueError`.
    """

    field = "exclude_ips"
    argument = "excluded_ips"
    template_fields: Sequence[str] = (*_SyncExclusionsOperator.template_fields, "excluded_ips", "networks")

    def __init__(self, *, excluded_ips: Iterable[str] | str, networks: str = "reject", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.excluded_ips = excluded_ips
        self.networks = networks

    def _parse(self, argument: str, value: Iterable[str] | str) -> Entries:
        from airflow_provider_analytics.reconcile.exclusions import parse_ips

        return parse_ips(argument, value, self.networks)


class SyncExcludedParamsOperator(_SyncExclusionsOperator):
    """Keeps the excluded URL query parameters of many websites in step with one list.

    Arguments, guards and return value are those of :class:`SyncExcludedIpsOperator`, but for ``networks``.

    :param excluded_params: names of query parameters: a list, or a text with one per line, ``#`` comments and
        blank lines allowed; letter case counts. (templated)
    """

    field = "exclude_params"
    argument = "excluded_params"
    template_fields: Sequence[str] = (*_SyncExclusionsOperator.template_fields, "excluded_params")

    def __init__(self, *, excluded_params: Iterable[str] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.excluded_params = excluded_params

    def _parse(self, argument: str, value: Iterable[str] | str) -> Entries:
        from airflow_provider_analytics.reconcile.exclusions import parse_params

        return parse_params(argument, value)
