# SPDX-License-Identifier: Apache-2.0
"""Differences between the supported versions of Airflow: no other test file asks for the version.

Airflow reads its settings while it is imported. Import this module after ``tests/conftest.py`` has made them, which is
true in every test module, or within a function.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import airflow
import pendulum
import pytest
import requests

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import DAG
    from browser import Screen
    from screens_of_airflow_3 import Screens

AIRFLOW_VERSION = airflow.__version__
VERSION = tuple(int(part) for part in AIRFLOW_VERSION.split(".")[:2])
AIRFLOW_2 = VERSION < (3, 0)

#: Module with the file systems that Airflow knows by scheme.
FILE_SYSTEMS = "airflow.sdk.io.fs" if VERSION >= (3, 1) else "airflow.io"
#: Airflow 3.0 creates the label of a task in a mapped group before it knows the arguments of the group.
LABELS_KNOW_MAPPED_GROUPS = VERSION != (3, 0)


def _by_version(places: Mapping[tuple[int, int], str]) -> Any:
    """Import the object (``module:name``) of the newest of these versions that is not newer than this Airflow."""
    module, _, name = places[max(since for since in places if since <= VERSION)].partition(":")
    return getattr(import_module(module), name)


def names_that_airflow_masks() -> frozenset[str]:
    """Return parts of the names whose values Airflow masks; the module has moved between versions."""
    for module in ("airflow.sdk._shared", "airflow.sdk.execution_time", "airflow.utils.log"):
        with suppress(ModuleNotFoundError):
            names: frozenset[str] = import_module(f"{module}.secrets_masker").DEFAULT_SENSITIVE_FIELDS
            return names
    raise AssertionError("Airflow has no list of such names")


# Markers for features of certain versions


def _needs(holds: bool, reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not holds, reason=reason)


needs_wtforms = _needs(find_spec("wtforms") is not None, "wtforms comes with Airflow 2 only")
needs_approvals = _needs(VERSION >= (3, 1), "approvals came with Airflow 3.1, in the standard provider that needs it")
needs_deadlines = _needs(VERSION >= (3, 3), "deadlines came with 3.1; the models that a test needs are those of 3.3")
needs_retry_policies = _needs(VERSION >= (3, 3), "retry policies came with Airflow 3.3")
needs_partitions = _needs(VERSION >= (3, 3), "tasks give events a partition key from Airflow 3.3 on")
needs_no_partitions = _needs(VERSION < (3, 3), "tasks give events a partition key from Airflow 3.3 on")
needs_answers_in_dag_test = _needs(VERSION >= (3, 3), "DAG.test waits for an answer from Airflow 3.3 on")
needs_events_of_mapped_tasks_in_dag_test = _needs(
    not AIRFLOW_2, "DAG.test of Airflow 2 cannot read the events of a mapped task; workers can"
)
needs_the_screens_of_3_3 = _needs(VERSION >= (3, 3), "the demo and the web interface are those of Airflow 3.3")
needs_what_is_measured = _needs(VERSION >= (3, 3), "the newest Airflow is what is measured")
needs_known_screens = _needs(
    AIRFLOW_2 or VERSION >= (3, 3), "tests/support knows the screens of the oldest and of the newest Airflow"
)
needs_exceptions_in_callbacks = _needs(
    AIRFLOW_2 or VERSION >= (3, 3), "DAG.test hands no exception to callbacks before Airflow 3.3; workers do"
)
needs_tracebacks_without_values = _needs(
    VERSION != (3, 0), "`airflow dags test` of Airflow 3.0 prints local variables in clear; its workers do not"
)
needs_whole_lines = _needs(
    VERSION != (3, 0), "`airflow dags test` of Airflow 3.0 breaks lines after 80 characters; its workers do not"
)
needs_openlineage = _needs(
    find_spec("airflow.providers.openlineage") is not None, "the OpenLineage provider is optional"
)


# Running a DAG in this process, and the records of the run


def dag_test_arguments(conf: dict[str, Any] | None, logical_date: datetime | None) -> dict[str, Any]:
    """Return the arguments of ``DAG.test``."""
    date = {"execution_date" if AIRFLOW_2 else "logical_date": logical_date} if logical_date else {}
    return {"run_conf": conf, **date}


def build_the_api_once() -> None:
    """Make all runs in this process share Airflow's API, as from 3.3 on: before, each task builds it again."""
    if (3, 0) <= VERSION < (3, 3):
        from airflow.sdk.execution_time import supervisor

        supervisor.in_process_api_server = functools.cache(supervisor.in_process_api_server)


def register(dag: DAG) -> None:
    """Register a DAG in Airflow: Airflow 3 creates runs only of serialized DAGs of a bundle."""
    if AIRFLOW_2:
        return
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    of_the_scheduler = "airflow.serialization.definitions.dag:SerializedDAG"
    serialized_dag = _by_version(
        {(3, 0): "airflow.serialization.serialized_objects:SerializedDAG", (3, 2): of_the_scheduler}
    )
    dag.relative_fileloc = Path(dag.fileloc).name
    lazy = LazyDeserializedDAG(data=serialized(dag))
    with create_session() as session:
        session.merge(DagBundleModel(name="tests"))
        session.flush()
        serialized_dag.bulk_write_to_db("tests", None, [lazy], session=session)
        # Airflow considers the last created version the newest; tests travel in time.
        for version in session.query(DagVersion).filter(DagVersion.dag_id == dag.dag_id):
            version.created_at = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=version.version_number)
        session.flush()
        SerializedDagModel.write_dag(lazy, bundle_name="tests", session=session)


def register_assets(dag: DAG) -> None:
    """Register the assets of a DAG in Airflow 2, which records events only of assets in a DAG file. Later versions know
    them by :func:`register`.
    """
    if AIRFLOW_2:
        known: Any = dag
        known.bulk_write_to_db([dag])


def xcoms(run: Any) -> Iterator[tuple[str, int, str, Any]]:
    """Yield task id, map index, key and value of each XCom of a DAG run."""
    from airflow.utils.session import create_session

    model = _by_version({(2, 0): "airflow.models.xcom:XCom", (3, 0): "airflow.models.xcom:XComModel"})
    with create_session() as session:
        for row in session.query(model).filter(model.dag_id == run.dag_id, model.run_id == run.run_id):
            # Airflow 2 has decoded the value when the row was loaded.
            yield row.task_id, row.map_index, row.key, row.value if AIRFLOW_2 else model.deserialize_value(row)


def own_lines(text: str) -> str:
    """Return the messages of tasks.

    In ``DAG.test``, Airflow 3.0 prints each message to its supervisor, in clear text, and breaks lines after 80
    characters.
    """
    if VERSION != (3, 0):
        return text
    own = [line for line in text.splitlines() if not re.search(r"\[(\x1b\[\d+m)*debug ", line)]
    return "\n".join((*own, " ".join(" ".join(own).split())))


def times_logged(log: str, message: str) -> int:
    """Return how often a log contains a message; at most 1 before Airflow 3.1.

    Airflow 2 prints messages twice after a DAG has run in the same process. Airflow 3.0: see :func:`own_lines`.
    """
    number = log.count(message)
    if VERSION < (3, 1):
        return min(number, 1)
    return number


def asset_events(uri: str) -> list[Any]:
    """Return the extras of the events of the asset with this address, oldest first."""
    from airflow.utils.session import create_session

    event = _by_version({(2, 0): "airflow.models.dataset:DatasetEvent", (3, 0): "airflow.models.asset:AssetEvent"})
    asset = _by_version({(2, 0): "airflow.models.dataset:DatasetModel", (3, 0): "airflow.models.asset:AssetModel"})
    with create_session() as session:
        asset_id = session.query(asset).filter(asset.uri == uri).one().id
        key = event.dataset_id if AIRFLOW_2 else event.asset_id
        return [found.extra for found in session.query(event).filter(key == asset_id).order_by(event.id)]


def last_asset_event(uri: str) -> Any:
    """Return the extra of the newest event of the asset with this address."""
    return asset_events(uri)[-1]


# Data of Airflow about classes and DAGs


def hooks() -> Mapping[str, Any]:
    """Return the hooks of all providers that Airflow knows, by connection type."""
    found: Mapping[str, Any] = _providers().hooks
    return found


def _providers() -> Any:
    task_runtime = "airflow.sdk.providers_manager_runtime:ProvidersManagerTaskRuntime"
    return _by_version({(2, 0): "airflow.providers_manager:ProvidersManager", (3, 2): task_runtime})()


def serialized(dag: DAG) -> dict[str, Any]:
    """Return a DAG as Airflow writes it into its database."""
    found: dict[str, Any] = _serialization().to_dict(dag)
    return found


def _serialization() -> Any:
    module = "airflow.serialization.serialized_objects"
    return _by_version({(2, 0): f"{module}:SerializedDAG", (3, 2): f"{module}:DagSerialization"})


def awaited_uris(dag: DAG) -> list[str]:
    """Return the addresses of the assets that a DAG waits for."""
    timetable: Any = dag.timetable
    condition = timetable.dataset_condition if AIRFLOW_2 else timetable.asset_condition
    return [asset.uri for asset in condition.objects]


def planned_run(dag: DAG, moment: datetime) -> dict[str, datetime | None]:
    """Return Airflow's plan for the first scheduled run of a DAG at or after a moment."""
    from airflow.timetables.base import TimeRestriction

    timetable = _timetable(dag)
    restriction = TimeRestriction(earliest=pendulum.instance(moment).subtract(days=15), latest=None, catchup=True)
    info: Any = None
    while info is None or info.run_after < moment:
        last = info.data_interval if info else None
        info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
    return {
        "data_interval_end": info.data_interval.end,
        "logical_date": info.logical_date,
        "run_after": None if AIRFLOW_2 else info.run_after,
    }


def manual_run(dag: DAG, moment: datetime) -> dict[str, datetime | None]:
    """Return Airflow's data for a run that is triggered manually at a moment, with that moment as logical date."""
    interval = _timetable(dag).infer_manual_data_interval(run_after=moment)
    return {
        "data_interval_end": interval.end if interval else None,
        "logical_date": moment,
        "run_after": None if AIRFLOW_2 else moment,
    }


def _timetable(dag: DAG) -> Any:
    if AIRFLOW_2:
        return dag.timetable
    # The scheduler's timetable, which plans runs; the timetable of the DAG file only names the schedule.
    return _serialization().from_dict(serialized(dag)).timetable


def answer_approval(waiting: Any, option: str, user: str, session: Any) -> None:
    """Press the approval button of the UI.

    :param waiting: the ``HITLDetail`` of the task.
    """
    from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
    from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail

    asked = waiting.task_instance
    person: Any = SimpleNamespace(get_id=user.lower, get_name=lambda: user, get_display_name=lambda: user)
    more: dict[str, Any] = {}
    if VERSION >= (3, 4):
        more["dag_bag"] = import_module("airflow.models.dagbag").DBDagBag()
    update_hitl_detail(
        dag_id=asked.dag_id,
        dag_run_id=asked.run_id,
        task_id=asked.task_id,
        map_index=asked.map_index,
        update_hitl_detail_payload=UpdateHITLDetailPayload(
            chosen_options=[option], params_input={name: param["value"] for name, param in waiting.params.items()}
        ),
        user=person,
        session=session,
        **more,
    )


def asset_handler(scheme: str) -> Any:
    """Return Airflow's function that validates the addresses of a scheme."""
    manager = _providers()
    return (manager.dataset_uri_handlers if AIRFLOW_2 else manager.asset_uri_handlers).get(scheme)


def attach(scheme: str, file_system: Any) -> None:
    """Register a file system for a scheme, like the provider package of a cloud."""
    _by_version({(2, 0): "airflow.io.store:attach", (3, 0): "airflow.sdk.io:attach"})(scheme, fs=file_system)


def allow_execute_in_this_thread() -> None:
    """Allow calls of ``execute`` in a thread of a test: Airflow 2 stores the caller for the main thread only."""
    if AIRFLOW_2:
        guard: Any = _by_version({(2, 0): "airflow.models.baseoperator:ExecutorSafeguard"})
        guard._sentinel.callers = {}


# The processes of an Airflow, and its REST API.

#: The commands of an Airflow that keep running: the one that a person sees, and the others.
WEB_SERVER = "webserver" if AIRFLOW_2 else "api-server"
OTHER_PROCESSES = ("scheduler", "triggerer") if AIRFLOW_2 else ("scheduler", "dag-processor", "triggerer")
#: Commands whose health is in the API.
HEALTHY = ("scheduler", "triggerer") if AIRFLOW_2 else ("scheduler", "dag_processor", "triggerer")
API = "/api/v1" if AIRFLOW_2 else "/api/v2"
HEALTH = "/health" if AIRFLOW_2 else "/monitor/health"
#: The name of an asset in the API.
ASSET = "dataset" if AIRFLOW_2 else "asset"
#: The key of an asset's address in an event.
ASSET_URI = "dataset_uri" if AIRFLOW_2 else "uri"


def process_settings(url: str) -> dict[str, str]:
    """Return additional settings of this version, besides ``local_airflow.server_settings``, to serve at ``url``."""
    if not AIRFLOW_2:
        return {
            "AIRFLOW__API__WORKERS": "1",
            # Seconds until a task notices that it was marked or cleared.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        }
    return {
        # Airflow 2 combines SQLite with an executor of several tasks in its own tests only, by this variable.
        "_AIRFLOW__SKIP_DATABASE_EXECUTOR_COMPATIBILITY_CHECK": "1",
        # SQLite has no row locks: a task that schedules its successors while the scheduler does would start them twice.
        "AIRFLOW__SCHEDULER__SCHEDULE_AFTER_TASK_EXECUTION": "False",
        "AIRFLOW__API__AUTH_BACKENDS": "airflow.providers.fab.auth_manager.api.auth.backend.basic_auth",
        "AIRFLOW__WEBSERVER__WEB_SERVER_HOST": "127.0.0.1",
        "AIRFLOW__WEBSERVER__WEB_SERVER_PORT": url.rpartition(":")[2],
        "AIRFLOW__WEBSERVER__BASE_URL": url,
        "AIRFLOW__WEBSERVER__WORKERS": "1",
        "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "1",
    }


def setup_commands(user: str, password: str) -> list[list[str]]:
    """Return the commands that set up a database, with an admin user. Airflow 3 reads its users from a file."""
    migrate = ["db", "migrate"]
    person = [f"--username={user}", f"--firstname={user}", f"--lastname={user}", "--email=admin@example.com"]
    create = ["users", "create", "--role=Admin", f"--password={password}", *person]
    return [migrate, create] if AIRFLOW_2 else [migrate]


def log_in(session: requests.Session, url: str, user: str, password: str) -> None:
    """Log in to a session."""
    if AIRFLOW_2:
        session.auth = (user, password)
        return
    answer = session.post(f"{url}/auth/token", json={"username": user, "password": password}, timeout=60)
    answer.raise_for_status()
    session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def run_body(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request that triggers a run."""
    return {"conf": conf} if AIRFLOW_2 else {"conf": conf, "logical_date": None}


#: Body of a request that marks a task as failed. Airflow 2 does a dry run by default.
MARK_FAILED = {"new_state": "failed", "dry_run": False} if AIRFLOW_2 else {"new_state": "failed"}

#: The media type of a complete log in the API.
LOG_TYPE = "text/plain" if AIRFLOW_2 else "application/x-ndjson"


def log_text(answer: str) -> str:
    """Return the lines of a log from the response of the API: time and all further values after each message."""
    lines = [] if AIRFLOW_2 else [json.loads(line) for line in answer.splitlines()]
    return (
        answer
        if AIRFLOW_2
        else "".join(f"{line.pop('event')} {json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    )


# The web interface.


def screens(screen: Screen, url: str) -> Screens:
    """Return the actions in the web interface at ``url``."""
    found: Screens = _by_version({(2, 0): "screens_of_airflow_2:Screens", (3, 3): "screens_of_airflow_3:Screens"})(
        screen, url
    )
    return found


def extra_links_of(task: Any, outcome: Any, map_index: int = -1) -> dict[str, str]:
    """Return the extra links of a task after the only run of its DAG, by name, as the web interface gets them."""
    if not AIRFLOW_2:  # the task has stored each link
        name = task.task_id if map_index < 0 else f"{task.task_id}[{map_index}]"
        xcom = outcome.tasks[name].xcom
        return {link.name: xcom.get(link.xcom_key, "") for link in task.operator_extra_links}
    from airflow.models import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        (ti,) = session.query(TaskInstance).filter_by(dag_id=task.dag_id, task_id=task.task_id, map_index=map_index)
        return {link.name: link.get_link(task, ti_key=ti.key) for link in task.operator_extra_links}
