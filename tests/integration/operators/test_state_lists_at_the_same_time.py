# SPDX-License-Identifier: Apache-2.0
"""Simultaneous lists: a list runs completely before any request of the other list (``reconcile/state.py``)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow_versions import allow_execute_in_this_thread
from fake_services import FakeService
from nights import Nights

from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import StoppedError
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
    assert "is up to date on all of" not in task_log()
