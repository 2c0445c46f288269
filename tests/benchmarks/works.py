# SPDX-License-Identifier: Apache-2.0
"""The measured works, each in a separate process: ``python works.py NAME ARGUMENTS_AS_JSON``.

A work prepares itself and then yields the measured function, which is called once for each line of the input. It prints
a line of JSON: seconds of CPU and of elapsed time, kilobytes of additional memory at the peak, and the result of the
function.
"""

from __future__ import annotations

import gc
import http.client
import importlib
import itertools
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF
from typing import Any
from urllib.parse import urlencode

from canned import API_KEY, PAGE

Work = Callable[[], Any]
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "Authorization": f"Bearer {API_KEY}",
    "Cache-Control": "no-cache",
    "User-Agent": "benchmark",
}
FORM = "application/x-www-form-urlencoded"
#: Requests at the same time, in both works that update websites.
THREADS = 8
LIST = {"per_page": str(PAGE), "sort_by": "id", "sort": "desc"}


# One website


def session_gets(url: str, number: int) -> Iterator[Work]:
    """``requests.Session.get().json()``, with the same headers."""
    with plain_session(url) as session:
        yield lambda: [session.get(f"{url}/api/v1/websites/{item}").json() for item in range(1, number + 1)] and None


def hook_gets(url: str, number: int) -> Iterator[Work]:
    with hook(url) as ours:
        ours.get_account()
        yield lambda: [ours.get_website(item) for item in range(1, number + 1)] and None


def http_hook_gets(url: str, number: int) -> Iterator[Work]:
    """``HttpHook.run().json()``, as HttpOperator does it."""
    from airflow.providers.http.hooks.http import HttpHook

    connect("http_default", conn_type="http", host=url)
    theirs = HttpHook(method="GET")
    theirs.run("api/v1/account", headers=HEADERS).json()
    yield (
        lambda: (
            [theirs.run(f"api/v1/websites/{item}", headers=HEADERS).json() for item in range(1, number + 1)] and None
        )
    )


def urllib3_gets(url: str, number: int) -> Iterator[Work]:
    """``urllib3.HTTPConnectionPool.request().json()``, with the same headers: the library that the package uses."""
    import urllib3

    with urllib3.connection_from_url(url, headers=HEADERS) as pool:
        pool.request("GET", "/api/v1/account").json()
        yield lambda: [pool.request("GET", f"/api/v1/websites/{item}").json() for item in range(1, number + 1)] and None


def http_client_gets(url: str, number: int) -> Iterator[Work]:
    """``http.client`` of the standard library, with the same headers."""
    with plain_connection(url) as get:
        yield lambda: [get(f"/api/v1/websites/{item}") for item in range(1, number + 1)] and None


def httpx2_gets(url: str, number: int) -> Iterator[Work]:
    """``httpx2.Client.get().json()``, with the same headers."""
    import httpx2

    with httpx2.Client(headers=HEADERS, trust_env=False) as client:
        client.get(f"{url}/api/v1/account").json()
        yield lambda: [client.get(f"{url}/api/v1/websites/{item}").json() for item in range(1, number + 1)] and None


def pyreqwest_gets(url: str, number: int) -> Iterator[Work]:
    """A request of ``pyreqwest``'s synchronous client, with the same headers."""
    from pyreqwest.client import SyncClientBuilder

    with SyncClientBuilder().default_headers(HEADERS).no_proxy().build() as client:

        def get(path: str) -> Any:
            return client.get(f"{url}/api/v1{path}").build().send().json()

        get("/account")
        yield lambda: [get(f"/websites/{item}") for item in range(1, number + 1)] and None


# The list


def session_list(url: str, pages: int) -> Iterator[Work]:
    """Page by page, without any proof."""
    with plain_session(url) as session:
        yield lambda: sum(1 for _ in rows_of(session, url, pages))


def http_client_list(url: str, pages: int) -> Iterator[Work]:
    """Page by page with ``http.client``, without any proof."""
    with plain_connection(url) as get:

        def read() -> int:
            rows = 0
            for page in range(1, pages + 1):
                query = urlencode({**LIST, "page": str(page)})
                rows += len(get(f"/api/v1/websites?{query}")["data"])
            return rows

        yield read


def hook_list(url: str, parallel: int | None = None, sort: str | None = None) -> Iterator[Work]:
    with hook(url, **({} if parallel is None else {"parallel_requests": parallel})) as ours:
        ours.get_account()

        def read() -> int:
            """Return the number of requests."""
            before: int = ours.client.stats.requests
            for _ in ours.iter_websites(**({"sort": sort} if sort else {})):
                pass
            return int(ours.client.stats.requests) - before

        yield read


def http_operator_list(url: str, pages: int) -> Iterator[Work]:
    """``HttpOperator`` with the pagination function of its documentation; returns the number of rows."""
    from airflow.providers.http.operators.http import HttpOperator

    connect("http_default", conn_type="http", host=url)

    def next_page(response: Any) -> dict[str, Any] | None:
        page = response.json()["meta"]["current_page"]
        return {"data": {**LIST, "page": str(page + 1)}} if page < pages else None

    operator = HttpOperator(
        task_id="list",
        method="GET",
        endpoint="api/v1/websites",
        data={**LIST, "page": "1"},
        headers=HEADERS,
        pagination_function=next_page,
        response_filter=lambda responses: sum(len(response.json()["data"]) for response in responses),
    )
    yield lambda: operator.execute({})


# A snapshot


def our_snapshot(url: str) -> Iterator[Work]:
    from airflow_provider_analytics.snapshots.catalog import snapshot_series
    from airflow_provider_analytics.snapshots.manifest import ListSource
    from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

    with tempfile.TemporaryDirectory() as folder, hook(url) as ours:
        client = ours.client
        ours.get_account()
        number = itertools.count()

        def write() -> int:
            """Write the first snapshot of a new dataset, and return the number of requests."""
            now, before = datetime.now(UTC), client.stats.requests
            source = ListSource(url=url, account_id="1")
            origin = Origin(client.iter_websites, source, client.stats, secrets=client.redact)
            dataset = snapshot_series(f"file://{folder}/{next(number)}/websites")
            take_snapshot(dataset, now.date(), origin, clock=lambda: now, options=SnapshotOptions("jsonl"))
            return int(client.stats.requests - before)

        yield write


# Updates


def http_client_updates(url: str, number: int) -> Iterator[Work]:
    """Update and read each website with ``http.client``, eight at a time, without any check."""
    values = itertools.count(1)

    def update(first: int, value: int) -> None:
        with plain_connection(url) as get, closing(http.client.HTTPConnection(url.removeprefix("http://"))) as writer:
            for item in range(first, number + 1, THREADS):
                form = urlencode({"exclude_ips": f"192.0.2.{value}"})
                writer.request("PATCH", f"/api/v1/websites/{item}", form, {**HEADERS, "Content-Type": FORM})
                writer.getresponse().read()
                get(f"/api/v1/websites/{item}")

    with ThreadPoolExecutor(THREADS) as threads:
        yield lambda: [*threads.map(update, range(1, THREADS + 1), [next(values)] * THREADS)] and None


def operator_updates(url: str, number: int) -> Iterator[Work]:
    """Sync a list that differs on every website."""
    from unittest import mock

    from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator

    extra = {"parallel_requests": THREADS}
    connect("analytics_default", conn_type="analytics", host=url, password=API_KEY, extra=extra)
    values = itertools.count(101)

    def sync() -> None:
        context: Any = {"ti": mock.MagicMock(map_index=-1), "run_id": "r"}
        operator = SyncExcludedIpsOperator(task_id="t", exclude_ips=[f"192.0.2.{next(values)}"], mode="replace")
        assert operator.execute(context)["applied"] == number

    yield sync


# Imports


def modules(names: list[str]) -> Iterator[Work]:
    """Import modules in a process that has imported Airflow's base operator."""
    from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, BaseOperatorLink  # noqa: F401

    yield lambda: [importlib.import_module(name) for name in names] and None


# Helpers of every work


def connect(conn_id: str, **fields: Any) -> None:
    os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps(fields)


@contextmanager
def plain_session(url: str) -> Iterator[Any]:
    """Yield a session that is connected."""
    import requests

    with requests.Session() as session:
        session.headers.update(HEADERS)
        session.get(f"{url}/api/v1/account").json()
        yield session


@contextmanager
def plain_connection(url: str) -> Iterator[Callable[[str], Any]]:
    """Yield a function that returns the JSON of a path, over a connection of ``http.client``."""
    with closing(http.client.HTTPConnection(url.removeprefix("http://"))) as connection:

        def get(path: str) -> Any:
            connection.request("GET", path, headers={**HEADERS, "Accept-Encoding": "identity"})
            return json.loads(connection.getresponse().read())

        get("/api/v1/account")
        yield get


def rows_of(session: Any, url: str, pages: int) -> Iterator[dict[str, Any]]:
    """Yield the rows page by page."""
    for page in range(1, pages + 1):
        yield from session.get(f"{url}/api/v1/websites", params={**LIST, "page": str(page)}).json()["data"]


@contextmanager
def hook(url: str, **extra: Any) -> Iterator[Any]:
    """Yield a hook of this package."""
    from airflow_provider_analytics.hooks.analytics import AnalyticsHook

    connect("analytics_default", conn_type="analytics", host=url, password=API_KEY, extra=extra)
    with AnalyticsHook() as ours:
        yield ours


def memory(which: str) -> int:
    """Return the size of this process in kilobytes: ``VmRSS`` now, or ``VmHWM``, the largest since it was reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{which}:")[2].split()[0])


def cpu() -> float:
    """Return the seconds of CPU of this process and its children so far."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def measure(work: Work) -> dict[str, Any]:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    size, began, used = memory("VmRSS"), time.perf_counter(), cpu()
    returned = work()
    spent = {"cpu": cpu() - used, "wall": time.perf_counter() - began, "memory": memory("VmHWM") - size}
    return {**spent, "returned": returned}


def main(name: str, arguments: str) -> None:
    ready: Iterator[Work] = globals()[name](**json.loads(arguments))
    work = next(ready)
    for _ in sys.stdin:
        sys.stdout.write(f"\n{json.dumps(measure(work))}\n")
        sys.stdout.flush()
    next(ready, None)


if __name__ == "__main__":
    main(*sys.argv[1:])
