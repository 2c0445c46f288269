# SPDX-License-Identifier: Apache-2.0
"""Servers for several workers: PostgreSQL, Redis, and S3, on free ports, removed afterwards."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_processes import wait_for
from local_airflow import free_port

#: The servers do not run as root, and Debian's package of PostgreSQL has its own user.
UNPRIVILEGED = "nobody"


def program(name: str) -> str:
    """Return the path of a program of PostgreSQL, which Debian stores in a folder per version.

    :raises FileNotFoundError: if it is not installed.
    """
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    found = str(newest[-1]) if newest else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: see .ci/run")
    return found


@dataclass(frozen=True)
class Backends:
    """Running servers.

    :param database: URL of the database.
    :param broker: URL of Redis.
    :param s3: URL of the S3 server.
    """

    database: str
    broker: str
    s3: str

    def dump(self, folder: Path) -> None:
        """Write the data of the database and of Redis, readable, into a folder."""
        name = f"{len(list(folder.iterdir()))}"
        dumped = _run([program("pg_dump"), "--inserts", self.database])
        (folder / f"{name}.sql").write_bytes(dumped)
        _run(["redis-cli", "-u", self.broker, "--rdb", str(folder / f"{name}.rdb")])


@contextmanager
def backends() -> Iterator[Backends]:
    """Start the three servers, and stop them and remove their files afterwards."""
    with tempfile.TemporaryDirectory(prefix="analytics-backends-") as name:
        folder = Path(name)
        with postgres(folder / "postgres") as database, _redis(folder / "redis") as broker, _s3(folder) as s3:
            yield Backends(database, broker, s3)


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    user = _owner_of(folder)
    port, password = free_port(), secrets.token_hex(8)
    file = folder / "password"
    file.write_text(password)
    if user:
        shutil.chown(file, user)
    data = folder / "data"
    login = ["--username=airflow", f"--pwfile={file}", "--auth=scram-sha-256"]
    _run([program("initdb"), f"--pgdata={data}", *login, "--no-sync", "--encoding=UTF8", "--locale=C"], user)
    command = [program("postgres"), "-D", str(data), "-k", str(folder), "-p", str(port), "-c", "fsync=off"]
    url = f"postgresql://airflow:{password}@127.0.0.1:{port}/postgres"
    with _server([*command, "-c", "listen_addresses=127.0.0.1"], folder / "log.txt", user):
        wait_for("PostgreSQL", lambda: _answers([program("psql"), url, "-c", "select 1"]))
        yield url


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    user = _owner_of(folder)
    port, password = free_port(), secrets.token_hex(8)
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(folder),
        "save": "",
        "rdbcompression": "no",  # so that a dump can be searched
        "requirepass": password,
    }
    command = ["redis-server", *(part for name, value in options.items() for part in (f"--{name}", value))]
    url = f"redis://default:{password}@127.0.0.1:{port}/0"
    with _server(command, folder / "log.txt", user):
        wait_for("Redis", lambda: _answers(["redis-cli", "-e", "-u", url, "ping"]))
        yield url


@contextmanager
def _s3(folder: Path) -> Iterator[str]:
    port = free_port()
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"
    with _server(command, folder / "s3.txt", None):
        wait_for("S3", lambda: _listens(port))
        yield url


def _owner_of(folder: Path) -> str | None:
    """Make a folder for a server, and return its user; None for the current user."""
    folder.parent.chmod(0o755)  # the user has to reach it
    folder.mkdir()
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, UNPRIVILEGED)
    return UNPRIVILEGED


@contextmanager
def _server(command: Sequence[str], log: Path, user: str | None) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=log.parent, **_as_user(user)
        )
        try:
            yield
        except BaseException as error:
            error.add_note(f"--- {command[0]}\n{log.read_text('utf-8', 'replace')[-1000:]}")
            raise
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _run(command: Sequence[str], user: str | None = None) -> bytes:
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        command, capture_output=True, check=False, cwd="/", **_as_user(user)
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with status {done.returncode}:\n{done.stderr.decode()[-2000:]}")
    return done.stdout


def _answers(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0


def _as_user(user: str | None) -> dict[str, Any]:
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except OSError:
        return False
