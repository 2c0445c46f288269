# SPDX-License-Identifier: Apache-2.0
"""Killed writers: a writer that is killed at any moment leaves the old or the new snapshot, complete.

Each round is a real process that reads the sandbox and publishes, and kills itself at another step. The rounds
continue from the files of the dead process. A reader reads during and after each round.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from airflow_provider_analytics.sandbox.server import SandboxServer

KILLS = 60
#: Steps between the kills of two rounds; a snapshot has about a hundred.
STEPS = 4

#: For each number on its input, starts a process that takes snapshots until it kills itself at that step, which is an
#: opened file or connection, or a changed folder. Prints each publication and each end.
WRITER = """
import os, signal, sys
from datetime import timedelta
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from shelf import NOON, Shelf


def take_until(left, now):
    def step(event, args):
        nonlocal left
        if event == "open" or event.startswith(("os.", "socket.")):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with AnalyticsClient(Settings(base_url=sys.argv[1], api_key=sys.argv[2])) as client:
        sys.addaudithook(step)
        while True:
            Shelf(sys.argv[3]).take(client.iter_websites, now, max_loss_fraction=1)
            now += timedelta(seconds=1)
            print("published", flush=True)


for number, line in enumerate(sys.stdin):
    child = os.fork()
    if child == 0:
        take_until(int(line), NOON + timedelta(minutes=number))
    print("ended", os.waitpid(child, 0)[1], flush=True)
"""


def read_as_documented(base: Path) -> str | None:
    """Follow the documented rule with only the standard library; return when the list was read."""
    about = base / "_websites" / "dt=2026-11-20"
    for _ in range(100):
        if not (about / "_SUCCESS").exists():
            return None
        manifest = json.loads((about / "_manifest.json").read_bytes())
        try:
            contents = [(base / file["path"]).read_bytes() for file in manifest["files"]]
        except FileNotFoundError:
            continue  # replaced in the meantime: read the manifest again
        assert [hashlib.sha256(content).hexdigest() for content in contents] == [
            item["sha256"] for item in manifest["files"]
        ]
        rows = [json.loads(line) for content in contents for line in content.splitlines()]
        assert len(rows) == len({row["id"] for row in rows}) == manifest["count"]
        [moment] = {str(row["observed_at"]) for row in rows}
        return moment
    raise AssertionError("the files of every manifest were gone")


def until_ended(lines: Iterable[str] | None) -> Iterator[str]:
    for line in lines or ():
        yield line
        if line.startswith("ended"):
            return


@pytest.mark.kill
def test_readers_never_see_a_partial_snapshot_after_sixty_kills(
    analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    analytics_sandbox.seed(120)
    seen: list[str | None] = []
    published = 0
    command = [sys.executable, "-c", WRITER, analytics_sandbox.url, analytics_sandbox.api_key, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "support")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, bufsize=1, env=environment) as writer:  # type: ignore[call-overload]
        for kill in range(KILLS):
            writer.stdin.write(f"{1 + kill * STEPS}\n")
            said: list[str] = []
            reader = threading.Thread(target=said.extend, args=(until_ended(writer.stdout),))
            reader.start()
            while reader.is_alive():
                seen.append(read_as_documented(tmp_path))
            seen.append(read_as_documented(tmp_path))
            published += "published\n" in said
            assert said[-1] == f"ended {signal.SIGKILL:d}\n"
            analytics_sandbox.add_website(f"after-{kill}.example.com")
        writer.stdin.close()
    moments = [found for found in seen if found]
    assert moments == sorted(moments), "a reader saw an older snapshot after a newer one"
    assert None not in seen[seen.index(moments[0]) :]
    assert 0 < published < KILLS, "adapt STEPS: some kills have to come before the first publication, and some after it"
