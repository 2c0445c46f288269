"""What the task log shows of an error: the reason, below few frames, whether the task is retried or not."""

from __future__ import annotations

import errno
import os
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_versions import AIRFLOW_2, needs_exceptions_in_callbacks
from dag_runs import RunDag

import airflow_provider_analytics
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = needs_exceptions_in_callbacks

PACKAGE = str(Path(airflow_provider_analytics.__file__).parent)
#: Frames of Airflow 3 before an operator runs are five, for a template seven; those of Airflow 2 are ten.
MAX_FRAMES = 15 if AIRFLOW_2 else 9
#: A frame is two or three lines of a screen of about 50.
MAX_OWN_FRAMES = 3
SNAPSHOT = (SnapshotWebsitesOperator, {"base_path": "/folder"})
SYNC = (SyncExcludedIpsOperator, {"exclude_ips": "203.0.113.7"})
MISSING: dict[str, Any] = {"exclude_ips": ["{{ var.value.nowhere }}"]}


@pytest.mark.parametrize(
    ("task", "fault", "reason"),
    [
        pytest.param(SNAPSHOT, {"status": 503}, "503 Service Unavailable", id="snapshot, 503"),
        pytest.param(SYNC, {"status": 503}, "503 Service Unavailable", id="sync, 503"),
        pytest.param(SNAPSHOT, {"body": "<html>Log in</html>"}, "is a web page", id="HTML"),
        pytest.param(SYNC, {"drop": True}, "connection", id="no connection"),
        pytest.param(SNAPSHOT, {"status": 401}, "Not retried: correct", id="snapshot, not retried"),
        pytest.param(SYNC, {"status": 401}, "Not retried: correct", id="sync, not retried"),
        pytest.param((SyncExcludedIpsOperator, MISSING), {}, "Variable nowhere", id="no Variable"),
        pytest.param((SyncExcludedIpsOperator.partial, MISSING), {}, "Variable nowhere", id="no Variable, mapped"),
        pytest.param((SNAPSHOT[0], {"base_path": "/folder/file/a"}), {}, "/file/a", id="snapshot, no folder"),
        pytest.param((CompareSnapshotsOperator, {"base_path": "/folder/file/a"}), {}, "/file/a", id="no snapshots"),
        pytest.param((SYNC[0], {**SYNC[1], "state_path": "/folder/file/a"}), {}, "/file/a", id="no state folder"),
        pytest.param(SNAPSHOT, {"disk": "full"}, "No space left on device", id="full disk"),
    ],
)
def test_the_reason_is_on_the_first_screen(
    run_dag: RunDag,
    sandbox: SandboxServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    task: Any,
    fault: dict[str, Any],
    reason: str,
) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sandbox.seed(20)
    (tmp_path / "file").write_text("x")
    if "disk" in fault:
        monkeypatch.setattr("airflow_provider_analytics.storage.os.fsync", fsync)
    elif fault:
        sandbox.fault(**fault, times=None)
    operator, given = task
    arguments = {
        name: value.replace("/folder", str(tmp_path)) if isinstance(value, str) else value
        for name, value in given.items()
    }
    raised: list[BaseException] = []
    arguments["on_failure_callback"] = lambda context: raised.append(context["exception"])
    with DAG("first_screen", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        made = operator(task_id="task", **arguments)
        if not isinstance(operator, type):
            made.expand(analytics_conn_id=["analytics_default"])
    assert run_dag(dag).state == "failed"
    lines = traceback.format_exception(raised[0])
    frames = [line for line in "".join(lines).splitlines() if line.startswith("  File ")]
    assert sum(PACKAGE in frame for frame in frames) <= MAX_OWN_FRAMES, "".join(lines)
    assert len(frames) <= MAX_FRAMES, "".join(lines)
    assert reason in lines[-1]
