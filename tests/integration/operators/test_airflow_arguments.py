# SPDX-License-Identifier: Apache-2.0
"""Arguments as Airflow users give them: path objects, outputs of tasks, delimiters, and defaults."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, ObjectStoragePath
from dag_runs import RunDag

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)
from airflow_provider_analytics.operators.websites import GetWebsiteOperator, ListWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

START = datetime(2026, 1, 1, tzinfo=UTC)
#: Kind of path to its constructor.
PATHS: dict[str, Callable[[Path], Any]] = {
    "pathlib": Path,
    "object storage": lambda path: ObjectStoragePath(f"file://{path}"),
    "text": str,
}


@pytest.mark.parametrize("kind", PATHS)
def test_every_path_argument_takes_a_path_object(
    kind: str, sandbox: SandboxServer, run_dag: RunDag, tmp_path: Path
) -> None:
    sandbox.add_website("a.example")
    (tmp_path / "ips.txt").write_text("192.0.2.1")
    (tmp_path / "params.txt").write_text("gclid")
    (tmp_path / "websites.yaml").write_text("websites: {a.example: {privacy: private}}")
    path = PATHS[kind]
    with DAG("paths", schedule=None, start_date=START) as dag:
        tasks = [
            SyncExcludedIpsOperator(
                task_id="ips", exclude_ips_path=path(tmp_path / "ips.txt"), state_path=path(tmp_path / "state")
            ),
            SyncExcludedParamsOperator(task_id="params", exclude_params_path=path(tmp_path / "params.txt")),
            PlanWebsitesOperator(task_id="plan", config_path=path(tmp_path / "websites.yaml")),
            SnapshotWebsitesOperator(task_id="snapshot", base_path=path(tmp_path / "base")),
            CompareSnapshotsOperator(task_id="compare", base_path=path(tmp_path / "base")),
            PruneSnapshotsOperator(task_id="prune", base_path=path(tmp_path / "base"), keep_days=1),
            ExportWebsitesOperator(task_id="export", output_path=path(tmp_path / "exported.yaml")),
        ]
        for before, after in itertools.pairwise(tasks):
            before >> after
    run = run_dag(dag)
    assert {task.state for task in run.tasks.values()} == {"success"}
    assert run.tasks["plan"].returned["updates"] == 1
    assert (tmp_path / "exported.yaml").exists()


def test_relative_path_object_is_rejected_when_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"config_path='websites.yaml' is not allowed\. Allowed: a URL such as"):
        PlanWebsitesOperator(task_id="plan", config_path=Path("websites.yaml"))  # type: ignore[arg-type]


def test_object_storage_path_keeps_its_connection() -> None:
    path = ObjectStoragePath("file:///data/websites.yaml", conn_id="my_disk")
    task = PlanWebsitesOperator(task_id="plan", config_path=path)  # type: ignore[arg-type]
    assert task.config_path == "file://my_disk@/data/websites.yaml"


def test_template_with_the_delimiters_of_the_dag_is_rendered_first(
    sandbox: SandboxServer, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_IPS", "192.0.2.1")
    monkeypatch.setenv("AIRFLOW_VAR_BASE", str(tmp_path))
    sandbox.add_website("a.example")
    delimiters = {"variable_start_string": "[[", "variable_end_string": "]]"}
    with DAG("delimiters", schedule=None, start_date=START, jinja_environment_kwargs=delimiters) as dag:
        SyncExcludedIpsOperator(task_id="sync", exclude_ips="[[ var.value.ips ]]", state_path="[[ var.value.base ]]")
    assert run_dag(dag).tasks["sync"].returned["verified"] is True
    assert sandbox.websites()[0]["exclude_ips"] == "192.0.2.1"


def test_template_with_the_delimiters_of_the_dag_needs_an_asset() -> None:
    delimiters = {"variable_start_string": "[[", "variable_end_string": "]]"}
    with (
        DAG("delimiters", schedule=None, start_date=START, jinja_environment_kwargs=delimiters),
        pytest.raises(ValueError, match="asset is required, because base_path"),
    ):
        SnapshotWebsitesOperator(task_id="snapshot", base_path="[[ var.value.base ]]")


def test_records_of_another_task_select_their_websites(sandbox: SandboxServer, run_dag: RunDag, tmp_path: Path) -> None:
    for domain in ("a.example", "b.example", "shop.example"):
        sandbox.add_website(domain)
    with DAG("records", schedule=None, start_date=START) as dag:
        found = ListWebsitesOperator(task_id="list", search="shop")
        one = GetWebsiteOperator(task_id="get", domain="a.example")
        websites: Any = found.output
        website: Any = one.output
        SyncExcludedIpsOperator(task_id="sync", exclude_ips=["192.0.2.1"], websites=websites)
        SyncExcludedParamsOperator(task_id="params", exclude_params=["gclid"], websites=website)
        file: Any = tmp_path / "exported.yaml"
        ExportWebsitesOperator(task_id="export", output_path=file, websites=websites)
    run = run_dag(dag)
    assert {task.state for task in run.tasks.values()} == {"success"}
    lists = {website["domain"]: (website["exclude_ips"], website["exclude_params"]) for website in sandbox.websites()}
    assert lists["shop.example"][0] == "192.0.2.1"
    assert lists["a.example"][1] == "gclid"
    assert run.tasks["sync"].returned["updates"] == run.tasks["params"].returned["updates"] == 1
    assert run.tasks["export"].returned["websites_exported"] == 1


def test_error_names_default_args_that_mean_something_else_in_a_sensor() -> None:
    with (
        DAG("defaults", schedule=None, start_date=START, default_args={"mode": "reschedule"}),
        pytest.raises(ValueError, match=r"mode='reschedule' is not allowed.*The value comes from default_args"),
    ):
        SyncExcludedIpsOperator(task_id="sync", exclude_ips=["192.0.2.1"])
    with (
        DAG("defaults", schedule=None, start_date=START, default_args={"retries": 2}),
        pytest.raises(ValueError, match="mode='reschedule' is not allowed") as caught,
    ):
        SyncExcludedIpsOperator(task_id="sync", exclude_ips=["192.0.2.1"], mode="reschedule")
    assert "default_args" not in str(caught.value)
