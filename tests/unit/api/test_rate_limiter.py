# SPDX-License-Identifier: Apache-2.0
"""Pauses, the limit per minute, and the pace of the requests (``api/waiting.py``)."""

from __future__ import annotations

import _thread
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_analytics.api.waiting import (
    MAX_WAIT,
    WINDOW,
    RateLimiter,
    until,
)


class Clock:
    """A clock that moves only during a sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float, unwanted: threading.Event | None) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def limiter(self, per_minute: int | None = None) -> RateLimiter:
        return RateLimiter(per_minute, self.sleep, lambda: self.now)


@pytest.mark.parametrize("pauses", [(30, 5), (5, 30), (30, 0), (0, 30), (30, -1), (MAX_WAIT + 1, 5)])
def test_longest_pause_counts_in_any_order_up_to_the_maximum(pauses: tuple[float, float]) -> None:
    clock = Clock()
    limiter = clock.limiter()
    for seconds in pauses:
        limiter.pause(seconds)
    for _ in range(2):
        limiter.wait()
        assert clock.slept == [min(max(pauses), MAX_WAIT)]


class YieldingLock:
    """A lock that lets another thread run as soon as it is released."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        time.sleep(0.0001)


def test_threads_do_not_share_a_place_within_the_limit_per_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Lock", YieldingLock)
        limiter = RateLimiter(5, lambda seconds, _: turns.append(seconds), lambda: 0.0)  # the clock stands still
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: limiter.wait(), range(100)))
    assert Counter(turns) == {WINDOW * minute: 5 for minute in range(1, 20)}


def test_recovery_of_rejected_writes_is_logged_only_after_an_accepted_write(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    limiter = clock.limiter()
    with caplog.at_level("INFO"):
        limiter.slow_down(clock.now, 0, "rejected", is_write=True)
        clock.now += 10
        while limiter._interval:
            limiter.speed_up()
        assert "accepts" not in caplog.text
        limiter.speed_up(is_write=True)
        clock.now += 60
        limiter.slow_down(clock.now, 0, "rejected again", is_write=True)
    assert "The service accepts requests again, after 10 s." in caplog.text
    assert "rejected again" in caplog.text


@pytest.mark.usefixtures("time_zone")
def test_time_in_a_log_line_is_utc() -> None:
    before = datetime.now(UTC)
    text = until(60)
    moments = {f"{before + timedelta(seconds=60 + late):%H:%M:%S} UTC" for late in range(10)}
    assert text in moments
