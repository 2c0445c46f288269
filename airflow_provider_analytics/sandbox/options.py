# SPDX-License-Identifier: Apache-2.0
"""Options of the simulated service, and presets of common ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

_SIMPLE = {"paginator": "simple"}
_CURSOR = {"paginator": "cursor", "page_parameter": "cursor"}
_UNTRUSTED = {"link_scheme": "other"}
#: Name to options of common services. ``untrusted-proxy``: the application is behind a proxy that ends TLS. It does not
#: trust the headers of the proxy, so its links have another scheme.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "length": {},
    "simple": _SIMPLE,
    "cursor": _CURSOR,
    "length-untrusted-proxy": _UNTRUSTED,
    "simple-untrusted-proxy": {**_SIMPLE, **_UNTRUSTED},
    "cursor-untrusted-proxy": {**_CURSOR, **_UNTRUSTED},
    "boolean-rule": {"boolean_rule": True},
    "throttle": {"throttle": {"attempts": 60, "minutes": 1}},
    "replica": {"seconds_behind": 1},
    "nginx-limit": {
        "nginx_limit": {
            "rate": 10,
            "burst": 5,
            "status": 503,
        }
    },
    "nginx-limit-429": {
        "nginx_limit": {
            "rate": 10,
            "burst": 0,
            "status": 429,
        }
    },
}


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


class Options(BaseModel):
    """Behavior of the simulated service where the interface leaves it open.

    The defaults describe a Laravel application without limits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Paginator of Laravel. ``length`` counts the websites. ``simple`` has no total and no last page. ``cursor`` has no
    #: page numbers either, and selects a page by a cursor.
    paginator: Literal["length", "simple", "cursor"] = "length"
    #: Query parameter that selects a page.
    page_parameter: str = Field(default="page", min_length=1)
    #: Scheme of the links: ``same`` as the base URL, or the ``other`` of http and https.
    link_scheme: Literal["same", "other"] = "same"
    #: Accept booleans only as 1 and 0, in forms and in the filter of the list, as Laravel's rule ``boolean`` does.
    boolean_rule: bool = False
    #: Create a second website of the same domain instead of rejecting it.
    allow_duplicates: bool = False
    #: Number of reads after each write that return the websites as they were before the write.
    reads_behind: int = Field(default=0, ge=0)
    #: Seconds after each write in which reads return the websites as they were before the write.
    seconds_behind: float = Field(default=0, ge=0)
    #: Limit of the application, with headers that report it; None: no limit.
    throttle: Throttle | None = None
    #: Limit of an nginx in front of the application, without such headers; None: no limit.
    nginx_limit: NginxLimit | None = None

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with some options changed.

        :param changes: options by name. ``preset`` is a name of :data:`PRESETS`; the other options then start from
            their defaults.
        :raises ValueError: for an unknown name or a bad value.
        """
        options = dict(changes)
        if "preset" not in options:
            return self.model_validate({**dict(self), **options})
        name = options.pop("preset")
        if name not in PRESETS:
            raise ValueError(f"unknown preset {name!r}; allowed: {', '.join(PRESETS)}")
        return self.model_validate({**PRESETS[name], **options})
