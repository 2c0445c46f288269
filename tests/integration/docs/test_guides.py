# SPDX-License-Identifier: Apache-2.0
"""The how-to guides: the DAGs of their code blocks run, with other places for their files."""

from __future__ import annotations

import asyncio
import runpy
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from airflow_versions import (
    needs_answers_in_dag_test,
    needs_deadlines,
    needs_exceptions_in_callbacks,
    needs_retry_policies,
    needs_whole_lines,
    register,
)
from dag_runs import RunDag
from fake_services import FakeService
from mail import Inbox

from airflow_provider_analytics.exceptions import AmbiguousWriteError, AnalyticsApiError
from airflow_provider_analytics.operators.websites_as_code import PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

EXAMPLES = Path(__file__).parents[3] / "examples"
Blocks = Callable[[str, str], list[str]]
#: A far-away day, so that no scheduler of these tests considers it past.
MIDNIGHT = datetime(2031, 3, 1, 23, tzinfo=UTC)  # 00:00 of the next day in Berlin


@pytest.fixture
def module_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Import a code block as Airflow imports a DAG file, with places of this test."""

    def load(code: str, **places: str) -> Any:
        for there, here in {
            "s3://my-bucket": tmp_path.as_uri(),
            "s3://analytics-state": tmp_path.as_uri(),
            **places,
        }.items():
            code = code.replace(there, here)
        module = ModuleType("a_page_of_the_docs")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(code, "docs", "exec"), module.__dict__)
        return module

    return load


def test_production_dag_of_the_guide_takes_and_prunes_snapshots(
    run_dag: RunDag, analytics_sandbox: SandboxServer, blocks: Blocks, module_of: Any, tmp_path: Path
) -> None:
    analytics_sandbox.seed(3)
    code = blocks("deployment", "python")[0]
    outcome = run_dag(module_of(code).production_snapshot())
    assert {name: task.state for name, task in outcome.tasks.items()} == {"snapshot": "success", "prune": "success"}
    assert len(list((tmp_path / "analytics").glob("websites/dt=*/*.jsonl"))) == 1


@needs_exceptions_in_callbacks
def test_failure_mail_of_the_guide_is_sent_without_the_key(
    run_dag: RunDag, connect: Callable[..., None], blocks: Blocks, module_of: Any, inbox: Inbox
) -> None:
    connect(password="revoked")
    run_dag(module_of(blocks("monitoring", "python")[0]).alert_by_mail())
    mail, _ = inbox.only_mail()
    assert mail["To"] == "team@example.com"
    assert "API key rejected" in mail["Subject"]
    assert "revoked" not in mail.as_string()


@needs_deadlines
def test_deadline_alert_is_sent(airflow_database: None, module_of: Any, inbox: Inbox) -> None:
    """The steps of the scheduler and the triggerer: the deadline passes, and its callback is awaited."""
    from airflow.models.deadline import Deadline
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.triggers.callback import CallbackTrigger
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    code = (Path(__file__).parents[3] / "examples" / "alert_by_six.py").read_text(encoding="utf-8")
    dag = module_of(code).snapshot_by_six()
    register(dag)
    with create_session() as session:
        stored = SerializedDagModel.get(dag.dag_id, session=session)
        assert stored is not None
        run = stored.dag.create_dagrun(
            run_id="of_the_night",
            logical_date=MIDNIGHT,
            data_interval=(MIDNIGHT, MIDNIGHT),
            run_after=MIDNIGHT,
            run_type=DagRunType.SCHEDULED,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        session.flush()
        [deadline] = session.query(Deadline).filter(Deadline.dagrun_id == run.id)
        assert deadline.deadline_time == MIDNIGHT + timedelta(hours=6)
        deadline.handle_miss(session)
        data = deadline.callback.data
        session.rollback()

    async def trigger() -> list[str]:
        return [event.payload["state"] async for event in CallbackTrigger(data["path"], data["kwargs"]).run()]

    assert asyncio.run(trigger()) == ["running", "success"]
    mail, text = inbox.only_mail()
    assert mail["Subject"] == "No snapshot by 06:00: snapshot_by_six"
    assert "The run of_the_night is running." in text


def test_example_promotes_websites_to_production_only_if_staging_matches(
    run_dag: RunDag, module_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "websites.yaml"
    file.write_text("websites:\n  www.example.com:\n    privacy: private\n")
    promote = (EXAMPLES / "promote_websites.py").read_text(encoding="utf-8")
    with FakeService() as staging, FakeService() as production:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_STAGING", staging.connection_json())
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_PRODUCTION", production.connection_json())
        places = {"/opt/airflow/dags/websites.yaml": str(file)}
        staging.configure(ignored_fields=["privacy"])
        assert run_dag(module_of(promote, **places).promote_websites()).state == "failed"
        assert production.websites() == []
        staging.reset()
        assert run_dag(module_of(promote, **places).promote_websites()).state == "success"
        for server in (staging, production):
            assert [(website["domain"], website["privacy"]) for website in server.websites()] == [
                ("www.example.com", 1)
            ]


def test_export_of_the_guide_has_an_empty_plan(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    blocks: Blocks,
    run_block: Callable[..., dict[str, Any]],
    execute: Callable[..., Any],
    tmp_path: Path,
) -> None:
    analytics_sandbox.seed(5)
    connect()
    [code] = [block for block in blocks("websites_as_code", "python") if "import ExportWebsitesOperator" in block]
    run_block(code)
    assert execute(PlanWebsitesOperator, config_path=str(tmp_path / "websites.yaml"))["changes"] == []


@pytest.mark.slow  # imports the whole of Airflow's public API
@needs_answers_in_dag_test
@pytest.mark.parametrize(
    ("name", "dag_id", "changed"),
    [
        ("websites_as_code", "websites", ("privacy", 1)),
        ("exclusions", "office_addresses", ("exclude_ips", "192.0.2.1")),
    ],
)
def test_documented_approval_works_the_first_time(
    run_dag: RunDag,
    analytics_sandbox: SandboxServer,
    blocks: Blocks,
    module_of: Any,
    answer: Callable[[str], list[str | None]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    dag_id: str,
    changed: tuple[str, Any],
) -> None:
    analytics_sandbox.add_website("www.example.com", privacy=0)
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "192.0.2.1  # office")
    file = tmp_path / "websites.yaml"
    file.write_text("websites:\n  www.example.com:\n    privacy: private\n")
    [code] = [block for block in blocks(name, "python") if "task_groups import" in block]
    make = getattr(module_of(code, **{"/opt/airflow/dags/websites.yaml": str(file)}), dag_id)
    field, value = changed
    for option, state in (("Reject", "skipped"), ("Approve", "success"), ("Approve", "skipped")):
        shown = answer(option)
        tasks = run_dag(make()).tasks
        assert {name.partition(".")[2]: task.state for name, task in tasks.items()}["apply"] == state
        assert len(shown) == (0 if (option, state) == ("Approve", "skipped") else 1)
        [website] = analytics_sandbox.websites()
        assert (website[field] == value) == (option == "Approve")
    assert len(list(tmp_path.glob("*/plans/*.json"))) == 2


@pytest.mark.parametrize("is_mapped", [pytest.param(False, marks=needs_whole_lines), True])
# Airflow 2 complains of its own context when it renders a map_index_template.
@pytest.mark.filterwarnings("ignore:Accessing .* from the template is deprecated")
def test_websites_from_a_table_are_created_once(
    run_dag: RunDag,
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    blocks: Blocks,
    module_of: Any,
    monkeypatch: pytest.MonkeyPatch,
    task_log: Callable[[], str],
    tmp_path: Path,
    is_mapped: bool,
) -> None:
    connect()
    monkeypatch.setenv("AIRFLOW_VAR_PAGE_PASSWORD_CLIENT_B", "s3cret-of-b")
    [table], [errors] = blocks("websites_from_a_table", "csv"), blocks("websites_from_a_table", "output")
    code, mapped = (block for block in blocks("websites_from_a_table", "python"))
    if is_mapped:
        [task] = [line for line in code.splitlines() if "ApplyWebsitesOperator(" in line]
        code = code.replace(task, textwrap.indent(mapped, "    ")).replace("websites_as_code", "websites")
        code = code.replace("ApplyWebsitesOperator", "CreateWebsiteOperator")
    file = tmp_path / "customers.csv"
    places = {"/data/customers.csv": str(file)}
    file.write_text(f"{table}https://www.client-c.example,private,\nwww.client-d.example,privat,\n")
    tasks = run_dag(module_of(code, **places).websites_of_customers()).tasks
    if is_mapped:
        assert tasks["create[3]"].label == "www.client-d.example"
    else:
        assert (tasks["create"].state, tasks["create"].try_number, analytics_sandbox.websites()) == ("failed", 1, [])
        assert errors.rstrip() in task_log()
    file.write_text(table)
    assert run_dag(module_of(code, **places).websites_of_customers()).state == "success"
    websites = {website["domain"]: website["privacy"] for website in analytics_sandbox.websites()}
    assert websites == {"www.client-a.example": 1, "www.client-b.example": 2}
    analytics_sandbox.clear_requests()
    assert run_dag(module_of(code, **places).websites_of_customers()).state == "success"
    changed = {request.method for request in analytics_sandbox.requests} - {"GET"}
    assert changed == ({"PATCH"} if is_mapped else set())  # the service does not return the password


@needs_retry_policies
def test_retry_policy_waits_as_long_as_the_service_asks(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], blocks: Blocks, module_of: Any
) -> None:
    connect()
    analytics_sandbox.seed(3)
    module = module_of((EXAMPLES / "retry_policy.py").read_text(encoding="utf-8"))
    [task] = module.snapshot_with_retry_policy().tasks
    analytics_sandbox.fault("any", status=503, headers={"Retry-After": "300"}, times=None)
    with pytest.raises(AnalyticsApiError) as caught:
        task.execute({})
    policy = task.retry_policy
    assert policy.evaluate(caught.value, 1, 5).retry_delay == timedelta(minutes=5)
    lost = AmbiguousWriteError("the response was lost", "shop.example.com")
    assert policy.evaluate(lost, 1, 5).retry_delay == timedelta(minutes=1)
    assert policy.evaluate(ValueError("another error"), 1, 5).retry_delay is None


@needs_whole_lines
def test_single_website_of_the_guide_is_created_changed_and_deleted(
    run_dag: RunDag, analytics_sandbox: SandboxServer, connect: Callable[..., None], blocks: Blocks, tmp_path: Path
) -> None:
    connect()
    code, delete = blocks("single_websites", "python")
    path = tmp_path / "one_website.py"
    path.write_text(code)
    assert run_dag(runpy.run_path(str(path))["dag"]).state == "success"
    [website] = analytics_sandbox.websites()
    settings = {name: website[name] for name in ("domain", "privacy", "email", "favorite")}
    assert settings == {"domain": "shop.example.com", "privacy": 1, "email": 1, "favorite": True}
    analytics_sandbox.seed(20)
    path.write_text(f"{code}\n{delete}")
    for domain, state in (("new.example.com", "failed"), ("old.example.com", "success")):
        analytics_sandbox.change_website(17, domain=domain)
        tasks = run_dag(runpy.run_path(str(path))["dag"]).tasks
        assert (tasks["delete"].state, domain) == (state, domain)
    assert 17 not in {website["id"] for website in analytics_sandbox.websites()}
