"""Processes that are killed, and the run after: every website as desired, none twice."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from connections import with_parallel_requests
from distortion import Distortion
from fixture_types import Execute

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = pytest.mark.kill

#: A process that has imported all and forks a child for each job: importing Airflow takes longer than the job.
FORKING = """
import json, os, sys
from types import SimpleNamespace
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
said = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Airflow logs to the standard output
ti = SimpleNamespace(dag_id="the_dag", run_id="killed", task_id="sync", map_index=-1, try_number=1, start_date=None)
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"] = job["connection"]
        try:
            globals()[job["operator"]](task_id="sync", **job["arguments"]).execute({"ti": ti})
        finally:
            os._exit(0)
    print(pid, file=said, flush=True)
    os.waitpid(pid, 0)
    print("ended", file=said, flush=True)
"""

Kill = Callable[[str, dict[str, Any], int, bool], bool]


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture
def kill(forking: subprocess.Popen[str], distortion: Distortion) -> Kill:
    def run_and_kill(operator: str, arguments: dict[str, Any], step: int, arrives: bool) -> bool:
        """Kill a job while its request number ``step`` is under way; return whether it had so many.

        :param arrives: whether that request is applied after the kill.
        """
        numbers = itertools.count(1)
        held, killed = threading.Event(), threading.Event()

        def hold(method: str, path: str) -> None:
            if next(numbers) >= step:
                held.set()
                killed.wait(60)
                if not arrives:
                    raise ConnectionError("never arrives")

        distortion.before = hold
        job = {
            "operator": operator,
            "arguments": arguments,
            "connection": with_parallel_requests(2),
        }
        assert forking.stdin is not None
        assert forking.stdout is not None
        forking.stdin.write(json.dumps(job) + "\n")
        forking.stdin.flush()
        pid = int(forking.stdout.readline())
        ended = threading.Thread(target=forking.stdout.readline)
        ended.start()
        while not held.wait(0.01) and ended.is_alive():
            pass
        if held.is_set():
            os.kill(pid, signal.SIGKILL)
        ended.join(60)
        distortion.before = lambda method, path: None
        killed.set()
        return held.is_set()

    return run_and_kill


STEPS = [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 17, 19, 21, 22, 23]


@pytest.mark.parametrize("arrives", [False, True], ids=["lost", "arrives"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.chosen(5)
def test_a_killed_sync_converges_on_the_next_run(
    analytics_sandbox: SandboxServer, kill: Kill, execute: Execute, tmp_path: Path, step: int, arrives: bool
) -> None:
    for number in range(1, 11):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    arguments: dict[str, Any] = {"state_path": str(tmp_path), "exclude_ips": ["203.0.113.7"]}
    kill("SyncExcludedIpsOperator", arguments, step, arrives)
    audited = sum(len(trail.read_text().splitlines()) for trail in tmp_path.rglob("*.jsonl"))
    changed = sum(website["exclude_ips"] != "10.0.0.1" for website in analytics_sandbox.websites())
    assert audited <= changed <= audited + 2  # what was under way
    # What the killed process added is the list's own, so that the next run can remove it, whatever its list is then.
    execute(SyncExcludedIpsOperator, **{**arguments, "exclude_ips": ["203.0.113.8"]})
    assert [website["exclude_ips"] for website in analytics_sandbox.websites()] == ["10.0.0.1\n203.0.113.8"] * 10


@pytest.mark.parametrize("arrives", [False, True], ids=["lost", "arrives"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.chosen(5)
def test_a_killed_removal_converges_on_the_next_run(
    analytics_sandbox: SandboxServer, kill: Kill, execute: Execute, tmp_path: Path, step: int, arrives: bool
) -> None:
    """The table says that the entry has left before the first website loses it."""
    for number in range(1, 11):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1\n203.0.113.7")
    arguments: dict[str, Any] = {"state_path": str(tmp_path), "exclude_ips": ["203.0.113.8"]}
    execute(SyncExcludedIpsOperator, **{**arguments, "exclude_ips": ["203.0.113.7"]})
    kill("SyncExcludedIpsOperator", arguments, step, arrives)
    execute(SyncExcludedIpsOperator, run_id="next", **arguments)
    assert [website["exclude_ips"] for website in analytics_sandbox.websites()] == ["10.0.0.1\n203.0.113.8"] * 10


@pytest.mark.parametrize("arrives", [False, True], ids=["lost", "arrives"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.chosen(5)
def test_a_killed_apply_of_an_approved_plan_converges_on_the_next_run(
    analytics_sandbox: SandboxServer, kill: Kill, execute: Execute, tmp_path: Path, step: int, arrives: bool
) -> None:
    for domain in ("old1", "old2", "old3", "same", "gone1", "gone2"):
        analytics_sandbox.add_website(f"{domain}.example", exclude_ips="10.0.0.1", privacy=int(domain == "same"))
    analytics_sandbox.configure(allow_duplicates=True)
    config = tmp_path / "websites.yaml"
    domains = [f"{name}.example" for name in ("old1", "old2", "old3", "same", "new1", "new2", "new3")]

    def write(address: str) -> None:
        defaults = {"privacy": "private", "favorite": True, "exclude_ips": [address]}
        config.write_text(json.dumps({"defaults": defaults, "websites": dict.fromkeys(domains)}))

    def state() -> tuple[Any, ...]:
        websites = analytics_sandbox.websites()
        entries = {website["exclude_ips"].removeprefix("10.0.0.1\n") for website in websites}
        settings = {(website["privacy"], website["favorite"]) for website in websites}
        return Counter(website["domain"] for website in websites), settings, entries

    write("203.0.113.7")
    files = {"config_path": str(config), "state_path": str(tmp_path), "prune": True}
    approved = {**files, "expected_digest": execute(PlanWebsitesOperator, **files)["digest"]}
    kill("ApplyWebsitesOperator", approved, step, arrives)
    execute(ApplyWebsitesOperator, **approved)
    assert state() == (Counter(domains), {(1, True)}, {"203.0.113.7"})
    # A finished task can be run again.
    assert execute(ApplyWebsitesOperator, **approved)["applied"] == 0
    # What the killed process added is the list's own.
    write("203.0.113.8")
    execute(ApplyWebsitesOperator, **files)
    assert state() == (Counter(domains), {(1, True)}, {"203.0.113.8"})
