"""A writer that is killed at any moment leaves the snapshot before it or its own, whole.

Each round is a real process that reads the sandbox and publishes, and kills itself at another step. The rounds go on
from what the dead process left; a reader looks while it happens and after.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

KILLS = 60
#: Steps between the kills of two rounds; a snapshot has about a hundred.
STEPS = 4

#: For each number that it reads, starts a process that takes snapshots until it kills itself: at that step, which is
#: when it opens a file or a connection, or changes a folder, for the so many-th time. Prints each publication, and each
#: end.
WRITER = """
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.snapshots.catalog import dataset_of
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import SnapshotOptions, Origin, take_snapshot


def take_until(left, now):
    def step(event, args):
        nonlocal left
        if event == "open" or event.startswith(("os.", "socket.")):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with AnalyticsClient(Settings(base_url=sys.argv[1], api_key=sys.argv[2])) as client:
        origin = Origin(client.iter_websites, ListSource(url="https://sandbox", account_id=None), client.stats)
        sys.addaudithook(step)
        while True:
            options = SnapshotOptions(max_loss_fraction=1)
            take_snapshot(dataset_of(sys.argv[3]), now.date(), origin, now=now, options=options)
            now += timedelta(seconds=1)
            print("published", flush=True)


for number, line in enumerate(sys.stdin):
    child = os.fork()
    if child == 0:
        take_until(int(line), datetime(2026, 11, 20, tzinfo=UTC) + timedelta(minutes=number))
    print("ended", os.waitpid(child, 0)[1], flush=True)
"""


def read_as_documented(base: Path, day: str) -> tuple[int, str] | None:
    """Follow the rule of the documentation with nothing but the standard library."""
    about = base / "_websites" / f"dt={day}"
    for _ in range(100):
        if not (about / "_SUCCESS").exists():
            return None
        manifest = json.loads((about / "_manifest.json").read_bytes())
        try:
            contents = [(base / file["path"]).read_bytes() for file in manifest["files"]]
        except FileNotFoundError:
            continue  # replaced meanwhile: read the manifest again
        for file, content in zip(manifest["files"], contents, strict=True):
            assert hashlib.sha256(content).hexdigest() == file["sha256"]
        rows = [json.loads(line) for content in contents for line in content.splitlines()]
        assert len(rows) == len({row["id"] for row in rows}) == manifest["count"]
        assert len({row["observed_at"] for row in rows}) == 1
        return manifest["count"], rows[0]["observed_at"]
    raise AssertionError("the files of every manifest were gone")


def until_ended(lines: Iterable[str] | None) -> Iterator[str]:
    for line in lines or ():
        yield line
        if line.startswith("ended"):
            return


@pytest.mark.kill
def test_sixty_kills_never_show_a_part_of_a_snapshot(analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(120)
    day = "2026-11-20"
    seen: list[tuple[int, str] | None] = []
    published = 0
    command = [sys.executable, "-c", WRITER, analytics_sandbox.url, analytics_sandbox.api_key, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for kill in range(KILLS):
            writer.stdin.write(f"{1 + kill * STEPS}\n")
            said: list[str] = []
            reader = threading.Thread(target=said.extend, args=(until_ended(writer.stdout),))
            reader.start()
            while reader.is_alive():
                seen.append(read_as_documented(tmp_path, day))
            seen.append(read_as_documented(tmp_path, day))
            published += "published\n" in said
            assert said[-1] == f"ended {signal.SIGKILL:d}\n"
            analytics_sandbox.add_website(f"after-{kill}.example.com")
        writer.stdin.close()
    moments = [found[1] for found in seen if found]
    assert moments == sorted(moments), "a reader saw an older snapshot after a newer one"
    assert None not in seen[seen.index(next(found for found in seen if found)) :]
    assert 0 < published < KILLS, "adapt STEPS: some kills have to come before the first publication, and some after it"


@pytest.mark.kill
@pytest.mark.system
@pytest.mark.chosen
def test_a_killed_airflow_task_leaves_the_last_snapshot(analytics_sandbox: Any, tmp_path: Path) -> None:
    """The whole of it: Airflow's own process runs the nightly DAG and is killed while it reads the list."""
    home, base = tmp_path / "home", tmp_path / "base"
    (home / "dags").mkdir(parents=True)
    dag_file = Path(__file__).parents[3] / "dags" / "nightly_website_snapshot.py"
    (home / "dags" / dag_file.name).write_bytes(dag_file.read_bytes())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")} | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "WEBSITE_ANALYTICS_FOLDER": str(base),
        **analytics_sandbox.connection_env,
    }
    airflow = [sys.executable, "-m", "airflow"]
    command = [*airflow, "dags", "test", "nightly_website_snapshot"]
    subprocess.run([*airflow, "db", "migrate"], env=environment, check=True, capture_output=True)
    analytics_sandbox.seed(1_000)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    (partition,) = base.glob("websites/*")
    day = partition.name.removeprefix("dt=")
    good = read_as_documented(base, day)
    assert good is not None
    assert good[0] == 1_000
    for stop_after in (2, 9):
        analytics_sandbox.clear_requests()
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as task:
            while len(analytics_sandbox.requests) < stop_after and task.poll() is None:
                time.sleep(0.001)  # until the task has asked for so many pages, not for a time
            os.killpg(task.pid, signal.SIGKILL)
        assert read_as_documented(base, day) == good
