"""docs/comparison.md: each row of its first table, done in three ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.providers.http.operators.http import HttpOperator

from airflow_provider_analytics.exceptions import AnalyticsError, IncompleteListError, UnexpectedResponseError
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

LIST = "/api/v1/websites"

Execute = Callable[..., Any]


@pytest.fixture
def service(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> SandboxServer:
    connect()
    monkeypatch.setenv("AIRFLOW_CONN_HTTP_DEFAULT", json.dumps({"conn_type": "http", "host": analytics_sandbox.url}))
    return analytics_sandbox


def by_operator(execute: Execute, service: SandboxServer, method: str, path: str = LIST, **more: Any) -> Any:
    """Return the text of an answer, or the texts of all pages."""
    return execute(HttpOperator, method=method, endpoint=path, headers=key_of(service), **more)


def list_by_operator(execute: Execute, service: SandboxServer) -> list[str]:
    def next_page(response: requests.Response) -> dict[str, Any] | None:
        page = response.json()["meta"]
        number = page["current_page"]
        return {"data": {"page": number + 1}} if number < page["last_page"] else None

    pages = by_operator(execute, service, "GET", pagination_function=next_page)
    texts = pages if isinstance(pages, list) else [pages]
    return [website["domain"] for text in texts for website in json.loads(text)["data"]]


def list_by_script(service: SandboxServer) -> list[str]:
    domains, number, last = [], 1, 1
    while number <= last:
        response = requests.get(f"{service.url}{LIST}", params={"page": number}, headers=key_of(service))
        response.raise_for_status()
        domains += [website["domain"] for website in response.json()["data"]]
        number, last = number + 1, response.json()["meta"]["last_page"]
    return domains


def list_by_package(execute: Execute) -> list[str]:
    return [website["domain"] for website in execute(ListWebsitesOperator)]


def key_of(service: SandboxServer) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.api_key}", "Accept": "application/json"}


def test_a_list_that_moves(service: SandboxServer, execute: Execute) -> None:
    def missing(read: Callable[[], list[str]]) -> int:
        service.reset()
        service.seed(250)
        # Between the first page and the second, a website of the first one goes: all others move up.
        service.fault("list", drift={"delete": [250]})
        found = set(read())
        return len({website["domain"] for website in service.websites()} - found)

    assert missing(lambda: list_by_operator(execute, service)) == 1
    assert missing(lambda: list_by_script(service)) == 1
    assert missing(lambda: list_by_package(execute)) == 0


def test_a_list_that_is_cut(service: SandboxServer, execute: Execute) -> None:
    service.seed(20)
    service.configure(total_offset=10)
    assert len(list_by_operator(execute, service)) == 20
    assert len(list_by_script(service)) == 20
    with pytest.raises(IncompleteListError):
        list_by_package(execute)


def test_a_page_instead_of_an_answer(service: SandboxServer, execute: Execute) -> None:
    service.seed(3)
    service.fault("list", body="<h1>Back soon</h1>", times=None)
    assert by_operator(execute, service, "GET") == "<h1>Back soon</h1>"
    with pytest.raises(ValueError, match="line 1 column 1"):
        list_by_script(service)
    with pytest.raises(UnexpectedResponseError, match="Back soon"):
        list_by_package(execute)


def test_a_create_whose_answer_is_lost(service: SandboxServer, execute: Execute) -> None:
    service.configure(allow_duplicates=True)  # else it would be up to the service
    form = {"domain": "new.example", "privacy": "1"}

    def script() -> None:
        requests.post(f"{service.url}{LIST}", data=form, headers=key_of(service)).raise_for_status()

    def websites_of(create: Callable[[], Any], *lost: type[Exception]) -> int:
        service.clear_requests()
        for website in service.websites():
            service.remove_website(website["id"])
        service.fault("create", status=502, commit=True)
        for _ in range(2):  # what retries=1 does
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


def test_a_limit_of_requests(service: SandboxServer, connect: Callable[..., None], execute: Execute) -> None:
    connect(extra={"max_retries": 1})
    service.seed(3)

    def limited() -> None:
        service.fault("list", status=429, headers={"Retry-After": "0"})

    limited()
    with pytest.raises(AirflowException, match="429"):
        by_operator(execute, service, "GET")
    limited()
    with pytest.raises(requests.HTTPError, match="429"):
        list_by_script(service)
    limited()
    assert len(list_by_package(execute)) == 3


def test_a_value_that_is_not_taken(service: SandboxServer, execute: Execute) -> None:
    service.add_website("shop.example", privacy=0)
    service.configure(ignored_fields=["privacy"])
    path = f"{LIST}/1"
    by_operator(execute, service, "PATCH", path, data={"privacy": "1"})
    requests.patch(f"{service.url}{path}", data={"privacy": "1"}, headers=key_of(service)).raise_for_status()
    with pytest.raises(AnalyticsError, match="privacy"):
        execute(UpdateWebsiteOperator, domain="shop.example", privacy="private")


def test_a_list_that_is_empty(service: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    service.seed(20)
    execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
    service.reset()
    assert list_by_operator(execute, service) == []
    assert list_by_script(service) == []
    with pytest.raises(AirflowFailException, match="max_loss_fraction"):
        execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
