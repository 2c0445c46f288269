# SPDX-License-Identifier: Apache-2.0
"""Counters of a client (``api/waiting.py``)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_analytics.api.waiting import Stats


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
