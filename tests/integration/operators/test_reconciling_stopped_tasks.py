# SPDX-License-Identifier: Apache-2.0
"""Stopped tasks: no further requests, and correct records (``api/waiting.py``, ``operators``)."""

from __future__ import annotations

import itertools
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_versions import AIRFLOW_2
from connections import with_parallel_requests
from dag_runs import RunDag
from distortion import Distortion
from reconciling import Night
from task_process import TaskProcess

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator

pytestmark = pytest.mark.kill

WEBSITES = 60
NEW = "203.0.113.7"
#: The end of a task that this major version of Airflow stops.
ENDS = {2: "AirflowTaskTerminated", 3: "StoppedError"}


@pytest.fixture
def process(started: TaskProcess) -> Iterator[TaskProcess]:
    yield started
    started.end_all()


@pytest.fixture(autouse=True)
def websites(night: Night, distortion: Distortion, monkeypatch: pytest.MonkeyPatch) -> None:
    night.add(WEBSITES, exclude_ips="10.0.0.1")
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", with_parallel_requests(2))


def terminate_at(process: TaskProcess, distortion: Distortion, number: int) -> Callable[[], list[float]]:
    """Terminate the process while its update number ``number`` is delayed.

    :return: start times of requests after the return of ``on_kill``, in seconds since then.
    """
    numbers = itertools.count(1)
    killed_at: list[float] = []
    later: list[float] = []
    one_at_a_time = threading.Lock()  # no other request ends while the process is terminated

    def before(asked: str, path: str) -> None:
        with one_at_a_time:
            if killed_at:
                later.append(time.monotonic() - killed_at[0])
            elif asked == "PATCH" and next(numbers) == number:
                process.terminate()
                killed_at.append(time.monotonic())

    def after() -> list[float]:
        process.wait()
        assert killed_at, process.end
        distortion.before = lambda method, path: None
        return later

    distortion.before = before
    return after


def changed(night: Night) -> set[str]:
    return {str(website["id"]) for website in night.sandbox.websites() if NEW in (website["exclude_ips"] or "")}


def audited(night: Night) -> set[str]:
    return {line["website_id"] for line in night.trail() if line["action"] == "update"}


def converges(night: Night, **arguments: Any) -> None:
    night.managed(NEW, try_number=2, **arguments)
    assert len(changed(night)) == WEBSITES
    night.managed("203.0.113.8", try_number=3, **arguments)
    assert night.lists() == ["10.0.0.1\n203.0.113.8"] * WEBSITES


@pytest.mark.parametrize("airflow", ENDS)
@pytest.mark.parametrize("number", [1, 21, WEBSITES])
@pytest.mark.chosen(2)
def test_terminated_sync_stops_and_leaves_a_correct_audit_trail(
    night: Night, distortion: Distortion, process: TaskProcess, task_log_file: Path, airflow: int, number: int
) -> None:
    before = len(task_log_file.read_text())
    after = terminate_at(process, distortion, number)
    process.start("SyncExcludedIpsOperator", airflow=airflow, exclude_ips=[NEW], **night.state)
    later = after()
    # Only requests that the other thread had started, and none after a second.
    assert len(later) <= 1
    assert all(seconds < 1 for seconds in later)
    done = changed(night)
    assert number <= len(done) <= number + 1
    assert audited(night) == done
    summary = f"Stopped: {len(done)} of {WEBSITES} websites changed"
    logged = task_log_file.read_text()[before:].count(summary)
    assert process.end["error"] == ENDS[airflow]
    # The error of Airflow 2 has another message; the one of Airflow 3 is logged by Airflow.
    assert logged == (1 if airflow == 2 else 0)
    if airflow == 3:
        # A batch can end at the same time as the task.
        unread = r"(\nChanged, and not read back before the work ended\.\nWebsites: .*\.)?"
        assert re.match(rf"{summary}\.{unread}\s+The next try completes the work\.", process.end["message"])
    converges(night)


@pytest.fixture
def handler_of_before() -> Iterator[None]:
    """Airflow's handler remains after the task."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.usefixtures("handler_of_before")
def test_timed_out_task_leaves_correct_records(
    night: Night, distortion: Distortion, run_dag: RunDag, task_log: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, ended = itertools.count(1), threading.Event()

    def before(method: str, path: str) -> None:
        if method == "PATCH" and next(numbers) == 21:
            ended.wait(30)

    distortion.before = before
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", with_parallel_requests(1))
    with DAG(f"stopped_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        limit = timedelta(seconds=2)
        SyncExcludedIpsOperator(
            task_id="sync", exclude_ips=[NEW], list_name="addresses", execution_timeout=limit, **night.state
        )
    if AIRFLOW_2:
        # An interrupt of a task ends DAG.test() as well.
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - the class has another place in each version
            run_dag(dag)
        assert type(raised.value).__name__ == "AirflowTaskTimeout"
    else:
        assert run_dag(dag).tasks["sync"].state == "failed"
    assert "Stopped: 20 of 60 websites changed, 1 might have been" in task_log()
    assert len(audited(night)) == 20
    distortion.before = lambda method, path: None
    ended.set()
    converges(night, list_name="addresses")
