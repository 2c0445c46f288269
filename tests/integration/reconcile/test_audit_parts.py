"""The audit trail on storage that cannot append: what a killed process has changed is named all the same."""

from __future__ import annotations

import itertools
import json
import threading
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from airflow_versions import allow_execute_in_this_thread, attach
from distortion import Distortion
from fixture_types import Execute
from task_process import TaskProcess

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.operators import audit
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

NEW = "203.0.113.7"


def changed(sandbox: SandboxServer) -> list[str]:
    return sorted(str(website["id"]) for website in sandbox.websites() if NEW in (website["exclude_ips"] or ""))


def audited(file_system: Any, folder: str) -> list[str]:
    """Return the ids of the websites that the parts name."""
    file_system.invalidate_cache()
    parts = sorted(file_system.find(folder))
    lines = b"".join(file_system.cat_file(part) for part in parts).splitlines()
    return sorted(json.loads(line)["website_id"] for line in lines)


@pytest.fixture
def memory() -> Any:
    file_system = fsspec.filesystem("memory")
    attach("memory", file_system)
    return file_system


def test_parts_appear_while_changes_are_applied(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    execute: Execute,
    memory: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "PART_SECONDS", 0.01)
    for number in range(1, 9):
        analytics_sandbox.add_website(f"{number}.example")
    folder = f"/{uuid.uuid4().hex}"
    seen: list[bool] = []

    def wait_for_those_before(method: str, path: str) -> None:
        if method == "PATCH":
            before, turn = changed(analytics_sandbox), threading.Event()
            seen.append(any(audited(memory, folder) == before or turn.wait(0.01) for _ in range(1000)))

    distortion.before = wait_for_those_before
    arguments = {"exclude_ips": [NEW], "mode": "merge", "parallel_requests": 1, "state_path": f"memory:/{folder}"}
    execute(SyncExcludedIpsOperator, **arguments)
    assert seen == [True] * 8
    assert audited(memory, folder) == changed(analytics_sandbox)
    names = [part.rpartition("/")[2] for part in sorted(memory.find(folder))]
    assert [name.partition("-sync-")[2] for name in names] == [f"-1-1-{number:04}.jsonl" for number in range(1, 9)]
    # The same try once more, as a worker that was thought dead: nothing is overwritten.
    distortion.before = lambda method, path: None
    execute(SyncExcludedIpsOperator, **{**arguments, "exclude_ips": ["203.0.113.8"]})
    assert len(audited(memory, folder)) == 16


def test_no_change_is_applied_any_more_once_it_cannot_be_recorded(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    execute: Execute,
    memory: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "PART_SECONDS", 0.01)
    for number in range(1, 31):
        analytics_sandbox.add_website(f"{number}.example")
    tried, patches = threading.Event(), itertools.count(1)

    def refuse(*arguments: Any, **more: Any) -> None:
        tried.set()
        raise OSError("no space left")

    monkeypatch.setattr(type(memory), "pipe_file", refuse)

    def hold_the_second(method: str, path: str) -> None:
        if method == "PATCH" and next(patches) == 2:
            assert tried.wait(20)

    distortion.before = hold_the_second
    with pytest.raises(StorageError, match="cannot write state_path: no space left"):
        execute(
            SyncExcludedIpsOperator,
            exclude_ips=[NEW],
            parallel_requests=1,
            state_path=f"memory://{uuid.uuid4().hex}",
            mode="merge",
        )
    assert len(changed(analytics_sandbox)) <= 4


@pytest.mark.kill
@pytest.mark.slow  # what speaks S3, on both sides, takes seconds to load
def test_a_killed_process_has_named_all_but_the_last_second(
    analytics_sandbox: SandboxServer, distortion: Distortion, s3: dict[str, Any], tmp_path: Path
) -> None:
    import s3fs

    file_system = s3fs.S3FileSystem(**s3)
    bucket = f"bucket-{uuid.uuid4().hex}"
    file_system.mkdir(bucket)
    for number in range(1, 61):
        analytics_sandbox.add_website(f"{number}.example")
    numbers, found = itertools.count(1), threading.Event()

    def kill_at_forty_one(method: str, path: str) -> None:
        if method != "PATCH" or next(numbers) != 41:
            return
        # A second, on a machine that does nothing else.
        for _ in range(100):
            if audited(file_system, bucket) == changed(analytics_sandbox):
                found.set()
                break
            threading.Event().wait(0.05)
        process.kill()
        process.gone.wait(20)

    distortion.before = kill_at_forty_one
    with (tmp_path / "log.txt").open("w") as log, TaskProcess(log) as process:
        arguments: dict[str, Any] = {"exclude_ips": [NEW], "mode": "merge", "state_path": f"s3://{bucket}"}
        process.start("SyncExcludedIpsOperator", s3=s3, parallel_requests=1, **arguments)
        process.wait()
    assert found.is_set()
    # The update that was under way arrives after the kill.
    named = audited(file_system, bucket)
    assert len(named) == 40
    assert set(named) <= set(changed(analytics_sandbox))
    assert Path(file_system.find(bucket)[0]).name == "the_dag-run-sync--1-1-0001.jsonl"


def test_two_processes_with_one_try_lose_no_line(analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    """As iterations of a loop, or a worker that was thought dead."""
    analytics_sandbox.add_website("a.example")
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="sync", map_index=-1, try_number=1, start_date=None)
    context: Any = {"ti": ti}
    for address in ("192.0.2.1", "192.0.2.2"):
        operator = SyncExcludedIpsOperator(task_id="sync", exclude_ips=[address], state_path=str(tmp_path))
        allow_execute_in_this_thread()
        operator.execute(context)
    [file] = tmp_path.rglob("*.jsonl")
    assert file.name == "d-r-sync--1-1.jsonl"
    assert [json.loads(line)["after"] for line in file.read_text().splitlines()] == [["192.0.2.1"], ["192.0.2.2"]]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_full_disk_is_named_and_the_log_has_what_the_audit_trail_has_not(
    analytics_sandbox: SandboxServer,
    execute: Execute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for number in range(1, 31):
        analytics_sandbox.add_website(f"{number}.example")
    arguments = {"exclude_ips": [NEW], "mode": "merge", "state_path": str(tmp_path), "parallel_requests": 2}
    full = "The storage cannot write state_path: No space left on device"
    with Path("/dev/full").open("wb") as device:
        monkeypatch.setattr("airflow_provider_analytics.operators.audit.open_own", lambda *_: device)
        with pytest.raises(StorageError, match=full):
            execute(SyncExcludedIpsOperator, **arguments)
    assert 0 < len(changed(analytics_sandbox)) <= 4
    said = [one.getMessage() for one in caplog.records if one.getMessage().startswith("Not in the audit trail: ")]
    named = {str(json.loads(one.partition(": ")[2])["website_id"]) for one in said}
    assert named >= set(map(str, changed(analytics_sandbox)))
