# SPDX-License-Identifier: Apache-2.0
"""Gaps of the interface, and their treatment by this package (``api/laravel.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract_table import proves

import airflow_provider_analytics
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.laravel import API_PREFIX
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AuthenticationError,
    NotFoundError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

Clients = Callable[..., AnalyticsClient]


@proves("website-record", "response-bodies")
@pytest.mark.parametrize("body", [{"id": 1, "new_field": [1, {"a": None}]}, {"id": "x"}], ids=str)
def test_record_is_returned_unchanged(client: AnalyticsClient, sandbox: SandboxServer, body: Any) -> None:
    for wrapped in (body, {"data": body}):
        sandbox.fault(body=wrapped)
        assert client.get_website(body["id"]) == body


@proves("account-record")
def test_account_record_of_any_structure_is_returned(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    for body in ({"name": "me"}, {"data": {"quota": {"websites": 3}}}):
        sandbox.fault(body=body)
        assert client.get_account() == body.get("data", body)
    sandbox.fault(body={"message": "Hello."})
    with pytest.raises(UnexpectedResponseError):
        client.get_account()


@proves("status-codes")
@pytest.mark.parametrize(("status", "succeeds"), [(200, True), (201, True), (202, False), (203, False), (206, False)])
def test_client_accepts_only_statuses_that_mean_success(
    client: AnalyticsClient, sandbox: SandboxServer, status: int, succeeds: bool
) -> None:
    sandbox.fault(status=status, body={"id": 1})
    if succeeds:
        assert client.get_website(1) == {"id": 1}
    else:
        with pytest.raises(UnexpectedResponseError):
            client.get_website(1)


@proves("page-parameter")
@pytest.mark.parametrize("name", ["page", "p", "page[number]"])
def test_page_parameter_of_the_connection_is_sent_with_each_later_page(
    client_with: Clients, sandbox: SandboxServer, name: str
) -> None:
    sandbox.seed(250)
    sandbox.configure(page_parameter=name)
    assert len(client_with(page_parameter=name).list_websites()) == 250
    pages = [[value for key, value in request.query if key == name] for request in sandbox.requests]
    assert sorted(pages) == [[], [], [], ["2"], ["3"]]


@proves("error-codes")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500, 503, 599])
def test_error_code_has_an_exception_class(client_with: Clients, sandbox: SandboxServer, status: int) -> None:
    sandbox.fault(status=status)
    with pytest.raises(AnalyticsApiError) as caught:
        client_with(max_retries=0).get_website(1)
    assert type(caught.value) is {401: AuthenticationError, 404: NotFoundError}.get(status, AnalyticsApiError)
    assert (caught.value.status, caught.value.method, caught.value.path) == (status, "GET", "/api/v1/websites/1")


@proves("error-payload")
@pytest.mark.parametrize(
    ("body", "message", "errors"),
    [
        ({"message": "No.", "errors": {"domain": ["Taken.", "Odd."]}}, "No.", {"domain": ["Taken.", "Odd."]}),
        ({"error": "No."}, "No.", {}),
        ({"message": "No.", "errors": {"domain": "Taken."}}, "No.", {"domain": ["Taken."]}),
        ({"detail": "No."}, '{"detail":"No."', {}),
        (["odd"], '["odd"]', {}),
        ("<h1>No.</h1>", "<h1>No.</h1>", {}),
        ({"message": 7, "errors": {"a": [{"b": 1}, None]}}, '{"message":7', {"a": ['{"b":1}', "null"]}),
        ({"message": "No.", "errors": [[[[[[["deep"]]]]]]]}, "No.", {}),
        ("[" * 100_000, "[[[", {}),
    ],
)
def test_error_body_of_any_structure_is_reported(
    client: AnalyticsClient, sandbox: SandboxServer, body: Any, message: str, errors: dict[str, list[str]]
) -> None:
    sandbox.fault(status=422, body=body)
    with pytest.raises(AnalyticsApiError) as caught:
        client.get_website(1)
    assert caught.value.message.replace(" ", "").startswith(message)
    assert caught.value.errors == errors
    assert all(said in str(caught.value) for messages in errors.values() for said in messages)


@proves("error-conditions")
def test_sandbox_rejects_a_request_that_breaks_a_rule(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    sandbox.add_website("a.example")
    with pytest.raises(AnalyticsApiError) as caught:
        client.create_website("A.example")
    assert list(caught.value.errors) == ["domain"]
    for call in (client.get_website, client.delete_website):
        with pytest.raises(NotFoundError):
            call(99)


@proves("rate-limits")
def test_client_waits_for_a_rate_limit(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    sandbox.fault(status=429, headers={"Retry-After": "2"}, times=2)
    assert client.get_account()["id"] == 1
    assert [request.status for request in sandbox.requests] == [429, 429, 200]


@proves("compatibility", "events")
def test_client_sends_its_version_and_uses_no_events_of_the_service(
    client: AnalyticsClient, sandbox: SandboxServer
) -> None:
    client.get_account()
    assert API_PREFIX == "/api/v1"
    agent = f"airflow-provider-analytics/{airflow_provider_analytics.__version__}"
    assert sandbox.requests[-1].header("User-Agent") == agent
    sandbox.fault(status=410, body={"message": "This version is gone."})
    with pytest.raises(AnalyticsApiError, match="This version is gone"):
        client.get_account()
    assert not [name for name in dir(AnalyticsClient) if "event" in name or "webhook" in name]
