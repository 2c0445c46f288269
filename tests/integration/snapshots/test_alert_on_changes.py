# SPDX-License-Identifier: Apache-2.0
"""The sample ``alert_on_changes``: alert mails to a mail server of the test (``dags``)."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import needs_exceptions_in_callbacks
from dag_runs import RunDag
from mail import mail_server
from samples import sample, sample_dag
from shelf import NIGHT, Shelf, websites

PUBLIC = "Pages that became public: 'site-1.example.com', 'new.example'"
REMOVED = "Removed websites: 'site-4.example.com'"
NEW = "New websites: 'new.example'"
SUBJECT = f"{PUBLIC}; {REMOVED}; {NEW}"


@pytest.fixture
def take(tmp_path: Path) -> Callable[[], Any]:
    """Take two snapshots; each call takes another one of the last list.

    Between them, two pages become public, another one becomes private, and a public page is removed.
    """
    shelf = Shelf(f"{tmp_path}")
    public = websites(5)
    assert shelf.take([*public[:3], *websites(2, privacy=1)]).manifest.changes_path is None
    changed = [{"id": 9, "domain": "new.example", "privacy": 0}, public[0] | {"exclude_ips": "192.0.2.7"}]
    after = [*changed, public[2] | {"privacy": 1}, websites(2, privacy=1)[0], public[4]]
    shelf.take(after, NIGHT)
    return lambda: shelf.take(after, 2 * NIGHT)


@needs_exceptions_in_callbacks
@pytest.mark.sample("alert_on_changes")
def test_alert_mail_names_the_domains(
    run_dag: RunDag, take: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_server() as inbox:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", inbox.connection)
        monkeypatch.setenv("AIRFLOW_VAR_ANALYTICS_NOTIFY", "team@example.com")
        task = run_dag(sample_dag("alert_on_changes", tmp_path)).tasks["check"]
        assert (task.state, task.try_number) == ("failed", 1)
        mail, text = inbox.only_mail()
        take()  # nothing changed since
        assert run_dag(sample_dag("alert_on_changes", tmp_path)).state == "success"
        assert len(inbox.received) == 1
    assert [mail[name] for name in ("To", "From", "Subject")] == ["team@example.com", "airflow@example.com", SUBJECT]
    assert "(2):\n'site-1.example.com'\n'new.example'" in html.unescape(text.replace("\r\n", "\n"))


@needs_exceptions_in_callbacks
@pytest.mark.sample("alert_on_changes")
@pytest.mark.parametrize("recipient", [None, "team@example.com"], ids=["no variable", "no mail server"])
def test_message_to_slack_is_sent_although_no_mail_can_be(
    run_dag: RunDag,
    take: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipient: str | None,
) -> None:
    sent: list[str] = []

    def notifier(slack_webhook_conn_id: str, text: str) -> Callable[[Any], None]:
        return lambda context: sent.append(f"{slack_webhook_conn_id}: {context['exception']}")

    name = "airflow.providers.slack.notifications.slack_webhook"
    for part in (name.rpartition(".notifications")[0], name.rpartition(".")[0], name):
        monkeypatch.setitem(sys.modules, part, ModuleType(part))
    monkeypatch.setattr(sys.modules[name], "SlackWebhookNotifier", notifier, raising=False)
    if recipient:
        monkeypatch.setenv("AIRFLOW_VAR_ANALYTICS_NOTIFY", recipient)
    module = sample("alert_on_changes", tmp_path)
    monkeypatch.setattr(module, "SLACK_CONN_ID", "slack_default")
    assert run_dag(module.alert_on_changes()).state == "failed"
    [message] = sent
    assert message.startswith(f"slack_default: {SUBJECT}")


def check(folder: Path, params: dict[str, Any] | None = None, **extra: Any) -> None:
    """Run the task for an event; without one if it has no data."""
    dag = sample_dag("alert_on_changes", folder)
    events = {"asset": [SimpleNamespace(extra=extra)]}
    chosen = {**dag.params.dump(), **(params or {})}
    dag.get_task("check").python_callable(params=chosen, triggering_asset_events=events)


def test_alert_compares_the_snapshot_of_the_event_day(take: Callable[[], Any], tmp_path: Path) -> None:
    take()  # nothing changed since
    with pytest.raises(AirflowFailException, match=f"^{SUBJECT}\n"):
        check(tmp_path, snapshot_date="2026-11-21")
    check(tmp_path, snapshot_date="2026-11-20")  # the first one
    check(tmp_path)  # a person created the event


def test_alert_fails_if_the_snapshot_is_somewhere_else(take: Callable[[], Any], tmp_path: Path) -> None:
    take()
    path = f"{tmp_path}/websites/dt=2026-11-20"
    check(tmp_path, snapshot_date="2026-11-20", path=path)
    check(tmp_path, snapshot_date="2026-11-20", path=f"file://{path}")
    with pytest.raises(AirflowFailException, match=r"The snapshot of the event is .*/other/.*Set FOLDER"):
        check(tmp_path, snapshot_date="2026-11-20", path=f"{tmp_path}/other/websites/dt=2026-11-20")
    with pytest.raises(AirflowFailException, match=r"has no snapshot of 2026-11-23\. Check FOLDER"):
        check(tmp_path, snapshot_date="2026-11-23")
    for params in ({}, {"test_alert": True}):
        with pytest.raises(AirflowFailException, match=r"has no snapshot\. Check FOLDER"):
            check(tmp_path / "before the first snapshot", params)


def test_removed_websites_can_be_allowed_up_to_a_number(take: Callable[[], Any], tmp_path: Path) -> None:
    switches: dict[str, Any] = {"public_pages": False, "new_websites": False}
    with pytest.raises(AirflowFailException, match=f"^{REMOVED}\n"):
        check(tmp_path, switches, snapshot_date="2026-11-21")
    check(tmp_path, {**switches, "removed_allowed": 1}, snapshot_date="2026-11-21")


@pytest.mark.parametrize(
    ("name", "text"), [("public_pages", PUBLIC), ("removed_websites", REMOVED), ("new_websites", NEW)]
)
def test_param_switches_its_alert(take: Callable[[], Any], tmp_path: Path, name: str, text: str) -> None:
    switches = dict.fromkeys(("public_pages", "removed_websites", "new_websites"), False)
    check(tmp_path, switches, snapshot_date="2026-11-21")
    with pytest.raises(AirflowFailException, match=f"^{text}\n"):
        check(tmp_path, {**switches, name: True}, snapshot_date="2026-11-21")


def test_alert_can_be_tried_with_the_first_snapshot(tmp_path: Path) -> None:
    Shelf(f"{tmp_path}").take([*websites(5)[:1], *websites(4, privacy=1)])
    check(tmp_path)
    expected = "Pages that became public: 'site-5.example.com'; New websites: .* and 2 more"
    with pytest.raises(AirflowFailException, match=expected):
        check(tmp_path, {"test_alert": True})
