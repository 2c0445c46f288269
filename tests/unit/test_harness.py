"""The tests' own tools: a guard that does not guard, or a DAG run that always succeeds, would go unnoticed."""

from __future__ import annotations

import ast
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import airflow_versions
import pytest
import requests
import sqlalchemy
from airflow_processes import AirflowApi
from dag_runs import RunDag
from local_airflow import environment
from raw_server import RawServer, http


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_far_hosts_are_out_of_reach_and_loopback_is_not(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(pytest.fail.Exception, match="only this machine"):
        client.connect((host, 80))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


def test_airflow_home_is_not_the_users() -> None:
    from airflow.configuration import AIRFLOW_HOME

    assert not Path(AIRFLOW_HOME).is_relative_to(Path.home())


def test_a_busy_database_is_waited_for(tmp_path: Path) -> None:
    """A CI machine's disk was busy for longer than SQLite's five seconds: three tasks of Airflow 2 died unheard.

    After a minute, a browser gave up on an API server that waited for itself.
    """
    url = environment(tmp_path)["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    with sqlalchemy.create_engine(url).connect() as connection:
        milliseconds = connection.execute(sqlalchemy.text("PRAGMA busy_timeout")).scalar_one()
    assert 10_000 <= milliseconds <= 20_000


def test_events_are_waited_for_until_their_runs_have_begun() -> None:
    """Airflow 3 shows no event of which a run is still queued: 500, after which it resets the connection some time."""
    events = {f"{airflow_versions.ASSET}_events": [{"id": 1, airflow_versions.ASSET_URI: "analytics://there"}]}
    with RawServer([http(500, b"Internal Server Error"), http(body=events)]) as server:
        [event] = AirflowApi(server.url).asset_events()
    assert event["uri"] == "analytics://there"
    # The second request does not meet the reset.
    assert server.connections == 2


def test_an_error_of_the_server_comes_with_what_its_processes_wrote() -> None:
    with (
        RawServer([http(500, b"Internal Server Error")]) as server,
        pytest.raises(requests.HTTPError, match=r"(?s)GET /version: 500 Internal Server Error.*a traceback"),
    ):
        AirflowApi(server.url, lambda: "--- api-server.log\na traceback").get("/version")


def test_every_test_that_kills_is_marked() -> None:
    for path in Path(__file__).parents[1].rglob("test_*.py"):
        text = path.read_text()
        if "SIGKILL" not in text or "\npytestmark = pytest.mark.kill\n" in text:
            continue
        for found in ast.parse(text).body:
            kills = "send_signal(signal.SIGKILL)", ", signal.SIGKILL)"
            if isinstance(found, ast.FunctionDef) and any(kill in ast.unparse(found) for kill in kills):
                marks = [ast.unparse(mark) for mark in found.decorator_list]
                assert "pytest.mark.kill" in marks or path == Path(__file__), (path.name, found.name)


def test_every_sample_dag_is_run() -> None:
    tests = Path(__file__).parents[1]
    marked = {
        mark.removeprefix("pytest.mark.sample(").strip("')")
        for path in (tests / "integration").rglob("test_*.py")
        for found in ast.parse(path.read_text()).body
        if isinstance(found, ast.FunctionDef)
        for mark in map(ast.unparse, found.decorator_list)
        if mark.startswith("pytest.mark.sample(")
    }
    assert marked == {path.stem for path in (tests.parent / "dags").glob("*.py")}


@pytest.fixture
def three_tasks() -> Any:
    from airflow.providers.common.compat.sdk import DAG, AirflowFailException, BaseOperator

    class Return(BaseOperator):
        def execute(self, context: Any) -> dict[str, int]:
            return {"answer": 42}

    class FailAtOnce(BaseOperator):
        def execute(self, context: Any) -> None:
            raise AirflowFailException("no retry can mend this")

    class FailTwice(BaseOperator):
        def execute(self, context: Any) -> str:
            if context["ti"].try_number < 3:
                raise ConnectionError("try again")
            return "done"

    with DAG("three_tasks", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        for operator in (Return, FailAtOnce, FailTwice):
            operator(task_id=operator.__name__, retries=2, retry_delay=timedelta(0))
    return dag


@pytest.mark.parametrize("again", [False, True])
def test_a_run_shows_states_tries_and_results(run_dag: RunDag, three_tasks: Any, again: bool) -> None:
    outcome = run_dag(three_tasks)
    assert outcome.state == "failed"
    seen = {name: (task.state, task.try_number, task.returned) for name, task in outcome.tasks.items()}
    assert seen == {
        "Return": ("success", 1, {"answer": 42}),
        "FailAtOnce": ("failed", 1, None),
        "FailTwice": ("success", 3, "done"),
    }
