# SPDX-License-Identifier: Apache-2.0
"""Operators in a separate process, which is stopped as Airflow stops a task."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Self

from connections import with_parallel_requests

#: A process that has imported everything and forks a child for each job: importing Airflow takes longer than the job.
#: The child prints "killed" once ``on_kill`` has returned, and how it ended.
_FORKING = """
import json, os, signal, sys, traceback
from types import SimpleNamespace
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites import (
    GetWebsiteOperator, ListWebsitesOperator, UpdateWebsiteOperator
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.api import client

said = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Airflow logs to the standard output

def tell(**what):
    print(json.dumps(what), file=said, flush=True)

class AirflowTaskTerminated(BaseException):
    pass

def run(job):
    os.environ.update(job["environment"])
    client.SETTLE_SECONDS = 0
    task = globals()[job["operator"]](task_id="sync", **job["arguments"])
    of_try = {"run_id": job["run_id"], "try_number": job["try_number"]}
    ti = SimpleNamespace(dag_id="the_dag", task_id="sync", map_index=-1, start_date=None, **of_try)

    def on_term(number, frame):
        task.on_kill()
        os.write(said.fileno(), b'{"event": "killed"}\\n')
        if job["airflow"] == 2:
            raise AirflowTaskTerminated("Task received SIGTERM signal")

    signal.signal(signal.SIGTERM, on_term)
    try:
        task.execute({"ti": ti})
    except BaseException as error:
        tell(event="ended", error=type(error).__name__, message=str(error))
    else:
        tell(event="ended", error=None, message="")

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            run(json.loads(line))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    tell(event="started", pid=pid)
    os.waitpid(pid, 0)
    tell(event="gone")
"""

#: Settings of a job. Airflow 3 continues the task after ``on_kill``, 2 raises an exception.
DEFAULTS: dict[str, Any] = {"airflow": 3, "try_number": 1, "run_id": "run"}


class TaskProcess:
    """Runs an operator at a time: :meth:`start`, then :meth:`terminate` or :meth:`kill`, then :meth:`wait`."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FORKING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def start(self, operator: str, *, parallel_requests: int | None = None, **given: Any) -> None:
        """Start an operator.

        :param given: values of :data:`DEFAULTS`, and arguments of the operator.
        """
        job = {
            **{name: given.pop(name, value) for name, value in DEFAULTS.items()},
            "operator": operator,
            "arguments": given,
            "environment": {"AIRFLOW_CONN_ANALYTICS_DEFAULT": with_parallel_requests(parallel_requests)},
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        self._pid = self._read()["pid"]
        self.killed, self.gone = threading.Event(), threading.Event()
        self.end: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def terminate(self) -> None:
        """Send SIGTERM, and wait until ``on_kill`` has returned."""
        os.kill(self._pid, signal.SIGTERM)
        assert self.killed.wait(20)

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self._pid, signal.SIGKILL)

    def halt(self) -> None:
        """Send SIGSTOP."""
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Send SIGCONT."""
        os.kill(self._pid, signal.SIGCONT)

    def end_all(self) -> None:
        """Kill the processes of a failed test."""
        if hasattr(self, "gone") and not self.gone.is_set():
            self.kill()
            self.wait()

    def wait(self) -> dict[str, Any]:
        """Wait until the operator has ended; return ``error``, the name of its exception, and ``message``."""
        self._thread.join(60)
        assert self.gone.is_set()
        return self.end

    def _follow(self) -> None:
        while (event := self._read())["event"] != "gone":
            if event["event"] == "killed":
                self.killed.set()
            else:
                self.end = event
        self.gone.set()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        read: dict[str, Any] = json.loads(self._process.stdout.readline())
        return read
