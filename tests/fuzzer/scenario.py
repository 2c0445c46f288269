# SPDX-License-Identifier: Apache-2.0
"""A scenario of the fuzzer: a service, the tasks, another writer, and the checks after each task."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import signal
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dialects
import requests
import yaml
from airflow_versions import allow_execute_in_this_thread
from fake_services import FakeService, FakeServiceFault

from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.snapshots.catalog import read_snapshot

LISTS = ("exclude_ips", "exclude_params")
DEFAULTS: dict[str, Any] = {"privacy": 0, "email": 0, "exclude_bots": 1, "favorite": False, **dict.fromkeys(LISTS)}
FIELDS = tuple(DEFAULTS)
#: Websites that may be ruined by a service that does not store what is sent: the first, and the second one, which
#: decides whether it is the service.
MAX_RUINED = 2
#: From here on, guards look at how much of it is lost, and how much that may be.
GUARDED_FROM, MAX_LOSS = 10, 0.3
#: Requests that a task may need: some in all, and some for each website.
REQUESTS, REQUESTS_PER_WEBSITE = 150, 30
#: What somebody else does so that a domain comes or goes.
_COMING = ("add", "delete", "rename")
#: Milliseconds for which a task waits at most while the other one makes its requests.
_LONGEST_TURN = 2000
#: The second one tells whose request it is.
_CONNECTIONS: dict[str, dict[str, Any]] = {"analytics_default": {}, "second": {"headers": {"X-Task": "second"}}}

Record = dict[str, Any]
Step = dict[str, Any]


def lines(value: str | None) -> list[str]:
    """Return the lines of a list without blanks around them; an IPv6 address is the same in upper case."""
    return [
        element.lower() if ":" in element else element
        for line in (value or "").split("\n")
        if (element := line.strip())
    ]


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
class DesiredWebsite:
    """What a task wants of the scenario.

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

    :param known: what it has, or had; kept for longer than a scenario lasts.
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
    """How a task ended.

    :param results: of its operators, one after the other.
    :param text: the error, with the domains that it names.
    """

    is_green: bool
    results: list[Any] = field(default_factory=list)
    text: str = ""
    killed: bool = False


class Scenario:
    """One service and all that happens to it.

    :param sandbox: the service; it is reset.
    :param folder: an empty folder for files of the tool.
    """

    def __init__(
        self,
        sandbox: FakeService,
        folder: Path,
        dialect: Mapping[str, Any],
        websites: Sequence[Record],
        tally: Counter[str],
    ) -> None:
        self.sandbox, self.folder, self.dialect, self.tally = sandbox, folder, dialect, tally
        sandbox.reset()
        for number, website in enumerate(websites, 1):
            sandbox.add_website(**website)
            if website.get("privacy") == 2:
                sandbox.change_website(number, password=f"s3cret-page-{number}")
        self._speak(dialect)
        #: List (its name and the field) to its table, as far as the scenario can tell.
        self.tables = {(do, name): Table() for do in ("sync", "apply", "second") for name in LISTS}
        self._runs = 0
        self._begin()

    # Steps

    def step(self, step: Step) -> None:
        """Make one step, and check it.

        :raises AssertionError: if something happened that must never happen.
        """
        if step["do"] == "hand":
            for edit in step["edits"]:
                self._edit(edit, 0)
        elif step["do"] == "both":
            self._both(step)
        elif not self._task(step).is_green and step.get("heal"):
            self._speak({})
            retried = self._task({**step, "meanwhile": ()})
            is_excused = any(part in retried.text for part in _MAY_STAY_RED)
            assert retried.is_green or is_excused, f"a retry on a healthy service is red: {retried.text[-3000:]}"
            self._speak(self.dialect)

    def _speak(self, options: Mapping[str, Any]) -> None:
        self.sandbox.configure(preset="length")
        self.sandbox.configure(**options)
        self._extras = dialects.extras(options)

    def _task(self, step: Step) -> Outcome:
        """Run a task, and compare the scenario before and after it with what the task says."""
        self._begin()
        wanted = self._wanted(step)
        (outcome,) = self._run([step], step)
        self._nothing_lost(step, wanted, outcome)
        self._new_ones(step, wanted, outcome)
        is_let_pass = wanted.refusal and outcome.is_green and not self.edits
        assert not is_let_pass, f"green, although a guard has to refuse it: {wanted.refusal}"
        if outcome.is_green and not self.edits:
            self._told(step, outcome.results[-1])
            self._converged(step, outcome)
        self._learn(step, outcome)
        return outcome

    def _converged(self, step: Step, outcome: Outcome) -> None:
        """After a verified success, a second plan is empty."""
        if step["do"] not in ("sync", "apply") or not outcome.results[-1]["verified"]:
            return
        for operator in self._operators({**step, "approved": False, "force": True}, "analytics_default"):
            operator.dry_run = True
            again = self._execute(step, [operator])
            if "IncompleteListError" in again.text:
                return  # the service cannot prove the longer list that it has now
            assert again.is_green, f"a second plan fails: {again.text[-3000:]}"
            assert not again.results[0]["changes"], f"a second plan has changes: {again.results[0]['changes']}"

    def _begin(self) -> None:
        self.before = self._websites()
        self.edits: list[Edit] = []
        #: Requests in the order in which they are served; one may arrive before that and wait.
        self._served: list[RecordedRequest] = []

    def _websites(self) -> dict[int, Record]:
        return {website["id"]: website for website in self.sandbox.websites()}

    def _edits_of(self, website_id: int, *names: str) -> list[Edit]:
        """Return the edits of a website; of some fields only, if any is named."""
        return [edit for edit in self.edits if edit.website_id == website_id and (not names or edit.field in names)]

    # Two tasks at once

    def _both(self, step: Step) -> None:
        """Run two tasks at the same time, and compare the scenario before and after them with what both say."""
        tasks: list[Step] = [step["first"], step["second"]]
        self._begin()
        wanted = [self._wanted(task) for task in tasks]
        outcomes = self._run(tasks, step)
        for task in tasks:
            # An entry that one list drops in this step is no longer protected from the other one.
            self._learn(task, Outcome(is_green=False))
        if self._is_faithful:
            self._kept_by_both(wanted)
            if self.dialect in dialects.CALM and not self._is_contradictory(tasks, wanted):
                self._both_are_calm(wanted, outcomes)
        for task, outcome in zip(tasks, outcomes, strict=True):
            self._learn(task, outcome)

    @property
    def _is_faithful(self) -> bool:
        """Whether the service stores what is sent, and shows what is stored."""
        return self.dialect.keys().isdisjoint(("updates", "lists_stored", "ignored_fields", "lists_as"))

    def _is_contradictory(self, tasks: Sequence[Step], wanted: Sequence[DesiredWebsite]) -> bool:
        """Whether no service could please both tasks, and the person who edits: then red is right."""
        first, second = wanted
        domains = [_key(item["domain"]) for item in self.before.values()]
        if any(item["domain"] not in domains for task in tasks for item in task.get("of", ())):
            return True
        if first.refusal or second.refusal or first.creations.keys() & second.creations.keys():
            return True
        if len(set(domains)) < len(domains) or any(edit.do in (*_COMING, "restore") for edit in self.edits):
            return True
        for website_id in {*first.goals, *second.goals}:
            element, other = first.goals.get(website_id, Goal()), second.goals.get(website_id, Goal())
            edits = self._edits_of(website_id)
            if element.delete or other.delete or {edit.field for edit in edits} & {*element.fields, *other.fields}:
                return True
            if any(edit.field not in LISTS and edit.value == DEFAULTS[edit.field] for edit in edits):
                return True
            for name in element.fields.keys() & other.fields.keys():
                modes = {element.mode(name), other.mode(name)}
                if modes != {"merge"} if name in LISTS else element.fields[name] != other.fields[name]:
                    return True
        return False

    def _kept_by_both(self, wanted: Sequence[DesiredWebsite]) -> None:
        """Nothing is lost that neither task asks to remove, and nothing is there that nobody wants."""
        for website_id, record in self.before.items():
            wanting = [item.goals[website_id] for item in wanted if website_id in item.goals]
            now, domain = self.after.get(website_id), record["domain"]
            if now is None:
                is_asked_for = any(goal.delete for goal in wanting) or self._is_deleted(website_id)
                assert is_asked_for, f"{domain} was deleted, which nobody asked for"
                continue
            for name in FIELDS:
                values = [goal.fields[name] for goal in wanting if name in goal.fields]
                edits = self._edits_of(website_id, name)
                if name not in LISTS:
                    allowed = [record[name], *values, *(edit.value for edit in edits)]
                    assert now[name] in allowed, f"{domain}: {name} is {now[name]!r}, one of {allowed} was wanted"
                    continue
                was, untyped = lines(record[name]), {edit.value for edit in edits if edit.do == "untype"}
                asking = [goal for goal in wanting if name in goal.fields]
                may_go = {line for line in was for goal in asking if self._may_remove(record, name, goal, line)}
                lost = set(was) - untyped - may_go - set(lines(now[name]))
                known = {entry(item) for value in (was, *values) for item in value} | {
                    entry(edit.value) for edit in edits
                }
                is_kept = not lost and entries(now[name]) <= known
                assert is_kept, f"{domain}: {name} was {record[name]!r}, is {now[name]!r}, wanted {values}"

    def _is_deleted(self, website_id: int) -> bool:
        """Whether somebody else deleted a website."""
        return any(edit.do == "delete" for edit in self._edits_of(website_id))

    def _may_remove(self, record: Record, name: str, goal: Goal, line: str) -> bool:
        if entry(line) in {entry(item) for item in goal.fields[name]}:
            return False
        is_owned = goal.mode(name) == "managed" and "#" not in line
        return goal.mode(name) == "replace" or (is_owned and entry(line) in self._owned(name, goal, record)[1])

    def _both_are_calm(self, wanted: Sequence[DesiredWebsite], outcomes: Sequence[Outcome]) -> None:
        """Both are green, and what they say is true, but for what the other one overwrote after they had looked."""
        for number, outcome in enumerate(outcomes):
            goals, others = wanted[number].goals, wanted[1 - number].goals
            is_unknown = "omits" in self.dialect and "its current entries are unknown" in outcome.text
            is_right = outcome.is_green or is_unknown or self._is_rightly_doubted(goals, others, outcome)
            assert is_right, f"task {number + 1} is red on a calm night: {outcome.text[-3000:]}"
            for website_id, goal in goals.items() if outcome.is_green else ():
                was, now = self.before[website_id], self.after[website_id]
                for name in goal.fields:
                    is_so = self._as_wanted(website_id, name, goal, was, now)
                    others_lines = name in LISTS and {entry(item) for item in goal.fields[name]} <= entries(now[name])
                    assert is_so or others_lines or self._is_overwritten(website_id, number), (
                        f"task {number + 1} is green, but {was['domain']}: {name} is {now[name]!r}, "
                        f"wanted {goal.fields[name]!r}, was {was[name]!r}"
                    )

    def _is_rightly_doubted(self, goals: Mapping[int, Goal], others: Mapping[int, Goal], outcome: Outcome) -> bool:
        """Whether the other task took values away, and no further website could tell whose doing it is."""
        if "Values before: " not in outcome.text or "restored and verified" in outcome.text:
            return False
        for website_id in goals.keys() & others.keys():
            record, goal = self.before[website_id], others[website_id]
            for name in goal.fields.keys() - goals[website_id].fields.keys():
                mine, value = record[name], goal.fields[name]
                is_changed = goal.mode(name) == "replace" and lines(mine) if name in LISTS else value != mine
                if is_changed:
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
        writes = sum(item.operation in ("create", "update", "delete") for item in self._served)
        headers = {"Authorization": f"Bearer {self.sandbox.api_key}"}
        for _ in range(self.sandbox.options.reads_behind * writes):
            with contextlib.suppress(requests.RequestException):
                requests.get(f"{self.sandbox.url}/api/v1/websites", headers=headers, timeout=60)

    # What a task wants

    def _wanted(self, step: Step) -> DesiredWebsite:
        """Return what a task wants of each website and of new ones."""
        do, modes = step["do"], _modes(step)
        domains = {number: _key(element["domain"]) for number, element in self.before.items()}
        wanted = {
            domain: Goal(element, modes, do == "delete", _list_of(step)) for domain, element in _asked(step).items()
        }
        reached = {number: domain if domain in wanted else "*" for number, domain in domains.items()}
        goals = {number: wanted[domain] for number, domain in reached.items() if domain in wanted}
        if do == "create" and step["if_exists"] != "update":
            goals = {}
        if do == "apply" and step.get("prune"):
            # A domain that no file can hold is never deleted.
            unwanted = [element for element, domain in domains.items() if domain == self.before[element]["domain"]]
            goals = dict.fromkeys(unwanted, Goal(delete=True)) | goals
        new = {domain: goal for domain, goal in wanted.items() if domain not in domains.values()}
        return DesiredWebsite(goals, new if do in ("create", "apply") else {}, self._must_be_refused(step, goals))

    def _must_be_refused(self, step: Step, goals: Mapping[int, Goal]) -> str:
        if step.get("force") or step["do"] not in ("sync", "apply"):
            return ""
        compared = [(self.before[element], goal) for element, goal in goals.items() if not goal.delete]
        deleted, websites = len(goals) - len(compared), len(self.before)
        counts = [(deleted, websites, f"{deleted} of {websites} websites deleted")]
        # Lists in another form show fewer entries than they have.
        for name in LISTS if self.dialect.get("lists_as", "lines") in ("lines", "CR LF", "array") else ():
            replaced = [record for record in compared if name in record[1].fields and record[1].mode(name) == "replace"]
            shorter = [len(entries(element[name])) - len(goal.fields[name]) for element, goal in replaced]
            lost, total = (
                sum(max(0, item) for item in shorter),
                sum(len(entries(element[name])) for element, _ in compared),
            )
            counts.append((lost, total, f"{lost} of {total} entries of {name} lost"))
        closed = [goal for element, goal in compared if element["privacy"]]
        opened = sum(goal.fields.get("privacy") == 0 for goal in closed)
        counts.append((opened, len(closed), f"{opened} of {len(closed)} pages opened"))
        return next((why for some, of, why in counts if of >= GUARDED_FROM and some > MAX_LOSS * of), "")

    # Running

    def _run(self, tasks: Sequence[Step], step: Step) -> list[Outcome]:
        """Run a task, or two at the same time, and note the scenario after that.

        ``meanwhile`` of the step has what happens when request number ``at`` of the first task arrives. ``turns`` has
        pairs: when that request arrives, the second task makes ``count`` requests before the first one goes on. When
        the first one has ended, the second one is free.
        """
        turns: dict[int, int] = dict(step.get("turns", ()))
        todo = {int(at): action for at, *action in step.get("meanwhile", ())}
        kills = any(what == "kill" for what, *_ in todo.values())
        operators = [self._operators(*item) for item in zip(tasks, _CONNECTIONS, strict=False)]
        outcomes: dict[int, Outcome] = {}
        made = [0, 0]
        may_make = 0
        is_killed = False
        lost = FakeServiceFault(drop=True, commit=False)

        def run(number: int) -> None:
            make = self._forked if kills else self._execute
            outcomes[number] = make(tasks[number], operators[number])

        second = threading.Thread(target=run, args=(1,))

        async def act(request: RecordedRequest) -> FakeServiceFault | None:
            nonlocal may_make, is_killed
            number = int(request.header("x-task") == "second")
            made[number] += 1
            at = made[number]
            if number:
                while made[1] > may_make and 0 not in outcomes:
                    await asyncio.sleep(0.001)
            elif at in turns:
                may_make = made[1] + turns[at]
                if second.ident is None:
                    second.start()
                for _ in range(_LONGEST_TURN):
                    if made[1] >= may_make or 1 in outcomes:
                        break
                    await asyncio.sleep(0.001)
            self._served.append(request)
            what, *details = ("",) if number else todo.get(at, ("",))
            if what == "hand":
                self._edit(details[0], len(self._served))
            elif what == "fault":
                return FakeServiceFault(**details[0])
            elif what == "stop":
                for operator in operators[0]:
                    operator.on_kill()
            elif what == "kill":
                self._is_forked.wait(10)
                is_killed = True
                os.kill(self._child, signal.SIGKILL)
                return None if details[0] else lost
            return lost if is_killed else None

        self.sandbox.meanwhile(act)
        handler = logging.StreamHandler(log := io.StringIO())
        logger = logging.getLogger("airflow_provider_analytics")
        logger.addHandler(handler)
        try:
            run(0)
            if len(tasks) > 1:
                if second.ident is None:
                    second.start()
                second.join()
        finally:
            logger.removeHandler(handler)
        self.sandbox.meanwhile(lambda request: None)
        self._drain()
        self.after = self._websites()
        ended = [outcomes[number] for number in range(len(tasks))]
        self.tally.update("green" if item.is_green else "red" for item in ended)
        self._no_secret([log.getvalue(), *(f"{json.dumps(item.results, default=str)}{item.text}" for item in ended)])
        websites = len(self.before) + sum(len(_asked(task)) for task in tasks)
        most = len(tasks) * REQUESTS + REQUESTS_PER_WEBSITE * websites
        assert len(self._served) <= most, f"{len(self._served)} requests for {websites} websites"
        return ended

    def _forked(self, step: Step, operators: Sequence[Any]) -> Outcome:
        """Run a task in a process that can be killed."""
        told = self.folder / "told.json"
        told.unlink(missing_ok=True)
        self._is_forked = threading.Event()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._child = os.fork()
        if self._child == 0:
            try:
                outcome = self._execute(step, operators)
                told.write_text(json.dumps([outcome.is_green, outcome.results, outcome.text[-20_000:]], default=str))
            finally:
                os._exit(0)
        self._is_forked.set()
        _, status = os.waitpid(self._child, 0)
        return Outcome(is_green=False, killed=True) if status else Outcome(*json.loads(told.read_text()))

    def _execute(self, step: Step, operators: Sequence[Any]) -> Outcome:
        self._runs += 1
        run = {"dag_id": "the_dag", "run_id": f"run {self._runs}", "task_id": step["do"], "map_index": -1}
        is_of_a_run = step["do"] not in ("snapshot", "compare", "prune")  # they ask for all of a run, or nothing
        context = {"ti": SimpleNamespace(**run, try_number=1)} if is_of_a_run else {}
        allow_execute_in_this_thread()
        results: list[Any] = []
        try:
            for operator in operators:
                if results and step.get("approved"):
                    operator.approved_digest = results[0]["digest"]
                results.append(operator.execute(context))
        except Exception as error:  # every kind of error is red
            named = getattr(error, "failures", ())
            return Outcome(False, results, " ".join([*traceback.format_exception(error), *named]))
        return Outcome(True, results)

    def _operators(self, step: Step, connection: str) -> list[Any]:
        """Return the operators that make a step, one after the other, and set up their connection."""
        from airflow_provider_analytics.operators import exclusions, snapshots, websites, websites_as_code

        if step["do"] == "updates":  # as a colleague runs them
            return [two for item in step["of"] for two in self._operators({"do": "update", **item}, connection)]
        parallel = {"max_retries": 2, "parallel_requests": step.get("parallel_requests", 8)}
        values = json.loads(self.sandbox.connection_json())
        values["extra"] = {**parallel, **self._extras, **_CONNECTIONS[connection]}
        os.environ[f"AIRFLOW_CONN_{connection.upper()}"] = json.dumps(values)
        do, name, modes = step["do"], step.get("field", ""), _modes(step)
        element = {part: step[part] for part in ("domain", "if_exists") if part in step} | step.get("settings", {})
        if "email" in element:
            element["email_reports"] = element.pop("email")
        forced = ["empty_list", "many_deleted", "made_public", "entries_lost"] if step.get("force") else []
        keeps = "managed" in modes.values() or step.get("audit") or step.get("approved")
        state = {"state_path": str(self.folder / "state"), "list_name": _list_of(step)} if keeps else {}
        many = {
            name: step.get("entries"),
            "mode": modes.get(name),
            "override_guards": ["empty_list", "no_match", *forced],
            **state,
        }
        many |= {"websites": step.get("websites")}
        modes = dict.fromkeys(LISTS, "replace") | modes
        file = {"config": {**step.get("config", {}), "modes": modes}, "prune": step.get("prune", False), **state}
        stored = {"base_path": str(self.folder / "snapshots")}
        snapshot = {"partition_date": step.get("day"), "override_guards": list(GUARDS), "on_late": "publish", **stored}
        kinds: dict[str, tuple[Any, dict[str, Any]]] = {
            "list": (websites.ListWebsitesOperator, {"favorite": step.get("favorite")}),
            "find": (websites.GetWebsiteOperator, element),
            "create": (websites.CreateWebsiteOperator, element),
            "update": (websites.UpdateWebsiteOperator, element),
            "delete": (websites.DeleteWebsiteOperator, element),
            "syncexclude_ips": (exclusions.SyncExcludedIpsOperator, {**many, "networks": "as_is"}),
            "syncexclude_params": (exclusions.SyncExcludedParamsOperator, many),
            "plan": (websites_as_code.PlanWebsitesOperator, {**file, "override_guards": forced}),
            "apply": (websites_as_code.ApplyWebsitesOperator, {**file, "override_guards": forced}),
            "drift": (websites_as_code.CheckDriftOperator, file),
            "snapshot": (snapshots.SnapshotWebsitesOperator, snapshot),
            "compare": (snapshots.CompareSnapshotsOperator, stored),
            "prune": (snapshots.PruneSnapshotsOperator, {"keep_days": 2, **stored}),
            "export": (websites_as_code.ExportWebsitesOperator, {"output_path": str(self.folder / "websites.yaml")}),
        }
        chosen = [kinds[kind] for kind in (["plan", "apply"] if step.get("approved") else [do + name])]
        common = {"task_id": do} | ({} if do in ("compare", "prune") else {"analytics_conn_id": connection})
        return [kind(**common, **arguments) for kind, arguments in chosen]

    def _edit(self, edit: Mapping[str, Any], at: int) -> None:
        """Do what somebody else does by hand: ``{"do": ..., "domain": ..., "field": ..., "value": ...}``."""
        do, domain, name, value = edit["do"], edit["domain"], edit.get("field", ""), edit.get("value")
        store = self.sandbox.store
        edited = [website["id"] for website in self.sandbox.websites() if website["domain"] == domain][:1]
        if do == "add":
            is_free = edit.get("twice") or not store.find(domain)
            edited = [self.sandbox.add_website(domain, **edit.get("settings", {}))["id"]] if is_free else []
        elif do == "restore":
            do, edited = "add", [number for number in range(1, 40) if store.restore(number)]
        elif do == "rename" and store.find(edit["value"]):
            return
        for number in edited if do != "add" else ():
            changes = {"domain": value} if do == "rename" else {name: value}
            if do in ("type", "untype"):
                now = lines(self._websites()[number][name])
                if (value in now) == (do == "type"):
                    return
                after = [*now, edit["value"]] if do == "type" else [item for item in now if item != value]
                changes = {name: "\n".join(after) or None}
            if do == "delete":
                store.mark(number)
            else:
                self.sandbox.change_website(number, **changes)
        self.edits += [Edit(at, number, do, name, value) for number in edited]

    # The checks

    def _nothing_lost(self, step: Step, wanted: DesiredWebsite, outcome: Outcome) -> None:
        """Green is true, and nothing of others is lost; red is safe."""
        ruined: list[str] = []
        for website_id, record in self.before.items():
            goal, now, name = wanted.goals.get(website_id, Goal()), self.after.get(website_id), record["domain"]
            edits = self._edits_of(website_id)
            renamed = [edit for edit in edits if edit.do == "rename"]
            if now is None:
                # A prune also deletes a website whose new domain the list showed.
                listed = max(self._numbers("list"), default=0)
                is_pruned = bool(step.get("prune") and renamed) and renamed[-1].at <= listed
                is_by_others = self._is_deleted(website_id) or is_pruned
                assert goal.delete or is_by_others, f"{name} was deleted, which nobody asked for"
                is_unseen = not renamed or is_by_others or any(self._may_be_overwritten(item) for item in renamed)
                assert is_unseen, f"{name} was deleted, although it is {renamed[-1].value} by now"
                continue
            is_kept = not goal.delete or not outcome.is_green or edits or self._says_gone(step)
            assert is_kept, f"{name} is still there after a green delete"
            # What was away for a moment may not have been in the list.
            was_away = any(edit.do in _COMING for edit in edits)
            wrong = []
            for item in FIELDS:
                if item in LISTS and self.dialect.get("lists_as") == "null" and "updates" in self.dialect:
                    continue  # nobody sees what is reset
                as_before = self._as_before(website_id, item, record, now)
                as_wanted = item in goal.fields and self._as_wanted(website_id, item, goal, record, now)
                is_wanted_now = item in goal.fields and outcome.is_green and not was_away
                if not (as_wanted or (as_before and not is_wanted_now)):
                    wrong.append(
                        f"{item}: before {record[item]!r}, wanted {goal.fields.get(item)!r}, now {now[item]!r}"
                    )
            if now["domain"] != (renamed[-1].value if renamed else name):
                wrong.append(f"domain: {now['domain']}")
            if wrong:
                ruined.append(f"{name} ({website_id}): {'; '.join(wrong)}")
                self._ruin_is_told(step, record, now, ruined[-1], outcome)
        assert not (ruined and self._is_faithful), f"ruined by a faithful service: {ruined}\n{outcome.text[-3000:]}"
        assert len(ruined) <= MAX_RUINED, f"{len(ruined)} websites ruined: {ruined}\n{outcome.text[-3000:]}"

    def _ruin_is_told(self, step: Step, record: Record, now: Record, ruin: str, outcome: Outcome) -> None:
        if now == record and self._not_found(step) > 1:  # one such answer is verified
            return
        if outcome.is_green:
            # It says so, and cannot know whose doing it is.
            said = outcome.results[-1].get("unexpected_changes")
            assert record["domain"] in str(said), f"green, but {ruin}; it says {outcome.results}"
            return
        is_shown = "lists_as" not in self.dialect  # else nobody sees what is stored
        is_as_shown = all(now[item] == record[item] for item in FIELDS)  # what others edited since may be lost
        says_back = f"{record['domain']} (id {record['id']}): Its values were restored" in outcome.text
        assert is_as_shown or not (is_shown and says_back), f"it says that it was restored, but {ruin}"
        is_named = outcome.killed or record["domain"] in outcome.text or str(record["id"]) in outcome.text
        assert is_named, f"red, and the error does not name {ruin}\n{outcome.text[-3000:]}"

    def _numbers(self, operation: str, domain: str = "") -> list[int]:
        """Return the numbers of the requests of an operation; of the creates of a domain, if it is named."""
        found = [(number, element) for number, element in enumerate(self._served, 1) if element.operation == operation]
        return [
            number for number, element in found if not domain or _key(dict(element.form).get("domain", "")) == domain
        ]

    def _as_before(self, website_id: int, name: str, record: Record, now: Record) -> bool:
        mine = self._edits_of(website_id, name)
        if name not in LISTS:
            return bool(now[name] == (mine[-1].value if mine else record[name])) or (
                now[name] == record[name] and all(self._may_be_overwritten(item) for item in mine)
            )
        typed, untyped, kept = self._typed(mine)
        there, before = set(lines(now[name])), set(lines(record[name]))
        return (before | kept) - untyped <= there <= before | typed

    def _typed(self, edits: Sequence[Edit]) -> tuple[set[str], set[str], set[str]]:
        """Return the lines that others typed, those that they removed, and those that have to be kept."""
        typed, untyped = ({edit.value for edit in edits if edit.do == do} for do in ("type", "untype"))
        kept = {edit.value for edit in edits if edit.do == "type" and not self._may_be_overwritten(edit)} - untyped
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
            return bool(now[name] == value) or any(item.value == now[name] for item in mine)
        there, before, wanted = set(lines(now[name])), set(lines(record[name])), {entry(item) for item in value}
        typed, untyped, kept = self._typed(mine)
        if not wanted and self._seems_empty(record[name]):
            return True  # nobody can see another one
        if not wanted - {entry(item) for item in untyped} <= entries(now[name]):
            return False
        if goal.mode(name) == "replace":
            return entries(now[name]) <= wanted | {entry(item) for item in typed | untyped}
        gone: set[str] = set()
        may_go: set[str] = set()
        if goal.mode(name) == "managed":
            must_go, may_go = (item - wanted for item in self._owned(name, goal, record))
            # One that is cut without a mark looks whole.
            seen = lines((record[name] or "")[:20] if self.dialect.get("lists_as") == "cut" else record[name])
            gone = must_go & {item for item in seen if "#" not in item}
        must = {item for item in before - untyped | kept if "#" in item or entry(item) not in may_go}
        allowed = before | typed | {item for item in there if entry(item) in wanted}
        return must <= there <= allowed and not (gone - {entry(item) for item in typed}) & entries(now[name])

    def _seems_empty(self, value: str | None) -> bool:
        """Whether the service shows a list as null, or on one line that begins with a comment."""
        as_what = self.dialect.get("lists_as")
        return as_what == "null" or (as_what is not None and (value or "").startswith("#"))

    def _may_be_overwritten(self, edit: Edit) -> bool:
        """Whether an edit came between the show and the update of its website, or reads may not show it."""
        if self.sandbox.options.reads_behind:
            return True
        following = [
            item.operation for item in self._served[edit.at - 1 :] if item.path.endswith(f"/{edit.website_id}")
        ]
        return following[:1] in (["update"], ["delete"])

    def _new_ones(self, step: Step, wanted: DesiredWebsite, outcome: Outcome) -> None:
        """No duplicates, and each new website is one that was asked for."""
        by_others = {edit.website_id for edit in self.edits if edit.do in ("add", "rename")}
        new = [
            record for element, record in self.after.items() if element not in self.before and element not in by_others
        ]
        domains = [_plain(record["domain"]) for record in new]
        # One that somebody deletes meanwhile is created again.
        asked = {_plain(item) for item in _asked(step)} if step["do"] in ("create", "apply") else set()
        assert set(domains) <= asked, f"websites that nobody asked for: {new}"
        assert len(set(domains)) == len(domains), f"two websites of one domain: {new}\n{outcome.text[-3000:]}"
        for domain, goal in wanted.creations.items() if outcome.is_green else ():
            same = [item for item in self.after.values() if _key(item["domain"]) == domain]
            # Whatever is there when it is created has to be seen.
            seen = max([*self._numbers("list"), *self._numbers("create", domain)], default=0)
            late = [edit.website_id for edit in self.edits if edit.do in _COMING and edit.at > seen]
            assert len(same) <= 1 or any(item["id"] in late for item in same), (
                f"green, and two websites of {domain}: {same}"
            )
            is_there = same or any(edit.do in ("delete", "rename") for edit in self.edits)
            assert is_there, f"green, and no website of {domain}"
            for item in same:
                differing = _differing(item, DEFAULTS | goal.fields) - {
                    edit.field for edit in self._edits_of(item["id"])
                }
                is_so = not differing or item["id"] in by_others
                assert is_so, f"green, but {domain}: {differing} of {item}, wanted {goal.fields}"

    def _told(self, step: Step, result: Any) -> None:
        """What a green task tells is what is."""
        do, after = step["do"], self.after
        if do in ("list", "snapshot", "export"):
            there = sorted(str(item["id"]) for item in after.values() if not step.get("favorite") or item["favorite"])
            if do == "export":
                told = sorted(yaml.safe_load((self.folder / "websites.yaml").read_text())["websites"] or ())
                there = sorted(item["domain"] for item in after.values())
                there = [item for item in there if item in told or not result["omitted"]]  # it says so
            else:
                snapshot: Any = read_snapshot(str(self.folder / "snapshots"), step["day"]) if do == "snapshot" else None
                told = sorted(str(item["id"]) for item in (result if do == "list" else snapshot.rows()))
            assert told == there, f"{do} shows {told}, there are {there}"
        elif do == "find":
            found = [str(item["id"]) for item in after.values() if _key(item["domain"]) == step["domain"]]
            assert found == [str(result["id"])], f"found {result['id']}, there are {found}"
        elif do in ("create", "update"):
            shown = after.get(int(result["website_id"]), {"id": 0, "domain": ""})
            assert _key(shown["domain"]) == step["domain"], f"told {result['website_id']}, which is {shown}"
            if do == "create":
                assert result["created"] == (shown["id"] not in self.before), f"created is {result['created']}"
            if do == "create" and not result["created"] and step["if_exists"] == "skip":
                differing = _differing(shown, step["settings"])
                cleared = {item for item in LISTS if not step["settings"].get(item) and self._seems_empty(shown[item])}
                is_said = differing - cleared <= set(result["differing"])
                assert is_said, f"{differing} differ, but it says {result['differing']}"
        elif do == "delete":
            is_so = result["deleted"] == (len(after) < len(self.before)) or self._says_gone(step)
            assert is_so, f"deleted is {result['deleted']}"
        elif do == "drift":
            wanted = self._wanted({**step, "do": "apply"})
            for element, goal in wanted.goals.items():
                was = self.before[element]
                is_so = not goal.delete and all(self._as_wanted(element, name, goal, was, was) for name in goal.fields)
                assert is_so, f"no drift, it says, but {was} differs from {goal}"
            assert not wanted.creations, f"no drift, it says, but {list(wanted.creations)} are not there"
        elif do in ("sync", "apply"):
            changed = sum(self.before.get(item) != after.get(item) for item in {*self.before, *after})
            is_so = not result["verified"] or result["applied"] == changed
            assert is_so, f"it says that {result['applied']} websites were changed; these are {changed}"

    def _no_secret(self, told: Sequence[str]) -> None:
        texts = [*told, *(path.read_text(errors="replace") for path in self.folder.rglob("*") if path.is_file())]
        for secret in (self.sandbox.api_key, *self.sandbox.store.passwords()):
            for text in texts:
                before, found, after = text.partition(secret)
                assert not found, f"a secret in an output: {before[-200:]}{found}{after[:100]}"

    def _learn(self, step: Step, outcome: Outcome) -> None:
        """Note what the tables of managed lists have after a task."""
        modes = _modes(step)
        # An apply with a state folder also notes that a list is no longer managed.
        is_noted = "managed" in modes.values() or (
            step["do"] == "apply" and (step.get("audit") or step.get("approved"))
        )
        for name in LISTS if is_noted and step["do"] in ("sync", "apply") else ():
            if step["do"] == "sync" and name != step["field"]:
                continue  # the list of another field is another task
            # What the list had of a field that it manages no more has left.
            asked = _asked(step).items() if modes.get(name) == "managed" else ()
            rows = {(_key(domain), entry(item)) for domain, settings in asked for item in settings.get(name, ())}
            self.tables[_list_of(step), name].note(rows, surely=outcome.is_green)

    def _owned(self, name: str, goal: Goal, record: Record) -> tuple[set[str], set[str]]:
        """Return the entries that a managed list has to remove from a website unless it wants them, and may remove."""
        table = self.tables[goal.do, name]
        scopes = {"*", _key(record["domain"])}
        others = [element for (do, field), element in self.tables.items() if field == name and do != goal.do]
        spared = {key for other in others for scope, key in other.has if scope in scopes}
        maybe_spared = {key for other in others for scope, key in other.maybe_has if scope in scopes}
        must = {key for scope, key in table.known if scope in scopes} - maybe_spared
        may = {key for scope, key in table.maybe_known if scope in scopes} - spared
        return must, may


def _differing(record: Record, settings: Mapping[str, Any]) -> set[str]:
    """Return the fields of a record that are not as in these settings."""
    lists = {name: {entry(line) for line in settings[name] or ()} for name in LISTS if name in settings}
    shown = {name: entries(record[name]) if name in LISTS else record[name] for name in settings}
    return {name for name, value in {**settings, **lists}.items() if shown[name] != value}


def _list_of(step: Step) -> str:
    """Return the name of the managed lists of a step."""
    return str(step.get("list", step["do"]))


def _asked(step: Step) -> dict[str, dict[str, Any]]:
    """Return the domains that a step is to change (``*``: all) with the settings that it asks for."""
    if step["do"] == "sync":
        return {domain: {step["field"]: step["entries"]} for domain in step["websites"] or ("*",)}
    if step["do"] == "apply":
        return dict(step["config"]["websites"])
    is_change = step["do"] in ("create", "update", "updates", "delete")
    return {item["domain"]: item.get("settings", {}) for item in step.get("of", [step])} if is_change else {}


def _modes(step: Step) -> dict[str, str]:
    """Return how a step reconciles lists."""
    return {step["field"]: step["mode"]} if step["do"] == "sync" else step.get("config", {}).get("modes", {})


def _key(domain: str) -> str:
    """Return a domain as it is compared."""
    return domain.lower()


def _plain(domain: str) -> str:
    """Return a domain without all that a service may put around it."""
    return _key(domain).removeprefix("https://").removesuffix("/").removesuffix(":443").removeprefix("www.")


#: Errors after which a person has to do something first.
_MAY_STAY_RED = (
    "websites have the domain",  # somebody else has made the second one
    "already exists, with id",  # if_exists="fail"
    "create this one with the hook",  # the first try has stored another spelling
    "If the service writes it so",  # it has stored another spelling of the domain
    "may write the domain in this way",
    "DomainError",
    "If this is intended",  # a guard
    "its current entries are unknown",  # the service omits empty lists, and all are empty
    "Drift",
    "drift",
)
