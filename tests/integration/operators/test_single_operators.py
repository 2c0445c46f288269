# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md: each operator alone, as ``execute({})``, and in a run, as ``dag.test()``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, BaseOperator
from airflow_versions import asset_events, register_assets
from dag_runs import RunDag
from field_values import VALUES
from sync_operators import SYNC_OPERATORS

from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
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
from airflow_provider_analytics.sandbox.server import SandboxServer

TEXT = (Path(__file__).parents[3] / "docs" / "operators.md").read_text(encoding="utf-8")
SITE = "shop.example.com"
WANTED = [{"domain": "blog.example.com", "privacy": "private"}]


def alone(folder: Path) -> list[BaseOperator]:
    """Return a task of each operator that needs no run, in an order in which all succeed."""
    snapshots = f"{folder}/snapshots"
    return [
        GetAccountOperator(task_id="account"),
        ListWebsitesOperator(task_id="list", sort_by="domain", sort="asc"),
        CreateWebsiteOperator(task_id="create", domain=SITE, privacy="private"),
        GetWebsiteOperator(task_id="read", domain=SITE),
        UpdateWebsiteOperator(task_id="update", domain=SITE, favorite=True),
        DeleteWebsiteOperator(task_id="delete", domain=SITE),
        SnapshotWebsitesOperator(task_id="snapshot", base_path=snapshots),
        CompareSnapshotsOperator(task_id="compare", base_path=snapshots),
        PruneSnapshotsOperator(task_id="prune", base_path=snapshots, keep_days=30),
        PlanWebsitesOperator(task_id="plan", config=WANTED),
        ApplyWebsitesOperator(task_id="apply", config=WANTED),
        CheckDriftOperator(task_id="drift", config=WANTED),
        ExportWebsitesOperator(task_id="export", output_path=f"{folder}/websites.yaml"),
    ]


def in_a_run(folder: Path) -> list[BaseOperator]:
    """Return tasks that need a run, because they have a state folder."""
    state = f"{folder}/state"
    public = [{"domain": "blog.example.com", "privacy": "public"}]
    lists = [
        operator(task_id=name, state_path=state, **{name: VALUES[name].given})
        for name, operator in SYNC_OPERATORS.items()
    ]
    return [*lists, ApplyWebsitesOperator(task_id="applied", config=public, state_path=state)]


@pytest.fixture(autouse=True)
def websites(analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.seed(12)


def test_table_of_operators_is_complete(tmp_path: Path) -> None:
    in_use = {type(task) for task in [*alone(tmp_path), *in_a_run(tmp_path)]}
    listed = set(re.findall(r"`(\w+Operator)`", TEXT.partition("\n## Run one")[0]))
    assert {operator.__name__ for operator in in_use} == listed


def test_operator_runs_outside_of_a_dag(tmp_path: Path, analytics_sandbox: SandboxServer) -> None:
    found = {task.task_id: task.execute({}) for task in alone(tmp_path)}
    assert found["read"]["domain"] == "shop.example.com"
    assert found["snapshot"]["count"] == 12
    assert found["apply"]["applied"] == 1
    assert (tmp_path / "websites.yaml").exists()
    assert {website["domain"] for website in analytics_sandbox.websites()} >= {"blog.example.com"}


@pytest.mark.slow  # as many tasks as there are operators
@pytest.mark.chosen
def test_all_operators_run_in_the_same_dag(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    with DAG("each_operator", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        before = None
        for task in [*alone(tmp_path), *in_a_run(tmp_path)]:
            if before is not None:
                before >> task
            before = task
    register_assets(dag)
    outcome = run_dag(dag)
    assert {name: task.state for name, task in outcome.tasks.items() if task.state != "success"} == {}
    assert len(list((tmp_path / "state").rglob("lists/*.json"))) == len(SYNC_OPERATORS)
    assert len(list((tmp_path / "state").rglob("audit/**/*.jsonl"))) == len(SYNC_OPERATORS) + 1
    assert asset_events("analytics://analytics_default/websites")[-1]["count"] == 12


def test_operator_that_needs_a_run_fails_before_any_change(tmp_path: Path, analytics_sandbox: SandboxServer) -> None:
    for task in in_a_run(tmp_path):
        with pytest.raises(
            AirflowFailException,
            match=r"state_path works only in a DAG run\. .*Use dag\.test\(\) instead of execute\(\)\. See https:",
        ):
            task.execute({})
    assert analytics_sandbox.requests == []
    assert list(tmp_path.iterdir()) == []


def test_plan_of_a_managed_list_with_a_name_works_without_a_run(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"exclude_ips": ["192.0.2.8"], "state_path": str(tmp_path), "dry_run": True}
    assert SyncExcludedIpsOperator(task_id="sync", list_name="a_list", **arguments).execute({})["updates"] == 12


@pytest.mark.parametrize("missing", ["dag", "dag_run", "outlet_events", "ti"])
def test_snapshot_rejects_an_incomplete_context(tmp_path: Path, analytics_sandbox: SandboxServer, missing: str) -> None:
    context: Any = {name: SimpleNamespace() for name in ("dag", "dag_run", "outlet_events", "ti") if name != missing}
    with pytest.raises(
        AirflowFailException, match=rf"A snapshot works only in a DAG run\. Missing in the context: {missing}\."
    ):
        SnapshotWebsitesOperator(task_id="snapshot", base_path=str(tmp_path)).execute(context)
    assert analytics_sandbox.requests == []


def test_snapshot_without_a_run_is_filed_under_today(tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    alone = SnapshotWebsitesOperator(task_id="snapshot", base_path=str(tmp_path)).execute({})
    # Midnight might have passed during the test.
    assert alone["snapshot_date"] in {today.isoformat(), datetime.now(UTC).date().isoformat()}
