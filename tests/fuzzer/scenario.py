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
from fake_services import FakeService, FakeServiceFault, FakeServiceOptions

from airflow_provider_analytics.api.fields import LINE_FIELDS, RECORD_FIELDS
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.sandbox import laravel
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.snapshots.catalog import read_snapshot

LISTS = tuple(LINE_FIELDS)
DEFAULTS: dict[str, Any] = {name: laravel.DEFAULTS[name] for name in RECORD_FIELDS if name != "domain"}
FIELDS = tuple(DEFAULTS)
#: Steps, and how often each of them is drawn.
STEPS = {
    "create": 2, "update": 2, "sync": 4, "apply": 5, "hand": 2, "list": 1, "find": 1, "delete": 1, "drift": 1,
    "snapshot": 1, "compare": 1, "prune": 1, "export": 1,
}  # fmt: skip
#: Steps for a website that is selected by its domain.
SINGLE = ("find", "create", "update", "delete")
#: Websites that a service might damage by storing other values before the second batch with the same problem stops the
#: run (docs/guarantees.md).
MAX_DAMAGED = 15
#: Number of items from which on guards compare the loss, and the largest allowed loss.
GUARDED_FROM, MAX_LOSS = 10, 0.3
#: Maximum number of requests of a task, and of a task for each website.
REQUESTS, REQUESTS_PER_WEBSITE = 150, 30
#: Edits of other users that add or remove a domain.
_DOMAIN_EDITS = ("add", "delete", "rename")
#: Maximum wait of a task in milliseconds while the other task sends its requests.
_LONGEST_TURN = 2000
#: The header of the second connection identifies the requests of the second task.
_CONNECTIONS: dict[str, dict[str, Any]] = {"analytics_default": {}, "second": {"headers": {"X-Task": "second"}}}

Record = dict[str, Any]
Step = dict[str, Any]


#: Headings of docs/guarantees.md.
COMPLETE_LIST = "The website list is complete"
CREATED_ONCE = "A website is created once"
VERIFIED_SUCCESS = "A success is verified"
LIMITED_DAMAGE = "A service that damages values is stopped"
PARALLEL_WORK = "Tasks and people can work at the same time"
DELETED = "A deleted website is gone"
OTHER_CHANGES_KEPT = "Other users' changes are kept"
SAFE_FAILURE = "A failure is safe"
GUARDED = "A suspicious plan is blocked"
NO_SECRETS = "Secrets are not disclosed"
#: Not a guarantee, but a limit of this fuzzer.
REQUEST_LIMIT = "A task sends a limited number of requests"


class ViolationError(AssertionError):
    """A broken guarantee.

    :param guarantee: heading of the guarantee in docs/guarantees.md, or :data:`REQUEST_LIMIT`.
    :param event: the event that breaks the guarantee, as a clause.
    """

    def __init__(self, guarantee: str, event: str) -> None:
        super().__init__(event)
        self.guarantee = guarantee


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
    """The desired state of a website.

    :param fields: field to value; of a list, its entries.
    :param modes: list field to its mode; ``replace`` by default.
    :param delete: whether the website must be deleted.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    delete: bool = False
    #: The task: each has its own managed lists.
    do: str = ""

    def mode(self, name: str) -> str:
        """Return the mode of a list."""
        return self.modes.get(name, "replace")


@dataclass
class DesiredWebsite:
    """The desired state of all websites for a task.

    :param goals: id of an existing website to its desired state.
    :param creations: domain of a new website to its desired state.
    :param guard_finding: the loss for which a guard must stop the task, if any.
    """

    goals: dict[int, Goal] = field(default_factory=dict)
    creations: dict[str, Goal] = field(default_factory=dict)
    guard_finding: str = ""


@dataclass
class Table:
    """The entries of a managed list, as pairs of a scope (``*`` or a domain) and an entry.

    :param known: current and removed entries; kept for longer than the duration of a scenario.
    :param maybe_known: the same, and entries that a failed or killed task might have recorded.
    :param has: current entries, which no other list removes.
    :param maybe_has: the same, and entries that it might have now.
    """

    known: set[tuple[str, str]] = field(default_factory=set)
    maybe_known: set[tuple[str, str]] = field(default_factory=set)
    has: set[tuple[str, str]] = field(default_factory=set)
    maybe_has: set[tuple[str, str]] = field(default_factory=set)

    def note(self, rows: set[tuple[str, str]], *, surely: bool) -> None:
        """Record the entries of a run; ``surely`` if it succeeded."""
        self.maybe_known |= rows
        if surely:
            self.known |= rows
            self.has, self.maybe_has = set(rows), set(rows)
        else:
            self.has &= rows
            self.maybe_has |= rows


@dataclass
class Edit:
    """An edit of another user during a task, when request number ``at`` arrived."""

    at: int
    website_id: int
    do: str
    field: str = ""
    value: Any = None


@dataclass
class Outcome:
    """The end of a task.

    :param results: results of its operators, in their order.
    :param text: the error, with the domains that it names.
    """

    succeeded: bool
    results: list[Any] = field(default_factory=list)
    text: str = ""
    killed: bool = False


class Scenario:
    """A service and its tasks, edits, and faults.

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
        damage: Counter[int] | None = None,
    ) -> None:
        self.sandbox, self.folder, self.dialect, self.tally = sandbox, folder, dialect, tally
        #: Number of damaged websites to the number of tasks that damaged so many.
        self.damage = Counter() if damage is None else damage
        sandbox.reset()
        for number, website in enumerate(websites, 1):
            sandbox.add_website(**website)
            if website.get("privacy") == 2:
                sandbox.change_website(number, password=f"s3cret-page-{number}")
        self._configure(dialect)
        #: List (its name and the field) to its expected table.
        self.tables = {(do, name): Table() for do in ("sync", "apply", "second") for name in LISTS}
        self._runs = 0
        self._start_step()

    # Steps

    def step(self, step: Step) -> None:
        """Run a step, and check its result.

        :raises ViolationError: if a guarantee is broken.
        """
        if step["do"] == "hand":
            for edit in step["edits"]:
                self._edit(edit, 0)
        elif step["do"] == "both":
            self._run_both(step)
        elif not self._task(step).succeeded and step.get("heal"):
            self._configure({})
            retried = self._task({**step, "meanwhile": ()})
            is_excused = any(part in retried.text for part in _MAY_FAIL_AGAIN)
            if not (retried.succeeded or is_excused):
                raise ViolationError(SAFE_FAILURE, f"a retry on a healthy service failed: {retried.text[-3000:]}")
            self._configure(self.dialect)

    def _configure(self, options: Mapping[str, Any]) -> None:
        self.sandbox.configure(**{**dict(FakeServiceOptions()), **options})
        self._extras = dialects.extras(options)

    def _task(self, step: Step) -> Outcome:
        """Run a task, and compare the websites before and after it with its result."""
        self._start_step()
        wanted = self._desired_of(step)
        (outcome,) = self._run([step], step)
        self._check_records(step, wanted, outcome)
        self._check_new_websites(step, wanted, outcome)
        is_guard_missing = wanted.guard_finding and outcome.succeeded and not self.edits
        if is_guard_missing:
            raise ViolationError(GUARDED, f"the task succeeded although a guard must stop it: {wanted.guard_finding}")
        if outcome.succeeded and not self.edits:
            self._check_result(step, outcome.results[-1])
            self._check_second_plan(step, outcome)
        self._update_tables(step, outcome)
        return outcome

    def _check_second_plan(self, step: Step, outcome: Outcome) -> None:
        """Check that a second plan is empty after a verified success."""
        if step["do"] not in ("sync", "apply") or not outcome.results[-1]["verified"]:
            return
        for operator in self._operators({**step, "approved": False, "force": True}, "analytics_default"):
            operator.dry_run = True
            again = self._execute(step, [operator])
            if "IncompleteListError" in again.text:
                return  # the service cannot prove the longer list
            if any(part in again.text for part in _ASKS_A_PERSON):
                return  # the list is empty on all websites now, and the service omits it
            if not again.succeeded:
                raise ViolationError(VERIFIED_SUCCESS, f"a second plan after the success failed: {again.text[-3000:]}")
            if again.results[0]["changes"]:
                raise ViolationError(
                    VERIFIED_SUCCESS, f"a second plan after the success has changes: {again.results[0]['changes']}"
                )

    def _start_step(self) -> None:
        self.before = self._websites()
        self.edits: list[Edit] = []
        #: Requests in the order of their processing; a request might wait after its arrival.
        self._served: list[RecordedRequest] = []

    def _websites(self) -> dict[int, Record]:
        return {website["id"]: website for website in self.sandbox.websites()}

    def _edits_of(self, website_id: int, *names: str) -> list[Edit]:
        """Return the edits of a website; only of the given fields, if any."""
        return [edit for edit in self.edits if edit.website_id == website_id and (not names or edit.field in names)]

    # Simultaneous tasks

    def _run_both(self, step: Step) -> None:
        """Run two tasks at the same time, and compare the websites before and after them with both results."""
        tasks: list[Step] = [step["first"], step["second"]]
        self._start_step()
        wanted = [self._desired_of(task) for task in tasks]
        outcomes = self._run(tasks, step)
        for task in tasks:
            # An entry that a list removes in this step is no longer protected from the other list.
            self._update_tables(task, Outcome(succeeded=False))
        if self._is_correct_service:
            self._check_values_are_kept(wanted)
            if self.dialect in dialects.ORDINARY and not self._is_contradictory(tasks, wanted):
                self._check_both_tasks(wanted, outcomes)
        for task, outcome in zip(tasks, outcomes, strict=True):
            self._update_tables(task, outcome)

    @property
    def _is_correct_service(self) -> bool:
        """Whether the service stores sent values, and returns stored values."""
        return self.dialect.keys().isdisjoint(("updates", "lists_stored", "ignored_fields", "lists_as"))

    def _is_contradictory(self, tasks: Sequence[Step], wanted: Sequence[DesiredWebsite]) -> bool:
        """Whether the goals of both tasks and of the editing person conflict, so that a failure is correct."""
        first, second = wanted
        domains = [_key(item["domain"]) for item in self.before.values()]
        if any(item["domain"] not in domains for task in tasks for item in task.get("of", ())):
            return True
        if first.guard_finding or second.guard_finding or first.creations.keys() & second.creations.keys():
            return True
        if len(set(domains)) < len(domains) or any(edit.do in (*_DOMAIN_EDITS, "restore") for edit in self.edits):
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

    def _check_values_are_kept(self, wanted: Sequence[DesiredWebsite]) -> None:
        """Check that values are lost only by request, and that all new values were requested."""
        for website_id, record in self.before.items():
            goals = [item.goals[website_id] for item in wanted if website_id in item.goals]
            now, domain = self.after.get(website_id), record["domain"]
            if now is None:
                is_asked_for = any(goal.delete for goal in goals) or self._is_deleted(website_id)
                if not is_asked_for:
                    raise ViolationError(PARALLEL_WORK, f"{domain} was deleted without a request")
                continue
            for name in FIELDS:
                values = [goal.fields[name] for goal in goals if name in goal.fields]
                edits = self._edits_of(website_id, name)
                if name not in LISTS:
                    allowed = [record[name], *values, *(edit.value for edit in edits)]
                    if now[name] not in allowed:
                        raise ViolationError(
                            PARALLEL_WORK, f"{domain}: {name} is {now[name]!r}, and allowed were {allowed}"
                        )
                    continue
                was, removed = lines(record[name]), {edit.value for edit in edits if edit.do == "untype"}
                with_field = [goal for goal in goals if name in goal.fields]
                may_be_removed = {
                    line for line in was for goal in with_field if self._may_remove(record, name, goal, line)
                }
                lost = set(was) - removed - may_be_removed - set(lines(now[name]))
                known = {entry(item) for value in (was, *values) for item in value} | {
                    entry(edit.value) for edit in edits
                }
                is_kept = not lost and entries(now[name]) <= known
                if not is_kept:
                    raise ViolationError(
                        PARALLEL_WORK,
                        f"{domain}: {name} was {record[name]!r}, is {now[name]!r}, and requested were {values}",
                    )

    def _is_deleted(self, website_id: int) -> bool:
        """Whether another user deleted a website."""
        return any(edit.do == "delete" for edit in self._edits_of(website_id))

    def _may_remove(self, record: Record, name: str, goal: Goal, line: str) -> bool:
        if entry(line) in {entry(item) for item in goal.fields[name]}:
            return False
        is_owned = goal.mode(name) == "managed" and "#" not in line
        return goal.mode(name) == "replace" or (is_owned and entry(line) in self._owned(name, goal, record)[1])

    def _check_both_tasks(self, wanted: Sequence[DesiredWebsite], outcomes: Sequence[Outcome]) -> None:
        """Check that both tasks succeed with true results, except for later changes of the other task."""
        for number, outcome in enumerate(outcomes):
            goals, others = wanted[number].goals, wanted[1 - number].goals
            is_unknown = "omits" in self.dialect and "its current entries are unknown" in outcome.text
            # Another user deleted websites in an earlier step.
            is_guarded = "of the last run" in outcome.text
            is_right = outcome.succeeded or is_unknown or is_guarded
            is_right = is_right or self._has_unclear_cause(goals, others, outcome)
            if not is_right:
                raise ViolationError(
                    PARALLEL_WORK, f"task {number + 1} failed on an ordinary service: {outcome.text[-3000:]}"
                )
            for website_id, goal in goals.items() if outcome.succeeded else ():
                was, now = self.before[website_id], self.after[website_id]
                for name in goal.fields:
                    is_correct = self._is_applied(website_id, name, goal, was, now)
                    others_lines = name in LISTS and {entry(item) for item in goal.fields[name]} <= entries(now[name])
                    if not (is_correct or others_lines or self._is_overwritten(website_id, number)):
                        raise ViolationError(
                            VERIFIED_SUCCESS,
                            f"task {number + 1} succeeded, but {name} of {was['domain']} is {now[name]!r}, "
                            f"but {goal.fields[name]!r} was requested, and before it was {was[name]!r}",
                        )

    def _has_unclear_cause(self, goals: Mapping[int, Goal], others: Mapping[int, Goal], outcome: Outcome) -> bool:
        """Whether the other task changed values of a website that this task did not send.

        A scenario does not wait, so the other task can still work when the second website decides. With real waits, it
        has ended before (``make two-tasks``).
        """
        if not any(phrase in outcome.text for phrase in _ABOUT_UNSENT_VALUES):
            return False
        for website_id in goals.keys() & others.keys():
            record, goal = self.before[website_id], others[website_id]
            for name in goal.fields.keys() - goals[website_id].fields.keys():
                if name in LISTS:
                    is_changed = any(self._may_remove(record, name, goal, line) for line in lines(record[name]))
                else:
                    is_changed = goal.fields[name] != record[name]
                if is_changed:
                    return True
        return False

    def _is_overwritten(self, website_id: int, number: int) -> bool:
        """Whether the other task changed a website after the last read of this task, or reads are late."""
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

    def _end_delays(self) -> None:
        """Send reads until a service with late reads returns all writes."""
        writes = sum(item.operation in ("create", "update", "delete") for item in self._served)
        headers = {"Authorization": f"Bearer {self.sandbox.api_key}"}
        for _ in range(self.sandbox.options.reads_behind * writes):
            with contextlib.suppress(requests.RequestException):
                requests.get(f"{self.sandbox.url}/api/v1/websites", headers=headers, timeout=60)

    # Desired state

    def _desired_of(self, step: Step) -> DesiredWebsite:
        """Return the desired state of existing and new websites for a task."""
        do, modes = step["do"], _modes(step)
        domains = {number: _key(element["domain"]) for number, element in self.before.items()}
        wanted = {
            domain: Goal(element, modes, do == "delete", _list_of(step))
            for domain, element in _settings_by_domain(step).items()
        }
        reached = {number: domain if domain in wanted else "*" for number, domain in domains.items()}
        goals = {number: wanted[domain] for number, domain in reached.items() if domain in wanted}
        if do == "create" and step["if_exists"] != "update":
            goals = {}
        if do == "apply" and step.get("prune"):
            # A domain that a file cannot contain is never deleted.
            unwanted = []
            for number, domain in domains.items():
                is_allowed = not {":", "/"} & set(domain)
                if is_allowed and domain == self.before[number]["domain"]:
                    unwanted.append(number)
            goals = dict.fromkeys(unwanted, Goal(delete=True)) | goals
        new = {domain: goal for domain, goal in wanted.items() if domain not in domains.values()}
        return DesiredWebsite(goals, new if do in ("create", "apply") else {}, self._finding_of_a_guard(step, goals))

    def _finding_of_a_guard(self, step: Step, goals: Mapping[int, Goal]) -> str:
        if step.get("force") or step["do"] not in ("sync", "apply"):
            return ""
        compared = [(self.before[element], goal) for element, goal in goals.items() if not goal.delete]
        # Websites whose domain a file cannot contain are not compared.
        deleted, websites = len(goals) - len(compared), len(goals)
        counts = [(deleted, websites, f"{deleted} of {websites} websites deleted")]
        # Lists in another form seem to have fewer entries.
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
        """Run a task, or two at the same time, and record the websites afterwards.

        ``meanwhile`` of the step has events at the arrival of request number ``at`` of the first task. ``turns`` has
        pairs: when that request arrives, the second task sends ``count`` requests before the first one continues.
        After the end of the first task, the second one runs freely.
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
        self._end_delays()
        self.after = self._websites()
        ended = [outcomes[number] for number in range(len(tasks))]
        self.tally.update("succeeded" if item.succeeded else "failed" for item in ended)
        self._check_secrets(
            [log.getvalue(), *(f"{json.dumps(item.results, default=str)}{item.text}" for item in ended)]
        )
        websites = len(self.before) + sum(len(_settings_by_domain(task)) for task in tasks)
        most = len(tasks) * REQUESTS + REQUESTS_PER_WEBSITE * websites
        if len(self._served) > most:
            raise ViolationError(REQUEST_LIMIT, f"the service got {len(self._served)} requests for {websites} websites")
        return ended

    def _forked(self, step: Step, operators: Sequence[Any]) -> Outcome:
        """Run a task in a process that can be killed."""
        result_file = self.folder / "result.json"
        result_file.unlink(missing_ok=True)
        self._is_forked = threading.Event()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._child = os.fork()
        if self._child == 0:
            try:
                outcome = self._execute(step, operators)
                result_file.write_text(
                    json.dumps([outcome.succeeded, outcome.results, outcome.text[-20_000:]], default=str)
                )
            finally:
                os._exit(0)
        self._is_forked.set()
        _, status = os.waitpid(self._child, 0)
        return Outcome(succeeded=False, killed=True) if status else Outcome(*json.loads(result_file.read_text()))

    def _execute(self, step: Step, operators: Sequence[Any]) -> Outcome:
        self._runs += 1
        run = {"dag_id": "the_dag", "run_id": f"run {self._runs}", "task_id": step["do"], "map_index": -1}
        is_of_a_run = step["do"] not in ("snapshot", "compare", "prune")  # they need a complete context or none
        context = {"ti": SimpleNamespace(**run, try_number=1)} if is_of_a_run else {}
        allow_execute_in_this_thread()
        results: list[Any] = []
        try:
            for operator in operators:
                if results and step.get("approved"):
                    operator.approved_digest = results[0]["digest"]
                results.append(operator.execute(context))
        except Exception as error:  # every error is a failure
            named = getattr(error, "failures", ())
            return Outcome(False, results, " ".join([*traceback.format_exception(error), *named]))
        return Outcome(True, results)

    def _operators(self, step: Step, connection: str) -> list[Any]:
        """Return the operators of a step in their order, and set up their connection."""
        from sync_operators import SYNC_OPERATORS

        from airflow_provider_analytics.operators import snapshots, websites, websites_as_code

        if step["do"] == "updates":  # like another user
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
            **{f"sync{field}": (kind, many) for field, kind in SYNC_OPERATORS.items()},
            "syncexclude_ips": (SYNC_OPERATORS["exclude_ips"], {**many, "networks": "as_is"}),
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
        """Apply a manual edit of another user: ``{"do": ..., "domain": ..., "field": ..., "value": ...}``."""
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

    # Checks

    def _check_records(self, step: Step, wanted: DesiredWebsite, outcome: Outcome) -> None:
        """Check that a success is true, other users' values are kept, and a failure is safe."""
        damaged: list[str] = []
        for website_id, record in self.before.items():
            goal, now, name = wanted.goals.get(website_id, Goal()), self.after.get(website_id), record["domain"]
            if self._is_unseen_duplicate(website_id, step, outcome):
                goal = Goal()
            edits = self._edits_of(website_id)
            renamed = [edit for edit in edits if edit.do == "rename"]
            if now is None:
                # A prune also deletes a website whose new domain was in the list.
                listed = max(self._numbers("list"), default=0)
                is_pruned = bool(step.get("prune") and renamed) and renamed[-1].at <= listed
                is_other_users_delete = self._is_deleted(website_id) or is_pruned
                if not (goal.delete or is_other_users_delete):
                    raise ViolationError(OTHER_CHANGES_KEPT, f"{name} was deleted without a request")
                is_unseen = (
                    not renamed or is_other_users_delete or any(self._may_be_overwritten(item) for item in renamed)
                )
                if not is_unseen:
                    raise ViolationError(
                        OTHER_CHANGES_KEPT, f"{name} was deleted although it was renamed to {renamed[-1].value}"
                    )
                continue
            is_kept = not goal.delete or not outcome.succeeded or edits or self._reports_deleted(step)
            if not is_kept:
                raise ViolationError(DELETED, f"{name} exists after a successful delete")
            # A website that was missing for a moment might not have been in the list.
            was_missing = any(edit.do in _DOMAIN_EDITS for edit in edits)
            wrong = []
            for item in FIELDS:
                if item in LISTS and self.dialect.get("lists_as") == "null" and "updates" in self.dialect:
                    continue  # a reset cannot be noticed
                is_unchanged = self._is_unchanged(website_id, item, record, now)
                is_applied = item in goal.fields and self._is_applied(website_id, item, goal, record, now)
                must_be_applied = item in goal.fields and outcome.succeeded and not was_missing
                if not (is_applied or (is_unchanged and not must_be_applied)):
                    wrong.append(
                        f"{item}: before {record[item]!r}, wanted {goal.fields.get(item)!r}, now {now[item]!r}"
                    )
            if now["domain"] != (renamed[-1].value if renamed else name):
                wrong.append(f"domain: {now['domain']}")
            if wrong:
                damaged.append(f"{name} ({website_id}): {'; '.join(wrong)}")
                self._check_damage_is_reported(step, record, now, damaged[-1], outcome)
        if damaged:
            self.damage[len(damaged)] += 1
        if damaged and self._is_correct_service:
            raise ViolationError(
                OTHER_CHANGES_KEPT,
                f"websites of a correct service have unexpected values: {damaged}\n{outcome.text[-3000:]}",
            )
        if len(damaged) > MAX_DAMAGED:
            raise ViolationError(
                LIMITED_DAMAGE, f"{len(damaged)} websites have unexpected values: {damaged}\n{outcome.text[-3000:]}"
            )

    def _is_unseen_duplicate(self, website_id: int, step: Step, outcome: Outcome) -> bool:
        """Whether an update by domain found another website of this domain in a search index that is late."""
        is_late = self.dialect.get("search_matches") == "late" and step["do"] == "update"
        if not (is_late and outcome.succeeded):
            return False
        found = outcome.results[-1]["website_id"]
        has_same_domain = self.before[found]["domain"] == self.before[website_id]["domain"]
        return bool(found != website_id and has_same_domain)

    def _check_damage_is_reported(self, step: Step, record: Record, now: Record, damage: str, outcome: Outcome) -> None:
        if now == record and self._not_found(step) > 1:  # one such response is verified
            return
        if outcome.succeeded:
            # The result names the change, whose cause is unknown.
            said = outcome.results[-1].get("unexpected_changes")
            if record["domain"] not in str(said):
                raise ViolationError(
                    VERIFIED_SUCCESS,
                    f"the task succeeded without naming the unexpected values of {damage}; "
                    f"it returned {outcome.results}",
                )
            return
        is_readable = "lists_as" not in self.dialect  # otherwise, the stored value is unknown
        is_restored = all(now[item] == record[item] for item in FIELDS)  # later edits of other users might be lost
        reports_restored = f"{record['domain']} (id {record['id']}): Its values were restored" in outcome.text
        if not (is_restored or not (is_readable and reports_restored)):
            raise ViolationError(
                SAFE_FAILURE, f"the error says that the website was restored, but its values are {damage}"
            )
        is_named = outcome.killed or record["domain"] in outcome.text or str(record["id"]) in outcome.text
        if not is_named:
            raise ViolationError(
                SAFE_FAILURE, f"the task failed, and its error does not name {damage}\n{outcome.text[-3000:]}"
            )

    def _numbers(self, operation: str, domain: str = "") -> list[int]:
        """Return the numbers of the requests of an operation, or only of the creates of a domain."""
        found = [(number, element) for number, element in enumerate(self._served, 1) if element.operation == operation]
        return [
            number for number, element in found if not domain or _key(dict(element.form).get("domain", "")) == domain
        ]

    def _is_unchanged(self, website_id: int, name: str, record: Record, now: Record) -> bool:
        mine = self._edits_of(website_id, name)
        if name not in LISTS:
            return bool(now[name] == (mine[-1].value if mine else record[name])) or (
                now[name] == record[name] and all(self._may_be_overwritten(item) for item in mine)
            )
        typed, removed, kept = self._typed_and_removed(mine)
        found, before = set(lines(now[name])), set(lines(record[name]))
        return (before | kept) - removed <= found <= before | typed

    def _typed_and_removed(self, edits: Sequence[Edit]) -> tuple[set[str], set[str], set[str]]:
        """Return the lines that other users typed, the lines that they removed, and the lines that must be kept."""
        typed, removed = ({edit.value for edit in edits if edit.do == do} for do in ("type", "untype"))
        kept = {edit.value for edit in edits if edit.do == "type" and not self._may_be_overwritten(edit)} - removed
        return typed, removed, kept

    def _not_found(self, step: Step) -> int:
        """Return the number of faults with status 404."""
        return [detail for _, what, *detail in step.get("meanwhile", ()) if what == "fault"].count([{"status": 404}])

    def _reports_deleted(self, step: Step) -> bool:
        """Whether a service that keeps deleted websites returned 404 once: a delete is verified by a single read."""
        return self.dialect.get("deletes") == "keep" and self._not_found(step) > 0

    def _is_applied(self, website_id: int, name: str, goal: Goal, record: Record, now: Record) -> bool:
        mine, value = self._edits_of(website_id, name), goal.fields[name]
        if name not in LISTS:
            return bool(now[name] == value) or any(item.value == now[name] for item in mine)
        found, before, wanted = set(lines(now[name])), set(lines(record[name])), {entry(item) for item in value}
        typed, removed, kept = self._typed_and_removed(mine)
        if not wanted and self._looks_empty(record[name]):
            return True  # another value cannot be noticed
        if not wanted - {entry(item) for item in removed} <= entries(now[name]):
            return False
        if goal.mode(name) == "replace":
            return entries(now[name]) <= wanted | {entry(item) for item in typed | removed}
        gone: set[str] = set()
        may_be_removed: set[str] = set()
        if goal.mode(name) == "managed":
            must_be_removed, may_be_removed = (item - wanted for item in self._owned(name, goal, record))
            # A list that is truncated without a mark looks complete.
            seen = lines((record[name] or "")[:20] if self.dialect.get("lists_as") == "cut" else record[name])
            gone = must_be_removed & {item for item in seen if "#" not in item}
        must = {item for item in before - removed | kept if "#" in item or entry(item) not in may_be_removed}
        allowed = before | typed | {item for item in found if entry(item) in wanted}
        return must <= found <= allowed and not (gone - {entry(item) for item in typed}) & entries(now[name])

    def _looks_empty(self, value: str | None) -> bool:
        """Whether the service returns a list as null, or on a single line that starts with a comment."""
        as_what = self.dialect.get("lists_as")
        return as_what == "null" or (as_what is not None and (value or "").startswith("#"))

    def _may_be_overwritten(self, edit: Edit) -> bool:
        """Whether an edit came between the read and the update of its website, or reads might be late."""
        if self.sandbox.options.reads_behind:
            return True
        following = [
            item.operation for item in self._served[edit.at - 1 :] if item.path.endswith(f"/{edit.website_id}")
        ]
        return following[:1] in (["update"], ["delete"])

    def _check_new_websites(self, step: Step, wanted: DesiredWebsite, outcome: Outcome) -> None:
        """Check that there are no duplicates, and that each new website was requested."""
        by_others = {edit.website_id for edit in self.edits if edit.do in ("add", "rename")}
        new = [
            record for element, record in self.after.items() if element not in self.before and element not in by_others
        ]
        domains = [_plain(record["domain"]) for record in new]
        # A website that another user deletes meanwhile is created again.
        asked = {_plain(item) for item in _settings_by_domain(step)} if step["do"] in ("create", "apply") else set()
        if set(domains) - asked:
            raise ViolationError(CREATED_ONCE, f"websites were created without a request: {new}")
        if len(set(domains)) != len(domains):
            raise ViolationError(
                CREATED_ONCE, f"two websites of the same domain were created: {new}\n{outcome.text[-3000:]}"
            )
        for domain, goal in wanted.creations.items() if outcome.succeeded else ():
            same = [item for item in self.after.values() if _key(item["domain"]) == domain]
            # Websites that exist at the create must be found.
            seen = max([*self._numbers("list"), *self._numbers("create", domain)], default=0)
            late = [edit.website_id for edit in self.edits if edit.do in _DOMAIN_EDITS and edit.at > seen]
            if not (len(same) <= 1 or any(item["id"] in late for item in same)):
                raise ViolationError(CREATED_ONCE, f"the task succeeded with two websites of {domain}: {same}")
            is_there = same or any(edit.do in ("delete", "rename") for edit in self.edits)
            if not is_there:
                raise ViolationError(CREATED_ONCE, f"the task succeeded without a website of {domain}")
            for item in same:
                differing = _differing(item, DEFAULTS | goal.fields) - {
                    edit.field for edit in self._edits_of(item["id"])
                }
                # The result names the change, whose cause is unknown.
                said = outcome.results[-1].get("unexpected_changes") or ()
                named = " ".join(line for line in said if line.startswith(f"{item['domain']} (id {item['id']})"))
                is_named = not self._is_correct_service and all(name in named for name in differing)
                is_correct = not differing or item["id"] in by_others or is_named
                if not is_correct:
                    raise ViolationError(
                        VERIFIED_SUCCESS,
                        f"the task succeeded, but {differing} differ in {item}, and requested were {goal.fields}",
                    )

    def _check_result(self, step: Step, result: Any) -> None:
        """Check the result of a successful task."""
        do, after = step["do"], self.after
        if do in ("list", "snapshot", "export"):
            found = sorted(str(item["id"]) for item in after.values() if not step.get("favorite") or item["favorite"])
            if do == "export":
                listed = sorted(yaml.safe_load((self.folder / "websites.yaml").read_text())["websites"] or ())
                found = sorted(item["domain"] for item in after.values())
                found = [item for item in found if item in listed or not result["omitted"]]  # the result says so
            else:
                snapshot: Any = read_snapshot(str(self.folder / "snapshots"), step["day"]) if do == "snapshot" else None
                listed = sorted(str(item["id"]) for item in (result if do == "list" else snapshot.rows()))
            if listed != found:
                raise ViolationError(COMPLETE_LIST, f"{do} returned {listed}, and the service has {found}")
        elif do == "find":
            found = [str(item["id"]) for item in after.values() if _key(item["domain"]) == step["domain"]]
            if found != [str(result["id"])]:
                raise ViolationError(COMPLETE_LIST, f"the lookup found {result['id']}, and the service has {found}")
        elif do in ("create", "update"):
            shown = after.get(int(result["website_id"]), {"id": 0, "domain": ""})
            if _key(shown["domain"]) != step["domain"]:
                raise ViolationError(VERIFIED_SUCCESS, f"the task returned {result['website_id']}, which is {shown}")
            is_new = shown["id"] not in self.before
            if do == "create" and result["created"] != is_new:
                raise ViolationError(VERIFIED_SUCCESS, f"the task returned created={result['created']}")
            if do == "create" and not result["created"] and step["if_exists"] == "skip":
                differing = _differing(shown, step["settings"])
                cleared = {item for item in LISTS if not step["settings"].get(item) and self._looks_empty(shown[item])}
                is_said = differing - cleared <= set(result["differing"])
                if not is_said:
                    raise ViolationError(
                        VERIFIED_SUCCESS, f"{differing} differ, but the task returned differing={result['differing']}"
                    )
        elif do == "delete":
            is_correct = result["deleted"] == (len(after) < len(self.before)) or self._reports_deleted(step)
            if not is_correct:
                raise ViolationError(DELETED, f"the task returned deleted={result['deleted']}")
        elif do == "drift":
            wanted = self._desired_of({**step, "do": "apply"})
            for element, goal in wanted.goals.items():
                was = self.before[element]
                is_correct = not goal.delete and all(
                    self._is_applied(element, name, goal, was, was) for name in goal.fields
                )
                if not is_correct:
                    raise ViolationError(VERIFIED_SUCCESS, f"the task found no drift, but {was} differs from {goal}")
            if wanted.creations:
                raise ViolationError(
                    VERIFIED_SUCCESS, f"the task found no drift, but {list(wanted.creations)} are missing"
                )
        elif do in ("sync", "apply"):
            changed = sum(self.before.get(item) != after.get(item) for item in {*self.before, *after})
            is_correct = not result["verified"] or result["applied"] == changed
            if not is_correct:
                raise ViolationError(
                    VERIFIED_SUCCESS, f"the task returned applied={result['applied']}, but {changed} websites changed"
                )

    def _check_secrets(self, outputs: Sequence[str]) -> None:
        texts = [*outputs, *(path.read_text(errors="replace") for path in self.folder.rglob("*") if path.is_file())]
        for secret in (self.sandbox.api_key, *self.sandbox.store.passwords()):
            for text in texts:
                before, found, after = text.partition(secret)
                if found:
                    raise ViolationError(
                        NO_SECRETS, f"an output contains a secret: {before[-200:]}{found}{after[:100]}"
                    )

    def _update_tables(self, step: Step, outcome: Outcome) -> None:
        """Update the expected tables of managed lists after a task."""
        modes = _modes(step)
        # An apply with a state folder also records that a list is no longer managed.
        is_noted = "managed" in modes.values() or (
            step["do"] == "apply" and (step.get("audit") or step.get("approved"))
        )
        for name in LISTS if is_noted and step["do"] in ("sync", "apply") else ():
            if step["do"] == "sync" and name != step["field"]:
                continue  # the list of another field belongs to another task
            # Entries of a field that is no longer managed are removed from the table.
            asked = _settings_by_domain(step).items() if modes.get(name) == "managed" else ()
            rows = {(_key(domain), entry(item)) for domain, settings in asked for item in settings.get(name, ())}
            self.tables[_list_of(step), name].note(rows, surely=outcome.succeeded)

    def _owned(self, name: str, goal: Goal, record: Record) -> tuple[set[str], set[str]]:
        """Return the entries that a managed list must remove from a website if they are not desired, and may remove."""
        table = self.tables[goal.do, name]
        scopes = {"*", _key(record["domain"])}
        others = [element for (do, field), element in self.tables.items() if field == name and do != goal.do]
        kept_by_others = {key for other in others for scope, key in other.has if scope in scopes}
        maybe_kept_by_others = {key for other in others for scope, key in other.maybe_has if scope in scopes}
        must = {key for scope, key in table.known if scope in scopes} - maybe_kept_by_others
        may = {key for scope, key in table.maybe_known if scope in scopes} - kept_by_others
        return must, may


def _differing(record: Record, settings: Mapping[str, Any]) -> set[str]:
    """Return the fields of a record that differ from these settings."""
    lists = {name: {entry(line) for line in settings[name] or ()} for name in LISTS if name in settings}
    shown = {name: entries(record[name]) if name in LISTS else record[name] for name in settings}
    return {name for name, value in {**settings, **lists}.items() if shown[name] != value}


def _list_of(step: Step) -> str:
    """Return the name of the managed lists of a step."""
    return str(step.get("list", step["do"]))


def _settings_by_domain(step: Step) -> dict[str, dict[str, Any]]:
    """Return the domains that a step changes (``*``: all) with the requested settings."""
    if step["do"] == "sync":
        return {domain: {step["field"]: step["entries"]} for domain in step["websites"] or ("*",)}
    if step["do"] == "apply":
        return dict(step["config"]["websites"])
    is_change = step["do"] in ("create", "update", "updates", "delete")
    return {item["domain"]: item.get("settings", {}) for item in step.get("of", [step])} if is_change else {}


def _modes(step: Step) -> dict[str, str]:
    """Return the modes of the lists of a step."""
    return {step["field"]: step["mode"]} if step["do"] == "sync" else step.get("config", {}).get("modes", {})


def _key(domain: str) -> str:
    """Return the comparable form of a domain."""
    return domain.lower()


def _plain(domain: str) -> str:
    """Return a domain without additions of a service."""
    return _key(domain).removeprefix("https://").removesuffix("/").removesuffix(":443").removeprefix("www.")


#: Phrases of the errors for websites that lost values which were not sent: the service or another process changed them.
_ABOUT_UNSENT_VALUES = ("Values before: ", "restored and verified", "Values that were not sent changed on all")
#: Error of a list that no record contains: the service omits empty lists, and all are empty. A person adds an entry.
_ASKS_A_PERSON = ("its current entries are unknown",)
#: Errors that need an action of a person first.
_MAY_FAIL_AGAIN = (
    "websites have the domain",  # another user has created the second one
    "already exists, with id",  # if_exists="fail"
    "list both domains in a websites file",  # the first try has stored another spelling
    "If the service writes it so",  # it has stored another spelling of the domain
    "might write the domain in this way",
    "DomainError",
    "If this is intended",  # a guard
    *_ASKS_A_PERSON,
    "Drift",
    "drift",
)
