"""A server that sends exactly the bytes a test gives it."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    raw: bytes = field(repr=False)

    @property
    def query(self) -> dict[str, str]:
        """Query parameters."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))


@dataclass(frozen=True)
class Reply:
    """Bytes to send, and what happens to the connection then: ``keep``, ``close``, ``reset``, ``hang``
    or ``drip``, which sends one blank after the other for some seconds, and closes it."""

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
    """Return the bytes of an answer; a body that is not bytes is rendered as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(data) if length is None else length}"]
    if kind is not None:
        head.append(f"Content-Type: {kind}")
    head += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + data


Respond = Callable[[Request], bytes | Reply]


class RawServer:
    """Listens on a free port of this machine; ``respond`` answers each request, in a thread per connection."""

    def __init__(self, respond: Respond | Sequence[bytes | Reply], tls: ssl.SSLContext | None = None) -> None:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
        return [f"{request.method} {request.target.partition('?')[0]}" for request in self.requests]

    def received(self, number: int) -> list[Request]:
        """Wait until so many requests arrived: a client that times out may be faster than this server."""
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
            while (request := _read(connection)) is not None:
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
                if reply.then == "hang":
                    continue  # the next read waits until the client gives up
                if reply.then == "reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if reply.then in ("close", "reset", "drip"):
                    break
        except OSError:
            pass
        finally:
            connection.close()
            self.closed.set()


def _in_turn(replies: Sequence[bytes | Reply]) -> Respond:
    """Return what gives one reply after the other, and the last one for good."""
    left = list(replies)
    lock = threading.Lock()

    def respond(request: Request) -> bytes | Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return respond


def _read(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        more = connection.recv(65536)
        if not more:
            return None
        body += more
    method, target, _ = first.split(" ")
    return Request(method, target, headers, body, head + b"\r\n\r\n" + body)
