# SPDX-License-Identifier: Apache-2.0
"""Faults: the requests that they affect, and their changes to the response."""

from __future__ import annotations

import re
import threading
from http import HTTPStatus
from http.client import responses
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.responses import HTMLResponse, JSONResponse, Response

from airflow_provider_analytics.api.fields import OPERATIONS
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.store import Store


class Drift(BaseModel):
    """Changes to the store by another client, applied in the order of the fields; repeatable.

    :param create: number of websites to create.
    :param delete: number of random websites to delete.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    create: int = 0
    delete: int = 0

    def apply(self, store: Store) -> None:
        """Apply the changes."""
        store.seed(self.create, seed=len(store.websites()))
        for website in store.sample(self.delete):
            store.delete(website["id"])


class Fault(BaseModel):
    """A fault to inject into selected requests.

    All fields can be combined. A fault with only default values changes nothing. The fields from ``operation`` to
    ``times`` select the requests. ``commit`` decides whether such a request is processed. Then ``drift`` changes the
    store. After ``delay``, the connection is reset (``drop``) or a response is sent. The response is the real one, or
    it consists of ``status``, ``headers``, and ``body``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Select requests of this operation. ``any`` selects all requests.
    operation: str = "any"
    #: Select requests whose path and query string contain a match of this regular expression, such as ``/websites/17$``
    #: or ``page=3\b``.
    target: re.Pattern[str] | None = None
    #: Number of matching requests to skip first.
    skip: int = Field(default=0, ge=0)
    #: Number of requests to affect after that; None: all until the faults are cleared.
    times: int | None = Field(default=1, ge=1)

    #: Whether the request is processed. The default is true, unless the response is dropped or replaced by ``status``
    #: or ``body``.
    commit: bool | None = None
    #: Changes to the store after the request is processed and before the response is sent.
    drift: Drift | None = None
    #: Seconds before the response starts.
    delay: float = Field(default=0, ge=0)
    #: Reset the connection instead of sending a response.
    drop: bool = False

    #: Status of the response. Default: the real one, or 200 if the request is not processed.
    status: int | None = Field(default=None, ge=200, le=599)
    #: Headers to add or replace; None removes one. With a ``Content-Length`` above the length of the body, the
    #: connection is closed in the middle of the body.
    headers: dict[str, str | None] = Field(default_factory=dict)
    #: Replacement of the body. Text is sent as HTML, a dict or list as JSON, and bytes without a content type.
    #: ``headers`` can set another type. With a ``status`` and no body, an error has the sandbox's error body. Other
    #: responses are empty.
    body: str | bytes | dict[str, Any] | list[Any] | None = None

    @field_validator("operation")
    @classmethod
    def _is_operation(cls, name: str) -> str:
        if name not in ("any", *OPERATIONS):
            raise ValueError(f"{name!r} is not an operation. Allowed: any, {', '.join(OPERATIONS)}")
        return name

    @property
    def commits(self) -> bool:
        """Whether the request is processed."""
        if self.commit is not None:
            return self.commit
        return not (self.drop or self.replaces_body)

    @property
    def replaces_body(self) -> bool:
        """Whether the body is not the real one."""
        return self.status is not None or self.body is not None

    def matches(self, request: RecordedRequest) -> bool:
        """Whether a request has the ``operation`` and ``target``, regardless of ``skip`` and ``times``."""
        if self.operation not in ("any", request.operation):
            return False
        if self.target is None:
            return True
        return self.target.search(request.target) is not None

    def apply(self, real: Response | None) -> Response:
        """Return the response to send.

        :param real: the real response; None if the request was not processed.
        """
        response = real or Response()
        if self.replaces_body:
            response = self._replacement(self.status or response.status_code)
        for name, value in self.headers.items():
            if value is None:
                del response.headers[name]
            else:
                response.headers[name] = value
        return response

    def _replacement(self, status: int) -> Response:
        if status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            return Response(status_code=status)
        if self.body is None and status >= HTTPStatus.BAD_REQUEST:
            return JSONResponse({"message": responses.get(status, "Error")}, status)
        if self.body is None or isinstance(self.body, bytes):
            return Response(self.body, status)
        if isinstance(self.body, str):
            return HTMLResponse(self.body, status)
        return JSONResponse(self.body, status)


class FaultQueue:
    """The pending faults, in order, with their remaining counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Append a fault to the pending ones."""
        with self._lock:
            self._pending.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._pending.clear()

    def take(self, request: RecordedRequest) -> Fault | None:
        """Count a request and return the fault that applies to it, if any.

        Each matching fault with a remaining ``skip`` counts the request as skipped. The first other matching fault
        applies. Therefore faults apply in the order in which they were added.
        """
        taken: Fault | None = None
        remaining: list[Fault] = []
        with self._lock:
            for fault in self._pending:
                is_match = fault.matches(request)
                left = fault
                if is_match and fault.skip:
                    left = fault.model_copy(update={"skip": fault.skip - 1})
                elif is_match and taken is None:
                    taken = fault
                    left = fault.model_copy(update={"times": fault.times and fault.times - 1})
                if left.times != 0:
                    remaining.append(left)
            self._pending = remaining
        return taken
