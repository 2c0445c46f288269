# SPDX-License-Identifier: Apache-2.0
"""docs/comparison.md: each row of its first table, with HttpOperator, a script, and this package."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.providers.http.operators.http import HttpOperator

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.catalog import newest_snapshot

LIST = "/api/v1/websites"

Execute = Callable[..., Any]


@pytest.fixture
def service(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> SandboxServer:
    connect(extra={"max_retries": 1})
    monkeypatch.setenv("AIRFLOW_CONN_HTTP_DEFAULT", json.dumps({"conn_type": "http", "host": analytics_sandbox.url}))
    return analytics_sandbox


def key_of(service: SandboxServer) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.api_key}", "Accept": "application/json"}


def by_operator(execute: Execute, service: SandboxServer, method: str, path: str = LIST, **more: Any) -> Any:
    """Return the text of a response, or the texts of all pages."""
    return execute(HttpOperator, method=method, endpoint=path, headers=key_of(service), **more)


def list_by_operator(execute: Execute, service: SandboxServer) -> list[str]:
    def next_page(response: requests.Response) -> dict[str, Any] | None:
        page = response.json()["meta"]
        number = page["current_page"]
        return {"data": {"page": number + 1}} if number < page["last_page"] else None

    pages = by_operator(execute, service, "GET", pagination_function=next_page)
    texts = pages if isinstance(pages, list) else [pages]
    return [website["domain"] for text in texts for website in json.loads(text)["data"]]


def list_by_script(execute: Execute, service: SandboxServer) -> list[str]:
    domains, number, last = [], 1, 1
    while number <= last:
        response = requests.get(f"{service.url}{LIST}", params={"page": number}, headers=key_of(service))
        response.raise_for_status()
        domains += [website["domain"] for website in response.json()["data"]]
        number, last = number + 1, response.json()["meta"]["last_page"]
    return domains


def list_by_package(execute: Execute, service: SandboxServer) -> list[str]:
    return [website["domain"] for website in execute(ListWebsitesOperator)]


@pytest.mark.parametrize(
    ("websites", "options", "fault", "expected"),
    [
        # Between the first page and the second, three websites are deleted: others move up to the page that was read.
        (250, {}, {"drift": {"delete": 3}}, ["245", "245", "247"]),
        (20, {"total_offset": 10}, {}, ["20", "20", "IncompleteListError"]),
        (3, {}, {"body": "<h1>Back", "times": None}, ["JSONDecodeError", "JSONDecodeError.*line 1", "Back"]),
        (3, {}, {"status": 429, "headers": {"Retry-After": "0"}}, ["AirflowException.*429", "HTTPError.*429", "3"]),
        (0, {}, {}, ["0", "0", "0"]),
    ],
    ids=["that moves", "that is cut", "page instead of an answer", "limit of requests", "empty"],
)
def test_list_result_by_fault_and_reader(
    service: SandboxServer,
    execute: Execute,
    websites: int,
    options: dict[str, Any],
    fault: dict[str, Any],
    expected: list[str],
) -> None:
    for read, outcome in zip((list_by_operator, list_by_script, list_by_package), expected, strict=True):
        service.reset()
        service.seed(websites)
        service.configure(**options)
        if fault:
            service.fault("list", **fault)
        try:
            read_domains = read(execute, service)
            found = str(len({website["domain"] for website in service.websites()} & {*read_domains}))
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        assert re.search(outcome, found)


def test_http_operator_returns_a_web_page_as_a_success(service: SandboxServer, execute: Execute) -> None:
    service.fault("list", body="<h1>Back soon</h1>")
    assert by_operator(execute, service, "GET") == "<h1>Back soon</h1>"


def test_create_with_a_lost_response_is_duplicated_only_by_http_operators(
    service: SandboxServer, execute: Execute
) -> None:
    service.configure(allow_duplicates=True)  # otherwise the service would decide
    form = {"domain": "new.example", "privacy": "1"}

    def script() -> None:
        requests.post(f"{service.url}{LIST}", data=form, headers=key_of(service)).raise_for_status()

    def websites_of(create: Callable[[], Any], *lost: type[Exception]) -> int:
        for website in service.websites():
            service.remove_website(website["id"])
        service.fault("create", status=502, commit=True)
        for _ in range(2):  # like retries=1
            try:
                create()
            except lost:
                continue
            break
        return len(service.websites())

    assert websites_of(lambda: by_operator(execute, service, "POST", data=form), AirflowException) == 2
    assert websites_of(script, requests.HTTPError) == 2
    ours = {"domain": "new.example", "privacy": "private"}
    assert websites_of(lambda: execute(CreateWebsiteOperator, **ours), AnalyticsError) == 1


def test_ignored_value_is_noticed_only_by_this_package(service: SandboxServer, execute: Execute) -> None:
    service.add_website("shop.example", privacy=0)
    service.configure(ignored_fields=["privacy"])
    path = f"{LIST}/1"
    by_operator(execute, service, "PATCH", path, data={"privacy": "1"})
    requests.patch(f"{service.url}{path}", data={"privacy": "1"}, headers=key_of(service)).raise_for_status()
    with pytest.raises(AnalyticsError, match="privacy"):
        execute(UpdateWebsiteOperator, domain="shop.example", privacy="private")


def test_empty_list_is_noticed_only_by_this_package(service: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    service.seed(20)
    execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
    service.reset()
    with pytest.raises(AirflowFailException, match="max_loss_fraction"):
        execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
    kept = newest_snapshot(str(tmp_path))
    assert kept is not None
    assert kept.manifest.count == 20
