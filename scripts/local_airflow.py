# SPDX-License-Identifier: Apache-2.0
"""A separate Airflow in a fresh home directory, for ``make demo``, ``make ui`` and the tests of real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO
from urllib.parse import urlsplit

import psutil

CHECKOUT = Path(__file__).resolve().parent.parent
#: Fixed credentials: what is started here listens on loopback only, and not for long.
USER, PASSWORD = "admin", "admin"
#: Signals that end what is started here.
STOPPING = (signal.SIGINT, signal.SIGTERM)
#: Seconds that a process waits for the database while another one writes. After SQLite's own five, a task of Airflow 2
#: dies on a machine whose disk is busy, before it has begun. But no longer than a person waits: the API server of
#: Airflow 3 can wait for itself, as when a form starts a DAG and unpauses it, and answers nothing until this is over.
DATABASE_PATIENCE = 15
_EXECUTION_API = "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"


def environment(home: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of an Airflow in ``home``, without variables of another Airflow.

    :param settings: additional environment variables.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    loopback = "127.0.0.1,localhost"
    return {
        **inherited,
        # "airflow standalone" starts its components by the command "airflow".
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', os.defpath)}",
        # A proxy of the environment cannot reach the servers of this machine.
        "NO_PROXY": loopback,
        "no_proxy": loopback,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout={DATABASE_PATIENCE}",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        **(settings or {}),
    }


def own_temporary_folder(home: Path) -> dict[str, str]:
    """Return the settings for a folder within ``home``: what a process leaves there when it is killed goes with it."""
    folder = home / "tmp"
    folder.mkdir()
    return {"TMPDIR": str(folder)}


def server_settings(home: Path, url: str) -> dict[str, str]:
    """Return the settings of an Airflow 3 that serves its web interface and API at ``url``, to :data:`USER`.

    Settings of tests and demonstrations: connections can be tested, four tasks at most run at the same time, and they
    talk to a server of their own, that of :func:`execution_api`.
    """
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({USER: PASSWORD}))
    return {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": url.rpartition(":")[2],
        "AIRFLOW__API__BASE_URL": url,
        _EXECUTION_API: f"http://127.0.0.1:{free_port()}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        # Number of worker processes, one per concurrent task, all started with the scheduler.
        "AIRFLOW__CORE__PARALLELISM": "4",
        # Unpausing a daily DAG starts a scheduled run; it and the triggered run must not overlap.
        "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "1",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
    }


def execution_api(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command of the API server of an Airflow 3 that tasks talk to.

    One for persons and tasks waits for itself on SQLite (3.3.2): it notes what a person does in its event loop, which
    waits for the transaction of a task's request, whose end waits for the event loop. When :data:`DATABASE_PATIENCE`
    is over, it answers with an error.

    :param env: environment with the :func:`server_settings`.
    """
    return "api-server", "--apps", "execution", "--port", str(urlsplit(env[_EXECUTION_API]).port)


def has_execution_api(env: Mapping[str, str]) -> bool:
    """Return whether the server of :func:`execution_api` has started."""
    try:
        socket.create_connection(("127.0.0.1", urlsplit(env[_EXECUTION_API]).port or 0), timeout=5).close()
    except OSError:
        return False
    return True


@contextmanager
def airflow(*arguments: str, env: Mapping[str, str], log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start an ``airflow`` command that writes to ``log``; on exit, stop it and all its child processes."""
    command = [sys.executable, "-m", "airflow", *arguments]
    # In a new session, so that Ctrl-C reaches this process only, which then stops the others in order.
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield process
    finally:
        _stop(process.pid)
        process.wait()


def _stop(session: int) -> None:
    """Stop all processes of a session: SIGTERM, and SIGKILL after ten seconds."""
    for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        psutil.wait_procs(signal_all(session, number), timeout=patience)


def signal_all(session: int, number: int) -> list[psutil.Process]:
    """Send a signal to all processes of a session, which :func:`airflow` starts, and return them."""
    members = [process for process in psutil.process_iter() if _session(process) == session]
    for process in members:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return members


def _session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid) if process.status() != psutil.STATUS_ZOMBIE else None
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None


def processes_of(home: Path) -> list[psutil.Process]:
    """Return the processes that run with this Airflow home, whoever started them."""
    return [process for process in psutil.process_iter() if home_of(process) == str(home)]


def home_of(process: psutil.Process) -> str | None:
    """Return the Airflow home of a process; None if it has ended, or wrote its title where its environment was."""
    try:
        return process.environ().get("AIRFLOW_HOME")
    except (OSError, psutil.Error):
        return None  # it has ended, or is another user's


def stop_on_signals() -> None:
    """Raise KeyboardInterrupt on Ctrl-C and SIGTERM, so that all child processes are stopped; say so at once."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for each in STOPPING:  # once is enough: what follows would interrupt the stop
            signal.signal(each, signal.SIG_IGN)
        os.write(sys.stdout.fileno(), b"\nStopping.\n")
        raise KeyboardInterrupt

    # SIGINT, too: a shell script starts background processes with SIGINT ignored.
    for number in STOPPING:
        signal.signal(number, stop)


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
