# SPDX-License-Identifier: Apache-2.0
"""Task logs and retries: reasons in few frames, no success that did not happen, and the last try of each error."""

from __future__ import annotations

import errno
import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import times_logged
from fixture_types import Execute, RunTasks
from fsspec.implementations.local import LocalFileSystem

import airflow_provider_analytics
from airflow_provider_analytics import exceptions
from airflow_provider_analytics.api.reading import duplicates, other_domain
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.base import FailWithoutRetry
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, ExportWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

PACKAGE = str(Path(airflow_provider_analytics.__file__).parent)
#: A frame has two or three lines of a screen of about 50.
MAX_FRAMES = 3
SNAPSHOT = {"base_path": "/folder"}
SYNC = {"exclude_ips": "203.0.113.7"}


def assert_short(error: BaseException, reason: str) -> None:
    lines = traceback.format_exception(error)
    assert sum(f'File "{PACKAGE}' in line for line in lines) <= MAX_FRAMES, "".join(lines)
    assert reason in lines[-1]


@pytest.mark.parametrize(
    ("operator", "arguments", "fault", "reason"),
    [
        (SyncExcludedIpsOperator, SYNC, {"status": 503}, "503 Service Unavailable"),
        (SnapshotWebsitesOperator, SNAPSHOT, {"body": "<html>Log in</html>"}, "is a web page"),
        (SyncExcludedIpsOperator, SYNC, {"drop": True}, "connection"),
        (SyncExcludedIpsOperator, SYNC, {"status": 401}, "Not retried: correct"),
        (SnapshotWebsitesOperator, {"base_path": "/folder/file/a"}, {}, "/file/a"),
        (CompareSnapshotsOperator, {"base_path": "/folder/file/a"}, {}, "/file/a"),
        (SyncExcludedIpsOperator, {**SYNC, "state_path": "/folder/file/a"}, {}, "/file/a"),
        (SnapshotWebsitesOperator, SNAPSHOT, {"disk": "full"}, "No space left on device"),
    ],
)
def test_first_screen_of_the_log_contains_the_reason(
    sandbox: SandboxServer,
    execute: Execute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operator: Any,
    arguments: dict[str, Any],
    fault: dict[str, Any],
    reason: str,
) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sandbox.seed(20)
    (tmp_path / "file").write_text("x")
    if "disk" in fault:
        monkeypatch.setattr("airflow_provider_analytics.storage.os.fsync", fsync)
    elif fault:
        sandbox.fault(**fault, times=None)
    given = {name: value.replace("/folder", str(tmp_path)) for name, value in arguments.items()}
    with pytest.raises((AirflowFailException, AnalyticsError)) as caught:
        execute(operator, **given)
    assert_short(caught.value, reason)


def test_error_names_the_service_and_the_connection_once(
    sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    sandbox.seed(20)
    execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
    for website in sandbox.websites():
        sandbox.remove_website(website["id"])
    with pytest.raises(AirflowFailException) as of_a_guard:
        execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
    sandbox.fault(status=404, times=None)
    with pytest.raises((AirflowFailException, AnalyticsError)) as of_service:
        execute(SyncExcludedIpsOperator, **SYNC)
    for caught in (of_a_guard, of_service):
        assert str(caught.value).count(f"Service: {sandbox.url}, connection 'analytics_default'.") == 1


def test_error_of_a_connection_that_cannot_be_used_names_no_service(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", '{"conn_type": "analytics", "host": "https://stats.example.com"}')
    with pytest.raises(AirflowFailException) as caught:
        execute(SyncExcludedIpsOperator, **SYNC, analytics_conn_id="broken")
    assert "Connection 'broken': " in str(caught.value)
    assert "Service: " not in str(caught.value)


def test_first_screen_of_the_log_contains_the_reason_of_a_template() -> None:
    task = SyncExcludedIpsOperator(task_id="task", exclude_ips=["{{ 1 / 0 }}"])
    with pytest.raises(ZeroDivisionError) as caught:
        task.render_template_fields({})
    assert_short(caught.value, "division by zero")
    assert PACKAGE in traceback.format_exception(caught.value)[-2], "no frame of Jinja is below the package's own"


FILE = {"websites": {"1.example": {"privacy": "private"}}}
#: Operator and arguments to the operation of the service that fails, the words that would claim a success, and the
#: counts that the log of a failed task with many websites has nevertheless.
SERVICE = [
    (CreateWebsiteOperator, {"domain": "new.example"}, "create", "Created", ""),
    (UpdateWebsiteOperator, {"domain": "1.example", "privacy": "private"}, "update", "Updated", ""),
    (DeleteWebsiteOperator, {"domain": "1.example"}, "delete", "Deleted", ""),
    (
        SyncExcludedIpsOperator,
        {"exclude_ips": ["192.0.2.1"]},
        "update",
        "1 entry added",
        "on 0 of 1 website (1 failed): ",
    ),
    (
        SyncExcludedParamsOperator,
        {"exclude_params": ["gclid"]},
        "update",
        "1 entry added",
        "on 0 of 1 website (1 failed): ",
    ),
    (ApplyWebsitesOperator, {"config": FILE}, "update", "Applied 1", "Applied 0 of 1 change (1 failed)"),
]
#: The same for the method of the file system that fails, on the second day.
STORAGE = [
    (SnapshotWebsitesOperator, {"base_path": "{folder}"}, "put_file", "Published"),
    (PruneSnapshotsOperator, {"base_path": "{folder}", "keep_days": 1}, "rm_file", "Removed"),
    (ExportWebsitesOperator, {"output_path": "{folder}/websites.yaml"}, "makedirs", "Exported"),
]


@pytest.mark.parametrize(("operator", "arguments", "operation", "claim", "counts"), SERVICE)
def test_change_that_the_service_rejects_is_not_reported_as_done(
    operator: type,
    arguments: dict[str, Any],
    operation: Any,
    claim: str,
    counts: str,
    sandbox: SandboxServer,
    task_log: Callable[[], str],
) -> None:
    sandbox.add_website("1.example")
    sandbox.fault(operation, status=422, body={"message": "no"}, times=None)
    with pytest.raises(Exception, match="no"):
        operator(task_id="task", **arguments).execute({})
    assert claim not in task_log()
    assert counts in task_log()
    sandbox.clear_faults()
    operator(task_id="task", **arguments).execute({})
    assert claim in task_log()


#: Operator and arguments to whether the task reads the account before the list.
INTRODUCED = [
    (ListWebsitesOperator, {}, False),
    (CreateWebsiteOperator, {"domain": "new.example"}, False),
    (SyncExcludedIpsOperator, {"exclude_ips": ["192.0.2.1"]}, False),
    (SyncExcludedIpsOperator, {"exclude_ips": ["192.0.2.1"], "state_path": "{folder}"}, True),
    (ApplyWebsitesOperator, {"config": FILE}, True),
    (SnapshotWebsitesOperator, {"base_path": "{folder}", "on_late": "publish"}, True),
    (ExportWebsitesOperator, {"output_path": "{folder}/websites.yaml"}, False),
]


@pytest.mark.parametrize(("operator", "arguments", "knows_the_account"), INTRODUCED)
def test_first_line_says_whose_key_it_is_and_how_many_websites_there_are(
    operator: type,
    arguments: dict[str, Any],
    knows_the_account: bool,
    execute: Execute,
    sandbox: SandboxServer,
    task_log: Callable[[], str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    for number in (1, 2):
        sandbox.add_website(f"{number}.example")
    given = {
        name: value.format(folder=tmp_path) if isinstance(value, str) else value for name, value in arguments.items()
    }
    execute(operator, **given)
    list_line = "The list has a supported form and 2 websites."
    if knows_the_account:
        list_line = f"The API key belongs to account@example.com. {list_line}"
    messages = [
        record.getMessage() for record in caplog.records if record.name.startswith("airflow_provider_analytics")
    ]
    assert messages[0] == list_line
    assert times_logged(task_log(), "a supported form") == 1


@pytest.mark.parametrize("filters", [{"favorite": False}, {"search": "1"}])
def test_number_of_websites_of_a_filter_is_not_logged_as_that_of_the_list(
    filters: dict[str, Any], execute: Execute, sandbox: SandboxServer, task_log: Callable[[], str]
) -> None:
    sandbox.seed(20)
    execute(ListWebsitesOperator, **filters)
    assert "a supported form" not in task_log()


@pytest.mark.parametrize(("operator", "arguments", "method", "claim"), STORAGE)
def test_file_that_cannot_be_changed_is_not_reported_as_done(
    operator: type,
    arguments: dict[str, Any],
    method: str,
    claim: str,
    sandbox: SandboxServer,
    execute: Execute,
    task_log: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    sandbox.add_website("1.example")
    given = {name: str(value).replace("{folder}", str(tmp_path)) for name, value in arguments.items()}

    def fail(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "no")

    for day in ("2026-11-19", "2026-11-20"):
        execute(SnapshotWebsitesOperator, base_path=str(tmp_path), partition_date=day, on_late="publish")
    before = task_log().count(claim)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, method, fail)
        patch.setattr("airflow_provider_analytics.storage.open_own", fail)
        with pytest.raises(Exception, match="no"):
            execute(operator, **given)
    assert task_log().count(claim) == before
    execute(operator, **given)
    assert task_log().count(claim) > before


def test_delete_with_a_wrong_base_url_does_not_log_that_the_website_does_not_exist(
    sandbox: SandboxServer, task_log: Callable[[], str]
) -> None:
    sandbox.fault(status=404, times=None)
    with pytest.raises(Exception, match="Not found"):
        DeleteWebsiteOperator(task_id="task", website_id=7).execute({})
    assert "does not exist" not in task_log()


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
    with pytest.raises(AirflowFailException if error in PERMANENT else type(error)) as caught, FailWithoutRetry():
        raise error
    # It asks to fix an argument only if an argument is wrong.
    assert ("Not retried: correct the input first." in str(caught.value)) == (
        error in PERMANENT and isinstance(error, ValueError)
    )


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
