"""What the task log shows of an error: the reason, below few frames, whether the task is retried or not."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable
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

Failing = Callable[..., BaseException]


@pytest.fixture
def failing(run_dag: RunDag, sandbox: SandboxServer) -> Failing:
    """Run a task that fails, and return its exception as Airflow logs it."""
    sandbox.seed(20)

    def run(operator: Any, *, mapped: bool = False, **arguments: Any) -> BaseException:
        raised: list[BaseException] = []
        start = datetime(2026, 1, 1, tzinfo=UTC)
        kept = {"on_failure_callback": lambda context: raised.append(context["exception"])}
        with DAG("first_screen", schedule=None, start_date=start) as dag:
            if mapped:
                operator.partial(task_id="task", **kept, **arguments).expand(analytics_conn_id=["analytics_default"])
            else:
                operator(task_id="task", **kept, **arguments)
        assert run_dag(dag).state == "failed"
        return raised[0]

    return run


def assert_short(error: BaseException, reason: str) -> None:
    lines = traceback.format_exception(error)
    frames = [line for line in "".join(lines).splitlines() if line.startswith("  File ")]
    assert sum(PACKAGE in frame for frame in frames) <= MAX_OWN_FRAMES, "".join(lines)
    assert len(frames) <= MAX_FRAMES, "".join(lines)
    assert reason in lines[-1]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param({"status": 503}, "503 Service Unavailable", id="503"),
        pytest.param({"status": 429}, "429 Too Many Requests", id="429"),
        pytest.param({"status": 200, "body": "<html>Log in</html>"}, "is a web page", id="HTML"),
        pytest.param({"drop": True}, "connection", id="no connection"),
        pytest.param({"status": 401}, "Not retried: correct", id="401, not retried"),
    ],
)
@pytest.mark.parametrize("operator", [SnapshotWebsitesOperator, SyncExcludedIpsOperator])
def test_the_reason_of_what_the_service_does(
    failing: Failing, sandbox: SandboxServer, tmp_path: Path, operator: Any, fault: dict[str, Any], reason: str
) -> None:
    sandbox.fault(**fault, times=None)
    snapshot = operator is SnapshotWebsitesOperator
    arguments = {"base_path": str(tmp_path)} if snapshot else {"exclude_ips": "203.0.113.7"}
    assert_short(failing(operator, **arguments), reason)


@pytest.mark.parametrize("operator", [SnapshotWebsitesOperator, SyncExcludedIpsOperator])
def test_a_list_that_came_short_says_that_it_was_not_used_and_what_to_do(
    failing: Failing, sandbox: SandboxServer, tmp_path: Path, operator: Any
) -> None:
    sandbox.configure(total_offset=3)
    snapshot = operator is SnapshotWebsitesOperator
    error = str(failing(operator, **({"base_path": str(tmp_path)} if snapshot else {"exclude_ips": "203.0.113.7"})))
    assert "by the check 'total': the total is 23, but 20 websites were found." in error
    assert "The same was seen each time. No part of the list was published or used." in error
    assert "If this persists, run: airflow-provider-analytics probe" in error
    assert "list changed" not in error
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("mapped", [False, True])
def test_the_reason_of_a_variable_that_is_missing(failing: Failing, mapped: bool) -> None:
    error = failing(SyncExcludedIpsOperator, mapped=mapped, exclude_ips=["{{ var.value.nowhere }}"])
    assert_short(error, "Variable nowhere")


@pytest.mark.parametrize("operator", [SnapshotWebsitesOperator, CompareSnapshotsOperator])
def test_the_reason_of_a_path_that_is_not_a_folder(failing: Failing, tmp_path: Path, operator: Any) -> None:
    (tmp_path / "file").write_text("x")
    assert_short(failing(operator, base_path=str(tmp_path / "file" / "base")), f"{tmp_path}/file/base")


def test_the_reason_of_a_state_folder_that_cannot_be_written(failing: Failing, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    state_path = str(tmp_path / "file" / "state")
    assert_short(failing(SyncExcludedIpsOperator, exclude_ips="203.0.113.7", state_path=state_path), state_path)


def test_the_reason_of_a_disk_that_is_full(failing: Failing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("airflow_provider_analytics.storage.os.fsync", fsync)
    assert_short(failing(SnapshotWebsitesOperator, base_path=str(tmp_path)), "No space left on device")
