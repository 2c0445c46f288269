"""Everything a sandbox holds: websites, options, faults and the log of requests."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from airflow_provider_analytics.sandbox.faults import FaultQueue
from airflow_provider_analytics.sandbox.parameters import InvalidInputError, decode_pairs
from airflow_provider_analytics.sandbox.responses import Options
from airflow_provider_analytics.sandbox.routes import Operation
from airflow_provider_analytics.sandbox.store import Store


@dataclass
class RecordedRequest:
    """A request as it arrived. Its representation leaves out what may hold secrets."""

    operation: Operation | None
    """The operation of the interface, or None for any other method or path."""
    method: str
    target: str
    """Path and query string, undecoded."""
    headers: list[tuple[bytes, bytes]] = field(repr=False)
    """In the order of arrival, names in lower case."""
    body: bytes = field(repr=False)
    authorized: bool = False
    """Whether it carried the right API key."""
    received: float = field(default_factory=time.monotonic, repr=False)
    """Seconds on the monotonic clock, for intervals between requests."""
    status: int | None = None
    """The status that was sent; None before that, and for good when the connection was dropped instead."""

    @property
    def path(self) -> str:
        """The path, undecoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        """The decoded query parameters, in order; empty if they are not well-formed."""
        return _pairs(self.target.partition("?")[2].encode())

    @property
    def form(self) -> list[tuple[str, str]]:
        """The decoded form fields, in order; empty if the body is not a well-formed form."""
        return _pairs(self.body)

    def header(self, name: str) -> str | None:
        """Return the (first) value of a header, None if it is absent."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key == wanted), None)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return decode_pairs(raw)
    except InvalidInputError:
        return []


class State:
    """The state of one sandbox, shared by the service, the control endpoints and the test's own thread."""

    def __init__(self, store: Store, api_key: str, initial_options: Options) -> None:
        self.store = store
        self.api_key = api_key
        self.options = initial_options
        self.faults = FaultQueue()
        self.requests: list[RecordedRequest] = []
        self._initial_options = initial_options

    def reset(self) -> None:
        """Back to the start: no websites, the first options, no faults, an empty log."""
        self.faults.clear()
        self.options = self._initial_options
        self.store.clear()
        self.requests.clear()
