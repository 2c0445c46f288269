"""What Airflow makes of each error: the final state of the task and the number of its last try."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from fixture_types import RunTasks
from task_list import Task, ends

from airflow_provider_analytics import exceptions
from airflow_provider_analytics.api.client import duplicates, other_domain
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.base import AnalyticsOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

FAILS_AT_ONCE = ("failed", 1)
IS_RETRIED = ("failed", 2)

REQUEST = ("GET", "/api/v1/account", "no")
#: Name of a task with one retry to the error that it raises, and how it ends; an error of every class.
ERRORS: dict[str, tuple[Exception, tuple[str, int]]] = {
    "config": (exceptions.AnalyticsConfigError(["no"]), FAILS_AT_ONCE),
    "key": (exceptions.AuthenticationError(401, *REQUEST), FAILS_AT_ONCE),
    "permission": (exceptions.AnalyticsApiError(403, *REQUEST), FAILS_AT_ONCE),
    "firewall": (exceptions.AnalyticsApiError(403, *REQUEST, is_blocked=True), IS_RETRIED),
    "validation": (exceptions.AnalyticsApiError(422, *REQUEST), FAILS_AT_ONCE),
    "rate": (exceptions.AnalyticsApiError(429, *REQUEST), IS_RETRIED),
    "server": (exceptions.AnalyticsApiError(500, *REQUEST), IS_RETRIED),
    "not_found": (exceptions.NotFoundError(404, *REQUEST), IS_RETRIED),
    "two_websites": (duplicates("www.example.com", ["1", "2"]), FAILS_AT_ONCE),
    "other_domain": (other_domain("www.example.com", {"id": 1, "domain": "example.com"}), FAILS_AT_ONCE),
    "no_website": (exceptions.DomainError("No website has the domain 'www.example.com'."), IS_RETRIED),
    "guard": (exceptions.GuardError("no"), FAILS_AT_ONCE),
    "value": (ValueError("no"), FAILS_AT_ONCE),
    "any": (exceptions.AnalyticsError("no"), IS_RETRIED),
    "not_applied": (exceptions.NotAppliedError("1", {"privacy": "no"}), IS_RETRIED),
    "connection": (exceptions.AnalyticsConnectionError("no"), IS_RETRIED),
    "response": (exceptions.UnexpectedResponseError("no", 200, "GET", "/api/v1/account"), IS_RETRIED),
    "list": (exceptions.IncompleteListError("total", "no"), IS_RETRIED),
    "ambiguous": (exceptions.AmbiguousWriteError("no", "a.example"), IS_RETRIED),
    "bulk": (exceptions.BulkError({"www.example.com": "no"}), IS_RETRIED),
    "bulk_refused": (exceptions.BulkError({"www.example.com": "no"}, permanent=True), FAILS_AT_ONCE),
    "stopped": (exceptions.StoppedError("no"), IS_RETRIED),
    "storage": (exceptions.StorageError("no"), IS_RETRIED),
    "bug": (RuntimeError("no"), IS_RETRIED),
}


class RaiseOperator(AnalyticsOperator):
    def __init__(self, *, error: Exception, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    def execute(self, context: Any) -> None:
        with self.connected(context):
            raise self.error


def test_there_is_an_error_of_every_class() -> None:
    classes = {kind for _, kind in inspect.getmembers(exceptions, inspect.isclass) if issubclass(kind, Exception)}
    assert classes <= {type(error) for error, _ in ERRORS.values()}


@pytest.mark.slow  # a task for each class
def test_an_error_of_every_class(run_tasks: RunTasks) -> None:
    tasks = run_tasks(**{name: Task(RaiseOperator, error=error) for name, (error, _) in ERRORS.items()})
    assert ends(tasks) == {name: expected for name, (_, expected) in ERRORS.items()}


FAULTS: dict[str, tuple[dict[str, Any], tuple[str, int], str]] = {
    "wrong_key": ({"status": 401}, FAILS_AT_ONCE, "API key rejected"),
    "forbidden": ({"status": 403}, FAILS_AT_ONCE, "does not have the permission"),
    "refused": ({"status": 422}, FAILS_AT_ONCE, "The service rejected a value"),
    "gone": ({"status": 404}, IS_RETRIED, "NotFoundError"),
    "strange": ({"status": 418}, IS_RETRIED, "AnalyticsApiError"),
    "too_many": ({"status": 429}, IS_RETRIED, "limits the rate of requests"),
    "too_long": ({"status": 429, "headers": {"Retry-After": "3600"}}, IS_RETRIED, "Retry-After 3600 s"),
    "broken": ({"status": 500}, IS_RETRIED, "The service failed (500"),
    "away": ({"status": 503}, IS_RETRIED, "The service failed (503"),
    "moved": ({"status": 301, "headers": {"Location": "/elsewhere"}}, IS_RETRIED, "UnexpectedResponseError"),
    "html": ({"body": "<html>Welcome</html>"}, IS_RETRIED, "UnexpectedResponseError"),
    "dropped": ({"drop": True}, IS_RETRIED, "AnalyticsConnectionError"),
    "cut": ({"headers": {"Content-Length": "100000"}}, IS_RETRIED, "AnalyticsConnectionError"),
    "slow": ({"delay": 0.4}, IS_RETRIED, "did not respond within 0.1 s"),
}


@pytest.mark.slow  # a task for each fault, most of them with a retry
def test_what_goes_wrong_on_the_wire(
    sandbox: SandboxServer, run_tasks: RunTasks, connect_sandbox: Callable[..., None], task_log: Callable[[], str]
) -> None:
    connect_sandbox("hasty", extra={"max_retries": 0, "timeout": 0.1})
    tasks = {}
    for number, (name, (fault, _, _)) in enumerate(FAULTS.items(), start=1):
        sandbox.add_website(f"{name}.example.com")
        sandbox.fault("show", target=rf"/websites/{number}$", times=None, **fault)
        conn_id = "hasty" if name == "slow" else "analytics_default"
        tasks[name] = Task(GetWebsiteOperator, website_id=number, analytics_conn_id=conn_id)
    done = run_tasks(**tasks)
    assert ends(done) == {name: expected for name, (_, expected, _) in FAULTS.items()}
    sent = [request.path.rpartition("/")[2] for request in sandbox.requests]
    for number, (_, (_, tries), _) in enumerate(FAULTS.values(), start=1):
        assert sent.count(str(number)) == tries
    logged = task_log()
    for _, _, part in FAULTS.values():
        assert part in logged


def test_what_is_wrong_with_the_list_or_the_arguments(
    sandbox: SandboxServer, run_tasks: RunTasks, connect_sandbox: Callable[..., None]
) -> None:
    connect_sandbox("wrong", extra={"timeuot": 1})
    for _ in range(2):
        sandbox.add_website("twice.example.com")
    sandbox.fault("list", target="search=never", options={"total_offset": 1}, times=None)
    tasks = run_tasks(
        config=Task(GetAccountOperator, analytics_conn_id="wrong"),
        argument=Task(ListWebsitesOperator, per_page=30),
        duplicate=Task(DeleteWebsiteOperator, domain="twice.example.com"),
        incomplete=Task(ListWebsitesOperator, search="never"),
    )
    assert ends(tasks) == {
        **dict.fromkeys(("config", "argument", "duplicate"), FAILS_AT_ONCE),
        "incomplete": IS_RETRIED,
    }


def test_a_retry_mends_what_was_passing(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.add_website("www.example.com")
    sandbox.add_website("old.example.com")
    for operation in ("account", "show", "list", "update", "delete", "create"):
        sandbox.fault(operation, status=503, headers={"Retry-After": "0"})
    tasks = run_tasks(
        account=Task(GetAccountOperator),
        get=Task(GetWebsiteOperator, website_id=1),
        websites=Task(ListWebsitesOperator),
        update=Task(UpdateWebsiteOperator, website_id=1, favorite=True),
        delete=Task(DeleteWebsiteOperator, website_id=2),
        create=Task(CreateWebsiteOperator, domain="new.example.com"),
    )
    assert set(ends(tasks).values()) == {("success", 2)}
    assert [website["domain"] for website in sandbox.websites()] == ["www.example.com", "new.example.com"]


def created(sandbox: SandboxServer) -> list[str]:
    return [dict(request.form)["domain"] for request in sandbox.requests if request.operation == "create"]


@pytest.mark.parametrize(
    "fault", [{"drop": True}, {"status": 500}, {"headers": {"Content-Length": "100000"}}, {"status": 504}], ids=str
)
def test_a_create_whose_answer_is_lost_is_found_by_the_retry(
    sandbox: SandboxServer, run_tasks: RunTasks, fault: dict[str, Any]
) -> None:
    sandbox.fault("create", commit=True, **fault)
    tasks = run_tasks(create=Task(CreateWebsiteOperator, domain="new.example.com"))
    assert ends(tasks) == {"create": ("success", 2)}
    assert [website["domain"] for website in sandbox.websites()] == ["new.example.com"]
    assert created(sandbox) == ["new.example.com"]
    assert tasks["create"].returned["website"] == sandbox.websites()[0]


@pytest.mark.parametrize(
    ("if_exists", "state"),
    # Whether the website of an earlier try is an old one or its own, nobody can tell: fail says so.
    [("skip", "success"), ("update", "success"), ("fail", "failed")],
)
def test_a_create_is_never_done_twice(sandbox: SandboxServer, run_tasks: RunTasks, if_exists: str, state: str) -> None:
    """The response is lost, and Airflow retries the task."""
    sandbox.fault("create", commit=True, drop=True)
    arguments = {"domain": "new.example.com", "privacy": 1, "if_exists": if_exists}
    tasks = run_tasks(create=Task(CreateWebsiteOperator, **arguments))
    assert ends(tasks) == {"create": (state, 2)}
    assert [(website["domain"], website["privacy"]) for website in sandbox.websites()] == [("new.example.com", 1)]
    assert created(sandbox) == ["new.example.com"]
    assert not sandbox.pending_faults


def test_a_create_that_never_arrived_is_done_by_the_retry(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.fault("create", drop=True)
    tasks = run_tasks(create=Task(CreateWebsiteOperator, domain="new.example.com"))
    assert ends(tasks) == {"create": ("success", 2)}
    assert [website["domain"] for website in sandbox.websites()] == ["new.example.com"]
    assert created(sandbox) == ["new.example.com"] * 2


def test_a_failed_look_never_leads_to_a_create(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.fault("list", status=500, times=None)
    tasks = run_tasks(create=Task(CreateWebsiteOperator, domain="new.example.com"))
    assert ends(tasks) == {"create": IS_RETRIED}
    assert created(sandbox) == []


def test_a_delete_whose_answer_is_lost(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.add_website("old.example.com")
    sandbox.fault("delete", commit=True, drop=True)
    tasks = run_tasks(delete=Task(DeleteWebsiteOperator, domain="old.example.com"))
    assert ends(tasks) == {"delete": ("success", 2)}
    assert sandbox.websites() == []
