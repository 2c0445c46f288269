# SPDX-License-Identifier: Apache-2.0
"""Run the nightly DAG in a fresh Airflow against a local server, and show the snapshot on disk.

Exit status 0 means that the DAG run succeeded and the snapshot on disk holds all websites of the server.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from local_airflow import CHECKOUT, airflow, environment, own_temporary_folder, stop_on_signals

from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.sandbox.server import SandboxServer

DAG_ID = "nightly_website_snapshot"
WEBSITES = 250
OUTPUT = CHECKOUT / ".demo"
LOG = OUTPUT / "airflow.log"
#: Number of websites that the service loses before the second run: more than a guard allows.
LOST = 100
#: Message of the guard in the log.
MESSAGE = re.compile(r"The list has [0-9,]+ websites, .*?(?=\nService: )", re.DOTALL)
#: Timeout of an airflow command in seconds; it takes about ten.
PATIENCE = 300


NEXT = f"""
What to do next:
  make ui                  the same in Airflow's web interface, with all sample DAGs
  docs/quickstart.md       the same in your own Airflow
  dags/{DAG_ID}.py
                           the DAG that ran: copy it to your DAG folder, add a connection analytics_default of type
                           Website Analytics, and set base_path to storage that all workers see"""


class DemoError(Exception):
    """A failure of the demo."""


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    stop_on_signals()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    try:
        with SandboxServer() as sandbox, tempfile.TemporaryDirectory(prefix="airflow-demo-") as home:
            sandbox.seed(WEBSITES)
            say(f"Started a local analytics server with {WEBSITES} websites at {sandbox.url}")
            env = environment(
                Path(home),
                {
                    **sandbox.connection_env,
                    **own_temporary_folder(Path(home)),
                    "ANALYTICS_FOLDER": str(OUTPUT),
                },
            )
            say("Setting up a fresh Airflow: airflow db migrate")
            run(env, "db", "migrate")
            say(f"Running the DAG: airflow dags test {DAG_ID}")
            run(env, "dags", "test", DAG_ID)
            say(f"Airflow reports: {run_state(Path(home), ['success'])}")
            show_snapshot()
            show_blocked_snapshot(sandbox, env, Path(home))
    except DemoError as error:
        say(f"FAILED: {error}\nAirflow's log is in {LOG}")
        return 1
    except KeyboardInterrupt:
        say("Stopped: all processes have ended.")
        return 130
    say(NEXT)
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(env: dict[str, str], *arguments: str, may_fail: bool = False) -> None:
    with LOG.open("ab") as log, airflow(*arguments, env=env, log=log) as process:
        try:
            status = process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise DemoError(f"airflow {arguments[0]} {arguments[1]} took more than {PATIENCE} s") from None
    if status != 0 and not may_fail:
        raise DemoError(f"airflow {arguments[0]} {arguments[1]} ended with status {status}")


def run_state(home: Path, expected: list[str]) -> str:
    """Return the state of the last run in Airflow's database.

    :param expected: the states of all runs.
    :raises DemoError: if the states are others.
    """
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        states = [
            state for (state,) in database.execute("SELECT state FROM dag_run WHERE dag_id = ? ORDER BY id", (DAG_ID,))
        ]
    if states != expected:
        raise DemoError(f"the runs of {DAG_ID} should have the states {expected}, but they have {states}")
    return f"the run of {DAG_ID} is in state {states[-1]}"


def show_snapshot() -> None:
    """Read the snapshot back from disk and show it."""
    published = [marker.parent for marker in OUTPUT.glob("_websites/dt=*/_SUCCESS")]
    if len(published) != 1:
        raise DemoError(f"there should be one published snapshot, but there are {len(published)}")
    data = OUTPUT / "websites" / published[0].name
    files = sorted(data.iterdir())
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    say(f"Snapshot: {data}")
    for file in (*files, *sorted(published[0].iterdir())):
        say(f"  {file.relative_to(OUTPUT)}  {file.stat().st_size:,} bytes")
    ids = {row["id"] for row in rows}
    say(f"Websites on disk: {len(rows)}, distinct ids: {len(ids)}; the newest three:")
    for row in rows[:3]:
        say(f"  {row['id']:>4}  {row['domain']:<32} {Privacy(row['privacy']).name.lower()}")
    if len(rows) != WEBSITES or len(ids) != WEBSITES:
        raise DemoError(f"the snapshot should hold {WEBSITES} websites")


def show_blocked_snapshot(sandbox: SandboxServer, env: dict[str, str], home: Path) -> None:
    """Let the service lose websites, run the DAG again, and show why nothing was published and how to publish."""
    for website_id in range(1, LOST + 1):
        sandbox.remove_website(website_id)
    say(f"\nThe server loses {LOST} of {WEBSITES} websites. Running the DAG again: airflow dags test {DAG_ID}")
    before = LOG.stat().st_size
    run(env, "dags", "test", DAG_ID, may_fail=True)
    say(f"Airflow reports: {run_state(home, ['success', 'failed'])}. The log of the task says:")
    with LOG.open("rb") as file:
        file.seek(before)
        text = file.read().decode("utf-8", "replace")
    message = MESSAGE.search(text)
    if message is None:
        raise DemoError("the log has no message of the guard")
    say("\n".join(f"  {line}" for line in message[0].splitlines()))
    ids = len(list(OUTPUT.glob("_websites/dt=*/_SUCCESS")))
    if ids != 1:
        raise DemoError(f"the first snapshot should be published still, but {ids} are")
    say("The snapshot of the first run remains published.")


if __name__ == "__main__":
    sys.exit(main())
