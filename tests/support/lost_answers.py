"""What becomes of a create whose answer is lost.

A service without any check for duplicates stores what is posted, or does not, or shows it only later, and answers in
one of 24 ways that say nothing. The task is run as Airflow does, with three retries, whose delay is longer than the
service takes to show a website. It holds when one website exists at the end, and the task succeeded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from airflow.providers.common.compat.sdk import AirflowFailException
from raw_server import RawServer, Reply, Request, answer_read, http

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator

DOMAIN = "new.example"
TRIES = 4
CUT = http(200, b'{"data"', length=500)
HTML = "text/html"

ANSWERS: dict[str, bytes | Reply] = {
    "closed without an answer": Reply(then="close"),
    "reset without an answer": Reply(then="reset"),
    "no HTTP": Reply(b"hello\r\n\r\n", then="close"),
    "cut in the first line": Reply(b"HTTP/1.1 20", then="close"),
    "cut in the head": Reply(b"HTTP/1.1 201 Created\r\nDate: Mon", then="close"),
    "cut in the body": Reply(CUT, then="close"),
    "reset in the body": Reply(CUT, then="reset"),
    "cut in its gzip": http(200, b"\x1f\x8b\x08", headers=[("Content-Encoding", "gzip")]),
    "no answer in time": Reply(then="hang"),
    "a body that stops": Reply(CUT, then="hang"),
    "202, a message": http(202, {"message": "queued"}),
    "200, empty": http(200),
    "200, a message": http(200, {"message": "created"}),
    "200, an HTML page": http(200, b"<html>Welcome</html>", kind=HTML),
    "200, an error inside": http(200, {"error": "replica is late"}),
    "302 to the list": http(302, headers=[("Location", "/api/v1/websites")]),
    "303 to the website": http(303, headers=[("Location", "/api/v1/websites/1")]),
    "408": http(408, {"message": "too slow"}),
    "500": http(500, {"message": "oops"}),
    "502, an HTML page": http(502, b"<html>Bad gateway</html>", kind=HTML),
    "503 with Retry-After": http(503, headers=[("Retry-After", "0")]),
    "504": http(504),
    "520, an HTML page": http(520, b"<html>Unknown error</html>", kind=HTML),
    "524": http(524),
}
#: When the service stores what is posted: at once; so that only the next try sees it; not at the first time.
STORES = ("at once", "late", "not at first")


class Service:
    """Stores every website that is posted, and loses the first answer."""

    def __init__(self, answer: bytes | Reply, stores: str) -> None:
        self.websites: list[str] = []
        self._answer = answer
        self._stores = stores
        self._posts = 0
        self.tries = 0

    def __call__(self, request: Request) -> bytes | Reply:
        if request.method == "POST":
            self._posts += 1
            if self._posts > 1 or self._stores != "not at first":
                self.websites.append(parse_qs(request.body.decode())["domain"][0])
            return self._answer if self._posts == 1 else http(201, {"data": self._records()[-1]})
        is_late = self._stores == "late" and self.tries == 1 and request.path.endswith("/websites")
        return answer_read(request, [] if is_late else self._records())

    def _records(self) -> list[dict[str, Any]]:
        return [{"id": number, "domain": domain} for number, domain in enumerate(self.websites, start=1)]


def try_once(answer: str, stores: str) -> tuple[int, bool]:
    """Return the number of websites at the end, and whether the task succeeded."""
    service = Service(ANSWERS[answer], stores)
    with RawServer(service) as server, _connection(server.url):
        for number in range(1, TRIES + 1):
            service.tries = number
            try:
                CreateWebsiteOperator(task_id="create", domain=DOMAIN, analytics_conn_id="lossy").execute({})
            except AirflowFailException:
                return len(service.websites), False
            except AnalyticsError:
                continue
            return len(service.websites), True
    return len(service.websites), False


@contextmanager
def _connection(url: str) -> Iterator[None]:
    fields = {"conn_type": "analytics", "host": url, "password": "key", "extra": {"max_retries": 0, "timeout": 0.2}}
    os.environ["AIRFLOW_CONN_LOSSY"] = json.dumps(fields)
    try:
        yield
    finally:
        del os.environ["AIRFLOW_CONN_LOSSY"]
