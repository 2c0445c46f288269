# SPDX-License-Identifier: Apache-2.0
"""Requests as the sandbox received them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from starlette.datastructures import Headers

from airflow_provider_analytics.api.fields import OPERATIONS
from airflow_provider_analytics.api.laravel import API_PREFIX
from airflow_provider_analytics.sandbox.laravel import decode_pairs


def operation_of(method: str, path: str, root: str) -> str | None:
    """Return the operation of a request to a path below ``root``."""
    prefix = re.escape(root + API_PREFIX)
    for operation in OPERATIONS.values():
        pattern = prefix + operation.path.replace("{id}", "[^/]+")
        if method in operation.methods and re.fullmatch(pattern, path):
            return operation.name
    return None


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
    def raw_query(self) -> bytes:
        """Query string, undecoded."""
        return self.target.partition("?")[2].encode("latin-1")

    @property
    def query(self) -> list[tuple[str, str]]:
        """Decoded query parameters, in order; empty if the query string is malformed."""
        return _pairs(self.raw_query)

    @property
    def form(self) -> list[tuple[str, str]]:
        """Decoded form fields, in order; empty if the body is not a well-formed form."""
        return _pairs(self.body)

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None if it is absent."""
        return Headers(raw=self.headers).get(name)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return decode_pairs(raw)
    except ValueError:
        return []
