# SPDX-License-Identifier: Apache-2.0
"""The input of a run, and its plan with the data that is needed to apply it."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import BulkError
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, WebsitesAsCode
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.tables import ListTables
from airflow_provider_analytics.reconcile.plan.changes import Change, FieldChange, Plan
from airflow_provider_analytics.reconcile.service_websites import Websites
from airflow_provider_analytics.reconcile.state import ListFile
from airflow_provider_analytics.storage import StoragePath


@dataclass(frozen=True)
class Job:
    """The input of a run.

    :param source: the list, or the file: the desired state before the websites are known.
    :param scope: service, account, and settings for which alone the plan is valid, see :class:`Plan`.
    :param max_loss_fraction: largest fraction that can be lost, see :mod:`plan_guards`.
    :param override_guards: names of the guards to override.
    :param folder: folder of the service and the account in the state folder; None without a state folder.
    :param list_file: the table of the list, with this run (:meth:`ListFile.start_run`); None without a managed list.
    :param context: context of the task; empty for a command.
    """

    client: AnalyticsClient
    source: ExclusionList | WebsitesAsCode
    scope: Mapping[str, Any]
    max_loss_fraction: float
    override_guards: Collection[str] = ()
    folder: StoragePath | None = None
    list_file: ListFile | None = None
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lists(self) -> ListTables | None:
        """The tables of the lists; None without a managed list."""
        if self.list_file is None:
            return None
        return self.list_file.lists


@dataclass(frozen=True)
class Planned:
    """A plan, and the data that is needed to apply it.

    :param plan: the plan.
    :param source: the source of the desired state.
    :param websites: the websites as they were listed.
    :param compared: current records of the websites that the plan compares.
    :param desired: the desired state of each website.
    :param unread: website to why it could not be read.
    :param last: id and domain of each website of the last successful run (:func:`guards.website_keys`); None if they
        are unknown, or the list is not complete.
    :param last_problem: why they are unknown although a file has them; empty otherwise.
    :param approved: the approved plan, if there is one.
    """

    plan: Plan
    source: ExclusionList | WebsitesAsCode
    websites: Websites
    compared: Sequence[Record]
    desired: DesiredState
    unread: Mapping[str, str] = field(default_factory=dict)
    last: Collection[tuple[str, str]] | None = None
    last_problem: str = ""
    approved: Plan | None = None

    @functools.cached_property
    def deleted(self) -> dict[str | None, str]:
        """Websites to delete: id to name."""
        return {change.website_id: change.website for change in self.plan.changes if change.action == "delete"}

    @property
    def remaining(self) -> list[Record]:
        """Records of the websites that are not deleted: the entries of deleted ones would hide losses on the others."""
        return [record for record in self.compared if str(record["id"]) not in self.deleted]

    def changes_of(self, name: str) -> Iterator[tuple[Change, FieldChange]]:
        """Yield the changes of a list field on remaining websites."""
        for change in self.plan.changes:
            if change.action == "delete":
                continue
            for field_change in change.fields:
                if field_change.field == name:
                    yield change, field_change

    def raise_unread(self) -> None:
        """Raise :class:`BulkError` if websites could not be read: a plan without them is incomplete."""
        if self.unread:
            raise BulkError(self.unread)

    def followed_by(self, later: Planned) -> Planned:
        """Return this plan with the changes that a second plan of the same run has on other websites."""
        changes = {**later.plan.by_website, **self.plan.by_website}
        return replace(self, plan=replace(self.plan, changes=tuple(changes.values())))
