# SPDX-License-Identifier: Apache-2.0
"""A server with prerendered responses, in a separate process, so that it is not part of the measurements.

``python tests/benchmarks/canned.py WEBSITES LATENCY_MS`` prints its port, and responds until its standard input ends.
It lists websites newest first or oldest first, in pages, and returns each of them. Every response is cached.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from raw_server import RawServer, Request, http

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


def answer(websites: int, request: Request) -> bytes:
    """Return the whole response to a GET."""
    name = request.target.partition("?")[0].rpartition("/")[2]
    if name == "account":
        return http(200, {"data": {"id": 1, "email": "team@example.com"}})
    if name != "websites":
        return http(200, {"data": website(int(name))})
    query = request.query
    size, page = int(query.get("per_page", PAGE)), int(query.get("page", 1))
    ids = range(websites, 0, -1) if query.get("sort") == "desc" else range(1, websites + 1)
    if query.get("sort_by", "id") != "id":
        ids = ids[::-1]
    rows = [website(number) for number in ids[(page - 1) * size : page * size]]
    return http(200, {"data": rows, "meta": {"current_page": page, "per_page": size, "total": websites}})


def serve(websites: int, latency: float) -> None:
    answers: dict[str, bytes] = {}

    def respond(request: Request) -> bytes:
        if request.target not in answers:
            answers[request.target] = answer(websites, request)
        time.sleep(latency)
        return answers[request.target]

    with RawServer(respond) as server:
        print(server.port, flush=True)  # noqa: T201 - whoever started this reads it
        sys.stdin.read()


@contextmanager
def canned(websites: int, latency_ms: float = 0) -> Iterator[str]:
    """Run the server, and yield its base URL."""
    command = [sys.executable, str(Path(__file__)), str(websites), str(latency_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.stdin.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]), float(sys.argv[2]) / 1000)
