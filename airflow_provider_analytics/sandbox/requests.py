# SPDX-License-Identifier: Apache-2.0
"""Requests as the sandbox received them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from starlette.datastructures import Headers

from airflow_provider_analytics.api.fields import OPERATIONS
from airflow_provider_analytics.api.laravel import API_PREFIX
from airflow_provider_analytics.sandbox.laravel import decode_pairs


def operations_at(path: str, root: str) -> dict[str, str]:
    """Return the operations of a path below ``root`` by their methods; empty if there is no such path."""
    found = {}
    for operation in OPERATIONS.values():
        pattern = re.escape(root + API_PREFIX) + operation.path.replace("{id}", "[^/]+")
        if re.fullmatch(pattern, path.rstrip("/")):
            for method in operation.methods:
                found[method] = operation.name
                if method == "GET":
                    found["HEAD"] = operation.name
    return found


@dataclass
class RecordedRequest:
    """A request as received. Its repr omits headers and body, which can contain secrets.

    :param operation: operation of the interface; None for any other method or path.
    :param target: path and query string, undecoded.
    :param origin: scheme and host that the client addressed, such as ``http://127.0.0.1:8500``.
    :param headers: in order of arrival, with lower-case names.
    :param authorized: whether the request had the right API key.
    :param status: status of the response; None before it is sent or if no response is sent.
    """

    operation: str | None
    method: str
    target: str
    origin: str
    headers: list[tuple[bytes, bytes]] = field(repr=False)
    body: bytes = field(repr=False)
    authorized: bool = False
    status: int | None = None

    @property
    def path(self) -> str:
        """Path, undecoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        """Decoded query parameters, in order."""
        return decode_pairs(self.target.partition("?")[2].encode("latin-1"))

    @property
    def form(self) -> list[tuple[str, str]]:
        """Decoded form fields, in order."""
        return decode_pairs(self.body)

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None if it is absent."""
        return Headers(raw=self.headers).get(name)
