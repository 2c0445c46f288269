# SPDX-License-Identifier: Apache-2.0
"""Secrets: keys and page passwords are in no result, log, or file, and other data are unchanged (``operators``)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import local_airflow
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import needs_tracebacks_without_values
from fixture_types import Execute, Serving
from secret_forms import parts_in
from wire_client import KEY

from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, ExportWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.catalog import read_snapshot

PAGE: dict[str, Any] = {"privacy": 2, "password_from": "connection:page_password"}


def records_of(base: Path, day: str) -> list[dict[str, Any]]:
    snapshot = read_snapshot(str(base), day)
    assert snapshot is not None
    return [json.loads(row["record"]) for row in snapshot.rows()]


def test_short_headers_do_not_change_records(
    serving: Serving, execute: Execute, logged: Callable[[], str], tmp_path: Path
) -> None:
    websites = [
        {"id": number, "domain": f"www.acme-{number}.example.com", "visits": 2, "note": "2 of acme"}
        for number in (22, 12, 2)
    ]
    # Headers that a proxy might require, and that are not secrets.
    with serving(*websites, headers={"X-Tenant": "acme", "X-Api-Version": "2", "X-Region": "www"}):
        taken = execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
        assert execute(GetWebsiteOperator, website_id=2) == websites[2]
    assert records_of(tmp_path, taken["snapshot_date"]) == websites
    assert "Read website www.acme-2.example.com (id 2)" in logged()


#: Secrets in responses of a service, and the remaining text.
SECRET = {"password": "x", "api_token": "x", "private_key": "x", "authorization": "x", "apiKey": "x", "Api-Token": 7}
KEPT = {"visits": 5, "password_protected": True, "expires_at": "2026-01-01", "has_password": False}
NESTED = {
    "share": {"secret": "x", "url": f"https://stats.example.com/?key={KEY}"},
    "keys": [KEY, {"secret": 1, "id": 7}],
}
LEFT = {"share": {"url": "***"}, "keys": ["***", {"id": 7}]}


def test_secrets_are_not_in_xcom_or_snapshots(
    serving: Serving, execute: Execute, tmp_path: Path, page_password: str
) -> None:
    website = {"id": 1, "domain": "a.example", "privacy": 2, **SECRET, **KEPT, **NESTED}
    left = {"id": 1, "domain": "a.example", "privacy": 2, **KEPT, **LEFT}
    with serving(website):
        taken = execute(SnapshotWebsitesOperator, base_path=str(tmp_path), html_report=True)
        assert execute(GetWebsiteOperator, website_id=1) == left
        assert execute(ListWebsitesOperator) == [left]
    with serving({**website, "note": f"see {page_password}", "other": "sales"}):
        updated = execute(UpdateWebsiteOperator, website_id=1, **PAGE)
    assert updated["website"] == {**left, "note": "***", "other": "sales"}
    assert records_of(tmp_path, taken["snapshot_date"]) == [left]
    assert not [name for name in taken["fields"]["new"] if name in SECRET]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".html" for path in files)
    assert not [path for path in files if KEY in path.read_text(encoding="utf-8")]


def test_secrets_in_a_new_website_and_the_account_are_not_returned(sandbox: SandboxServer, page_password: str) -> None:
    fields = {"page_password": "{password}", "note": "opened with {api_key}", "said": "{password}"}
    sandbox.configure(extra_fields=fields)
    created = CreateWebsiteOperator(task_id="create", domain="new.example.com", **PAGE).execute({})["website"]
    assert (created.get("page_password"), created["note"], created["said"]) == (None, "***", "***")
    sandbox.fault("account", body={"data": {"id": 1, "api_key": "x", "note": f"opened with {sandbox.api_key}"}})
    assert GetAccountOperator(task_id="account").execute({}) == {"id": 1, "note": "***"}


@pytest.mark.parametrize("password", ["acme", "2222", "example"])
def test_short_page_password_does_not_change_records(
    password: str, serving: Serving, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic", "password": password}))
    website = {"id": 2222, "domain": "acme.example.com", "privacy": 2, "note": "acme 2222 example"}
    with serving(website):
        assert execute(UpdateWebsiteOperator, website_id=2222, **PAGE)["website"] == website


@pytest.mark.parametrize(
    "password", ["p4ge-s3cret\n", "p4ge-s3cret\r\n", " p4ge-s3cret", "p4ge\ns3cret", "p4ge\x85s3cret"]
)
@pytest.mark.parametrize("reference", ["variable:page_password", "connection:page_password"])
def test_password_with_a_line_break_or_surrounding_blanks_is_rejected_before_anything_is_sent(
    password: str, reference: str, sandbox: SandboxServer, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A service trims it. The trimmed text is not masked in messages of the service.
    sandbox.configure(extra_fields={"note": "opened with p4ge-s3cret"})
    monkeypatch.setenv("AIRFLOW_VAR_PAGE_PASSWORD", password)
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic", "password": password}))
    arguments = {"privacy": 2, "password_from": reference}
    with pytest.raises(AirflowFailException, match=f"password_from='{reference}'.*blanks around") as caught:
        execute(CreateWebsiteOperator, domain="new.example.com", **arguments)
    assert "s3cret" not in str(caught.value)
    file = {"websites": {"new.example.com": {"privacy": "password", "password_from": reference}}}
    with pytest.raises(AirflowFailException, match=f"password_from='{reference}' of new.example.com.*blanks around"):
        execute(ApplyWebsitesOperator, config=file)
    assert [request for request in sandbox.requests if request.method != "GET"] == []


@pytest.mark.parametrize("if_exists", ["skip", "update"])
def test_task_masks_its_page_password_even_if_it_is_not_sent(
    if_exists: str, serving: Serving, execute: Execute, page_password: str
) -> None:
    website = {"id": 1, "domain": "a.example", "privacy": 2, "note": f"see {page_password}", "a field": "kept"}
    website |= {"email": 0, "exclude_bots": 1, "exclude_params": "", "exclude_ips": ""}
    with serving(website):
        created = execute(CreateWebsiteOperator, domain="a.example", if_exists=if_exists, **PAGE)
    assert created["website"] == {**website, "note": "***"}


def test_export_of_a_snapshot_contains_no_secret_of_the_connection(
    serving: Serving, execute: Execute, tmp_path: Path
) -> None:
    # Written without this connection, which did not know the secret.
    base, token = str(tmp_path / "base"), TOKEN
    with serving({"id": 1, "domain": "a.example", "exclude_params": f"x\n{token}"}):
        day = execute(SnapshotWebsitesOperator, base_path=base)["snapshot_date"]
    arguments = {"base_path": base, "snapshot_date": day, "output_path": str(tmp_path / "export.yaml")}
    with serving(headers={"X-Token": token}):
        execute(ExportWebsitesOperator, **arguments)
    assert parts_in((tmp_path / "export.yaml").read_text(), token) == []
    with serving({"id": 2, "domain": f"{token}.example"}):
        execute(SnapshotWebsitesOperator, base_path=base, override_guards=["other_source", "missing_fields"])
    with serving(headers={"X-Token": token}):
        execute(ExportWebsitesOperator, **arguments)
    assert parts_in((tmp_path / "export.yaml").read_text(), token) == []


#: A credential of an extra header.
TOKEN = "tk-live-" + "".join(f"{number:03}x" for number in range(8))


@pytest.mark.parametrize(
    ("record", "arguments"),
    [({"exclude_params": f"x\n{TOKEN}"}, {"mode": "replace"}), ({}, {"list_name": f"list of {TOKEN}"})],
)
def test_plan_with_a_secret_in_any_value_is_returned_without_it(
    serving: Serving, execute: Execute, tmp_path: Path, record: dict[str, Any], arguments: dict[str, Any]
) -> None:
    website = {"id": 1, "domain": "a.example", "exclude_params": "", **record}
    arguments = {"exclude_params": ["y"], "dry_run": True, "state_path": f"{tmp_path}/state", **arguments}
    with serving(website, headers={"X-Token": TOKEN}):
        result = execute(SyncExcludedParamsOperator, **arguments)
    assert result["updates"] == 1
    assert parts_in(json.dumps(result), TOKEN) == []


def test_header_that_repeats_the_base_url_is_not_a_secret(
    sandbox: SandboxServer, connect: Callable[..., None], execute: Execute, tmp_path: Path
) -> None:
    connect("analytics_default", extra={"headers": {"Origin": sandbox.url}})
    result = execute(SyncExcludedParamsOperator, exclude_params=["y"], dry_run=True, state_path=f"{tmp_path}/state")
    assert result["scope"]["service"] == sandbox.url


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
        >> UpdateWebsiteOperator(task_id="update", website_id=1, privacy=2, password_from="variable:page_password")
        >> UpdateWebsiteOperator(task_id="rejected", website_id=77, privacy=2, password_from="connection:page_password")
        >> UpdateWebsiteOperator(task_id="broken", website_id=78, privacy=2, password_from="connection:page_password")
        >> GetWebsiteOperator(task_id="unauthorized", website_id=79)
        >> GetAccountOperator(task_id="account")
        >> GetAccountOperator(task_id="bad_connection", analytics_conn_id="bad")
    )
"""


#: Commands that a person types, in a single process.
COMMANDS = """
import contextlib, sys
from airflow.__main__ import main

for arguments in (["db", "migrate"], ["dags", "test", "secrets"]):
    sys.argv = ["airflow", *arguments]
    with contextlib.suppress(SystemExit):
        main()
"""


@pytest.mark.slow
@needs_tracebacks_without_values
def test_airflow_dags_test_prints_no_secret(sandbox: SandboxServer, tmp_path: Path) -> None:
    """``airflow dags test`` masks nothing; and the files of the run are searched byte by byte."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "secrets.py").write_text(DAG_FILE)
    for website_id, status in ((77, 422), (78, 500), (79, 401)):
        sandbox.fault("any", target=f"/websites/{website_id}$", status=status, echo=True, times=None)
    sandbox.fault("account", body={"data": {"id": 1, "api_key": sandbox.api_key}}, times=None)
    fields = {**json.loads(sandbox.connection_json()), "extra": {"max_retries": 1}}
    bad = {**fields, "host": f"ftp://{sandbox.api_key}", "extra": {"timeout": sandbox.api_key}}
    secrets = ["p4ge&=%s3cret/'ü", "another s3cret phrase", sandbox.api_key]
    settings = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW_CONN_ANALYTICS_DEFAULT": json.dumps(fields),
        "AIRFLOW_CONN_BAD": json.dumps(bad),
        "AIRFLOW_CONN_PAGE_PASSWORD": json.dumps({"conn_type": "generic", "password": secrets[0]}),
        "AIRFLOW_VAR_PAGE_PASSWORD": secrets[1],
    }
    command, env = [sys.executable, "-c", COMMANDS], local_airflow.environment(tmp_path, settings)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900, check=False)
    said = done.stdout + done.stderr
    sent = {dict(request.form).get("password") for request in sandbox.requests}
    assert set(secrets[:2]) <= sent
    for part in ("The service rejected", "(500 ", "API key rejected", "Connection 'bad'"):
        assert part in said
    for secret in secrets:
        for written in (secret, json.dumps(secret)[1:-1], *re.findall(r"[\w/]*s3cret[\w/]*", secret)):
            assert written not in said
            for path in tmp_path.rglob("*"):
                if path.is_file():
                    assert written.encode() not in path.read_bytes(), path
