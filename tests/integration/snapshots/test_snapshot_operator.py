"""The snapshot operator in real DAG runs against the sandbox."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException
from airflow_versions import allow_execute_in_this_thread, last_asset_event, register_assets
from dag_runs import OutletEvents, RunDag

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import UnexpectedResponseError
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
    snapshot_asset,
)
from airflow_provider_analytics.snapshots import publish
from airflow_provider_analytics.storage import StoragePath, put_bytes

TODAY = datetime.now(UTC)


def make_dag(timezone: str = "UTC", **arguments: Any) -> Any:
    with DAG(
        f"snapshots_{uuid.uuid4().hex}", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz=timezone)
    ) as dag:
        SnapshotWebsitesOperator(task_id="snapshot", retries=1, retry_delay=timedelta(0), **arguments)
    return dag


def test_a_run_leaves_a_whole_snapshot(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(250)
    outcome = run_dag(make_dag(base_path=f"file://{tmp_path}"))
    assert outcome.state == "success"
    returned = outcome.tasks["snapshot"].returned
    today = datetime.now(UTC).date().isoformat()
    partition, about = tmp_path / "websites" / f"dt={today}", tmp_path / "_websites" / f"dt={today}"
    assert returned["count"] == 250
    assert returned["path"] == f"file://{partition}"
    manifest = json.loads((about / "_manifest.json").read_bytes())
    (file,) = manifest["files"]
    assert [path.relative_to(tmp_path) for path in partition.iterdir()] == [Path(file["path"])]
    assert sorted(path.name for path in about.iterdir()) == ["_SUCCESS", "_manifest.json"]
    assert hashlib.sha256((about / "_manifest.json").read_bytes()).hexdigest() == returned["digest"]
    assert (about / "_SUCCESS").read_text() == returned["digest"]
    content = (tmp_path / file["path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == file["sha256"]
    rows = [json.loads(line) for line in content.splitlines()]
    ids = [int(row["id"]) for row in rows]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 250 == manifest["count"] == manifest["proof"]["total"]
    assert {row["snapshot_date"] for row in rows} == {today}
    assert len({row["observed_at"] for row in rows}) == 1
    assert "password" not in content.decode().lower()
    assert manifest["requests"] == 6  # the account, three pages of a hundred, the oldest, and the newest again


def test_a_rerun_replaces_the_partition(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(30)
    dag = make_dag(base_path=str(tmp_path), compression="gzip")
    first = run_dag(dag).tasks["snapshot"].returned
    analytics_sandbox.add_website("new.example.com")
    second = run_dag(dag).tasks["snapshot"].returned
    assert (first["path"], second["count"]) == (second["path"], 31)
    assert [str(path) for path in Path(second["path"]).iterdir()] == second["files"]


class KilledError(BaseException):
    """The process is gone: nothing catches this, nothing cleans up."""


def test_airflow_tells_a_retry_from_another_run(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.seed(3)
    tries: list[int] = []

    def killed_once(target: StoragePath, content: bytes, *rest: Any) -> None:
        if target.name in ("_manifest.json", "_SUCCESS"):
            tries.append(len(list(tmp_path.glob("websites/*/*"))))
            if len(tries) == 1:
                raise RuntimeError("killed")
        put_bytes(target, content, *rest)

    monkeypatch.setattr(publish, "put_bytes", killed_once)
    monkeypatch.setattr(publish, "_remove_all", lambda *_: None)
    task = run_dag(make_dag(base_path=str(tmp_path))).tasks["snapshot"]
    assert (task.state, task.try_number) == ("success", 2)
    assert tries == [1, 2, 2]
    assert [str(path) for path in tmp_path.glob("websites/*/*")] == task.returned["files"]


def test_a_retry_leaves_nothing_of_a_try_that_was_killed(
    analytics_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.seed(3)
    dag = make_dag(base_path=str(tmp_path))

    def run(run_id: str) -> None:
        allow_execute_in_this_thread()
        ti = SimpleNamespace(
            dag_id=dag.dag_id, run_id=run_id, task_id="snapshot", map_index=-1, xcom_push=lambda **_: None
        )
        dag_run = SimpleNamespace(run_type="manual", run_after=TODAY)
        dag.get_task("snapshot").execute({"dag": dag, "dag_run": dag_run, "ti": ti, "outlet_events": OutletEvents()})

    def killed(target: StoragePath, content: bytes, *rest: Any) -> None:
        if target.name == "_manifest.json":
            raise KilledError
        put_bytes(target, content, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(publish, "put_bytes", killed)
        patch.setattr(publish, "_remove_all", lambda *_: None)
        with pytest.raises(KilledError):
            run("a run")
    run("another run")
    assert len(list(tmp_path.glob("websites/*/*"))) == 2  # the first may still be writing
    run("a run")
    assert len(list(tmp_path.glob("websites/*/*"))) == 1


@pytest.mark.parametrize(
    ("arguments", "state", "tries"),
    [
        ({}, "failed", 1),
        ({"late": "fail"}, "failed", 1),
        ({"late": "skip"}, "skipped", 1),
        ({"late": "label"}, "success", 1),
        ({"late": "perhaps"}, "failed", 1),
    ],
)
def test_a_run_for_a_day_long_over_does_not_falsify_it(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, arguments: dict[str, Any], state: str, tries: int
) -> None:
    analytics_sandbox.seed(3)
    day = (TODAY - timedelta(days=3)).date().isoformat()
    task = run_dag(make_dag(base_path=str(tmp_path), partition_date=day, **arguments)).tasks["snapshot"]
    assert (task.state, task.try_number) == (state, tries)
    if state == "success":
        assert (task.returned["snapshot_date"], task.returned["late"]) == (day, True)
        assert not task.returned["observed_at"].startswith(day)
    else:
        assert list(tmp_path.iterdir()) == []
        assert len(analytics_sandbox.requests) == 0


def test_a_named_day_wins_and_is_a_template(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    today = TODAY.date().isoformat()
    dag = make_dag(
        base_path="{{ dag_run.conf['base'] }}", partition_date="{{ dag_run.conf['day'] }}", asset=snapshot_asset()
    )
    outcome = run_dag(dag, conf={"base": f"file://{tmp_path}", "day": today})
    assert outcome.tasks["snapshot"].returned["snapshot_date"] == today
    outcome = run_dag(dag, conf={"base": f"file://{tmp_path}", "day": "soon"})
    assert (outcome.tasks["snapshot"].state, outcome.tasks["snapshot"].try_number) == ("failed", 1)
    day_after_tomorrow = (TODAY + timedelta(days=3)).date().isoformat()
    outcome = run_dag(dag, conf={"base": f"file://{tmp_path}", "day": day_after_tomorrow})
    assert outcome.tasks["snapshot"].state == "failed"


@pytest.mark.parametrize("timezone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])  # UTC+14, UTC-11
def test_the_day_is_that_of_the_dags_time_zone(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, timezone: str
) -> None:
    moment = pendulum.now("UTC")
    outcome = run_dag(make_dag(timezone, base_path=str(tmp_path)), logical_date=moment)
    assert outcome.tasks["snapshot"].returned["snapshot_date"] == moment.in_timezone(timezone).date().isoformat()


@pytest.mark.parametrize(
    "arguments",
    [
        {"base_path": "relative/path"},
        {"base_path": "file://host/path"},
        {"format": "xml"},
        {"compression": "rar"},
        {"exclude_ips_as": "hide"},
        {"max_loss_fraction": "much"},
        {"accept": ["counts"]},
        {"accept": 3},
        {"ignore_fields": ["visits"]},
        {"dataset": "_hidden"},
        {"favorite": "perhaps"},
        {"analytics_conn_id": "nobody_made_this"},
    ],
)
def test_what_a_retry_cannot_mend_fails_at_once(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    analytics_sandbox.seed(3)
    task = run_dag(make_dag(**{"base_path": str(tmp_path), **arguments})).tasks["snapshot"]
    assert (task.state, task.try_number) == ("failed", 1)
    assert list(tmp_path.iterdir()) == []


def test_storage_that_refuses_is_tried_again(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    task = run_dag(make_dag(base_path=str(tmp_path / "file"))).tasks["snapshot"]
    assert (task.state, task.try_number) == ("failed", 2)


def test_a_list_that_cannot_be_proven_is_not_published(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(250)
    analytics_sandbox.configure(page_parameter="p", links="absent")
    task = run_dag(make_dag(base_path=str(tmp_path))).tasks["snapshot"]
    assert task.state == "failed"
    assert list(tmp_path.iterdir()) == []


def test_only_favourites(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    for number in range(20):
        analytics_sandbox.add_website(f"site-{number}.example.com", favorite=number % 4 == 0)
    returned = run_dag(make_dag(base_path=str(tmp_path), favorite=True)).tasks["snapshot"].returned
    manifest = json.loads(Path(returned["manifest"]).read_bytes())
    assert returned["count"] == 5
    assert manifest["filters"] == {"favorite": True}


def test_the_asset_event_is_emitted_beside_the_users_own(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path
) -> None:
    from airflow.providers.common.compat.sdk import Asset

    analytics_sandbox.seed(3)
    theirs = Asset("file:///their/own")
    dag = make_dag(base_path=str(tmp_path), outlets=[theirs])
    assert [outlet.uri for outlet in dag.get_task("snapshot").outlets][:2] == [theirs.uri, snapshot_asset().uri]
    register_assets(dag)
    returned = run_dag(dag).tasks["snapshot"].returned
    told = last_asset_event(snapshot_asset().uri)
    assert told == returned


def test_a_change_that_fails_the_task_is_named(analytics_sandbox: Any, tmp_path: Path) -> None:
    for number in range(30):
        analytics_sandbox.add_website(f"{number}.example", privacy=1, exclude_ips="192.0.2.1")
    for day, tries in (("2026-11-21", 1), ("2026-11-22", 1)):
        take = SnapshotWebsitesOperator(task_id="take", base_path=str(tmp_path), partition_date=day, late="label")
        for _ in range(tries):
            take.execute({})
        analytics_sandbox.remove_website(1)
        analytics_sandbox.change_website(2, privacy=0)
        analytics_sandbox.add_website("new.example", privacy=0)
        for number in range(3, 20):
            analytics_sandbox.change_website(number, exclude_ips="192.0.2.7")
    compare = CompareSnapshotsOperator(task_id="compare", base_path=str(tmp_path), on_change="fail")
    with pytest.raises(AirflowFailException) as caught:
        compare.execute({})
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("The website list changed: 1 removed, 18 changed (1 in privacy), 1 added, from 2026")
    assert lines[1:4] == [
        "removed 0.example (id 1)",
        "changed 1.example (id 2): privacy private -> public",
        "changed 18.example (id 19): exclude_ips - 192.0.2.1 + 192.0.2.7",
    ]
    assert lines[11:] == [
        "and 10 more",
        f"All changes: {tmp_path}/_websites/dt=2026-11-22/_since-2026-11-21.jsonl.",
        "Not retried: on_change='fail' is set.",
    ]


def test_a_key_that_is_revoked_while_the_list_is_read(analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(250)
    analytics_sandbox.fault("list", status=401, skip=1, times=None)
    with pytest.raises(AirflowFailException, match="API key rejected"):
        SnapshotWebsitesOperator(task_id="take", base_path=str(tmp_path)).execute({})


@pytest.mark.parametrize("params", [{}, {"accept": []}])
def test_a_guard_says_where_its_finding_is_accepted(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, task_log: Callable[[], str], params: dict[str, Any]
) -> None:
    analytics_sandbox.seed(3)
    run_dag(make_dag(base_path=str(tmp_path)))
    for number in (1, 2, 3):
        analytics_sandbox.remove_website(number)
    dag = make_dag(base_path=str(tmp_path), accept="{{ params.get('accept') or '' }}")
    dag.params.update(params)
    run_dag(dag)
    how = (
        "enter count in the field accept of the trigger form. As a command:\n"
        f"""airflow dags trigger {dag.dag_id} --conf '{{"accept": ["count"]}}'"""
        if params
        else "set accept=['count'] on task snapshot for one run. This DAG has no Param accept."
    )
    assert f"If this is intended, {how}\n" in task_log()


@pytest.mark.parametrize(
    ("on_change", "state"), [("report", "success"), ("fail", "failed"), ("skip", "skipped"), ("shout", "failed")]
)
def test_two_snapshots_are_compared(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, on_change: str, state: str
) -> None:
    analytics_sandbox.seed(5)
    yesterday = (TODAY - timedelta(days=1)).date().isoformat()
    run_dag(make_dag(base_path=str(tmp_path), partition_date=yesterday, late="label"))
    analytics_sandbox.add_website("new.example.com", exclude_ips="192.0.2.7")
    run_dag(make_dag(base_path=str(tmp_path)))
    with DAG(f"comparison_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        CompareSnapshotsOperator(task_id="compare", base_path=str(tmp_path), on_change=on_change, retries=1)
    task = run_dag(dag).tasks["compare"]
    assert (task.state, task.try_number) == (state, 1)
    if state == "success":
        assert (task.returned["previous"], task.returned["added"]) == (yesterday, 1)
        assert task.returned["changes"][0]["domain"] == "new.example.com"
        assert "new.example.com" in Path(task.returned["jsonl"]).read_text()


@pytest.mark.parametrize(
    ("base_path", "remedy"),
    [
        ("gs://bucket/path", "install apache-airflow-providers-google on the workers"),
        ("abfss://conn@container/path", "install apache-airflow-providers-microsoft-azure on the workers"),
        ("webhdfs9://host/path", "allowed: file, s3, gs, abfs, abfss, adl"),
    ],
)
def test_a_scheme_without_a_provider_names_the_package(analytics_sandbox: Any, base_path: str, remedy: str) -> None:
    operator = SnapshotWebsitesOperator(task_id="snapshot", base_path=base_path)
    with pytest.raises(
        AirflowFailException, match=re.escape(f"no file system for {base_path.partition(':')[0]}://")
    ) as raised:
        operator.execute({})
    assert remedy in str(raised.value)
    assert f"base_path={base_path!r}" in str(raised.value)
    assert analytics_sandbox.requests == []


def test_no_connection_is_named_in_what_is_handed_on() -> None:
    from airflow_provider_analytics.hooks.object_storage import storage_path

    path = storage_path("file://my_conn@/data/analytics/", "base_path") / "websites"
    assert str(path) == "file:///data/analytics/websites"
    assert path.path == "/data/analytics/websites"


def test_a_drift_of_the_service_is_told(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, task_log: Callable[[], str]
) -> None:
    analytics_sandbox.seed(3)
    analytics_sandbox.configure(list_hides=["favorite"])
    returned = run_dag(make_dag(base_path=str(tmp_path))).tasks["snapshot"].returned
    assert returned["fields"]["missing"] == ["favorite"]
    assert "The records differ from the documented fields; missing: favorite" in task_log()


def test_what_a_guard_found_is_accepted_by_name(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(20)
    run_dag(make_dag(base_path=str(tmp_path)))
    analytics_sandbox.reset()
    analytics_sandbox.seed(5)
    for accept, state in (
        (["source"], "failed"),
        ("count", "success"),
        (["count"], "success"),
        ('["count"]', "success"),
        ("['count']", "failed"),
    ):
        assert run_dag(make_dag(base_path=str(tmp_path), accept=accept)).tasks["snapshot"].state == state


def test_a_first_night_says_that_it_is_the_first(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, task_log: Callable[[], str]
) -> None:
    analytics_sandbox.seed(3)
    returned = run_dag(make_dag(base_path=str(tmp_path))).tasks["snapshot"].returned
    assert (returned["first"], returned["previous"], returned["removed"]) == (True, None, None)
    assert f"Published 3 websites as {returned['snapshot_date']}, the first snapshot" in task_log()


@pytest.mark.parametrize(("dry_run", "left"), [(True, 3), (False, 1)])
def test_old_snapshots_are_removed(
    run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path, dry_run: bool, left: int
) -> None:
    analytics_sandbox.seed(3)
    days = [(TODAY - timedelta(days=days)).date().isoformat() for days in (2, 1, 0)]
    for day in days:
        run_dag(make_dag(base_path=str(tmp_path), partition_date=day, late="label"))
    with DAG(f"prune_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        PruneSnapshotsOperator(task_id="prune", base_path=str(tmp_path), keep_days=1, dry_run=dry_run)
        PruneSnapshotsOperator(task_id="keep_none", base_path=str(tmp_path))
    tasks = run_dag(dag).tasks
    assert tasks["prune"].returned == {
        "path": f"{tmp_path}/websites",
        "dry_run": dry_run,
        "kept": 1,
        "removed": days[1::-1],
        "damaged": {},
        "leftovers": [],
        "unknown": [],
        "files": 7,  # the first snapshot is compared with none
    }
    assert len(list(tmp_path.glob("websites/*/*"))) == left
    assert (tasks["keep_none"].state, tasks["keep_none"].try_number) == ("failed", 1)


def listed(extra: str) -> bytes:
    """Return a list of a website with another field, as a service writes it."""
    return f"""{{"data": [{{"id": 2, "domain": "b.example.com", "extra": {extra}}}], "total": 1}}""".encode()


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity", "1e999", r'"\ud800"'])
def test_what_is_no_json_is_refused(analytics_sandbox: Any, written: str) -> None:
    body, json_type = listed(written), {"Content-Type": "application/json"}
    analytics_sandbox.fault("list", body=body, headers=json_type, times=None)
    settings = Settings(base_url=analytics_sandbox.url, api_key=analytics_sandbox.api_key)
    with (
        AnalyticsClient(settings) as client,
        pytest.raises(UnexpectedResponseError, match=r"The response is not JSON \("),
    ):
        list(client.iter_websites())


def test_an_id_that_no_file_can_hold_is_refused(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    body, json_type = rb'{"data": [{"id": "\ud800"}], "total": 1}', {"Content-Type": "application/json"}
    analytics_sandbox.fault("list", body=body, headers=json_type, times=None)
    assert run_dag(make_dag(base_path=str(tmp_path))).state == "failed"
    assert list(tmp_path.iterdir()) == []
