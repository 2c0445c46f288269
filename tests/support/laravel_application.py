# SPDX-License-Identifier: Apache-2.0
"""The Laravel application of tests/laravel as a process, in one of its variations.

``python tests/support/laravel_application.py [PORT] [NAME=VALUE ...]`` starts it for a developer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from local_airflow import free_port

APPLICATION = Path(__file__).parents[1] / "laravel"
#: Where Debian keeps the framework.
FRAMEWORK = Path("/usr/share/php/Illuminate/autoload.php")
INSTALL = "apt-get install php-cli php-sqlite3 php-mbstring php-xml php-laravel-framework"
API_KEY = "laravel-key"
_START_SECONDS = 20
# Each request compiles the framework again without them. What PHP prints is no part of a response.
PHP_OPTIONS = ["-d", "opcache.enable_cli=1", "-d", "opcache.validate_timestamps=0", "-d", "display_errors=0"]
_PHP = ["php", *PHP_OPTIONS]

#: Variation to its environment variable, the value that differs from the base application.
VARIATIONS: dict[str, dict[str, str]] = {
    "base": {},
    "simplePaginate": {"APP_LIST": "simple"},
    "cursorPaginate": {"APP_LIST": "cursor"},
    "no pages": {"APP_LIST": "all"},
    "links without the query": {"APP_LIST": "short_links"},
    "paginator without resource": {"APP_LIST": "paginator"},
    "paginator in data": {"APP_LIST": "nested"},
    "list under websites": {"APP_LIST": "named"},
    "bare array": {"APP_LIST": "array"},
    "numbered keys": {"APP_LIST": "numbered"},
    "records without wrapping": {"APP_WRAP": ""},
    "records under website": {"APP_WRAP": "website"},
    "status and message beside data": {"APP_BESIDE": "1"},
    "no casts": {"APP_CASTS": "none"},
    "flags as booleans": {"APP_CASTS": "booleans"},
    "integers as texts": {"DB_STRINGIFY": "1"},
    "null left out": {"APP_NULLS": "omitted"},
    "created as sent": {"APP_CREATED": "as_sent"},
    "UUIDs": {"APP_IDS": "uuid"},
    "favorite only true and false": {"APP_FAVORITE": "text"},
    "favorite without rule": {"APP_FAVORITE": "cast"},
    "filter by rule": {"APP_FILTER": "rule"},
    "filter by where": {"APP_FILTER": "where"},
    "filter of numbers": {"APP_FILTER": "number"},
    "filter of texts": {"APP_FILTER": "text"},
    "no cleaning middleware": {"APP_CLEANING": "none"},
    "empty values ignored": {"APP_EMPTY": "ignored"},
    "absent flags are false": {"APP_ABSENT": "false"},
    "CR LF": {"APP_LINES": "crlf"},
    "lists as arrays": {"APP_LINES": "array"},
    "lists cut at 255": {"APP_LINES": "cut"},
    "writes return a message": {"APP_WRITTEN": "message"},
    "writes return nothing": {"APP_WRITTEN": "nothing"},
    "soft deletes": {"APP_DELETES": "soft"},
    "queued updates": {"QUEUE_CONNECTION": "database"},
    "plan limit 403": {"APP_PLAN_LIMIT": "403"},
    "plan limit 422": {"APP_PLAN_LIMIT": "422"},
    "debug": {"APP_DEBUG": "true"},
    "60 requests per minute": {"APP_THROTTLE": "60"},
    "429 in another form": {"APP_THROTTLE": "60", "APP_LIMITED": "1"},
    "dates for people": {"APP_RECORD": "people"},
    "rows without settings": {"APP_RECORD": "short"},
    "lists as objects": {"APP_LINES": "objects"},
    "403 for a missing website": {"APP_MISSING": "403"},
    "messages in German": {"APP_LOCALE": "de"},
    "two websites per page": {"APP_SIZE": "2"},
    "two websites per page by cursor": {"APP_SIZE": "2", "APP_LIST": "cursor"},
    "domains in lower case": {"APP_DOMAIN": "lower"},
    "ETag": {"APP_ETAG": "1"},
    "202 for writes": {"APP_WRITTEN": "accepted"},
}
#: Variations whose forms are not in the table of the interface.
REFUSED = {
    "list under data.websites": {"APP_LIST": "beside"},
    "privacy as label": {"APP_RECORD": "labels"},
    "privacy as object": {"APP_RECORD": "objects"},
}


def require_tools(programs: Mapping[str, str]) -> None:
    """Skip the test if one of the programs is missing, or fail in CI.

    :param programs: program to the command that installs it.
    """
    missing = {name: install for name, install in programs.items() if shutil.which(name) is None}
    if "php" in programs and not FRAMEWORK.exists():
        missing["Laravel"] = programs["php"]
    for name, install in missing.items():
        message = f"{name} is not there. Run: {install}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


class LaravelApplication:
    """The application in PHP's own server, with a database of its own.

    :param variables: environment variables of a variation.
    :param websites: websites to create at the start.
    """

    def __init__(self, variables: Mapping[str, str] | None = None, *, websites: int = 0, port: int = 0) -> None:
        self._storage = Path(tempfile.mkdtemp(prefix="laravel-"))
        self._port = port or free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = {
            "PATH": os.environ["PATH"],
            "PHP_CLI_SERVER_WORKERS": "4",
            "APP_STORAGE": str(self._storage),
            # One file in place of a folder with one per section.
            "APP_CONFIG_CACHE": "bootstrap/config.php",
            "APP_SERVICES_CACHE": str(self._storage / "services.php"),
            "APP_PACKAGES_CACHE": str(self._storage / "packages.php"),
            "APP_API_KEY": API_KEY,
            "APP_WEBSITES": str(websites),
            **(variables or {}),
        }
        self.api_key = API_KEY
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Create the tables, start the server, and wait until it accepts connections."""
        for folder in ("cache", "views", "framework"):
            (self._storage / folder).mkdir()
        (self._storage / "database.sqlite").touch()
        self.artisan("migrate", "--force")
        self._serve()
        if self._environment.get("QUEUE_CONNECTION"):
            self._run(*_PHP, "artisan", "queue:work", "--sleep=0.1")

    def _serve(self) -> None:
        self._run(*_PHP, "-S", f"127.0.0.1:{self._port}", "-t", "public", "public/index.php")
        self._wait_for(self._connect)

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=1)

    def artisan(self, *arguments: str) -> None:
        """Run a command of the application, such as ``down --retry=1``."""
        self._execute(*_PHP, "artisan", *arguments)

    def _execute(self, *command: str) -> None:
        ended = subprocess.run(command, cwd=APPLICATION, env=self._environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def _run(self, *command: str) -> None:
        with (self._storage / "output.txt").open("ab") as output:
            process = subprocess.Popen(
                command, cwd=APPLICATION, env=self._environment, stdout=output, stderr=output, start_new_session=True
            )
        self._processes.append(process)

    def _wait_for(self, connect: Callable[[], socket.socket]) -> None:
        """Wait until a process that was started accepts connections."""
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and all(process.poll() is None for process in self._processes):
            with suppress(OSError), connect():
                return
            time.sleep(0.01)
        raise RuntimeError(f"The application did not start:\n{(self._storage / 'output.txt').read_text()}")

    def stop(self) -> None:
        """End the processes, and remove the database."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self._storage, ignore_errors=True)

    def connection_json(self) -> str:
        """Return the Airflow connection to this application as JSON."""
        return json.dumps({"conn_type": "analytics", "host": self.url, "password": self.api_key})

    def log(self) -> str:
        """Return the log of the application, with its errors."""
        path = self._storage / "laravel.log"
        return path.read_text() if path.exists() else ""


def main(arguments: list[str]) -> None:
    """Start the application until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Start the Laravel application until Ctrl-C.")
    parser.add_argument("port", nargs="?", type=int, default=0)
    parser.add_argument("variables", nargs="*", help="variables of its environment, such as PAGINATOR=simple")
    given = parser.parse_args(arguments)
    variables = dict(variable.split("=", 1) for variable in given.variables)
    with LaravelApplication(variables, port=given.port) as application:
        print(f"URL  {application.url}\nKey  {application.api_key}")
        print(f"AIRFLOW_CONN_ANALYTICS_DEFAULT='{application.connection_json()}'", flush=True)
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        stopped.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
