# SPDX-License-Identifier: Apache-2.0
"""Errors in the task log: the reason is visible below few frames, with and without a retry (``operators/base.py``)."""

from __future__ import annotations

import errno
import os
import traceback
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute

import airflow_provider_analytics
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

PACKAGE = str(Path(airflow_provider_analytics.__file__).parent)
#: A frame has two or three lines of a screen of about 50.
MAX_FRAMES = 3
SNAPSHOT = {"base_path": "/folder"}
SYNC = {"exclude_ips": "203.0.113.7"}


def assert_short(error: BaseException, reason: str) -> None:
    lines = traceback.format_exception(error)
    assert sum(f'File "{PACKAGE}' in line for line in lines) <= MAX_FRAMES, "".join(lines)
    assert reason in lines[-1]


@pytest.mark.parametrize(
    ("operator", "arguments", "fault", "reason"),
    [
        (SyncExcludedIpsOperator, SYNC, {"status": 503}, "503 Service Unavailable"),
        (SnapshotWebsitesOperator, SNAPSHOT, {"body": "<html>Log in</html>"}, "is a web page"),
        (SyncExcludedIpsOperator, SYNC, {"drop": True}, "connection"),
        (SyncExcludedIpsOperator, SYNC, {"status": 401}, "Not retried: correct"),
        (SnapshotWebsitesOperator, {"base_path": "/folder/file/a"}, {}, "/file/a"),
        (CompareSnapshotsOperator, {"base_path": "/folder/file/a"}, {}, "/file/a"),
        (SyncExcludedIpsOperator, {**SYNC, "state_path": "/folder/file/a"}, {}, "/file/a"),
        (SnapshotWebsitesOperator, SNAPSHOT, {"disk": "full"}, "No space left on device"),
    ],
)
def test_first_screen_of_the_log_contains_the_reason(
    sandbox: SandboxServer,
    execute: Execute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operator: Any,
    arguments: dict[str, Any],
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
    given = {name: value.replace("/folder", str(tmp_path)) for name, value in arguments.items()}
    with pytest.raises((AirflowFailException, AnalyticsError)) as caught:
        execute(operator, **given)
    assert_short(caught.value, reason)


def test_error_names_the_service_and_the_connection_once(
    sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    sandbox.seed(20)
    execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
    for website in sandbox.websites():
        sandbox.remove_website(website["id"])
    with pytest.raises(AirflowFailException) as of_a_guard:
        execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
    sandbox.fault(status=404, times=None)
    with pytest.raises((AirflowFailException, AnalyticsError)) as of_service:
        execute(SyncExcludedIpsOperator, **SYNC)
    for caught in (of_a_guard, of_service):
        assert str(caught.value).count(f"Service: {sandbox.url}, connection 'analytics_default'.") == 1


def test_error_of_a_connection_that_cannot_be_used_names_no_service(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", '{"conn_type": "analytics", "host": "https://stats.example.com"}')
    with pytest.raises(AirflowFailException) as caught:
        execute(SyncExcludedIpsOperator, **SYNC, analytics_conn_id="broken")
    assert "Connection 'broken': " in str(caught.value)
    assert "Service: " not in str(caught.value)


def test_first_screen_of_the_log_contains_the_reason_of_a_template() -> None:
    task = SyncExcludedIpsOperator(task_id="task", exclude_ips=["{{ 1 / 0 }}"])
    with pytest.raises(ZeroDivisionError) as caught:
        task.render_template_fields({})
    assert_short(caught.value, "division by zero")
    assert PACKAGE in traceback.format_exception(caught.value)[-2], "no frame of Jinja is below the package's own"
