"""Fault injection: faults, the queue of pending ones, and the responses they produce."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, field_validator

from airflow_provider_analytics.sandbox.options import Options
from airflow_provider_analytics.sandbox.routes import Operation
from airflow_provider_analytics.sandbox.store import Store, Website

_BODILESS = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


class Drift(BaseModel):
    """Changes to the store by another client, applied in the order of the fields.

    Each field is a number of random websites (repeatable) or a list. The list contains domains to create, or ids or
    domains to delete or to flip.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    create: int | list[str] = 0
    delete: int | list[int | str] = 0
    flip_favorite: int | list[int | str] = 0

    def apply(self, store: Store) -> None:
        """Apply the changes.

        :raises ValueError: if a listed website does not exist.
        """
        if isinstance(self.create, int):
            store.seed(self.create, seed=store.count())
        else:
            for domain in self.create:
                store.add(domain, unique=False)
        for website in _select_websites(store, self.delete):
            store.delete(website["id"])
        for website in _select_websites(store, self.flip_favorite):
            store.update(website["id"], {"favorite": not website["favorite"]})


def _select_websites(store: Store, which: int | list[int | str]) -> list[Website]:
    return store.sample(which) if isinstance(which, int) else [_find_website(store, name) for name in which]


def _find_website(store: Store, name: int | str) -> Website:
    found = store.get(name) if isinstance(name, int) else next(iter(store.find(name)), None)
    if found is None:
        msg = f"no website {name!r} in the store"
        raise ValueError(msg)
    return found


class Fault(BaseModel):
    """A fault to inject into selected requests.

    All fields can be combined. A fault with only default values changes nothing. The fields from ``operation`` to
    ``times`` select the requests. ``commit`` decides whether such a request is processed. Then ``drift`` changes the
    store. After ``delay``, the connection is reset (``drop``) or a response is sent. The response is the real one, or
    it consists of ``status``, ``headers`` and ``body``. The remaining fields modify it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64")

    #: Select requests of this operation. ``any`` selects all requests except those to the control endpoints.
    operation: Operation | Literal["any"] = "any"
    #: Select requests whose path and query string contain a match of this regular expression, such as ``/websites/17$``
    #: or ``page=3\b``.
    target: str | None = None
    #: Number of matching requests to skip first.
    skip: int = Field(default=0, ge=0)
    #: Number of requests to affect after that; None: all until the faults are cleared.
    times: int | None = Field(default=1, ge=1)

    #: Whether the request is processed. The default is true, unless the response is dropped or replaced by ``status``,
    #: ``body`` or ``echo``.
    commit: bool | None = None
    #: Changes to the store after the request is processed and before the response is sent.
    drift: Drift | None = None
    #: Options (of :class:`~airflow_provider_analytics.sandbox.options.Options`) that differ for these requests.
    options: dict[str, Any] = Field(default_factory=dict)
    #: Seconds before the response begins.
    delay: float = Field(default=0, ge=0)
    #: Reset the connection instead of sending a response.
    drop: bool = False

    #: Status of the response. Default: the real one, or 200 if the request is not processed.
    status: int | None = Field(default=None, ge=200, le=599)
    #: Headers to add or replace; None removes one.
    headers: dict[str, str | None] = Field(default_factory=dict)
    #: Replacement of the body. Text is sent as HTML, a dict or list as JSON, and bytes without a content type.
    #: ``headers`` can set another type. With a ``status`` and no body, an error has the sandbox's error body. Other
    #: responses are empty.
    body: bytes | str | dict[str, Any] | list[Any] | None = None
    #: Replace the body by an error that repeats the request's Authorization header and form fields.
    echo: bool = False

    #: Compress the body, before ``cut``.
    gzip: bool = False
    #: Send only ``body[:cut]``, then close the connection.
    cut: int | None = None
    #: Framing of the body. ``length``: Content-Length of the whole body. ``chunked``: chunked encoding. ``matching``:
    #: Content-Length of the bytes that are sent, so a cut truncates only the content and the connection stays open.
    framing: Literal["length", "chunked", "matching"] = "length"
    #: Seconds between the bytes of status line and headers, which are then never completed; 0 sends them at once.
    head_interval: float = Field(default=0, ge=0)
    #: Seconds between the bytes of the body; 0 sends them at once.
    interval: float = Field(default=0, ge=0)
    #: Send spaces after the body until the client disconnects or the sandbox stops. One space is sent per ``interval``.
    #: If the interval is 0, spaces are sent as fast as the client reads.
    endless: bool = False

    @field_validator("options")
    @classmethod
    def _known_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        Options().changed(options)
        return options

    @field_validator("target")
    @classmethod
    def _regular_expression(cls, target: str | None) -> str | None:
        try:
            re.compile(target or "")
        except re.error as error:
            msg = f"not a regular expression: {error}"
            raise ValueError(msg) from error
        return target

    @property
    def commits(self) -> bool:
        """Whether the request is processed."""
        if self.commit is not None:
            return self.commit
        return not (self.drop or self._replaces_body)

    @property
    def _replaces_body(self) -> bool:
        return self.status is not None or self.body is not None or self.echo

    def matches(self, operation: Operation | None, target: str) -> bool:
        """Whether a request matches ``operation`` and ``target``, regardless of ``skip`` and ``times``."""
        if self.operation not in ("any", operation):
            return False
        return self.target is None or re.search(self.target, target) is not None


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

    def pending(self) -> list[Fault]:
        """Return the pending faults; ``skip`` and ``times`` are the remaining counts."""
        with self._lock:
            return list(self._pending)

    def take(self, operation: Operation | None, target: str) -> Fault | None:
        """Count a request and return the fault that applies to it, if any.

        Each matching fault with a remaining ``skip`` counts the request as skipped. The first other matching fault
        applies. Therefore faults apply in the order in which they were added.
        """
        taken: Fault | None = None
        with self._lock:
            remaining: list[Fault] = []
            for fault in self._pending:
                if not fault.matches(operation, target):
                    remaining.append(fault)
                elif fault.skip:
                    remaining.append(fault.model_copy(update={"skip": fault.skip - 1}))
                elif taken is not None or fault.times is None:
                    remaining.append(fault)
                    taken = taken or fault
                else:
                    taken = fault
                    if fault.times > 1:
                        remaining.append(fault.model_copy(update={"times": fault.times - 1}))
            self._pending = remaining
        return taken


@dataclass(frozen=True)
class Answer:
    """A response before it is sent, without the headers Content-Length and Transfer-Encoding."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def make_answer(fault: Fault, real: Answer | None, *, authorization: str, form: bytes) -> Answer:
    """Apply a fault to the real response and return the result.

    :param real: the real response; None if the request was not processed.
    """
    answer = real or Answer(HTTPStatus.OK, {}, b"")
    if fault._replaces_body:
        answer = _replacement(fault, answer.status, authorization, form)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    body = answer.body
    if fault.gzip:
        body = gzip.compress(body, mtime=0)
        headers["content-encoding"] = "gzip"
    for name, value in fault.headers.items():
        headers.pop(name.lower(), None)
        if value is not None:
            headers[name.lower()] = value
    if answer.status in _BODILESS:
        body = b""
    return Answer(answer.status, headers, body)


def _replacement(fault: Fault, real_status: int, authorization: str, form: bytes) -> Answer:
    status = fault.status or real_status
    if fault.echo:
        return _json_response(status, _echo(authorization, form))
    if fault.body is None:
        if status >= HTTPStatus.BAD_REQUEST:
            return _json_response(status, {"message": _phrase(status), "errors": {}})
        return Answer(status, {}, b"")
    if isinstance(fault.body, bytes):
        return Answer(status, {}, fault.body)
    if isinstance(fault.body, str):
        return Answer(status, {"content-type": "text/html; charset=utf-8"}, fault.body.encode())
    return _json_response(status, fault.body)


def _json_response(status: int, value: Any) -> Answer:
    return Answer(status, {"content-type": "application/json"}, json.dumps(value).encode())


def _echo(authorization: str, form: bytes) -> dict[str, Any]:
    text = form.decode("latin-1")
    fields = {name: [value] for name, value in parse_qsl(text, keep_blank_values=True)}
    return {"message": f"Could not handle Authorization: {authorization} with body {text}", "errors": fields}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
