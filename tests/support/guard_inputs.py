# SPDX-License-Identifier: Apache-2.0
"""The values that guards check, without a service: a job and its plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

from airflow_provider_analytics.reconcile.desired.tables import ListTables
from airflow_provider_analytics.reconcile.job import Job, Planned
from airflow_provider_analytics.reconcile.plan.changes import Plan
from airflow_provider_analytics.reconcile.service_websites import Websites

_NOTHING = cast("Any", None)


def guarded_job(limit: float, override_guards: Collection[str] = (), lists: ListTables | None = None) -> Job:
    """Return a job with this limit; with tables, ``exclude_ips`` is managed."""
    source = SimpleNamespace(managed=[] if lists is None else ["exclude_ips"])
    list_file = None if lists is None else SimpleNamespace(lists=lists)
    return Job(_NOTHING, cast("Any", source), {}, limit, override_guards, list_file=cast("Any", list_file))


def planned_for(plan: Plan, records: Sequence[dict[str, Any]], last: Collection[tuple[str, str]] | None) -> Planned:
    """Return a plan for these records, which are all websites of the service."""
    return Planned(plan, _NOTHING, Websites(_NOTHING, records, complete=True), records, _NOTHING, last=last)
