"""Exclusion lists while somebody else writes the same websites."""

from __future__ import annotations

import itertools
import json
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from airflow_versions import allow_execute_in_this_thread
from distortion import Distortion
from raw_server import Request
from reconciling import Night

from airflow_provider_analytics.exceptions import BulkError

BY_HAND = "203.0.113.99"
OFFICE, VPN = "198.51.100.1", "203.0.113.1"


def lists(night: Night) -> list[set[str]]:
    return [set((one or "").split()) for one in night.lists()]


class Typist:
    """Adds an entry at a step of a run, as a person does, in the web interface of the service."""

    def __init__(self, night: Night, distortion: Distortion, step: int) -> None:
        self._night, self._step = night, step
        self._requests = itertools.count(1)
        #: Whether the entry stays: it is typed, and not in the moment of the update of that very website.
        self.is_kept = False
        distortion.before = self.before

    def before(self, method: str, path: str) -> None:
        if next(self._requests) == self._step:
            self.is_kept = (method, path) != ("PATCH", "/websites/2")
            self._night.sandbox.change_website(2, exclude_ips=f"{self._night.lists()[1]}\n{BY_HAND}")

    def assert_kept(self) -> None:
        there = {"10.0.0.1", "192.0.2.1"}
        assert lists(self._night) == [there, there | ({BY_HAND} if self.is_kept else set()), there]


@pytest.mark.parametrize("mode", ["merge", "managed"])
@pytest.mark.parametrize("step", range(1, 15))
def test_an_entry_typed_by_hand_at_any_step_stays(night: Night, distortion: Distortion, mode: str, step: int) -> None:
    night.add(3, exclude_ips="10.0.0.1")
    typist = Typist(night, distortion, step)
    run = night.managed if mode == "managed" else night.sync
    assert run("192.0.2.1", parallel_requests=1)["verified"] is True
    typist.assert_kept()


@pytest.mark.parametrize("step", range(1, 10))
def test_an_entry_typed_by_hand_at_any_step_of_an_apply_stays(night: Night, distortion: Distortion, step: int) -> None:
    night.add(3, exclude_ips="10.0.0.1")
    typist = Typist(night, distortion, step)
    websites = {domain: {"exclude_ips": ["192.0.2.1"]} for domain in night.lists("domain")}
    assert night.apply(config={"websites": websites}, parallel_requests=1)["verified"] is True
    typist.assert_kept()


def sync(night: Night, name: str, entry: str, **arguments: Any) -> Any:
    allow_execute_in_this_thread()
    return night.managed(entry, task_id=name, **arguments)


@pytest.mark.parametrize("website_id", range(1, 5))
def test_what_another_list_overwrites_is_sent_again(
    night: Night, distortion: Distortion, monkeypatch: pytest.MonkeyPatch, website_id: int
) -> None:
    """The update of the first list was computed before that of the second one, and arrives after it."""
    night.add(4)
    connection = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])
    connection["extra"] |= {"parallel_requests": 1, "headers": {"X-Task": "vpn"}}
    monkeypatch.setenv("AIRFLOW_CONN_SECOND", json.dumps(connection))
    is_sent, is_overwritten = threading.Event(), threading.Event()
    pool = ThreadPoolExecutor(1)
    second: list[Future[dict[str, Any]]] = []

    def interleave(request: Request) -> tuple[int, Any]:
        is_update = request.method == "PATCH" and request.target.endswith(f"/websites/{website_id}")
        if request.headers.get("x-task") == "vpn":
            if is_sent.is_set():
                assert is_overwritten.wait(30)
            answer = distortion.to_the_sandbox(request)
            if is_update:
                is_sent.set()
            return answer
        if not is_update or second:
            return distortion.to_the_sandbox(request)
        second.append(pool.submit(sync, night, "vpn", VPN, analytics_conn_id="second"))
        assert is_sent.wait(30)
        answer = distortion.to_the_sandbox(request)
        is_overwritten.set()
        second[0].result(60)
        return answer

    distortion.forward = interleave
    first = sync(night, "office", OFFICE, parallel_requests=1)
    assert first["applied"] == second[0].result()["applied"] == 4
    assert lists(night) == [{OFFICE, VPN}] * 4


def test_two_lists_side_by_side_converge_or_one_of_them_fails(night: Night) -> None:
    """However two tasks meet: what one of them lost, it says, or its next run adds."""
    night.add(20)
    both = (("office", OFFICE), ("vpn", VPN))
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(sync, night, name, entry) for name, entry in both]:
            with suppress(BulkError):
                one.result(60)
    for name, entry in both:
        assert sync(night, name, entry)["verified"]
    assert lists(night) == [{OFFICE, VPN}] * 20


def test_an_id_that_was_given_to_another_website_meanwhile_is_not_changed(night: Night) -> None:
    night.add(1)
    other = {"id": 1, "domain": "innocent.example", "exclude_ips": None}
    night.sandbox.fault("show", body={"data": other}, times=None)
    with pytest.raises(BulkError, match=r"not changed: id 1 now belongs to 'innocent\.example'"):
        night.sync("192.0.2.1")
    assert night.lists() == [None]
