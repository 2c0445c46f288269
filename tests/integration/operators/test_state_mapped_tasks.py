# SPDX-License-Identifier: Apache-2.0
"""Managed lists of mapped tasks, and simultaneous lists on a service with a replica (``reconcile/state.py``)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException
from airflow_versions import allow_execute_in_this_thread
from dag_runs import RunDag
from fake_services import FakeService
from nights import Nights
from reconciling import Night

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.requests import RecordedRequest

A, B, C = "203.0.113.1", "203.0.113.2", "203.0.113.3"
MANY_A = [f"192.0.2.{number}" for number in range(1, 13)]
MANY_B = [f"198.51.100.{number}" for number in range(1, 13)]
ASKS_FOR_A_NAME = "with different entries.*Give each mapped task its own list_name"


def mapped(nights: Nights, run: Callable[..., Any], *parts: Any) -> list[str]:
    """Run a mapped task once, and return the errors of its instances."""
    nights.now = nights.now.replace(day=nights.now.day + 1)
    errors = []
    for number, part in enumerate(parts):
        arguments: dict[str, Any] = {"run_id": f"night {nights.now.day}", "task_id": "sync", "map_index": number}
        try:
            run(part, arguments)
        except AirflowFailException as error:
            errors.append(str(error))
    return errors


@pytest.mark.parametrize(
    ("first", "second"), [([A], [B]), ([A, B], [A]), (MANY_A, MANY_B), ([A], [])], ids=["one", "subset", "many", "none"]
)
def test_mapped_tasks_with_different_entries_ask_for_a_list_name(
    nights: Nights, first: list[str], second: list[str]
) -> None:
    def run(entries: list[str], arguments: dict[str, Any]) -> None:
        nights.sync("shared", *entries, override_guards=["empty_list"], **arguments)

    for _ in range(3):
        [error] = mapped(nights, run, first, second)
        assert "with different entries" in error
        assert "Give each mapped task its own list_name" in error
        assert nights.everywhere() == set(first)


@pytest.mark.parametrize("entries", [([A], [B]), (MANY_A, MANY_B)], ids=["one", "many"])
def test_mapped_tasks_with_their_own_list_names_keep_their_entries(
    nights: Nights, entries: tuple[list[str], list[str]]
) -> None:
    def run(part: tuple[str, list[str]], arguments: dict[str, Any]) -> None:
        nights.sync("shared", *part[1], **{**arguments, "list_name": part[0]})

    for _ in range(3):
        assert mapped(nights, run, ("a", entries[0]), ("b", entries[1])) == []
        assert nights.everywhere() == {*entries[0], *entries[1]}


def test_retry_of_a_mapped_task_can_have_different_entries(nights: Nights) -> None:
    def run(entries: list[str], arguments: dict[str, Any]) -> None:
        nights.sync("shared", *entries, **arguments)

    assert mapped(nights, run, [A]) == []
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
