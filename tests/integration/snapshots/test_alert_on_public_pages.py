"""The sample that sends an alert if a statistics page became public, against a mail server and a Slack of the test."""

from __future__ import annotations

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
from samples import sample, sample_dag

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("analytics_sandbox")


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
    with mail_server() as inbox:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", inbox.connection)
        monkeypatch.setenv("AIRFLOW_VAR_WEBSITE_ANALYTICS_NOTIFY", "team@example.com")
        task = run_dag(sample_dag("alert_on_public_pages", tmp_path)).tasks["check"]
        assert (task.state, task.try_number) == ("failed", 1)
        mail, text = inbox.only_mail()
        take("2026-11-22")  # nothing changed since
        assert run_dag(sample_dag("alert_on_public_pages", tmp_path)).state == "success"
        assert len(inbox.received) == 1
    assert (mail["To"], mail["From"]) == ("team@example.com", "airflow@example.com")
    assert mail["Subject"] == "2 statistics pages became public: 1.example, new.example"
    assert "1.example\nnew.example" in text.replace("\r\n", "\n")


def check(folder: Path, **extra: Any) -> None:
    """Run the task for an event."""
    events = {"asset": [SimpleNamespace(extra=extra)]}
    sample_dag("alert_on_public_pages", folder).get_task("check").python_callable(triggering_asset_events=events)


def test_of_an_event_the_day_counts(opened: dict[str, Any], take: Any, tmp_path: Path) -> None:
    take("2026-11-22")  # nothing changed since
    with pytest.raises(AirflowFailException, match=r"^2 statistics pages became public: 1\.example, new\.example\n"):
        check(tmp_path, **opened)
    check(tmp_path, snapshot_date="2026-11-20")  # the first one
    check(tmp_path, snapshot_date="2026-11-23")  # there is none
    check(tmp_path)  # a person created the event


def test_before_the_first_snapshot_there_is_no_alert(tmp_path: Path) -> None:
    sample_dag("alert_on_public_pages", tmp_path).get_task("check").python_callable()


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
        module = sample("alert_on_public_pages", tmp_path)
        module.SLACK_CONN_ID = "slack_default"
        run_dag(module.alert_on_public_pages())
        inbox.only_mail()
        [request] = slack.requests
    assert "2 statistics pages became public: 1.example, new.example" in json.loads(request.body)["text"]
