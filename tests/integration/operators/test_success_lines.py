# SPDX-License-Identifier: Apache-2.0
"""A task that could not do something does not log that it was done, for each operator that changes something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow_versions import times_logged
from fixture_types import Execute
from fsspec.implementations.local import LocalFileSystem

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import PruneSnapshotsOperator, SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, ExportWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

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
