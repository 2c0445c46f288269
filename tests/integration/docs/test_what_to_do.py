"""The longer entries of docs/troubleshooting.md: each situation is brought about, and the advice is followed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from dag_runs import DagOutcome, RunDag
from samples import sample_dag

from airflow_provider_analytics.commands import main
from airflow_provider_analytics.exceptions import AmbiguousWriteError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (.+)\n((?:(?!##).*\n)+)", TEXT, re.MULTILINE))


def code(section: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", SECTIONS[section], re.DOTALL)


def run_code(text: str, **names: Any) -> dict[str, Any]:
    exec(compile(text, "docs/troubleshooting.md", "exec"), names)
    return names


def trigger(run_dag: RunDag, folder: Path, command: str) -> DagOutcome:
    """Do what ``airflow dags trigger`` of the page does with a sample DAG."""
    *begin, dag_id, option, text = shlex.split(command)
    assert (begin, option) == (["airflow", "dags", "trigger"], "--conf")
    return run_sample(run_dag, folder, dag_id, **json.loads(text))


def run_sample(run_dag: RunDag, folder: Path, dag_id: str, **conf: Any) -> DagOutcome:
    dag = sample_dag(dag_id, folder)
    for task in dag.tasks:
        task.retries = 0
    return run_dag(dag, conf=conf)


def test_a_list_that_has_shrunk(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analytics_sandbox.seed(20)
    assert run_sample(run_dag, tmp_path, "nightly_website_snapshot").state == "success"
    gone = [website["domain"] for website in analytics_sandbox.websites()[:15]]
    for website in analytics_sandbox.websites()[:15]:
        analytics_sandbox.remove_website(website["id"])
    assert run_sample(run_dag, tmp_path, "nightly_website_snapshot").state == "failed"

    capsys.readouterr()
    [look] = code("more than max_loss_fraction", "python")
    run_code(look.replace("s3://my-bucket/analytics", str(tmp_path)))
    assert f"20 then, 5 now, gone: {sorted(gone)}" in capsys.readouterr().out

    [command] = code("more than max_loss_fraction", "console")
    assert trigger(run_dag, tmp_path, command).state == "success"
    assert run_sample(run_dag, tmp_path, "nightly_website_snapshot").state == "success"


def test_status_401(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Callable[..., Any]
) -> None:
    connect(password="revoked")
    with pytest.raises(AirflowFailException, match="API key rejected"):
        execute(CreateWebsiteOperator, domain="shop.example.com")
    assert analytics_sandbox.websites() == []


def test_the_commands_are_those_that_the_page_on_deployment_has_run(page: Callable[[str], str]) -> None:
    """tests/system/test_deployment.py runs these; the others are variants of them."""
    test, delete, add = (line for block in code("API key rejected", "console") for line in block.splitlines())
    assert test in page("deployment")
    assert add in page("deployment")
    assert delete == "airflow connections delete analytics_default"
    assert code("is empty. Does its source exist", "console") == ["airflow variables get exclude_ips\n"]


@pytest.mark.parametrize("stored", [True, False])
def test_a_create_whose_outcome_is_unknown(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    stored: bool,
) -> None:
    connect()
    with AnalyticsHook() as hook:
        hook.find_website("shop.example.com")
    look_up = len(analytics_sandbox.requests)
    analytics_sandbox.fault("create", status=502, commit=stored)
    # The look-up after the create fails as well: if it found the website, nothing would be unknown.
    analytics_sandbox.fault("list", skip=look_up, status=502, times=None)
    with pytest.raises(AmbiguousWriteError, match=r"Website 'shop\.example\.com' may or may not"):
        execute(CreateWebsiteOperator, domain="shop.example.com", privacy="private")
    analytics_sandbox.clear_faults()

    [look] = code("may or may not have been created", "python")
    capsys.readouterr()
    run_code(look)
    assert ("'domain': 'shop.example.com'" in capsys.readouterr().out) == stored
    execute(CreateWebsiteOperator, domain="shop.example.com", privacy="private", if_exists="update")
    assert [website["domain"] for website in analytics_sandbox.websites()] == ["shop.example.com"]


def test_an_empty_list(
    run_dag: RunDag, analytics_sandbox: SandboxServer, execute: Callable[..., Any], tmp_path: Path
) -> None:
    analytics_sandbox.add_website("shop.example.com", exclude_ips="192.0.2.1")
    assert run_sample(run_dag, tmp_path, "sync_excluded_ips").state == "failed"
    with pytest.raises(AirflowFailException, match="exclude_ips is empty"):
        execute(SyncExcludedIpsOperator, exclude_ips="")
    assert [request.method for request in analytics_sandbox.requests if request.method != "GET"] == []

    execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
    analytics_sandbox.reset()
    with pytest.raises(AirflowFailException, match="The list has 0 websites"):
        execute(SnapshotWebsitesOperator, base_path=str(tmp_path))


def test_a_damaged_list(
    analytics_sandbox: SandboxServer,
    execute: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    analytics_sandbox.add_website("shop.example.com", exclude_ips="203.0.113.9")  # typed by a person
    arguments = {"state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
    [table] = tmp_path.glob("*/lists/*.json")
    table.write_text("{")
    with pytest.raises(AirflowFailException, match="This is not the table of a list"):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
    table.unlink()
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
    [website] = analytics_sandbox.websites()
    assert website["exclude_ips"].splitlines() == ["203.0.113.9", "192.0.2.1", "192.0.2.2"]

    [command] = code("The file of a list is lost", "console")
    program, *options = shlex.split(command.replace("s3://analytics-state", str(tmp_path)))
    assert program == "airflow-provider-analytics"
    capsys.readouterr()
    assert main(options) == 0
    unlisted = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "no list" in line]
    assert unlisted == ["192.0.2.2", "203.0.113.9"]
