"""The sample that sends an e-mail before entries expire, with the mail server of the test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dag_runs import RunDag
from mail import mail_server
from samples import sample_dag

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.mark.sample("remind_of_expiring_entries")
def test_the_mail_names_entry_day_owner_and_reason(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.add_website("a.example")
    today = datetime.now(UTC).date()
    days = {name: today + timedelta(days=days) for name, days in (("over", -1), ("soon", 29), ("later", 31))}
    with mail_server() as inbox:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", inbox.connection)
        monkeypatch.setenv("AIRFLOW_VAR_WEBSITE_ANALYTICS_NOTIFY", "team@example.com")
        monkeypatch.setenv(
            "AIRFLOW_VAR_EXCLUDE_IPS",
            f"203.0.113.7 # <Berlin>, owner=it@example.com, until={days['soon']}\n203.0.113.8 # until={days['later']}\n"
            f"203.0.113.9 # until={days['over']}",
        )
        assert run_dag(sample_dag("remind_of_expiring_entries", tmp_path)).state == "success"
        mail, text = inbox.only_mail()
        assert mail["To"] == "team@example.com"
        assert mail["Subject"] == "Excluded IP addresses: 1 expire within 30 days, 1 have expired"
        assert text.replace("\r\n", "\n").strip() == (
            f"<pre>Expire soon:\n203.0.113.7, {days['soon']}, it@example.com, &lt;Berlin&gt;\n"
            f"Have expired:\n203.0.113.9, {days['over']}</pre>"
        )
        monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.8")
        outcome = run_dag(sample_dag("remind_of_expiring_entries", tmp_path))
        assert (outcome.state, outcome.tasks["mail"].state) == ("success", "skipped")
        assert len(inbox.received) == 1
    assert not [one for one in analytics_sandbox.requests if one.method != "GET"]
