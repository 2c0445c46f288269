# SPDX-License-Identifier: Apache-2.0
"""The state folder: tables of lists, plans, audit trails, and the last seen websites, by service and account."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import msgspec

from airflow_provider_analytics.exceptions import GuardError, StoppedError, StorageError
from airflow_provider_analytics.guards import website_keys
from airflow_provider_analytics.hooks.object_storage import storage_path
from airflow_provider_analytics.operators.base import skipped
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.reconcile.desired.list_lines import now
from airflow_provider_analytics.reconcile.desired.tables import Identity, ListTables, Run, Table, digest_of
from airflow_provider_analytics.reconcile.plan.plan import Plan
from airflow_provider_analytics.reconcile.plan.plan_markdown import to_markdown
from airflow_provider_analytics.storage import (
    PRIVATE,
    SharedFile,
    check_state,
    file_errors,
    fitting,
    has_conditional_writes,
    names,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.readable import Redactor
    from airflow_provider_analytics.reconcile.desired.list_lines import Resolution
    from airflow_provider_analytics.reconcile.desired.tables import Rows
    from airflow_provider_analytics.reconcile.engine import PlanRun
    from airflow_provider_analytics.storage import StoragePath

#: Seconds to wait, at most, before a table that another task has just written is written again.
WRITE_WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)

#: The clocks of the scheduler and of a worker differ by less.
CLOCKS_DIFFER = timedelta(days=1)

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9.-]+")

#: Time before the start of a run in which another list can have started that still changes websites.
OVERLAP = timedelta(hours=1)

log = logging.getLogger(__name__)


def folder_of(state_path: str, service: str, account: str | None) -> StoragePath:
    """Return the folder of a service and an account in the state folder, such as ``stats.example.com-1``.

    Two services can have the same folder, so each file in it has its exact service and account.

    :raises ValueError: if the state folder is not a URL or an absolute path.
    """
    name = _NOT_IN_A_NAME.sub("_", f"{service.partition('://')[2]}-{account or 'account'}")
    state = storage_path(state_path, "state_path")
    return state / fitting(name, state)


class ListFile:
    """The file of a list's table, and the tables of the other lists in the same folder.

    :param folder: folder of the service and the account (:func:`folder_of`).
    :param identity: the list, and its service and account.
    :raises GuardError: if a file in the folder is not a table, or belongs to another service or account.
    """

    def __init__(self, folder: StoragePath, identity: Identity) -> None:
        self._folder, self._identity = folder, identity
        name = quote(identity.list, safe="")
        if name.startswith("."):  # hidden files are not tables
            name = f"%2E{name[1:]}"
        self._file = SharedFile(folder / "lists" / f"{fitting(name, folder)}.json", "state_path")
        #: The table as it was read.
        self.table = self._parse()
        self._others = self._read_others()

    def with_run(self, scopes: Rows, names: Mapping[str, Resolution], context: Context) -> ListTables:
        """Return the tables with this run; the file is written later.

        :param scopes: list field to scope to the entries of this run.
        :param names: host name on the list to its resolution.
        """
        at, ti = now(), context.get("ti")
        # All start dates are from the clock of the scheduler. The clocks of workers differ.
        began = getattr(context.get("dag_run"), "start_date", None) or at
        if ti:
            map_index = getattr(ti, "map_index", -1)
            run = Run(f"{ti.dag_id}/{ti.run_id}", ti.task_id, began, map_index, digest_of(scopes))
        else:  # a command, which does not write the table
            run = Run("", "", began)
        self._raise_if_other_part(run)
        table = self.table.with_run(scopes, names, run, at.date())
        return ListTables(self.table, table, self._others, at.date(), scopes, run)

    def read(self) -> None:
        """Read the table again."""
        self._file.read()
        self.table = self._parse()

    def read_others(self, lists: ListTables) -> None:
        """Read the tables of the other lists again."""
        lists.read_others(self._read_others())

    def write(self, lists: ListTables, *, only_announced: bool = False) -> None:
        """Write the table, unless the file has it already, and then read the tables of the other lists again.

        Because of this order, if two lists are written at the same time, at least one finds the entries of the other.

        :param only_announced: write the entries that the list has, but not that others left it.
        :raises AirflowSkipException: if a later run of this task has written it, so this run is no longer needed.
        :raises GuardError: if another task has written it, or a later run that starts in the future.
        :raises ValueError: if another task of this run has the same list.
        :raises StorageError: if other tasks write the file again and again.
        """
        name = self._identity.list
        if not has_conditional_writes(self._file.place):
            log.warning(
                "The storage of state_path has no conditional writes. If two tasks write the list %r at the same time, "
                "entries that left it can remain on websites. Use storage with conditional writes, or run one task "
                "at a time.",
                name,
            )
        last, run = self.table.run, lists.run
        if last and not _is_same_task(last, run):
            log.warning(
                "The list %r was last run by task %s of DAG %s. If it is another list, give each list its own "
                "list_name. Otherwise, each run removes the entries that the other one added.",
                name,
                last.task,
                _dag_of(last),
            )
        for seconds in WRITE_WAITS:
            if self._is_overtaken(lists):
                self._give_way(run)
            mine = self._merged(lists, only_announced=only_announced)
            if mine is None or self._file.write(mine.render()):
                self.table = mine or self.table
                self.read_others(lists)
                return
            time.sleep(RANDOM.uniform(seconds / 2, seconds))  # spreads the tasks
            self.read()
        raise StorageError(f"Other tasks write the list {name!r} again and again. File: {self._file.place}")

    def raise_if_overtaken(self, lists: ListTables) -> None:
        """Raise :class:`StoppedError` if a later run has written the table meanwhile, with other entries."""
        self.read()
        if self._is_overtaken(lists):
            raise StoppedError(
                self._overtaken(), "That run might have undone changes of this one. The next run makes them again."
            )

    def _give_way(self, run: Run) -> NoReturn:
        """Skip the task, if the later run does its work. A later run of another task has another list.

        :raises AirflowSkipException: if the later run is of the same task.
        :raises GuardError: if it is of another task, or starts in the future.
        """
        later = self.table.run
        if later and _is_same_task(later, run) and later.began - now() < CLOCKS_DIFFER:
            raise skipped(f"{self._overtaken()} No changes were sent.")
        raise GuardError(
            self._overtaken(),
            "No changes were sent. Give each task its own list_name. If that time is in the future, correct the clock, "
            f"and the key began in {self._file.place}.",
        )

    def _is_overtaken(self, lists: ListTables) -> bool:
        run, found = lists.run, self.table.run
        if found is None or found.name == run.name or found.began <= run.began:
            return False
        return replace(self.table, run=run) != self._merged(lists)

    def _overtaken(self) -> str:
        run = self.table.run
        if run is None:
            return ""
        return f"A later run of the list {self._identity.list!r} has started: {run.name} at {run.began}."

    def _merged(self, lists: ListTables, *, only_announced: bool = False) -> Table | None:
        """Return the table to write; None if the file has it already."""
        run, found = lists.run, self.table.run
        is_same_run = found is not None and found.name == run.name
        if found and is_same_run and found.task != run.task:
            raise ValueError(
                f"The tasks {found.task} and {run.task} of this run have the same list {self._identity.list!r}; give "
                "each list its own list_name"
            )
        self._raise_if_other_part(run)
        both = lists.before.with_rows_of(self.table)
        table = both.with_run(lists.scopes, lists.table.names, run, lists.today, only_announced=only_announced)
        is_written = is_same_run and replace(self.table, run=run) == table
        return None if is_written else table

    def _raise_if_other_part(self, run: Run) -> None:
        """Raise :class:`ValueError` if another mapped task of this run has the same list with other entries."""
        found = self.table.run
        if found and found.is_other_part(run):
            raise ValueError(
                f"The mapped tasks {found.map_index} and {run.map_index} of {run.task} have the same list "
                f"{self._identity.list!r} with different entries, so each would remove the entries of the other. Give "
                "each mapped task its own list_name, for example with expand_kwargs([{'list_name': 'office', ...}])"
            )

    def runs_at_the_same_time(self, run: Run) -> bool:
        """Return whether another list might have changed websites during a run, or shortly before it."""
        since = run.began - OVERLAP
        for table in self._read_others():
            if table.run is not None and table.run.began >= since:
                return True
        return False

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


def read_all_tables(state_path: str) -> list[Table]:
    """Return the tables of all lists in a state folder."""
    state = storage_path(state_path, "state_path")
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


def read_last_websites(folder: StoragePath | None, scope: Mapping[str, Any]) -> frozenset[tuple[str, str]] | None:
    """Return the websites of the last successful run; None if they are unknown.

    :param folder: folder of the service and the account (:func:`folder_of`).
    :param scope: the service and the account.
    """
    if folder is None:
        return None
    file = SharedFile(folder / _LAST_WEBSITES, "state_path")
    if file.text is None:
        return None
    try:
        stored = msgspec.json.decode(file.text, type=_LastWebsites)
    except (ValueError, RecursionError) as error:
        log.warning("Not compared with the last run: %s is damaged (%s). This run replaces it.", file.place, error)
        return None
    if (stored.service, stored.account) != (scope["service"], scope["account"]):
        return None
    return stored.websites


def write_last_websites(folder: StoragePath, scope: Mapping[str, Any], planned: PlanRun) -> None:
    """Write the websites of a successful run, without those that it deleted, if it read the complete list."""
    if not planned.websites.complete:
        return
    deleted = {change.website_id for change in planned.plan.changes if change.action == "delete"}
    remaining = [record for record in planned.websites.records if str(record["id"]) not in deleted]
    stored = _LastWebsites(scope["service"], scope["account"], website_keys(remaining))
    text = msgspec.json.encode(stored, order="deterministic").decode()
    write_text(folder / _LAST_WEBSITES, "state_path", text, PRIVATE)


def write_plan(folder: StoragePath, plan: Plan, secrets: Redactor) -> str:
    """Write a plan as JSON and as Markdown, and return the path of the Markdown.

    :param secrets: secrets of the connection.
    :raises GuardError: if any value of the plan contains a secret.
    """
    if secrets.may_be_in(msgspec.json.encode(plan.to_dict())):
        raise GuardError(
            f"The plan contains a secret of the connection, in {_place_of_secret(plan, secrets)}. It was not written.",
            "Remove the value there, and replace the secret.",
        )
    plans = folder / "plans"
    stored = msgspec.convert({"planned_at": datetime.now(UTC).isoformat(), **plan.to_dict()}, _StoredPlan)
    text = msgspec.json.format(msgspec.json.encode(stored), indent=1).decode()
    file = plans / f"{plan.digest}.json"
    check_state(file, text.encode())
    write_text(file, "state_path", f"{text}\n", PRIVATE)
    markdown = plans / f"{plan.digest}.md"
    write_text(markdown, "state_path", to_markdown(plan, is_whole=True), PRIVATE)
    return str(markdown)


def _place_of_secret(plan: Plan, secrets: Redactor) -> str:
    for change in plan.changes:
        if secrets.may_be_in(msgspec.json.encode(change.to_dict())):
            return f"website {change.website}"
    return "its settings"


class _StoredChange(msgspec.Struct, frozen=True):
    """A change in a stored plan.

    :param fields: field to its values before and after.
    """

    action: str
    domain: str
    website_id: str | None
    fields: dict[str, tuple[Any, Any]]


class _StoredPlan(msgspec.Struct, frozen=True):
    """A plan as it is stored."""

    planned_at: str
    digest: str
    scope: dict[str, Any]
    override_guards: list[str]
    changes: list[_StoredChange]


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
        stored = msgspec.json.decode(file.text, type=_StoredPlan)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.place}: this is not a complete plan: {error}. Plan again") from error
    try:
        return Plan.from_dict(msgspec.to_builtins(stored))
    except ValueError as error:
        raise ValueError(f"{file.place}: {error}") from error
