# SPDX-License-Identifier: Apache-2.0
"""Run two tasks at the same time, many times: ``make two-tasks RUNS=200``.

Two lists, a list and a websites file, or a list that removes an entry and a file change the same 30 websites. The
second task starts at a random moment. The service returns each write at once in the first runs, and is a replica that
is 1 s behind in the others. The waits of the package and the delay of the replica are a tenth of the real ones, unless
``--scale 1`` is given. The last lines have the number of runs in which both tasks succeeded and all entries arrived.
The exit status is 1 if it was not all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest import mock

from airflow_versions import allow_execute_in_this_thread
from fake_services import FakeService

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator

WEBSITES = 30
OFFICE, VPN, FORMER = ["192.0.2.1", "192.0.2.2"], ["198.51.100.7"], "192.0.2.3"


@contextlib.contextmanager
def shorter_waits(sandbox: FakeService, scale: float) -> Iterator[None]:
    """Scale the waits of the package, and connect it to the sandbox."""
    values: dict[str, Any] = {
        "api.client.CONFIRM_WAITS": tuple(scale * seconds for seconds in (0.5, 1.0, 2.0, 4.0)),
        "api.client.SETTLE_SECONDS": scale,
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, sandbox.connection_env))
        for name, value in values.items():
            stack.enter_context(mock.patch(f"airflow_provider_analytics.{name}", value))
        yield


def run_pair(sandbox: FakeService, chance: random.Random, seconds_behind: float) -> str:
    """Run two tasks at the same time; return the problem, or nothing."""
    sandbox.reset()
    for number in range(1, WEBSITES + 1):
        sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1 # Ann")
    sandbox.configure(seconds_behind=seconds_behind)
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="two-tasks-") as folder:
        office = SyncExcludedIpsOperator(task_id="office", exclude_ips=OFFICE, state_path=folder, list_name="office")
        second: Any = SyncExcludedIpsOperator(task_id="vpn", exclude_ips=VPN, state_path=folder, list_name="vpn")
        if chance.random() < 0.5:
            config = {"websites": {f"{number}.example": {"exclude_ips": VPN} for number in range(1, WEBSITES + 1)}}
            second = ApplyWebsitesOperator(task_id="vpn", config=config, state_path=folder, list_name="vpn")

        def run(operator: Any, delay: float = 0.0) -> None:
            allow_execute_in_this_thread()
            time.sleep(delay)
            ti = SimpleNamespace(dag_id="dag", task_id=operator.task_id, run_id="run", map_index=-1, try_number=1)
            try:
                operator.execute({"ti": ti, "dag_run": SimpleNamespace(start_date=datetime.now(UTC))})
            except Exception as error:
                problems.append(f"{operator.task_id}: {error}")

        if chance.random() < 0.5:  # the list has an entry that this run removes
            former = [*OFFICE, FORMER]
            run(SyncExcludedIpsOperator(task_id="office", exclude_ips=former, state_path=folder, list_name="office"))
        thread = threading.Thread(target=run, args=(second, chance.uniform(0, 0.5)))
        thread.start()
        run(office)
        thread.join()
    time.sleep(seconds_behind)
    for website in sandbox.websites():
        lines = set((website["exclude_ips"] or "").splitlines())
        if lines != {"10.0.0.1 # Ann", *OFFICE, *VPN}:
            problems.append(f"{website['domain']} has {sorted(lines)}")
    return "; ".join(problems)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=0.1, help="factor of all waits, 1 for real time")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    status = 0
    for service, seconds_behind in (("without lag", 0.0), ("behind a replica", arguments.scale)):
        succeeded = 0
        with FakeService() as sandbox, shorter_waits(sandbox, arguments.scale):
            for number in range(arguments.runs):
                problem = run_pair(sandbox, chance, seconds_behind)
                if problem:
                    print(f"Run {number}, {service}: {problem}", flush=True)
                else:
                    succeeded += 1
        print(f"{succeeded} of {arguments.runs} runs succeeded {service}.", flush=True)
        if succeeded < arguments.runs:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
