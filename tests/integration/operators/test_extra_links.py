# SPDX-License-Identifier: Apache-2.0
"""Extra links of tasks in Airflow's web interface (``operators/links.py``)."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_versions import extra_links_of
from dag_runs import RunDag

from airflow_provider_analytics.get_provider_info import get_provider_info
from airflow_provider_analytics.operators import links
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


def test_tasks_link_to_their_results(analytics_sandbox: SandboxServer, run_dag: RunDag, tmp_path: Path) -> None:
    with DAG("links", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        create = CreateWebsiteOperator(task_id="create", domain="a.example", privacy="private")
        update = UpdateWebsiteOperator(task_id="update", domain="a.example", favorite=True)
        get = GetWebsiteOperator(task_id="get", domain="a.example")
        snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path=f"{tmp_path}/a b", html_report=True)
        plain = SnapshotWebsitesOperator(task_id="plain", base_path=str(tmp_path), snapshot_name="plain")
        compare = CompareSnapshotsOperator(task_id="compare", base_path=str(tmp_path), snapshot_name="plain")
        create >> update >> get >> snapshot >> plain >> compare
        failed = GetWebsiteOperator(task_id="failed", domain="missing.example", trigger_rule="all_done")
        compare >> failed
        sync = SyncExcludedIpsOperator(task_id="sync", exclude_ips=["192.0.2.1"], dry_run=True, trigger_rule="all_done")
        failed >> sync
    outcome = run_dag(dag)
    assert {task.task_id: extra_links_of(task, outcome) for task in dag.tasks} == {
        "create": {"Website": "https://a.example"},
        "update": {"Website": "https://a.example"},
        "get": {"Website": "https://a.example"},
        # Browsers do not open local files from a web page.
        "snapshot": {"Snapshot folder": "", "Report": ""},
        "plain": {"Snapshot folder": "", "Report": ""},
        "compare": {"Snapshot folder": ""},
        "failed": {"Website": ""},
        "sync": {"Plan": outcome.tasks["sync"].returned["plan_url"] or ""},
    }


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("s3://data/analytics/websites/dt=2026-01-02", "https://console.aws.amazon.com/s3/buckets/data?prefix="),
        ("gs://data/websites", "https://console.cloud.google.com/storage/browser/data/websites/"),
        ("s3://data/a b/dt=2026-01-02", "https://console.aws.amazon.com/s3/buckets/data?prefix=a%20b/dt=2026-01-02/"),
        ("abfss://data@account.dfs.core.windows.net/x", ""),
        ("/data/websites", ""),
        ("file:///data/websites", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_folder_links_to_its_web_page_if_the_storage_has_one(
    place: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.operators.links.XCom.get_value", lambda **_: {"path": place})
    shown = links.SnapshotFolderLink().get_link(None, ti_key=None)  # type: ignore[arg-type]
    assert shown.startswith(url)
    assert bool(shown) is bool(url)


@pytest.mark.parametrize("domain", ["javascript:alert(1)", "a.example/x", 'a"b', None, 7, "“a”.example"])
def test_website_with_an_odd_domain_has_no_link(domain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_analytics.operators.links.XCom.get_value", lambda **_: {"domain": domain})
    assert links.WebsiteLink().get_link(None, ti_key=None) == ""  # type: ignore[arg-type]


def test_links_are_registered_for_airflow_2() -> None:
    used = {
        type(link)
        for operator in (
            SnapshotWebsitesOperator,
            CompareSnapshotsOperator,
            CreateWebsiteOperator,
            PlanWebsitesOperator,
        )
        for link in operator.operator_extra_links
    }
    registered = set()
    for path in get_provider_info()["extra-links"]:
        module, _, name = path.rpartition(".")
        registered.add(getattr(import_module(module), name))
    assert used == registered
    assert not DeleteWebsiteOperator.operator_extra_links
