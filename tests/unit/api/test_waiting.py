# SPDX-License-Identifier: Apache-2.0
"""Pauses, the limit per minute, the pace of the requests, and counters (``api/waiting.py``)."""

from __future__ import annotations

import _thread
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from wire_client import Time

from airflow_provider_analytics.api.waiting import MAX_WAIT, WINDOW, RateLimiter, Stats, until


def limiter_of(time: Time) -> RateLimiter:
    return RateLimiter(None, lambda seconds, _: time.sleep(seconds), time.clock)


@pytest.mark.parametrize("pauses", [(30, 5), (5, 30), (30, 0), (0, 30), (30, -1), (MAX_WAIT + 1, 5)])
def test_longest_pause_counts_in_any_order_up_to_the_maximum(pauses: tuple[float, float]) -> None:
    clock = Time()
    limiter = limiter_of(clock)
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


def test_recovery_of_rejected_writes_is_logged_only_after_an_accepted_write(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    limiter = limiter_of(clock)
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


@pytest.mark.parametrize(("per_minute", "together"), [(1, 1), (7, 1), (60, 1), (2, 2), (3, 2), (7, 2), (60, 2)])
def test_requests_per_minute_limits_all_threads_together(
    per_minute: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No window of a minute contains more requests than the limit, for any number of threads.

    Requests that belong together have a common turn, and each of them counts.
    """
    waits: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Lock", YieldingLock)
        # The clock stands still while threads wait, so each thread records its turn.
        limiter = RateLimiter(per_minute, lambda seconds, _: waits.append(seconds), lambda: 0.0)
    in_a_minute = per_minute // together
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: limiter.wait(together), range(5 * in_a_minute)))
    # The first ones do not wait, and no thread waits longer than necessary.
    assert Counter(waits) == {WINDOW * minute: in_a_minute for minute in range(1, 5)}


@pytest.mark.usefixtures("time_zone")
def test_time_in_a_log_line_is_utc() -> None:
    before = datetime.now(UTC)
    text = until(60)
    moments = {f"{before + timedelta(seconds=60 + late):%H:%M:%S} UTC" for late in range(10)}
    assert text in moments


class SlowNumber(int):
    """A number that lets another thread run while it is added."""

    def __radd__(self, other: int) -> int:
        time.sleep(0.0001)
        return other + int(self)


def test_threads_that_count_at_the_same_time_lose_no_number() -> None:
    stats = Stats()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: stats.count("requests", SlowNumber(1)), range(100)))
    assert stats.requests == 100
