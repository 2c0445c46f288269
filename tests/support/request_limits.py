# SPDX-License-Identifier: Apache-2.0
"""Rate limits: Laravel's ``throttle``, and nginx's ``limit_req`` in front of the application."""

from __future__ import annotations

import math
import time
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_analytics.sandbox.faults import Fault
from airflow_provider_analytics.sandbox.laravel import ApiError

_NGINX_PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)
_NGINX_TITLES = {429: "429 Too Many Requests", 503: "503 Service Temporarily Unavailable"}


class Throttle(BaseModel):
    """Laravel's middleware ``throttle:60,1``.

    :param attempts: requests per window.
    :param minutes: length of a window, which starts with its first request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: int = Field(default=60, ge=1)
    minutes: float = Field(default=1, gt=0)


class NginxLimit(BaseModel):
    """nginx's ``limit_req``.

    :param rate: requests per second.
    :param burst: requests above the rate that wait instead of being rejected.
    :param status: status of a rejected request, ``limit_req_status`` of nginx.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: float = Field(default=10, gt=0)
    burst: int = Field(default=0, ge=0)
    status: Literal[429, 503] = 503


class ThrottleCounter:
    """Counts the requests of a window."""

    def __init__(self) -> None:
        self._hits = 0
        self._ends = 0.0

    def count(self, limit: Throttle) -> dict[str, str]:
        """Count a request, and return the headers of its response.

        :raises ApiError: above the limit.
        """
        now = time.time()
        if now >= self._ends:
            self._hits, self._ends = 0, now + 60 * limit.minutes
        self._hits += 1
        left = max(0, limit.attempts - self._hits)
        headers = {"X-RateLimit-Limit": str(limit.attempts), "X-RateLimit-Remaining": str(left)}
        if self._hits > limit.attempts:
            headers["Retry-After"] = str(math.ceil(self._ends - now))
            headers["X-RateLimit-Reset"] = str(math.ceil(self._ends))
            raise ApiError(429, "Too Many Attempts.", headers)
        return headers


class NginxCounter:
    """Counts the requests above a rate."""

    def __init__(self) -> None:
        self._excess = -1.0
        self._last = 0.0

    def count(self, limit: NginxLimit) -> float | Fault:
        """Count a request; return the seconds for which nginx delays it, or the response to a rejected one."""
        now = time.monotonic()
        drained = (now - self._last) * limit.rate
        excess = max(0.0, self._excess - drained + 1)
        if excess > limit.burst:
            page = _NGINX_PAGE.format(_NGINX_TITLES[limit.status])
            return Fault(status=limit.status, body=page, headers={"Content-Type": "text/html"})
        self._excess, self._last = excess, now
        return excess / limit.rate
