# SPDX-License-Identifier: Apache-2.0
"""Print how many websites selective services damage before a run stops: ``make selective``.

A selective service damages only some of the updated websites, for example every tenth id, or private pages. Each line
has the services' numbers of damaged websites over twelve seeds, for plans of 6, 40, and 300 websites. Restored websites
count, too. The exit status is 1 if a service damages more than 15 websites.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

if __name__ == "__main__":  # a separate Airflow home, and a log with errors only
    _HOME = tempfile.TemporaryDirectory(prefix="airflow-home-", ignore_cleanup_errors=True)
    os.environ |= {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL",
    }

from airflow_versions import allow_execute_in_this_thread
from fake_services import FakeService
from scenario import MAX_DAMAGED
from soak import without_waits

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.sandbox.requests import RecordedRequest

Website = dict[str, Any]
NEW = "203.0.113.7"
SIZES = (6, 40, 300)


def _without(pattern: str, name: str = "exclude_ips") -> Callable[[Website], Website]:
    return lambda now: {name: re.sub(pattern, "", now[name] or "").strip()}


def _if(is_damaged: Callable[[Website], bool]) -> Callable[[Website], Website]:
    return lambda now: {"exclude_params": None} if is_damaged(now) else {}


#: Service to the values to which it changes a website after its update.
SERVICES: dict[str, Callable[[Website], Website]] = {
    "comments": _without(r" #.*"),
    "networks": _without(r"\S+/\d+"),
    "IPv6 addresses": _without(r"\S+::\S+"),
    "long lists": lambda now: {"exclude_ips": (now["exclude_ips"] or "")[:30]},
    "parameters with a star": _without(r"utm_\*", "exclude_params"),
    "excluded bots": lambda now: {"exclude_bots": 0},
    "included bots": lambda now: {"exclude_bots": 1},
    "private pages": lambda now: {"privacy": 0 if now["privacy"] == 1 else now["privacy"]},
    "favorites": lambda now: {"favorite": False},
    "reports": lambda now: {"email": 0},
    # Kinds that no list of kinds contains.
    "every tenth id": _if(lambda now: now["id"] % 10 == 0),
    "odd ids": _if(lambda now: now["id"] % 2 == 1),
    "domains with a 7": _if(lambda now: "7" in now["domain"]),
    "private pages that exclude bots": _if(lambda now: (now["privacy"], now["exclude_bots"]) == (1, 1)),
}


def add_websites(sandbox: FakeService, number: int, chance: random.Random) -> None:
    """Add websites with random settings."""
    for index in range(1, number + 1):
        sandbox.add_website(
            f"{index}.example",
            privacy=chance.choice((0, 1)),
            email=chance.choice((0, 1)),
            exclude_bots=chance.choice((0, 1)),
            favorite=chance.choice((True, False)),
            exclude_params=chance.choice(("utm", "utm_*", "ref")),
            exclude_ips="\n".join(chance.sample(("10.0.0.1 # Ann", "10.1.0.0/16", "2001:db8::9", "10.0.0.2"), 2)),
        )


class SelectiveService:
    """Damages websites after their update.

    :param damage: returns the values that an updated website gets.
    """

    def __init__(self, sandbox: FakeService, damage: Callable[[Website], Website]) -> None:
        self._sandbox, self._damage = sandbox, damage
        self._updated: list[int] = []
        #: Ids of the websites that it damaged so far.
        self.damaged: set[int] = set()
        sandbox.meanwhile(self._before)

    def _before(self, request: RecordedRequest) -> None:
        while self._updated:
            website_id = self._updated.pop()
            [now] = [website for website in self._sandbox.websites() if website["id"] == website_id]
            changes = self._damage(now)
            if any(now[name] != value for name, value in changes.items()):
                self.damaged.add(website_id)
                self._sandbox.change_website(website_id, **changes)
        if request.operation == "update":
            self._updated.append(int(request.path.rpartition("/")[2]))


def run(sandbox: FakeService, service: str, websites: int, seed: int) -> tuple[set[int], bool]:
    """Add an address to all websites; return the ids of the damaged ones, and whether the task succeeded."""
    sandbox.reset()
    add_websites(sandbox, websites, random.Random(seed))
    RANDOM.seed(seed)
    selective = SelectiveService(sandbox, SERVICES[service])
    allow_execute_in_this_thread()
    is_stopped = False
    try:
        SyncExcludedIpsOperator(task_id="sync", exclude_ips=[NEW]).execute({})
    except Exception:
        is_stopped = True
    sandbox.meanwhile(lambda request: None)
    return selective.damaged, not is_stopped


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=int, nargs="?", default=12)
    seeds = parser.parse_args().seeds
    worst = 0
    heads = [f"n = {size}: mean, at most, stopped" for size in SIZES]
    sys.stdout.write(f"| service | {' | '.join(heads)} |\n{'|---' * (len(SIZES) + 1)}|\n")
    with without_waits(), FakeService() as sandbox, mock.patch.dict(os.environ, sandbox.connection_env):
        for service in SERVICES:
            cells = []
            for size in SIZES:
                results = [run(sandbox, service, size, seed) for seed in range(seeds)]
                numbers = [len(damaged) for damaged, _ in results]
                stopped = len([succeeded for _, succeeded in results if not succeeded])
                worst = max(worst, *numbers)
                cells.append(f"{sum(numbers) / seeds:.1f}, {max(numbers)}, {stopped} of {seeds}")
            sys.stdout.write(f"| {service} | {' | '.join(cells)} |\n")
    sys.stdout.write(f"At most {worst} websites were damaged in a run.\n")
    return 1 if worst > MAX_DAMAGED else 0


if __name__ == "__main__":
    sys.exit(main())
