# SPDX-License-Identifier: Apache-2.0
"""The sample DAGs in a real scheduler, triggered and read over REST, as a person does (``dags``)."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow_processes import AirflowApi, AirflowProcesses, RunState, wait_for
from local_airflow import free_port
from statsd_server import StatsD

from airflow_provider_analytics.sandbox.server import SandboxServer

WEBSITES = 200
#: DAGs without a sample: metrics, and a task for each source of a connection.
MORE = """
from datetime import datetime, timezone

from airflow.providers.common.compat.sdk import DAG

from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator, snapshot_asset

with DAG("metrics", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    SnapshotWebsitesOperator(
        task_id="snapshot",
        base_path="{{ params.base_path }}",
        params={"base_path": ""},
        asset=snapshot_asset("metrics"),
    ) >> SyncExcludedIpsOperator(task_id="sync", exclude_ips=["198.51.100.77"], mode="merge")

with DAG("ways", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    GetAccountOperator.partial(task_id="ask").expand(analytics_conn_id=["in_json", "as_uri", "in_file", "by_rest"])
"""


@dataclass(frozen=True)
class Service:
    """A real Airflow, and the service of its tasks."""

    airflow: AirflowProcesses
    sandbox: SandboxServer
    dags: Path
    statsd: StatsD

    @property
    def api(self) -> AirflowApi:
        return self.airflow.api

    @property
    def state(self) -> Path:
        """The state folder of the samples, and the folder of their snapshots."""
        return self.dags.parent / "snapshots"

    def run(self, dag_id: str, expected: str = "success", **conf: Any) -> tuple[str, RunState]:
        """Trigger a DAG and wait for the end of the run, which must be as expected; return its id and its end."""
        self.api.unpause(dag_id)
        run_id = self.api.trigger(dag_id, conf)
        return run_id, self.ended(dag_id, run_id, expected)

    def ended(self, dag_id: str, run_id: str, expected: str = "success") -> RunState:
        """Wait for the end of a run, which must be as expected, and check its logs for forbidden texts."""
        run = self.api.wait(dag_id, run_id)
        logs = self.api.logs(dag_id, run_id)
        log_text = "\n".join(f"{task_id}, try {number}:\n{log}" for (task_id, number), log in logs.items())
        assert run.state == expected, f"{run}\n{log_text}"
        for forbidden in (self.sandbox.api_key, "XCom not found"):
            assert forbidden not in log_text
        return run

    def written(self) -> Counter[str]:
        """Return the number of updates of each website."""
        return Counter(request.path for request in self.sandbox.requests if request.operation == "update")

    def by_domain(self) -> dict[str, dict[str, Any]]:
        return {str(website["domain"]): dict(website) for website in self.sandbox.websites()}


@pytest.fixture(scope="module")
def service(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("airflow")
    dags = home / "dags"
    shutil.copytree(checkout / "dags", dags)
    (dags / "more.py").write_text(MORE)
    (dags / "sync_unpaused.py").write_text(unpaused_two_hours_late(dags / "sync_excluded_ips.py"))
    with SandboxServer() as sandbox, StatsD() as statsd:
        sandbox.seed(WEBSITES)
        secrets = tmp_path_factory.mktemp("secrets") / "connections.json"
        secrets.write_text(json.dumps({"in_file": connection(sandbox, "in_file")}))
        way = quote(json.dumps({"X-Way": "as_uri"}))
        settings = {
            **sandbox.connection_env,
            **statsd.settings,
            "ANALYTICS_FOLDER": (home / "snapshots").as_uri(),
            "AIRFLOW_CONN_IN_JSON": json.dumps(connection(sandbox, "in_json")),
            "AIRFLOW_CONN_AS_URI": f"analytics://:{sandbox.api_key}@{quote(sandbox.url, safe='')}?headers={way}",
            "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
            "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(secrets)}),
        }
        with AirflowProcesses(home, dags, settings) as airflow:
            yield Service(airflow, sandbox, dags, statsd)
        # This includes rendered fields, XComs, and the output of the processes.
        key = sandbox.api_key.encode()
        assert not [path for path in home.rglob("*") if path.is_file() and key in path.read_bytes()]


def connection(sandbox: SandboxServer, way: str) -> dict[str, Any]:
    """Return a connection to the sandbox whose requests contain its name."""
    return {**json.loads(sandbox.connection_json()), "extra": {"headers": {"X-Way": way}}}


def unpaused_two_hours_late(sample: Path) -> str:
    """Return a sample DAG whose scheduled time was two hours ago, under another name."""
    two_hours_ago = (datetime.now(UTC) - timedelta(hours=2)).hour
    text = sample.read_text().replace("sync_excluded_ips()", "sync_unpaused()")
    text = text.replace('"@daily"', f'"0 {two_hours_ago} * * *"')
    return text.replace('"{{ var.value.exclude_ips }}"', '["192.0.2.99"]')


def rows(base_path: Path) -> list[dict[str, Any]]:
    [data] = base_path.glob("websites/dt=*/*.jsonl")
    return [json.loads(line) for line in data.read_text("utf-8").splitlines()]


@pytest.mark.chosen
def test_snapshot_is_loaded_after_it_was_written(service: Service) -> None:
    api, folder = service.api, service.dags.parent / "snapshots"
    api.unpause("load_snapshot_into_duckdb")
    run_id, night = service.run("nightly_website_snapshot")
    assert {task.state for task in night.tasks.values()} == {"success"}
    expected = service.sandbox.websites()
    written = sorted((row["id"], row["domain"]) for row in rows(folder))
    assert written == sorted((str(website["id"]), website["domain"]) for website in expected)
    assert f"Published {len(expected)} websites" in api.log("nightly_website_snapshot", run_id, "snapshot")
    announced = api.log("nightly_website_snapshot", run_id, "announce")
    assert f"{len(expected)} websites are in {folder.as_uri()}" in announced

    # Its event started a run of the other DAG, which loaded the files of the event.
    def started() -> str | None:
        for run in api.runs("load_snapshot_into_duckdb"):
            events = api.asset_events_of("load_snapshot_into_duckdb", run["dag_run_id"])
            if run_id in [event["source_run_id"] for event in events]:
                return str(run["dag_run_id"])
        return None

    loading = wait_for("a run started by the event", started)
    service.ended("load_snapshot_into_duckdb", loading)
    uri = "analytics://analytics_default/websites"
    [event] = [event for event in api.asset_events() if (event["source_run_id"], event["uri"]) == (run_id, uri)]
    assert event["extra"]["count"] == len(expected)
    answered = api.xcom("load_snapshot_into_duckdb", loading, "answer")
    assert {
        "source": folder.as_uri(),
        "night": event["extra"]["snapshot_date"],
        "websites": len(expected),
        "public": sum(website["privacy"] == 0 for website in expected),
        "new": len(expected),
    } in answered


def test_airflow_metrics_match_the_requests_of_the_tasks(service: Service, tmp_path: Path) -> None:
    """StatsD gets the same numbers as the service."""
    service.api.unpause("metrics")
    service.sandbox.clear_requests()
    service.sandbox.fault("list", skip=1, status=503, headers={"Retry-After": "1"})
    before = service.statsd.sums("airflow.analytics.")
    service.run("metrics", base_path=tmp_path.as_uri())
    after = service.statsd.sums("airflow.analytics.")
    sums = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    asked = Counter(request.operation for request in service.sandbox.requests)
    websites = len(service.sandbox.websites())
    assert sums.pop("waited") >= 1000
    assert sums == {
        "requests": asked.total(),
        "retries": 1,
        "pages": asked["list"] - 1,
        "websites": sums["websites"],
        "changes_applied": websites,
    }
    assert sums["websites"] >= 2 * websites  # of the snapshot, and of the list before and after the changes
    assert len(rows(tmp_path)) == asked["update"] == websites


def test_tasks_get_connections_from_every_source(service: Service) -> None:
    fields = connection(service.sandbox, "by_rest")
    host, _, port = fields["host"].rpartition(":")
    # As the form sends it: with a separate field for the port, and the extras as text.
    form = {**fields, "connection_id": "by_rest", "host": host, "port": int(port), "extra": json.dumps(fields["extra"])}
    assert service.api.test_connection(form)[0]
    for wrong, said in ({"password": "wrong"}, "401"), ({"port": free_port()}, "refused"), ({"host": ""}, "Base URL"):
        good, message = service.api.test_connection({**form, **wrong})
        assert (good, said in message) == (False, True), message
    service.api.add_connection(form)
    service.sandbox.clear_requests()
    service.run("ways")
    asked = [(dict(request.headers)[b"x-way"].decode(), request.authorized) for request in service.sandbox.requests]
    assert sorted(asked) == [(way, True) for way in ("as_uri", "by_rest", "in_file", "in_json")]


def test_plan_is_approved_in_two_steps(service: Service) -> None:
    before = service.by_domain()
    existing = sorted(before)[len(before) // 2]
    (service.dags / "websites.yaml").write_text(f"""\
websites:
  www.steps.example: {{privacy: private, exclude_ips: [203.0.113.7]}}
  shop.steps.example: {{privacy: public, email: true}}
  {existing}: {{exclude_params: [gclid]}}
""")
    run_id, _ = service.run("plan_websites")
    log = service.api.log("plan_websites", run_id, "plan")
    assert "2 to create, 1 to update, 0 to delete" in log
    digest = re.search(r"\b[0-9a-f]{64}\b", log)
    assert digest, log
    service.run("apply_websites", "failed", approved_digest="0" * 64)
    assert service.by_domain() == before
    service.run("apply_websites", approved_digest=digest[0])
    after = service.by_domain()
    www, shop = after.pop("www.steps.example"), after.pop("shop.steps.example")
    assert (www["privacy"], www["exclude_ips"], shop["privacy"], shop["email"]) == (1, "203.0.113.7", 0, 1)
    assert after == {**before, existing: {**before[existing], "exclude_params": "gclid"}}


def test_task_marked_as_failed_stops_and_continues_when_it_is_cleared(service: Service) -> None:
    api, sandbox, dag_id, address = service.api, service.sandbox, "sync_excluded_ips", "203.0.113.50"
    everywhere = sorted(str(website["id"]) for website in sandbox.websites())

    def changed() -> list[str]:
        return sorted(
            str(website["id"]) for website in sandbox.websites() if address in (website["exclude_ips"] or "").split()
        )

    def listed() -> set[str]:
        """Return the rows of the list table for all websites."""
        [table] = service.state.glob(f"*/lists/{dag_id}.sync.json")
        groups = json.loads(table.read_text())["rows"]["exclude_ips"]
        return {entry for group in groups if group["scopes"] == ["*"] for entry in group["entries"]}

    def audited(*actions: str) -> list[str]:
        """Return the ids of the websites that the audit trails have with these actions."""
        trails = service.state.glob("*/audit/*/*.jsonl")
        lines = [json.loads(line) for trail in trails for line in trail.read_text().splitlines()]
        mine = [line for line in lines if line["run_id"] == run_id and line["action"] in actions]
        found = [str(line.get("website_id") or line["website"]) for line in mine]
        return sorted(website.rpartition("(id ")[2].rstrip(")") for website in found)

    # Unpausing starts the scheduled run, which gets another address.
    api.set_variable("exclude_ips", "203.0.113.49")
    api.unpause(dag_id)
    scheduled = wait_for(
        "the scheduled run", lambda: [run for run in api.runs(dag_id) if run["run_type"] == "scheduled"]
    )
    for run in scheduled:
        api.wait(dag_id, run["dag_run_id"])
    api.set_variable("exclude_ips", address)
    sandbox.clear_requests()
    sandbox.fault("update", delay=1, times=None)
    run_id = api.trigger(dag_id)
    wait_for("the first updates", lambda: len(service.written()) >= 10)

    api.mark_failed(dag_id, run_id, "sync")
    said = re.compile(r"Stopped: (\d+) of (\d+) websites changed")
    counts = wait_for("the count of a stopped try", lambda: said.search(api.log(dag_id, run_id, "sync")))
    sent = service.written()
    service.ended(dag_id, run_id, "failed")
    # All sent changes are recorded; without a stop it would have continued to the end, or until it is killed.
    assert (int(counts[1]), int(counts[2])) == (len(audited("update")), len(everywhere))
    assert int(counts[1]) <= len(changed()) < WEBSITES / 2
    assert address in listed()

    sandbox.clear_faults()
    assert service.written() == sent
    api.clear(dag_id, run_id, "sync")
    wait_for("the second try", lambda: api.run(dag_id, run_id).tasks["sync"].try_number == 2)
    assert service.ended(dag_id, run_id).tasks["sync"].try_number == 2
    # Service, table, and audit trail agree: each website is correct, and was updated once.
    assert changed() == audited("update") == everywhere
    assert address in listed()
    assert sorted(service.written().values()) == [1] * len(everywhere)


def test_scheduled_run_after_unpausing_only_plans(service: Service) -> None:
    """A person unpauses the DAG two hours after its scheduled time, or triggers it, which unpauses it, too."""
    service.api.set_variable("exclude_ips", "203.0.113.60")
    service.sandbox.clear_requests()
    service.api.unpause("sync_unpaused")
    [run] = wait_for("the scheduled run", lambda: service.api.runs("sync_unpaused"))
    run_id = str(run["dag_run_id"])
    service.ended("sync_unpaused", run_id)
    assert not service.written()
    assert "Dry run: would update exclude_ips" in "".join(service.api.logs("sync_unpaused", run_id).values())
    service.run("sync_unpaused")
    assert set(service.written().values()) == {1}
    assert len(service.written()) == len(service.by_domain())
