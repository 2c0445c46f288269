# SPDX-License-Identifier: Apache-2.0
"""Retries by Airflow: the final state and the last try of a task for each error (``operators/base.py``)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import RunTasks

from airflow_provider_analytics import exceptions
from airflow_provider_analytics.api.reading import duplicates, other_domain
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.base import FailWithoutRetry
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

REQUEST = ("GET", "/api/v1/account", "no")
PERMANENT = [
    exceptions.AnalyticsConfigError(["no"]),
    exceptions.AuthenticationError(401, *REQUEST),
    exceptions.AnalyticsApiError(403, *REQUEST),
    exceptions.AnalyticsApiError(422, *REQUEST),
    duplicates("www.example.com", ["1", "2"]),
    other_domain("www.example.com", {"id": 1, "domain": "example.com"}),
    exceptions.GuardError("no"),
    ValueError("no"),
    exceptions.BulkError({"www.example.com": "no"}, permanent=True),
    exceptions.MissingSnapshotError("no"),
    exceptions.MissingPackageError("no"),
]
PASSING = [
    exceptions.AnalyticsApiError(403, *REQUEST, is_blocked=True),
    exceptions.AnalyticsApiError(429, *REQUEST),
    exceptions.AnalyticsApiError(500, *REQUEST),
    exceptions.NotFoundError(404, *REQUEST),
    exceptions.DomainError("No website has the domain 'www.example.com'."),
    exceptions.AnalyticsError("no"),
    exceptions.NotAppliedError("1", {"privacy": "no"}),
    exceptions.AnalyticsConnectionError("no"),
    exceptions.UnexpectedResponseError("no", 200, "GET", "/api/v1/account"),
    exceptions.IncompleteListError("total", "no"),
    exceptions.AmbiguousWriteError("no", "a.example"),
    exceptions.BulkError({"www.example.com": "no"}),
    exceptions.StoppedError("no"),
    exceptions.StorageError("no"),
    RuntimeError("no"),
]


@pytest.mark.parametrize("error", [*PERMANENT, *PASSING], ids=repr)
def test_error_is_permanent_or_temporary(error: Exception) -> None:
    with pytest.raises(AirflowFailException if error in PERMANENT else type(error)), FailWithoutRetry():
        raise error


@pytest.mark.parametrize("error", PERMANENT, ids=repr)
def test_message_asks_to_fix_an_argument_only_if_an_argument_is_wrong(error: Exception) -> None:
    with pytest.raises(AirflowFailException) as caught, FailWithoutRetry():
        raise error
    assert ("Not retried: correct the input first." in str(caught.value)) == isinstance(error, ValueError)


def test_text_of_an_error_does_not_decide_about_the_retry() -> None:
    error = exceptions.AnalyticsError("no")
    error.before_retry = "wait first"
    with pytest.raises(exceptions.AnalyticsError), FailWithoutRetry():
        raise error


def test_every_exception_class_is_permanent_or_temporary() -> None:
    classes = {kind for _, kind in inspect.getmembers(exceptions, inspect.isclass) if issubclass(kind, Exception)}
    assert classes <= {type(error) for error in (*PERMANENT, *PASSING)}


def ends(tasks: Any) -> dict[str, tuple[str, int]]:
    """Return the final state and the number of the last try, by task id."""
    return {task_id: (task.state, task.try_number) for task_id, task in tasks.items()}


def test_only_temporary_failures_are_retried(
    sandbox: SandboxServer, run_tasks: RunTasks, connect: Callable[..., None]
) -> None:
    sandbox.add_website("www.example.com")
    sandbox.add_website("old.example.com")
    connect("wrong_key", password="wr0ng-key")
    for operation in ("account", "show", "list", "update", "delete", "create"):
        sandbox.fault(operation, status=503, headers={"Retry-After": "0"})
    tasks = run_tasks(
        account=(GetAccountOperator, {}),
        get=(GetWebsiteOperator, {"website_id": 1}),
        websites=(ListWebsitesOperator, {}),
        update=(UpdateWebsiteOperator, {"website_id": 1, "favorite": True}),
        delete=(DeleteWebsiteOperator, {"website_id": 2}),
        create=(CreateWebsiteOperator, {"domain": "new.example.com"}),
        missing=(GetWebsiteOperator, {"website_id": 99}),
        rejected=(GetAccountOperator, {"analytics_conn_id": "wrong_key"}),
    )
    mended = ("account", "get", "websites", "update", "delete", "create")
    assert ends(tasks) == dict.fromkeys(mended, ("success", 2)) | {"missing": ("failed", 2), "rejected": ("failed", 1)}
    assert [website["domain"] for website in sandbox.websites()] == ["www.example.com", "new.example.com"]


@pytest.mark.parametrize(
    ("fault", "if_exists", "state"),
    # Nobody knows if the website existed before or is from an earlier try, so ``fail`` reports it.
    [
        ({"drop": True}, "fail", "failed"),
        ({"drop": True}, "update", "success"),
        ({"status": 500}, "skip", "success"),
        ({"headers": {"Content-Length": "100000"}}, "skip", "success"),
    ],
)
def test_create_with_a_lost_response_is_never_repeated(
    sandbox: SandboxServer, run_tasks: RunTasks, fault: dict[str, Any], if_exists: str, state: str
) -> None:
    sandbox.fault("create", commit=True, **fault)
    arguments = {"domain": "new.example.com", "privacy": 1, "if_exists": if_exists}
    tasks = run_tasks(create=(CreateWebsiteOperator, arguments))
    assert ends(tasks) == {"create": (state, 2)}
    [website] = sandbox.websites()
    assert (website["domain"], website["privacy"]) == ("new.example.com", 1)
    assert [request.operation for request in sandbox.requests].count("create") == 1
    assert state == "failed" or tasks["create"].returned["website"] == website


@pytest.mark.parametrize(("fault", "end", "creates"), [("create", "success", 2), ("list", "failed", 0)])
def test_retry_creates_only_if_the_lookup_succeeds_and_finds_nothing(
    sandbox: SandboxServer, run_tasks: RunTasks, fault: Any, end: str, creates: int
) -> None:
    sandbox.fault(fault, drop=True, times=1 if fault == "create" else None)
    tasks = run_tasks(create=(CreateWebsiteOperator, {"domain": "new.example.com"}))
    assert ends(tasks) == {"create": (end, 2)}
    assert [request.operation for request in sandbox.requests].count("create") == creates
    assert [website["domain"] for website in sandbox.websites()] == ["new.example.com"] * (creates // 2)


def test_delete_with_a_lost_response_succeeds_once_the_website_is_gone(
    sandbox: SandboxServer, run_tasks: RunTasks
) -> None:
    sandbox.add_website("old.example.com")
    sandbox.fault("delete", commit=True, drop=True)
    assert ends(run_tasks(delete=(DeleteWebsiteOperator, {"domain": "old.example.com"}))) == {"delete": ("success", 2)}
    assert sandbox.websites() == []
