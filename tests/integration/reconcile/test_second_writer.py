"""Exclusion lists while somebody else writes the same websites."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
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
    arguments: dict[str, Any] = {"mode": mode, "parallel_requests": 1}
    if mode == "managed":
        arguments["state_path"] = str(tmp_path)
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
    result = execute(ApplyWebsitesOperator, config_path=str(config), parallel_requests=1)
    assert result["verified"] is True
    assert lists(analytics_sandbox) == [
        {"10.0.0.1", "192.0.2.1"},
        {"10.0.0.1", "192.0.2.1", *([BY_HAND] if typed else [])},
        {"10.0.0.1", "192.0.2.1"},
    ]


OFFICE, VPN = "198.51.100.1", "203.0.113.1"


def sync(execute: Execute, name: str, entry: str, state_path: Path, **arguments: Any) -> dict[str, Any]:
    allow_execute_in_this_thread()
    result: dict[str, Any] = execute(
        SyncExcludedIpsOperator, task_id=name, exclude_ips=[entry], state_path=str(state_path), **arguments
    )
    return result


@pytest.mark.parametrize("website_id", range(1, 5))
def test_what_another_list_overwrites_is_sent_again(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    execute: Execute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    website_id: int,
) -> None:
    """The update of the first list was computed before that of the second one, and arrives after it."""
    for number in range(4):
        analytics_sandbox.add_website(f"{number}.example")
    connection = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])
    connection["extra"] |= {"parallel_requests": 1, "headers": {"X-Task": "vpn"}}
    monkeypatch.setenv("AIRFLOW_CONN_SECOND", json.dumps(connection))
    forward: Callable[..., tuple[int, bytes]] = distortion.answer
    is_sent, is_overwritten = threading.Event(), threading.Event()
    pool = ThreadPoolExecutor(1)
    second: list[Future[dict[str, Any]]] = []

    def interleave(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        is_update = method == "PATCH" and target.endswith(f"/websites/{website_id}")
        if headers.get("X-Task") == "vpn":
            if is_sent.is_set():
                assert is_overwritten.wait(30)
            answer = forward(method, target, headers, body)
            if is_update:
                is_sent.set()
            return answer
        if is_update and not second:
            second.append(pool.submit(sync, execute, "vpn", VPN, tmp_path, analytics_conn_id="second"))
            assert is_sent.wait(30)
            answer = forward(method, target, headers, body)
            is_overwritten.set()
            second[0].result(60)
            return answer
        return forward(method, target, headers, body)

    distortion.answer = interleave  # type: ignore[method-assign]
    first = sync(execute, "office", OFFICE, tmp_path, parallel_requests=1)
    assert first["applied"] == second[0].result()["applied"] == 4
    assert lists(analytics_sandbox) == [{OFFICE, VPN}] * 4


def test_two_lists_side_by_side_converge_or_one_of_them_fails(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    """However two tasks meet: what one of them lost, it says, or its next run adds."""
    for number in range(20):
        analytics_sandbox.add_website(f"{number}.example")
    with ThreadPoolExecutor(2) as pool:
        for both in [pool.submit(sync, execute, name, entry, tmp_path) for name, entry in (("o", OFFICE), ("v", VPN))]:
            with suppress(BulkError):
                both.result(60)
    for name, entry in (("o", OFFICE), ("v", VPN)):
        assert sync(execute, name, entry, tmp_path)["verified"]
    assert lists(analytics_sandbox) == [{OFFICE, VPN}] * 20


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
