# SPDX-License-Identifier: Apache-2.0
"""The rehearsal in docs/websites_as_code.md: last night's snapshot in a sandbox, and tonight's plan against it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


def settings_of(sandbox: SandboxServer) -> dict[str, Any]:
    def text(value: Any) -> Any:
        return frozenset(value.split("\n")) if isinstance(value, str) else value

    hidden = {"id", "domain", "created_at"}
    return {
        website["domain"]: {name: text(value) for name, value in website.items() if name not in hidden}
        for website in sandbox.websites()
    }


def test_rehearsal_runs_as_documented(
    analytics_sandbox: SandboxServer,
    execute: Callable[..., Any],
    connect: Callable[..., None],
    page: Callable[[str], str],
    blocks: Callable[[str, str], list[str]],
    run_block: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    [code] = [block for block in blocks("websites_as_code", "python") if "analytics_rehearsal" in block]
    _, export, restore, plan = re.split(r"(?m)^\w+ = ", code)
    places = {folder: str(tmp_path) for folder in ("/data/analytics", "/data/rehearsal", "/opt/airflow/dags")}
    analytics_sandbox.seed(120)
    connect()
    monkeypatch.setenv("AIRFLOW_VAR_PAGE_PASSWORD_REHEARSAL", "any-text-will-do")
    execute(SnapshotWebsitesOperator, base_path=str(tmp_path), partition_date="2026-11-21", on_late="publish")
    analytics_sandbox.clear_requests()

    with SandboxServer() as copy:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_REHEARSAL", copy.connection_json())
        run_block(export, **places)
        file = tmp_path / "last_night.yaml"
        assert "defaults: {password_from: variable:page_password_NAME}" in file.read_text()  # names the argument
        with pytest.raises(Exception, match=r"no password_from\. Set it, here or in defaults"):
            run_block(restore, **places)
        assert copy.websites() == []

        [line] = [line for line in page("websites_as_code").splitlines() if line.startswith("defaults: {password_from")]
        file.write_text(f"{file.read_text()}{line.replace('NAME', 'rehearsal')}\n")
        run_block(restore, **places)
        assert analytics_sandbox.requests == []  # the service gets no change
        assert settings_of(copy) == settings_of(analytics_sandbox)

        # Tonight: a website is closed, another one is new.
        tonight = yaml.safe_load(file.read_text())
        first = analytics_sandbox.websites()[0]
        tonight["websites"][first["domain"]]["privacy"] = "private" if first["privacy"] != 1 else "public"
        tonight["websites"]["new.example.com"] = {"privacy": "private"}
        (tmp_path / "websites.yaml").write_text(yaml.safe_dump(tonight))
        rehearsed = run_block(plan, **places)["plan"]
        real = execute(PlanWebsitesOperator, config_path=str(tmp_path / "websites.yaml"))
        counted = ("creates", "updates", "deletes")
        assert [rehearsed[name] for name in counted] == [real[name] for name in counted] == [1, 1, 0]
