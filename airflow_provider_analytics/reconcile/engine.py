# SPDX-License-Identifier: Apache-2.0
"""The engine: read, plan, check the guards and the approval, apply, verify.

The operators and the command line provide the desired state (a list or a file) and format the result. For example, a
list takes this way from the arguments of its operator to its plan::

    ExclusionList                     the list, its mode, and the selectors of its websites
    websites = source.read(client)    Websites: the records that the service returns
    source.resolve(websites.records)  DesiredState: website id to DesiredWebsite, with the entries that it gets
    plan_changes(desired, records)    Plan: a Change for each website that differs, with its lines before and after
    check_guards(plan, given)         the same Plan, with the findings of the guards
    run.check_approval(digest, find)  PlanRun: only if the plan can be applied
    run.apply(record)                 Outcome: the state of each website
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import BulkError, GuardError
from airflow_provider_analytics.guards import website_keys
from airflow_provider_analytics.reconcile.apply.application import Application
from airflow_provider_analytics.reconcile.apply.results import Outcome
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.tables import ListTables
from airflow_provider_analytics.reconcile.desired.websites_config import WebsitesAsCode
from airflow_provider_analytics.reconcile.plan.approval import only_approved, raise_unless_remainder
from airflow_provider_analytics.reconcile.plan.changes import ChangeOf, change_of, plan_changes
from airflow_provider_analytics.reconcile.plan.list_warnings import internal_warnings, list_warnings
from airflow_provider_analytics.reconcile.plan.plan import Change, Plan
from airflow_provider_analytics.reconcile.plan.plan_guards import GuardInput, check_guards
from airflow_provider_analytics.reconcile.records import SETTABLE_FIELDS, website_name, website_of
from airflow_provider_analytics.reconcile.service_websites import Websites, complete_records


def plan(
    client: AnalyticsClient,
    source: ExclusionList | WebsitesAsCode,
    *,
    scope: Mapping[str, Any],
    max_loss_fraction: float,
    override_guards: Collection[str] = (),
    lists: ListTables | None = None,
    last: Collection[tuple[str, str]] | None = None,
) -> PlanRun:
    """Read the websites, and plan the changes that bring them to the desired state.

    :param source: the desired state before the websites are known.
    :param scope: settings for which alone the plan is valid, see :class:`Plan`.
    :param max_loss_fraction: largest fraction that can be lost, see :mod:`plan_guards`.
    :param override_guards: names of the guards to override.
    :param lists: the tables, if the source has managed lists.
    :param last: the websites of the last successful run, see :class:`GuardInput`.
    :raises ValueError: if the source cannot be resolved.
    """
    websites = source.read(client)
    desired = replace(source.resolve(websites.records), tables=lists)
    compared, unread = _compared_records(client, desired, websites.records)
    changes = plan_changes(desired, compared, scope)
    given = GuardInput(
        max_loss_fraction,
        override_guards,
        source.managed,
        lists,
        compared=compared,
        listed=website_keys(websites.records),
        last=last if websites.complete else None,
    )
    checked = check_guards(changes, given)
    warnings = internal_warnings(source)
    if lists is not None:
        warnings += list_warnings(lists, desired, compared)
    checked = replace(checked, warnings=(*checked.warnings, *warnings))
    return PlanRun(checked, websites, compared, source, desired, unread)


def _compared_records(
    client: AnalyticsClient, desired: DesiredState, records: Sequence[Record]
) -> tuple[list[Record], dict[str, str]]:
    """Return the records of the websites to compare, with all fields, and why other websites could not be read."""

    def is_incomplete(record: Record) -> bool:
        # All fields that any website compares, because guards count the entries of all of them. The tables of lists
        # have entries for single domains.
        fields = desired.compared_fields | {"domain"}
        if str(record["id"]) in desired.deleted_ids:
            fields = frozenset({*SETTABLE_FIELDS, "domain"})  # the plan contains all fields of deleted websites
        if not record.keys() >= fields:
            return True
        return desired.tables is not None and desired.tables.doubts(record)

    complete, unread = complete_records(client, list(filter(desired.is_compared, records)), is_incomplete)
    compared = []
    for record in complete:
        why = desired.unreadable(record)
        if why:
            unread[website_name(*website_of(record))] = why
        else:
            compared.append(record)
    return compared, unread


@dataclass(frozen=True)
class PlanRun:
    """A plan, and the data that is needed to apply it.

    :param plan: the plan.
    :param websites: the websites as they were listed.
    :param compared: current records of the websites that the plan compares.
    :param source: the source of the desired state.
    :param desired: the desired state of each website.
    :param unread: website to why it could not be read.
    :param approved: the approved plan, if there is one.
    """

    plan: Plan
    websites: Websites
    compared: Sequence[Record]
    source: ExclusionList | WebsitesAsCode
    desired: DesiredState
    unread: Mapping[str, str] = field(default_factory=dict)
    approved: Plan | None = None

    def sources_of(self, change: Change) -> dict[str, dict[str, str]]:
        """Return the sources of the entries that a change adds or removes: list field to entry to text.

        For example, ``{"exclude_ips": {"192.0.2.1": "until 2027-01-31, owner it@example.com"}}``.
        """
        found: dict[str, dict[str, str]] = {}
        lists = self.desired.tables
        if lists is None:
            return found
        record = {"id": change.website_id, "domain": change.domain}
        for field_change in change.fields:
            name = field_change.field
            rows = lists.table.entries_of(name, record)
            texts = {}
            for line in (*field_change.added, *field_change.removed):
                source = rows.get(LINE_FIELDS[name].key(line))
                if source is not None and source.text:
                    texts[line] = source.text
            if texts:
                found[name] = texts
        return found

    def raise_unread(self) -> None:
        """Raise :class:`BulkError` if websites could not be read: a plan without them is incomplete."""
        if self.unread:
            raise BulkError(self.unread)

    def check_approval(self, digest: str | None, find_plan: Callable[[str], Plan | None]) -> PlanRun:
        """Return this plan if it can be applied: it is the approved plan, or its remainder, or no guard blocks it.

        :param digest: digest of the approved plan; None if no approval is needed.
        :param find_plan: returns the plan with a digest; None if there is none.
        :raises GuardError: if it cannot be applied.
        """
        if digest is None:
            self.plan.raise_if_blocked()
            return self
        self.raise_unread()
        if digest == self.plan.digest:
            self.plan.raise_if_blocked()
            return replace(self, approved=self.plan)
        approved = find_plan(digest)
        if approved is None:
            settings = ", ".join(f"{name} {value!r}" for name, value in self.plan.scope.items())
            raise GuardError(
                f"The plan is not the approved one: its digest is {self.plan.digest}, approved is {digest}. The file "
                "or a website changed, the two tasks have different arguments, or the plan was applied before. To "
                "apply the rest of a plan, both tasks need the same state_path.",
                f"No changes were sent. Plan again, with the arguments of this task: {settings}.",
            )
        not_compared = itertools.filterfalse(self.desired.is_compared, self.websites.records)
        raise_unless_remainder(self.plan, approved, [*self.compared, *not_compared])
        return replace(self, approved=approved)

    def apply(
        self,
        record: Callable[[Change], None],
        *,
        passwords: Mapping[str, str] | None = None,
        ignore_gone: bool = False,
        read_tables: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Apply the plan; the table of the list must have been written before.

        If the task is stopped during the run, the outcome has the changes that were sent, and the changes that may have
        been sent.

        :param record: records each change.
        :param passwords: ``password_from`` reference to password.
        :param ignore_gone: do not count a website that no longer exists as a failure.
        :param read_tables: reads the tables of the other lists again.
        :return: the outcome; its failures include the websites that could not be read.
        """
        change_now: ChangeOf = functools.partial(change_of, self.desired)
        if self.approved is not None:
            change_now = only_approved(change_now, self.approved)
        sender = Sender(
            self.websites,
            change_now,
            record,
            self.desired.shared,
            self.desired.kept,
            read_tables,
            passwords or {},
            ignore_gone=ignore_gone,
        )
        outcome = Application(self.plan, self.compared, sender).run()
        return replace(outcome, unread=self.unread)
