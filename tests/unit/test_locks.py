# SPDX-License-Identifier: Apache-2.0
"""State that threads share changes only while its lock is held. A race itself is too rare for a test."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from airflow_provider_analytics.api.waiting import RateLimiter, Stats, Stopping
from airflow_provider_analytics.reconcile import audit_trail
from airflow_provider_analytics.sandbox.faults import Fault, FaultQueue
from airflow_provider_analytics.sandbox.store import Store
from airflow_provider_analytics.storage import StoragePath


class KnownLock:
    """A lock that knows whether this thread holds it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def check(self, name: str) -> None:
        assert self._lock._is_owned(), f"{name} changed without its lock"  # type: ignore[attr-defined]


def checked(kind: type, lock: KnownLock, name: str) -> type:
    """Return a kind of container whose methods that change it check the lock."""

    def method(original: Any) -> Any:
        @functools.wraps(original)
        def call(*args: Any) -> Any:
            lock.check(name)
            return original(*args)

        return call

    changing = ("__setitem__", "__delitem__", "append", "extend", "pop", "clear")
    return type("Checked", (kind,), {found: method(getattr(kind, found)) for found in changing if hasattr(kind, found)})


def watched(thing: Any, *names: str) -> Any:
    """Give an object a lock that is checked whenever one of these attributes changes."""
    lock = KnownLock()
    thing._lock = lock
    for name in names:
        value = getattr(thing, name)
        if isinstance(value, deque):
            setattr(thing, name, checked(deque, lock, name)(value, maxlen=value.maxlen))
        elif isinstance(value, (list, dict)):
            setattr(thing, name, checked(type(value), lock, name)(value))

    class Watched(type(thing)):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            if name in names:
                lock.check(name)
            super().__setattr__(name, value)

    thing.__class__ = Watched
    return thing


def count() -> None:
    stats = watched(Stats(), "requests")
    stats.count("requests")
    assert stats.requests == 1


def limit_rates() -> None:
    attributes = ("_sent_at", "_not_before", "_interval", "_slowed_at", "_rejecting_since", "_reported_at")
    limiter = watched(RateLimiter(5, lambda *_: None, time.monotonic), *attributes)
    limiter.wait()
    limiter.slow_down(time.monotonic(), 1, "rejected")
    limiter.speed_up()


def stop() -> None:
    stopping = watched(Stopping(), "_flights", "_thread")
    with stopping.watch("GET", 60):
        watchdog = stopping._thread
    watchdog.join()
    assert stopping._thread is None


def inject_faults() -> None:
    faults = watched(FaultQueue(), "_pending")
    faults.clear()
    faults.add(Fault())
    assert faults.take(None) is not None


def store_websites() -> None:
    store = watched(Store(), "_last_id", "_websites")
    store.seed(2)
    website = store.add("new.example")
    store.update(website["id"], {"favorite": True})
    assert len(store.websites()) == 3


@pytest.mark.parametrize("use", [count, limit_rates, stop, inject_faults, store_websites])
def test_shared_state_changes_only_while_its_lock_is_held(
    use: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fault, "matches", lambda *_: True)
    use()


def test_parts_of_an_audit_trail_change_only_while_their_lock_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    monkeypatch.setattr(audit_trail, "PART_SECONDS", 3600)
    parts = watched(audit_trail._Parts(StoragePath(memory, "/locks", "memory://locks"), "trail"), "_waiting")
    parts.write(b"1\n")
    parts.close()
    monkeypatch.setattr(type(memory), "pipe_file", lambda *_: 1 / 0)
    parts.write(b"2\n")
    with pytest.raises(ZeroDivisionError):
        parts.close()
    assert parts._waiting == [b"2\n"]


def test_lines_of_an_audit_trail_are_written_while_its_lock_is_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = watched(audit_trail._TrailFile(StoragePath.of(str(tmp_path)), "trail"))
    write = os.write

    def check(descriptor: int, lines: bytes) -> int:
        file._lock.check("the file")
        return write(descriptor, lines)

    monkeypatch.setattr(os, "write", check)
    file.write(b"1\n")
    file.close()
    assert (tmp_path / "trail.jsonl").read_bytes() == b"1\n"
