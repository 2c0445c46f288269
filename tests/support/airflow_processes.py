# SPDX-License-Identifier: Apache-2.0
"""A real Airflow: its processes, each started as a user starts them, and its REST API."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from subprocess import Popen
from typing import Any, Self, TypeVar
from urllib.parse import quote

import airflow_versions
import requests
from local_airflow import (
    PASSWORD,
    USER,
    airflow,
    environment,
    execution_api,
    free_port,
    has_execution_api,
    processes_of,
    server_settings,
)

#: Seconds for something to happen on a busy machine.
PATIENCE = 180
ENDED = ("success", "failed")

T = TypeVar("T")


def wait_for(
    what: str,
    look: Callable[[], T | None],
    tell: Callable[[], object] | None = None,
    patience: float = PATIENCE,
) -> T:
    """Check repeatedly until there is a value, and return it.

    :param what: the expected value, for the message of the error.
    :param tell: returns the current state, for the message of the error.
    :raises TimeoutError: if there is no value after this time.
    """
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.2)
    raise TimeoutError(f"{what}: not within {patience} s{f'; {tell()}' if tell else ''}")


@dataclass(frozen=True)
class TaskState:
    """A task instance in the API."""

    state: str | None
    try_number: int


@dataclass(frozen=True)
class RunState:
    """A run in the API, with its tasks by id (``id[0]``, ``id[1]``, ... for a mapped task)."""

    state: str
    tasks: Mapping[str, TaskState]


class AirflowApi:
    """Requests to the REST API of an Airflow; ``task_id`` is ``id[1]`` for the second instance of a mapped task.

    :param url: base URL of the server.
    :param output: returns the output of its processes, for the message of a server error.
    """

    def __init__(self, url: str, output: Callable[[], str] = lambda: "") -> None:
        self.url = url
        self._output = output
        self._session = requests.Session()
        # Ignore proxies and ~/.netrc: the server is on loopback.
        self._session.trust_env = False

    def log_in(self) -> None:
        """Log in once the server responds."""
        airflow_versions.log_in(self._session, self.url, USER, PASSWORD)

    def call(self, method: str, path: str, may: int | None = None, **arguments: Any) -> requests.Response:
        """Send a request.

        :param path: path below the API.
        :param may: the status of an allowed error, which is returned.
        :param arguments: arguments of ``requests``.
        :raises requests.HTTPError: for another error, with the message of the server.
        """
        url = f"{self.url}{airflow_versions.API}{path}"
        answer = self._session.request(method, url, timeout=60, **arguments)
        if not answer.ok:
            message = f"{method} {path}: {answer.status_code} {answer.text[:2000]}"
            if answer.status_code >= requests.codes.internal_server_error:
                self._session.close()  # as the server does after its own errors; the next request would fail
                message += f"\n{self._output()}"
            if answer.status_code != may:
                raise requests.HTTPError(message, response=answer)
        return answer

    def get(self, path: str, **parameters: Any) -> Any:
        """Return the response of the server for a path."""
        return self.call("GET", path, params=parameters).json()

    def unhealthy(self) -> list[str]:
        """Return the processes that are not reported as healthy."""
        health = self.get(airflow_versions.HEALTH)
        return [name for name in airflow_versions.HEALTHY if health[name]["status"] != "healthy"]

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG, once Airflow has found it."""

        def unpaused() -> bool:
            if self.call("PATCH", f"/dags/{dag_id}", may=404, json={"is_paused": False}).ok:
                return True
            broken = self._all("/importErrors", "import_errors")
            assert not broken, broken
            return False

        wait_for(f"the DAG {dag_id}", unpaused)

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Trigger a DAG and return the id of the run."""
        answer = self.call("POST", f"/dags/{dag_id}/dagRuns", json=airflow_versions.run_body(conf or {}))
        return str(answer.json()["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG, the oldest first."""
        return sorted(self._all(f"/dags/{dag_id}/dagRuns", "dag_runs"), key=lambda run: run["start_date"] or "~")

    def run(self, dag_id: str, run_id: str) -> RunState:
        """Return the progress of a run."""
        run = self.get(_run(dag_id, run_id))
        tasks = self._all(f"{_run(dag_id, run_id)}/taskInstances", "task_instances")
        states = {}
        for task in tasks:
            index = f"[{task['map_index']}]" if task["map_index"] >= 0 else ""
            states[f"{task['task_id']}{index}"] = TaskState(task["state"], task["try_number"])
        return RunState(run["state"], states)

    def wait(self, dag_id: str, run_id: str, patience: float = PATIENCE) -> RunState:
        """Wait until a run has ended, and return its end."""

        def ended() -> RunState | None:
            run = self.run(dag_id, run_id)
            return run if run.state in ENDED else None

        return wait_for(f"the end of {run_id} of {dag_id}", ended, lambda: self.run(dag_id, run_id), patience)

    def tries(self, dag_id: str, run_id: str, task_id: str) -> list[tuple[str, str | None]]:
        """Return the tries of a task: the host and the state of each."""
        path, map_index = _task(dag_id, run_id, task_id)
        found = self.get(f"{path}/{map_index}/tries" if map_index >= 0 else f"{path}/tries")["task_instances"]
        return [(item["hostname"], item["state"]) for item in sorted(found, key=itemgetter("try_number"))]

    def _all(self, path: str, key: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = self.get(path, limit=100, offset=len(found))
            found += page[key]
            if len(found) >= page["total_entries"]:
                return found

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """Return the log of a try of a task."""
        path, map_index = _task(dag_id, run_id, task_id)
        answer = self.call(
            "GET",
            f"{path}/logs/{try_number}",
            params={"full_content": "true", "map_index": map_index},
            headers={"Accept": airflow_versions.LOG_TYPE},
        )
        return airflow_versions.log_text(answer.content.decode("utf-8"))

    def logs(self, dag_id: str, run_id: str) -> dict[tuple[str, int], str]:
        """Return the logs of a run, by task id and number of the try."""
        return {
            (task_id, number): self.log(dag_id, run_id, task_id, number)
            for task_id, task in self.run(dag_id, run_id).tasks.items()
            for number in range(1, task.try_number + 1)
        }

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return the return value of a task, or another of its XComs."""
        path, map_index = _task(dag_id, run_id, task_id)
        return self.get(f"{path}/xcomEntries/{key}", map_index=map_index, stringify="false")["value"]

    def mark_failed(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Mark a task as failed, like a person on its page."""
        path, map_index = _task(dag_id, run_id, task_id)
        mapped = f"/{map_index}" if map_index >= 0 else ""
        self.call("PATCH", f"{path}{mapped}", json=airflow_versions.MARK_FAILED)

    def clear(self, dag_id: str, run_id: str, *task_ids: str) -> None:
        """Clear tasks and those after them, so that they run again."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": list(task_ids),
            "only_failed": False,
            "include_downstream": True,
            "reset_dag_runs": True,
        }
        cleared = self.call("POST", f"/dags/{dag_id}/clearTaskInstances", json=body).json()["task_instances"]
        assert cleared, body

    def wait_for_question(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Wait until a task of a run asks for a response, and return its question.

        No person responds so quickly that the scheduler has not seen the question yet: it would take the answered task
        for a killed task (3.3.2). So this waits until the scheduler has checked.
        """

        def asked() -> dict[str, Any] | None:
            run = self.get(_run(dag_id, run_id))
            if run["state"] in ENDED:
                raise AssertionError(f"{run_id} of {dag_id} ended without a question: {self.run(dag_id, run_id)}")
            found: list[dict[str, Any]] = self.get(f"{_run(dag_id, run_id)}/hitlDetails")["hitl_details"]
            return found[0] if found else None

        question = wait_for(f"a question of {run_id} of {dag_id}", asked, lambda: self.run(dag_id, run_id))
        task_id, parked = question["task_instance"]["task_id"], ("awaiting_input", "deferred")
        wait_for("the task that waits", lambda: self.run(dag_id, run_id).tasks[task_id].state in parked)
        beats = set()

        def has_looked() -> bool:
            beats.add(self.get(airflow_versions.HEALTH)["scheduler"]["latest_scheduler_heartbeat"])
            return len(beats) > 2  # the first check might have started before

        wait_for("the scheduler", has_looked)
        return question

    def test_connection(self, connection: Mapping[str, Any]) -> tuple[bool, str]:
        """Test a connection (with its ``connection_id``) like the button; return whether it works, and the message."""
        result = self.call("POST", "/connections/test", json=dict(connection)).json()
        return result["status"], result["message"]

    def add_connection(self, connection: Mapping[str, Any]) -> None:
        """Save a connection like the form."""
        self.call("POST", "/connections", json=dict(connection))

    def remove_connection(self, conn_id: str) -> None:
        """Delete a saved connection."""
        self.call("DELETE", f"/connections/{conn_id}")

    def set_variable(self, name: str, value: str) -> None:
        """Set a Variable of Airflow."""
        body = {"key": name, "value": value}
        if not self.call("PATCH", f"/variables/{name}", may=404, json=body).ok:
            self.call("POST", "/variables", json=body)

    def asset_events(self) -> list[dict[str, Any]]:
        """Return the events of assets, at most a hundred, the oldest first; the asset's address is under ``uri``."""
        return self._events(f"/{airflow_versions.ASSET}s/events?limit=100")

    def asset_events_of(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the events that started a run."""
        return self._events(f"{_run(dag_id, run_id)}/upstream{airflow_versions.ASSET.title()}Events")

    def _events(self, path: str) -> list[dict[str, Any]]:
        def shown() -> Any:
            # Airflow 3 returns no event while its run is queued: the run has no start yet (3.3.2).
            answer = self.call("GET", path, may=500)
            return answer.json() if answer.ok else None

        events = wait_for("the events", shown, self._output)[f"{airflow_versions.ASSET}_events"]
        return [{**event, "uri": event[airflow_versions.ASSET_URI]} for event in sorted(events, key=itemgetter("id"))]


def _run(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{quote(run_id)}"


def _task(dag_id: str, run_id: str, task_id: str) -> tuple[str, int]:
    """Return the path of a task instance, and its map index."""
    name, _, index = task_id.removesuffix("]").partition("[")
    return f"{_run(dag_id, run_id)}/taskInstances/{name}", int(index or -1)


class AirflowProcesses:
    """A real Airflow, as a context manager: on exit all its processes have ended.

    By default it has a scheduler, a triggerer, and a web server (and the DAG processor of Airflow 3), on SQLite with
    the LocalExecutor. ``settings`` change that; :meth:`start` adds processes, such as workers.

    :param home: an empty directory, Airflow's home; logs of the processes are in its ``processes`` folder.
    :param dags: the folder of DAGs.
    :param settings: further environment variables of all processes, including connections.
    :param web_only: start the web server, and the others only by :meth:`start_others`.
    """

    def __init__(
        self, home: Path, dags: Path, settings: Mapping[str, str] | None = None, *, web_only: bool = False
    ) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{free_port()}"
        self.api = AirflowApi(self.url, self.output)
        own = {
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            # Short waits of the scheduler add up in tests, so they are shorter here.
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
        }
        of_the_version = airflow_versions.process_settings(self.url)
        self.env = environment(home, {**server_settings(home, self.url), **of_the_version, **own, **(settings or {})})
        self.processes: dict[str, Popen[bytes]] = {}
        self._web_only = web_only
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            for command in airflow_versions.setup_commands(USER, PASSWORD):
                self.run(*command)
            self.start(airflow_versions.WEB_SERVER, airflow_versions.WEB_SERVER)
            if self._web_only:
                wait_for("a web server", self._is_serving)
            else:
                self.start_others()
        except BaseException as error:
            self._stop()
            error.add_note(self.output())
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._stop()
        if error is not None:
            error.add_note(self.output())
        left = processes_of(self.home)
        for process in left:
            process.kill()
        assert not left, f"still running: {[process.cmdline() for process in left]}\n{self.output()}"

    def _stop(self) -> None:
        # All at once: each takes seconds to end.
        for process in self.processes.values():
            process.terminate()
        self._stack.close()

    def start_others(self) -> None:
        """Start the processes that find and run tasks, and wait until all processes are healthy."""
        for name in airflow_versions.OTHER_PROCESSES:
            self.start(name, name)
        if not airflow_versions.AIRFLOW_2:
            self.start("execution-api", *execution_api(self.env))
        wait_for("a healthy Airflow", self._is_healthy)

    def start(self, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> Popen[bytes]:
        """Start an ``airflow`` command that keeps running, and return its process.

        :param name: its name in :attr:`processes`, and of its log file.
        :param env: environment variables of this process only.
        """
        log = self._stack.enter_context(self._log_file(name).open("ab"))
        command = airflow(*arguments, env={**self.env, **(env or {})}, log=log)
        self.processes[name] = self._stack.enter_context(command)
        return self.processes[name]

    def run(self, *arguments: str) -> str:
        """Run an ``airflow`` command, and return its output.

        :raises RuntimeError: if it fails.
        """
        path = self._log_file("-".join(arguments[:2]))
        with path.open("ab") as log, airflow(*arguments, env=self.env, log=log) as process:
            begin = log.tell()
            status = process.wait(PATIENCE)
        printed = path.read_bytes()[begin:].decode("utf-8", "replace")
        if status:
            raise RuntimeError(f"airflow {' '.join(arguments[:2])} ended with status {status}:\n{printed[-3000:]}")
        return printed

    def _log_file(self, name: str) -> Path:
        folder = self.home / "processes"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.log"

    def _is_serving(self) -> bool:
        for name, process in self.processes.items():
            assert process.poll() is None, f"{name} ended with status {process.poll()}"
        try:
            self.api.get(airflow_versions.HEALTH)
            self.api.log_in()
        except requests.RequestException:
            return False  # not yet
        return True

    def _is_healthy(self) -> bool:
        can_run_tasks = airflow_versions.AIRFLOW_2 or has_execution_api(self.env)
        return can_run_tasks and self._is_serving() and not self.api.unhealthy()

    def output(self) -> str:
        """Return the end of the output of each process, for messages."""
        files = sorted((self.home / "processes").glob("*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_bytes()[-2000:].decode('utf-8', 'replace')}" for file in files)
