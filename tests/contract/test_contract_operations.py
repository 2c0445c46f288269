# SPDX-License-Identifier: Apache-2.0
"""Parts 1, 4, 5, 8, and 9 of the interface: the requests of the operations (``api/laravel.py``, ``api/client.py``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import requests
from contract_table import OPEN_POINTS, STATEMENTS, TESTS, load, proves
from operations import OPERATIONS, PREFIX
from raw_server import RawServer, http
from wire_client import client_of

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
FORM = "application/x-www-form-urlencoded"
EACH = pytest.mark.parametrize("operation", OPERATIONS)


def do(client: AnalyticsClient, operation: str) -> Any:
    """Carry out an operation on website 1."""
    return OPERATIONS[operation].call(client, 1)


@proves(*(f"operation-{name}" for name in OPERATIONS), "version-in-path", "scope")
@proves("form-encoding", "accept-header", "key-header")
@EACH
def test_method_path_headers_and_payload_of_each_operation(
    client: AnalyticsClient, sandbox: SandboxServer, operation: str
) -> None:
    sandbox.add_website("a.example")
    do(client, operation)
    wanted, request = OPERATIONS[operation], sandbox.requests[0]
    assert len(sandbox.requests) == wanted.requests
    assert (request.method, request.target, request.body) == (wanted.method, wanted.target(1), wanted.form)
    assert request.operation == operation
    assert request.status in (200, 201)
    for request in sandbox.requests:
        names = [name for name, _ in request.headers]
        assert len(set(names)) == len(names)
        assert request.header("Accept") == "application/json"
        assert request.header("Authorization") == f"Bearer {sandbox.api_key}"
        assert request.header("Content-Type") == (FORM if wanted.takes_a_form else None)
        assert int(request.header("Content-Length") or 0) == len(request.body)


@proves("base-url", "version-in-path")
@pytest.mark.parametrize(
    ("root", "sent"), [("/", ""), ("/app//", "/app"), ("/a%20b/%C3%A4%25", "/a%20b/%C3%A4%25"), ("/ä~.", "/%C3%A4~.")]
)
def test_paths_start_with_the_base_url(root: str, sent: str) -> None:
    with RawServer([http(200, {"id": 1})]) as server, client_of(f"{server.url}{root}") as client:
        client.get_website(1)
        assert server.requests[0].target == f"{sent}{PREFIX}/websites/1"


@proves("account-read-only")
def test_statements_name_every_operation() -> None:
    stated = {statement.id for statement in STATEMENTS if statement.id.startswith("operation-")}
    assert stated == {f"operation-{name}" for name in OPERATIONS}
    assert [name for name in dir(AnalyticsClient) if "account" in name] == ["get_account"]


@proves("key-required")
@EACH
def test_every_operation_needs_the_key(client_with: Clients, sandbox: SandboxServer, operation: str) -> None:
    website = sandbox.add_website("a.example")
    with pytest.raises(AuthenticationError):
        do(client_with(api_key="another"), operation)
    assert sandbox.websites() == [website]


@proves("key-account")
def test_account_request_returns_the_account_of_the_key(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    assert client.get_account() == {"id": 1, "name": "Sandbox Account", "email": "account@example.com"}
    assert sandbox.requests[-1].authorized


@proves("operation-update", "update-methods")
@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_put_and_patch_have_the_same_effect(client_with: Clients, sandbox: SandboxServer, method: str) -> None:
    website = sandbox.add_website("a.example", email=1, exclude_ips="192.0.2.1")
    updated = client_with(update_method=method).update_website(website["id"], privacy=1).record
    [sent] = [request for request in sandbox.requests if request.operation == "update"]
    assert (sent.method, sent.body) == (method, b"privacy=1")
    assert updated == website | {"privacy": 1}


def query_of(sandbox: SandboxServer, name: str) -> list[str]:
    return [value for key, value in sandbox.requests[0].query if key == name]


@proves("list-optional", "per-page-default", "sort-by", "sort")
def test_default_list_parameters_are_omitted(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    """The default order and page size are sent, and other parameters are omitted."""
    sandbox.seed(3)
    client.list_websites(search=None, search_by=None, favorite=None, sort_by=None, sort=None, per_page=None)
    assert sandbox.requests[0].query == [("per_page", "100"), ("sort_by", "id"), ("sort", "desc")]


@proves("search", "search-by")
@pytest.mark.parametrize("text", ["shop", "", "a&b=c", "ä ö+%\n", "100%", "\U0001f511"])
def test_search_accepts_any_text(client: AnalyticsClient, sandbox: SandboxServer, text: str) -> None:
    sandbox.add_website("shop.example")
    found = client.list_websites(search=text, search_by="domain")
    assert [*query_of(sandbox, "search"), *query_of(sandbox, "search_by")] == [text, "domain"]
    assert len(found) == (text in ("shop", ""))


@proves("favorite-filter")
@pytest.mark.parametrize("wanted", [False, True, None])
def test_list_is_filtered_by_favorite(client: AnalyticsClient, sandbox: SandboxServer, wanted: bool | None) -> None:
    sandbox.add_website("a.example", favorite=True)
    sandbox.add_website("b.example")
    found = client.list_websites(favorite=wanted)
    assert query_of(sandbox, "favorite") == ([] if wanted is None else [str(wanted).lower()])
    assert {website["favorite"] for website in found} == ({True, False} if wanted is None else {wanted})


@proves("sort-by", "sort", "id-sorts")
@pytest.mark.parametrize(("sort_by", "sort"), list(itertools.product(["id", "domain"], ["desc", "asc"])))
def test_list_is_sorted_by_key_and_direction(
    client: AnalyticsClient, sandbox: SandboxServer, sort_by: str, sort: str
) -> None:
    sandbox.seed(20)
    found = [website[sort_by] for website in client.list_websites(sort_by=sort_by, sort=sort)]
    assert found == sorted(found, reverse=sort == "desc")
    # The other requests read the newest websites, and the other end of the list.
    sent = [dict(request.query) for request in sandbox.requests]
    assert {"per_page": "100", "sort_by": sort_by, "sort": sort} in sent


@proves("per-page", "per-page-limit")
def test_list_has_the_requested_page_size(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    sandbox.seed(60)
    headers = {"Authorization": f"Bearer {sandbox.api_key}", "Accept": "application/json"}
    taken = {}
    for size in (0, *range(9, 12), *range(24, 27), *range(49, 52), *range(99, 102), 1000):
        answer = requests.get(f"{sandbox.url}{PREFIX}/websites?per_page={size}", headers=headers, timeout=10)
        if answer.status_code == 200:
            taken[size] = len(answer.json()["data"])
    assert taken == {10: 10, 25: 25, 50: 50, 100: 60}
    for size in taken:
        sandbox.clear_requests()
        assert len(client.list_websites(per_page=size)) == 60
        pages = -(-60 // size)
        # The oldest websites, and the newest again for several pages.
        assert (len(sandbox.requests), query_of(sandbox, "per_page")) == (pages + 1 + (pages > 1), [str(size)])


REJECTED: dict[str, list[Any]] = {
    "per_page": [0, 1, 11, 30, 101, 1000, -10, True, "all", 10.0],
    "search_by": ["id", "", "DOMAIN", 1],
    "sort_by": ["name", "", "ID", 1],
    "sort": ["up", "", "DESC", 1, True],
    "favorite": [2, "maybe", "", 1.5],
    "search": [7, b"a", ["a"]],
    "page": [2],
    "favourite": [True],
}


@proves("per-page-limit", "search-by", "sort-by", "sort", "favorite-filter", "search", "list-optional")
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REJECTED.items() for value in values])
def test_client_rejects_another_list_parameter_before_the_request(
    client: AnalyticsClient, sandbox: SandboxServer, name: str, value: Any
) -> None:
    for call in (client.list_websites, client.iter_websites):
        with pytest.raises(ValueError, match=name):
            call(**{name: value})
    assert sandbox.requests == []


def test_statements_and_tests_refer_to_each_other() -> None:
    load()
    ids = [statement.id for statement in STATEMENTS] + [point.id for point in OPEN_POINTS]
    assert len(set(ids)) == len(ids)
    registered = {name for name, tests in TESTS.items() if tests}
    missing, unknown = sorted(set(ids) - registered), sorted(registered - set(ids))
    assert not missing, "These statements have no test: add them to @proves of a test in tests/contract."
    assert not unknown, "A test in tests/contract proves these statements: add them to contract_table.py."


# Gaps of the interface, and their treatment by this package


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
