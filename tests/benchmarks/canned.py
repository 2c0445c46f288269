"""A server of answers that are rendered beforehand, in a process of its own: it is never what is measured.

``python tests/benchmarks/canned.py WEBSITES LATENCY_MS`` prints its port, and answers until its standard input ends.
It lists websites newest first or oldest first, in pages, and shows each of them. Every answer is kept once it was made.
"""

from __future__ import annotations

import asyncio
import json
import select
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

API_KEY = "benchmark"
PAGE = 100


def website(website_id: int) -> dict[str, object]:
    """Return a record with every documented field."""
    return {
        "id": website_id,
        "domain": f"site-{website_id:08d}.example.com",
        "privacy": 1,
        "email": 0,
        "exclude_bots": 1,
        "exclude_params": "utm_source\nutm_medium",
        "exclude_ips": "203.0.113.7\n203.0.113.8",
        "favorite": website_id % 10 == 0,
    }


def answer(websites: int, target: str) -> bytes:
    """Return the whole response to a GET."""
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query))
    name = parts.path.rpartition("/")[2]
    body: dict[str, object]
    if name == "websites":
        size, page = int(query.get("per_page", PAGE)), int(query.get("page", 1))
        ids = range(websites, 0, -1) if query.get("sort") == "desc" else range(1, websites + 1)
        if query.get("sort_by", "id") != "id":
            ids = ids[::-1]
        rows = [website(number) for number in ids[(page - 1) * size : page * size]]
        body = {"data": rows, "meta": {"current_page": page, "per_page": size, "total": websites}}
    elif name == "account":
        body = {"data": {"id": 1, "email": "team@example.com"}}
    else:
        body = {"data": website(int(name))}
    content = json.dumps(body, separators=(",", ":")).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


class Protocol(asyncio.Protocol):
    """One connection: GETs without a body, answered in their order."""

    def __init__(self, websites: int, latency: float, answers: dict[bytes, bytes]) -> None:
        self._websites = websites
        self._latency = latency
        self._answers = answers
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            target = self._received[: self._received.find(b"\r\n")].split(b" ")[1]
            self._received = self._received[end + 4 :]
            found = self._answers.get(target)
            if found is None:
                found = self._answers[target] = answer(self._websites, target.decode())
            if self._latency:
                asyncio.get_running_loop().call_later(self._latency, self._transport.write, found)
            else:
                self._transport.write(found)


class PreciseSelector(selectors.DefaultSelector):
    """Wakes up in time: epoll rounds to milliseconds, once more for each request meanwhile.

    select() does not, and looks at no more than the one descriptor of epoll: those of a client that leaves a thousand
    connections open are beyond what it can look at.
    """

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            select.select([self.fileno()], [], [], timeout)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        return ready


def precise_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(PreciseSelector())


async def serve(websites: int, latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(Protocol, websites, latency, {}), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - whoever started this reads it
    await loop.run_in_executor(None, sys.stdin.read)


@dataclass(frozen=True)
class Canned:
    """A running server.

    :param url: base URL.
    :param websites: number of websites.
    """

    url: str
    websites: int


@contextmanager
def canned(websites: int, latency_ms: float = 0) -> Iterator[Canned]:
    """Run the server, and yield where it is."""
    command = [sys.executable, str(Path(__file__)), str(websites), str(latency_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Canned(f"http://127.0.0.1:{process.stdout.readline().strip()}", websites)
        finally:
            process.stdin.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
