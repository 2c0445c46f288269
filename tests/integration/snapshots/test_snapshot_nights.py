# SPDX-License-Identifier: Apache-2.0
"""Three nights with comparisons, a report, and DuckDB, and alert mails: sample DAGs and the SQL of docs/loading.md."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import duckdb
import pytest
import time_machine
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import awaited_uris, needs_exceptions_in_callbacks
from dag_runs import RunDag
from mail import Inbox
from samples import sample, sample_dag
from shelf import HOUR, NIGHT, Shelf, websites

from airflow_provider_analytics.operators.snapshots import snapshot_asset
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.formats import COLUMNS

ROOT = Path(__file__).parents[3]
LOAD = "load_snapshot_into_duckdb"


def run_night(run_dag: RunDag, base: Path, days: int, state: str = "success", **params: Any) -> Any:
    """Run the nightly DAG unchanged, except for the report, at two minutes past a midnight after today."""
    dag = sample_dag("nightly_website_snapshot", base)
    dag.get_task("snapshot").html_report = True
    for task in dag.tasks:
        task.retries = 0  # a retry would wait for minutes
    night = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)
    with time_machine.travel(night + timedelta(minutes=2)):
        outcome = run_dag(dag, conf=params, logical_date=night)
    assert outcome.state == state
    return outcome.tasks


def every(nights: list[Any], task_id: str, key: str) -> list[Any]:
    return [tasks[task_id].returned[key] for tasks in nights]


@pytest.mark.sample("nightly_website_snapshot")
@pytest.mark.sample("load_snapshot_into_duckdb")
@pytest.mark.slow  # five runs, three reports
@pytest.mark.chosen
def test_duckdb_loads_three_nights(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    analytics_sandbox.seed(40)
    nights = []
    for days in (1, 2, 3):
        nights.append(run_night(run_dag, tmp_path, days))
        analytics_sandbox.add_website(f"after-{days}.example.com", privacy=0)
    assert every(nights, "snapshot", "count") == [40, 41, 42]
    assert every(nights, "snapshot", "is_first") == [True, False, False]
    assert every(nights, "compare", "added") == [0, 1, 1]
    assert [nights[0]["compare"].returned["previous"], nights[2]["prune"].returned["dry_run"]] == [None, True]
    page = Path(nights[2]["snapshot"].returned["report"].removeprefix("file://")).read_text()
    assert "over the last 3 snapshots" in page
    assert "after-2.example.com" in page

    dag = sample_dag(LOAD, tmp_path)
    assert awaited_uris(dag) == [snapshot_asset().uri]
    outcome = run_dag(dag)
    assert len(outcome.tasks["load"].returned) == 3
    answer = outcome.tasks["answer"].returned
    assert [(row["websites"], row["new"]) for row in answer] == [(42, 1), (41, 1), (40, 40)]
    assert answer[0]["public"] == answer[1]["public"] + 1

    analytics_sandbox.reset()
    analytics_sandbox.seed(5)
    run_night(run_dag, tmp_path, 4, state="failed", override_guards=["other_source", "clock_skew"])
    accepted = run_night(run_dag, tmp_path, 5, override_guards=["fewer_websites"], prune=True)
    assert (accepted["snapshot"].returned["count"], accepted["prune"].returned["dry_run"]) == (5, False)


def asked(database: Path | str, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(database), read_only=database != ":memory:") as connection:
        return connection.execute(sql).fetchall()


def documented_sql() -> list[str]:
    text = (ROOT / "docs" / "loading.md").read_text()
    section = text.split("## DuckDB", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sql\n(.*?)```", section, re.S)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_documented_sql_runs(compression: str | None, tmp_path: Path) -> None:
    for night in range(2):
        Shelf(str(tmp_path)).take(40, night * NIGHT, compression=compression)
    [sql] = documented_sql()
    rows = asked(":memory:", sql.replace("/data/analytics", str(tmp_path)))
    assert sum(row[1] for row in rows) == 80


def loaded(database: Path, *sources: Path) -> list[int]:
    """Run the loading task, and return the loaded days of the month."""
    module = sample(LOAD)
    vars(module).update(SOURCES=list(map(str, sources)), DATABASE=str(database))
    found: list[str] = module.load_snapshot_into_duckdb().get_task("load").python_callable()
    return [int(day.removeprefix("2026-11-")) for day in found]


def test_every_format_is_loaded_without_a_new_version(tmp_path: Path) -> None:
    base, database = tmp_path / "base", tmp_path / "test.duckdb"
    shelf = Shelf(str(base))
    kept, gone = websites(2, exclude_params="")
    both = [kept, gone]
    nights = [(both, "jsonl", None), (both, "csv", "gzip"), (both, "parquet", None), ([], "jsonl", None)]
    for night, (records, file_format, compression) in enumerate([*nights, ([kept | {"privacy": 2}], "jsonl", "gzip")]):
        shelf.take(
            records, night * NIGHT, format=file_format, compression=compression, override_guards={"fewer_websites"}
        )
    assert loaded(database, base) == [20, 21, 22, 23, 24]
    assert loaded(database, base) == []
    counts = asked(database, "SELECT day(snapshot_date), websites FROM snapshots ORDER BY ALL")
    assert counts == [(20, 2), (21, 2), (22, 2), (23, 0), (24, 1)]
    history = """SELECT id, privacy, exclude_params, exclude_ips, day(valid_from), day(valid_to)
        FROM website_history ORDER BY valid_from, id"""
    found = [("1", 0, None, None, 20, 23), ("2", 0, None, None, 20, 23), ("2", 2, None, None, 24, None)]
    assert asked(database, history) == found


def test_table_of_an_earlier_version_gets_the_new_columns(tmp_path: Path) -> None:
    database = tmp_path / "test.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(sample(LOAD).CREATE)
        connection.execute("INSERT INTO websites VALUES ('another', '1', 'a.example', 0, '2026-01-01')")
        connection.execute("CREATE VIEW website_history AS SELECT * FROM websites")
    Shelf(str(tmp_path / "base")).take(websites(1, favorite=True))
    assert loaded(database, tmp_path / "base") == [20]
    found = asked(database, "SELECT id, domain, favorite FROM website_history ORDER BY valid_from")
    assert found == [("1", "site-1.example.com", True)]
    names = {row[0] for row in asked(database, "SELECT column_name FROM (DESCRIBE websites)")}
    assert names == {"source", *COLUMNS}


def test_damaged_day_is_skipped_until_it_is_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, database = tmp_path / "base", tmp_path / "test.duckdb"
    nights = [Shelf(str(base)).take(3, night * NIGHT) for night in range(3)]
    path = Path(nights[1].files[0].path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"example", b"exbmple", 1))
    assert loaded(database, base) == [20, 22]
    assert f"Skipped the damaged snapshot of 2026-11-21. {path} is damaged: its SHA-256" in capsys.readouterr().out
    path.write_bytes(content)
    assert loaded(database, base) == [21]
    days = "SELECT day(snapshot_date), count(*) FROM snapshots JOIN websites USING (source, snapshot_date) GROUP BY 1"
    assert sorted(asked(database, days)) == [(20, 3), (21, 3), (22, 3)]


def test_replaced_snapshot_is_loaded_again_and_two_sources_share_a_database(tmp_path: Path) -> None:
    database = tmp_path / "not" / "there" / "yet.duckdb"  # as if all snapshots moved to another storage
    sources = [tmp_path / "one", tmp_path / "two"]
    for source in sources:
        Shelf(str(source)).take(3)
    assert loaded(database, *sources) == [20, 20]
    Shelf(str(sources[1])).take(4, HOUR)
    assert loaded(database, *sources) == [20]
    counts = asked(database, "SELECT source, count(*) FROM websites GROUP BY ALL ORDER BY ALL")
    assert counts == [(str(source), count) for source, count in zip(sources, (3, 4), strict=True)]


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
def test_alert_mail_names_the_domains(run_dag: RunDag, take: Callable[[], Any], tmp_path: Path, inbox: Inbox) -> None:
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
    run_dag: RunDag, take: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipient: str | None
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
