# SPDX-License-Identifier: Apache-2.0
"""Snapshot operators in real DAG runs against the sandbox, and on an S3 server (``operators/snapshots.py``)."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowNotFoundException, Asset
from airflow_versions import FILE_SYSTEMS, attach, last_asset_event, needs_whole_lines, register_assets
from dag_runs import RunDag, TaskOutcome
from shelf import HOUR, NIGHT, NOON, Shelf, held, own, websites
from upath import UPath

from airflow_provider_analytics.exceptions import AnalyticsError, StorageError
from airflow_provider_analytics.hooks.connection import storage_path
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
    snapshot_asset,
)
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots import publish
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.retention import Retention, plan_pruning, prune
from airflow_provider_analytics.storage import StoragePath, put_bytes, temporary_folder

TODAY = datetime.now(UTC)
AZURE = "abfss://cont@acct.dfs.core.windows.net/analytics"


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


def test_run_publishes_a_complete_snapshot(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    analytics_sandbox.seed(250)
    returned = run_dag(make_dag(base_path=f"file://{tmp_path}")).tasks["snapshot"].returned
    today = datetime.now(UTC).date()
    snapshot = Shelf(str(tmp_path)).read(today)
    assert snapshot is not None
    rows = list(snapshot.rows())
    assert [int(row["id"]) for row in rows] == list(range(250, 0, -1))
    assert {(row["snapshot_date"], row["observed_at"]) for row in rows} == {(str(today), rows[0]["observed_at"])}
    assert (returned["path"], returned["is_first"]) == (f"file://{tmp_path}/websites/dt={today}", True)
    assert (returned["count"], returned["digest"]) == (250, snapshot.digest)
    # The account, three pages of a hundred, the oldest websites, and the newest again.
    assert (snapshot.manifest.requests, held(snapshot)) == (6, own(snapshot))


def test_retry_removes_the_files_of_a_killed_try(
    run: Callable[..., TaskOutcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def dies_once(target: StoragePath, *arguments: Any) -> None:
        if target.name == "_manifest.json" and not tries:
            tries.append(len(list(tmp_path.glob("websites/*/*"))))
            raise TimeoutError
        put_bytes(target, *arguments)

    monkeypatch.setattr(publish, "put_bytes", dies_once)
    monkeypatch.setattr(publish, "_remove_all", lambda *_: None)
    assert (run().try_number, tries) == (2, [1])
    assert len(list(tmp_path.glob("websites/*/*"))) == 1


def test_rendered_partition_date_decides_the_day_of_the_snapshot(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
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
        # As templates: wrong literals fail when the DAG is parsed.
        *({name: "{{ 'wrong' }}"} for name in ("format", "max_loss_fraction", "on_late", "override_guards")),
        *(
            {"base_path": "file://host/path"},
            {"override_guards": "{{ 3 }}"},
            {"ignore_fields": "{{ 'visits' }}"},
            {"snapshot_name": "_hidden"},
        ),
        {"analytics_conn_id": "nobody_made_this"},
        {"operator": CompareSnapshotsOperator, "on_change": "{{ 'shout' }}"},
        {"operator": PruneSnapshotsOperator},  # keeps no snapshot
    ],
    ids=str,
)
def test_permanent_failure_is_not_retried(
    run: Callable[..., TaskOutcome], tmp_path: Path, arguments: dict[str, Any]
) -> None:
    task = run(**arguments)
    assert (task.state, task.try_number, list(tmp_path.iterdir())) == ("failed", 1, [])


def test_snapshot_can_contain_only_favorites(run: Callable[..., TaskOutcome], analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example", favorite=True)
    favorites = sum(website["favorite"] for website in analytics_sandbox.websites())
    returned = run(favorite=True).returned
    assert returned["count"] == favorites < len(analytics_sandbox.websites())
    assert json.loads(Path(returned["manifest"]).read_bytes())["filters"] == {"favorite": True}


def test_asset_event_is_emitted_in_addition_to_the_users_outlets(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    theirs = Asset("file:///their/own")
    dag = make_dag(base_path=str(tmp_path), outlets=[theirs])
    assert [outlet.uri for outlet in dag.get_task("snapshot").outlets][:2] == [theirs.uri, snapshot_asset().uri]
    register_assets(dag)
    returned = run_dag(dag).tasks["snapshot"].returned
    assert last_asset_event(snapshot_asset().uri) == returned


@needs_whole_lines
def test_command_that_overrides_a_guard_repeats_the_other_values_of_the_run(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, task_log: Callable[[], str]
) -> None:
    """Without ``only``, the command could override the guard for all instances."""
    Shelf(str(tmp_path)).take(3, TODAY - NIGHT, source=ListSource(url=analytics_sandbox.url, account_id="1"))
    dag = make_dag(base_path=str(tmp_path))
    dag.params.update(override_guards=[], only=[], note="")
    run_dag(dag, conf={"only": ["client_a"], "note": "it's late"})
    log = " ".join(re.findall(r"[^\s\u2502\\]+", task_log().replace("\\n", " ")))
    how = "If this is intended, select fewer_websites under Override guards in the trigger form, or run: "
    command = re.search(rf"{how}airflow dags trigger {dag.dag_id} --conf (.*?) (?:Service|Not retried)", log)
    assert command
    [conf] = shlex.split(command[1])
    assert json.loads(conf) == {"only": ["client_a"], "note": "it's late", "override_guards": ["fewer_websites"]}


def test_guard_is_overridden_by_its_name(run: Callable[..., TaskOutcome], analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.seed(17)
    run()
    analytics_sandbox.reset()
    analytics_sandbox.seed(5)
    assert run().state == "failed"
    # The list, and the oldest websites: a blocked list is read once.
    assert [request.operation for request in analytics_sandbox.requests].count("list") == 2
    python_list = """{{ "['fewer_websites']" }}"""  # a literal fails when the DAG is parsed
    overridden = [["other_source"], "fewer_websites", ["fewer_websites"], '["fewer_websites"]', python_list]
    states = [run(override_guards=guards).state for guards in overridden]
    assert states == ["failed", "success", "success", "success", "failed"]


def test_losses_and_fields_are_compared_as_the_arguments_say(
    run: Callable[..., TaskOutcome], analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.seed(12)
    yesterday = str((TODAY - timedelta(days=1)).date())
    assert run(partition_date=yesterday, on_late="publish").state == "success"
    for website_id in range(1, 6):
        analytics_sandbox.remove_website(website_id)
    analytics_sandbox.change_website(7, privacy=1)
    assert run().state == "failed"
    done = run(max_loss_fraction=0.5, ignore_fields=["privacy"]).returned
    assert (done["removed"], done["changed"]) == (5, 0)
    assert run(max_loss_fraction=0.5).returned["changed"] == 1


def test_storage_path_omits_the_connection() -> None:
    path = storage_path("file://my_conn@/data/analytics/", "base_path") / "websites"
    assert (str(path), path.path) == ("file:///data/analytics/websites", "/data/analytics/websites")


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("url", ["memory://bucket", "memory://bucket/", "memory://bucket/analytics/"])
def test_storage_path_is_written_as_the_user_wrote_it(url: str) -> None:
    path = storage_path(url, "base_path")
    assert str(path) == url
    assert str(path / "websites") == f"{url.rstrip('/')}/websites"


@pytest.mark.parametrize(
    ("url", "error", "problem"),
    [
        # Azure writes the container before the @, where Airflow reads a connection id.
        (AZURE, AirflowNotFoundException("isn't defined"), f"base_path='{AZURE}'.* has no connection 'cont'"),
        ("abfss://cont/analytics", AirflowNotFoundException("isn't defined"), "^isn't defined$"),
        (AZURE, ValueError("The account is disabled"), "^The account is disabled$"),
        ("gs://bucket", None, r"no file system for gs://\.\sInstall apache-airflow-providers-google"),
        ("ftp://host/analytics", None, "no file system for ftp://. Allowed: file, s3, gs"),
    ],
)
def test_storage_url_that_cannot_be_used_is_an_error_with_the_cause(
    url: str, error: Exception | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def file_system(*_: object) -> Any:
        assert error is not None
        raise error

    monkeypatch.setattr(f"{FILE_SYSTEMS}._register_filesystems", lambda: {"abfss": file_system})
    with pytest.raises((ValueError, AnalyticsError, AirflowNotFoundException), match=problem):
        storage_path(url, "base_path")


def test_snapshots_of_two_days_are_compared(run: Callable[..., TaskOutcome], tmp_path: Path) -> None:
    Shelf(str(tmp_path)).take(5)
    Shelf(str(tmp_path)).take([{"id": 6, "domain": "new.example.com"}, *websites(5)], NIGHT)
    returned = run(CompareSnapshotsOperator).returned
    assert (returned["previous"], returned["added"]) == ("2026-11-20", 1)
    assert returned["changes"][0]["domain"] == "new.example.com"
    assert "new.example.com" in Path(returned["changes_path"]).read_text()
    assert run(CompareSnapshotsOperator, on_change="skip").state == "skipped"


@pytest.mark.parametrize(
    ("given", "previous", "changed"),
    [
        ({}, "2026-11-21", 2),
        ({"previous": "2026-11-20"}, "2026-11-20", 3),
        ({"current": "2026-11-21"}, "2026-11-20", 1),
        ({"ignore_fields": ["privacy"]}, "2026-11-21", 0),
    ],
)
def test_comparison_has_the_given_days_and_fields(tmp_path: Path, given: Any, previous: str, changed: int) -> None:
    for night, closed in enumerate((0, 1, 3)):
        listed = websites(5, privacy=0)
        for website in listed[:closed]:
            website["privacy"] = 1
        Shelf(str(tmp_path)).take(listed, night * NIGHT)
    operator = CompareSnapshotsOperator(task_id="compare", base_path=str(tmp_path), **given)
    returned = operator.execute({})
    assert (returned["previous"], returned["changed"]) == (previous, changed)


def test_change_that_fails_the_task_is_named(tmp_path: Path) -> None:
    shelf, before = Shelf(str(tmp_path)), websites(30, privacy=1, exclude_ips="192.0.2.1")
    shelf.take(before)
    edited = [website | {"exclude_ips": "192.0.2.7"} for website in before[11:28]]
    shelf.take([{"id": 31, "domain": "new.example"}, *before[:11], *edited, before[28] | {"privacy": 0}], NIGHT)
    with pytest.raises(AirflowFailException) as caught:
        CompareSnapshotsOperator(task_id="compare", base_path=str(tmp_path), on_change="fail").execute({})
    lines = str(caught.value).splitlines()
    assert [*lines[:4], *lines[11:]] == [
        "The website list changed: 1 removed, 18 changed (1 in privacy), 1 added, from 2026-11-20 to 2026-11-21.",
        "removed site-1.example.com (id 1)",
        "changed site-2.example.com (id 2): privacy private → public",
        "changed site-19.example.com (id 19): exclude_ips +192.0.2.7, \u2212192.0.2.1",
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
        "orphaned_files": [],
        "unknown": [],
        "files": 7,  # the first snapshot has no comparison
    }
    assert len(list(tmp_path.glob("websites/*/*"))) == left


@pytest.mark.parametrize(
    ("kept", "removed"),
    [
        ({"keep_days": 2}, ["2026-11-20"]),
        ({"keep_weeks": 2}, ["2026-11-23"]),
        ({"keep_months": 2}, ["2026-11-23", "2026-11-20"]),
    ],
)
def test_days_weeks_and_months_are_kept_by_the_argument_of_their_name(
    run: Callable[..., TaskOutcome], tmp_path: Path, kept: dict[str, int], removed: list[str]
) -> None:
    for night in (0, 3, 7):
        Shelf(str(tmp_path)).take(3, night * NIGHT)
    assert run(PruneSnapshotsOperator, **kept).returned["removed"] == removed


def test_log_names_the_days_that_are_not_whole_and_the_days_without_a_manifest(
    run: Callable[..., TaskOutcome], tmp_path: Path, task_log: Callable[[], str]
) -> None:
    shelf = Shelf(str(tmp_path))
    for night in range(3):
        taken = shelf.take(3, night * NIGHT)
    Path(taken.files[0].path).unlink()
    other = tmp_path / "websites" / "dt=2026-01-31"
    other.mkdir()
    (other / "of-others.jsonl").write_text("{}")
    run(PruneSnapshotsOperator, keep_days=1)
    log = task_log()
    assert re.search(r"snapshot of 2026-11-22 .*damaged", log)
    assert re.search(r"no manifest.* 2026-01-31", log)


@pytest.fixture
def bucket(s3: dict[str, Any]) -> Shelf:
    shelf = Shelf(StoragePath.of(UPath(f"s3://bucket-{uuid.uuid4().hex}/analytics", **s3)))
    with pytest.raises(StorageError, match=r"Cannot write the snapshot to s3://bucket-.*bucket"):
        shelf.take(3)  # a missing bucket is not created
    shelf.fs.mkdir(str(shelf.base).split("/")[2])
    return shelf


@pytest.mark.slow  # the S3 libraries of both sides take seconds to load
@pytest.mark.parametrize(("file_format", "compression"), [("jsonl", "gzip"), ("csv", "gzip"), ("parquet", None)])
def test_snapshot_in_s3_is_written_replaced_read_and_removed(
    bucket: Shelf, file_format: str, compression: str | None
) -> None:
    first, second, third = (
        bucket.take(count, when, format=file_format, compression=compression, html_report=True)
        for count, when in ((120, NOON), (121, HOUR), (121, NIGHT))
    )
    for snapshot in (second, third):
        day = snapshot.manifest.snapshot_date
        assert (bucket.read(day), bucket.count(day), held(snapshot)) == (snapshot, 121, own(snapshot))
    assert first.manifest.file_names.isdisjoint(held(second))
    assert third.manifest.previous is not None
    assert bucket.days() == {21: True, 20: True}
    prune(bucket.series, plan_pruning(bucket.series, Retention(1), NOON, remove_damaged=False))
    assert (bucket.days(), held(second)) == ({21: True}, [])
    assert str(third.partition.data).startswith("s3://bucket-")


@pytest.mark.slow
@pytest.mark.chosen
def test_operator_writes_to_s3(
    run_dag: RunDag, bucket: Shelf, s3: dict[str, Any], analytics_sandbox: SandboxServer
) -> None:
    attach("s3", bucket.fs)
    analytics_sandbox.seed(120)
    with DAG(f"s3_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path=str(bucket.base), html_report=True)
        snapshot >> CompareSnapshotsOperator(task_id="compare", base_path=str(bucket.base))
    returned = run_dag(dag).tasks["snapshot"].returned
    read = bucket.read(returned["snapshot_date"])
    assert read
    assert (read.digest, bucket.count(returned["snapshot_date"])) == (returned["digest"], 120)
    assert returned["path"].startswith(str(bucket.base))
    assert returned["report"].startswith(f"{bucket.base}/_websites/")


def test_temporary_folder_of_a_killed_process_is_removed_by_a_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        left = folder
    left.mkdir()  # as if no process had removed it
    others, link = tmp_path / "of-somebody-else", tmp_path / "analytics-snapshot-of-somebody"
    others.mkdir()
    link.symlink_to(others)
    for hours, names in ((47, {left.name, others.name, link.name}), (49, {others.name, link.name})):
        then = time.time() - hours * 3600
        for item in (left, others):
            os.utime(item, (then, then))
        with temporary_folder() as mine:
            assert {path.name for path in tmp_path.iterdir()} == {mine.name, *names}
        assert not mine.exists()


def test_worker_without_a_writable_temporary_folder_is_told_about_tmpdir(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp', '/']")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", fail)
    with pytest.raises(StorageError, match=r"No usable temporary directory found.*\s.*TMPDIR"), temporary_folder():
        pass
    monkeypatch.setattr(tempfile, "tempdir", "/proc/self")
    with pytest.raises(StorageError, match="TMPDIR"), temporary_folder():
        pass
