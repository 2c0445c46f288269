# SPDX-License-Identifier: Apache-2.0
"""The transport of an acceptance run: a maximum number of requests, and writes only for disposable websites.

It also knows when reads must return the last write.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from airflow_provider_analytics.api.client import WEBSITES, website_path
from airflow_provider_analytics.api.dialect import Answer
from airflow_provider_analytics.api.fields import UPDATE_FIELDS
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Texts, Transport
from airflow_provider_analytics.exceptions import AnalyticsError

#: Maximum number of requests of a run; repeated requests count. The updates of a field take about eight.
MAX_REQUESTS = 50 + 10 * len(UPDATE_FIELDS)
#: Number of requests that are kept for the removal of the website.
REMOVAL_REQUESTS = 12

#: Called before each request with its number.
Progress = Callable[[int], None]


class RequestLimitError(AnalyticsError):
    """A request that was not sent, because the run has sent as many as allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The run has sent {limit} requests, so it sends no more of them: {MAX_REQUESTS} are allowed, and "
            f"{REMOVAL_REQUESTS} of them are kept for the removal of the website.",
            "Run the command again when the service is less busy.",
        )


class GuardedTransport(Transport):
    """A transport that rejects every write to a website that this tool did not create.

    :param domain: domain of the only website that may be created.
    :param progress: called before each request.
    """

    def __init__(self, settings: Settings, domain: str, progress: Progress | None = None) -> None:
        super().__init__(settings)
        self.domain = domain
        #: Number of requests that the run may send at present.
        self.limit = MAX_REQUESTS - REMOVAL_REQUESTS
        #: Number of writes that were sent.
        self.writes = 0
        #: Returns the seconds after a write in which reads may return older values.
        self.longest_lag: Callable[[], float] = lambda: 0.0
        #: Whether a read returned older values. From then on, each read first waits until that is impossible.
        self.is_late = False
        #: Whether the last read cannot have returned older values.
        self.is_read_current = True
        #: Time of the last write after which no read waited.
        self._written_at = -math.inf
        self._progress = progress
        self._disposable_paths: set[str] = set()

    def allow_writes(self, website_id: str) -> None:
        """Allow writes to a website. The caller has verified that this tool created it."""
        self._disposable_paths.add(website_path(website_id))

    @property
    def is_settled(self) -> bool:
        """Whether reads must return the last write."""
        return self._clock() >= self._written_at + self.longest_lag()

    def settle(self) -> None:
        """Wait until reads must return the last write."""
        if not self.is_settled:
            self.wait(self._written_at + self.longest_lag() - self._clock())
        self._written_at = -math.inf

    def once(self, method: str, path: str, **parameters: Any) -> Answer:
        """Send a request without retries, and note the time of a write."""
        try:
            return super().once(method, path, **parameters)
        finally:
            if method != "GET":
                self._written_at = self._clock()

    def before_request(self, method: str, path: str, form: Texts) -> None:
        """Check and count a request before it is sent.

        :raises ValueError: for a write to any other website.
        :raises RequestLimitError: if the run may send no more requests.
        """
        if method != "GET" and not self._is_disposable(method, path, form):
            raise ValueError(f"{method} {path} is not about a website of this run, so it was not sent.")
        if self.stats.requests >= self.limit:
            raise RequestLimitError(self.limit)
        if self._progress:
            self._progress(self.stats.requests + 1)
        if method != "GET":
            self.writes += 1
            return
        if self.is_late:
            self.settle()
        self.is_read_current = self.is_settled

    def _is_disposable(self, method: str, path: str, form: Texts) -> bool:
        if method == "POST":
            return path == WEBSITES and form.get("domain") == self.domain
        return path in self._disposable_paths
