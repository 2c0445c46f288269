# SPDX-License-Identifier: Apache-2.0
"""The state folder: tables of lists, plans, and the last seen websites, by service and account."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn
from urllib.parse import quote

import msgspec

from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.api.waiting import ANNOUNCED_FROM
from airflow_provider_analytics.exceptions import GuardError, StoppedError, StorageError
from airflow_provider_analytics.guards import website_keys
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.reconcile.desired.list_lines import Resolution, now
from airflow_provider_analytics.reconcile.desired.tables import Identity, ListTables, Rows, Run, Table, digest_of
from airflow_provider_analytics.reconcile.plan.changes import Plan
from airflow_provider_analytics.reconcile.plan.plan_markdown import to_markdown
from airflow_provider_analytics.storage import (
    PRIVATE,
    SharedFile,
    StoragePath,
    check_state,
    file_errors,
    fitting,
    has_conditional_writes,
    names,
    write_text,
)

#: Seconds to wait, at most, before a table that another task has just written is written again.
WRITE_WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)

#: The clocks of the scheduler and of a worker differ by less.
CLOCKS_DIFFER = timedelta(days=1)

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9.-]+")

#: Time before the start of a run in which another list can have started that still changes websites.
OVERLAP = timedelta(hours=1)

log = logging.getLogger(__name__)


def folder_of(state: StoragePath, service: str, account: str | None) -> StoragePath:
    """Return the folder of a service and an account in the state folder, such as ``stats.example.com-1``.

    Two services can share a folder, so each file in it names its exact service and account.
    """
    name = _NOT_IN_A_NAME.sub("_", f"{service.partition('://')[2]}-{account or 'account'}")
    return state / fitting(name, state)


class NewerRunError(Exception):
    """A later run of the same task has written the list table, so this run is not needed. No changes were sent."""


class ListFile:
    """The file of a list's table, and the tables of the other lists in the same folder.

    :param folder: folder of the service and the account (:func:`folder_of`).
    :param identity: the list, and its service and account.
    :raises GuardError: if the file is not a table, or belongs to another service or account.
    """

    #: The tables with this run; set by :meth:`start_run`.
    lists: ListTables

    def __init__(self, folder: StoragePath, identity: Identity) -> None:
        self._folder, self._identity = folder, identity
        name = quote(identity.list, safe="")
        if name.startswith("."):  # hidden files are not tables
            name = f"%2E{name[1:]}"
        self._file = SharedFile(folder / "lists" / f"{fitting(name, folder)}.json", "state_path")
        #: The table as it was read.
        self.table = self._parse()

    def start_run(self, scopes: Rows, names: Mapping[str, Resolution], context: Mapping[str, Any]) -> None:
        """Add a run to the tables; the file is written later.

        :param scopes: list field to scope to the entries of this run.
        :param names: host name on the list to its resolution.
        :param context: context of the task; empty for a command, which does not write the table.
        :raises GuardError: if another file in the folder is not a table, or belongs to another service or account.
        """
        at, ti = now(), context.get("ti")
        # All start dates are from the clock of the scheduler. The clocks of workers differ.
        began = getattr(context.get("dag_run"), "start_date", None) or at
        run = Run("", "", began)
        if ti:
            map_index = getattr(ti, "map_index", -1)
            run = Run(f"{ti.dag_id}/{ti.run_id}", ti.task_id, began, map_index, digest_of(scopes))
        self._raise_if_other_part(run)
        self.lists = ListTables(self.table, self._read_others(), run, at.date(), scopes, names)

    def read_others(self) -> None:
        """Read the tables of the other lists again."""
        self.lists.read_others(self._read_others())

    def announce(self) -> None:
        """Write the entries of the list, but no removed ones yet: a guard can still block the plan.

        See :meth:`write` for the errors.
        """
        self._write(only_announced=True)

    def write(self) -> bool:
        """Write the table; return whether another list has changed since the tables were read the last time.

        :raises NewerRunError: if a later run of this task has written it, so this run is no longer needed.
        :raises GuardError: if another task has written it, or a later run that starts in the future.
        :raises ValueError: if another task of this run uses the same list.
        :raises StorageError: if other tasks write the file again and again.
        """
        others = [other.rows for other in self.lists.others]
        self._read()
        self._write(only_announced=False)
        return others != [other.rows for other in self.lists.others]

    def _write(self, *, only_announced: bool) -> None:
        """Write the table, unless the file has it already, and then read the tables of the other lists again.

        Because of this order, if two lists are written at the same time, at least one finds the entries of the other.
        """
        self._warn()
        for seconds in WRITE_WAITS:
            if self._is_overtaken():
                self._give_way()
            mine = self._merged(only_announced=only_announced)
            if mine is None or self._file.write(mine.render()):
                self.table = mine or self.table
                self.read_others()
                return
            if seconds > ANNOUNCED_FROM:
                log.info("Waiting up to %g s, because other tasks change the list %r.", seconds, self._identity.list)
            time.sleep(RANDOM.uniform(seconds / 2, seconds))  # spreads the tasks
            self._read()
        name = self._identity.list
        raise StorageError(
            f"Other tasks changed the list {name!r} before each attempt to write it. File: {self._file.place}.",
            "Run fewer tasks of this list at the same time.",
        )

    def _warn(self) -> None:
        """Warn of storage and of arguments with which two tasks can overwrite each other's table."""
        name, last = self._identity.list, self.table.run
        if not has_conditional_writes(self._file.place):
            log.warning(
                "The storage of state_path has no conditional writes. If two tasks write the list %r at the same time, "
                "removed entries can remain on websites. Use storage with conditional writes, or run one task "
                "at a time.",
                name,
            )
        if last and not _is_same_task(last, self.lists.run):
            log.warning(
                "The list %r was last run by task %s of DAG %s. If it is another list, give each list its own "
                "list_name. Otherwise, each run removes the entries that the other one added.",
                name,
                last.task,
                _dag_of(last),
            )

    def raise_if_overtaken(self) -> None:
        """Raise :class:`StoppedError` if a later run has written the table meanwhile, with other entries."""
        self._read()
        if self._is_overtaken():
            raise StoppedError(
                self._overtaken(), "That run might have undone changes of this one. The next run makes them again."
            )

    def runs_at_the_same_time(self) -> bool:
        """Return whether another list might have changed websites during this run, or shortly before it."""
        since = self.lists.run.began - OVERLAP
        for table in self._read_others():
            if table.run is not None and table.run.began >= since:
                return True
        return False

    def _give_way(self) -> NoReturn:
        """Raise an error, because a later run has written the table. A later run of another task has another list."""
        later = self.table.run
        if later and _is_same_task(later, self.lists.run) and later.began - now() < CLOCKS_DIFFER:
            raise NewerRunError(f"{self._overtaken()} No changes were sent.")
        raise GuardError(
            self._overtaken(),
            "No changes were sent. Give each task its own list_name. If that time is in the future, correct the clock "
            f"of the worker, and the value of began in {self._file.place}.",
        )

    def _is_overtaken(self) -> bool:
        run, found = self.lists.run, self.table.run
        if found is None or found.name == run.name or found.began <= run.began:
            return False
        return replace(self.table, run=run) != self._merged()

    def _overtaken(self) -> str:
        run = self.table.run
        if run is None:
            return ""
        return f"A later run of the list {self._identity.list!r} has started: {run.name} at {run.began}."

    def _merged(self, *, only_announced: bool = False) -> Table | None:
        """Return the table to write; None if the file has it already."""
        lists, found = self.lists, self.table.run
        run = lists.run
        is_same_run = found is not None and found.name == run.name
        if found and is_same_run and found.task != run.task:
            raise ValueError(
                f"The tasks {found.task} and {run.task} of this run use the same list {self._identity.list!r}. Give "
                "each list its own list_name"
            )
        self._raise_if_other_part(run)
        both = lists.before.with_rows_of(self.table)
        table = both.with_run(lists.scopes, lists.names, run, lists.today, only_announced=only_announced)
        is_written = is_same_run and replace(self.table, run=run) == table
        return None if is_written else table

    def _raise_if_other_part(self, run: Run) -> None:
        """Raise :class:`ValueError` if another mapped task of this run uses the same list with other entries."""
        found = self.table.run
        if found and found.is_other_part(run):
            raise ValueError(
                f"The mapped tasks {found.map_index} and {run.map_index} of {run.task} use the same list "
                f"{self._identity.list!r} with different entries, so each would remove the entries of the other. Give "
                "each mapped task its own list_name, for example with expand_kwargs([{'list_name': 'office', ...}])"
            )

    def _read(self) -> None:
        self._file.read()
        self.table = self._parse()

    def _read_others(self) -> list[Table]:
        others = []
        for path, table in read_tables(self._folder).items():
            if table.identity.list != self._identity.list:
                others.append(table.checked(replace(self._identity, list=table.identity.list), path))
        return others

    def _parse(self) -> Table:
        if self._file.text is None:
            return Table(self._identity)
        path = str(self._file.place)
        return Table.parse(self._file.text, path).checked(self._identity, path)


def _dag_of(run: Run) -> str:
    return run.name.partition("/")[0]


def _is_same_task(first: Run, other: Run) -> bool:
    return (_dag_of(first), first.task) == (_dag_of(other), other.task)


def read_tables(folder: StoragePath) -> dict[str, Table]:
    """Return the tables of all lists of a service and an account, by their paths."""
    tables = {}
    lists = folder / "lists"
    for name in _names(lists):
        if name.startswith(".") or not name.endswith(".json"):
            continue
        file = SharedFile(lists / name, "state_path")
        if file.text is not None:
            tables[str(file.place)] = Table.parse(file.text, str(file.place))
    return tables


def read_all_tables(state: StoragePath) -> list[Table]:
    """Return the tables of all lists in a state folder."""
    tables: list[Table] = []
    for name in _names(state):
        tables += read_tables(state / name).values()
    return tables


def _names(folder: StoragePath) -> list[str]:
    with file_errors("read", folder, "state_path"):
        return names(folder)


class _LastWebsites(msgspec.Struct, frozen=True):
    """The websites of the last successful run, for the guards ``fewer_websites`` and ``many_created``.

    :param service: base URL of the service.
    :param account: id of the account; None if the account record has none.
    :param websites: id and domain of each website (:func:`guards.website_keys`).
    """

    service: str
    account: str | None
    websites: frozenset[tuple[str, str]]


_LAST_WEBSITES = "last_websites.json"


def read_last_websites(folder: StoragePath, scope: Mapping[str, Any]) -> frozenset[tuple[str, str]] | None:
    """Return the websites of the last successful run; None if there was none.

    :param folder: folder of the service and the account (:func:`folder_of`).
    :param scope: the service and the account.
    :raises ValueError: if the file is damaged, or of another service or account.
    """
    file = SharedFile(folder / _LAST_WEBSITES, "state_path")
    if file.text is None:
        return None
    problem = f"The websites of the last run are unknown, because {file.place}"
    try:
        stored = msgspec.json.decode(file.text, type=_LastWebsites)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{problem} is damaged: {error}.") from error
    if (stored.service, stored.account) != (scope["service"], scope["account"]):
        raise ValueError(
            f"{problem} is of another service or account: {stored.service}, account {stored.account!r}. Here it is "
            f"{scope['service']}, account {scope['account']!r}."
        )
    return stored.websites


def write_last_websites(folder: StoragePath, scope: Mapping[str, Any], plan: Plan, records: Sequence[Record]) -> None:
    """Write the websites of a successful run, without those that it deleted.

    :param records: the complete list.
    """
    deleted = {change.website_id for change in plan.changes if change.action == "delete"}
    remaining = [record for record in records if str(record["id"]) not in deleted]
    stored = _LastWebsites(scope["service"], scope["account"], website_keys(remaining))
    text = msgspec.json.encode(stored, order="deterministic").decode()
    write_text(folder / _LAST_WEBSITES, "state_path", text, PRIVATE)


def write_plan(folder: StoragePath, plan: Plan) -> None:
    """Write a plan as JSON and as Markdown."""
    plans = folder / "plans"
    text = msgspec.json.format(msgspec.json.encode(plan.to_dict()), indent=1).decode()
    file = plans / f"{plan.digest}.json"
    check_state(file, text.encode())
    write_text(file, "state_path", f"{text}\n", PRIVATE)
    write_text(plans / f"{plan.digest}.md", "state_path", to_markdown(plan, is_whole=True), PRIVATE)


def read_plan(folder: StoragePath | None, digest: str) -> Plan | None:
    """Return the plan with a digest; None if there is none.

    :raises ValueError: if the file is not a complete plan, or was edited.
    """
    if folder is None:
        return None
    file = SharedFile(folder / "plans" / f"{digest}.json", "state_path")
    if file.text is None:
        return None
    try:
        data = msgspec.json.decode(file.text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.place}: this is not a complete plan: {error}. Plan again") from error
    try:
        return Plan.from_dict(data)
    except ValueError as error:
        raise ValueError(f"{file.place}: {error}") from error
