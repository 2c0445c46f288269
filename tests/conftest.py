# SPDX-License-Identifier: Apache-2.0
"""Setup of every test: a new Airflow home, no network except loopback, and DAG runs in this process."""

from __future__ import annotations

import atexit
import gc
import ipaddress
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import hypothesis
import pytest
import thinning
from dag_runs import DagOutcome, OutletEvents, RunDag, TaskOutcome
from fixture_types import Execute, Serving

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import DAG
    from fake_services import FakeService

    from airflow_provider_analytics.api.client import AnalyticsClient
    from airflow_provider_analytics.sandbox.server import SandboxServer

# Airflow reads its settings while it is imported, so they are set before any test module can import it.
AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="airflow-home-"))
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
    del os.environ[name]
os.environ["AIRFLOW_HOME"] = str(AIRFLOW_HOME)
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS"] = "False"
# Airflow 2 warns of its own default, and of the SQLAlchemy that it pins.
os.environ["AIRFLOW__METRICS__TIMER_UNIT_CONSISTENCY"] = "True"
os.environ["SQLALCHEMY_SILENCE_UBER_WARNING"] = "1"
# Machines of tests use UTC, where a local time instead of UTC changes nothing.
os.environ["TZ"] = "Asia/Tokyo"
time.tzset()


def _only_near(method: Callable[..., Any]) -> Callable[..., Any]:
    def checked(self: socket.socket, *args: Any) -> Any:
        if self.family != socket.AF_UNIX:
            host = str(args[-1][0])
            try:
                near = ipaddress.ip_address(host).is_loopback
            except ValueError:
                near = host == "localhost"
            if not near:
                pytest.fail(f"A test tried to reach {host!r}: only this machine may be reached.")
        return method(self, *args)

    return checked


def _forbid_far_hosts() -> None:
    # Not with an audit hook: on Python 3.11, a thread that starts while another one is in the hook can fail to install
    # the trace function of coverage, and does not run.
    for name in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, name, _only_near(getattr(socket.socket, name)))


#: Seconds for a test that starts processes, or has very many cases.
SECONDS_OF_PROCESSES = 600
#: Whether ``make acceptance`` runs the tests on a real server, which has its own host and time.
ON_REAL_SERVER = "ACCEPTANCE_CONN" in os.environ
if not ON_REAL_SERVER:
    _forbid_far_hosts()

# Airflow is hundreds of thousands of permanent objects. Checking them for garbage repeatedly takes a
# quarter of the time of the tests, unless the collector is configured to ignore them.
gc.disable()
gc.set_threshold(10_000, 20, 20)
# At the end, the collector must find the objects of DuckDB, which prints a line for each object that is left.
atexit.register(gc.unfreeze)


@pytest.fixture(scope="session")
def _analytics_sandbox_server() -> Iterator[FakeService]:
    """Run the server of the fixture ``analytics_sandbox``, which can also be other services in these tests."""
    from fake_services import FakeService

    with FakeService() as server:
        yield server


@pytest.fixture(autouse=True)
def forget_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the secrets of an earlier test, such as a password "example": its objects might still exist."""
    from airflow_provider_analytics import readable

    monkeypatch.setattr(readable, "_redactors", WeakValueDictionary(readable._redactors))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no test wait for a service, and make each read pages in parallel, as from a slow service."""
    if ON_REAL_SERVER:
        return
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0,))
    monkeypatch.setattr("airflow_provider_analytics.api.client.ACCEPTED_WAITS", (0,))
    monkeypatch.setattr("airflow_provider_analytics.api.listing.WAITS_BETWEEN_READS", (0, 0, 0))
    monkeypatch.setattr("airflow_provider_analytics.api.listing.AT_ONCE", 0)


@pytest.fixture(autouse=True)
def same_order(request: pytest.FixtureRequest) -> None:
    """Give each test its own order of websites, and the same one each time."""
    from airflow_provider_analytics.randomness import RANDOM

    RANDOM.seed(request.node.nodeid)


@pytest.fixture(params=["Etc/GMT+12", "Etc/GMT-14"])
def time_zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """Set a time zone; at any time, one of the two has another day than UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=("chosen", "rest"), help="what `make test` runs, or what it leaves out")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Omit the tests that `make test` omits, put the slowest first, and name the sample DAG of a test in the report."""
    if part := config.getoption("part"):
        chosen, rest = thinning.divided(items)
        items[:], left_out = (chosen, rest) if part == "chosen" else (rest, chosen)
        config.hook.pytest_deselected(items=left_out)
    # A file of these takes up to a minute. At the end, one worker would run it while the other has nothing to do.
    slow = {item.path for item in items if thinning.is_slow(item)}
    items.sort(key=lambda item: ("system" not in item.path.parts, item.path not in slow))
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if marks & {"system", "browser", "kill", "slow"} and "timeout" not in marks:
            item.add_marker(pytest.mark.timeout(SECONDS_OF_PROCESSES))
        if "airflow_database" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.long)
        item.user_properties.extend(("sample", mark.args[0]) for mark in item.iter_markers("sample"))


def _forget_what_stays() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    _forget_what_stays()


# The duration of an example depends only on the machine. In CI, a change is tested with the same examples each
# time; on a developer's machine, new ones are tried.
hypothesis.settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
hypothesis.settings.load_profile("suite")


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Create the metadata database of this session's Airflow home, for the tests that need it.

    The first run of a DAG in a process takes seconds, because Airflow 3 builds its API for it: it is built here, so
    that its time does not count for a test.
    """
    import airflow_versions
    from airflow.providers.common.compat.sdk import DAG, BaseOperator
    from airflow.utils.db import initdb

    class Nothing(BaseOperator):
        def execute(self, context: Any) -> None:
            pass

    initdb()
    airflow_versions.build_the_api_once()
    with DAG("first_of_all", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        Nothing(task_id="nothing")
    airflow_versions.register(dag)
    dag.test()
    _forget_what_stays()


@pytest.fixture
def run_dag(airflow_database: None) -> RunDag:
    """Run a DAG completely in this process: ``outcome = run_dag(dag, conf={...}, logical_date=...)``.

    Failing tasks are retried as often as their ``retries`` say: give them ``retry_delay=timedelta(0)``.
    A task that must not be retried ends in state ``failed`` with try number 1.
    """
    import airflow_versions

    def run(dag: DAG, *, conf: dict[str, Any] | None = None, logical_date: datetime | None = None) -> DagOutcome:
        airflow_versions.register(dag)
        with _without_pauses():
            return _outcome(dag.test(**airflow_versions.dag_test_arguments(conf, logical_date)))

    return run


@contextmanager
def _without_pauses() -> Iterator[None]:
    """Continue at once if no task can run: ``DAG.test`` sleeps for a second for each task after a failed one."""
    sleep = time.sleep

    def pause(seconds: float) -> None:
        is_of_the_run = sys._getframe(1).f_globals["__name__"] in ("airflow.sdk.definitions.dag", "airflow.models.dag")
        sleep(0 if is_of_the_run else seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", pause)
        yield


def _outcome(run: Any) -> DagOutcome:
    import airflow_versions

    found: dict[tuple[str, int], dict[str, Any]] = {}
    for task_id, map_index, key, value in airflow_versions.xcoms(run):
        found.setdefault((task_id, map_index), {})[key] = value
    tasks = {
        ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": TaskOutcome(
            state=str(ti.state),
            try_number=ti.try_number,
            xcom=found.get((ti.task_id, ti.map_index), {}),
            label=ti.rendered_map_index,
        )
        for ti in run.get_task_instances()
    }
    return DagOutcome(state=str(run.state), tasks=tasks)


@pytest.fixture
def execute() -> Execute:
    """Run one operator as a task would, without a DAG run: ``execute(Operator, argument=...)``."""
    from airflow.providers.common.compat.sdk import DAG
    from airflow_versions import allow_execute_in_this_thread

    def run(operator: type, *, task_id: str = "task", **arguments: Any) -> Any:
        allow_execute_in_this_thread()
        names = {"dag_id": "the_dag", "run_id": "manual__2026-01-02T03:04:05+00:00", "task_id": task_id}
        ti = SimpleNamespace(**names, map_index=-1, try_number=1, start_date=None)
        ti.xcom_push = lambda **_: None
        dag_run = SimpleNamespace(run_type="manual", run_after=datetime.now(UTC), triggering_user_name="Ann")
        with DAG("the_dag", schedule=None) as dag:
            task = operator(task_id=task_id, **arguments)
        return task.execute({"ti": ti, "dag": dag, "dag_run": dag_run, "outlet_events": OutletEvents()})

    return run


@pytest.fixture
def logged(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return the logged and printed texts so far: Airflow 2 uses logging, Airflow 3 prints."""
    caplog.set_level("DEBUG")
    said: list[str] = []

    def read() -> str:
        said.extend(capfd.readouterr())
        return "".join((*said, *(f"{record.getMessage()}\n" for record in caplog.records)))

    return read


@pytest.fixture
def client_with(analytics_sandbox: SandboxServer) -> Iterator[Callable[..., AnalyticsClient]]:
    """Create clients of the sandbox: ``client_with(page_parameter="p")``."""
    from wire_client import clients_of

    with clients_of(analytics_sandbox) as make:
        yield make


@pytest.fixture
def client(client_with: Callable[..., AnalyticsClient]) -> AnalyticsClient:
    return client_with()


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Run a service with records for the default connection: ``with serving(record, headers={...}):``.

    The response to a write is the record of the path.
    """
    from raw_server import RawServer, answer_read
    from wire_client import KEY

    @contextmanager
    def serve(*records: dict[str, Any], password: str = KEY, **extra: Any) -> Iterator[str]:
        with RawServer(partial(answer_read, records=records)) as server:
            connection: dict[str, Any] = {"conn_type": "analytics", "host": server.url, "password": password}
            connection["extra"] = {"max_retries": 0, **extra}
            monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))
            yield server.url

    return serve
