# SPDX-License-Identifier: Apache-2.0
"""Sample DAGs in a task group behind a branch, also in a mapped one, and the sample for several services (``dags``)."""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, task, task_group
from airflow_versions import (
    LABELS_KNOW_MAPPED_GROUPS,
    asset_events,
    extra_links_of,
    needs_answers_in_dag_test,
    needs_events_of_mapped_tasks_in_dag_test,
    needs_exceptions_in_callbacks,
    register_assets,
)
from dag_runs import RunDag
from reconciling import Night
from samples import SAMPLES, sample, sample_dag

from airflow_provider_analytics.operators.snapshots import snapshot_asset
from airflow_provider_analytics.sandbox.server import SandboxServer

# Airflow 2 complains of its own context when it renders a map_index_template.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing .* from the template is deprecated")

#: Samples with a mapped task or group, which Airflow does not allow in a mapped task group.
MAP_THEMSELVES = ("many_instances", "sync_excluded_ips_in_chunks")
WITH_EVENTS = ("alert_on_changes",)
WITH_APPROVAL = ("sync_excluded_ips_with_approval", "websites_as_code")
#: Class of decorated functions, and its method that makes a task.
DECORATOR: Any = type(task(sample))
CALL = DECORATOR.__call__
#: Functions of the samples that define several DAGs.
DAGS = {"websites_as_code_in_two_steps": ["plan_websites", "apply_websites"]}
#: States other than success: the websites differ from the file, or there is no snapshot.
EXPECTED_STATES = {"notify_on_drift": {"failed"}, "alert_on_changes": {"failed"}}
#: Values of Params without a default.
PARAMS = {
    "apply_websites": {"approved_digest": "any"},
    "onboard_website": {"domain": "new.example"},
    "try_your_service": {"domain": "new.example"},
}


def renamed(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a decorated function with another task id."""
    return CALL(self.override(task_id=f"{self.function.__name__}_renamed"), *args, **kwargs)


def placed(name: str, folder: Any, instances: int) -> DAG:
    """Return a DAG with the tasks of a sample in a task group, with other ids of its decorated functions.

    :param instances: number of instances of the group; 0 if it is not mapped.
    """
    module = sample(name, folder)
    functions = DAGS.get(name, [name])
    params: dict[str, Any] = {}
    for function in functions:
        for key, param in getattr(module, function)().params.items():
            params.setdefault(key, param)
        params |= PARAMS.get(function, {})
    if hasattr(module, "DOMAIN"):  # each instance needs its own new website
        module.DOMAIN = "{{ ti.map_index + 1 }}.{{ params.domain }}"
    with DAG(
        f"placed_{name}_{instances}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), params=params
    ) as dag:

        @task.branch
        def choose() -> str:
            return "start"

        @task
        def start() -> None:
            pass

        @task
        def other() -> None:
            pass

        @task_group
        def each(number: int) -> None:
            with mock.patch.object(DECORATOR, "__call__", renamed):
                for function in functions:
                    getattr(module, function).__wrapped__()

        started = start()
        choose() >> [started, other()]
        group = each.override(group_id="part")
        started >> (group.expand(number=list(range(instances))) if instances else group(0))
    return dag


def cases() -> Iterator[Any]:
    """Yield each sample, and the number of instances of its group; 0 is slow if a mapped group is possible."""
    for name in sorted(path.stem for path in SAMPLES.glob("*.py")):
        marks = [needs_answers_in_dag_test] if name in WITH_APPROVAL else []
        if name in MAP_THEMSELVES:
            yield pytest.param(name, 0, marks=marks)
            continue
        yield pytest.param(name, 0, marks=[*marks, pytest.mark.slow])
        yield pytest.param(
            name, 2, marks=[*marks, *([needs_events_of_mapped_tasks_in_dag_test] * (name in WITH_EVENTS))]
        )


@pytest.mark.usefixtures("inbox")
@pytest.mark.parametrize(("name", "instances"), [*cases()])
def test_sample_works_in_a_task_group_behind_a_branch(
    run_dag: RunDag,
    night: Night,
    answer: Callable[[str], list[str | None]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    instances: int,
) -> None:
    if name in WITH_APPROVAL:
        answer("Approve")
    night.add(2)
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "192.0.2.1  # office, until=2026-01-31\n192.0.2.2")
    monkeypatch.setenv("AIRFLOW_VAR_ANALYTICS_INSTANCES", json.dumps(["analytics_default"]))
    dag = placed(name, night.folder, instances)
    outcome = run_dag(dag)
    states = {task_id: found.state for task_id, found in outcome.tasks.items()}
    assert states.pop("other") == "skipped"
    assert set(states.values()) - {"success"} == EXPECTED_STATES.get(name, set())
    for index in range(instances):
        for mapped in dag.tasks[3:]:
            links = extra_links_of(mapped, outcome, index)
            returned = outcome.tasks[f"{mapped.task_id}[{index}]"].returned
            if "Website" in links:
                assert links["Website"] == f"https://{returned['domain']}"


def test_templates_of_samples_guides_and_docstrings_pull_results_of_their_own_instance() -> None:
    """Without the index, a mapped task group with two instances pulls a list of both results."""
    root = SAMPLES.parent
    paths = [
        *(path for folder in ("dags", "docs", "examples") for path in (root / folder).rglob("*.*")),
        *(root / "airflow_provider_analytics").rglob("*.py"),
    ]
    template = r"\{\{[^}]*xcom_pull\([^)]*\)|f\"ti\.xcom_pull\([^)]*\)"
    pulls = [
        (path.name, pull)
        for path in paths
        if path.suffix in (".py", ".md", ".sql")
        for pull in re.findall(template, path.read_text(encoding="utf-8"))
    ]
    assert len(pulls) >= 8
    assert [(name, pull) for name, pull in pulls if "map_indexes=ti.map_index" not in pull] == []


INSTANCES = ("client_a", "client_b", "client_c")
SYNCED = "9.9.9.9\n203.0.113.7"


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, SandboxServer]]:
    with SandboxServer() as a, SandboxServer() as b, SandboxServer() as c:
        yield dict(zip(INSTANCES, (a, b, c), strict=True))


class Instances:
    """Three services with 11, 12, and 13 websites, and the DAG that runs over them."""

    def __init__(self, servers: dict[str, SandboxServer], folder: Path, env: pytest.MonkeyPatch) -> None:
        self.servers = servers
        self.folder = folder
        self.env = env
        for number, (conn_id, server) in enumerate(servers.items(), start=11):
            server.reset()
            for website in range(number):
                server.add_website(f"{website}.{conn_id.replace('_', '-')}.example", exclude_ips="9.9.9.9")
            server.clear_requests()
            self.connect(conn_id)
        self.enlist(*INSTANCES)
        env.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.7")

    def connect(self, conn_id: str, **changes: Any) -> None:
        # A task never retries a request, so tests do not wait for a backoff.
        fields = {**json.loads(self.servers[conn_id].connection_json()), "extra": {"max_retries": 0}, **changes}
        self.env.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    def enlist(self, *conn_ids: str) -> None:
        self.env.setenv("AIRFLOW_VAR_ANALYTICS_INSTANCES", json.dumps(conn_ids))

    def lists(self) -> list[Counter[str]]:
        return [Counter(website["exclude_ips"] for website in server.websites()) for server in self.servers.values()]


@pytest.fixture
def instances(servers: dict[str, SandboxServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instances:
    return Instances(servers, tmp_path, monkeypatch)


#: Runs the DAG with Params; returns its state, the states of its tasks, and the log.
Run = Callable[..., tuple[str, dict[str, str], str]]


@pytest.fixture
def run(instances: Instances, run_dag: RunDag, caplog: pytest.LogCaptureFixture, task_log: Callable[[], str]) -> Run:
    caplog.set_level(logging.INFO)  # as in Airflow's task processes

    def once(**params: Any) -> tuple[str, dict[str, str], str]:
        dag = sample_dag("many_instances", instances.folder)
        register_assets(dag)
        for item in dag.tasks:
            item.retry_delay = timedelta(0)
        outcome = run_dag(dag, conf=params)
        # The text of the grid.
        for task_id, ended in outcome.tasks.items() if LABELS_KNOW_MAPPED_GROUPS else ():
            assert "[" not in task_id or ended.state == "upstream_failed" or str(ended.label).startswith("client_")
        states = {task_id.removeprefix("instance."): ended.state for task_id, ended in outcome.tasks.items()}
        return outcome.state, states, task_log()

    return once


@pytest.mark.sample("many_instances")
def test_instances_have_separate_files_and_events(instances: Instances, run: Run) -> None:
    instances.servers["client_b"].fault("account", status=500)
    state, _, log = run(dry_run=True)
    assert state == "success"  # a failure that a retry has corrected does not count
    assert "client_a: 11 websites, 11 to sync\nclient_b: 12 websites, 12 to sync" in log
    assert instances.lists() == [{"9.9.9.9": 11}, {"9.9.9.9": 12}, {"9.9.9.9": 13}]
    state, states, log = run()
    assert (state, set(states.values())) == ("success", {"success"})
    assert "3 of 3 instances are done" in log
    assert instances.lists() == [{SYNCED: 11}, {SYNCED: 12}, {SYNCED: 13}]
    for number, conn_id in enumerate(INSTANCES, start=11):
        [rows] = (instances.folder / conn_id).glob("snapshots/websites/*/*.jsonl")
        domains = [json.loads(line)["domain"] for line in rows.read_text().splitlines()]
        assert [domain.partition(".")[2] for domain in domains] == [f"{conn_id.replace('_', '-')}.example"] * number
        [table] = (instances.folder / conn_id).glob("*/lists/*.json")
        assert json.loads(table.read_text())["service"] == instances.servers[conn_id].url
        [audit] = (instances.folder / conn_id).glob("*/audit/**/*.jsonl")
        assert len(audit.read_text().splitlines()) == number
        assert f"{conn_id}: {number} websites, {number} synced" in log
    # A DAG that waits for the snapshots gets an event for each, and a DAG that waits for the summary a single one.
    paths = sorted(extra["path"] for extra in asset_events(snapshot_asset("many_instances").uri)[-3:])
    assert [path.removeprefix(f"{instances.folder}/").split("/")[0] for path in paths] == list(INSTANCES)
    assert sorted(asset_events(snapshot_asset("many_instances", snapshot_name="summary").uri)[-1]["paths"]) == paths
    module = sample("load_snapshot_into_duckdb", instances.folder)
    module.SOURCES = [f"{instances.folder}/{conn_id}/snapshots" for conn_id in INSTANCES]
    assert len(module.load_snapshot_into_duckdb().get_task("load").python_callable()) == 3


def test_renamed_connection_keeps_its_list_if_its_folder_is_renamed(instances: Instances, run: Run) -> None:
    """As docs/deployment.md says: the next run removes the address that left the list."""
    assert run()[0] == "success"
    instances.env.setenv("AIRFLOW_CONN_CLIENT_Z", os.environ["AIRFLOW_CONN_CLIENT_A"])
    (instances.folder / "client_a").rename(instances.folder / "client_z")
    instances.enlist("client_b", "client_c", "client_z")
    instances.env.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.8")
    assert run()[0] == "success"
    synced = "9.9.9.9\n203.0.113.8"
    assert instances.lists() == [{synced: 11}, {synced: 12}, {synced: 13}]


@needs_exceptions_in_callbacks
def test_failing_instance_is_named_and_the_others_continue(instances: Instances, run: Run) -> None:
    instances.connect("client_b", password="wrong")
    state, states, log = run()
    assert state == "failed"
    failed = {"snapshot[1]": "failed", "sync[1]": "upstream_failed", "summary": "failed"}
    done = ("instances", "snapshot[0]", "sync[0]", "snapshot[2]", "sync[2]")
    assert states == {**dict.fromkeys(done, "success"), **failed}
    assert instances.lists() == [{SYNCED: 11}, {"9.9.9.9": 12}, {SYNCED: 13}]
    assert "1 of 3 instances failed\nclient_b: the task snapshot failed. API key rejected (401 " in log
    assert "2 of 3 instances are done\nclient_a: 11 websites, 11 synced\nclient_c: 13 websites, 13 synced" in log
    # The next night it works again, and the list of another service has shrunk, which a dry run does not publish.
    instances.connect("client_b")
    for website in range(1, 6):
        instances.servers["client_a"].remove_website(website)
    _, states, log = run(dry_run=True, only=["client_a"], override_guards=["fewer_websites"])
    assert states["snapshot[0]"] == "failed"
    assert "select fewer_websites under Override guards in the trigger form" in log
    # Only reviewed tasks are run again, and do their remaining work.
    state, states, log = run(only=["client_a", "client_b"], override_guards=["fewer_websites"])
    assert (state, len(states), instances.lists()[1]) == ("success", 6, {SYNCED: 12})
    assert "client_a: 6 websites, 0 synced\nclient_b: 12 websites, 12 synced" in log


@pytest.mark.parametrize(
    ("listed", "params", "reason"),
    [
        ("client_a, client_b", {}, "The Variable analytics_instances is 'client_a, client_b'. Set it to a JSON array"),
        ("", {}, "The Variable analytics_instances is ''. Set it to a JSON array"),
        ('["client_a", 7]', {}, "The Variable analytics_instances is '[\"client_a\", 7]'. Set it to a JSON array"),
        ('["client_a", "CLIENT_A"]', {}, "ids that cannot be used: ['client_a']. Each id"),
        ('["client_a", "../client_b"]', {}, "ids that cannot be used: ['../client_b']."),
        ('["client_a\\n"]', {}, "ids that cannot be used: ['client_a\\n']."),
        ('["client_a"]', {"only": ["client_a", "prod_db"]}, "The Param 'only' contains prod_db, which the Variable"),
        (
            '["client_a"]',
            {"override_guards": ["entries_lost"]},
            "Guards would be overridden for all instances. Select the reviewed instances",
        ),
    ],
)
def test_sample_rejects_a_wrong_list(listed: str, params: dict[str, Any], reason: str) -> None:
    defaults: dict[str, Any] = {"only": [], "override_guards": []}
    instances = sample_dag("many_instances").get_task("instances").python_callable
    with pytest.raises(AirflowFailException, match=re.escape(reason)):
        instances(listed, {**defaults, **params})
