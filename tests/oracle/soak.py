"""Worlds by chance, until the time is over: ``make soak SECONDS=300``.

The last line says worlds, steps, green and red tasks, and violations. A world in which something happened that must
never happen is made as small as possible, and printed as it stands in worlds.yaml, which the tests replay. Exit status
1 with any violation.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

if "airflow" not in sys.modules:  # an Airflow of its own, which logs what is wrong only
    _HOME = tempfile.mkdtemp(prefix="airflow-home-")
    atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
    os.environ |= {
        "AIRFLOW_HOME": _HOME,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL",
    }

import dialects
import yaml
from world import LISTS, World
from zoo import Zoo

#: After so many violations it stops.
MOST_VIOLATIONS = 5

Script = tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]

_DOMAINS = [f"{name}.example" for name in ("a", "b", "c", "d", "www.e", "shop", "a.shop", "x-shop")]
#: Domains that no website has at first.
_NEW = ("new.example", "other.example")
_LINES = {
    "exclude_ips": ["10.0.0.1 # Ann", "10.0.0.2", "10.1.0.0/16", "192.0.2.1", "192.0.2.2", "2001:db8::1", "# office"],
    "exclude_params": ["utm", "gclid # ads", "ref", "session_id", "utm_*", "fbclid"],
}
_ENTRIES = {
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
    {"headers": {"Content-Length": "100000"}},  # the body is cut
    {"echo": True, "status": 500},
    {"status": 404},
    {"status": 202, "body": {}},
]


class Draw:
    """Draws a world: dialect, websites and steps, as plain values."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def script(self) -> Script:
        dialect = self.chance.choice(dialects.CALM) if self.maybe(0.5) else dialects.draw(self.chance)
        size = self.chance.choice((2, 4, 6, 8, 12, 12, 30))
        domains = [*_DOMAINS, *(f"{one}.many.example" for one in range(40))][:size]
        self.domains = [*domains, *_NEW]
        websites = [{"domain": domain, **self.website()} for domain in domains]
        if self.chance.random() < 0.1:
            websites.append({"domain": domains[0]})
        number = self.chance.randint(3, 9)
        steps: list[dict[str, Any]] = []
        while len(steps) < number:
            steps += self.night()
        return dialect, websites, steps

    def night(self) -> list[dict[str, Any]]:
        """Return a step; after a sync that was killed often another one, with a shorter list."""
        if self.maybe(0.3):
            return [self.both()]
        step = self.step()
        is_killed = any(what == "kill" for _, what, *_ in step.get("meanwhile", ()))
        if step["do"] != "sync" or not is_killed or self.maybe(0.3):
            return [step]
        shorter = [one for one in step["entries"] if self.maybe(0.5)]
        return [step, {**step, "entries": shorter, "meanwhile": [], "heal": False, "force": True}]

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def lines(self, name: str, of: Mapping[str, Sequence[str]] = _LINES) -> list[str]:
        return self.chance.sample(of[name], self.chance.randint(0, min(4, len(of[name]))))

    def website(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, choice in (("privacy", (0, 1, 1, 2)), ("email", (0, 1)), ("exclude_bots", (0, 1))):
            if self.maybe(0.6):
                values[name] = self.chance.choice(choice)
        if self.maybe(0.3):
            values["favorite"] = True
        for name in LISTS:
            if self.maybe(0.7):
                values[name] = "\n".join(self.lines(name)) or None
        return values

    def settings(self, *, update: bool) -> dict[str, Any]:
        """Return settings to send, in the terms of the world."""
        values: dict[str, Any] = {}
        for name, choice in (("privacy", (0, 1)), ("email", (0, 1)), ("exclude_bots", (0, 1))):
            if self.maybe(0.5):
                values[name] = self.chance.choice(choice)
        if update and self.maybe(0.3):
            values["favorite"] = self.maybe(0.5)
        for name in LISTS:
            if self.maybe(0.4):
                values[name] = sorted(self.lines(name, _ENTRIES))
        return values or {"email": 1}

    def config(self) -> dict[str, Any]:
        chosen = self.chance.sample(self.domains, self.chance.randint(1, len(self.domains)))
        is_one_kind = self.maybe(0.5)
        same = self.settings(update=True)
        config: dict[str, Any] = {
            "websites": {
                # A file has to say who sees the statistics page of a new website.
                domain: {"privacy": self.chance.choice((0, 1)), **(same if is_one_kind else self.settings(update=True))}
                for domain in chosen
            }
        }
        modes = {name: self.chance.choice(("merge", "managed")) for name in LISTS if self.maybe(0.6)}
        return {"modes": modes, **config} if modes else config

    def hand(self) -> dict[str, Any]:
        do = self.chance.choice(("set", "type", "type", "type", "untype", "add", "delete", "restore", "rename"))
        edit: dict[str, Any] = {"do": do, "domain": self.chance.choice(self.domains)}
        if do == "set":
            name = self.chance.choice(("privacy", "email", "exclude_bots"))
            edit |= {"field": name, "value": self.chance.choice((0, 1))}
        elif do in ("type", "untype"):
            name = self.chance.choice(LISTS)
            edit |= {"field": name, "value": self.chance.choice([*_LINES[name], *_ENTRIES[name]])}
        elif do == "rename":
            edit |= {"value": "renamed.example"}
        elif do == "add" and self.maybe(0.2):
            edit |= {"twice": True}
        return edit

    def meanwhile(self) -> list[Any]:
        if self.maybe(0.4):
            return []
        found: list[Any] = []
        for _ in range(self.chance.randint(1, 3)):
            at = self.chance.choice((self.chance.randint(1, 6), self.chance.randint(1, 40)))
            kind = self.chance.choice(("hand", "hand", "hand", "fault", "fault", "stop", "kill"))
            detail: list[Any] = []
            if kind == "hand":
                detail = [self.hand()]
            elif kind == "fault":
                detail = [self.chance.choice(_FAULTS)]
            elif kind == "kill":
                detail = [self.maybe(0.5)]
            found.append((at, kind, *detail))
        return found

    def both(self) -> dict[str, Any]:
        """Return two tasks at once: two lists, a list and a file, two files, or a list and single updates."""
        shared = self.maybe(0.3)  # entries that both lists have
        tasks: list[dict[str, Any]] = []
        for number in (0, 1):
            do = self.chance.choice(("sync", "sync", "apply", "updates") if number else ("sync", "sync", "apply"))
            task: dict[str, Any] = {"do": do}
            if do == "sync":
                task |= {**self.sync(), "force": True}
                task["mode"] = self.chance.choice(("merge", "merge", "merge", "managed", "replace"))
            elif do == "apply":
                task |= {"config": self.config(), "force": True}
            else:
                there = self.domains[: -len(_NEW)]
                some = self.chance.sample(there, min(5, len(there)))
                task["of"] = [{"domain": one, "settings": self.settings(update=True)} for one in some]
            if number and not shared and do == "sync" and tasks[0].get("field") == task["field"]:
                task["entries"] = [one for one in task["entries"] if one not in tasks[0]["entries"]]
            names = {"list": "second"} if number else {}  # else both write one ledger
            tasks.append({**task, **names, "parallel_requests": self.chance.choice((1, 2))})
        turns = [(self.chance.randint(1, 30), self.chance.choice((1, 2, 3, 5, 1000))) for _ in range(5)]
        step = {"do": "both", "first": tasks[0], "second": tasks[1], "turns": sorted(dict(turns).items())}
        if self.maybe(0.3):
            step["meanwhile"] = [(self.chance.randint(1, 30), "hand", self.hand())]
        return step

    def sync(self) -> dict[str, Any]:
        name = self.chance.choice(LISTS)
        many = self.chance.sample(self.domains, self.chance.randint(1, len(self.domains)))
        return {
            "field": name,
            "entries": sorted(self.lines(name, _ENTRIES)),
            "mode": self.chance.choice(("merge", "merge", "managed", "managed", "replace")),
            "websites": None if self.maybe(0.6) else many,
        }

    def step(self) -> dict[str, Any]:
        do = self.chance.choice(
            ("list", "find", "create", "create", "update", "update", "delete", "sync", "sync", "sync", "sync")
            + ("apply",) * 5
            + ("drift", "snapshot", "compare", "prune", "export", "hand", "hand")
        )
        step: dict[str, Any] = {"do": do}
        if do == "hand":
            return {**step, "edits": [self.hand() for _ in range(self.chance.randint(1, 3))]}
        if do == "list" and self.maybe(0.4):
            step["favorite"] = True
        if do in ("find", "create", "update", "delete"):
            step["domain"] = self.chance.choice(self.domains)
        if do in ("create", "update"):
            step["settings"] = self.settings(update=do == "update")
        if do == "create":
            step["if_exists"] = self.chance.choice(("skip", "update", "fail"))
        if do == "sync":
            step |= self.sync()
        if do in ("apply", "drift"):
            step["config"] = self.config()
            step["prune"] = self.maybe(0.2)
        if do == "apply":
            step["approved"], step["audit"] = self.maybe(0.3), self.maybe(0.3)
        if do in ("sync", "apply"):
            step["force"] = self.maybe(0.5)
            step["parallel_requests"] = self.chance.choice((1, 8))
        if do == "snapshot":
            step["day"] = f"2026-11-{self.chance.randint(10, 20)}"
        if do in ("compare", "prune"):
            return step
        meanwhile = self.meanwhile()
        if do in ("create", "apply") and self.maybe(0.2):  # someone else creates the same website
            rivals = [step["domain"]] if do == "create" else list(step["config"]["websites"])
            rival = {"do": "add", "domain": self.chance.choice(rivals), "settings": self.website()}
            meanwhile.append((self.chance.randint(1, 12), "hand", rival))
        if (do == "delete" or step.get("prune")) and self.maybe(0.5):  # a website gets another domain before its delete
            unwanted = [one for one in self.domains if one not in step.get("config", {}).get("websites", ())]
            domain = step.get("domain") or self.chance.choice(unwanted or self.domains)
            rename = {"do": "rename", "domain": domain, "value": "renamed.example"}
            meanwhile.append((self.chance.randint(3, 9), "hand", rename))
        if meanwhile:
            step["meanwhile"] = meanwhile
        step["heal"] = self.maybe(0.4)
        return step


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Let nothing wait for a service."""
    values: dict[str, Any] = {
        "api.client.CONFIRM_WAITS": (0,) * 4,
        "api.listing.WAITS_BETWEEN_READINGS": (0, 0, 0),
        "api.listing.AT_ONCE": 0,
        "api.transport.FIRST_BACKOFF": 0,
        "reconcile.apply.SETTLE_SECONDS": 0,
        "operators.state.WRITE_WAITS": (0,) * 7,
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ))
        for name, value in values.items():
            stack.enter_context(mock.patch(f"airflow_provider_analytics.{name}", value))
        yield


def play(sandbox: Zoo, script: Script, tally: Counter[str]) -> str:
    """Play a world, and return what happened that must never happen; empty if nothing did."""
    dialect, websites, steps = script
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        world = World(sandbox, Path(folder), dialect, websites, tally)
        for number, step in enumerate(steps, 1):
            tally["steps"] += 1
            try:
                world.step(step)
            except Exception:  # an AssertionError, or the world itself failed
                return f"step {number} ({step['do']}): {traceback.format_exc()}"
    return ""


def _smaller(script: Script) -> Iterator[Script]:
    """Yield worlds without one step, option, website or event."""
    dialect, websites, steps = script
    yield from ((dialect, websites, _without(steps, number)) for number in reversed(range(len(steps))))
    yield from ((dict(_without([*dialect.items()], number)), websites, steps) for number in range(len(dialect)))
    yield from ((dialect, _without(websites, number), steps) for number in reversed(range(len(websites))))
    for number, step in enumerate(steps):
        events = step.get("meanwhile", ())
        calmer = [{**step, "meanwhile": _without(events, at)} for at in range(len(events))]
        yield from ((dialect, websites, [*steps[:number], one, *steps[number + 1 :]]) for one in calmer)


def _without(items: Sequence[Any], number: int) -> list[Any]:
    return [*items[:number], *items[number + 1 :]]


def shrink(sandbox: Zoo, script: Script, until: float) -> Script:
    """Return a smaller world that is violated, too, as far as the time allows."""
    for smaller in _smaller(script):
        if time.monotonic() < until and play(sandbox, smaller, Counter()):
            return shrink(sandbox, smaller, until)
    return script


def as_yaml(script: Script, seed: int) -> str:
    """Return a world as it stands in worlds.yaml."""
    named = dict(zip(("title", "dialect", "websites", "steps"), ("", *script), strict=True))
    return yaml.safe_dump({f"world_{seed}": named}, sort_keys=False, width=120, default_flow_style=None)


def soak(sandbox: Zoo, seconds: float, seed: int, shrink_seconds: float = 20) -> Counter[str]:
    """Play worlds until the time is over, print those that are violated, and return what was tried."""
    tally = Counter(worlds=0, steps=0, green=0, red=0, violations=0)
    until = time.monotonic() + seconds
    while time.monotonic() < until and tally["violations"] < MOST_VIOLATIONS:
        script = Draw(seed).script()
        tally["worlds"] += 1
        if problem := play(sandbox, script, tally):
            tally["violations"] += 1
            small = shrink(sandbox, script, time.monotonic() + shrink_seconds)
            problem = play(sandbox, small, Counter()) or problem
            commented = problem.strip().replace("\n", "\n# ")
            print(f"# World {seed}: {commented}\n\n{as_yaml(small, seed)}", flush=True)
        seed += 1
    return tally


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first world")
    arguments = parser.parse_args()
    with at_once(), Zoo(api_key="key-of-the-world-123") as sandbox:
        print(f"Worlds from seed {arguments.seed}.", flush=True)
        tally = soak(sandbox, arguments.seconds, arguments.seed)
    print(", ".join(f"{number:,} {what}" for what, number in tally.items()))
    return 1 if tally["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
