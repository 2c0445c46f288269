"""Faults: what a sandbox is told to do wrong, for how many requests of which operation."""

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

from airflow_provider_analytics.sandbox.responses import Options
from airflow_provider_analytics.sandbox.routes import Operation
from airflow_provider_analytics.sandbox.store import Store, Website

_BODILESS = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


class Drift(BaseModel):
    """Changes of the store that happen behind the client's back.

    Each field is a number of websites taken at random (repeatably), or a list that names them: new domains to
    create, ids or domains to delete or to flip. They happen in the order of the fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    create: int | list[str] = 0
    delete: int | list[int | str] = 0
    flip_favorite: int | list[int | str] = 0

    def apply(self, store: Store) -> None:
        """Carry the changes out. A website that is named and not there is a ValueError."""
        if isinstance(self.create, int):
            store.seed(self.create, seed=store.count())
        else:
            for domain in self.create:
                store.add(domain, unique=False)
        for website in _chosen(store, self.delete):
            store.delete(website["id"])
        for website in _chosen(store, self.flip_favorite):
            store.update(website["id"], {"favorite": not website["favorite"]})


def _chosen(store: Store, which: int | list[int | str]) -> list[Website]:
    return store.sample(which) if isinstance(which, int) else [_named(store, name) for name in which]


def _named(store: Store, name: int | str) -> Website:
    found = store.get(name) if isinstance(name, int) else next(iter(store.find(name)), None)
    if found is None:
        msg = f"there is no website {name!r} to change"
        raise ValueError(msg)
    return found


class Fault(BaseModel):
    """What goes wrong with some requests. All fields may be combined; a fault without any changes nothing.

    The fields from ``operation`` to ``times`` choose the requests. The request is then carried out or not
    (``commit``), the store drifts (``drift``), ``delay`` passes, and the answer is dropped (``drop``) or sent:
    the real one, or one made of ``status``, ``headers`` and ``body``, damaged as the remaining fields say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64")

    operation: Operation | Literal["any"] = "any"
    """Requests of this operation; ``any`` is every request outside the control endpoints."""
    target: str | None = None
    r"""A regular expression to be found in path and query string, such as ``/websites/17$`` or ``page=3\b``."""
    skip: int = Field(default=0, ge=0)
    """Let this many matching requests pass first."""
    times: int | None = Field(default=1, ge=1)
    """Then apply to this many; None: to all until the faults are cleared."""

    commit: bool | None = None
    """Whether the request is carried out. By default it is unless the answer is replaced (by ``status``, ``body`` or
    ``echo``) or dropped."""
    drift: Drift | None = None
    """Changes of the store after the request was carried out and before it is answered."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options (of :class:`~airflow_provider_analytics.sandbox.responses.Options`) that differ for these requests."""
    delay: float = Field(default=0, ge=0)
    """Seconds before the answer begins."""
    drop: bool = False
    """Reset the connection instead of answering."""

    status: int | None = Field(default=None, ge=200, le=599)
    """Status of the answer. By default that of the real answer, or 200 if the request is not carried out."""
    headers: dict[str, str | None] = Field(default_factory=dict)
    """Headers added to the answer, or put in place of its own; None removes one."""
    body: bytes | str | dict[str, Any] | list[Any] | None = None
    """Another body: text is sent as HTML, a dict or list as JSON (``headers`` may say otherwise), bytes without a type.
    With a ``status`` and no body, an error has the sandbox's error body and anything else an empty one."""
    echo: bool = False
    """The body is an error that repeats the request's Authorization header and its form fields."""

    gzip: bool = False
    """Compress the body (before it is cut)."""
    cut: int | None = None
    """Send the body only up to this index, as in ``body[:cut]``, and then close the connection."""
    framing: Literal["length", "chunked", "matching"] = "length"
    """How the body is announced: by the Content-Length of the whole body, in chunks, or by the Content-Length of what
    is really sent: then a cut damages the content only, and the connection stays open."""
    interval: float = Field(default=0, ge=0)
    """Send the body byte by byte, this many seconds apart."""
    endless: bool = False
    """The body is followed by spaces without end, byte by byte if there is an ``interval`` and as fast as the client
    reads if there is none; until the client goes away or the sandbox stops."""

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
        """Whether the request is carried out."""
        if self.commit is not None:
            return self.commit
        return not (self.drop or self._replaces_body)

    @property
    def _replaces_body(self) -> bool:
        return self.status is not None or self.body is not None or self.echo

    def concerns(self, operation: Operation | None, target: str) -> bool:
        """Whether a request is one of those that this fault chooses, its counts left aside."""
        if self.operation not in ("any", operation):
            return False
        return self.target is None or re.search(self.target, target) is not None


class FaultQueue:
    """The faults in force, with what is left of their counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Put a fault behind those in force."""
        with self._lock:
            self._pending.append(fault)

    def clear(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._pending.clear()

    def pending(self) -> list[Fault]:
        """Return the faults in force; ``skip`` and ``times`` are what is left of them."""
        with self._lock:
            return list(self._pending)

    def take(self, operation: Operation | None, target: str) -> Fault | None:
        """Count a request and return the fault that applies to it.

        Every fault that concerns the request counts it as skipped while it has any to skip; the first of the others
        applies. So faults added one after the other apply one after the other.
        """
        taken: Fault | None = None
        with self._lock:
            remaining: list[Fault] = []
            for fault in self._pending:
                if not fault.concerns(operation, target):
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
    """An answer before it is sent; ``headers`` are without those that describe its length."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def make_answer(fault: Fault, real: Answer | None, *, authorization: str, form: bytes) -> Answer:
    """Return the answer to send: the real one (None when the request was not carried out) as the fault changes it."""
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
        return _json_answer(status, _echo(authorization, form))
    if fault.body is None:
        if status >= HTTPStatus.BAD_REQUEST:
            return _json_answer(status, {"message": _phrase(status), "errors": {}})
        return Answer(status, {}, b"")
    if isinstance(fault.body, bytes):
        return Answer(status, {}, fault.body)
    if isinstance(fault.body, str):
        return Answer(status, {"content-type": "text/html; charset=utf-8"}, fault.body.encode())
    return _json_answer(status, fault.body)


def _json_answer(status: int, value: Any) -> Answer:
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
