"""A task that is told to end: it begins no request any more, says how far it came, and leaves all records true."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_versions import AIRFLOW_2
from connections import with_parallel_requests
from dag_runs import RunDag
from distortion import Distortion
from fixture_types import Execute
from task_process import TaskProcess

from airflow_provider_analytics.exceptions import StoppedError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = pytest.mark.kill

WEBSITES = 60
NEW = "203.0.113.7"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "tasks.txt"


@pytest.fixture(scope="module")
def process(log: Path) -> Iterator[TaskProcess]:
    with log.open("w") as file, TaskProcess(file) as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_is_left_running(process: TaskProcess) -> Iterator[None]:
    yield
    process.end_all()


@pytest.fixture
def arguments(
    analytics_sandbox: SandboxServer, distortion: Distortion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    for number in range(1, WEBSITES + 1):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", with_parallel_requests(2))
    return {"exclude_ips": [NEW], "state_path": str(tmp_path)}


def terminate_at(
    process: TaskProcess, distortion: Distortion, method: str, number: int, *, released: bool = True
) -> Callable[[], list[float]]:
    """Terminate the process while its request number ``number`` of this method is held back.

    :param released: whether that request is passed on then, or held until the process is gone.
    :return: when requests began after ``on_kill`` had returned, in seconds since then.
    """
    numbers = itertools.count(1)
    killed_at: list[float] = []
    later: list[float] = []
    terminated = threading.Event()

    def before(asked: str, path: str) -> None:
        if killed_at:
            later.append(time.monotonic() - killed_at[0])
        elif asked == method and next(numbers) == number:
            process.terminate()
            killed_at.append(time.monotonic())
            terminated.set()
            if not released:
                process.gone.wait(30)

    distortion.before = before

    def after() -> list[float]:
        process.wait()
        assert terminated.is_set(), process.end
        distortion.before = lambda method, path: None
        return later

    return after


def changed(sandbox: SandboxServer) -> set[str]:
    return {str(website["id"]) for website in sandbox.websites() if NEW in (website["exclude_ips"] or "")}


def audited(arguments: dict[str, Any], action: str = "update") -> set[str]:
    lines = [
        json.loads(line)
        for trail in Path(arguments["state_path"]).rglob("*.jsonl")
        for line in trail.read_text().splitlines()
    ]
    return {str(line.get("website_id", line.get("website"))) for line in lines if line["action"] == action}


def converges(execute: Execute, sandbox: SandboxServer, arguments: dict[str, Any]) -> None:
    execute(SyncExcludedIpsOperator, try_number=2, **arguments)
    assert len(changed(sandbox)) == WEBSITES
    execute(SyncExcludedIpsOperator, try_number=3, **{**arguments, "exclude_ips": ["203.0.113.8"]})
    assert {website["exclude_ips"] for website in sandbox.websites()} == {"10.0.0.1\n203.0.113.8"}


@pytest.mark.parametrize("airflow", [2, 3])
@pytest.mark.parametrize("number", [1, 21, WEBSITES])
@pytest.mark.chosen(2)
def test_a_terminated_sync_stops_and_leaves_a_true_audit_trail(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    process: TaskProcess,
    log: Path,
    execute: Execute,
    arguments: dict[str, Any],
    airflow: int,
    number: int,
) -> None:
    before = len(log.read_text())
    after = terminate_at(process, distortion, "PATCH", number)
    process.start("SyncExcludedIpsOperator", airflow=airflow, **arguments)
    later = after()
    # What the other thread had begun, and nothing after a second.
    assert len(later) <= 1
    assert all(seconds < 1 for seconds in later)
    done = changed(analytics_sandbox)
    assert number <= len(done) <= number + 1
    assert audited(arguments) == done
    told = f"Stopped: {len(done)} of {WEBSITES} websites changed"
    assert log.read_text()[before:].count(told) == 1
    expected = {2: "AirflowTaskTerminated", 3: "StoppedError"}[airflow]
    assert process.end["error"] == expected
    if airflow == 3:
        # Of the first website, which is changed alone, nothing tells yet what the service does with it.
        named = "" if number > 1 else r"\. Not as expected: .*: Changed, and not read again before the work ended"
        assert re.match(rf"{told}{named}\. The next try does the rest\.", process.end["message"])
    converges(execute, analytics_sandbox, arguments)


@pytest.mark.parametrize("airflow", [2, 3])
def test_a_request_that_hangs_is_not_waited_for_and_counts_as_unclear(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    process: TaskProcess,
    execute: Execute,
    arguments: dict[str, Any],
    airflow: int,
) -> None:
    after = terminate_at(process, distortion, "PATCH", 11, released=False)
    began = time.monotonic()
    process.start("SyncExcludedIpsOperator", airflow=airflow, **arguments)
    after()
    assert time.monotonic() - began < 20  # its timeout is 30 s
    # It arrives after the process has ended: the trail says that it may have been applied.
    [unclear] = audited(arguments, "failed")
    assert unclear not in {f"{one}.example (id {one})" for one in audited(arguments)}
    converges(execute, analytics_sandbox, arguments)


def connect(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    connection = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])
    connection["extra"] |= extra
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))


@pytest.mark.parametrize("airflow", [2, 3])
@pytest.mark.parametrize("wait", ["Retry-After", "requests_per_minute", "settle", "listing"])
@pytest.mark.chosen(2)
def test_every_wait_ends_at_once(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    monkeypatch: pytest.MonkeyPatch,
    process: TaskProcess,
    arguments: dict[str, Any],
    wait: str,
    airflow: int,
) -> None:
    settle_seconds = 0
    extra: dict[str, Any] = {"max_retries": 10}
    terminated = threading.Event()

    def terminate() -> None:
        process.terminate()
        terminated.set()

    numbers = itertools.count(1)

    def terminate_soon(at: int) -> None:
        """Terminate the process once the answer to request number ``at`` made it wait."""
        if next(numbers) == at:
            threading.Timer(0.3, terminate).start()

    if wait == "Retry-After":
        distortion.failing = {("PATCH", f"/websites/{number}"): 503 for number in range(1, WEBSITES + 1)}
        distortion.retry_after = 50
        distortion.before = lambda method, path: terminate_soon(1) if method == "PATCH" else None
    elif wait == "requests_per_minute":
        extra["requests_per_minute"] = 5
        distortion.before = lambda method, path: terminate_soon(4)  # two at a time, so the next ones wait
    elif wait == "settle":
        settle_seconds = 50
        distortion.before = lambda method, path: terminate_soon(WEBSITES) if method == "PATCH" else None
    else:
        distortion.failing = {("GET", "/websites"): 503}
        distortion.retry_after = 50
        distortion.before = lambda method, path: terminate_soon(1) if path == "/websites" else None
    connect(monkeypatch, **extra)
    process.start("SyncExcludedIpsOperator", airflow=airflow, settle_seconds=settle_seconds, **arguments)
    assert terminated.wait(30)
    killed_at = time.monotonic()
    process.wait()
    assert time.monotonic() - killed_at < 3
    assert process.end["error"] == ("AirflowTaskTerminated" if airflow == 2 else "StoppedError")
    done = changed(analytics_sandbox)
    if wait != "listing":
        assert audited(arguments) == done


@pytest.mark.parametrize("operator", ["ListWebsitesOperator", "SyncExcludedIpsOperator"])
def test_a_task_that_reads_the_list_stops_as_well(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    process: TaskProcess,
    arguments: dict[str, Any],
    operator: str,
) -> None:
    analytics_sandbox.seed(940)
    after = terminate_at(process, distortion, "GET", 4)
    process.start(operator, **(arguments if operator.startswith("Sync") else {"max_records": 2000}))
    assert len(after()) <= 3  # those that were read ahead
    assert process.end["error"] == "StoppedError"
    assert re.match(
        "Stopped: the task was killed, (so this was not sent|before the service responded): GET ",
        process.end["message"],
    )
    assert not [request for request in analytics_sandbox.requests if request.operation == "update"]


@pytest.mark.parametrize(
    ("operator", "arguments", "method", "told"),
    [
        ("GetWebsiteOperator", {"website_id": 1}, "GET", "before the service responded"),
        ("ListWebsitesOperator", {}, "GET", "before the service responded"),
        ("UpdateWebsiteOperator", {"website_id": 1, "privacy": 1}, "PATCH", "The request may have been applied"),
    ],
)
def test_a_task_that_hangs_in_a_request_ends_soon_and_is_not_green(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    process: TaskProcess,
    operator: str,
    arguments: dict[str, Any],
    method: str,
    told: str,
) -> None:
    analytics_sandbox.add_website("a.example")
    after = terminate_at(process, distortion, method, 1, released=False)
    began = time.monotonic()
    process.start(operator, **arguments)
    after()
    assert time.monotonic() - began < 15  # its timeout is 30 s
    assert process.end["error"] == {"GET": "StoppedError", "PATCH": "AnalyticsConnectionError"}[method]
    assert told in process.end["message"]


@pytest.fixture
def handler_of_before() -> Iterator[None]:
    """Airflow's handler stays after the task."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def make_dag(**arguments: Any) -> DAG:
    with DAG(f"stopped_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        SyncExcludedIpsOperator(task_id="sync", **arguments)
    return dag


@contextmanager
def ends_a_test_run(name: str) -> Iterator[None]:
    """Expect that what interrupts a task ends ``dag.test()`` of Airflow 2 as well."""
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - the class has another place in each version
        yield
    assert type(raised.value).__name__ == name


@pytest.mark.usefixtures("handler_of_before")
def test_airflow_stops_a_task_and_its_retry_does_the_rest(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    run_dag: RunDag,
    task_log: Callable[[], str],
    arguments: dict[str, Any],
) -> None:
    numbers = itertools.count(1)

    def before(method: str, path: str) -> None:
        # Airflow's own handler, or the process of the tests would end.
        if method == "PATCH" and next(numbers) == 21 and callable(signal.getsignal(signal.SIGTERM)):
            os.kill(os.getpid(), signal.SIGTERM)

    distortion.before = before
    dag = make_dag(retries=1, retry_delay=timedelta(0), **arguments)
    if AIRFLOW_2:
        with ends_a_test_run("AirflowTaskTerminated"):
            run_dag(dag)
    task = run_dag(dag).tasks["sync"]
    assert (task.state, task.try_number) == ("success", 1 if AIRFLOW_2 else 2)
    said = re.search(r"Stopped: (\d+) of 60 websites changed", task_log())
    assert said
    first, second = (
        {json.loads(line)["website_id"] for line in trail.read_text().splitlines()}
        for trail in sorted(Path(arguments["state_path"]).rglob("*.jsonl"))
    )
    assert (len(first), len(first & second), len(first | second)) == (int(said[1]), 0, WEBSITES)
    assert changed(analytics_sandbox) == first | second


@pytest.mark.usefixtures("handler_of_before")
def test_a_task_that_takes_too_long_leaves_true_records(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    run_dag: RunDag,
    task_log: Callable[[], str],
    execute: Execute,
    arguments: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers, ended = itertools.count(1), threading.Event()

    def before(method: str, path: str) -> None:
        if method == "PATCH" and next(numbers) == 21:
            ended.wait(30)

    distortion.before = before
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", with_parallel_requests(1))
    arguments["list_name"] = "addresses"
    dag = make_dag(execution_timeout=timedelta(seconds=2), **arguments)
    if AIRFLOW_2:
        with ends_a_test_run("AirflowTaskTimeout"):
            run_dag(dag)
    else:
        assert run_dag(dag).tasks["sync"].state == "failed"
    assert "Stopped: 20 of 60 websites changed, 1 may have been" in task_log()
    assert len(audited(arguments)) == 20
    distortion.before = lambda method, path: None
    ended.set()
    converges(execute, analytics_sandbox, arguments)


def test_a_task_that_is_killed_before_it_begins_sends_nothing(
    analytics_sandbox: SandboxServer, arguments: dict[str, Any]
) -> None:
    operator = SyncExcludedIpsOperator(task_id="sync", exclude_ips=["1.1.1.1"])
    operator.on_kill()
    analytics_sandbox.clear_requests()
    with pytest.raises(StoppedError), operator.connected({}) as hook:
        hook.list_websites()
    assert not analytics_sandbox.requests
    # A retry in the same process is another try.
    with operator.connected({}) as hook:
        assert len(hook.list_websites()) == WEBSITES
    operator.on_kill()
    with operator.connected({}) as hook:
        assert len(hook.list_websites()) == WEBSITES
