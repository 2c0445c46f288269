"""The API key and website passwords: used, and shown nowhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import local_airflow
import pytest
from airflow_versions import needs_tracebacks_without_values
from fixture_types import RunTasks
from task_list import Task

from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def page_password(monkeypatch: pytest.MonkeyPatch) -> str:
    """A password in the connection ``page_password``."""
    password = "p4ge&=%s3cret/'ü"
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic", "password": password}))
    return password


REFERENCE = "connection:page_password"


def test_a_password_comes_from_where_airflow_has_it(
    sandbox: SandboxServer, run_tasks: RunTasks, page_password: str, task_log: Callable[[], str]
) -> None:
    settings = {"privacy": 2, "password_from": REFERENCE}
    tasks = run_tasks(
        create=Task(CreateWebsiteOperator, domain="www.example.com", **settings),
        again=Task(CreateWebsiteOperator, domain="www.example.com", if_exists="update", **settings),
        update=Task(UpdateWebsiteOperator, domain="www.example.com", **settings),
    )
    assert {task.state for task in tasks.values()} == {"success"}
    assert sandbox.stored_password(1) == page_password
    assert [dict(request.form)["password"] for request in sandbox.requests if request.body] == [page_password] * 3
    for task in tasks.values():
        assert page_password not in json.dumps(dict(task.xcom), ensure_ascii=False)
    assert page_password not in task_log()


def test_a_connection_without_a_password_is_none(
    sandbox: SandboxServer, run_tasks: RunTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the website would be created with privacy 2 and no password at all."""
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", '{"conn_type": "generic"}')
    tasks = run_tasks(create=Task(CreateWebsiteOperator, domain="www.example.com", privacy=2, password_from=REFERENCE))
    assert (tasks["create"].state, tasks["create"].try_number) == ("failed", 1)
    assert sandbox.requests == []


def test_what_an_answer_tells_of_secrets_is_not_returned(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    told = {
        "id": 1,
        "domain": "www.example.com",
        "password": "s3cret-page",
        "page": {"password": "s3cret-page", "url": f"https://stats.example.com/?key={sandbox.api_key}"},
        "keys": [sandbox.api_key, {"password": "s3cret-page", "id": 7}],
        "Client_Secret": "another",
    }
    sandbox.fault("any", body={"data": told}, target=r"/(account|websites/1)$", times=None)
    sandbox.add_website("www.example.com")
    meta = {"total": 1, "current_page": 1, "last_page": 1, "per_page": 10}
    sandbox.fault(
        "list", body={"data": [told], "meta": meta}, target=r"per_page=10&sort_by=id&sort=(de|a)sc$", times=None
    )
    tasks = run_tasks(
        account=Task(GetAccountOperator),
        get=Task(GetWebsiteOperator, website_id=1),
        update=Task(UpdateWebsiteOperator, website_id=1, privacy=2, password_from=REFERENCE),
        websites=Task(ListWebsitesOperator, per_page="10"),
    )
    shown = {"id": 1, "domain": "www.example.com", "page": {"url": "***"}, "keys": ["***", {"id": 7}]}
    assert tasks["account"].returned == tasks["get"].returned == tasks["update"].returned["website"] == shown
    assert tasks["websites"].returned == [shown]


def test_what_a_new_website_tells_of_secrets_is_not_returned(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.configure(
        extra_fields={"page_password": "{password}", "note": "opened with {api_key}", "said": "{password}"}
    )
    settings = {"domain": "new.example.com", "privacy": 2, "password_from": REFERENCE}
    website = run_tasks(create=Task(CreateWebsiteOperator, **settings))["create"].returned["website"]
    assert "page_password" not in website
    assert "s3cret-page" not in json.dumps(website)
    assert sandbox.api_key not in json.dumps(website)


def test_what_a_list_tells_of_secrets_is_not_published(
    sandbox: SandboxServer, run_tasks: RunTasks, tmp_path: Path
) -> None:
    told = {"id": 1, "domain": "www.example.com", "page": {"password": "s3cret-page"}, "keys": [sandbox.api_key]}
    others = [{"id": number, "domain": f"{number}.example.com", "key": sandbox.api_key} for number in range(2, 6)]
    meta = {"total": 5, "current_page": 1, "last_page": 1, "per_page": 100}
    sandbox.fault("list", body={"data": [*others[::-1], told], "meta": meta})
    sandbox.fault("list", body={"data": [told, *others], "meta": meta})
    snapshot = run_tasks(snapshot=Task(SnapshotWebsitesOperator, base_path=str(tmp_path), report=True))["snapshot"]
    assert snapshot.state == "success"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".html" for path in files)
    for path in files:
        content = path.read_text(encoding="utf-8")
        assert sandbox.api_key not in content
        assert "s3cret-page" not in content
    (data,) = (path for path in files if path.name.startswith("websites-"))
    records = [json.loads(json.loads(line)["record"]) for line in data.read_text(encoding="utf-8").splitlines()]
    assert [(record.get("page"), record.get("keys"), record.get("key")) for record in records] == [
        *[(None, None, "***")] * 4, ({}, ["***"], None),
    ]  # fmt: skip


DAG_FILE = """
from datetime import datetime, timedelta, timezone
from airflow.providers.common.compat.sdk import DAG
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.websites import *

again = {"retries": 1, "retry_delay": timedelta(0), "trigger_rule": "all_done"}
with DAG("secrets", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), default_args=again):
    (
        CreateWebsiteOperator(task_id="create", domain="www.example.com", privacy=2,
                              password_from="connection:page_password")
        >> UpdateWebsiteOperator(task_id="update", website_id=1, password_from="variable:page_password")
        >> UpdateWebsiteOperator(task_id="no_effect", website_id=1, privacy=1, password_from="variable:page_password")
        >> UpdateWebsiteOperator(task_id="refused", website_id=77, password_from="connection:page_password")
        >> UpdateWebsiteOperator(task_id="broken", website_id=78, password_from="connection:page_password")
        >> GetWebsiteOperator(task_id="unauthorized", website_id=79)
        >> GetAccountOperator(task_id="account")
        >> GetAccountOperator(task_id="bad_connection", analytics_conn_id="bad")
    )
"""


COMMANDS = """
import contextlib, sys
from airflow.__main__ import main

for arguments in (["db", "migrate"], ["dags", "test", "secrets"]):
    sys.argv = ["airflow", *arguments]
    with contextlib.suppress(SystemExit):
        main()
"""


def said_by_airflow(home: Path, **environment: str) -> str:
    """Return all that ``airflow dags test`` says in a fresh home."""
    settings = {"AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"), **environment}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        env=local_airflow.environment(home, settings),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
@needs_tracebacks_without_values
def test_airflow_dags_test_shows_no_secret(analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    """``airflow dags test`` masks nothing; and what the run leaves behind is searched byte by byte."""
    sandbox = analytics_sandbox
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "secrets.py").write_text(DAG_FILE)
    for website_id, status in ((77, 422), (78, 500), (79, 401)):
        sandbox.fault("any", target=f"/websites/{website_id}$", status=status, echo=True, times=None)
    sandbox.fault("account", body={"data": {"id": 1, "api_key": sandbox.api_key}}, times=None)
    fields = {**json.loads(sandbox.connection_json()), "extra": {"max_retries": 1}}
    secrets = ["p4ge&=%s3cret/'ü", "another s3cret phrase", sandbox.api_key]
    said = said_by_airflow(
        tmp_path,
        AIRFLOW_CONN_ANALYTICS_DEFAULT=json.dumps(fields),
        AIRFLOW_CONN_BAD=json.dumps(
            {**fields, "host": f"ftp://{sandbox.api_key}", "extra": {"timeout": sandbox.api_key}}
        ),
        AIRFLOW_CONN_PAGE_PASSWORD=json.dumps({"conn_type": "generic", "password": secrets[0]}),
        AIRFLOW_VAR_PAGE_PASSWORD=secrets[1],
    )
    sent = {dict(request.form).get("password") for request in sandbox.requests}
    assert set(secrets[:2]) <= sent
    for part in ("has no effect", "The service rejected", "(500 ", "API key rejected", "connection 'bad'"):
        assert part in said
    for secret in secrets:
        for written in (secret, json.dumps(secret)[1:-1], *re.findall(r"[\w/]*s3cret[\w/]*", secret)):
            assert written not in said
            for path in tmp_path.rglob("*"):
                if path.is_file():
                    assert written.encode() not in path.read_bytes(), path
