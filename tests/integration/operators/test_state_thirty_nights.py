# SPDX-License-Identifier: Apache-2.0
"""Thirty nights of two lists that share addresses, with people, kills, orphans, and late requests.

The package plans the lists and writes their tables; the service is a dictionary. A task runs step by step, so that it
can be killed, or continue some nights later, at each of its steps. An independent model has the expected entries.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_analytics.reconcile import state
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList
from airflow_provider_analytics.reconcile.desired.tables import KEPT_DAYS, Identity
from airflow_provider_analytics.reconcile.plan.changes import change_of
from airflow_provider_analytics.storage import StoragePath

DOMAINS = ("a.example", "b.example", "c.example")
#: Both lists share all of these; people type them, too.
ENTRIES = tuple(f"192.0.2.{number}" for number in range(1, 13))
#: Nights after which an orphan, or a late request, has ended.
ORPHAN_DAYS = 10

#: List field for all websites, and for one of them.
Entries = dict[str, frozenset[str]]
#: A website, and the lines that a request sets.
Sent = tuple[str, str]


class Scenario:
    def __init__(self, seed: int, folder: Path, clock: pytest.MonkeyPatch) -> None:
        self.chance = random.Random(seed)
        self.folder = StoragePath.of(str(folder))
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.service = dict.fromkeys(DOMAINS, "")
        self.wanted: dict[str, Entries] = {name: {"*": frozenset(ENTRIES[:2])} for name in ("office", "vpn")}
        #: The expected state: list, domain, and entry to the day of its removal; None while it is on the list of the
        #: last run.
        self.noted: dict[tuple[str, str, str], datetime | None] = {}
        self.running: list[tuple[datetime, Iterator[Sent | None]]] = []
        #: Tasks that continue in the next night.
        self.hung: list[tuple[datetime, Iterator[Sent | None]]] = []
        self.late: list[tuple[datetime, Sent]] = []
        self.runs = 0
        self.violations: list[str] = []
        clock.setattr(state, "now", lambda: self.now)
        clock.setattr(state, "WRITE_WAITS", (0,) * 8)
        clock.setattr(os, "fsync", lambda descriptor: None)

    def task(self, name: str) -> Iterator[Sent | None]:
        """Run a list; each ``yield`` is a point at which it can be killed, with the request that it sends there."""
        self.runs += 1
        self.now += timedelta(seconds=1)
        wanted = self.wanted[name]
        per_website = {domain: EntryList.of(tuple(entries)) for domain, entries in wanted.items() if domain != "*"}
        source = ExclusionList(
            "exclude_ips", "managed", EntryList.of(tuple(wanted["*"])), per_website=per_website, allow_no_match=True
        )
        file = state.ListFile(self.folder, Identity("https://stats.example.com", "1", name))
        context: Any = {"ti": SimpleNamespace(dag_id="dag", run_id=f"run {self.runs}", task_id=name)}
        file.start_run(source.scopes, {}, context)
        yield None
        try:
            file.announce()
            self.note(name, wanted, only_announced=True)
            yield None
            file.write()
        except state.NewerRunError:
            return
        self.note(name, wanted)
        for domain in self.chance.sample(DOMAINS, len(DOMAINS)):
            yield None
            number = 1 + DOMAINS.index(domain)
            record: dict[str, Any] = {"id": number, "domain": domain, "exclude_ips": self.service[domain]}
            planned = replace(source.resolve(self.records()), tables=file.lists)
            change = change_of(planned, record)
            if change is not None:
                after = "\n".join(change.settings["exclude_ips"])
                self.judge(name, domain, record["exclude_ips"], after)
                yield domain, after

    def records(self) -> list[dict[str, Any]]:
        return [
            {"id": number, "domain": domain, "exclude_ips": self.service[domain]}
            for number, domain in enumerate(DOMAINS, start=1)
        ]

    def note(self, name: str, wanted: Mapping[str, frozenset[str]], *, only_announced: bool = False) -> None:
        for domain in DOMAINS:
            now = wanted["*"] | wanted.get(domain, frozenset())
            for entry in ENTRIES:
                key = (name, domain, entry)
                if entry in now:
                    self.noted[key] = None
                elif not only_announced and key in self.noted and self.noted[key] is None:
                    self.noted[key] = self.now

    def had(self, name: str, domain: str, entry: str, days: int) -> bool:
        """Return whether a list has had an entry for a website in the last days."""
        left = self.noted.get((name, domain, entry), datetime.min.replace(tzinfo=UTC))
        return left is None or (self.now - left).days <= days

    def judge(self, name: str, domain: str, before: str, after: str) -> None:
        lost = set(before.splitlines()) - set(after.splitlines())
        for line in lost:
            if "#" in line:
                self.violations.append(f"{name} removed {line!r}")
            elif not self.had(name, domain, line, KEPT_DAYS + 1):
                self.violations.append(f"{name} removed {line}, which it never had")

    def advance(self, task: Iterator[Sent | None], *, calm: bool = False) -> bool:
        """Run a step of a task; return whether the task continues. Its request might be lost, or arrive late."""
        try:
            sent = next(task)
        except StopIteration:
            return False
        if sent and (calm or self.chance.random() < 0.7):
            self.service[sent[0]] = sent[1]
        elif sent and self.chance.random() < 0.6:
            self.late.append((self.now, sent))
        return True

    def night(self) -> None:
        chance, hung = self.chance, self.hung
        self.hung = []
        for name in chance.sample(("office", "vpn"), 2):
            if chance.random() < 0.5:
                self.wanted[name] = {"*": frozenset(chance.sample(ENTRIES, chance.choice((0, 1, 2))))}
                if chance.random() < 0.5:
                    self.wanted[name][chance.choice(DOMAINS)] = frozenset(chance.sample(ENTRIES, 1))
            task = self.task(name)
            self.advance(task)  # it reads its table
            (self.running if chance.random() < 0.7 else self.hung).append((self.now, task))
        for _ in range(chance.randint(2, 30)):
            if self.running:
                element = chance.choice(self.running)
                if chance.random() < 0.05 or not self.advance(element[1]):
                    self.running.remove(element)
        for item in hung:  # these tasks have read the data of last night
            if self.advance(item[1]):
                self.running.append(item)
        if chance.random() < 0.4:
            domain, entry = chance.choice(DOMAINS), chance.choice(ENTRIES)
            there = [line for line in self.service[domain].splitlines() if line.partition(" ")[0] != entry]
            typed = chance.choice(([entry], [f"{entry} # Ann"], []))
            self.service[domain] = "\n".join([*there, *typed])
        if self.late and chance.random() < 0.5:
            domain, lines = self.late.pop(chance.randrange(len(self.late)))[1]
            self.service[domain] = lines
        self.now += timedelta(days=chance.choice((1, 1, 1, 3)))
        limit = self.now - timedelta(days=ORPHAN_DAYS)
        self.running = [item for item in self.running if item[0] >= limit]
        self.late = [item for item in self.late if item[0] >= limit]

    def check(self) -> list[str]:
        """Return the problems after two complete runs of each list."""
        for name in ("office", "vpn", "office", "vpn"):
            task = self.task(name)
            while self.advance(task, calm=True):
                pass
        for domain in DOMAINS:
            lines = self.service[domain].splitlines()
            plain, there = set(lines), {line.partition(" ")[0] for line in lines}
            wanted = {name: element["*"] | element.get(domain, frozenset()) for name, element in self.wanted.items()}
            every = frozenset.union(*wanted.values())
            self.violations += [f"{entry} is missing on {domain}" for entry in sorted(every - there)]
            for name in wanted:
                left = {entry for entry in plain - every if self.had(name, domain, entry, KEPT_DAYS - 1)}
                self.violations += [f"{entry} left {name} and is on {domain}" for entry in sorted(left)]
        return self.violations


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.long
@pytest.mark.chosen(12)
def test_thirty_nights_of_two_lists_keep_exactly_their_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    scenario = Scenario(seed, tmp_path, monkeypatch)
    for _ in range(30):
        scenario.night()
    assert scenario.check() == []
