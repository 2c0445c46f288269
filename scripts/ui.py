# SPDX-License-Identifier: Apache-2.0
"""Start Airflow's web interface with a local server, a connection to it and the sample DAGs, until Ctrl-C.

The sample DAGs start paused, as all new DAGs in Airflow. Triggering one in the web interface unpauses it, so that it
also runs on its schedule. One that is scheduled on an asset must be unpaused.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import requests
from airflow import __version__ as airflow_version
from local_airflow import (
    CHECKOUT,
    PASSWORD,
    USER,
    airflow,
    environment,
    execution_api,
    free_port,
    has_execution_api,
    own_temporary_folder,
    server_settings,
    stop_on_signals,
)
from packaging.version import Version

from airflow_provider_analytics.sandbox.server import SandboxServer

WEBSITES = 250
OUTPUT = CHECKOUT / ".ui"
LOG = OUTPUT / "airflow.log"
#: Timeout for the web interface to start, in seconds; it takes about thirty.
PATIENCE = 180

#: What the sample DAGs ask for, so that each runs at the first click.
VARIABLES = {
    "exclude_ips": "203.0.113.7  # office\n198.51.100.0  # VPN",
    "analytics_instances": ["analytics_default"],
    "analytics_notify": "team@example.com",
}
POOL = ("analytics", "4", "instances")


class UIError(Exception):
    """A failure to start the web interface, or its unexpected end."""


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    if Version(airflow_version) < Version("3"):
        say(f"FAILED: make ui shows Airflow 3, and this is {airflow_version}: run it without AIRFLOW=.")
        return 2
    stop_on_signals()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    try:
        with (
            LOG.open("ab") as log,
            SandboxServer() as sandbox,
            tempfile.TemporaryDirectory(prefix="airflow-ui-") as home,
        ):
            sandbox.seed(WEBSITES)
            serve(Path(home), sandbox, log)
    except UIError as error:
        say(f"FAILED: {error}\nAirflow's log is in {LOG}")
        return 1
    except KeyboardInterrupt:
        say("Stopped: all processes have ended.")
    return 0


def serve(home: Path, sandbox: SandboxServer, log: IO[bytes]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    env = environment(home, {**server_settings(home, url), **own_temporary_folder(home)})
    say("Setting up a fresh Airflow")
    run(env, log, "db", "migrate")
    # In the database, not in the environment: the list of connections shows only those of the database.
    run(env, log, "connections", "add", "analytics_default", "--conn-json", connection_json(sandbox))
    variables = home / "variables.json"
    variables.write_text(json.dumps(VARIABLES))
    run(env, log, "variables", "import", str(variables))
    run(env, log, "pools", "set", *POOL)
    say("Starting the web interface")
    with airflow(*execution_api(env), env=env, log=log), airflow("standalone", env=env, log=log) as process:
        wait_until_up(url, env, process)
        say(f"\nAirflow:          {url}  (user {USER}, password {PASSWORD})")
        say(f"Analytics server: {sandbox.url}  (API key {sandbox.api_key}, {WEBSITES} websites)")
        say("Ctrl-C stops both.")
        raise UIError(f"airflow standalone ended with status {process.wait()}")


def connection_json(sandbox: SandboxServer) -> str:
    """Return the connection with a separate port: Airflow 3.3.2 rejects to test one without (its PR 73298)."""
    host, _, port = sandbox.url.rpartition(":")
    return json.dumps({**json.loads(sandbox.connection_json()), "host": host, "port": int(port)})


def run(env: dict[str, str], log: IO[bytes], *arguments: str) -> None:
    with airflow(*arguments, env=env, log=log) as process:
        if status := process.wait(timeout=PATIENCE):
            raise UIError(f"airflow {arguments[0]} {arguments[1]} ended with status {status}")


def wait_until_up(url: str, env: dict[str, str], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    with requests.Session() as session:
        # Ignore proxies and ~/.netrc: the server is on loopback.
        session.trust_env = False
        while process.poll() is None and time.monotonic() < deadline:
            try:
                health = session.get(f"{url}/api/v2/monitor/health", timeout=5).json()
                healthy = all(health[part]["status"] == "healthy" for part in ("scheduler", "dag_processor"))
                if healthy and has_execution_api(env):
                    return
            except (requests.RequestException, KeyError):
                pass
            time.sleep(0.5)
    raise UIError("the web interface did not start")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
