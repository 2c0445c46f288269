# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md: each operator alone, as ``execute({})``, and in a run, as ``dag.test()``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, BaseOperator
from airflow_versions import asset_events, register_assets
from dag_runs import RunDag

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

TEXT = (Path(__file__).parents[3] / "docs" / "operators.md").read_text(encoding="utf-8")
_, SECTIONS = TEXT.split("\n## Each operator\n")
ALONE, IN_A_RUN = SECTIONS.split("\n### Exclusion lists\n")


def tasks(text: str, folder: Path) -> Iterator[Any]:
    """Yield the tasks of a part of the document, with its folder in a folder of the test."""
    namespace: dict[str, Any] = {}
    code = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    exec(code.replace("/tmp/analytics/", f"{folder}/"), namespace)
    yield from (value for value in namespace.values() if isinstance(value, BaseOperator))


@pytest.fixture(autouse=True)
def nobody_else_writes(analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.SETTLE_SECONDS", 0)
    analytics_sandbox.seed(12)


def test_example_has_a_task_of_every_operator_with_its_templates(tmp_path: Path) -> None:
    in_use = {type(task) for task in tasks(ALONE + IN_A_RUN, tmp_path)}
    listed = set(re.findall(r"`(\w+Operator)`", TEXT.partition("\n## Run one")[0]))
    assert {operator.__name__ for operator in in_use} == listed
    assert "All arguments except `asset` can be templates." in " ".join(TEXT.split())


def test_operator_runs_outside_of_a_dag(tmp_path: Path, analytics_sandbox: SandboxServer) -> None:
    found = {task.task_id: task.execute({}) for task in tasks(ALONE, tmp_path)}
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
        for task in tasks(ALONE + IN_A_RUN, tmp_path):
            if before is not None:
                before >> task
            before = task
    register_assets(dag)
    outcome = run_dag(dag)
    assert {name: task.state for name, task in outcome.tasks.items() if task.state != "success"} == {}
    assert len(list((tmp_path / "state").rglob("lists/*.json"))) == 2
    assert len(list((tmp_path / "state").rglob("audit/**/*.jsonl"))) == 3
    assert asset_events("analytics://analytics_default/websites")[-1]["count"] == 12


def test_operator_that_needs_a_run_fails_before_any_change(tmp_path: Path, analytics_sandbox: SandboxServer) -> None:
    for task in tasks(IN_A_RUN, tmp_path):
        with pytest.raises(AirflowFailException, match=r"list_name is missing: |missing: ti\. Call dag\.test\(\)"):
            task.execute({})
    assert {request.method for request in analytics_sandbox.requests} == {"GET"}
    assert list(tmp_path.iterdir()) == []


def test_websites_file_with_a_managed_list_needs_a_run(tmp_path: Path, analytics_sandbox: SandboxServer) -> None:
    config = {"modes": {"exclude_ips": "managed"}, "websites": {"a.example": {"exclude_ips": ["192.0.2.1"]}}}
    task = ApplyWebsitesOperator(task_id="apply", config=config, state_path=str(tmp_path), list_name="a_list")
    with pytest.raises(AirflowFailException, match="missing: ti"):
        task.execute({})
    assert {request.method for request in analytics_sandbox.requests} == {"GET"}


def test_plan_of_a_managed_list_with_a_name_works_without_a_run(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"exclude_ips": ["192.0.2.8"], "state_path": str(tmp_path), "dry_run": True}
    assert SyncExcludedIpsOperator(task_id="sync", list_name="a_list", **arguments).execute({})["updates"] == 12


@pytest.mark.parametrize("missing", ["dag", "dag_run", "outlet_events", "ti"])
def test_snapshot_rejects_an_incomplete_context(tmp_path: Path, analytics_sandbox: SandboxServer, missing: str) -> None:
    context: Any = {name: SimpleNamespace() for name in ("dag", "dag_run", "outlet_events", "ti") if name != missing}
    with pytest.raises(AirflowFailException, match=rf"A snapshot needs .* missing: {missing}\."):
        SnapshotWebsitesOperator(task_id="snapshot", base_path=str(tmp_path)).execute(context)
    assert analytics_sandbox.requests == []


def test_snapshot_without_a_run_is_filed_under_today(tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    alone = SnapshotWebsitesOperator(task_id="snapshot", base_path=str(tmp_path)).execute({})
    # Midnight might have passed during the test.
    assert alone["snapshot_date"] in {today.isoformat(), datetime.now(UTC).date().isoformat()}
