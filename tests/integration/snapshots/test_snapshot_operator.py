"""The operators of snapshots in real DAG runs against the sandbox."""

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

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, Asset
from airflow_versions import allow_execute_in_this_thread, last_asset_event, register_assets
from dag_runs import OutletEvents, RunDag, TaskOutcome
from shelf import NIGHT, Shelf, websites

from airflow_provider_analytics.exceptions import UnexpectedResponseError
from airflow_provider_analytics.hooks.object_storage import storage_path
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
    snapshot_asset,
)
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots import publish
from airflow_provider_analytics.storage import StoragePath, put_bytes

TODAY = datetime.now(UTC)


def make_dag(operator: Any = SnapshotWebsitesOperator, **arguments: Any) -> Any:
    with DAG(f"snapshots_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        operator(task_id="snapshot", retries=1, retry_delay=timedelta(0), **arguments)
    return dag


@pytest.fixture
def run(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path) -> Callable[..., TaskOutcome]:
    """Run an operator in a DAG run, by default on three websites."""
    analytics_sandbox.seed(3)

    def run_task(operator: Any = SnapshotWebsitesOperator, **arguments: Any) -> TaskOutcome:
        return run_dag(make_dag(operator, **{"base_path": str(tmp_path), **arguments})).tasks["snapshot"]

    return run_task


def test_a_run_leaves_a_whole_snapshot(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    analytics_sandbox.seed(250)
    outcome = run_dag(make_dag(base_path=f"file://{tmp_path}"))
    assert outcome.state == "success"
    returned = outcome.tasks["snapshot"].returned
    today = datetime.now(UTC).date().isoformat()
    partition, about = tmp_path / "websites" / f"dt={today}", tmp_path / "_websites" / f"dt={today}"
    assert (returned["count"], returned["path"]) == (250, f"file://{partition}")
    manifest = json.loads((about / "_manifest.json").read_bytes())
    (file,) = manifest["files"]
    assert [path.relative_to(tmp_path) for path in partition.iterdir()] == [Path(file["path"])]
    assert sorted(path.name for path in about.iterdir()) == ["_SUCCESS", "_manifest.json"]
    assert hashlib.sha256((about / "_manifest.json").read_bytes()).hexdigest() == returned["digest"]
    assert (about / "_SUCCESS").read_text() == returned["digest"]
    content = (tmp_path / file["path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == file["sha256"]
    rows = [json.loads(line) for line in content.splitlines()]
    assert [int(row["id"]) for row in rows] == list(range(250, 0, -1))
    assert manifest["count"] == manifest["proof"]["total"] == 250
    assert {(row["snapshot_date"], row["observed_at"]) for row in rows} == {(today, rows[0]["observed_at"])}
    assert "password" not in content.decode().lower()
    assert manifest["requests"] == 6  # the account, three pages of a hundred, the oldest, and the newest again


class KilledError(BaseException):
    """The process is gone: nothing catches this, nothing cleans up."""


def test_a_retry_leaves_nothing_of_a_try_that_was_killed(
    analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = make_dag(base_path=str(tmp_path))

    def run_once(run_id: str, try_number: int) -> int:
        allow_execute_in_this_thread()
        ti = SimpleNamespace(
            dag_id=dag.dag_id,
            run_id=run_id,
            task_id="snapshot",
            map_index=-1,
            try_number=try_number,
            xcom_push=lambda **_: None,
        )
        dag_run = SimpleNamespace(run_type="manual", run_after=TODAY)
        dag.get_task("snapshot").execute({"dag": dag, "dag_run": dag_run, "ti": ti, "outlet_events": OutletEvents()})
        return len(list(tmp_path.glob("websites/*/*")))

    def killed(target: StoragePath, content: bytes, *rest: Any) -> None:
        if target.name == "_manifest.json":
            raise KilledError
        put_bytes(target, content, *rest)

    analytics_sandbox.seed(3)
    with monkeypatch.context() as patch:
        patch.setattr(publish, "put_bytes", killed)
        patch.setattr(publish, "_remove_all", lambda *_: None)
        with pytest.raises(KilledError):
            run_once("a run", 1)
    assert run_once("another run", 1) == 2  # the first may still be writing
    assert run_once("a run", 2) == 1


@pytest.mark.parametrize(("late", "state"), [("fail", "failed"), ("skip", "skipped"), ("label", "success")])
def test_a_run_for_a_day_long_over_does_not_falsify_it(
    run: Callable[..., TaskOutcome], analytics_sandbox: SandboxServer, tmp_path: Path, late: str, state: str
) -> None:
    day = (TODAY - timedelta(days=3)).date().isoformat()
    task = run(partition_date=day, late=late)
    assert (task.state, task.try_number) == (state, 1)
    if state == "success":
        assert (task.returned["snapshot_date"], task.returned["late"]) == (day, True)
        assert not task.returned["observed_at"].startswith(day)
    else:
        assert (list(tmp_path.iterdir()), analytics_sandbox.requests) == ([], [])


def test_a_named_day_wins_and_is_a_template(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    arguments = {"base_path": "{{ dag_run.conf['base'] }}", "partition_date": "{{ dag_run.conf['day'] }}"}
    dag = make_dag(**arguments, asset=snapshot_asset())
    today, in_three_days = (str((TODAY + timedelta(days=days)).date()) for days in (0, 3))
    for day, end in ((today, ("success", 1)), ("soon", ("failed", 1)), (in_three_days, ("failed", 1))):
        task = run_dag(dag, conf={"base": f"file://{tmp_path}", "day": day}).tasks["snapshot"]
        assert (task.state, task.try_number) == end
    assert [path.name for path in tmp_path.glob("_websites/dt=*")] == [f"dt={today}"]


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
        {"late": "perhaps"},
        {"analytics_conn_id": "nobody_made_this"},
        {"operator": CompareSnapshotsOperator, "on_change": "shout"},
        {"operator": PruneSnapshotsOperator},  # keeps none
    ],
    ids=str,
)
def test_what_a_retry_cannot_mend_fails_at_once(
    run: Callable[..., TaskOutcome], tmp_path: Path, arguments: dict[str, Any]
) -> None:
    task = run(**arguments)
    assert (task.state, task.try_number, list(tmp_path.iterdir())) == ("failed", 1, [])


def test_storage_that_refuses_is_tried_again(run: Callable[..., TaskOutcome], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    task = run(base_path=str(tmp_path / "file"))
    assert (task.state, task.try_number) == ("failed", 2)


def test_only_favourites(run: Callable[..., TaskOutcome], analytics_sandbox: SandboxServer) -> None:
    for number in range(5):
        analytics_sandbox.add_website(f"{number}.example", favorite=True)
    returned = run(favorite=True).returned
    favorites = sum(website["favorite"] for website in analytics_sandbox.websites())
    assert returned["count"] == favorites < len(analytics_sandbox.websites())
    assert json.loads(Path(returned["manifest"]).read_bytes())["filters"] == {"favorite": True}


def test_the_asset_event_is_emitted_beside_the_users_own(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    theirs = Asset("file:///their/own")
    dag = make_dag(base_path=str(tmp_path), outlets=[theirs])
    assert [outlet.uri for outlet in dag.get_task("snapshot").outlets][:2] == [theirs.uri, snapshot_asset().uri]
    register_assets(dag)
    returned = run_dag(dag).tasks["snapshot"].returned
    assert last_asset_event(snapshot_asset().uri) == returned


@pytest.mark.parametrize("params", [{}, {"accept": []}])
def test_a_guard_says_where_its_finding_is_accepted(
    run_dag: RunDag,
    run: Callable[..., TaskOutcome],
    analytics_sandbox: SandboxServer,
    tmp_path: Path,
    task_log: Callable[[], str],
    params: dict[str, Any],
) -> None:
    run()
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
    # Airflow 3.0 logs an error in a box, with escapes.
    logged = " ".join(re.findall(r"[^\s\u2502\\]+", task_log().replace("\\n", " ")))
    assert f"If this is intended, {' '.join(how.split())}" in logged


def test_what_a_guard_found_is_accepted_by_name(
    run: Callable[..., TaskOutcome], analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.seed(17)
    run()
    analytics_sandbox.reset()
    analytics_sandbox.seed(5)
    accepted = [["source"], "count", ["count"], '["count"]', "['count']"]
    states = [run(accept=accept).state for accept in accepted]
    assert states == ["failed", "success", "success", "success", "failed"]


def test_a_first_night_says_that_it_is_the_first_and_what_the_service_does_not_return(
    run: Callable[..., TaskOutcome], analytics_sandbox: SandboxServer, task_log: Callable[[], str]
) -> None:
    analytics_sandbox.configure(list_hides=["favorite"])
    returned = run().returned
    assert [returned[name] for name in ("first", "previous", "removed")] == [True, None, None]
    assert returned["fields"]["missing"] == ["favorite"]
    log = task_log()
    assert f"Published 3 websites as {returned['snapshot_date']}, the first snapshot" in log
    assert "The records differ from the documented fields; missing: favorite" in log


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity", "1e999", r'"\ud800"'])
def test_what_is_no_json_is_refused(analytics_sandbox: SandboxServer, tmp_path: Path, written: str) -> None:
    body = f'{{"data": [{{"id": 2, "domain": "b.example.com", "extra": {written}}}], "total": 1}}'.encode()
    analytics_sandbox.fault("list", body=body, headers={"Content-Type": "application/json"}, times=None)
    with pytest.raises(UnexpectedResponseError, match=r"The response is not JSON \("):
        SnapshotWebsitesOperator(task_id="take", base_path=str(tmp_path)).execute({})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("base_path", "remedy"),
    [
        ("gs://bucket/path", "install apache-airflow-providers-google on the workers"),
        ("abfss://conn@container/path", "install apache-airflow-providers-microsoft-azure on the workers"),
        ("webhdfs9://host/path", "allowed: file, s3, gs, abfs, abfss, adl"),
    ],
)
def test_a_scheme_without_a_provider_names_the_package(
    analytics_sandbox: SandboxServer, base_path: str, remedy: str
) -> None:
    said = f"no file system for {base_path.partition(':')[0]}://"
    with pytest.raises(AirflowFailException, match=re.escape(said)) as raised:
        SnapshotWebsitesOperator(task_id="snapshot", base_path=base_path).execute({})
    assert remedy in str(raised.value)
    assert f"base_path={base_path!r}" in str(raised.value)
    assert analytics_sandbox.requests == []


def test_no_connection_is_named_in_what_is_handed_on() -> None:
    path = storage_path("file://my_conn@/data/analytics/", "base_path") / "websites"
    assert (str(path), path.path) == ("file:///data/analytics/websites", "/data/analytics/websites")


@pytest.mark.parametrize(("on_change", "state"), [("report", "success"), ("fail", "failed"), ("skip", "skipped")])
def test_two_snapshots_are_compared(
    run: Callable[..., TaskOutcome], tmp_path: Path, on_change: str, state: str
) -> None:
    Shelf(str(tmp_path)).take(5)
    Shelf(str(tmp_path)).take([{"id": 6, "domain": "new.example.com"}, *websites(5)], NIGHT)
    task = run(CompareSnapshotsOperator, on_change=on_change)
    assert (task.state, task.try_number) == (state, 1)
    if state == "success":
        assert (task.returned["previous"], task.returned["added"]) == ("2026-11-20", 1)
        assert task.returned["changes"][0]["domain"] == "new.example.com"
        assert "new.example.com" in Path(task.returned["jsonl"]).read_text()


def test_a_change_that_fails_the_task_is_named(tmp_path: Path) -> None:
    shelf, before = Shelf(str(tmp_path)), websites(30, privacy=1, exclude_ips="192.0.2.1")[::-1]
    shelf.take(before[::-1])
    others = [website | {"exclude_ips": "192.0.2.7"} for website in before[2:19]]
    after = [before[1] | {"privacy": 0}, *others, *before[19:], {"id": 31, "domain": "new.example"}]
    shelf.take(after[::-1], NIGHT)
    compare = CompareSnapshotsOperator(task_id="compare", base_path=str(tmp_path), on_change="fail")
    with pytest.raises(AirflowFailException) as caught:
        compare.execute({})
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "The website list changed: 1 removed, 18 changed (1 in privacy), 1 added, from 2026-11-20 to 2026-11-21."
    )
    assert lines[1:4] == [
        "removed site-1.example.com (id 1)",
        "changed site-2.example.com (id 2): privacy private -> public",
        "changed site-19.example.com (id 19): exclude_ips - 192.0.2.1 + 192.0.2.7",
    ]
    assert lines[11:] == [
        "and 10 more",
        f"All changes: {tmp_path}/_websites/dt=2026-11-21/_since-2026-11-20.jsonl.",
        "Not retried: on_change='fail' is set.",
    ]


@pytest.mark.parametrize(("dry_run", "left"), [(True, 3), (False, 1)])
def test_old_snapshots_are_removed(run: Callable[..., TaskOutcome], tmp_path: Path, dry_run: bool, left: int) -> None:
    for night in range(3):
        Shelf(str(tmp_path)).take(3, night * NIGHT)
    assert run(PruneSnapshotsOperator, keep_days=1, dry_run=dry_run).returned == {
        "path": f"{tmp_path}/websites",
        "dry_run": dry_run,
        "kept": 1,
        "removed": ["2026-11-21", "2026-11-20"],
        "damaged": {},
        "leftovers": [],
        "unknown": [],
        "files": 7,  # the first snapshot is compared with none
    }
    assert len(list(tmp_path.glob("websites/*/*"))) == left
