# SPDX-License-Identifier: Apache-2.0
"""Sample DAGs: descriptions, Params, and events, for users and against attackers (``dags``).

A person who can trigger a DAG or send an asset event cannot choose a folder, a file, an address, or a connection.
"""

from __future__ import annotations

import ast
import inspect
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
import ui
from airflow.models import DagBag
from airflow.providers.common.compat.sdk import AirflowFailException, ParamValidationError
from airflow_versions import awaited_uris
from dag_runs import RunDag
from jinja2 import Environment
from raw_server import RawServer, http
from samples import SAMPLES, sample_dag

from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import DeleteWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Samples whose form does not start a run without a value.
ASKS_FOR_A_VALUE = ("apply_websites", "onboard_website", "try_your_service")


@pytest.fixture(scope="module")
def samples() -> dict[str, Any]:
    bag = DagBag(SAMPLES)
    assert bag.import_errors == {}
    return bag.dags


def test_sample_has_a_description_of_a_single_line(samples: dict[str, Any]) -> None:
    described = {dag_id: dag.description or "" for dag_id, dag in samples.items()}
    assert [dag_id for dag_id, text in described.items() if not 20 < len(text) <= 100 or "\n" in text] == []
    assert len(set(described.values())) == len(samples) >= 10


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_task_functions_of_a_sample_are_short(path: Path) -> None:
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    tasks = [node for node in found if any("task" in ast.unparse(item) for item in node.decorator_list)]
    assert [node.name for node in tasks if (node.end_lineno or 0) - node.lineno > 25] == []


def test_samples_name_each_website_that_they_change_by_its_domain_too(samples: dict[str, Any]) -> None:
    """A website that got the id of a deleted one between two tasks must not be changed."""
    changing = []
    for dag in samples.values():
        changing += [task for task in dag.tasks if isinstance(task, (UpdateWebsiteOperator, DeleteWebsiteOperator))]
    assert len(changing) >= 3
    assert [task.task_id for task in changing if not task.domain] == []


def test_sample_can_be_triggered_with_its_defaults(samples: dict[str, Any]) -> None:
    """The form of Airflow 3 does not submit a required text that is empty."""
    for dag_id, dag in samples.items():
        # Only the log of the plan has the digest, and nobody creates a website by a click.
        if dag_id not in ASKS_FOR_A_VALUE:
            assert not {name for name, value in dag.params.items() if value is None or value == ""}, dag_id
            dag.params.validate()


#: Samples with a schedule that change websites.
WRITES_ON_A_SCHEDULE = ("many_instances", "sync_excluded_ips", "sync_excluded_ips_in_chunks")


@pytest.mark.parametrize("dag_id", WRITES_ON_A_SCHEDULE)
def test_scheduled_run_that_starts_late_only_plans(samples: dict[str, Any], dag_id: str) -> None:
    """When a DAG is unpaused, Airflow starts the run of the day at once."""
    [dry_run] = {
        found
        for task in samples[dag_id].tasks
        for found in (getattr(task, "is_dry_run", None), getattr(task, "partial_kwargs", {}).get("dry_run"))
        if found
    }
    end = datetime(2026, 11, 20, tzinfo=UTC)

    def only_plans(run_type: str, late: timedelta, *, asked: bool = False) -> bool:
        run = SimpleNamespace(run_type=run_type, start_date=end + late)
        template = Environment(autoescape=True).from_string(dry_run)
        text = template.render(dag_run=run, data_interval_end=end, params={"dry_run": asked})
        return {"True": True, "False": False}[text]

    assert only_plans("scheduled", timedelta(hours=2))
    assert not only_plans("scheduled", timedelta(minutes=5))
    assert not only_plans("manual", timedelta(hours=2))
    assert only_plans("manual", timedelta(0), asked=True)


def test_samples_with_a_schedule_that_write_are_known(samples: dict[str, Any]) -> None:
    found = {dag_id for dag_id, dag in samples.items() if "dry_run" in dag.params and dag.timetable.can_be_scheduled}
    assert found == set(WRITES_ON_A_SCHEDULE)
    assert [dag_id for dag_id in found if samples[dag_id].catchup] == []


@pytest.mark.parametrize("dag_id", ["alert_on_changes", "load_snapshot_into_duckdb"])
def test_snapshots_of_the_nightly_sample_start_the_sample(samples: dict[str, Any], dag_id: str) -> None:
    updated = {asset.uri for task in samples["nightly_website_snapshot"].tasks for asset in task.outlets}
    awaited = awaited_uris(samples[dag_id])
    assert awaited
    assert set(awaited) <= updated


@pytest.mark.parametrize("dag_id", ASKS_FOR_A_VALUE)
def test_form_without_its_value_starts_no_run(samples: dict[str, Any], dag_id: str) -> None:
    with pytest.raises(ParamValidationError):
        samples[dag_id].params.validate()


@pytest.mark.parametrize(
    "name",
    [
        "alert_on_changes",
        "load_snapshot_into_duckdb",
        "many_instances",
        "nightly_website_snapshot",
        "notify_on_drift",
        "remind_of_expiring_entries",
        "sync_excluded_ips",
    ],
)
def test_untouched_form_writes_nothing(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, name: str
) -> None:
    """Without the Variables, which are the user's own values, no run changes a website."""
    analytics_sandbox.seed(3)
    dag = sample_dag(name, tmp_path)
    for task in dag.tasks:
        if hasattr(task, "retries"):
            task.retries = 0
    run_dag(dag)
    assert [request.operation for request in analytics_sandbox.requests if request.method != "GET"] == []


def test_mapped_tasks_have_a_label(samples: dict[str, Any]) -> None:
    labels = {
        f"{dag_id}.{task.task_id}": getattr(task, "map_index_template", None)
        for dag_id, dag in samples.items()
        for task in dag.tasks
        if hasattr(task, "expand_input") or any(task.iter_mapped_task_groups())
    }
    assert len(labels) == 3
    assert all(labels.values()), labels


def test_make_ui_sets_every_variable_that_a_sample_needs() -> None:
    text = "".join(path.read_text() for path in SAMPLES.glob("*.py"))
    needed = set(re.findall(r"var\.(?:value|json)\.(?:get\('(\w+)'|(\w+))", text))
    assert {item or other for item, other in needed} == ui.VARIABLES.keys()


def test_params_cannot_choose_a_folder_a_file_or_a_connection(samples: dict[str, Any]) -> None:
    """They are constants of the file: a person who triggers a DAG chooses only from the author's values."""
    allowed = {"override_guards", "approved_digest", "domain", "dry_run", "only", "privacy", "prune"}
    allowed |= {"public_pages", "removed_websites", "new_websites", "test_alert", "removed_allowed"}
    assert {name for dag in samples.values() for name in dag.params} == allowed


def test_params_of_samples_have_a_title_and_a_description_in_plain_words(samples: dict[str, Any]) -> None:
    unclear = [
        (dag_id, name)
        for dag_id, dag in samples.items()
        for name in dag.params
        if "_" in dag.params.get_param(name).schema.get("title", "_")
        or len(dag.params.get_param(name).description or "") < 20
    ]
    assert unclear == []


def test_guards_of_each_sample_are_a_multi_select_drop_down_with_their_names(samples: dict[str, Any]) -> None:
    """Airflow displays an array as a drop-down if its Param has examples."""
    found = [dag.params.get_param("override_guards") for dag in samples.values() if "override_guards" in dag.params]
    assert len(found) >= 6
    for param in found:
        names = param.schema["examples"]
        assert "array" in param.schema["type"]
        assert names == param.schema["items"]["enum"]
        assert set(names) <= GUARDS.keys()
        labels = param.schema["values_display"]
        assert [label.partition(": ")[0] for label in labels.values()] == list(labels) == names
        assert "fewer_websites" in names, "each task that knows its last run has this guard"


@pytest.mark.parametrize("forged", ["path", "changes_path", "snapshot_date"])
def test_asset_event_cannot_choose_the_files_that_are_read(
    analytics_sandbox: SandboxServer, tmp_path: Path, forged: str
) -> None:
    """A sender of asset events could have loaded other folders, and sent requests to an address of the network."""
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    analytics_sandbox.add_website("own.example")
    SnapshotWebsitesOperator(task_id="take", base_path=own).execute({})
    analytics_sandbox.add_website("other.example")
    extra = SnapshotWebsitesOperator(task_id="take", base_path=other).execute({})
    alert = sample_dag("alert_on_changes", own)
    check = alert.get_task("check").python_callable
    load = sample_dag("load_snapshot_into_duckdb", own).get_task("load").python_callable
    with RawServer([http(200, "[]")]) as inside:
        extra |= {forged: f"{inside.url}/admin"} if forged != "path" else {}
        events = {"asset": [SimpleNamespace(extra=extra)]}
        with pytest.raises((ValueError, AirflowFailException)):  # not a day, or another folder
            check(params=alert.params.dump(), triggering_asset_events=events)
        assert inside.requests == []
    assert not inspect.signature(load).parameters
    load()
    with duckdb.connect(f"{own}/websites.duckdb") as connection:
        assert connection.execute("SELECT domain FROM websites").fetchall() == [("own.example",)]
