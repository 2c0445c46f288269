"""A world: a service, the tool, somebody else who writes, and an oracle that knows what may be true after each task."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import threading
import traceback
import urllib.request
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dialects

from airflow_provider_analytics.sandbox.faults import Fault
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.sandbox.state import RecordedRequest

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
_MANAGING = ("sync", "apply")
#: What somebody else does so that a domain comes or goes.
_COMING = ("add", "delete", "rename")
#: Tasks that ask for all of a run, or nothing.
_OF_NO_RUN = ("snapshot", "compare", "prune")
PASSWORD = "s3cret-page-{}"

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

    def __init__(
        self, sandbox: SandboxServer, folder: Path, dialect: Mapping[str, Any], websites: Sequence[Record]
    ) -> None:
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
        #: List (task and field) and website id to the entries that it has added, as far as the world can tell.
        self.added: dict[tuple[str, str], dict[int, set[str]]] = {(do, name): {} for do in _MANAGING for name in LISTS}
        #: The same, where a task was red or killed, or a person typed over it: they may be the list's or not.
        self.open: dict[tuple[str, str], dict[int, set[str]]] = {one: {} for one in self.added}
        self.digests: dict[str, str] = {}
        self._log: list[str] = []

    # Steps

    def step(self, step: Step) -> None:
        """Make one step, and hold it to the oracle.

        :raises ViolationError: if something happened that must never happen.
        """
        do = step["do"]
        if do == "hand":
            for edit in step["edits"]:
                self._edit(edit, 0)
            return
        outcome = self._task(step, step.get("meanwhile", ()))
        if not outcome.is_green and step.get("heal"):
            self._speak({})
            retried = self._task(step, ())
            if not retried.is_green and not _may_stay_red(retried):
                raise ViolationError(f"a retry on a healthy service is red: {retried.text[-3000:]}")
            self._speak(self.dialect)

    def _speak(self, options: Mapping[str, Any]) -> None:
        self.sandbox._state.options = type(self.sandbox.options)().changed(options)
        connection = json.loads(self.sandbox.connection_json())
        connection["extra"] = {"max_retries": 2, **dialects.extras(dict(options))}
        os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"] = json.dumps(connection)

    def _task(self, step: Step, meanwhile: Sequence[Any]) -> Outcome:
        """Run a task, and compare the world before and after it with what the task says."""
        before = {one["id"]: one for one in self.sandbox.websites()}
        goals, creations, is_guarded = self._goals(step, before)
        self.edits = []
        self.sandbox.clear_requests()
        outcome = self._run(step, meanwhile)
        self.sandbox._meanwhile(lambda request: None)
        self.sandbox.clear_faults()
        self._requests = self.sandbox.requests
        self._drain()
        after = {one["id"]: one for one in self.sandbox.websites()}
        self.green += outcome.is_green
        self.red += not outcome.is_green
        self._no_secret(outcome)
        self._bounded(before)
        self._nothing_lost(step, before, after, goals, creations, outcome)
        self._guards(outcome, is_guarded)
        self._told(step, before, after, outcome)
        self._learn(before, after, goals, creations, outcome)
        return outcome

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

    def _goals(self, step: Step, before: Mapping[int, Record]) -> tuple[dict[int, Goal], dict[str, Goal], str]:
        """Return what a task wants of each website and of new ones, and why a guard has to refuse it, if one has to."""
        do = step["do"]
        by_domain: dict[str, list[int]] = {}
        for one in before.values():
            by_domain.setdefault(_key(one["domain"]), []).append(one["id"])
        goals: dict[int, Goal] = {}
        creations: dict[str, Goal] = {}
        if do in ("create", "ensure"):
            goal = Goal(dict(step.get("settings", {})))
            ids = by_domain.get(step["domain"], [])
            if not ids:
                creations[step["domain"]] = goal
            elif step.get("if_exists") == "update":
                goals = dict.fromkeys(ids, goal)
        elif do == "update":
            goals = dict.fromkeys(by_domain.get(step["domain"], []), Goal(dict(step["settings"])))
        elif do == "delete":
            goals = dict.fromkeys(by_domain.get(step["domain"], []), Goal(delete=True))
        elif do == "sync":
            chosen = by_domain if step["websites"] is None else step["websites"]
            goal = Goal({step["field"]: step["entries"]}, {step["field"]: step["mode"]}, do="sync")
            goals = {one: goal for domain in chosen for one in by_domain.get(domain, ())}
        elif do == "apply":
            config = step["config"]
            modes = config.get("modes", {})
            for domain, settings in config["websites"].items():
                goal = Goal(dict(settings), modes, do="apply")
                if domain in by_domain:
                    goals |= dict.fromkeys(by_domain[domain], goal)
                else:
                    creations[domain] = goal
            if step.get("prune"):
                # A domain that no file can hold is never deleted.
                goals |= {
                    one: Goal(delete=True)
                    for one, record in before.items()
                    if one not in goals and record["domain"] == _key(record["domain"])
                }
        return goals, creations, self._must_be_refused(step, before, goals)

    def _must_be_refused(self, step: Step, before: Mapping[int, Record], goals: Mapping[int, Goal]) -> str:
        if step.get("force") or step["do"] not in ("sync", "apply"):
            return ""
        deleted = sum(goal.delete for goal in goals.values())
        if len(before) >= GUARDED_FROM and deleted > MAX_LOSS * len(before):
            return f"{deleted} of {len(before)} websites deleted"
        # Lists in another form show fewer entries than they have.
        for name in LISTS if self.dialect.get("lists_as", "lines") in ("lines", "CR LF", "array") else ():
            listed = [(before[one][name], goal) for one, goal in goals.items() if name in goal.fields]
            total = sum(len(entries(before[one][name])) for one, goal in goals.items() if not goal.delete)
            lost = sum(
                max(0, len(entries(value)) - len(goal.fields[name]))
                for value, goal in listed
                if goal.modes.get(name, "replace") == "replace"
            )
            if total >= GUARDED_FROM and lost > MAX_LOSS * total:
                return f"{lost} of {total} entries of {name} lost"
        compared = [(before[one], goal) for one, goal in goals.items() if not goal.delete]
        closed = [goal for one, goal in compared if one["privacy"]]
        opened = sum(goal.fields.get("privacy") == 0 for goal in closed)
        if len(closed) >= GUARDED_FROM and opened > MAX_LOSS * len(closed):
            return f"{opened} of {len(closed)} pages opened"
        return ""

    # Running

    def _run(self, step: Step, meanwhile: Sequence[Any]) -> Outcome:
        task = _make(self, step)
        pid = 0
        lock = threading.Lock()
        count = 0
        todo = {int(at): action for at, *action in meanwhile}
        is_killed = False
        started = threading.Event()

        def act(request: RecordedRequest) -> Fault | None:
            nonlocal count, is_killed
            with lock:
                count += 1
                at = count
            if at not in todo:
                return Fault(drop=True, commit=False) if is_killed else None
            what, *details = todo[at]
            if what == "fault":
                return Fault(**details[0])
            if what == "stop" and hasattr(task, "on_kill"):
                task.on_kill()
            elif what == "kill":
                started.wait(10)
                is_killed = True
                os.kill(pid, signal.SIGKILL)
                return None if details[0] else Fault(drop=True, commit=False)
            elif what == "hand":
                self._edit(details[0], at)
            return None

        self.sandbox._meanwhile(act)
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
        ti = SimpleNamespace(
            dag_id="the_dag", run_id="run", task_id=step["do"], map_index=-1, try_number=1, start_date=None
        )
        with _logged() as self._log:
            try:
                return Outcome(task.execute({} if step["do"] in _OF_NO_RUN else {"ti": ti}))
            except Exception as error:  # every kind of error is red
                return Outcome(error=error, text="".join(traceback.format_exception(error)))

    def _edit(self, edit: Mapping[str, Any], at: int) -> None:
        """Do what somebody else does by hand: ``{"do": ..., "domain": ..., "field": ..., "value": ...}``."""
        do, domain = edit["do"], edit["domain"]
        if do == "add":
            if edit.get("twice") or not self.sandbox._state.store.find(domain):
                website = self.sandbox.add_website(domain, **edit.get("settings", {}))
                self.edits.append(Edit(at, website["id"], "add"))
            return
        if do == "restore":
            for number in range(1, 40):
                if self.sandbox._state.store.restore(number):
                    self.edits.append(Edit(at, number, "add"))
            return
        found = [one for one in self.sandbox.websites() if one["domain"] == domain]
        if not found:
            return
        website = found[0]
        name = edit.get("field", "")
        if do == "delete":
            self.sandbox._state.store.delete(website["id"], mark=True)
        elif do == "rename":
            if self.sandbox._state.store.find(edit["value"]):
                return
            new = (edit["value"], edit["value"], website["id"])
            database = self.sandbox._state.store._connection
            database.execute("UPDATE website SET domain = ?, domain_key = ? WHERE id = ?", new)
            for one, added in self.added.items():  # a ledger knows a website by id and domain
                self.open[one].setdefault(website["id"], set()).update(added.pop(website["id"], ()))
        elif do == "set":
            self.sandbox.change_website(website["id"], **{name: edit["value"]})
        elif do == "type":
            now = lines(website[name])
            if edit["value"] in now:
                return
            self.sandbox.change_website(website["id"], **{name: "\n".join([*now, edit["value"]])})
        elif do == "untype":
            now = lines(website[name])
            if edit["value"] not in now:
                return
            self.sandbox.change_website(
                website["id"], **{name: "\n".join(one for one in now if one != edit["value"]) or None}
            )
        self.edits.append(Edit(at, website["id"], do, name, edit.get("value")))
        if name in LISTS:
            # By typing and removing, a person makes an entry of the list one of nobody.
            key = entry(edit["value"])
            for do in _MANAGING:
                if key in self.added[do, name].get(website["id"], ()):
                    self.added[do, name][website["id"]].discard(key)
                    self.open[do, name].setdefault(website["id"], set()).add(key)

    # The oracle

    def _nothing_lost(
        self,
        step: Step,
        before: Mapping[int, Record],
        after: Mapping[int, Record],
        goals: Mapping[int, Goal],
        creations: Mapping[str, Goal],
        outcome: Outcome,
    ) -> None:
        """Green is true, and nothing of others is lost; red is safe."""
        edited = {edit.website_id for edit in self.edits}
        ruined: list[str] = []
        for website_id, record in before.items():
            goal = goals.get(website_id, Goal())
            now = after.get(website_id)
            name = record["domain"]
            removed = any(one.do == "delete" for one in self.edits if one.website_id == website_id)
            renamed = [one for one in self.edits if one.website_id == website_id and one.do == "rename"]
            if now is None:
                # A prune also deletes a website whose new domain the list showed.
                lists = [number for number, one in enumerate(self._requests, 1) if one.operation == "list"]
                is_pruned = bool(step.get("prune") and renamed) and renamed[-1].at <= max(lists, default=0)
                if not (goal.delete or removed or is_pruned):
                    raise ViolationError(f"{name} was deleted, which nobody asked for")
                may_be = not renamed or removed or is_pruned or any(self._may_be_overwritten(one) for one in renamed)
                if not may_be:
                    raise ViolationError(f"{name} was deleted, although it is {renamed[-1].value} by now")
                continue
            if goal.delete and outcome.is_green and website_id not in edited and not self._says_gone(step):
                raise ViolationError(f"{name} is still there after a green delete")
            # What was away for a moment may not have been in the list.
            was_away = any(one.do in _COMING for one in self.edits if one.website_id == website_id)
            wrong = []
            for one in FIELDS:
                if one in LISTS and self.dialect.get("lists_as") == "null" and "updates" in self.dialect:
                    continue  # nobody sees what is reset
                as_before = self._as_before(website_id, one, record, now)
                as_wanted = one in goal.fields and self._as_wanted(website_id, one, goal, record, now)
                if outcome.is_green and not was_away:
                    problem = not (as_wanted if one in goal.fields else as_before)
                else:
                    problem = not (as_before or as_wanted)
                if problem:
                    wrong.append(f"{one}: before {record[one]!r}, wanted {goal.fields.get(one)!r}, now {now[one]!r}")
            if now["domain"] != (renamed[-1].value if renamed else record["domain"]):
                wrong.append(f"domain: {now['domain']}")
            if wrong:
                ruined.append(f"{name} ({website_id}): {'; '.join(wrong)}")
                if outcome.is_green and edited and name in str(outcome.result.get("besides")):
                    continue  # it says so, and cannot know whose doing it is
                if now == record and self._is_said_to_be_gone(step):
                    continue
                if outcome.is_green:
                    raise ViolationError(f"green, but {ruined[-1]}; it says {outcome.result}")
                is_shown = "lists_as" not in self.dialect  # else nobody sees what is stored
                is_as_shown = all(now[one] == record[one] for one in FIELDS)  # what others edited since may be lost
                if is_shown and not is_as_shown and f"{name} (id {website_id}): It was put back" in outcome.text:
                    raise ViolationError(f"it says that it was put back, but {ruined[-1]}")
                if not outcome.killed and not _names(outcome, record):
                    raise ViolationError(f"red, and the error does not name {ruined[-1]}\n{outcome.text[-3000:]}")
        if ruined and not any(one in self.sandbox.options.model_fields_set for one in UNFAITHFUL):
            raise ViolationError(f"ruined by a faithful service: {ruined}\n{outcome.text[-3000:]}")
        if len(ruined) > MAX_RUINED:
            raise ViolationError(f"{len(ruined)} websites ruined: {ruined}\n{outcome.text[-3000:]}")
        # One that somebody deletes meanwhile is created again.
        wanted = [step["domain"]] if step["do"] == "create" else step.get("config", {}).get("websites", ())
        self._new_ones(before, after, creations, wanted, outcome)

    def _as_before(self, website_id: int, name: str, record: Record, now: Record) -> bool:
        mine = [one for one in self.edits if one.website_id == website_id and one.field == name]
        if name not in LISTS:
            return bool(now[name] == (mine[-1].value if mine else record[name])) or (
                now[name] == record[name] and all(self._may_be_overwritten(one) for one in mine)
            )
        untyped = {one.value for one in mine if one.do == "untype"}
        typed = {one.value for one in mine if one.do == "type"}
        kept = {one.value for one in mine if one.do == "type" and not self._may_be_overwritten(one)} - untyped
        there = set(lines(now[name]))
        return {*lines(record[name]), *kept} - untyped <= there <= {*lines(record[name]), *typed}

    def _is_said_to_be_gone(self, step: Step) -> bool:
        """Whether the service says of a website twice that it is not found: one answer is verified."""
        faults = [details[0] for _, what, *details in step.get("meanwhile", ()) if what == "fault"]
        return faults.count({"status": 404}) > 1

    def _says_gone(self, step: Step) -> bool:
        """Whether a service that keeps what is deleted said once that it is gone: a delete is verified by one read."""
        faults = [details[0] for _, what, *details in step.get("meanwhile", ()) if what == "fault"]
        return self.dialect.get("deletes") == "keep" and {"status": 404} in faults

    def _as_wanted(self, website_id: int, name: str, goal: Goal, record: Record, now: Record) -> bool:
        mine = [one for one in self.edits if one.website_id == website_id and one.field == name]
        value = goal.fields[name]
        if name not in LISTS:
            return bool(now[name] == value) or any(one.value == now[name] for one in mine)
        there = set(lines(now[name]))
        untyped = {one.value for one in mine if one.do == "untype"}
        typed = {one.value for one in mine if one.do == "type"}
        kept = {one.value for one in mine if one.do == "type" and not self._may_be_overwritten(one)} - untyped
        wanted = {entry(one) for one in value}
        if not wanted and self._seems_empty(record[name]):
            return True  # nobody can see another one
        mode = goal.modes.get(name, "replace")
        if not wanted - {entry(one) for one in untyped} <= entries(now[name]):
            return False
        if mode == "replace":
            return entries(now[name]) <= wanted | {entry(one) for one in typed | untyped}
        before = set(lines(record[name]))
        gone: set[str] = set()
        may_go: set[str] = set()
        if mode == "managed":
            owned = self.added[goal.do, name].get(website_id, set())
            gone = owned & self._seen_entries(record[name]) - wanted
            may_go = owned - wanted | self.open[goal.do, name].get(website_id, set())
        must = {one for one in before - untyped | kept if entry(one) not in may_go}
        allowed = before | typed | {one for one in there if entry(one) in wanted}
        return must <= there <= allowed and not (gone - {entry(one) for one in typed}) & entries(now[name])

    def _seems_empty(self, value: str | None) -> bool:
        """Whether the service shows a list as null, or on one line that begins with a comment."""
        as_what = self.dialect.get("lists_as")
        return as_what == "null" or (as_what is not None and (value or "").startswith("#"))

    def _seen_entries(self, value: str | None) -> set[str]:
        """Return the entries that the service shows of a list: one that is cut without a mark looks whole."""
        return entries((value or "")[:20] if self.dialect.get("lists_as") == "cut" else value)

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

    def _new_ones(
        self,
        before: Mapping[int, Record],
        after: Mapping[int, Record],
        creations: Mapping[str, Goal],
        wanted: Iterable[str],
        outcome: Outcome,
    ) -> None:
        """No duplicates, and each new website is one that was asked for."""
        by_others = {edit.website_id for edit in self.edits if edit.do in ("add", "rename")}
        new = [
            record for website_id, record in after.items() if website_id not in before and website_id not in by_others
        ]
        deleted = {edit.website_id for edit in self.edits if edit.do in ("delete", "rename")}
        domains = [_plain(record["domain"]) for record in new]
        for record in new:
            domain = _plain(record["domain"])
            if domain not in {_plain(one) for one in (*creations, *wanted)}:
                raise ViolationError(f"a website that nobody asked for: {record}")
            if domains.count(domain) > 1:
                raise ViolationError(f"two websites of {domain}: {new}\n{outcome.text[-3000:]}")
        if not outcome.is_green:
            return
        lists = [number for number, one in enumerate(self._requests, 1) if one.operation == "list"]
        for domain, goal in creations.items():
            same = [one for one in after.values() if _key(one["domain"]) == domain]
            created = [
                number
                for number, one in enumerate(self._requests, 1)
                if one.operation == "create" and _key(dict(one.form).get("domain", "")) == domain
            ]
            seen = max([*lists, *created], default=0)  # whatever is there when it is created has to be seen
            late = [one.website_id for one in self.edits if one.do in _COMING and one.at > seen]
            if len(same) > 1 and not any(one["id"] in late for one in same):
                raise ViolationError(f"green, and two websites of {domain}: {same}")
            own = [one for one in same if one["id"] not in by_others]
            if not same and not deleted:
                raise ViolationError(f"green, and no website of {domain}")
            for one in own:
                settings = {**DEFAULTS, **goal.fields}
                for name in FIELDS:
                    touched = any(edit.website_id == one["id"] and edit.field == name for edit in self.edits)
                    value = entries(one[name]) if name in LISTS else one[name]
                    right = {entry(line) for line in settings[name] or ()} if name in LISTS else settings[name]
                    if value != right and not touched:
                        raise ViolationError(f"green, but {domain}: {name} is {one[name]!r}, wanted {settings[name]!r}")

    def _guards(self, outcome: Outcome, why: str) -> None:
        if why and outcome.is_green and not self.edits:
            raise ViolationError(f"green, although a guard has to refuse it: {why}")

    def _told(self, step: Step, before: Mapping[int, Record], after: Mapping[int, Record], outcome: Outcome) -> None:
        """What a green task tells is what is."""
        if not outcome.is_green or self.edits:
            return
        result, do = outcome.result, step["do"]
        if do in ("list", "snapshot", "export"):
            there = sorted(str(one["id"]) for one in after.values() if not step.get("favorite") or one["favorite"])
            if do == "list":
                domains = sorted(str(one["id"]) for one in result)
            else:
                domains = _in_file(self, step)
                there = sorted(one["domain"] for one in after.values()) if do == "export" else there
            if do == "export" and result["left_out"]:  # it says so
                there = [one for one in there if one in domains]
            if domains != there:
                raise ViolationError(f"{do} shows {domains}, there are {there}")
        elif do == "find":
            found = [one["id"] for one in after.values() if _key(one["domain"]) == step["domain"]]
            if [str(one) for one in found] != [str(result["id"])]:
                raise ViolationError(f"found {result['id']}, there are {found}")
        elif do in ("create", "ensure", "update"):
            website_id = int(result["website_id"])
            if website_id not in after or _key(after[website_id]["domain"]) != step["domain"]:
                raise ViolationError(f"told {website_id}, which is {after.get(website_id)}")
            if do == "create" and result["created"] != (website_id not in before):
                raise ViolationError(f"created is {result['created']}")
            if do == "create" and not result["created"] and step["if_exists"] == "skip":
                shown = after[website_id]
                names = {
                    name
                    for name, value in step["settings"].items()
                    if (entries(shown[name]) != set(value) if name in LISTS else shown[name] != value)
                    and not (name in LISTS and not value and self._seems_empty(shown[name]))
                }
                if not names <= set(result["differing"]):
                    raise ViolationError(f"{names} differ, but it says {result['differing']}")
        elif do == "delete":
            if result["deleted"] != (len(after) < len(before)) and not self._says_gone(step):
                raise ViolationError(f"deleted is {result['deleted']}")
        elif do == "drift":
            goals, creations, _ = self._goals({**step, "do": "apply"}, before)
            differing = [one for one in goals if not self._is_as_wanted(one, goals[one], before[one])]
            if differing or creations:
                raise ViolationError(f"no drift, it says, but {differing} and {list(creations)} differ")
        elif do in ("sync", "apply"):
            changed = sum(before.get(one) != after.get(one) for one in {*before, *after})
            if result["verified"] and result["applied"] != changed:
                raise ViolationError(f"it says that {result['applied']} websites were changed; these are {changed}")

    def _is_as_wanted(self, website_id: int, goal: Goal, record: Record) -> bool:
        return not goal.delete and all(self._as_wanted(website_id, one, goal, record, record) for one in goal.fields)

    def _no_secret(self, outcome: Outcome) -> None:
        texts = [json.dumps(outcome.result, default=str), outcome.text, *self._log]
        texts += [path.read_text(errors="replace") for path in self.folder.rglob("*") if path.is_file()]
        passwords = [one for one in self.sandbox._state.store.passwords().values() if one]
        for secret in (self.sandbox.api_key, *passwords):
            for text in texts:
                if secret in text:
                    at = text.index(secret)
                    raise ViolationError(f"a secret in an output: {text[max(0, at - 200) : at + 100]}")

    def _bounded(self, before: Mapping[int, Record]) -> None:
        most = REQUESTS + REQUESTS_PER_WEBSITE * len(before)
        if len(self._requests) > most:
            raise ViolationError(f"{len(self._requests)} requests for {len(before)} websites")

    def _learn(
        self,
        before: Mapping[int, Record],
        after: Mapping[int, Record],
        goals: Mapping[int, Goal],
        creations: Mapping[str, Goal],
        outcome: Outcome,
    ) -> None:
        """Note which entries the managed list owns."""
        created = {
            website_id: creations[_key(record["domain"])]
            for website_id, record in after.items()
            if website_id not in before and _key(record["domain"]) in creations
        }
        for website_id, goal in {**goals, **created}.items():
            for name, mode in goal.modes.items():
                if name not in goal.fields or website_id not in after:
                    continue
                wanted = {entry(one) for one in goal.fields[name]}
                added, doubtful = (one[goal.do, name].setdefault(website_id, set()) for one in (self.added, self.open))
                there, was = entries(after[website_id][name]), entries(before.get(website_id, {}).get(name))
                typed = {entry(one.value) for one in self.edits if one.website_id == website_id and one.field == name}
                if mode == "managed":
                    new = (wanted & there) - was
                    if outcome.is_green or outcome.killed:
                        doubtful |= new & typed
                        added |= new - typed
                        # A killed task may have claimed all that it was about to add.
                        doubtful |= wanted - added if outcome.killed else set()
                    else:
                        doubtful |= wanted | added
                        added.clear()
                # What was not seen at a look belongs to somebody else from then on, or is the list's still.
                unseen = added & there - self._seen_entries(after[website_id][name])
                added -= unseen
                doubtful |= unseen
                added &= there
                doubtful &= there | (wanted if not outcome.is_green else set())


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
            "DomainNotFoundError",
            "max_loss_fraction",
            "in a form that is not one entry per line",  # the service had cut an entry
            "Drift",
            "drift",
        )
    )


class _Hook:
    """A task that calls the hook."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def execute(self, context: Any) -> Any:
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook

        with AnalyticsHook() as hook:
            return self._call(hook)


def _make(world: World, step: Step) -> Any:
    """Return the task of a step."""
    from airflow_provider_analytics.operators import exclusions, snapshots, websites, websites_as_code

    do, folder = step["do"], world.folder
    settings = dict(step.get("settings", {}))
    if "email" in settings:
        settings["email_reports"] = bool(settings.pop("email"))
    if "exclude_bots" in settings:
        settings["exclude_bots"] = bool(settings["exclude_bots"])
    if do == "list":
        return websites.ListWebsitesOperator(task_id=do, favorite=step.get("favorite"))
    if do == "find":
        return websites.GetWebsiteOperator(task_id=do, domain=step["domain"])
    if do == "create":
        return websites.CreateWebsiteOperator(
            task_id=do, domain=step["domain"], if_exists=step["if_exists"], **settings
        )
    if do == "update":
        return websites.UpdateWebsiteOperator(task_id=do, domain=step["domain"], **settings)
    if do == "delete":
        return websites.DeleteWebsiteOperator(task_id=do, domain=step["domain"])
    if do == "sync":
        managed = {"ledger_path": str(folder / f"ledger-{step['field']}.json")} if step["mode"] == "managed" else {}
        arguments = {
            "task_id": do,
            "websites": step["websites"],
            "mode": step["mode"],
            "allow_empty": True,
            "allow_no_match": True,
            "force": step.get("force", False),
            "max_workers": step.get("max_workers", 8),
            **managed,
        }
        if step["field"] == "exclude_ips":
            return exclusions.SyncExcludedIpsOperator(exclude_ips=step["entries"], networks="send", **arguments)
        return exclusions.SyncExcludedParamsOperator(exclude_params=step["entries"], **arguments)
    if do in ("apply", "drift"):
        files: dict[str, Any] = {"config": _config(step["config"]), "prune": step.get("prune", False)}
        if "managed" in step["config"].get("modes", {}).values():
            files |= {"ledger_path": str(folder / "ledger-file.json"), "list_name": "file"}
        if do == "drift":
            return websites_as_code.CheckDriftOperator(task_id=do, **files)
        files |= {"force": step.get("force", False), "max_workers": step.get("max_workers", 8)}
        if not step.get("approved"):
            return websites_as_code.ApplyWebsitesOperator(
                task_id=do, audit_path=str(folder / "audit") if step.get("audit") else None, **files
            )
        return _Approved(files, str(folder / "plan.json"))
    if do == "snapshot":
        return snapshots.SnapshotWebsitesOperator(
            task_id=do, base_path=str(folder / "snapshots"), partition_date=step["day"], force=True, late="label"
        )
    if do == "compare":
        return snapshots.CompareSnapshotsOperator(task_id=do, base_path=str(folder / "snapshots"))
    if do == "prune":
        return snapshots.PruneSnapshotsOperator(task_id=do, base_path=str(folder / "snapshots"), keep_days=2)
    if do == "export":
        return websites_as_code.ExportWebsitesOperator(task_id=do, config_path=str(folder / "websites.yaml"))
    raise ValueError(do)


class _Approved:
    """Plan, then apply that very plan."""

    def __init__(self, files: dict[str, Any], plan_path: str) -> None:
        self._files, self._plan_path = files, plan_path
        self._task: Any = None

    def on_kill(self) -> None:
        if self._task is not None:
            self._task.on_kill()

    def execute(self, context: Any) -> Any:
        from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator

        self._task = PlanWebsitesOperator(task_id="plan", plan_path=self._plan_path, overwrite_plan=True, **self._files)
        digest = self._task.execute(context)["digest"]
        content = {name: self._files[name] for name in ("config", "max_workers")}
        self._task = ApplyWebsitesOperator(
            task_id="apply", plan_path=self._plan_path, expected_digest=digest, **content
        )
        return self._task.execute(context)


def _config(config: Mapping[str, Any]) -> dict[str, Any]:
    names = {0: "public", 1: "private"}

    def shown(name: str, value: Any) -> Any:
        if name == "privacy":
            return names[value]
        return bool(value) if name in ("email", "exclude_bots") else value

    return {
        **config,
        "websites": {
            domain: {name: shown(name, value) for name, value in settings.items()}
            for domain, settings in config["websites"].items()
        },
    }


def _in_file(world: World, step: Step) -> list[str]:
    if step["do"] == "export":
        import yaml

        return sorted(yaml.safe_load((world.folder / "websites.yaml").read_text())["websites"] or ())
    from airflow_provider_analytics.snapshots.reader import read_snapshot

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
