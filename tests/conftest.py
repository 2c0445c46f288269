"""What every test stands on: a fresh Airflow home, no network but loopback, and DAG runs in this process."""

from __future__ import annotations

import atexit
import ipaddress
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import DAG

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


def _forbid_far_hosts(event: str, args: tuple[Any, ...]) -> None:
    # An audit hook sees every Python socket, those of asyncio included, without replacing any of them.
    if event not in ("socket.connect", "socket.sendto") or args[0].family == socket.AF_UNIX:
        return
    host = str(args[1][0])
    try:
        near = ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = host == "localhost"
    if not near:
        pytest.fail(f"A test tried to reach {host!r}: only this machine may be reached.")


sys.addaudithook(_forbid_far_hosts)


# How long an example takes says something of the machine only. In CI a change is judged by the same examples each
# time; at a desk new ones are tried.
hypothesis.settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
hypothesis.settings.load_profile("suite")


@dataclass(frozen=True)
class TaskOutcome:
    """How a task of a DAG run ended: its state, the number of its last try, and its XComs by key."""

    state: str
    try_number: int
    xcom: Mapping[str, Any]

    @property
    def returned(self) -> Any:
        """What the task returned, None where it returned nothing."""
        return self.xcom.get("return_value")


@dataclass(frozen=True)
class DagOutcome:
    """How a DAG run ended: its state, and its tasks by id (``id[0]``, ``id[1]``, ... for a mapped one)."""

    state: str
    tasks: Mapping[str, TaskOutcome]


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Make the metadata database of this session's Airflow home, for the tests that ask for it."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture
def run_dag(airflow_database: None) -> Callable[..., DagOutcome]:
    """Run a DAG for real, in this process: ``outcome = run_dag(dag, conf={...}, logical_date=...)``.

    Tasks that fail are retried as often as their ``retries`` say: give them ``retry_delay=timedelta(0)``.
    A task that must not be retried ends in state ``failed`` with try number 1.
    """
    import airflow

    airflow_2 = airflow.__version__.startswith("2.")

    def run(dag: DAG, *, conf: dict[str, Any] | None = None, logical_date: datetime | None = None) -> DagOutcome:
        arguments: dict[str, Any] = {"run_conf": conf}
        if logical_date is not None:
            arguments["execution_date" if airflow_2 else "logical_date"] = logical_date
        if not airflow_2:
            _register(dag)
        return _outcome(dag.test(**arguments), airflow_2)

    return run


def _register(dag: DAG) -> None:
    # Airflow 3 creates runs only of DAGs that were serialised into its database, from a bundle.
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="tests"))
        session.flush()
        SerializedDAG.bulk_write_to_db("tests", None, [dag], session=session)
        SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name="tests", session=session)


def _outcome(run: Any, airflow_2: bool) -> DagOutcome:
    from airflow.utils.session import create_session

    if airflow_2:
        from airflow.models.xcom import XCom
    else:
        from airflow.models.xcom import XComModel as XCom

    xcoms: dict[tuple[str, int], dict[str, Any]] = {}
    with create_session() as session:
        for row in session.query(XCom).filter(XCom.dag_id == run.dag_id, XCom.run_id == run.run_id):
            # Airflow 2 has decoded the value when the row was loaded.
            value = row.value if airflow_2 else XCom.deserialize_value(row)
            xcoms.setdefault((row.task_id, row.map_index), {})[row.key] = value
    tasks = {
        ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": TaskOutcome(
            state=str(ti.state), try_number=ti.try_number, xcom=xcoms.get((ti.task_id, ti.map_index), {})
        )
        for ti in run.get_task_instances()
    }
    return DagOutcome(state=str(run.state), tasks=tasks)
