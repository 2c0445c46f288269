"""Misspelt arguments of operators, each of which mypy has to refuse.

Nothing here is ever called, and pytest does not collect it. mypy reports a ``type: ignore`` that is not needed
(``warn_unused_ignores``, a part of ``strict``): ``make lint`` fails as soon as one of these calls is taken for right,
as all of them would be if operators took ``**kwargs: Any``.
"""

from __future__ import annotations

from datetime import timedelta

from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)


def arguments_of_the_operator() -> None:
    CreateWebsiteOperator(task_id="x", domain="a.example", privac="private")  # type: ignore[call-arg]
    UpdateWebsiteOperator(task_id="x", website_id=1, favourite=True)  # type: ignore[call-arg]
    GetWebsiteOperator(task_id="x", id=1)  # type: ignore[call-arg]
    DeleteWebsiteOperator(task_id="x", website_id=1, ignore_mising=True)  # type: ignore[call-arg]
    ListWebsitesOperator(task_id="x", per_pages=10)  # type: ignore[call-arg]
    GetAccountOperator(task_id="x", analytics_con_id="stats")  # type: ignore[call-arg]
    SnapshotWebsitesOperator(task_id="x", base_path="/data", base_pth="/data")  # type: ignore[call-arg]
    CompareSnapshotsOperator(task_id="x", base_path="/data", on_changes="fail")  # type: ignore[call-arg]
    PruneSnapshotsOperator(task_id="x", base_path="/data", keep_day=3)  # type: ignore[call-arg]
    SyncExcludedIpsOperator(task_id="x", exclude_ips=[], ledger="/data/ledger.json")  # type: ignore[call-arg]
    SyncExcludedParamsOperator(task_id="x", exclude_params=[], excluded_params=["gclid"])  # type: ignore[call-arg]
    PlanWebsitesOperator(task_id="x", config_path="/data/websites.yaml", plan_pth="/p")  # type: ignore[call-arg]
    ApplyWebsitesOperator(task_id="x", config_path="/data/websites.yaml", digest="d1")  # type: ignore[call-arg]
    CheckDriftOperator(task_id="x", config_path="/data/websites.yaml", on_change="fail")  # type: ignore[call-arg]
    ExportWebsitesOperator(task_id="x", config_path="/data/websites.yaml", path="/data")  # type: ignore[call-arg]


def arguments_that_are_missing() -> None:
    CreateWebsiteOperator(task_id="x")  # type: ignore[call-arg]
    SnapshotWebsitesOperator(task_id="x")  # type: ignore[call-arg]
    GetAccountOperator(analytics_conn_id="stats")  # type: ignore[call-arg]


def arguments_of_every_task() -> None:
    GetAccountOperator(task_id="x", retires=2)  # type: ignore[call-arg]
    SnapshotWebsitesOperator(task_id="x", base_path="/data", retry_dely=timedelta(0))  # type: ignore[call-arg]
    # Airflow's alert address; the setting of a website is email_reports.
    CreateWebsiteOperator(task_id="x", domain="a.example", email=True)  # type: ignore[arg-type]
    UpdateWebsiteOperator(task_id="x", website_id=1, email=True)  # type: ignore[arg-type]
    ListWebsitesOperator(task_id="x", retries="2")  # type: ignore[arg-type]


def arguments_of_the_hook(hook: AnalyticsHook) -> None:
    hook.create_website("a.example", privac="private")  # type: ignore[call-arg]
    hook.update_website(1, domain="b.example")  # type: ignore[call-arg]
    hook.list_websites(per_pages=10)  # type: ignore[call-arg]
