"""The sample DAG for an agency, over three instances: whatever happens to one of them, the others go on."""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import LABELS_KNOW_MAPPED_GROUPS, asset_events, needs_exceptions_in_callbacks, register_assets
from dag_runs import DagOutcome, RunDag
from samples import sample, sample_dag

from airflow_provider_analytics.operators.snapshots import snapshot_asset
from airflow_provider_analytics.sandbox.server import SandboxServer

# Airflow 2 complains of its own context when it renders a map_index_template.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing .* from the template is deprecated")
INSTANCES = ("client_a", "client_b", "client_c")
SYNCED = "9.9.9.9\n203.0.113.7"


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, SandboxServer]]:
    with SandboxServer() as a, SandboxServer() as b, SandboxServer() as c:
        yield dict(zip(INSTANCES, (a, b, c), strict=True))


class Agency:
    """Three instances with 11, 12 and 13 websites, and the DAG that is run over them."""

    def __init__(self, servers: dict[str, SandboxServer], run_dag: RunDag, folder: Path, env: Any, log: Any) -> None:
        self.servers = servers
        self.folder = folder
        self._run_dag = run_dag
        self._env = env
        self._log = log
        for number, (conn_id, server) in enumerate(servers.items(), start=11):
            server.reset()
            for website in range(number):
                server.add_website(f"{website}.{conn_id.replace('_', '-')}.example", exclude_ips="9.9.9.9")
            self.connect(conn_id)
        self.enlist(*INSTANCES)
        env.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.7")

    def connect(self, conn_id: str, **changes: Any) -> None:
        # Nothing is repeated within a task, so that no test waits for a backoff.
        fields = {**json.loads(self.servers[conn_id].connection_json()), "extra": {"max_retries": 0}, **changes}
        self._env.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    def enlist(self, *conn_ids: str) -> None:
        self._env.setenv("AIRFLOW_VAR_ANALYTICS_INSTANCES", json.dumps(conn_ids))

    def run(self, **params: Any) -> tuple[DagOutcome, str]:
        """Run the DAG; return how it ended, and what was logged."""
        dag = sample_dag("many_instances", self.folder)
        register_assets(dag)
        for one in dag.tasks:
            one.retry_delay = timedelta(0)
        outcome = self._run_dag(dag, conf=params)
        return outcome, self._log()

    def lists(self, conn_id: str) -> Counter[str]:
        return Counter(website["exclude_ips"] for website in self.servers[conn_id].websites())

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def table(self, conn_id: str) -> Any:
        [path] = (self.folder / conn_id).rglob("lists/*.json")
        return json.loads(path.read_text())


@pytest.fixture
def agency(
    servers: dict[str, SandboxServer],
    run_dag: RunDag,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    task_log: Callable[[], str],
) -> Agency:
    caplog.set_level(logging.INFO)  # as in Airflow's task processes
    return Agency(servers, run_dag, tmp_path, monkeypatch, task_log)


def states(outcome: DagOutcome) -> dict[str, str]:
    return {task_id.removeprefix("instance."): task.state for task_id, task in outcome.tasks.items()}


@pytest.mark.sample("many_instances")
def test_each_instance_has_its_own_files(agency: Agency) -> None:
    outcome, log = agency.run()
    assert (outcome.state, set(states(outcome).values())) == ("success", {"success"})
    assert [agency.lists(conn_id) for conn_id in INSTANCES] == [{SYNCED: 11}, {SYNCED: 12}, {SYNCED: 13}]
    assert agency.folders() == list(INSTANCES)
    for number, conn_id in enumerate(INSTANCES, start=11):
        folder = agency.folder / conn_id
        [state] = (path for path in folder.iterdir() if path.name != "snapshots")
        assert sorted(path.name for path in state.iterdir()) == ["audit", "lists"]
        [rows] = folder.glob("snapshots/websites/*/*.jsonl")
        domains = [json.loads(line)["domain"] for line in rows.read_text().splitlines()]
        assert len(domains) == number
        assert all(domain.endswith(f"{conn_id.replace('_', '-')}.example") for domain in domains)
        table = agency.table(conn_id)
        assert (table["service"], table["list"]) == (agency.servers[conn_id].url, "exclude_ips")
        [audit] = state.glob("audit/**/*.jsonl")
        assert len(audit.read_text().splitlines()) == number
        assert f"{conn_id}: {number} websites, {number} synced" in log
    assert "3 of 3 instances are done" in log
    # What the grid shows, and what a DAG that waits for the snapshots is told.
    for task_id in ("instance.snapshot", "instance.sync") if LABELS_KNOW_MAPPED_GROUPS else ():
        assert [outcome.tasks[f"{task_id}[{index}]"].label for index in range(3)] == list(INSTANCES)
    told = asset_events(snapshot_asset("many_instances").uri)[-3:]
    paths = sorted(extra["path"] for extra in told)
    assert [path.removeprefix(f"{agency.folder}/").split("/")[0] for path in paths] == list(INSTANCES)
    # Who wants one run for all of them awaits the summary.
    [*_, once] = asset_events(snapshot_asset("many_instances", dataset="summary").uri)
    assert sorted(once["paths"]) == paths
    # The sample for DuckDB loads all of them, each as a source of its own.
    module = sample("load_snapshot_into_duckdb", agency.folder)
    module.SOURCES = [f"{agency.folder}/{conn_id}/snapshots" for conn_id in INSTANCES]
    assert len(module.load_snapshot_into_duckdb().get_task("load").python_callable()) == 3


@needs_exceptions_in_callbacks
def test_a_failing_instance_is_named_and_the_others_go_on(agency: Agency) -> None:
    agency.connect("client_b", password="wrong")
    outcome, log = agency.run()
    assert outcome.state == "failed"
    failed = {"snapshot[1]": "failed", "sync[1]": "upstream_failed", "summary": "failed"}
    done = ("instances", "snapshot[0]", "sync[0]", "snapshot[2]", "sync[2]")
    assert states(outcome) == {**dict.fromkeys(done, "success"), **failed}
    assert [agency.lists(conn_id) for conn_id in INSTANCES] == [{SYNCED: 11}, {"9.9.9.9": 12}, {SYNCED: 13}]
    assert agency.folders() == ["client_a", "client_c"]
    assert "1 of 3 instances failed\nclient_b: snapshot: API key rejected (401 " in log
    assert "2 of 3 instances are done\nclient_a: 11 websites, 11 synced\nclient_c: 13 websites, 13 synced" in log
    # The next night it is mended, and does what it missed.
    agency.connect("client_b")
    outcome, log = agency.run()
    assert (outcome.state, agency.lists("client_b")) == ("success", {SYNCED: 12})
    assert "client_a: 11 websites, 0 synced\nclient_b: 12 websites, 12 synced" in log


@needs_exceptions_in_callbacks
@pytest.mark.slow  # several runs over three instances
def test_the_summary_names_every_kind_of_failure(agency: Agency) -> None:
    assert agency.run()[0].state == "success"
    # The list of one shrinks, another does not change a website, and a third has no connection.
    for website in range(1, 6):
        agency.servers["client_a"].remove_website(website)
    agency.servers["client_b"].change_website(5, exclude_ips="9.9.9.9")
    agency.servers["client_b"].fault("update", status=422, times=3)
    agency.enlist("client_a", "client_b", "client_c", "client_d")
    outcome, log = agency.run()
    assert outcome.state == "failed"
    assert (states(outcome)["snapshot[0]"], states(outcome)["sync[0]"]) == ("failed", "upstream_failed")
    assert (states(outcome)["snapshot[1]"], states(outcome)["sync[1]"]) == ("success", "failed")
    assert (states(outcome)["snapshot[3]"], states(outcome)["sync[3]"]) == ("failed", "upstream_failed")
    first, a, b, d = log[log.index("3 of 4 instances failed") :].splitlines()[:4]
    assert first == "3 of 4 instances failed"
    assert a.startswith("client_a: snapshot: ")
    assert "6" in a
    assert "11" in a
    assert b.startswith("client_b: sync: ")
    assert "422" in b
    assert d.startswith("client_d: snapshot: ")
    assert "isn't defined" in d
    assert "1 of 4 instances are done\nclient_c: 13 websites, 0 synced" in log

    # A dry run publishes nothing past the guard: the next night would be compared with it, and not be guarded.
    outcome, log = agency.run(only=["client_a"], dry_run=True, accept=["count"])
    assert outcome.tasks["instance.snapshot[0]"].state == "failed"
    assert "enter count in the field accept of the trigger form" in log
    # Only the one that was looked at is run again, past the guard.
    outcome, log = agency.run(only=["client_a"], accept=["count"])
    assert outcome.state == "success"
    assert set(states(outcome)) == {"instances", "snapshot[0]", "sync[0]", "summary"}
    assert "1 of 1 instances are done\nclient_a: 6 websites, 0 synced" in log


@pytest.mark.slow  # several runs over three instances
def test_an_instance_may_be_inserted_anywhere_and_a_connection_renamed(
    agency: Agency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/deployment.md says. The tables are still right: what the night before has added is replaced."""
    agency.enlist("client_a", "client_c")
    assert agency.run()[0].state == "success"
    monkeypatch.setenv("AIRFLOW_CONN_CLIENT_Z", os.environ["AIRFLOW_CONN_CLIENT_A"])
    (agency.folder / "client_a").rename(agency.folder / "client_z")
    agency.enlist("client_b", "client_c", "client_z")
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.8")
    outcome, log = agency.run()
    assert outcome.state == "success", log
    synced = "9.9.9.9\n203.0.113.8"
    assert [agency.lists(conn_id) for conn_id in INSTANCES] == [{synced: 11}, {synced: 12}, {synced: 13}]


def test_a_dry_run_changes_nothing(agency: Agency) -> None:
    agency.servers["client_b"].fault("account", status=500)
    outcome, log = agency.run(dry_run=True)
    # What a retry has mended is no failure.
    assert (outcome.state, outcome.tasks["instance.snapshot[1]"].try_number) == ("success", 2)
    assert "client_a: 11 websites, 11 to sync\nclient_b: 12 websites, 12 to sync" in log
    assert [agency.lists(conn_id) for conn_id in INSTANCES] == [{"9.9.9.9": 11}, {"9.9.9.9": 12}, {"9.9.9.9": 13}]


@pytest.mark.parametrize(
    ("listed", "params", "reason"),
    [
        ("client_a, client_b", {}, "The Variable analytics_instances is 'client_a, client_b'; allowed: a JSON array"),
        ("[]", {}, "The Variable analytics_instances is '[]'; allowed: a JSON array"),
        ('["client_a", 7]', {}, "The Variable analytics_instances is '[\"client_a\", 7]'; allowed: a JSON array"),
        ('["client_a", "CLIENT_A"]', {}, "The ids of connections client_a are not allowed; allowed: each once"),
        ('["client_a", "../client_b"]', {}, "The ids of connections ../client_b are not allowed"),
        ('["client_a\\n"]', {}, "The ids of connections client_a\n are not allowed"),
        ('["client_a", "client_a"]', {}, "The ids of connections client_a are not allowed; allowed: each once"),
        ('["client_a"]', {"only": ["client_a", "prod_db"]}, "only has prod_db; allowed: connections of the Variable"),
        ('["client_a"]', {"accept": ["loss"]}, "accept without only is not allowed"),
    ],
)
def test_a_wrong_list_is_refused(listed: str, params: dict[str, Any], reason: str) -> None:
    defaults: dict[str, Any] = {"only": [], "accept": []}
    instances = sample_dag("many_instances").get_task("instances").python_callable
    with pytest.raises(AirflowFailException, match=re.escape(reason)):
        instances(listed, {**defaults, **params})


@needs_exceptions_in_callbacks
def test_without_a_list_nothing_is_sent_and_the_summary_says_why(
    agency: Agency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_VAR_ANALYTICS_INSTANCES")
    for server in agency.servers.values():
        server.clear_requests()
    outcome, log = agency.run()
    assert (outcome.state, outcome.tasks["summary"].state) == ("failed", "failed")
    assert "No instance was run. instances: The Variable analytics_instances is ''; allowed: a JSON array" in log
    assert not any(server.requests for server in agency.servers.values())
    assert agency.folders() == []


def test_an_instance_whose_process_was_killed_is_named_too() -> None:
    """Nobody is told why: neither a result nor a reason is there."""
    found: dict[tuple[str, str, int | None], Any] = {
        ("instances", "return_value", None): [{"conn_id": "client_a"}, {"conn_id": "client_b"}],
        ("instance.snapshot", "return_value", 0): {"count": 11},
        ("instance.snapshot", "return_value", 1): {"count": 12, "path": "file:///x"},
        ("instance.sync", "return_value", 1): {"dry_run": False, "applied": 12},
    }

    def xcom_pull(task_ids: str, key: str = "return_value", map_indexes: int | None = None) -> Any:
        return found.get((task_ids, key, map_indexes))

    summary = sample_dag("many_instances").get_task("summary").python_callable
    with pytest.raises(AirflowFailException) as failure:
        summary(ti=SimpleNamespace(xcom_pull=xcom_pull))
    assert str(failure.value) == ("1 of 2 instances failed\nclient_a: ended without a reason: see the end of its log")
