# SPDX-License-Identifier: Apache-2.0
"""Requests per operation for docs/reference/performance.md: counted by the sandbox, with 250 websites, no changes.

``make requests`` writes the table.
"""

from __future__ import annotations

import argparse
import functools
import operator
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from airflow_provider_analytics.api.fields import OPERATIONS
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

WEBSITES = 250
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "performance.md"
_BLOCK = re.compile(r"(<!-- begin requests, written by `make requests` -->\n).*?(<!-- end requests -->)", re.DOTALL)
_NEW: dict[str, Any] = {"domain": "new.example", "privacy": "private"}
_FILE = {
    "websites": {"7.example": {"privacy": "public"}, "8.example": {"privacy": "public"}, "new.example": {"privacy": 1}}
}

Call = Callable[[], Any]


def _task(kind: type[Any], **arguments: Any) -> Call:
    return lambda: kind(task_id="t", **arguments).execute({"ti": mock.MagicMock(map_index=-1), "run_id": "r"})


def _hook(call: Callable[[AnalyticsHook], Any]) -> Call:
    def work() -> None:
        with AnalyticsHook() as hook:
            call(hook)

    return work


def cases() -> dict[str, Call]:
    """Return the columns of the table."""
    others = {}
    for operation in OPERATIONS.values():
        if "{id}" in operation.path and operation.name not in ("update", "delete"):
            others[f"`hook.{operation.hook}`"] = _hook(operator.methodcaller(operation.hook, 7))
    return {
        **others,
        "`hook.find_website`, a domain that exists": _hook(lambda hook: hook.find_website("7.example")),
        "`hook.find_website`, a domain that does not": _hook(lambda hook: hook.find_website("new.example")),
        "`hook.create_website`": _hook(lambda hook: hook.create_website(**_NEW)),
        "`hook.ensure_website`, `CreateWebsiteOperator`, a new domain": _task(CreateWebsiteOperator, **_NEW),
        "`CreateWebsiteOperator`, a domain that exists": _task(CreateWebsiteOperator, domain="7.example"),
        "`UpdateWebsiteOperator`, by id": _task(UpdateWebsiteOperator, website_id=7, privacy="public"),
        "`UpdateWebsiteOperator`, by domain": _task(UpdateWebsiteOperator, domain="7.example", privacy="public"),
        "`DeleteWebsiteOperator`, by id": _task(DeleteWebsiteOperator, website_id=7),
        "`DeleteWebsiteOperator`, by domain": _task(DeleteWebsiteOperator, domain="7.example"),
        "the list: `hook.list_websites`, `ListWebsitesOperator`": _task(ListWebsitesOperator),
        "`GetAccountOperator`": _task(GetAccountOperator),
        "`SyncExcludedIpsOperator`, no website differs": _task(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"]),
        "`SyncExcludedIpsOperator`, all 250 differ": _task(SyncExcludedIpsOperator, exclude_ips=["192.0.2.2"]),
        "`PlanWebsitesOperator`, a file": _task(PlanWebsitesOperator, config=_FILE),
        "`ApplyWebsitesOperator`, 2 updates, 1 creation": _task(ApplyWebsitesOperator, config=_FILE),
    }


@contextmanager
def _service() -> Iterator[SandboxServer]:
    with SandboxServer() as sandbox, mock.patch.dict(os.environ):
        os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"] = sandbox.connection_json()
        yield sandbox


@functools.cache
def count() -> dict[str, Counter[str]]:
    """Return the requests of each case, by operation."""
    found = {}
    with _service() as sandbox:
        for name, call in cases().items():
            sandbox.reset()
            for number in range(1, WEBSITES + 1):
                sandbox.add_website(f"{number}.example", privacy=1, exclude_ips="192.0.2.1")
            sandbox.clear_requests()
            call()
            found[name] = Counter(str(request.operation) for request in sandbox.requests)
    return found


def table() -> list[str]:
    """Return the lines of the table."""
    lines = ["| work | requests | of these |", "| --- | --- | --- |"]
    for name, counted in count().items():
        parts = ", ".join(f"{number} {operation}" for operation, number in sorted(counted.items()))
        lines.append(f"| {name} | {sum(counted.values())} | {parts} |")
    return lines


def filled(text: str) -> str:
    """Return the page with the table in it."""
    return _BLOCK.sub(lambda block: block[1] + "\n".join([*table(), block[2]]), text)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    page = filled(PAGE.read_text())
    PAGE.write_text(page)
    sys.stdout.write(_BLOCK.search(page)[0] + "\n")  # type: ignore[index]
