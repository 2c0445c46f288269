# SPDX-License-Identifier: Apache-2.0
"""Rate limits: Laravel's ``throttle``, and nginx's ``limit_req`` in front of the application."""

from __future__ import annotations

import math
import time

from starlette.responses import Response

from airflow_provider_analytics.sandbox.laravel import ApiError
from airflow_provider_analytics.sandbox.options import NginxLimit, Throttle

_NGINX_PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)
_NGINX_TITLES = {429: "429 Too Many Requests", 503: "503 Service Temporarily Unavailable"}


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

    def count(self, limit: NginxLimit) -> float | Response:
        """Count a request; return the seconds for which nginx delays it, or its response."""
        now = time.monotonic()
        drained = (now - self._last) * limit.rate
        excess = max(0.0, self._excess - drained + 1)
        if excess > limit.burst:
            page = _NGINX_PAGE.format(_NGINX_TITLES[limit.status])
            return Response(page, limit.status, {"Content-Type": "text/html"})
        self._excess, self._last = excess, now
        return excess / limit.rate
