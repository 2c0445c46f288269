# SPDX-License-Identifier: Apache-2.0
"""The operations of the interface, for tests that use all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from airflow_provider_analytics.api import fields, laravel
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.reading import website_path

#: Every path of the interface starts with this text.
PREFIX = laravel.API_PREFIX


@dataclass(frozen=True)
class Operation:
    """An operation: its definition in the interface, its call by a client, and its requests."""

    name: str
    #: The first method of the client, and equivalent methods.
    methods: tuple[str, ...]
    #: Path below the prefix; ``{id}`` is the website.
    path: str
    call: Callable[[AnalyticsClient, int], Any]
    query: str = ""
    form: bytes = b""
    #: Number of requests of a successful call: the list is proven by one more.
    requests: int = 1

    @property
    def method(self) -> str:
        """The method that the client uses."""
        return self.methods[0]

    @property
    def takes_a_form(self) -> bool:
        """Whether a body is sent."""
        return bool(self.form)

    def target(self, website_id: int) -> str:
        """Return the target in the first line of the request, for a base URL without a path."""
        return f"{PREFIX}{self.path.format(id=website_id)}{self.query}"


def update(client: AnalyticsClient, website_id: object, **form: str) -> Any:
    """Send one update, without the reads around it."""
    return write(client, client.settings.update_method, website_path(str(website_id)), form)


def write(client: AnalyticsClient, method: str, path: str, form: Mapping[str, str] | None = None) -> Any:
    """Send a write, and return the record of the response, if it is not a delete."""
    record = laravel.record_or_none(client.transport.request(method, path, form=form))
    return None if method == "DELETE" else record


def _operation(name: str) -> Operation:
    """Return an operation; without an entry in a table below, it needs only an id, or nothing."""
    definition = fields.OPERATIONS[name]
    method, path = definition.methods[0], definition.path
    form = _FORMS.get(name, {})

    def call(client: AnalyticsClient, website_id: int) -> Any:
        if method != "GET":
            return write(client, method, path.format(id=website_id), form or None)
        of_website = [website_id] if "{id}" in path else []
        return getattr(client, definition.hook)(*of_website)

    return Operation(
        name, definition.methods, path, call, _QUERIES.get(name, ""), urlencode(form).encode(), _REQUESTS.get(name, 1)
    )


#: Operation to the form of its request.
_FORMS = {"create": {"domain": "new.example"}, "update": {"email": "1"}}
_QUERIES = {"list": "?per_page=100&sort_by=id&sort=desc"}
_REQUESTS = {"list": 2}
OPERATIONS: Mapping[str, Operation] = {name: _operation(name) for name in fields.OPERATIONS}
READS = tuple(name for name, operation in OPERATIONS.items() if operation.method == "GET")
WRITES = tuple(name for name in OPERATIONS if name not in READS)
