"""An Airflow of its own in a fresh home, next to a sandbox, for the demo and for looking around."""

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
    """Return the environment for an Airflow whose home is ``home``; nothing of another Airflow leaks in."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    loopback = "127.0.0.1,localhost"
    return {
        **inherited,
        # "airflow standalone" starts its parts as "airflow".
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', os.defpath)}",
        # A proxy of the environment cannot reach this machine's own servers.
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
    """Start an ``airflow`` command that writes to ``log``; at the end nothing that it started is left."""
    command = [sys.executable, "-m", "airflow", *arguments]
    # In a session of its own, so that Ctrl-C reaches this process only and the order of stopping is ours.
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield process
    finally:
        _stop(process.pid)
        process.wait()


def _stop(session: int) -> None:
    """Stop every process of a session: asked first, killed when it is still there after ten seconds."""
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
    """Let Ctrl-C and SIGTERM end this process in order, so that everything it started is stopped too."""
    # SIGINT as well: what a script starts in the background begins with that signal ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
