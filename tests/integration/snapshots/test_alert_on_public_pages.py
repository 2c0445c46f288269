"""The sample that sends an alert if a statistics page became public, against a mail server and a Slack of the test."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import allow_execute_in_this_thread, needs_exceptions_in_callbacks
from dag_runs import RunDag
from mail import mail_server
from raw_server import RawServer, http

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("analytics_sandbox")


def sample() -> Any:
    path = Path(__file__).parents[3] / "dags" / "alert_on_public_pages.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def take(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    def run(day: str) -> dict[str, Any]:
        allow_execute_in_this_thread()
        arguments: dict[str, Any] = {"partition_date": day, "late": "label"}
        operator = SnapshotWebsitesOperator(task_id="take", base_path=f"file://{tmp_path}", **arguments)
        taken: dict[str, Any] = operator.execute({})
        return taken

    return run


@pytest.fixture
def opened(analytics_sandbox: SandboxServer, take: Any) -> dict[str, Any]:
    """Take two snapshots. Two pages become public in between, another one private, and one public page is removed."""
    for number, privacy in enumerate((1, 1, 0, 0, 0), start=1):
        analytics_sandbox.add_website(f"{number}.example", privacy=privacy)
    assert take("2026-11-20")["changes"] is None
    analytics_sandbox.change_website(1, privacy=0)
    analytics_sandbox.change_website(3, privacy=1)
    analytics_sandbox.change_website(5, exclude_ips="192.0.2.7")
    analytics_sandbox.remove_website(4)
    analytics_sandbox.add_website("new.example", privacy=0)
    taken: dict[str, Any] = take("2026-11-21")
    return taken


@needs_exceptions_in_callbacks
@pytest.mark.sample("alert_on_public_pages")
def test_the_mail_names_the_domains(
    run_dag: RunDag, opened: dict[str, Any], take: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = {"base_path": f"file://{tmp_path}"}
    with mail_server() as inbox:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", inbox.connection)
        monkeypatch.setenv("AIRFLOW_VAR_WEBSITE_ANALYTICS_NOTIFY", "team@example.com")
        task = run_dag(sample().alert_on_public_pages(), conf=conf).tasks["check"]
        assert (task.state, task.try_number) == ("failed", 1)
        mail, text = inbox.only_mail()
        take("2026-11-22")  # nothing changed since
        assert run_dag(sample().alert_on_public_pages(), conf=conf).state == "success"
        assert len(inbox.received) == 1
    assert (mail["To"], mail["From"]) == ("team@example.com", "airflow@example.com")
    assert mail["Subject"] == "2 statistics pages became public: 1.example, new.example"
    assert "1.example\nnew.example" in text.replace("\r\n", "\n")


def test_the_event_of_a_snapshot_says_where_the_changes_are(opened: dict[str, Any]) -> None:
    check = sample().alert_on_public_pages().get_task("check").python_callable
    with pytest.raises(AirflowFailException, match=r"^2 statistics pages became public: 1\.example, new\.example\n"):
        check("nowhere", triggering_asset_events={"a": [SimpleNamespace(extra=opened)]})
    first = SimpleNamespace(extra={**opened, "changes": None})
    check("nowhere", triggering_asset_events={"a": [first]})


def test_before_the_first_snapshot_there_is_no_alert(tmp_path: Path) -> None:
    sample().alert_on_public_pages().get_task("check").python_callable(f"file://{tmp_path}")


@needs_exceptions_in_callbacks
def test_slack_gets_the_same_text(
    run_dag: RunDag, opened: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("airflow.providers.slack", reason="only who uses Slack installs its provider")
    with mail_server() as inbox, RawServer(lambda _: http(200, "ok")) as slack:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", inbox.connection)
        monkeypatch.setenv("AIRFLOW_VAR_WEBSITE_ANALYTICS_NOTIFY", "team@example.com")
        connection = {"conn_type": "slackwebhook", "password": f"{slack.url}/services/a/b/c"}
        monkeypatch.setenv("AIRFLOW_CONN_SLACK_DEFAULT", json.dumps(connection))
        module = sample()
        module.SLACK_CONN_ID = "slack_default"
        run_dag(module.alert_on_public_pages(), conf={"base_path": f"file://{tmp_path}"})
        inbox.only_mail()
        [request] = slack.requests
    assert "2 statistics pages became public: 1.example, new.example" in json.loads(request.body)["text"]
