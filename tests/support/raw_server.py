# SPDX-License-Identifier: Apache-2.0
"""A server that sends exactly the bytes of a test."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, BinaryIO, Self
from urllib.parse import parse_qsl

from requests.structures import CaseInsensitiveDict


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    method: str
    target: str
    headers: CaseInsensitiveDict[str]
    body: bytes
    raw: bytes = field(repr=False)

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """Query parameters."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))


@dataclass(frozen=True)
class Reply:
    """Bytes to send, and the next action on the connection: ``keep``, ``close``, ``reset``, ``hang``,
    or ``drip``, which sends a blank repeatedly for some seconds, and closes it.
    """

    data: bytes = b""
    then: str = "keep"


def http(
    status: int = 200,
    body: Any = b"",
    *,
    kind: str | None = "application/json",
    headers: Sequence[tuple[str, str]] = (),
    length: int | None = None,
) -> bytes:
    """Return the bytes of a response; a body that is not bytes is rendered as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(data) if length is None else length}"]
    if kind is not None:
        head.append(f"Content-Type: {kind}")
    head += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + data


def rows(*ids: int, **fields: Any) -> list[dict[str, Any]]:
    """Return the records of websites with these ids and further fields."""
    return [{"id": n, "domain": f"{n}.example", **fields} for n in ids]


def list_body(query: Mapping[str, str], records: Iterable[dict[str, Any]], **meta: Any) -> dict[str, Any]:
    """Return the body of a list response: the records of a page in the requested order.

    :param meta: replaces the metadata, which are the total and the number of the page.
    """
    found = sorted(records, key=itemgetter(query.get("sort_by", "id")), reverse=query.get("sort", "desc") == "desc")
    size, page = int(query.get("per_page", "100")), int(query.get("page", "1"))
    numbers = {"total": len(found), "current_page": page}
    return {"data": found[(page - 1) * size : page * size], "meta": {**numbers, **meta}}


def answer_read(request: Request, records: Sequence[dict[str, Any]], **meta: Any) -> bytes:
    """Respond like a service with these records: the account, a page of the list (:func:`list_body`), or a website."""
    if request.path.endswith("/account"):
        return http(200, {"data": {"id": 1}})
    if request.path.endswith("/websites"):
        return http(200, list_body(request.query, records, **meta))
    found = [record for record in records if request.path.endswith(f"/websites/{record['id']}")]
    return http(200, {"data": found[0]}) if found else http(404, {"message": "none"})


Respond = Callable[[Request], bytes | Reply]
#: A reply to all requests, or a sequence of replies, of which the last one is repeated.
Replies = bytes | Reply | Sequence[bytes | Reply]


class RawServer:
    """Listens on a free port of this machine; ``respond`` responds to each request, in a thread per connection."""

    def __init__(self, respond: Respond | Replies, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.closed = threading.Event()
        self._arrived = threading.Condition()
        self._respond = respond if callable(respond) else _in_turn(respond)
        self._tls = tls
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # accept() in another thread is not ended by close() alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for connection in self._open:
            connection.close()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def sent(self) -> list[str]:
        """Method and target of each request, in order."""
        return [f"{request.method} {request.path}" for request in self.requests]

    def received(self, number: int) -> list[Request]:
        """Wait for this number of requests: a client that times out might be faster than this server."""
        with self._arrived:
            self._arrived.wait_for(lambda: len(self.requests) >= number, 30)
        return self.requests

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection.makefile("rb") as file:
                while (request := _read(file)) is not None and self._answer(request, connection):
                    pass
        except OSError:
            pass
        finally:
            connection.close()
            self.closed.set()

    def _answer(self, request: Request, connection: socket.socket) -> bool:
        """Send the reply to a request; return whether the connection remains open."""
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        reply = self._respond(request)
        if isinstance(reply, bytes):
            reply = Reply(reply)
        connection.sendall(reply.data)
        for _ in range(2000 if reply.then == "drip" else 0):
            connection.sendall(b" ")
            time.sleep(0.001)
        if reply.then == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # If it hangs, the next read waits until the client closes the connection.
        return reply.then in ("keep", "hang")


def _in_turn(replies: Replies) -> Respond:
    """Return a function that returns the replies in sequence, and repeats the last one."""
    left = [replies] if isinstance(replies, (bytes, Reply)) else [*replies]
    lock = threading.Lock()

    def respond(request: Request) -> bytes | Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return respond


def _read(file: BinaryIO) -> Request | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = file.readline()
        if not line:
            return None
        head += line
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = CaseInsensitiveDict((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
    body = file.read(int(headers.get("Content-Length", "0")))
    if len(body) < int(headers.get("Content-Length", "0")):
        return None
    method, target, _ = first.split(" ")
    return Request(method, target, headers, body, head + body)
