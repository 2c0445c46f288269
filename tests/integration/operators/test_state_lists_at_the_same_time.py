# SPDX-License-Identifier: Apache-2.0
"""Simultaneous lists, and lists of mapped tasks (``reconcile/state.py``).

A list runs completely before any request of the other list.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowSkipException
from airflow_versions import allow_execute_in_this_thread
from dag_runs import RunDag
from fake_services import FakeService
from nights import Nights
from reconciling import Night

from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import StoppedError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.reconcile.state import ListFile
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.storage import SharedFile

A, B, C, V = "203.0.113.1", "203.0.113.2", "203.0.113.3", "198.51.100.1"
#: A list, and its entries.
Run = tuple[str, ...]
#: A run sends about this many requests.
REQUESTS = range(20)


@contextlib.contextmanager
def before_request(
    service: FakeService, number: int, run: Callable[[], object], *, of: Sequence[str] = ()
) -> Iterator[None]:
    """Start and end a run before the request with this number, from 0, or at the end if there are fewer requests.

    :param of: count only these operations.
    """
    counted, ran = itertools.count(), []

    def here() -> None:
        allow_execute_in_this_thread()
        ran.append(True)
        run()

    async def act(request: RecordedRequest) -> None:
        if (not of or request.operation in of) and next(counted) == number:
            await asyncio.to_thread(here)

    service.meanwhile(act)
    yield
    if not ran:
        run()


@pytest.mark.parametrize("number", REQUESTS)
@pytest.mark.parametrize(
    ("before", "outer", "inner", "left"),
    [
        pytest.param((V,), ("office", A), ("vpn", V, B), {A, B, V}, id="to a list that runs later"),
        pytest.param((V,), ("vpn", V, B), ("office", A), {A, B, V}, id="to a list that runs already"),
        pytest.param((V, B), ("vpn", V), ("office", A), {A, V}, id="out of both lists"),
    ],
)
@pytest.mark.chosen(18)
def test_address_that_moves_to_another_list_remains(
    analytics_sandbox: FakeService, nights: Nights, before: Run, outer: Run, inner: Run, left: set[str], number: int
) -> None:
    nights.sync("office", A, B)
    nights.sync("vpn", *before)
    with before_request(analytics_sandbox, number, lambda: nights.sync(*inner)):
        nights.sync(*outer)
    assert nights.everywhere() == left


@pytest.mark.parametrize("number", range(2))
def test_entry_that_two_lists_drop_at_the_same_time_is_removed(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The other list runs directly before this one announces its entries, or writes its table."""
    nights.sync("office", A, B)
    nights.sync("vpn", V, B)
    counted, write = itertools.count(), SharedFile.write

    def overtaken(file: SharedFile, text: str) -> bool:
        if file.place.name == "vpn.json" and next(counted) == number:
            nights.sync("office", A)
        return write(file, text)

    monkeypatch.setattr(SharedFile, "write", overtaken)
    nights.sync("vpn", V)
    assert next(counted) == 2
    assert nights.everywhere() == {A, V}


@pytest.mark.parametrize("number", range(4))
def test_list_keeps_a_recently_removed_entry_that_another_list_adds(
    analytics_sandbox: FakeService, nights: Nights, number: int
) -> None:
    nights.sync("vpn", V, B)
    nights.sync("vpn", V)
    # Not between a read and its update: this overwrites the lines of the other list, whose run reads them a second
    # later.
    with before_request(analytics_sandbox, number, lambda: nights.sync("office", A, B), of=["account", "list"]):
        nights.sync("vpn", V, C)
    assert nights.everywhere() == {A, B, C, V}


@pytest.mark.chosen(7)
@pytest.mark.parametrize("number", REQUESTS[1:])
def test_run_fails_if_a_later_run_of_the_list_overtook_it(
    analytics_sandbox: FakeService, nights: Nights, number: int
) -> None:
    nights.sync("office", A)
    overtook = []

    def later() -> None:
        overtook.append(True)
        nights.sync("office", A, C)

    # It might end before the later run starts.
    with before_request(analytics_sandbox, number, later), contextlib.suppress(StoppedError, AirflowSkipException):
        nights.sync("office", A, B)
        assert not overtook, "a later run ended before, and what it did may be undone"
    analytics_sandbox.meanwhile(lambda _: None)
    nights.sync("office", A, C)
    assert nights.everywhere() == {A, C}


def test_fields_that_list_rows_omit_are_fetched_again_after_another_list(
    analytics_sandbox: FakeService, nights: Nights
) -> None:
    """In the second plan of a run, the client knows the fields of single records, which rows do not have."""
    analytics_sandbox.configure(list_hides=["exclude_ips"])
    nights.sync("office", A)
    nights.sync("vpn", V)
    result = nights.sync("vpn", V)
    assert [result[name] for name in ("updates", "entries_added", "unchanged")] == [0, 0, 3]
    assert nights.everywhere() == {A, V}


def test_address_that_moves_while_the_other_list_is_applied_remains(
    analytics_sandbox: FakeService, nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removing list is recorded before the other list starts, and ends before the other records its removals."""
    nights.sync("office", A, B)
    nights.sync("vpn", V)
    has_read, ended, write = threading.Event(), threading.Event(), ListFile.write

    def held(file: ListFile) -> bool:
        if file.lists.run.task == "vpn":
            has_read.set()
            assert ended.wait(60)
        return write(file)

    def vpn() -> None:
        allow_execute_in_this_thread()
        nights.sync("vpn", V, B)

    def begin() -> None:
        other.start()
        assert has_read.wait(60)

    monkeypatch.setattr(ListFile, "write", held)
    other = threading.Thread(target=vpn)
    with before_request(analytics_sandbox, 0, begin, of=["show"]):
        nights.sync("office", A)
    ended.set()
    other.join()
    assert nights.everywhere() == {A, B, V}


def test_line_of_a_person_that_a_late_update_removes_is_reported(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second plan of the run adds its own entry to a list that lacks the line already."""
    waits = (0.01, 0.02, 0.03, 0.04)
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", waits)

    def wait(transport: Transport, seconds: float, unwanted: threading.Event | None = None) -> None:
        if seconds == sum(waits):
            nights.sandbox.change_website(3, exclude_ips="198.51.100.7")

    nights.sandbox.change_website(3, exclude_ips="203.0.113.9 # Ann")
    nights.sync("vpn", "198.51.100.7")
    monkeypatch.setattr(Transport, "wait", wait)
    result = nights.sync("office", "192.0.2.1")
    assert result["unexpected_changes"] == ["3.example (id 3): exclude_ips lacks 203.0.113.9 # Ann"]
    assert not result["verified"]


@pytest.mark.parametrize("has_changes", [pytest.param(True, id="first run"), pytest.param(False, id="up to date")])
def test_entries_are_added_again_and_audited_after_a_late_update_of_another_list(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, task_log: Callable[[], str], has_changes: bool
) -> None:
    """The other list computed its update before the update of this list, and the service applies it last."""
    office = ("office", "192.0.2.1", "192.0.2.2")
    waits = (0.01, 0.02, 0.03, 0.04)
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", waits)
    late: list[float] = []

    def wait(transport: Transport, seconds: float, unwanted: threading.Event | None = None) -> None:
        if seconds == sum(waits):
            nights.sandbox.change_website(3, exclude_ips="198.51.100.7")
            late.append(seconds)

    monkeypatch.setattr(Transport, "wait", wait)
    nights.sync("vpn", "198.51.100.7")
    if not has_changes:
        nights.sync(*office)
    late.clear()
    result = nights.sync(*office)
    assert len(late) == 1
    assert result["updates"] == sum(result["states"].values()) == (3 if has_changes else 1)
    assert nights.everywhere() == {"192.0.2.1", "192.0.2.2", "198.51.100.7"}
    trails = sorted(nights.folder.rglob("audit/*/*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    assert json.loads(trails[-1].read_text().splitlines()[-1])["domain"] == "3.example"
    assert len(trails) == (2 if has_changes else 3)
    [*_, log] = task_log().split("Reading all websites again")
    assert "is up to date on" not in log


MANY_A = [f"192.0.2.{number}" for number in range(1, 13)]
MANY_B = [f"198.51.100.{number}" for number in range(1, 13)]


def mapped(nights: Nights, *parts: list[str], **each: Sequence[Any]) -> list[str]:
    """Run a mapped task once with these entries of its instances; return their errors.

    :param each: other arguments, with a value for each instance.
    """
    nights.now = nights.now.replace(day=nights.now.day + 1)
    errors = []
    for number, entries in enumerate(parts):
        arguments: dict[str, Any] = {"run_id": f"night {nights.now.day}", "task_id": "sync", "map_index": number}
        arguments |= {name: values[number] for name, values in each.items()}
        try:
            nights.sync("shared", *entries, override_guards=["empty_list"], **arguments)
        except AirflowFailException as error:
            errors.append(str(error))
    return errors


@pytest.mark.parametrize(
    ("first", "second"), [([A], [B]), ([A, B], [A]), (MANY_A, MANY_B), ([A], [])], ids=["one", "subset", "many", "none"]
)
def test_mapped_tasks_with_different_entries_ask_for_a_list_name(
    nights: Nights, first: list[str], second: list[str]
) -> None:
    for _ in range(3):
        [error] = mapped(nights, first, second)
        assert "with different entries" in error
        assert "Give each mapped task its own list_name" in error
        assert nights.everywhere() == set(first)


@pytest.mark.parametrize("entries", [([A], [B]), (MANY_A, MANY_B)], ids=["one", "many"])
def test_mapped_tasks_with_their_own_list_names_keep_their_entries(
    nights: Nights, entries: tuple[list[str], list[str]]
) -> None:
    for _ in range(3):
        assert mapped(nights, *entries, list_name=("a", "b")) == []
        assert nights.everywhere() == {*entries[0], *entries[1]}


def test_mapped_tasks_with_equal_entries_share_a_list(nights: Nights) -> None:
    for _ in range(2):
        websites = (["1.example"], ["2.example"], ["3.example"])
        assert mapped(nights, [A, B], [A, B], [A, B], websites=websites) == []
        assert nights.everywhere() == {A, B}


def test_retry_of_a_mapped_task_can_have_different_entries(nights: Nights) -> None:
    assert mapped(nights, [A]) == []
    nights.sync("shared", A, C, run_id=f"night {nights.now.day}", task_id="sync", map_index=0)
    assert nights.everywhere() == {A, C}


@pytest.mark.parametrize("kind", ["sync", "apply"])
def test_mapped_dag_run_with_different_entries_fails_in_one_task(run_dag: RunDag, night: Night, kind: str) -> None:
    night.add(2)
    with DAG(f"mapped_{kind}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        if kind == "sync":
            SyncExcludedIpsOperator.partial(task_id="sync", **night.state).expand(exclude_ips=[[A], [B]])
        else:
            configs = [{"websites": {f"{number}.example": {"exclude_ips": [A]}}} for number in (1, 2)]
            ApplyWebsitesOperator.partial(task_id="sync", **night.state).expand(config=configs)
    outcome = run_dag(dag)
    assert outcome.state == "failed"
    assert {entry for entries in night.lists() for entry in (entries or "").split()} in ({A}, {B})


@pytest.mark.slow
@pytest.mark.chosen(1)
@pytest.mark.parametrize("update", [1, 3, 10, 20, 30])
def test_simultaneous_lists_keep_all_entries_behind_a_replica(
    analytics_sandbox: FakeService, nights: Nights, monkeypatch: pytest.MonkeyPatch, update: int
) -> None:
    """The second list starts with an update of the first list, and fetches websites that do not contain it yet."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0.25, 0.5, 1.0))
    monkeypatch.setattr("airflow_provider_analytics.api.client.SETTLE_SECONDS", 0.5)
    for number in range(4, 31):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1 # Ann")
    analytics_sandbox.configure(seconds_behind=0.5)
    failed: list[Exception] = []

    def run(name: str, *entries: str) -> None:
        allow_execute_in_this_thread()
        try:
            nights.sync(name, *entries)
        except Exception as error:
            failed.append(error)

    second = threading.Thread(target=run, args=("vpn", C))
    updates: list[str] = []

    def begin(request: RecordedRequest) -> None:
        if request.operation == "update":
            updates.append(request.path)
            if len(updates) == update:
                second.start()

    analytics_sandbox.meanwhile(begin)
    run("office", A, B)
    second.join()
    assert failed == []
    missing = {domain: {A, B, C} - entries for domain, entries in nights.lists().items() if not {A, B, C} <= entries}
    assert missing == {}
