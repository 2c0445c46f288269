"""State of a sandbox: websites, options, faults and recorded requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_analytics.sandbox.faults import Fault, FaultQueue
from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.parameters import InvalidInputError, decode_pairs
from airflow_provider_analytics.sandbox.routes import Operation
from airflow_provider_analytics.sandbox.store import Store


@dataclass
class RecordedRequest:
    """A request as received. Its repr omits headers and body, which may contain secrets.

    :param operation: operation of the interface; None for any other method or path.
    :param target: path and query string, undecoded.
    :param headers: in order of arrival, with lower-case names.
    :param authorized: whether the request had the right API key.
    :param received: time of arrival on the monotonic clock, in seconds.
    :param status: status of the response; None before it is sent or if no response is sent.
    """

    operation: Operation | None
    method: str
    target: str
    headers: list[tuple[bytes, bytes]] = field(repr=False)
    body: bytes = field(repr=False)
    authorized: bool = False
    received: float = field(default_factory=time.monotonic, repr=False)
    status: int | None = None

    @property
    def path(self) -> str:
        """Path, undecoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        """Decoded query parameters, in order; empty if the query string is malformed."""
        return _pairs(self.target.partition("?")[2].encode())

    @property
    def form(self) -> list[tuple[str, str]]:
        """Decoded form fields, in order; empty if the body is not a well-formed form."""
        return _pairs(self.body)

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None if it is absent."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key == wanted), None)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return decode_pairs(raw)
    except InvalidInputError:
        return []


class State:
    """The state of one sandbox, shared by the service, the control endpoints and the thread of the test."""

    def __init__(self, store: Store, api_key: str, initial_options: Options) -> None:
        self.store = store
        self.api_key = api_key
        self.options = initial_options
        self.faults = FaultQueue()
        self.requests: list[RecordedRequest] = []
        #: Called for each request before it is processed. If it returns a fault, the fault is applied to the request.
        self.meanwhile: Callable[[RecordedRequest], Fault | None] = lambda _: None
        self._initial_options = initial_options

    def reset(self) -> None:
        """Remove all websites, faults and recorded requests, and restore the initial options."""
        self.faults.clear()
        self.options = self._initial_options
        self.store.clear()
        self.requests.clear()
        self.meanwhile = lambda _: None
