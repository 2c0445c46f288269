# SPDX-License-Identifier: Apache-2.0
"""The input of a run, and its plan with the data that is needed to apply it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import BulkError
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, WebsitesAsCode
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.tables import ListTables
from airflow_provider_analytics.reconcile.plan.changes import Plan
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
    :param approved: the approved plan, if there is one.
    """

    plan: Plan
    source: ExclusionList | WebsitesAsCode
    websites: Websites
    compared: Sequence[Record]
    desired: DesiredState
    unread: Mapping[str, str] = field(default_factory=dict)
    approved: Plan | None = None

    def raise_unread(self) -> None:
        """Raise :class:`BulkError` if websites could not be read: a plan without them is incomplete."""
        if self.unread:
            raise BulkError(self.unread)

    def followed_by(self, later: Planned) -> Planned:
        """Return this plan with the changes that a second plan of the same run has on other websites."""
        changes = {**later.plan.by_website, **self.plan.by_website}
        return replace(self, plan=replace(self.plan, changes=tuple(changes.values())))
