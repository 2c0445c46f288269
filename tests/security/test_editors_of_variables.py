"""Whoever may edit a Variable, or data that a task maps over: no file is read, and no secret is sent, because of it."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, ExportWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

PATHS = [
    "/etc/passwd",
    "/proc/self/environ",
    "file:///etc/passwd",
    "./list",
    "../list.txt",
    "~/list",
    "list.txt",
    " /x ",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("operator", [SyncExcludedIpsOperator, SyncExcludedParamsOperator])
def test_a_value_is_never_a_path(analytics_sandbox: SandboxServer, execute: Execute, operator: Any, path: str) -> None:
    analytics_sandbox.add_website("a.example")
    field = operator.field
    with pytest.raises(AirflowFailException, match=f"allowed: entries; a file is given by {field}_path") as caught:
        execute(operator, **{field: path})
    assert "root:" not in str(caught.value)
    assert "update" not in {request.operation for request in analytics_sandbox.requests}


@pytest.mark.parametrize("path", ["", " "])
@pytest.mark.parametrize(
    ("operator", "name", "arguments"),
    [
        (SyncExcludedIpsOperator, "state_path", {"exclude_ips": ["192.0.2.1"]}),
        (ApplyWebsitesOperator, "state_path", {"config": {"websites": {"a.example": {"exclude_ips": ["192.0.2.1"]}}}}),
        (ExportWebsitesOperator, "base_path", {"config_path": "/nowhere/x.yaml", "snapshot_date": "2026-11-25"}),
    ],
)
def test_a_path_that_renders_to_nothing_is_not_one_that_is_not_given(
    analytics_sandbox: SandboxServer, execute: Execute, operator: Any, name: str, arguments: Any, path: str
) -> None:
    """Without state_path, a list only grows; without base_path, an export is that of today."""
    with pytest.raises(AirflowFailException, match=f"{name}='{path}' is not allowed; allowed: a URL or an absolute"):
        execute(operator, **arguments, **{name: path})
    assert analytics_sandbox.requests == []


@pytest.mark.parametrize(
    "reference",
    ["connection:analytics_default", "connection:prod_db", "variable:api_key", "{{ conn.a.password }}"],
)
def test_no_other_secret_is_sent_as_the_password_of_a_page(
    analytics_sandbox: SandboxServer, execute: Execute, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PROD_DB", '{"conn_type": "postgres", "password": "of-the-database"}')
    monkeypatch.setenv("AIRFLOW_VAR_API_KEY", "of-a-variable")
    analytics_sandbox.add_website("a.example")
    page = {"privacy": "password", "password_from": reference}
    for operator, arguments in (
        (UpdateWebsiteOperator, {"website_id": 1, **page}),
        (CreateWebsiteOperator, {"domain": "b.example", **page}),
        (ApplyWebsitesOperator, {"config": {"websites": {"a.example": page}}}),
    ):
        with pytest.raises(AirflowFailException, match="allowed: connection:page_password"):
            execute(operator, **arguments)
    assert not [request for request in analytics_sandbox.requests if request.body]


def test_a_key_of_a_service_is_no_password_of_a_page(
    analytics_sandbox: SandboxServer, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", analytics_sandbox.connection_json())
    analytics_sandbox.add_website("a.example")
    with pytest.raises(AirflowFailException, match="a connection of another type than analytics"):
        execute(UpdateWebsiteOperator, website_id=1, privacy="password", password_from="connection:page_password")


def test_a_password_is_never_taken_for_a_template(
    analytics_sandbox: SandboxServer, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", '{"conn_type": "generic", "password": "{{ 7 * 7 }}-{% x"}')
    analytics_sandbox.add_website("a.example")
    execute(UpdateWebsiteOperator, website_id=1, privacy="password", password_from="connection:page_password")
    assert analytics_sandbox.stored_password(1) == "{{ 7 * 7 }}-{% x"
