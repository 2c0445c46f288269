"""Exclusion lists while somebody else writes the same websites."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow_versions import allow_execute_in_this_thread
from distortion import Distortion
from fixture_types import Execute

from airflow_provider_analytics.exceptions import BulkError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

BY_HAND = "203.0.113.99"


def lists(sandbox: SandboxServer) -> list[set[str]]:
    return [set((website["exclude_ips"] or "").split()) for website in sandbox.websites()]


def type_in(sandbox: SandboxServer, website_id: int, address: str = BY_HAND) -> None:
    """Add an entry as a person does, in the web interface of the service."""
    (current,) = [website["exclude_ips"] for website in sandbox.websites() if website["id"] == website_id]
    sandbox.change_website(website_id, exclude_ips="\n".join(filter(None, (current, address))))


#: The update of that very website, before which nothing tells what came after its show.
THE_UPDATE = ("PATCH", "/websites/2")


@pytest.mark.parametrize("mode", ["merge", "managed"])
@pytest.mark.parametrize("step", range(1, 15))
def test_an_entry_typed_by_hand_at_any_step_stays(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    execute: Execute,
    tmp_path: Path,
    mode: str,
    step: int,
) -> None:
    for number in range(1, 4):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    requests = itertools.count(1)

    def type_at_that_step(method: str, path: str) -> None:
        if next(requests) == step:
            if (method, path) == THE_UPDATE:
                updates.append(step)
            type_in(analytics_sandbox, 2)

    updates: list[int] = []
    distortion.before = type_at_that_step
    arguments: dict[str, Any] = {"mode": mode, "max_workers": 1}
    if mode == "managed":
        arguments["ledger_path"] = str(tmp_path / "ledger.json")
    result = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
    distortion.before = lambda method, path: None
    if updates:
        assert BY_HAND not in lists(analytics_sandbox)[1]
        return
    if next(requests) <= step:
        type_in(analytics_sandbox, 2)  # the run has fewer requests
    assert result["verified"] is True
    assert lists(analytics_sandbox) == [
        {"10.0.0.1", "192.0.2.1"},
        {"10.0.0.1", "192.0.2.1", BY_HAND},
        {"10.0.0.1", "192.0.2.1"},
    ]
    if mode == "managed":
        # It is not the list's own, even if the list has it from now on.
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", BY_HAND], **arguments)
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments, force=True)
        assert BY_HAND in lists(analytics_sandbox)[1]


def test_what_a_person_adds_while_the_list_adds_it_too_is_the_persons(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    typed = threading.Event()

    def type_after_the_list_was_read(method: str, path: str) -> None:
        if path != "/websites" and not typed.is_set():
            typed.set()
            type_in(analytics_sandbox, 1, "192.0.2.1")

    distortion.before = type_after_the_list_was_read
    arguments = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    result = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
    assert result["applied"] == 1
    ledger = json.loads((tmp_path / "ledger.json").read_text())
    assert ledger["websites"]["1"]["entries"] == {"exclude_ips": ["192.0.2.2"]}
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.3"], **arguments)
    assert lists(analytics_sandbox) == [{"192.0.2.1", "192.0.2.3"}]


@pytest.mark.parametrize("step", range(1, 10))
def test_an_entry_typed_by_hand_at_any_step_of_an_apply_stays(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path, step: int
) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text(
        "modes: {exclude_ips: merge}\ndefaults: {exclude_ips: [192.0.2.1]}\n"
        "websites: {1.example: , 2.example: , 3.example: }"
    )
    for number in range(1, 4):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    requests = itertools.count(1)

    def type_at_that_step(method: str, path: str) -> None:
        if next(requests) == step and (method, path) != THE_UPDATE:
            type_in(analytics_sandbox, 2)
            typed.append(step)

    typed: list[int] = []
    distortion.before = type_at_that_step
    result = execute(ApplyWebsitesOperator, config_path=str(config), max_workers=1)
    assert result["verified"] is True
    assert lists(analytics_sandbox) == [
        {"10.0.0.1", "192.0.2.1"},
        {"10.0.0.1", "192.0.2.1", *([BY_HAND] if typed else [])},
        {"10.0.0.1", "192.0.2.1"},
    ]


@pytest.mark.slow  # twenty pairs of tasks
def test_two_lists_side_by_side_converge_or_one_of_them_fails(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.reconcile.apply.SETTLE_SECONDS", 0.5)
    for number in range(20):
        analytics_sandbox.add_website(f"{number}.example")
    for round_number in range(20):
        entries = {name: f"198.51.{offset}.{round_number}" for offset, name in enumerate(("office", "vpn"))}
        outcomes: dict[str, Any] = {}
        begin = threading.Barrier(2)

        def sync(name: str, entries: dict[str, str] = entries, begin: Any = begin, outcomes: Any = outcomes) -> None:
            allow_execute_in_this_thread()
            begin.wait(30)
            try:
                outcomes[name] = execute(
                    SyncExcludedIpsOperator,
                    task_id=name,
                    exclude_ips=[entries[name]],
                    mode="managed",
                    ledger_path=str(tmp_path / f"{name}.json"),
                    force=True,
                )
            except BulkError as error:
                outcomes[name] = error

        threads = [threading.Thread(target=sync, args=(name,)) for name in entries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, entry in entries.items():
            if not isinstance(outcomes[name], BulkError):
                assert all(entry in found for found in lists(analytics_sandbox)), (round_number, name)


@pytest.mark.parametrize("shown", [None, "", "10.0.0.1"], ids=["null", "empty", "the first line"])
def test_a_list_that_shows_the_field_shortened_loses_nothing(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, shown: str | None
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="10.0.0.1\n10.0.0.2")
    answer: Callable[..., tuple[int, bytes]] = distortion.answer

    def shorten(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        status, data = answer(method, target, headers, body)
        if target.partition("?")[0].endswith("/websites"):
            found = json.loads(data)
            for website in found["data"]:
                website["exclude_ips"] = shown
            data = json.dumps(found).encode()
        return status, data

    distortion.answer = shorten  # type: ignore[method-assign]
    result = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"])
    assert result["verified"] is True
    assert lists(analytics_sandbox) == [{"10.0.0.1", "10.0.0.2", "192.0.2.1"}]


def test_an_id_that_was_given_to_another_website_meanwhile_is_not_changed(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    analytics_sandbox.add_website("a.example")
    other = {"id": 1, "domain": "innocent.example", "exclude_ips": None}
    analytics_sandbox.fault("show", body={"data": other}, times=None)
    with pytest.raises(BulkError, match=r"not changed: id 1 now belongs to 'innocent\.example'"):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"])
    assert lists(analytics_sandbox) == [set()]
