"""A world: a service, the tool, somebody else who writes, and an oracle that knows what may be true after each task."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import threading
import traceback
import urllib.request
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dialects
from airflow_versions import allow_execute_in_this_thread
from zoo import Zoo, ZooFault

from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.sandbox.requests import RecordedRequest

LISTS = ("exclude_ips", "exclude_params")
FIELDS = ("privacy", "email", "exclude_bots", "favorite", *LISTS)
DEFAULTS: dict[str, Any] = {
    "privacy": 0,
    "email": 0,
    "exclude_bots": 1,
    "favorite": False,
    "exclude_ips": None,
    "exclude_params": None,
}
#: Dialects in which what is stored is not what was sent: a website may be ruined, before that is noticed.
UNFAITHFUL = ("updates", "lists_stored")
#: Websites that may be ruined then: the first, and the second one, which decides whether it is the service.
MAX_RUINED = 2
#: From here on, guards look at how much of it is lost, and how much that may be.
GUARDED_FROM, MAX_LOSS = 10, 0.3
#: Requests that a task may need: some in all, and some for each website.
REQUESTS, REQUESTS_PER_WEBSITE = 150, 30
#: Tasks that have lists of their own.
_MANAGING = ("sync", "apply", "second")
#: What somebody else does so that a domain comes or goes.
_COMING = ("add", "delete", "rename")
#: Tasks that ask for all of a run, or nothing.
_OF_NO_RUN = ("snapshot", "compare", "prune")
#: Guards that no world is about.
_ACCEPTED = ("empty", "no_match")
PASSWORD = "s3cret-page-{}"
#: Milliseconds for which a task waits at most while the other one makes its requests.
_LONGEST_TURN = 2000

Record = dict[str, Any]
Step = dict[str, Any]


def lines(value: str | None) -> list[str]:
    """Return the lines of a list without blanks around them; an IPv6 address is the same in upper case."""
    return [one.lower() if ":" in one else one for line in (value or "").split("\n") if (one := line.strip())]


def entry(line: str) -> str:
    return line.partition("#")[0].strip()


def entries(value: str | None) -> set[str]:
    return {entry(line) for line in lines(value)} - {""}


@dataclass
class Goal:
    """What a task wants of a website.

    :param fields: field to value; of a list, its entries.
    :param modes: list field to how it is reconciled; ``replace`` if it is not named.
    :param delete: that it is gone.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    delete: bool = False
    #: The task that wants it: each has managed lists of its own.
    do: str = ""

    def mode(self, name: str) -> str:
        """Return how a list is reconciled."""
        return self.modes.get(name, "replace")


@dataclass
class Wanted:
    """What a task wants of the world.

    :param goals: id of a website that is there to what is wanted of it.
    :param creations: domain of a new website to what is wanted of it.
    :param refusal: why a guard has to refuse it, if one has to.
    """

    goals: dict[int, Goal] = field(default_factory=dict)
    creations: dict[str, Goal] = field(default_factory=dict)
    refusal: str = ""


@dataclass
class Table:
    """What a managed list has, as pairs of a scope and an entry: ``*`` or a domain.

    :param known: what it has, or had; kept for longer than a world lasts.
    :param maybe_known: that, and what a red or killed task may have noted.
    :param has: what it has now; no other list removes it.
    :param maybe_has: that, and what it may have now.
    """

    known: set[tuple[str, str]] = field(default_factory=set)
    maybe_known: set[tuple[str, str]] = field(default_factory=set)
    has: set[tuple[str, str]] = field(default_factory=set)
    maybe_has: set[tuple[str, str]] = field(default_factory=set)

    def note(self, rows: set[tuple[str, str]], *, surely: bool) -> None:
        """Note what a run has listed; surely if it was green."""
        self.maybe_known |= rows
        if surely:
            self.known |= rows
            self.has, self.maybe_has = set(rows), set(rows)
        else:
            self.has &= rows
            self.maybe_has |= rows


@dataclass
class Edit:
    """What somebody else did while a task ran, when request number ``at`` arrived."""

    at: int
    website_id: int
    do: str
    field: str = ""
    value: Any = None


@dataclass
class Outcome:
    """How a task ended."""

    result: Any = None
    error: BaseException | None = None
    text: str = ""
    killed: bool = False

    @property
    def is_green(self) -> bool:
        return self.error is None and not self.killed


class ViolationError(AssertionError):
    """Something that must never happen."""


class World:
    """One service and all that happens to it.

    :param sandbox: the service; it is reset.
    :param folder: an empty folder for files of the tool.
    """

    def __init__(self, sandbox: Zoo, folder: Path, dialect: Mapping[str, Any], websites: Sequence[Record]) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self.dialect = dict(dialect)
        self.green = self.red = 0
        self.edits: list[Edit] = []
        sandbox.reset()
        for number, website in enumerate(websites):
            sandbox.add_website(**website)
            if website.get("privacy") == 2:
                sandbox.change_website(number + 1, password=PASSWORD.format(number))
        self._speak(self.dialect)
        #: List (its name and the field) to its table, as far as the world can tell.
        self.tables = {(do, name): Table() for do in _MANAGING for name in LISTS}
        self._runs = 0
        self._log: list[str] = []

    # Steps

    def step(self, step: Step) -> None:
        """Make one step, and hold it to the oracle.

        :raises ViolationError: if something happened that must never happen.
        """
        if step["do"] == "hand":
            for edit in step["edits"]:
                self._edit(edit, 0)
            return
        if step["do"] == "both":
            self._both(step)
            return
        outcome = self._task(step, step.get("meanwhile", ()))
        if not outcome.is_green and step.get("heal"):
            self._speak({})
            retried = self._task(step, ())
            if not retried.is_green and not _may_stay_red(retried):
                raise ViolationError(f"a retry on a healthy service is red: {retried.text[-3000:]}")
            self._speak(self.dialect)

    def _speak(self, options: Mapping[str, Any]) -> None:
        self.sandbox.configure(preset="length")
        self.sandbox.configure(**options)
        self._spoken = dict(options)
        self.connect("analytics_default")
        self.connect("second")

    def connect(self, name: str, **extra: Any) -> None:
        """Set up a connection; the second one tells whose request it is."""
        headers = {"headers": {"X-Task": "second"}} if name == "second" else {}
        options = dialects.extras(self._spoken)
        connection = json.loads(self.sandbox.connection_json())
        connection["extra"] = {"max_retries": 2, **options, **headers, **extra}
        os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(connection)

    def _task(self, step: Step, meanwhile: Sequence[Any]) -> Outcome:
        """Run a task, and compare the world before and after it with what the task says."""
        self._begin()
        wanted = self._wanted(step)
        outcome = self._run(step, meanwhile)
        self._end([outcome])
        self._nothing_lost(step, wanted, outcome)
        self._new_ones(step, wanted, outcome)
        if wanted.refusal and outcome.is_green and not self.edits:
            raise ViolationError(f"green, although a guard has to refuse it: {wanted.refusal}")
        self._told(step, outcome)
        self._learn(step, outcome)
        return outcome

    def _begin(self) -> None:
        self.before = self._websites()
        self.edits = []
        self.sandbox.clear_requests()

    def _end(self, outcomes: Sequence[Outcome]) -> None:
        """Note the world after tasks, and what must be true of each of them."""
        self.sandbox.meanwhile(lambda request: None)
        self.sandbox.clear_faults()
        self._requests = self.sandbox.requests
        self._drain()
        self.after = self._websites()
        for outcome in outcomes:
            self.green += outcome.is_green
            self.red += not outcome.is_green
            self._no_secret(outcome)
        if len(self._requests) > len(outcomes) * (REQUESTS + REQUESTS_PER_WEBSITE * len(self.before)):
            raise ViolationError(f"{len(self._requests)} requests for {len(self.before)} websites")

    def _websites(self) -> dict[int, Record]:
        return {one["id"]: one for one in self.sandbox.websites()}

    def _edits_of(self, website_id: int, *names: str) -> list[Edit]:
        """Return the edits of a website; of some fields only, if any is named."""
        return [one for one in self.edits if one.website_id == website_id and (not names or one.field in names)]

    # Two tasks at once

    def _both(self, step: Step) -> None:
        """Run two tasks at the same time, and compare the world before and after them with what both say.

        ``turns`` has pairs: when request number ``at`` of the first task arrives, the second one makes ``count``
        requests before it goes on. When the first one has ended, the second one is free.
        """
        tasks: list[Step] = [step["first"], step["second"]]
        self._begin()
        wanted = [self._wanted(one) for one in tasks]
        outcomes = self._run_both(tasks, step)
        self._end(outcomes)
        if self._is_faithful:
            self._kept_by_both(wanted)
            if dialects.is_calm(self.dialect) and not self._is_contradictory(tasks, wanted):
                self._both_are_calm(wanted, outcomes)
        for task, outcome in zip(tasks, outcomes, strict=True):
            self._learn(task, outcome)

    @property
    def _is_faithful(self) -> bool:
        """Whether the service stores what is sent, and shows what is stored."""
        return self.dialect.keys().isdisjoint((*UNFAITHFUL, "ignored_fields", "lists_as"))

    def _run_both(self, tasks: Sequence[Step], step: Step) -> list[Outcome]:
        turns = dict(step["turns"])
        #: Requests in the order in which they are served; one may arrive before that and wait.
        self._served: list[RecordedRequest] = []
        todo = {int(at): action for at, *action in step.get("meanwhile", ())}
        outcomes: dict[int, Outcome] = {}
        threads: list[threading.Thread] = []
        made = [0, 0]
        may_make = 0

        def run(number: int) -> None:
            outcomes[number] = self._execute(
                tasks[number], _make(self, tasks[number], ("analytics_default", "second")[number])
            )

        def start_second() -> None:
            threads.append(threading.Thread(target=run, args=(1,)))
            threads[-1].start()

        async def act(request: RecordedRequest) -> ZooFault | None:
            nonlocal may_make
            number = int(request.header("x-task") == "second")
            made[number] += 1
            if number:
                while made[1] > may_make and 0 not in outcomes:
                    await asyncio.sleep(0.001)
                self._served.append(request)
                return None
            if made[0] in turns:
                may_make = made[1] + turns[made[0]]
                if not threads:
                    start_second()
                waited = 0
                while made[1] < may_make and 1 not in outcomes and waited < _LONGEST_TURN:
                    await asyncio.sleep(0.001)
                    waited += 1
            what, *details = todo.get(made[0], ("",))
            if what == "hand":
                self._edit(details[0], len(self.sandbox.requests))
            self._served.append(request)
            return None

        self.sandbox.meanwhile(act)
        with _logged() as self._log:
            run(0)
            if not threads:
                start_second()
            threads[0].join()
        return [outcomes[0], outcomes[1]]

    def _is_contradictory(self, tasks: Sequence[Step], wanted: Sequence[Wanted]) -> bool:
        """Whether no service could please both tasks, and the person who edits: then red is right."""
        first, second = wanted
        domains = [_key(one["domain"]) for one in self.before.values()]
        if any(one["domain"] not in domains for task in tasks for one in task.get("of", ())):
            return True
        if first.refusal or second.refusal or first.creations.keys() & second.creations.keys():
            return True
        if len(set(domains)) < len(domains) or any(edit.do in (*_COMING, "restore") for edit in self.edits):
            return True
        for website_id in {*first.goals, *second.goals}:
            one, other = first.goals.get(website_id, Goal()), second.goals.get(website_id, Goal())
            edits = self._edits_of(website_id)
            if one.delete or other.delete or {edit.field for edit in edits} & {*one.fields, *other.fields}:
                return True
            if any(edit.field not in LISTS and edit.value == DEFAULTS[edit.field] for edit in edits):
                return True
            for name in one.fields.keys() & other.fields.keys():
                modes = {one.mode(name), other.mode(name)}
                is_same = one.fields[name] == other.fields[name] if name not in LISTS else modes == {"merge"}
                if not is_same:
                    return True
        return False

    def _kept_by_both(self, wanted: Sequence[Wanted]) -> None:
        """Nothing is lost that neither task asks to remove, and nothing is there that nobody wants."""
        for website_id, record in self.before.items():
            wanting = [one.goals[website_id] for one in wanted if website_id in one.goals]
            now, domain = self.after.get(website_id), record["domain"]
            if now is None:
                if not any(goal.delete for goal in wanting) and not self._is_deleted(website_id):
                    raise ViolationError(f"{domain} was deleted, which nobody asked for")
                continue
            for name in FIELDS:
                values = [goal.fields[name] for goal in wanting if name in goal.fields]
                edits = self._edits_of(website_id, name)
                if name not in LISTS:
                    allowed = [record[name], *values, *(edit.value for edit in edits)]
                    if now[name] not in allowed:
                        raise ViolationError(f"{domain}: {name} is {now[name]!r}, one of {allowed} was wanted")
                    continue
                may_go: set[str] = {edit.value for edit in edits if edit.do == "untype"}
                was = lines(record[name])
                for goal in wanting:
                    if name in goal.fields:
                        may_go |= {line for line in was if self._may_remove(record, name, goal, line)}
                lost = set(was) - may_go - set(lines(now[name]))
                known = {entry(one) for value in (was, *values) for one in value} | {entry(one.value) for one in edits}
                if lost or entries(now[name]) - known:
                    raise ViolationError(f"{domain}: {name} was {record[name]!r}, is {now[name]!r}, wanted {values}")

    def _is_deleted(self, website_id: int) -> bool:
        """Whether somebody else deleted a website."""
        return any(edit.do == "delete" for edit in self._edits_of(website_id))

    def _may_remove(self, record: Record, name: str, goal: Goal, line: str) -> bool:
        if entry(line) in {entry(one) for one in goal.fields[name]}:
            return False
        is_owned = goal.mode(name) == "managed" and "#" not in line
        return goal.mode(name) == "replace" or (is_owned and entry(line) in self._owned(name, goal, record)[1])

    def _both_are_calm(self, wanted: Sequence[Wanted], outcomes: Sequence[Outcome]) -> None:
        """Both are green, and what they say is true, but for what the other one overwrote after they had looked."""
        for number, outcome in enumerate(outcomes):
            goals, others = wanted[number].goals, wanted[1 - number].goals
            if not outcome.is_green:
                if self._is_rightly_doubted(goals, others, outcome):
                    continue
                raise ViolationError(f"task {number + 1} is red on a calm night: {outcome.text[-3000:]}")
            for website_id, goal in goals.items():
                was, now = self.before[website_id], self.after[website_id]
                for name in goal.fields:
                    is_so = self._as_wanted(website_id, name, goal, was, now)
                    others_lines = name in LISTS and {entry(one) for one in goal.fields[name]} <= entries(now[name])
                    if not is_so and not others_lines and not self._is_overwritten(website_id, number):
                        raise ViolationError(
                            f"task {number + 1} is green, but {was['domain']}: {name} is {now[name]!r}, "
                            f"wanted {goal.fields[name]!r}, was {was[name]!r}"
                        )

    def _is_rightly_doubted(self, goals: Mapping[int, Goal], others: Mapping[int, Goal], outcome: Outcome) -> bool:
        """Whether the other task took values away, and no further website could tell whose doing it is."""
        is_told = ". Before: " in outcome.text or "is not as it should be" in outcome.text
        if "the service does it" in outcome.text or not is_told:
            return False
        for website_id in goals.keys() & others.keys():
            record, goal = self.before[website_id], others[website_id]
            for name in goal.fields.keys() - goals[website_id].fields.keys():
                is_cleared = goal.mode(name) == "replace" and lines(record[name]) if name in LISTS else False
                if is_cleared or (name not in LISTS and goal.fields[name] == DEFAULTS[name] != record[name]):
                    return True
        return False

    def _is_overwritten(self, website_id: int, number: int) -> bool:
        """Whether the other task changed a website after the last look of this one, or where a look is late."""
        path = f"/websites/{website_id}"
        looks, others = 0, 0
        for at, request in enumerate(self._served, 1):
            is_own = (request.header("x-task") == "second") == bool(number)
            # The other pages of a list prove it; the first one has the rows.
            if is_own and (request.target.endswith("sort=desc") or request.path.endswith(path)):
                is_read = request.operation in ("list", "show")
                if is_read != bool(self.sandbox.options.reads_behind) or not is_read:
                    looks = at
            elif not is_own and request.operation == "update" and request.path.endswith(path):
                others = at
        return others > looks

    def _drain(self) -> None:
        """Let a service that shows writes late show them."""
        behind = self.sandbox.options.reads_behind
        writes = sum(one.operation in ("create", "update", "delete") for one in self._requests)
        for _ in range(behind * writes):
            request = urllib.request.Request(
                f"{self.sandbox.url}/api/v1/websites", headers={"Authorization": f"Bearer {self.sandbox.api_key}"}
            )
            with contextlib.suppress(OSError), urllib.request.urlopen(request) as response:
                response.read()

    # What a task wants

    def _wanted(self, step: Step) -> Wanted:
        """Return what a task wants of each website and of new ones."""
        do = step["do"]
        by_domain: dict[str, list[int]] = {}
        for one in self.before.values():
            by_domain.setdefault(_key(one["domain"]), []).append(one["id"])
        goals: dict[int, Goal] = {}
        creations: dict[str, Goal] = {}

        def want(domain: str, goal: Goal) -> None:
            goals.update(dict.fromkeys(by_domain.get(domain, ()), goal))

        if do == "create":
            goal = Goal(dict(step["settings"]))
            if step["domain"] not in by_domain:
                creations[step["domain"]] = goal
            elif step["if_exists"] == "update":
                want(step["domain"], goal)
        elif do in ("update", "updates"):
            for one in step.get("of", [step]):
                want(one["domain"], Goal(dict(one["settings"])))
        elif do == "delete":
            want(step["domain"], Goal(delete=True))
        elif do == "sync":
            for domain in by_domain if step["websites"] is None else step["websites"]:
                want(domain, Goal({step["field"]: step["entries"]}, {step["field"]: step["mode"]}, do=_list_of(step)))
        elif do == "apply":
            for domain, settings in step["config"]["websites"].items():
                goal = Goal(dict(settings), step["config"].get("modes", {}), do=_list_of(step))
                want(domain, goal)
                if domain not in by_domain:
                    creations[domain] = goal
            if step.get("prune"):
                # A domain that no file can hold is never deleted.
                goals |= {
                    one["id"]: Goal(delete=True)
                    for one in self.before.values()
                    if one["id"] not in goals and one["domain"] == _key(one["domain"])
                }
        return Wanted(goals, creations, self._must_be_refused(step, goals))

    def _must_be_refused(self, step: Step, goals: Mapping[int, Goal]) -> str:
        if step.get("force") or step["do"] not in ("sync", "apply"):
            return ""
        compared = [(self.before[one], goal) for one, goal in goals.items() if not goal.delete]
        deleted, websites = len(goals) - len(compared), len(self.before)
        counts = [(deleted, websites, f"{deleted} of {websites} websites deleted")]
        # Lists in another form show fewer entries than they have.
        for name in LISTS if self.dialect.get("lists_as", "lines") in ("lines", "CR LF", "array") else ():
            shorter = [
                len(entries(one[name])) - len(goal.fields[name])
                for one, goal in compared
                if name in goal.fields and goal.mode(name) == "replace"
            ]
            lost, total = sum(max(0, one) for one in shorter), sum(len(entries(one[name])) for one, _ in compared)
            counts.append((lost, total, f"{lost} of {total} entries of {name} lost"))
        closed = [goal for one, goal in compared if one["privacy"]]
        opened = sum(goal.fields.get("privacy") == 0 for goal in closed)
        counts.append((opened, len(closed), f"{opened} of {len(closed)} pages opened"))
        return next((why for some, of, why in counts if of >= GUARDED_FROM and some > MAX_LOSS * of), "")

    # Running

    def _run(self, step: Step, meanwhile: Sequence[Any]) -> Outcome:
        task = _make(self, step)
        pid = 0
        lock = threading.Lock()
        count = 0
        todo = {int(at): action for at, *action in meanwhile}
        is_killed = False
        started = threading.Event()

        def act(request: RecordedRequest) -> ZooFault | None:
            nonlocal count, is_killed
            with lock:
                count += 1
                at = count
            if at not in todo:
                return ZooFault(drop=True, commit=False) if is_killed else None
            what, *details = todo[at]
            if what == "fault":
                return ZooFault(**details[0])
            if what == "stop" and hasattr(task, "on_kill"):
                task.on_kill()
            elif what == "kill":
                started.wait(10)
                is_killed = True
                os.kill(pid, signal.SIGKILL)
                return None if details[0] else ZooFault(drop=True, commit=False)
            elif what == "hand":
                self._edit(details[0], at)
            return None

        self.sandbox.meanwhile(act)
        if not any(what == "kill" for what, *_ in todo.values()):
            return self._run_here(step, task)
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            try:
                outcome = self._run_here(step, task)
                told = json.dumps([outcome.is_green, outcome.result, outcome.text[-20_000:]], default=str)
                os.write(write, told.encode())
            finally:
                os._exit(0)
        started.set()
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            data = pipe.read()
        os.waitpid(pid, 0)
        if is_killed or not data:
            return Outcome(killed=True)
        is_green, result, text = json.loads(data)
        return Outcome(result, None if is_green else RuntimeError(text), text)

    def _run_here(self, step: Step, task: Any) -> Outcome:
        with _logged() as self._log:
            return self._execute(step, task)

    def _execute(self, step: Step, task: Any) -> Outcome:
        self._runs += 1
        ti = SimpleNamespace(
            dag_id="the_dag", run_id=f"run {self._runs}", task_id=step["do"], map_index=-1, try_number=1
        )
        allow_execute_in_this_thread()
        try:
            return Outcome(task.execute({} if step["do"] in _OF_NO_RUN else {"ti": ti}))
        except Exception as error:  # every kind of error is red
            return Outcome(error=error, text="".join(traceback.format_exception(error)))

    def _edit(self, edit: Mapping[str, Any], at: int) -> None:
        """Do what somebody else does by hand: ``{"do": ..., "domain": ..., "field": ..., "value": ...}``."""
        do, domain = edit["do"], edit["domain"]
        if do == "add":
            if edit.get("twice") or not self.sandbox.store.find(domain):
                website = self.sandbox.add_website(domain, **edit.get("settings", {}))
                self.edits.append(Edit(at, website["id"], "add"))
            return
        if do == "restore":
            for number in range(1, 40):
                if self.sandbox.store.restore(number):
                    self.edits.append(Edit(at, number, "add"))
            return
        found = [one for one in self.sandbox.websites() if one["domain"] == domain]
        if not found:
            return
        website = found[0]
        name = edit.get("field", "")
        if do == "delete":
            self.sandbox.store.mark(website["id"])
        elif do == "rename":
            if self.sandbox.store.find(edit["value"]):
                return
            self.sandbox.change_website(website["id"], domain=edit["value"])
        elif do == "set":
            self.sandbox.change_website(website["id"], **{name: edit["value"]})
        else:
            now = lines(website[name])
            if (edit["value"] in now) == (do == "type"):
                return
            after = [*now, edit["value"]] if do == "type" else [one for one in now if one != edit["value"]]
            self.sandbox.change_website(website["id"], **{name: "\n".join(after) or None})
        self.edits.append(Edit(at, website["id"], do, name, edit.get("value")))

    # The oracle

    def _nothing_lost(self, step: Step, wanted: Wanted, outcome: Outcome) -> None:
        """Green is true, and nothing of others is lost; red is safe."""
        ruined: list[str] = []
        losses = 0
        for website_id, record in self.before.items():
            goal, now, name = wanted.goals.get(website_id, Goal()), self.after.get(website_id), record["domain"]
            edits = self._edits_of(website_id)
            renamed = [one for one in edits if one.do == "rename"]
            if now is None:
                # A prune also deletes a website whose new domain the list showed.
                listed = max(self._numbers("list"), default=0)
                is_pruned = bool(step.get("prune") and renamed) and renamed[-1].at <= listed
                is_by_others = self._is_deleted(website_id) or is_pruned
                if not (goal.delete or is_by_others):
                    raise ViolationError(f"{name} was deleted, which nobody asked for")
                if renamed and not is_by_others and not any(self._may_be_overwritten(one) for one in renamed):
                    raise ViolationError(f"{name} was deleted, although it is {renamed[-1].value} by now")
                continue
            if goal.delete and outcome.is_green and not edits and not self._says_gone(step):
                raise ViolationError(f"{name} is still there after a green delete")
            # What was away for a moment may not have been in the list.
            was_away = any(one.do in _COMING for one in edits)
            wrong = []
            is_loss = False
            for one in FIELDS:
                if one in LISTS and self.dialect.get("lists_as") == "null" and "updates" in self.dialect:
                    continue  # nobody sees what is reset
                as_before = self._as_before(website_id, one, record, now)
                as_wanted = one in goal.fields and self._as_wanted(website_id, one, goal, record, now)
                is_wanted_now = one in goal.fields and outcome.is_green and not was_away
                if not (as_wanted or (as_before and not is_wanted_now)):
                    wrong.append(f"{one}: before {record[one]!r}, wanted {goal.fields.get(one)!r}, now {now[one]!r}")
                    is_loss |= _is_loss(one, record[one], now[one])
            if now["domain"] != (renamed[-1].value if renamed else name):
                wrong.append(f"domain: {now['domain']}")
            if wrong:
                ruined.append(f"{name} ({website_id}): {'; '.join(wrong)}")
                losses += is_loss
                self._ruin_is_told(step, record, now, ruined[-1], outcome)
        if ruined and self._is_faithful:
            raise ViolationError(f"ruined by a faithful service: {ruined}\n{outcome.text[-3000:]}")
        # A service that changes single lines of others is told, and not stopped.
        if losses > MAX_RUINED and self.dialect.get("lists_stored") not in ("no networks", "normalized"):
            raise ViolationError(f"{losses} websites ruined: {ruined}\n{outcome.text[-3000:]}")

    def _ruin_is_told(self, step: Step, record: Record, now: Record, ruin: str, outcome: Outcome) -> None:
        if now == record and self._not_found(step) > 1:  # one such answer is verified
            return
        if outcome.is_green:
            # It says so, and cannot know whose doing it is.
            if record["domain"] not in str(outcome.result.get("unexpected_changes")):
                raise ViolationError(f"green, but {ruin}; it says {outcome.result}")
            return
        is_shown = "lists_as" not in self.dialect  # else nobody sees what is stored
        is_as_shown = all(now[one] == record[one] for one in FIELDS)  # what others edited since may be lost
        if is_shown and not is_as_shown and f"{record['domain']} (id {record['id']}): It was put back" in outcome.text:
            raise ViolationError(f"it says that it was put back, but {ruin}")
        if not outcome.killed and not _names(outcome, record):
            raise ViolationError(f"red, and the error does not name {ruin}\n{outcome.text[-3000:]}")

    def _numbers(self, operation: str, domain: str = "") -> list[int]:
        """Return the numbers of the requests of an operation; of the creates of a domain, if it is named."""
        return [
            number
            for number, one in enumerate(self._requests, 1)
            if one.operation == operation and (not domain or _key(dict(one.form).get("domain", "")) == domain)
        ]

    def _as_before(self, website_id: int, name: str, record: Record, now: Record) -> bool:
        mine = self._edits_of(website_id, name)
        if name not in LISTS:
            return bool(now[name] == (mine[-1].value if mine else record[name])) or (
                now[name] == record[name] and all(self._may_be_overwritten(one) for one in mine)
            )
        typed, untyped, kept = self._typed(mine)
        there, before = set(lines(now[name])), set(lines(record[name]))
        return (before | kept) - untyped <= there <= before | typed

    def _typed(self, edits: Sequence[Edit]) -> tuple[set[str], set[str], set[str]]:
        """Return the lines that others typed, those that they removed, and those that have to be kept."""
        typed, untyped = ({one.value for one in edits if one.do == do} for do in ("type", "untype"))
        kept = {one.value for one in edits if one.do == "type" and not self._may_be_overwritten(one)} - untyped
        return typed, untyped, kept

    def _not_found(self, step: Step) -> int:
        """Return how often the service says of a website that it is not found."""
        return [detail for _, what, *detail in step.get("meanwhile", ()) if what == "fault"].count([{"status": 404}])

    def _says_gone(self, step: Step) -> bool:
        """Whether a service that keeps what is deleted said once that it is gone: a delete is verified by one read."""
        return self.dialect.get("deletes") == "keep" and self._not_found(step) > 0

    def _as_wanted(self, website_id: int, name: str, goal: Goal, record: Record, now: Record) -> bool:
        mine, value = self._edits_of(website_id, name), goal.fields[name]
        if name not in LISTS:
            return bool(now[name] == value) or any(one.value == now[name] for one in mine)
        there, before, wanted = set(lines(now[name])), set(lines(record[name])), {entry(one) for one in value}
        typed, untyped, kept = self._typed(mine)
        if not wanted and self._seems_empty(record[name]):
            return True  # nobody can see another one
        if not wanted - {entry(one) for one in untyped} <= entries(now[name]):
            return False
        if goal.mode(name) == "replace":
            return entries(now[name]) <= wanted | {entry(one) for one in typed | untyped}
        gone: set[str] = set()
        may_go: set[str] = set()
        if goal.mode(name) == "managed":
            must_go, may_go = (one - wanted for one in self._owned(name, goal, record))
            gone = must_go & {one for one in self._seen_lines(record[name]) if "#" not in one}
        must = {one for one in before - untyped | kept if "#" in one or entry(one) not in may_go}
        allowed = before | typed | {one for one in there if entry(one) in wanted}
        return must <= there <= allowed and not (gone - {entry(one) for one in typed}) & entries(now[name])

    def _seems_empty(self, value: str | None) -> bool:
        """Whether the service shows a list as null, or on one line that begins with a comment."""
        as_what = self.dialect.get("lists_as")
        return as_what == "null" or (as_what is not None and (value or "").startswith("#"))

    def _seen_lines(self, value: str | None) -> list[str]:
        """Return the lines that the service shows of a list: one that is cut without a mark looks whole."""
        return lines((value or "")[:20] if self.dialect.get("lists_as") == "cut" else value)

    def _may_be_overwritten(self, edit: Edit) -> bool:
        """Whether an edit came between the show and the update of its website, or reads may not show it."""
        if self.sandbox.options.reads_behind:
            return True
        own = [
            (number, request.operation)
            for number, request in enumerate(self._requests, 1)
            if request.path.endswith(f"/websites/{edit.website_id}")
        ]
        following = [operation for number, operation in own if number >= edit.at]
        return bool(following) and following[0] in ("update", "delete")

    def _new_ones(self, step: Step, wanted: Wanted, outcome: Outcome) -> None:
        """No duplicates, and each new website is one that was asked for."""
        by_others = {edit.website_id for edit in self.edits if edit.do in ("add", "rename")}
        new = [record for one, record in self.after.items() if one not in self.before and one not in by_others]
        domains = [_plain(record["domain"]) for record in new]
        # One that somebody deletes meanwhile is created again.
        named = [step["domain"]] if step["do"] == "create" else step.get("config", {}).get("websites", ())
        for record, domain in zip(new, domains, strict=True):
            if domain not in {_plain(one) for one in (*wanted.creations, *named)}:
                raise ViolationError(f"a website that nobody asked for: {record}")
            if domains.count(domain) > 1:
                raise ViolationError(f"two websites of {domain}: {new}\n{outcome.text[-3000:]}")
        for domain, goal in wanted.creations.items() if outcome.is_green else ():
            same = [one for one in self.after.values() if _key(one["domain"]) == domain]
            # Whatever is there when it is created has to be seen.
            seen = max([*self._numbers("list"), *self._numbers("create", domain)], default=0)
            late = [one.website_id for one in self.edits if one.do in _COMING and one.at > seen]
            if len(same) > 1 and not any(one["id"] in late for one in same):
                raise ViolationError(f"green, and two websites of {domain}: {same}")
            if not same and not any(edit.do in ("delete", "rename") for edit in self.edits):
                raise ViolationError(f"green, and no website of {domain}")
            for one in same:
                differing = _differing(one, DEFAULTS | goal.fields) - {edit.field for edit in self._edits_of(one["id"])}
                if differing and one["id"] not in by_others:
                    raise ViolationError(f"green, but {domain}: {differing} of {one}, wanted {goal.fields}")

    def _told(self, step: Step, outcome: Outcome) -> None:
        """What a green task tells is what is."""
        if not outcome.is_green or self.edits:
            return
        result, do, after = outcome.result, step["do"], self.after
        if do in ("list", "snapshot", "export"):
            told = sorted(str(one["id"]) for one in result) if do == "list" else _in_file(self, step)
            there = sorted(str(one["id"]) for one in after.values() if not step.get("favorite") or one["favorite"])
            if do == "export":
                there = sorted(one["domain"] for one in after.values())
                there = [one for one in there if one in told or not result["left_out"]]  # it says so
            if told != there:
                raise ViolationError(f"{do} shows {told}, there are {there}")
        elif do == "find":
            found = [str(one["id"]) for one in after.values() if _key(one["domain"]) == step["domain"]]
            if found != [str(result["id"])]:
                raise ViolationError(f"found {result['id']}, there are {found}")
        elif do in ("create", "update"):
            shown = after.get(int(result["website_id"]))
            if shown is None or _key(shown["domain"]) != step["domain"]:
                raise ViolationError(f"told {result['website_id']}, which is {shown}")
            if do == "create" and result["created"] != (shown["id"] not in self.before):
                raise ViolationError(f"created is {result['created']}")
            if do == "create" and not result["created"] and step["if_exists"] == "skip":
                differing = _differing(shown, step["settings"])
                cleared = {one for one in LISTS if not step["settings"].get(one) and self._seems_empty(shown[one])}
                if not differing - cleared <= set(result["differing"]):
                    raise ViolationError(f"{differing} differ, but it says {result['differing']}")
        elif do == "delete":
            if result["deleted"] != (len(after) < len(self.before)) and not self._says_gone(step):
                raise ViolationError(f"deleted is {result['deleted']}")
        elif do == "drift":
            wanted = self._wanted({**step, "do": "apply"})
            ids = [one for one, goal in wanted.goals.items() if not self._is_as_wanted(one, goal, self.before[one])]
            if ids or wanted.creations:
                raise ViolationError(f"no drift, it says, but {ids} and {list(wanted.creations)} differ")
        elif do in ("sync", "apply"):
            changed = sum(self.before.get(one) != after.get(one) for one in {*self.before, *after})
            if result["verified"] and result["applied"] != changed:
                raise ViolationError(f"it says that {result['applied']} websites were changed; these are {changed}")

    def _is_as_wanted(self, website_id: int, goal: Goal, record: Record) -> bool:
        return not goal.delete and all(self._as_wanted(website_id, one, goal, record, record) for one in goal.fields)

    def _no_secret(self, outcome: Outcome) -> None:
        texts = [json.dumps(outcome.result, default=str), outcome.text, *self._log]
        texts += [path.read_text(errors="replace") for path in self.folder.rglob("*") if path.is_file()]
        for secret in (self.sandbox.api_key, *self.sandbox.store.passwords()):
            for text in texts:
                if secret in text:
                    at = text.index(secret)
                    raise ViolationError(f"a secret in an output: {text[max(0, at - 200) : at + 100]}")

    def _learn(self, step: Step, outcome: Outcome) -> None:
        """Note what the tables of managed lists have after a task."""
        modes = {step["field"]: step["mode"]} if step["do"] == "sync" else step.get("config", {}).get("modes", {})
        if "managed" not in modes.values() or step["do"] not in ("sync", "apply"):
            return
        for name in LISTS:
            if modes.get(name) != "managed":  # what the list had of this field has left
                rows = set()
            elif step["do"] == "sync":
                scopes = [_key(one) for one in step["websites"] or ("*",)]
                rows = {(scope, entry(one)) for scope in scopes for one in step["entries"]}
            else:
                websites = step["config"]["websites"].items()
                rows = {(_key(domain), entry(one)) for domain, goal in websites for one in goal.get(name, ())}
            self.tables[_list_of(step), name].note(rows, surely=outcome.is_green)

    def _owned(self, name: str, goal: Goal, record: Record) -> tuple[set[str], set[str]]:
        """Return the entries that a managed list has to remove from a website unless it wants them, and may remove."""
        table = self.tables[goal.do, name]
        scopes = {"*", _key(record["domain"])}
        others = [one for (do, field), one in self.tables.items() if field == name and do != goal.do]
        spared = {key for one in others for scope, key in one.has if scope in scopes}
        maybe_spared = {key for one in others for scope, key in one.maybe_has if scope in scopes}
        must = {key for scope, key in table.known if scope in scopes} - maybe_spared
        may = {key for scope, key in table.maybe_known if scope in scopes} - spared
        return must, may


def _differing(record: Record, settings: Mapping[str, Any]) -> set[str]:
    """Return the fields of a record that are not as in these settings."""
    return {
        name
        for name, value in settings.items()
        if (entries(record[name]) != {entry(line) for line in value or ()} if name in LISTS else record[name] != value)
    }


def _is_loss(name: str, before: Any, now: Any) -> bool:
    """Whether a value fell back to its default, all lines of a list are gone, or a comment is gone."""
    if name not in LISTS:
        return bool(now == DEFAULTS[name])
    gone = set(lines(before)) - set(lines(now))
    return bool(gone) and (gone == set(lines(before)) or any("#" in line for line in gone))


def _list_of(step: Step) -> str:
    """Return the name of the managed lists of a step."""
    return str(step.get("list", step["do"]))


def _key(domain: str) -> str:
    """Return a domain without what is no part of it."""
    return domain.lower().removeprefix("https://").removesuffix("/").removesuffix(":443")


def _plain(domain: str) -> str:
    """Return a domain without all that a service may put around it."""
    return _key(domain).removeprefix("www.")


def _names(outcome: Outcome, record: Record) -> bool:
    failures: Mapping[str, str] = getattr(outcome.error, "failures", {})
    text = outcome.text + " ".join(failures)
    return record["domain"] in text or f"{record['id']}" in text


def _may_stay_red(outcome: Outcome) -> bool:
    """Whether a person has to do something first."""
    return any(
        part in outcome.text
        for part in (
            "websites have the domain",  # somebody else has made the second one
            "already exists, with id",  # if_exists="fail"
            "create this one with the hook",  # the first try has stored another spelling
            "If the service writes it so",  # it has stored another spelling of the domain
            "may write the domain in this way",
            "DomainError",
            "If this is intended",  # a guard
            " as one entry per line",  # the service had cut an entry
            "Drift",
            "drift",
        )
    )


class _OneByOne:
    """Several tasks of one kind, one after the other, as a colleague runs them."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        self._tasks = tasks

    def execute(self, context: Any) -> list[Any]:
        return [task.execute(context) for task in self._tasks]


def _make(world: World, step: Step, connection: str = "analytics_default") -> Any:
    """Return the task of a step."""
    world.connect(connection, parallel_requests=step.get("parallel_requests", 8))
    task = _of_step(world, step)
    task.analytics_conn_id = connection
    return task


def _of_step(world: World, step: Step) -> Any:
    if step["do"] == "updates":
        return _OneByOne([_make(world, {"do": "update", **one}, "second") for one in step["of"]])
    from airflow_provider_analytics.operators import exclusions, snapshots, websites, websites_as_code

    do, folder = step["do"], world.folder
    settings = dict(step.get("settings", {}))
    if "email" in settings:
        settings["email_reports"] = bool(settings.pop("email"))
    if "exclude_bots" in settings:
        settings["exclude_bots"] = bool(settings["exclude_bots"])
    named = {"task_id": do, **{name: step[name] for name in ("domain", "if_exists") if name in step}, **settings}
    stored: Any = {"task_id": do, "base_path": str(folder / "snapshots")}
    exported = str(folder / "websites.yaml")
    if do == "sync":
        arguments = {
            "task_id": do,
            "websites": step["websites"],
            "mode": step["mode"],
            "accept": [*_ACCEPTED, *_force(step)],
            **_state(step, [step["mode"]], folder),
        }
        if step["field"] == "exclude_ips":
            return exclusions.SyncExcludedIpsOperator(exclude_ips=step["entries"], networks="send", **arguments)
        return exclusions.SyncExcludedParamsOperator(exclude_params=step["entries"], **arguments)
    if do in ("apply", "drift"):
        files: dict[str, Any] = {"config": _config(step["config"]), "prune": step.get("prune", False)}
        files |= _state(step, step["config"].get("modes", {}).values(), folder)
        if do == "drift":
            return websites_as_code.CheckDriftOperator(task_id=do, **files)
        files["accept"] = _force(step)
        return _Approved(files) if step.get("approved") else websites_as_code.ApplyWebsitesOperator(task_id=do, **files)
    makers: dict[str, Callable[[], Any]] = {
        "list": lambda: websites.ListWebsitesOperator(task_id=do, favorite=step.get("favorite")),
        "find": lambda: websites.GetWebsiteOperator(**named),
        "create": lambda: websites.CreateWebsiteOperator(**named),
        "update": lambda: websites.UpdateWebsiteOperator(**named),
        "delete": lambda: websites.DeleteWebsiteOperator(**named),
        "snapshot": lambda: snapshots.SnapshotWebsitesOperator(
            partition_date=step["day"], accept=list(GUARDS), late="label", **stored
        ),
        "compare": lambda: snapshots.CompareSnapshotsOperator(**stored),
        "prune": lambda: snapshots.PruneSnapshotsOperator(keep_days=2, **stored),
        "export": lambda: websites_as_code.ExportWebsitesOperator(task_id=do, config_path=exported),
    }
    return makers[do]()


def _force(step: Step) -> list[str]:
    return ["empty", "delete", "public", "loss"] if step.get("force") else []


def _state(step: Step, modes: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the arguments of a task that keeps something: a managed list, or a trail of what it sent."""
    keeps = "managed" in modes or step.get("audit") or step.get("approved")
    return {"state_path": str(folder / "state"), "list_name": _list_of(step)} if keeps else {}


class _Approved:
    """Plan, then apply that very plan."""

    analytics_conn_id = "analytics_default"

    def __init__(self, files: dict[str, Any]) -> None:
        self._files = files
        self._task: Any = None

    def on_kill(self) -> None:
        if self._task is not None:
            self._task.on_kill()

    def execute(self, context: Any) -> Any:
        from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator

        files = {**self._files, "analytics_conn_id": self.analytics_conn_id}
        self._task = PlanWebsitesOperator(task_id="plan", **files)
        digest = self._task.execute(context)["digest"]
        self._task = ApplyWebsitesOperator(task_id="apply", expected_digest=digest, **files)
        return self._task.execute(context)


def _config(config: Mapping[str, Any]) -> dict[str, Any]:
    names = {0: "public", 1: "private"}

    def shown(name: str, value: Any) -> Any:
        if name == "privacy":
            return names[value]
        return bool(value) if name in ("email", "exclude_bots") else value

    return {
        "modes": {**dict.fromkeys(LISTS, "replace"), **config.get("modes", {})},
        "websites": {
            domain: {name: shown(name, value) for name, value in settings.items()}
            for domain, settings in config["websites"].items()
        },
    }


def _in_file(world: World, step: Step) -> list[str]:
    if step["do"] == "export":
        import yaml

        return sorted(yaml.safe_load((world.folder / "websites.yaml").read_text())["websites"] or ())
    from airflow_provider_analytics.snapshots.catalog import read_snapshot

    snapshot = read_snapshot(str(world.folder / "snapshots"), step["day"])
    assert snapshot is not None
    return sorted(str(row["id"]) for row in snapshot.rows())


@contextlib.contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect what is logged, with the tracebacks."""
    said: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(self.format(record))

    handler = Collect()
    logger = logging.getLogger("airflow_provider_analytics")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
