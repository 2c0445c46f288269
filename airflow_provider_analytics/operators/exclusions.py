# SPDX-License-Identifier: Apache-2.0
"""Operators that sync the exclusion lists of many websites."""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_analytics.api.checks import (
    flag,
    fraction,
    id_of,
    invalid,
    invalid_together,
    is_missing_text,
    one_of,
    whole_number,
)
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.guards import MAX_LOSS_FRACTION, parse_guards
from airflow_provider_analytics.operators.base import arguments_of, is_literal
from airflow_provider_analytics.operators.reconciling import ReconcilingOperator, account_of, result_of
from airflow_provider_analytics.readable import counted

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.reconcile.apply.outcome import Outcome
    from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
    from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, Resolution
    from airflow_provider_analytics.reconcile.job import Job

#: Name of a Variable in a template.
_VARIABLE = re.compile(r"\bvar\.(?:value|json)\.(?:get\(\s*['\"])?([\w-]+)")
_FILTERS = ("search", "search_by", "favorite")

log = logging.getLogger(__name__)


def chunk_websites(websites: Iterable[Mapping[str, Any] | str | int], chunks: int) -> list[list[str]]:
    """Divide websites into chunks by their ids, for ``.expand(websites=...)``.

    Guide: https://airflow-provider-analytics.github.io/airflow-provider-analytics/exclusions/#chunks

    A website is in the same chunk in every run, unless the number of chunks changes. A chunk can be empty.

    :param websites: ids, or records with ``id``, for example from ``hook.iter_websites()``.
    :param chunks: number of chunks, 1 or more.
    :return: one list of ids per chunk, each in the order of ``websites``.
    :raises ValueError: if ``chunks`` is less than 1.
    """
    divided: list[list[str]] = [[] for _ in range(whole_number("chunks", chunks, at_least=1))]
    for website in websites:
        text = str(id_of(website))
        if text.isdecimal():
            number = int(text)
        else:
            number = zlib.crc32(text.encode())  # hash() differs between processes
        divided[number % len(divided)].append(text)
    return divided


class _SyncExclusionsOperator(ReconcilingOperator):
    """Base class of the operators for both lists, which differ in the type of the entries."""

    #: The list before its template was rendered.
    list_as_given: Any = None
    #: Field of the website that contains the list.
    field: ClassVar[str]
    #: How networks in lists of IP addresses are handled.
    networks: str = "reject"
    #: Only lists of IP addresses can contain host names.
    resolve_names: bool = False

    websites: Iterable[str | int] | Mapping[str, Any] | str | int | None
    except_websites: Iterable[str | int] | str | int
    per_website: Mapping[str, Iterable[str] | str] | str | None
    mode: str | None
    unmanage_websites: Iterable[str | int] | str | int
    is_dry_run: bool
    approved_digest: str | Mapping[str, Any] | None

    def check_arguments(self) -> None:
        """Check the arguments that are used together, too: the selectors, and the lists."""
        super().check_arguments()
        self.list_as_given = getattr(self, self.field)
        has_literal_keys = not isinstance(self.per_website, Mapping) or is_literal(
            list(self.per_website), self.starts_of_templates
        )
        if not has_literal_keys:
            # Airflow renders the values of a dict, but not its keys.
            raise ValueError(
                f"per_website={self.per_website!r} is not allowed: a template cannot be a key. Allowed: a dict without "
                "templates in its keys, or a template of a JSON object"
            )
        if self.are_literal("websites", "except_websites", "unmanage_websites", "mode"):
            self._source(allow_no_match=True)
        is_file = getattr(self, f"{self.field}_path") is not None
        if not is_file and self.are_literal(self.field, "per_website", "networks", "resolve_names", "mode"):
            self._parse_lists(self._mode)

    @property
    def _mode(self) -> str:
        return self.mode or self.default_mode

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan the changes, check the guards, and apply them."""
        with self.connected(context) as hook:
            if flag("dry_run", self.is_dry_run):
                return self._plan_only(hook, context)
            planned, outcome = self.applied(hook, context, self.approved_digest, ignore_gone=True)
            result = result_of(planned, outcome, field=self.field, mode=planned.desired.modes[self.field])
            if self.mode is None and not planned.source.managed:
                self.log.info("state_path is not set, so entries that you remove from the list remain on the websites.")
            self._log_applied(result, outcome)
            outcome.raise_failures()
        return result

    def _log_applied(self, result: Mapping[str, Any], outcome: Outcome) -> None:
        if not outcome.targets and not outcome.failures:
            self.log.info("%s is up to date on %s.", self.field, counted(result["websites_compared"], "website"))
            return
        entries = f": {counted(outcome.entries_added, 'entry')} added, {outcome.entries_removed:,} removed"
        self.log_outcome(f"Updated {self.field} on", outcome, "website", entries)

    def _plan_only(self, hook: AnalyticsHook, context: Context) -> dict[str, Any]:
        if self.approved_digest != "any":
            raise ValueError("dry_run=True with approved_digest is not allowed: one plans, the other applies")
        planned, result = self.planned(hook, context, field=self.field)
        result["mode"] = planned.desired.modes[self.field]
        self.log.info("Planned %s:\n%s", self.field, result["markdown"])
        # At the end, because Airflow displays it first.
        self.log.info(
            "Dry run: would update %s on %s (%s added, %s removed). No changes were sent.",
            self.field,
            counted(result["updates"], "website"),
            counted(result["entries_added"], "entry"),
            f"{result['entries_removed']:,}",
        )
        self.log_guards(planned)
        return result

    def prepare(self, hook: AnalyticsHook, context: Context) -> Job:
        """Read the arguments and the tables."""
        from airflow_provider_analytics.reconcile.job import Job

        override_guards = parse_guards(self.override_guards)
        source = self._source(allow_no_match="no_match" in override_guards)
        everywhere, per_website = self._parse_lists(source.mode)
        only_managed = {
            "unmanage_websites": self.unmanage_websites,
            "resolve_names": flag("resolve_names", self.resolve_names),
        }
        for name, given in only_managed.items():
            if given and not source.managed:
                raise ValueError(
                    f"{name} needs a managed list. Set state_path, and mode='managed' instead of {source.mode!r}"
                )
        scope: dict[str, Any] = {"service": hook.client.base_url, "field": self.field, "mode": source.mode}
        folder = file = None
        ti = context.get("ti")
        if self.state_path or source.managed:
            scope["account"] = account_of(hook)
            folder = self.folder(hook, scope["account"])
        was_empty = False
        names_before: Mapping[str, Resolution] = {}
        if source.managed:
            name = ""
            if ti:
                name = f"{ti.dag_id}.{ti.task_id}"
            file = self.list_file(folder, scope, context, name)
            scope["list"] = file.table.identity.list
            # After a run with an accepted empty list, no entry can be lost.
            was_empty = file.table.run is not None and not file.table.items(self.field)
            names_before = file.table.names
        if not was_empty and "empty_list" not in override_guards:
            self._raise_if_empty(everywhere)
        resolved = _resolved_names([everywhere, *per_website.values()], names_before)
        source = replace(
            source,
            entries=everywhere.with_answers(resolved),
            per_website={selector: found.with_answers(resolved) for selector, found in per_website.items()},
            is_part=getattr(ti, "map_index", -1) >= 0,
        )
        if file:
            file.start_run(source.scopes, resolved, context)
        limit = fraction("max_loss_fraction", self.max_loss_fraction)
        return Job(hook.client, source, scope, limit, override_guards, folder, file, context)

    def _raise_if_empty(self, listed: EntryList) -> None:
        if listed.entries or listed.names:
            return
        problem = f"{self.field} is empty. Check the Variable, file, or task that it comes from."
        variables = _VARIABLE.findall(str(self.list_as_given))
        if variables:
            problem = f"{self.field} is empty: the Variable {' or '.join(variables)} is missing, or has no entries."
        expired = list(listed.expired)[:3]
        if expired:
            problem = f"{self.field} is empty, because all its entries have expired: {', '.join(expired)}."
        raise GuardError(problem, "No changes were sent.", "empty_list")

    def _source(self, *, allow_no_match: bool) -> ExclusionList:
        """Return the websites that get the list, without its entries."""
        from airflow_provider_analytics.reconcile.desired.exclusion_list import (
            ExclusionList,
            is_record,
            parse_selectors,
        )
        from airflow_provider_analytics.reconcile.desired.list_lines import EntryList

        filters: Mapping[str, Any] = {}
        selectors = None
        websites = _object_of(self.websites)
        if isinstance(websites, Mapping) and not is_record(websites):
            filters = self._checked_filters(websites)
        elif websites is not None:
            selectors = parse_selectors("websites", websites)
        return ExclusionList(
            self.field,
            self._mode,
            EntryList(),
            selectors,
            parse_selectors("except_websites", self.except_websites),
            unmanage_websites=parse_selectors("unmanage_websites", self.unmanage_websites),
            filters=filters,
            allow_no_match=allow_no_match,
        )

    def _checked_filters(self, filters: Mapping[str, Any]) -> Mapping[str, Any]:
        if not filters:
            raise invalid("websites", filters, "at least one filter, or None for all websites")
        for name, value in filters.items():
            one_of("websites", name, _FILTERS)
            is_blank = isinstance(value, str) and not value.strip()
            if value is None or is_blank or is_missing_text(value):  # the list of all websites would be read
                raise invalid("websites", filters, "a value for each filter")
        if self.unmanage_websites:
            raise ValueError(
                "unmanage_websites is not allowed with a filter in websites. Allowed: a list of selectors, or None"
            )
        return filters

    def _parse_lists(self, mode: str) -> tuple[EntryList, dict[str, EntryList]]:
        """Return the list for all websites, and the lists per selector; raise all problems at once."""
        from airflow_provider_analytics.api.fields import LINE_FIELDS
        from airflow_provider_analytics.reconcile.desired.list_lines import read_list

        per_website = _mapping("per_website", self.per_website)
        arguments = {self.field: self._list_value()}
        for selector, entries in per_website.items():
            arguments[f"per_website[{selector!r}]"] = entries
        parsed: list[EntryList] = []
        problems = []
        for argument, value in arguments.items():
            try:
                listed = read_list(
                    argument,
                    value,
                    LINE_FIELDS[self.field],
                    networks=self.networks,
                    managed=mode == "managed",
                    host_names=flag("resolve_names", self.resolve_names),
                )
                parsed.append(listed)
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError(". ".join(problems))
        return parsed[0], dict(zip(per_website, parsed[1:], strict=True))

    def _list_value(self) -> Any:
        """Return the given list, or the text of the given file."""
        from airflow_provider_analytics.api.fields import LINE_FIELDS
        from airflow_provider_analytics.hooks.connection import storage_path
        from airflow_provider_analytics.storage import read_text

        value, path = getattr(self, self.field), getattr(self, f"{self.field}_path")
        if (value is None) == (path is None):
            raise invalid_together(**{self.field: value, f"{self.field}_path": path})
        if path is None:
            # A value is never opened. A path here is a mistake, and would be sent as a parameter: it can be any word.
            file_name = LINE_FIELDS[self.field].file_name
            if isinstance(value, str) and file_name and file_name.fullmatch(value.strip()):
                raise invalid(self.field, value, f"entries. To read a file, use {self.field}_path")
            return value
        argument = f"{self.field}_path"
        text = read_text(storage_path(path, argument), argument)
        if text is None:
            raise ValueError(f"{argument}={path!r}: there is no such file")
        return text


def _object_of(value: Any) -> Any:
    """Return the object of a JSON text, because templates render to text; any other value unchanged."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _mapping(argument: str, value: Any) -> Mapping[str, Any]:
    """Return a dict; it can be given as JSON text, because templates render to text."""
    from airflow_provider_analytics.reconcile.desired.exclusion_list import parse_selectors
    from airflow_provider_analytics.reconcile.desired.yaml_values import ProblemsError, Values

    if value is None:
        return {}
    if isinstance(value, str):
        values = Values(argument, Counter())  # JSON is YAML
        found = values.read(value)
        if values.problems:
            raise ProblemsError(values.problems)
        if isinstance(found, dict):
            value = found
    if not isinstance(value, Mapping):
        raise invalid(argument, value, "a dict of domains, patterns, or ids to entries, or a JSON object as text")
    found = {}
    for selector, entries in value.items():
        (text,) = parse_selectors(argument, [selector])
        found[text] = entries
    return found


def _resolved_names(lists: Sequence[EntryList], before: Mapping[str, Resolution]) -> dict[str, Resolution]:
    """Resolve the host names of lists.

    :param before: host name to its last resolution.
    :raises AnalyticsError: if a name does not resolve and its last resolution is missing or too old.
    """
    from airflow_provider_analytics.hooks.host_names import look_up_all
    from airflow_provider_analytics.reconcile.desired.list_lines import now, resolve

    names: dict[str, None] = {}
    for listed in lists:
        names.update(dict.fromkeys(listed.names))
    if not names:
        return {}
    found, warnings = resolve(look_up_all(list(names)), before, now())
    for warning in warnings:
        log.warning("%s", warning)
    for name, resolution in found.items():
        addresses_before = before.get(name, resolution).addresses
        if set(addresses_before) != set(resolution.addresses):
            addresses = ", ".join(resolution.addresses)
            log.info("%s now resolves to %s. Before: %s.", name, addresses, ", ".join(addresses_before))
    return found


class SyncExcludedIpsOperator(_SyncExclusionsOperator):
    """Sync the excluded IP addresses of many websites with one list.

    Existing lines keep their text and position. If a website fails, the others continue, and a retry updates only
    websites that still differ.

    Guide: https://airflow-provider-analytics.github.io/airflow-provider-analytics/exclusions/

    .. code-block:: python

        SyncExcludedIpsOperator(
            task_id="office_addresses",
            exclude_ips="{{ var.value.exclude_ips }}",
            state_path="s3://analytics-state",
        )

    :param exclude_ips: IP addresses as a list, or as text with one entry per line; ``#`` starts a comment. In the mode
        ``"managed"``, it can contain ``owner=`` and ``until=``. An empty list needs ``override_guards=["empty_list"]``.
        (templated)
    :param exclude_ips_path: file with such text (URL or absolute path), instead of ``exclude_ips``. (templated)
    :param networks: networks such as ``203.0.113.0/24``: ``"reject"`` (default), ``"expand"`` (at most 1,024 addresses
        per list), or ``"as_is"``, which also sends ranges and patterns. (templated)
    :param resolve_names: allow host names in a ``"managed"`` list, and look up their addresses in each run. If a name
        does not resolve, its last addresses are kept for 7 days. (templated)
    :param websites: ``None`` (default) for all; a list of domains, patterns (``*.example.com``), and ids; or filters of
        the list request: ``{"favorite": True}``, ``{"search": "shop"}``. (templated)
    :param except_websites: domains, patterns, and ids to exclude. (templated)
    :param per_website: additional entries by domain, pattern, or id, as a dict or JSON text. (templated, except for the
        keys of a dict)
    :param mode: ``"managed"`` (default with ``state_path``) adds missing entries and removes entries that you removed
        from the list; ``"merge"`` (default without) only adds; ``"replace"`` makes each list equal to this one. Only
        ``"replace"`` removes lines with a comment. (templated)
    :param state_path: state folder (URL or absolute path), the same for all lists of a service. (templated)
    :param list_name: name of the list in the state folder; default ``<dag id>.<task id>``. (templated)
    :param unmanage_websites: domains, patterns, and ids of websites from which a ``"managed"`` list removes its
        entries. (templated)
    :param override_guards: guards to override in this run: ``empty_list``, ``no_match``, ``entries_lost``,
        ``fewer_websites``. (templated)
    :param max_loss_fraction: largest fraction of the list that can be removed, or in the mode ``"replace"`` by which
        the lists of all selected websites can get shorter; default 0.3. (templated)
    :param dry_run: only plan: send no changes, and store the plan in ``state_path``. (templated)
    :param approved_digest: ``digest`` of the approved plan; ``"any"`` (default) applies any plan that no guard blocks.
        (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with ``field`` and ``mode`` of the list, and the keys of ``PlanWebsitesOperator``.
    :raises AirflowFailException: without a retry and before any change is sent, if a guard blocks the plan.
    :raises AnalyticsError: before any change is sent, if a host name has not resolved for more than 7 days.
    :raises BulkError: at the end, if websites failed or, in the modes ``merge`` and ``managed``, lack entries of the
        list.
    :raises AirflowSkipException: before any change is sent, if a later run of this task has started with other entries.
    :raises StoppedError: if Airflow stopped the task, or such a later run started during the changes. A retry applies
        the rest.
    """

    field = "exclude_ips"

    def __init__(
        self,
        *,
        exclude_ips: Iterable[str] | str | None = None,
        exclude_ips_path: str | None = None,
        networks: str = "reject",
        resolve_names: bool = False,
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None = None,
        except_websites: Iterable[str | int] | str | int = (),
        per_website: Mapping[str, Iterable[str] | str] | str | None = None,
        mode: str | None = None,
        unmanage_websites: Iterable[str | int] | str | int = (),
        dry_run: bool = False,
        approved_digest: str | Mapping[str, Any] | None = "any",
        state_path: str | None = None,
        list_name: str | None = None,
        override_guards: Iterable[str] | str = (),
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.websites = websites
        self.except_websites = except_websites
        self.per_website = per_website
        self.mode = mode
        self.unmanage_websites = unmanage_websites
        self.is_dry_run = dry_run
        self.approved_digest = approved_digest
        self.state_path = state_path
        self.list_name = list_name
        self.override_guards = override_guards
        self.max_loss_fraction = max_loss_fraction
        self.exclude_ips = exclude_ips
        self.exclude_ips_path = exclude_ips_path
        self.networks = networks
        self.resolve_names = resolve_names
        self.check_arguments()

    template_fields = arguments_of(__init__)


class SyncExcludedParamsOperator(_SyncExclusionsOperator):
    """Sync the excluded URL query parameters of many websites with one list.

    Works like :class:`SyncExcludedIpsOperator`, which describes the result and the errors.

    Guide: https://airflow-provider-analytics.github.io/airflow-provider-analytics/exclusions/

    .. code-block:: python

        SyncExcludedParamsOperator(task_id="tracking_parameters", exclude_params=["gclid", "fbclid"])

    :param exclude_params: case-sensitive query parameters as a list, or as text with one entry per line; ``#`` starts a
        comment. An empty list needs ``override_guards=["empty_list"]``. (templated)
    :param exclude_params_path: file with such text (URL or absolute path), instead of ``exclude_params``. (templated)
    :param websites: ``None`` (default) for all; a list of domains, patterns (``*.example.com``), and ids; or filters of
        the list request: ``{"favorite": True}``, ``{"search": "shop"}``. (templated)
    :param except_websites: domains, patterns, and ids to exclude. (templated)
    :param per_website: additional entries by domain, pattern, or id, as a dict or JSON text. (templated, except for the
        keys of a dict)
    :param mode: ``"managed"`` (default with ``state_path``) adds missing entries and removes entries that you removed
        from the list; ``"merge"`` (default without) only adds; ``"replace"`` makes each list equal to this one. Only
        ``"replace"`` removes lines with a comment. (templated)
    :param state_path: state folder (URL or absolute path), the same for all lists of a service. (templated)
    :param list_name: name of the list in the state folder; default ``<dag id>.<task id>``. (templated)
    :param unmanage_websites: domains, patterns, and ids of websites from which a ``"managed"`` list removes its
        entries. (templated)
    :param override_guards: guards to override in this run: ``empty_list``, ``no_match``, ``entries_lost``,
        ``fewer_websites``. (templated)
    :param max_loss_fraction: largest fraction of the list that can be removed, or in the mode ``"replace"`` by which
        the lists of all selected websites can get shorter; default 0.3. (templated)
    :param dry_run: only plan: send no changes, and store the plan in ``state_path``. (templated)
    :param approved_digest: ``digest`` of the approved plan; ``"any"`` (default) applies any plan that no guard blocks.
        (templated)
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    """

    field = "exclude_params"

    def __init__(
        self,
        *,
        exclude_params: Iterable[str] | str | None = None,
        exclude_params_path: str | None = None,
        websites: Iterable[str | int] | Mapping[str, Any] | str | int | None = None,
        except_websites: Iterable[str | int] | str | int = (),
        per_website: Mapping[str, Iterable[str] | str] | str | None = None,
        mode: str | None = None,
        unmanage_websites: Iterable[str | int] | str | int = (),
        dry_run: bool = False,
        approved_digest: str | Mapping[str, Any] | None = "any",
        state_path: str | None = None,
        list_name: str | None = None,
        override_guards: Iterable[str] | str = (),
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.websites = websites
        self.except_websites = except_websites
        self.per_website = per_website
        self.mode = mode
        self.unmanage_websites = unmanage_websites
        self.is_dry_run = dry_run
        self.approved_digest = approved_digest
        self.state_path = state_path
        self.list_name = list_name
        self.override_guards = override_guards
        self.max_loss_fraction = max_loss_fraction
        self.exclude_params = exclude_params
        self.exclude_params_path = exclude_params_path
        self.check_arguments()

    template_fields = arguments_of(__init__)
