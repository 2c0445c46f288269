# SPDX-License-Identifier: Apache-2.0
"""Guards that compare the list with the last run: ``fewer_websites`` and ``many_created`` (``reconcile/state.py``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute

from airflow_provider_analytics import storage
from airflow_provider_analytics.commands import main
from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

DOMAINS = [f"{number}.example" for number in range(40)]
CONFIG = {"defaults": {"privacy": "private"}, "websites": {domain: {"email": True} for domain in DOMAINS}}
SYNC: dict[str, Any] = {"exclude_ips": ["192.0.2.1"]}
APPLY: dict[str, Any] = {"config": CONFIG}


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    """A service with the websites of the file."""
    for domain in DOMAINS:
        analytics_sandbox.add_website(domain)
    return analytics_sandbox


def forget(sandbox: SandboxServer, number: int) -> None:
    """Leave the newest websites out of the list, as a service that is restored does for a moment."""
    for website in sandbox.websites()[len(DOMAINS) - number :]:
        sandbox.remove_website(website["id"])


def test_websites_with_new_ids_are_named_as_such(sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    given = {**SYNC, "state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, **given)
    forget(sandbox, 40)
    for domain in DOMAINS:
        sandbox.add_website(domain)
    with pytest.raises(
        AirflowFailException, match=r"\.\nOf these domains, the list has 40 with another id\.\nThe first 5"
    ):
        execute(SyncExcludedIpsOperator, **given)


def writes(sandbox: SandboxServer) -> list[str]:
    return [request.operation for request in sandbox.requests if request.operation in ("create", "update", "delete")]


@pytest.mark.parametrize("missing", [40, 20])
@pytest.mark.parametrize(
    "first", [(ApplyWebsitesOperator, APPLY), (SyncExcludedParamsOperator, {"exclude_params": "a"})]
)
@pytest.mark.parametrize(
    ("operator", "arguments", "guards"),
    [
        (SyncExcludedIpsOperator, SYNC, ["fewer_websites"]),
        (ApplyWebsitesOperator, APPLY, ["fewer_websites", "many_created"]),
        (CheckDriftOperator, {**APPLY, "on_drift": "log"}, ["fewer_websites"]),
    ],
)
def test_run_is_blocked_if_websites_of_the_last_run_are_missing(
    sandbox: SandboxServer,
    execute: Execute,
    tmp_path: Path,
    missing: int,
    first: tuple[type, dict[str, Any]],
    operator: type,
    arguments: dict[str, Any],
    guards: list[str],
) -> None:
    given = {**arguments, "state_path": str(tmp_path)}
    execute(first[0], **first[1], state_path=str(tmp_path), task_id="first")
    forget(sandbox, missing)
    before = writes(sandbox)
    with pytest.raises(AirflowFailException) as caught:
        execute(operator, **given)
    assert f"{missing} of 40 websites of the last run are missing from the list, by id and domain" in str(caught.value)
    assert f"override_guards={guards}" in str(caught.value)
    assert writes(sandbox) == before
    execute(operator, **given, override_guards=["fewer_websites", "many_created"])
    execute(operator, **given)  # the overridden run is the last one


def test_failed_run_is_not_the_last_run(sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    sandbox.fault("update", target=r"/websites/7$", status=422, times=None)
    with pytest.raises(AirflowFailException):
        execute(SyncExcludedIpsOperator, **SYNC, state_path=str(tmp_path))
    assert not [*tmp_path.rglob("last_websites.json")]


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_plan_names_the_guards_of_the_last_run(
    sandbox: SandboxServer, execute: Execute, tmp_path: Path, spelled: Callable[[str], str]
) -> None:
    config = {**CONFIG, "websites": {spelled(domain): {"email": True} for domain in DOMAINS}}
    given = {"config": config, "state_path": str(tmp_path)}
    assert execute(PlanWebsitesOperator, **given)["blocked_by"] == []
    forget(sandbox, 13)
    for _ in range(2):  # a blocked plan is not the last run
        planned = execute(PlanWebsitesOperator, **given)
        assert planned["blocked_by"] == ["fewer_websites", "many_created"]
        assert "13 of 40 websites of the last run would be created again" in planned["guard_message"]
    assert execute(SyncExcludedIpsOperator, **SYNC, state_path=str(tmp_path), dry_run=True)["blocked_by"] == [
        "fewer_websites"
    ]


def test_healthy_nights_are_not_blocked(sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    state = {"state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, **SYNC, **state)
    forget(sandbox, 12)  # 30 percent
    assert execute(SyncExcludedIpsOperator, **SYNC, **state)["websites_compared"] == 28
    for domain in (f"new-{number}.example" for number in range(30)):
        sandbox.add_website(domain)
    assert execute(ApplyWebsitesOperator, **APPLY, **state)["creates"] == 12
    # This run deletes most websites, which are then not missing in the next one.
    fewer: dict[str, Any] = {"config": {**CONFIG, "websites": {domain: {} for domain in DOMAINS[:15]}}, "prune": True}
    execute(ApplyWebsitesOperator, **fewer, **state, override_guards="many_deleted")
    assert execute(ApplyWebsitesOperator, **fewer, **state)["websites_compared"] == 15
    # A selected website does not reveal what the list has, and another account has other websites.
    forget(sandbox, 34)
    execute(SyncExcludedIpsOperator, **SYNC, **state, websites=[DOMAINS[0]], list_name="one")


@pytest.mark.parametrize("damage", ["cut", "other service", "other account"])
def test_unknown_websites_of_the_last_run_block_until_the_guard_is_overridden(
    damage: str, sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    given = {**SYNC, "state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, **given)
    [file] = tmp_path.rglob("last_websites.json")
    stored = file.read_text()
    changed = {
        "cut": stored[:100],
        "other service": stored.replace(sandbox.url, "https://other.example"),
        "other account": stored.replace('"account":"1"', '"account":"2"'),
    }[damage]
    assert changed != stored
    file.write_text(changed)
    forget(sandbox, 40)
    before = len(writes(sandbox))
    plan = execute(SyncExcludedIpsOperator, **given, dry_run=True)
    assert plan["blocked_by"] == ["fewer_websites"]
    assert "The websites of the last run are unknown" in plan["guard_message"]
    with pytest.raises(AirflowFailException, match=r"last_websites\.json is .*(\n.*)*fewer_websites"):
        execute(SyncExcludedIpsOperator, **given)
    assert (len(writes(sandbox)), file.read_text()) == (before, changed)
    execute(SyncExcludedIpsOperator, **given, override_guards="fewer_websites")
    assert execute(SyncExcludedIpsOperator, **given)["blocked_by"] == []


def test_command_compares_with_the_last_run_and_does_not_count_as_one(
    sandbox: SandboxServer, execute: Execute, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, file = tmp_path / "state", tmp_path / "websites.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    arguments = ["plan", str(file), "--state-path", str(state)]
    assert main(arguments) == 2
    assert not [*state.rglob("last_websites.json")]
    execute(SyncExcludedIpsOperator, **SYNC, state_path=str(state))
    forget(sandbox, 40)
    assert main(arguments) == 1
    assert "40 of 40 websites of the last run are missing" in capsys.readouterr().err


def test_export_does_not_replace_a_file_with_many_more_websites(
    sandbox: SandboxServer, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "websites.yaml"
    given: dict[str, Any] = {"output_path": str(file)}
    execute(ExportWebsitesOperator, **given)
    full = file.read_text()
    forget(sandbox, 12)
    assert execute(ExportWebsitesOperator, **given)["websites_exported"] == 28
    file.write_text(full)
    for missing in (13, 40):
        forget(sandbox, missing)
        with pytest.raises(AirflowFailException, match=f"The list lacks {missing} of 40 websites of "):
            execute(ExportWebsitesOperator, **given)
        assert file.read_text() == full
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise TimeoutError("The storage did not respond.")

        patch.setattr(storage, "_first_bytes", fail)
        with pytest.raises(StorageError, match="did not respond"):
            execute(ExportWebsitesOperator, **given)
        assert file.read_text() == full
    assert execute(ExportWebsitesOperator, **given, override_guards="fewer_websites")["websites_exported"] == 0
    sandbox.add_website(DOMAINS[1])
    file.write_text(full)
    execute(ExportWebsitesOperator, **given, websites=[DOMAINS[1]])  # only this website is exported
    file.write_text("no: [file")
    assert execute(ExportWebsitesOperator, **given)["websites_exported"] == 1


def test_run_for_a_few_websites_does_not_replace_the_websites_of_the_last_run(
    sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    """Otherwise, the guard would compare the next list with these few websites."""
    state = {"state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, **SYNC, **state, task_id="all")
    execute(SyncExcludedParamsOperator, exclude_params="a", websites=["0.example"], **state, task_id="few")
    forget(sandbox, 20)
    with pytest.raises(AirflowFailException, match="fewer_websites"):
        execute(SyncExcludedIpsOperator, **SYNC, **state, task_id="all")
