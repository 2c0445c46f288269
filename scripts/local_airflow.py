"""A separate Airflow in a fresh home directory, for ``make demo`` and ``make ui``."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil

CHECKOUT = Path(__file__).resolve().parent.parent


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
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        **(settings or {}),
    }


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
        members = [process for process in psutil.process_iter() if _session(process) == session]
        for process in members:
            process.send_signal(number)
        psutil.wait_procs(members, timeout=patience)


def _session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid) if process.status() != psutil.STATUS_ZOMBIE else None
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None


def stop_on_signals() -> None:
    """Raise KeyboardInterrupt on Ctrl-C and SIGTERM, so that all child processes are stopped."""
    # SIGINT, too: a shell script starts background processes with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
