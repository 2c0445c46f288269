# SPDX-License-Identifier: Apache-2.0
"""Lists that share a state folder: owned, kept, and rejected entries (``reconcile/state.py``)."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow_versions import allow_execute_in_this_thread
from fixture_types import Execute
from nights import Nights

from airflow_provider_analytics.api.waiting import Stopping
from airflow_provider_analytics.commands import main
from airflow_provider_analytics.exceptions import AnalyticsApiError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.reconcile.desired.tables import Identity, Run, Table
from airflow_provider_analytics.reconcile.state import ListFile
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.storage import StoragePath

OFFICES = ["203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4"]
SHARED, OTHER = "198.51.100.1", "198.51.100.2"
CORP, SHOP = "1.example", ["2.example", "3.example"]


def updates(sandbox: SandboxServer) -> int:
    return [request.operation for request in sandbox.requests].count("update")


def test_sync_keeps_an_address_of_another_list(nights: Nights, task_log: Callable[[], str]) -> None:
    nights.sync("office", SHARED, OTHER, state_path=None)
    nights.sync("office", SHARED, OTHER, "192.0.2.1")
    assert "The list 'office' has no table. Either it runs for the first time: " in task_log()
    first, second = sorted((SHARED, OTHER))
    assert f"Entries: {first} on 3 websites, {second} on 3 websites." in task_log()
    said = task_log().count("has no table")
    nights.sync("office", SHARED, OTHER)
    # No warning about an entry that leaves the list, and is removed.
    assert [task_log().count(text) for text in ("has no table", "Removing entries", "Not removed")] == [said, 0, 0]
    nights.sync("vpn", SHARED)
    nights.sync("office", OTHER)
    assert nights.everywhere() == {SHARED, OTHER}
    assert f"{SHARED} (list 'vpn') on 3 websites" in task_log()
    # When no list has it, it is removed.
    nights.sync("vpn", "198.51.100.9")
    assert nights.everywhere() == {OTHER, "198.51.100.9"}


def test_list_that_could_not_read_the_websites_keeps_its_addresses_on_them(
    nights: Nights, sandbox: SandboxServer
) -> None:
    nights.sync("office", SHARED, OTHER)
    sandbox.fault("list", status=500, times=None)
    with pytest.raises(AnalyticsApiError):
        nights.sync("vpn", SHARED)
    sandbox.clear_faults()
    nights.sync("office", OTHER)
    assert nights.everywhere() == {SHARED, OTHER}


def test_empty_list_needs_an_override_but_the_removal_of_half_the_entries_does_not(nights: Nights) -> None:
    nights.sync("office", *OFFICES[:2])
    assert nights.sync("office", OFFICES[0])["guard_message"] is None
    with pytest.raises(
        AirflowFailException, match=r"(?s)exclude_ips is empty\..*set override_guards=\['empty_list'\] on task office"
    ):
        nights.sync("office")
    assert nights.everywhere() == {OFFICES[0]}
    nights.sync("office", *(f"192.0.2.{number}" for number in range(12)))
    nights.sync("office", override_guards=["empty_list"])
    assert nights.everywhere() == set()
    # In the next night, no further entry can be lost.
    assert nights.sync("office")["guard_message"] is None


@pytest.mark.parametrize("whose", ["office", "vpn"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"account": "other"}, "account is 'other', here it is '1'"),
        ({"rows": 7}, "not a list table"),
        ({"version": 3}, "Upgrade airflow-provider-analytics"),
    ],
)
def test_invalid_table_in_the_folder_is_rejected(
    nights: Nights, wrong: dict[str, Any], message: str, whose: str
) -> None:
    for name in ("office", "vpn"):
        nights.sync(name, *OFFICES)
    path = nights.table(whose)
    path.write_text(json.dumps(json.loads(path.read_text()) | wrong))
    nights.sandbox.clear_requests()
    with pytest.raises(AirflowFailException, match=message) as caught:
        nights.sync("office", OFFICES[0])
    assert f"{whose}.json" in str(caught.value).partition("\nNo changes were sent.")[0]
    assert [request.operation for request in nights.sandbox.requests] == ["account"]


def test_tasks_of_different_lists_need_different_list_names(nights: Nights, task_log: Callable[[], str]) -> None:
    nights.sync("office", *OFFICES, task_id="another")
    nights.sync("office", *OFFICES, run_id="run", task_id="one")
    assert "The list 'office' was last run by task another of DAG the_dag." in task_log()
    with pytest.raises(AirflowFailException, match="tasks one and two of this run use the same list 'office'"):
        nights.sync("office", SHARED, run_id="run", task_id="two")
    assert nights.everywhere() == set(OFFICES)


@pytest.mark.usefixtures("memory")
def test_storage_without_conditional_writes_logs_the_consequence(
    nights: Nights, caplog: pytest.LogCaptureFixture
) -> None:
    nights.sync("office", *OFFICES, state_path=f"memory://{uuid.uuid4().hex}")
    assert "If two tasks write the list 'office' at the same time, removed entries can remain" in caplog.text
    caplog.clear()
    nights.sync("office", *OFFICES)
    assert "conditional" not in caplog.text


@pytest.mark.parametrize("name", ["a" * 250, "ä" * 120])
def test_long_names_of_lists_and_tasks_are_shortened_in_file_names(nights: Nights, name: str) -> None:
    ids = {"task_id": "t" * 250, "run_id": f"asset_triggered__{'r' * 230}"}
    for end, office in zip("xy", OFFICES, strict=False):
        nights.sync(name + end, office, **{**ids, "run_id": ids["run_id"] + end})
    assert nights.sync(f"{name}x", **ids, override_guards=["empty_list"])["entries_removed"] == 3
    assert nights.everywhere() == {OFFICES[1]}
    assert len([*nights.folder.rglob("audit/*/*.jsonl")]) == 3
    nights.sync("a" * 230, *OFFICES[:2])
    assert nights.table("a" * 230).is_file(), "a name that fits is kept"


def test_forty_mapped_chunks_share_one_list(nights: Nights) -> None:
    for number in range(4, 41):
        nights.sandbox.add_website(f"{number}.example")
    nights.sync("office", *OFFICES)
    nights.now += timedelta(days=1)

    def chunk(number: int) -> int:
        allow_execute_in_this_thread()
        applied: int = nights.sync("office", *OFFICES[:3], websites=[number], run_id="mapped")["applied"]
        return applied

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(chunk, range(1, 41))) == [1] * 40
    assert nights.everywhere() == set(OFFICES[:3])
    assert [path.name for path in nights.folder.rglob("lists/*")] == ["office.json"]
    assert OFFICES[3] in nights.table("office").read_text()


def test_scheduler_clock_decides_the_order_of_runs(nights: Nights) -> None:
    """Clocks of workers differ, and a try might start long after its run."""
    began = nights.now
    nights.sync("office", OFFICES[0], run_began=began + timedelta(minutes=1))
    nights.now -= timedelta(minutes=10)
    nights.sync("office", OFFICES[1], run_began=began + timedelta(minutes=2))
    nights.now += timedelta(minutes=20)
    with pytest.raises(AirflowSkipException, match="A later run of the list 'office' has started"):
        nights.sync("office", OFFICES[0], run_began=began + timedelta(minutes=1))
    assert nights.everywhere() == {OFFICES[1]}


def test_website_removed_from_a_file_is_available_to_other_lists(nights: Nights) -> None:
    nights.apply("file", {key: [SHARED] for key in (CORP, *SHOP)})
    nights.sync("office", SHARED, OTHER)
    nights.apply("file", {key: [SHARED] for key in SHOP})
    nights.sync("office", OTHER)
    assert nights.lists() == {CORP: {OTHER}, **{key: {SHARED, OTHER} for key in SHOP}}
    # A file without lists keeps no entries.
    nights.apply("file", {}, config={"websites": {"1.example": {"privacy": "private"}}})
    nights.sync("office", OTHER)
    assert nights.everywhere() == {OTHER}


@pytest.mark.parametrize(
    ("state", "left"), [({"state_path": None}, {SHARED, OTHER}), ({}, {OTHER})], ids=["add only", "managed"]
)
def test_websites_file_removes_entries_only_with_state(nights: Nights, state: dict[str, Any], left: set[str]) -> None:
    for entries in ([SHARED, OTHER], [OTHER]):
        nights.apply("office", dict.fromkeys((CORP, *SHOP), entries), **state)
    assert nights.everywhere() == left


def test_field_that_a_file_no_longer_manages_is_guarded_and_unchanged(nights: Nights) -> None:
    entries = [f"192.0.2.{number}" for number in range(1, 13)]

    def file(modes: dict[str, str], *entries: str, **arguments: Any) -> None:
        websites = {"1.example": {"exclude_ips": entries, "exclude_params": []}}
        nights.apply("file", {}, config={"modes": modes, "websites": websites}, **arguments)

    file({}, *entries)
    with pytest.raises(AirflowFailException, match="11 of 12 exclude_ips entries would be lost"):
        file({"exclude_ips": "replace"}, "192.0.2.1")
    with pytest.raises(AirflowFailException, match="12 of 12 entries were removed from the list 'file'"):
        file({})
    file({"exclude_ips": "replace"}, "192.0.2.1", override_guards=["entries_lost"])
    # Another list may remove entries that the file no longer manages.
    nights.sync("office", "192.0.2.1", "192.0.2.99")
    nights.sync("office", "192.0.2.99")
    assert nights.everywhere() == {"192.0.2.99"}


#: Arguments that select only the shops.
SHOPS_ONLY: list[dict[str, Any]] = [
    {"websites": SHOP},
    {"websites": ["[23].example"]},
    {"except_websites": [CORP]},
    {"except_websites": ["[1].example"]},
    {"except_websites": [1]},
]


@pytest.mark.parametrize("selection", SHOPS_ONLY, ids=str)
def test_list_owns_no_entries_on_websites_that_it_never_selected(nights: Nights, selection: dict[str, Any]) -> None:
    nights.sync("office", "192.0.2.1", "192.0.2.2", **selection)
    nights.sync("office", "192.0.2.1", **selection)
    nights.sandbox.change_website(1, exclude_ips="192.0.2.2")
    nights.sync("office", "192.0.2.1", unmanage_websites=[CORP], **selection, override_guards=["no_match"])
    assert nights.lists()[CORP] == {"192.0.2.2"}
    nights.sync("office", "192.0.2.1")
    assert nights.lists()[CORP] == {"192.0.2.1", "192.0.2.2"}


def test_explain_names_the_lists_websites_and_services_of_an_entry(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    def table() -> list[list[str]]:
        capsys.readouterr()
        assert main(["explain", "192.0.2.1", "--state-path", str(nights.folder)]) == 0
        return [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]

    nights.sync("first", "192.0.2.1", except_websites=[CORP])
    nights.sync("second", "192.0.2.1", websites=["*.example", CORP])
    nights.sync("third", "192.0.2.1", websites=SHOP, per_website={SHOP[0]: ["192.0.2.9"]})
    assert [row[:3] for row in table()] == [
        ["ENTRY", "LIST", "FOR"],
        ["192.0.2.1", "first (exclude_ips)", "all websites except 1.example"],
        ["192.0.2.1", "second (exclude_ips)", "*.example and 1 more"],
        ["192.0.2.1", "third (exclude_ips)", "2.example and 1 more"],
    ]
    nights.sync("second", "192.0.2.2", websites=["*.example", CORP])
    rows = table()[1:]
    assert ["removed from the list on 2026-11-23" in row[-1] for row in rows] == [False, True, False]
    text = nights.table("first").read_text()
    other = nights.folder / "stats.example.com-1" / "lists" / "first.json"
    other.parent.mkdir(parents=True)
    other.write_text(re.sub('"service": "[^"]*"', '"service": "https://stats.example.com"', text))
    expected = [f"{row[1]} of {json.loads(text)['service']}" for row in rows]
    assert [row[1] for row in table()] == ["LIST", *expected, "first (exclude_ips) of https://stats.example.com"]


@pytest.mark.parametrize("note", ["203.0.113.5 home of Eve", "203.0.113.5#home of Eve", "2001:db8::5 (Bob, home)"])
def test_note_without_a_hash_counts_as_a_line_of_a_person(nights: Nights, note: str) -> None:
    nights.sandbox.change_website(1, exclude_ips=f"{note}\n{OTHER}")
    nights.sync("office", SHARED, OTHER)
    nights.sync("office", SHARED)
    assert nights.lists() == {CORP: {note, SHARED}, **{item: {SHARED} for item in SHOP}}


def test_guard_error_repeats_the_overridden_guards(nights: Nights) -> None:
    """Following the messages one by one would alternate forever."""
    offices = [f"203.0.113.{number}" for number in range(12)]
    nights.sync("office", *offices)
    wrong: dict[str, Any] = {"except_websites": ["*.typo.example"]}
    with pytest.raises(AirflowFailException, match=re.escape("set override_guards=['entries_lost'] on")):
        nights.sync("office", offices[0], **wrong)
    with pytest.raises(AirflowFailException, match=re.escape("set override_guards=['entries_lost', 'no_match'] on")):
        nights.sync("office", offices[0], override_guards=["entries_lost"], **wrong)
    nights.sync("office", offices[0], override_guards=["no_match", "entries_lost"], **wrong)
    assert nights.everywhere() == {offices[0]}


def test_log_names_a_commented_address_that_remains(nights: Nights, task_log: Callable[[], str]) -> None:
    nights.sync("office", SHARED, OTHER)
    nights.sandbox.change_website(1, exclude_ips=f"{SHARED} # Ann\n{OTHER}")
    nights.sync("office", OTHER)
    assert f"Not removed, because their lines have a comment: {SHARED} on 1 website." in task_log()
    said = task_log().count("Not removed")  # Airflow 3.0 prints a line several times
    nights.sync("office", OTHER)
    assert [task_log().count(text) for text in ("Not removed", "Removing entries")] == [said, 0]
    nights.sandbox.change_website(2, exclude_ips=f"{SHARED}\n{OTHER}")
    nights.sync("office", OTHER)
    assert f"Removing entries that were removed from the list earlier: {SHARED} on 1 website." in task_log()
    assert nights.lists()["1.example"] == {f"{SHARED} # Ann", OTHER}


def test_later_run_of_another_task_or_of_the_future_is_an_error_and_not_a_skip(nights: Nights) -> None:
    """Otherwise, this list would be skipped every night without a message."""
    began = nights.now
    nights.sync("office", SHARED, task_id="vpn", run_began=began + timedelta(minutes=1))
    with pytest.raises(AirflowFailException, match=r"(?s)later run of the list 'office' has started.*own list_name"):
        nights.sync("office", OTHER, run_began=began)
    nights.sync("branch", SHARED, run_began=began + timedelta(days=900))
    with pytest.raises(
        AirflowFailException, match=r"(?s)later run of the list 'branch' has started.*correct the clock"
    ):
        nights.sync("branch", OTHER)
    assert nights.everywhere() == {SHARED}


def test_entries_of_a_killed_run_are_removed_by_the_next_one_without_an_override(nights: Nights) -> None:
    entries = [f"192.0.2.{number}" for number in range(1, 41)]
    nights.sync("office", *entries)
    before = {website["id"]: website["exclude_ips"] for website in nights.sandbox.websites()}
    nights.sync("office", *entries[:30])
    for website_id, lines in before.items():  # as if the run had been killed before its first update
        nights.sandbox.change_website(website_id, exclude_ips=lines)
    assert nights.sync("office", *entries[:30])["applied"] == 3
    assert nights.everywhere() == set(entries[:30])


def test_hidden_file_is_no_table_and_a_name_that_starts_with_a_dot_is_a_list(nights: Nights) -> None:
    nights.sync(".office", SHARED)
    nights.sync("vpn", SHARED, OTHER)
    (nights.table("vpn").parent / "._office.json").write_bytes(b"not a table")
    nights.sync("vpn", OTHER)
    assert nights.everywhere() == {SHARED, OTHER}


def test_second_read_after_another_list_does_not_repeat_the_warnings(
    nights: Nights, task_log: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the changes, each website has the entries of this run, which nobody added by hand."""
    nights.sync("vpn", "192.0.2.9")
    logs: list[str] = []
    monkeypatch.setattr(Stopping, "wait", lambda *_: logs.append(task_log()))
    nights.sync("office", "192.0.2.1")
    log = task_log()
    assert "because another list is running or ran in the last hour" in logs[-1]
    assert "192.0.2.1 on " not in log


@pytest.mark.parametrize(("minutes", "is_reported"), [(59, True), (61, False)])
def test_list_runs_at_the_same_time_if_it_started_less_than_an_hour_before(
    tmp_path: Path, minutes: int, is_reported: bool
) -> None:
    folder = StoragePath.of(str(tmp_path))
    now = datetime(2026, 11, 23, 1, 30, tzinfo=UTC)
    vpn = Table(Identity("https://stats.example.com", "1", "vpn"), run=Run("dag/run", "vpn", now))
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "vpn.json").write_text(vpn.render())
    file = ListFile(folder, replace(vpn.identity, list="office"))
    file.start_run({}, {}, {"dag_run": SimpleNamespace(start_date=now + timedelta(minutes=minutes))})
    assert file.runs_at_the_same_time() == is_reported


def test_lost_state_folder_is_in_the_result_and_in_the_warning(
    sandbox: SandboxServer, execute: Execute, tmp_path: Path, task_log: Callable[[], str]
) -> None:
    sandbox.add_website("a.example")
    given: dict[str, Any] = {"exclude_ips": ["203.0.113.1", "203.0.113.2"], "list_name": "office"}
    new = [
        execute(SyncExcludedIpsOperator, **given, state_path=f"{tmp_path}/{folder}")["list_is_new"]
        for folder in ("state", "state", "lost")
    ]
    assert new == [True, False, True]
    assert "Or its state folder was lost: then entries that were removed from the list before remain" in task_log()
    assert execute(SyncExcludedIpsOperator, **given)["list_is_new"] is False
