"""Processes that are killed, and the run after: every website as desired, none twice."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from distortion import Distortion
from reconciling import Night
from task_process import TaskProcess

AT_EVERY_STEP = (
    pytest.mark.kill,
    pytest.mark.chosen(5),
    pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 17, 19, 21, 22, 23]),
    pytest.mark.parametrize("arrives", [False, True], ids=["lost", "arrives"]),
)
Kill = Callable[..., None]


def at_every_step(test: Any) -> Any:
    for mark in AT_EVERY_STEP:
        test = mark(test)
    return test


@pytest.fixture
def kill(started: TaskProcess, night: Night, distortion: Distortion) -> Kill:
    """Kill a job while its request number ``step`` is under way, which is applied after the kill if it ``arrives``."""

    def run_and_kill(operator: str, step: int, arrives: bool, **arguments: Any) -> None:
        numbers = itertools.count(1)
        held = threading.Event()

        def hold(method: str, path: str) -> None:
            if next(numbers) >= step:
                held.set()
                started.gone.wait(60)
                if not arrives:
                    raise ConnectionError("never arrives")

        distortion.before = hold
        started.start(operator, parallel_requests=2, **night.state, **arguments)
        while not held.wait(0.01) and not started.gone.is_set():
            pass
        if held.is_set():
            started.kill()
        started.wait()
        distortion.before = lambda method, path: None

    return run_and_kill


@at_every_step
def test_a_killed_sync_converges_on_the_next_run(night: Night, kill: Kill, step: int, arrives: bool) -> None:
    """The table says what came and what left before the first website changes."""
    night.add(10, exclude_ips="10.0.0.1\n203.0.113.6")
    night.managed("203.0.113.6")
    kill("SyncExcludedIpsOperator", step, arrives, exclude_ips=["203.0.113.7"])
    audited, changed = len(night.trail()), 10 - night.lists().count("10.0.0.1\n203.0.113.6")
    assert audited <= changed <= audited + 2  # what was under way
    night.managed("203.0.113.8", run_id="next")
    assert night.lists() == ["10.0.0.1\n203.0.113.8"] * 10


@at_every_step
def test_a_killed_apply_of_an_approved_plan_converges_on_the_next_run(
    night: Night, kill: Kill, step: int, arrives: bool
) -> None:
    night.add("old1.example old2.example old3.example gone1.example gone2.example", exclude_ips="10.0.0.1")
    night.add("same.example", exclude_ips="10.0.0.1", privacy=1)
    night.sandbox.configure(allow_duplicates=True)
    domains = [f"{name}.example" for name in ("old1", "old2", "old3", "same", "new1", "new2", "new3")]

    def write(address: str) -> None:
        defaults = {"privacy": "private", "favorite": True, "exclude_ips": [address]}
        night.write({"defaults": defaults, "websites": dict.fromkeys(domains)})

    def state() -> tuple[Any, ...]:
        entries = {(entry or "").removeprefix("10.0.0.1\n") for entry in night.lists()}
        return Counter(night.lists("domain")), set(night.lists("privacy")), set(night.lists("favorite")), entries

    write("203.0.113.7")
    prune: dict[str, Any] = {**night.state, "prune": True}
    approved = {"prune": True, "expected_digest": night.plan(**prune)["digest"]}
    kill("ApplyWebsitesOperator", step, arrives, config_path=str(night.file), **approved)
    night.apply(**night.state, **approved)
    assert state() == (Counter(domains), {1}, {True}, {"203.0.113.7"})
    # A finished task can be run again.
    assert night.apply(**night.state, **approved)["applied"] == 0
    # What the killed process added is the list's own.
    write("203.0.113.8")
    night.apply(**prune)
    assert state() == (Counter(domains), {1}, {True}, {"203.0.113.8"})
