# SPDX-License-Identifier: Apache-2.0
"""Run random scenarios until the time is over: ``make soak SECONDS=300``.

The last line has the number of scenarios, steps, tasks that succeeded and failed, and violations. A scenario with a
violation is reduced, explained in three sentences, and printed in the format of ``scenarios.yaml``, which the tests
replay. The exit status is 1 if there is a violation.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

if __name__ == "__main__":  # a separate Airflow home, and a log with errors only
    _HOME = tempfile.TemporaryDirectory(prefix="airflow-home-", ignore_cleanup_errors=True)
    os.environ |= {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL",
    }

import dialects
import yaml
from fake_services import FakeService
from field_values import FLAGS
from scenario import FIELDS, LISTS, SINGLE, STEPS, Scenario, ViolationError

from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import counted

#: Number of violations after which the fuzzer stops.
MOST_VIOLATIONS = 5

Script = tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]

_DOMAINS = [f"{name}.example" for name in ("a", "b", "c", "d", "www.e", "shop", "a.shop", "x-shop")]
#: Domains without a website at the start.
_NEW = ("new.example", "other.example")
_LINES = {
    **{name: [f"{kind.examples[0]} # Ann", kind.examples[1]] for name, kind in LINE_FIELDS.items()},
    "exclude_ips": ["10.0.0.1 # Ann", "10.0.0.2", "10.1.0.0/16", "192.0.2.1", "192.0.2.2", "2001:db8::1", "# office"],
    "exclude_params": ["utm", "gclid # ads", "ref", "session_id", "utm_*", "fbclid"],
}
_ENTRIES = {
    **{name: [kind.examples[1]] for name, kind in LINE_FIELDS.items()},
    "exclude_ips": ["192.0.2.1", "192.0.2.2", "203.0.113.7", "2001:db8::1", "10.0.0.2"],
    "exclude_params": ["utm", "ref", "fbclid", "page"],
}
_FAULTS: list[dict[str, Any]] = [
    {"status": 503},
    {"status": 500, "commit": True},
    {"drop": True},
    {"drop": True, "commit": True},
    {"status": 422},
    {"status": 429, "headers": {"Retry-After": "0"}},
    {"status": 200, "body": "<html>Welcome</html>"},
    {"headers": {"Content-Length": "100000"}},  # the body is truncated
    {"echo": True, "status": 500},
    {"status": 404},
    {"status": 202, "body": {}},
]


#: Field to the values of websites; the last value of ``privacy`` is never sent, because it needs a password.
_VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys([name for name in FIELDS if name not in LISTS], ("one text", "another")),
    **dict.fromkeys(FLAGS, (0, 1)),
    "privacy": (0, 1, 1, 2),
    "favorite": (False, True),
}
_RENAMED = "renamed.example"

Step = dict[str, Any]


class ScenarioGenerator:
    """Generates a random scenario: dialect, websites, and steps, as plain values."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.choice = self.chance.choice
        self.domains = [*_DOMAINS, *(f"{item}.many.example" for item in range(40))]

    def script(self) -> Script:
        dialect = self.choice(dialects.ORDINARY) if self.maybe(0.5) else dialects.draw(self.chance)
        there = self.domains[: self.choice((2, 4, 6, 8, 12, 12, 30))]
        self.domains = [*there, *_NEW]
        websites = [{"domain": domain, **self.website()} for domain in there]
        if self.maybe(0.1):
            websites.append({"domain": there[0]})
        return dialect, websites, [step for _ in range(self.chance.randint(3, 8)) for step in self.night()]

    def night(self) -> list[Step]:
        """Return a step; after a killed sync often another one, with a shorter list."""
        step = self.both() if self.maybe(0.3) else self.step()
        is_killed = any(what == "kill" for _, what, *_ in step.get("meanwhile", ()))
        if step["do"] != "sync" or not is_killed or self.maybe(0.3):
            return [step]
        shorter = [item for item in step["entries"] if self.maybe(0.5)]
        return [step, {**step, "entries": shorter, "meanwhile": [], "heal": False, "force": True}]

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def some(self, of: Sequence[str], least: int = 1, most: int = 99) -> list[str]:
        return self.chance.sample(of, self.chance.randint(least, min(most, len(of))))

    def website(self) -> dict[str, Any]:
        values = {name: self.choice(choices) for name, choices in _VALUES.items() if self.maybe(0.6)}
        return values | {name: "\n".join(self.some(_LINES[name], 0, 4)) or None for name in LISTS if self.maybe(0.7)}

    def settings(self, *, update: bool) -> dict[str, Any]:
        """Return settings to send, in the format of a scenario."""
        names = [name for name in _VALUES if (update or name != "favorite") and self.maybe(0.5)]
        values = {name: self.choice(_VALUES[name][:2]) for name in names}
        values |= {name: sorted(self.some(_ENTRIES[name], 0, 4)) for name in LISTS if self.maybe(0.4)}
        return values or {"email": 1}

    def config(self) -> dict[str, Any]:
        same = self.settings(update=True) if self.maybe(0.5) else None
        return {
            "modes": {name: self.choice(("merge", "managed")) for name in LISTS if self.maybe(0.6)},
            # A file must contain the privacy of a new website.
            "websites": {
                domain: {"privacy": self.choice((0, 1)), **(same or self.settings(update=True))}
                for domain in self.some(self.domains)
            },
        }

    def hand(self) -> dict[str, Any]:
        do = self.choice(("set", "type", "type", "type", "untype", "add", "delete", "restore", "rename"))
        edit: dict[str, Any] = {"do": do, "domain": self.choice(self.domains)}
        name = self.choice(LISTS)
        if do == "set":
            return {**edit, "field": self.choice(("privacy", "email", "exclude_bots")), "value": self.choice((0, 1))}
        if do in ("type", "untype"):
            return {**edit, "field": name, "value": self.choice([*_LINES[name], *_ENTRIES[name]])}
        return {**edit, "value": _RENAMED, "twice": self.maybe(0.2)}

    def meanwhile(self) -> list[Any]:
        found: list[Any] = []
        for _ in range(0 if self.maybe(0.4) else self.chance.randint(1, 3)):
            at = self.chance.randint(1, self.choice((6, 40)))
            kind = self.choice(("hand", "hand", "hand", "fault", "fault", "stop", "kill"))
            detail = {"hand": self.hand(), "fault": self.choice(_FAULTS), "kill": self.maybe(0.5)}
            found.append([at, kind, *([detail[kind]] if kind in detail else [])])
        return found

    def both(self) -> Step:
        """Return two simultaneous tasks: two lists, a list and a file, two files, or a list and single updates."""
        step: Step = {"do": "both"}
        for which, kinds in (("first", ("sync", "sync", "apply")), ("second", ("sync", "sync", "apply", "updates"))):
            task = step[which] = self.task(self.choice(kinds))
            task |= {"force": True, "prune": False, "approved": False, "audit": False}
            task["parallel_requests"] = self.choice((1, 2))
            if task["do"] == "sync":
                task["mode"] = self.choice(("merge", "merge", "merge", "managed", "replace"))
        first, second = step["first"], step["second"]
        second["list"] = "second"  # otherwise, both write the same list table
        if first.get("field", "") == second.get("field") and self.maybe(0.7):
            second["entries"] = [item for item in second["entries"] if item not in first["entries"]]
        turns = {self.chance.randint(1, 30): self.choice((1, 2, 3, 5, 1000)) for _ in range(5)}
        events = [[self.chance.randint(1, 30), "hand", self.hand()]] if self.maybe(0.3) else []
        return {**step, "turns": sorted(turns.items()), "meanwhile": events}

    def task(self, do: str) -> Step:
        """Return a task without faults and edits."""
        step: Step = {"do": do}
        if do in SINGLE:
            step["domain"] = self.choice(self.domains)
        if do in ("create", "update"):
            step["settings"] = self.settings(update=do == "update")
        if do == "list":
            step["favorite"] = self.maybe(0.4) or None
        elif do == "create":
            step["if_exists"] = self.choice(("skip", "update", "fail"))
        elif do == "updates":
            there = self.some(self.domains[: -len(_NEW)], most=5)
            step["of"] = [{"domain": domain, "settings": self.settings(update=True)} for domain in there]
        elif do == "sync":
            name = step["field"] = self.choice(LISTS)
            step["entries"] = sorted(self.some(_ENTRIES[name], 0, 4))
            step["mode"] = self.choice(("merge", "merge", "managed", "managed", "replace"))
            step["websites"] = None if self.maybe(0.6) else self.some(self.domains)
        elif do in ("apply", "drift"):
            step |= {"config": self.config(), "prune": self.maybe(0.2)}
        elif do == "snapshot":
            step["day"] = f"2026-11-{self.chance.randint(10, 20)}"
        if do == "apply":
            step |= {"approved": self.maybe(0.3), "audit": self.maybe(0.3)}
        if do in ("sync", "apply"):
            step |= {"force": self.maybe(0.5), "parallel_requests": self.choice((1, 8))}
        return step

    def step(self) -> Step:
        do = self.choice([*Counter(STEPS).elements()])
        if do == "hand":
            return {"do": do, "edits": [self.hand() for _ in range(self.chance.randint(1, 3))]}
        step = self.task(do)
        if do in ("compare", "prune"):
            return step
        meanwhile = self.meanwhile()
        asked = list(step.get("config", {}).get("websites", [step.get("domain")]))
        if do in ("create", "apply") and self.maybe(0.2):  # another user creates the same website
            rival = {"do": "add", "domain": self.choice(asked), "settings": self.website()}
            meanwhile.append([self.chance.randint(1, 12), "hand", rival])
        if (do == "delete" or step.get("prune")) and self.maybe(0.5):  # a website gets another domain before its delete
            unwanted = [domain for domain in self.domains if (domain in asked) == (do == "delete")] or self.domains
            rename = {"do": "rename", "domain": self.choice(unwanted), "value": _RENAMED}
            meanwhile.append([self.chance.randint(3, 9), "hand", rename])
        if do in ("update", "sync", "apply") and self.maybe(0.3):  # an id belongs to another domain before a write
            rename = {"do": "rename", "domain": self.choice(self.domains), "value": _RENAMED}
            other = {"do": "set", "domain": _RENAMED, "field": "privacy", "value": self.choice((0, 1))}
            at = self.chance.randint(3, 40)
            meanwhile += [[at, "hand", rename], [at, "hand", other]]
        return {**step, "meanwhile": meanwhile, "heal": self.maybe(0.4)}


@contextlib.contextmanager
def without_waits() -> Iterator[None]:
    """Remove all waits for a service."""
    values: dict[str, Any] = {
        "api.client.CONFIRM_WAITS": (0,) * 4,
        "api.listing.WAITS_BETWEEN_READS": (0, 0, 0),
        "api.listing.AT_ONCE": 0,
        "api.transport.FIRST_BACKOFF": 0,
        "api.client.SETTLE_SECONDS": 0,
        "reconcile.state.WRITE_WAITS": (0,) * 7,
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ))
        for name, value in values.items():
            stack.enter_context(mock.patch(f"airflow_provider_analytics.{name}", value))
        yield


def play(sandbox: FakeService, script: Script, tally: Counter[str], damage: Counter[int] | None = None) -> str:
    """Run a scenario, and return the explanation of the first violation; empty if all guarantees were kept."""
    dialect, websites, steps = script
    RANDOM.seed(json.dumps(script, default=str))  # so that the same scenario has the same outcome
    with tempfile.TemporaryDirectory(prefix="scenario-") as folder:
        scenario = Scenario(sandbox, Path(folder), dialect, websites, tally, damage)
        for number, step in enumerate(steps, 1):
            tally["steps"] += 1
            try:
                scenario.step(step)
            except ViolationError as violation:
                return explanation(script, number, violation)
            except Exception:  # the scenario itself failed
                return f"Step {number} ({step['do']}) could not be checked: {traceback.format_exc()}"
    return ""


def explanation(script: Script, number: int, violation: ViolationError) -> str:
    """Return three sentences: the service and its tasks, the guarantee, and the event that broke it.

    :param number: number of the step with the violation.
    """
    dialect, websites, steps = script
    service = "an ordinary service"
    if dialect:
        service = f"a service with {', '.join(f'{name}={value!r}' for name, value in dialect.items())}"
    *earlier, last = (_description(step) for step in steps[:number])
    after = f", after {', '.join(earlier)}" if earlier else ""
    return (
        f"On {service} and {len(websites)} websites, step {number} was {last}{after}.\n"
        f"Guarantee: {violation.guarantee}.\n"
        f"Instead, {violation}"
    )


def _description(step: Step) -> str:
    """Return a step in words, such as ``sync (fault at request 3)``."""
    name = step["do"]
    if name == "both":
        name = f"{step['first']['do']} and {step['second']['do']} at the same time"
    events = [f"{what} at request {at}" for at, what, *_ in step.get("meanwhile", ())]
    return f"{name} ({', '.join(events)})" if events else name


def _smaller(script: Script) -> Iterator[Script]:
    """Yield the scenarios that lack a single step, option, website, or event."""
    dialect, websites, steps = script
    yield from ((dialect, websites, _without(steps, number)) for number in reversed(range(len(steps))))
    yield from ((dict(_without([*dialect.items()], number)), websites, steps) for number in range(len(dialect)))
    yield from ((dialect, _without(websites, number), steps) for number in reversed(range(len(websites))))
    for number, step in enumerate(steps):
        events = step.get("meanwhile", ())
        shorter = [{**step, "meanwhile": _without(events, at)} for at in range(len(events))]
        yield from ((dialect, websites, [*steps[:number], item, *steps[number + 1 :]]) for item in shorter)


def _without(items: Sequence[Any], number: int) -> list[Any]:
    return [*items[:number], *items[number + 1 :]]


def shrink(sandbox: FakeService, script: Script, until: float) -> Script:
    """Return a smaller scenario that also has a violation, as far as the time allows."""
    for smaller in _smaller(script):
        if time.monotonic() < until and play(sandbox, smaller, Counter()):
            return shrink(sandbox, smaller, until)
    return script


def as_yaml(script: Script, seed: int) -> str:
    """Return a scenario in the format of scenarios.yaml."""
    named = dict(zip(("title", "dialect", "websites", "steps"), ("", *script), strict=True))
    return yaml.dump({f"scenario_{seed}": named}, Dumper=_Dumper, sort_keys=False, width=120, default_flow_style=None)


class _Dumper(yaml.SafeDumper):
    """Writes no aliases: scenarios are copied from one file to another."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def soak(sandbox: FakeService, seconds: float, seed: int, shrink_seconds: float = 20) -> Counter[str]:
    """Run scenarios until the time is over, print violations, and return the counters."""
    tally = Counter(scenarios=0, steps=0, succeeded=0, failed=0, violations=0)
    damage: Counter[int] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until and tally["violations"] < MOST_VIOLATIONS:
        script = ScenarioGenerator(seed).script()
        tally["scenarios"] += 1
        if problem := play(sandbox, script, tally, damage):
            tally["violations"] += 1
            small = shrink(sandbox, script, time.monotonic() + shrink_seconds)
            problem = play(sandbox, small, Counter()) or problem
            commented = problem.strip().replace("\n", "\n# ")
            print(f"# Scenario {seed}: {commented}\n\n{as_yaml(small, seed)}", flush=True)
        seed += 1
    for number, tasks in sorted(damage.items()):
        print(f"Damaged websites: {number} by {counted(tasks, 'task')}.")
    return tally


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first scenario")
    arguments = parser.parse_args()
    with without_waits(), FakeService(api_key="key-of-the-scenario-123") as sandbox:
        print(f"Scenarios from seed {arguments.seed}.", flush=True)
        tally = soak(sandbox, arguments.seconds, arguments.seed)
    print(", ".join(f"{number:,} {what}" for what, number in tally.items()))
    return 1 if tally["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
