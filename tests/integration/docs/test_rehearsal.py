"""The rehearsal in docs/websites_as_code.md: last night's snapshot in a sandbox, and tonight's plan against it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

Execute = Callable[..., Any]
COUNT = 120


@pytest.fixture
def recipe(blocks: Callable[[str, str], list[str]], tmp_path: Path) -> dict[str, Any]:
    """Return the tasks of the page by their names, with paths of this test."""
    found: dict[str, Any] = {}
    places = {"/data/analytics": "snapshots", "/data/rehearsal/": "", "/opt/airflow/dags/": ""}
    [code] = [one for one in blocks("websites_as_code", "python") if "analytics_rehearsal" in one]
    for place, folder in places.items():
        code = code.replace(place, str(tmp_path / folder) if folder else f"{tmp_path}/")
    exec(compile(code, "docs/websites_as_code.md", "exec"), found)
    return found


def argument(task: Any, name: str) -> Any:
    return getattr(task, name)


def test_the_rehearsal(
    recipe: dict[str, Any],
    analytics_sandbox: SandboxServer,
    execute: Execute,
    connect: Callable[..., None],
    page: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    analytics_sandbox.seed(COUNT)
    connect()
    monkeypatch.setenv("AIRFLOW_VAR_PAGE_PASSWORD_REHEARSAL", "any-text-will-do")
    execute(SnapshotWebsitesOperator, base_path=str(tmp_path / "snapshots"), partition_date="2026-11-21", late="label")
    analytics_sandbox.clear_requests()

    with SandboxServer() as copy:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_REHEARSAL", copy.connection_json())
        run = _runner(execute)
        run(recipe["export"], "base_path", "snapshot_date", "config_path")
        file = tmp_path / "last_night.yaml"
        assert "defaults: {password_from: variable:page_password_NAME}" in file.read_text(), (
            "the head of the file says what it needs"
        )
        with pytest.raises(Exception, match="no password_from: set it, or once in defaults"):
            run(recipe["restore"], "analytics_conn_id", "config_path")
        assert copy.websites() == []

        [line] = [line for line in page("websites_as_code").splitlines() if line.startswith("defaults: {password_from")]
        file.write_text(f"{file.read_text()}{line.replace('NAME', 'rehearsal')}\n")
        run(recipe["restore"], "analytics_conn_id", "config_path")
        assert analytics_sandbox.requests == [], "nothing is sent to the service"
        assert settings_of(copy) == settings_of(analytics_sandbox)

        # Tonight: a website is closed, another one is new.
        tonight = yaml.safe_load(file.read_text())
        first = analytics_sandbox.websites()[0]
        tonight["websites"][first["domain"]]["privacy"] = "private" if first["privacy"] != 1 else "public"
        tonight["websites"]["new.example.com"] = {"privacy": "private"}
        (tmp_path / "websites.yaml").write_text(yaml.safe_dump(tonight))
        rehearsed = run(recipe["plan"], "analytics_conn_id", "config_path")
        real = execute(PlanWebsitesOperator, config_path=str(tmp_path / "websites.yaml"))
        for counted in ("creates", "updates", "deletes"):
            assert rehearsed[counted] == real[counted]
        assert (real["creates"], real["updates"], real["deletes"]) == (1, 1, 0)


def settings_of(sandbox: SandboxServer) -> dict[str, Any]:
    def text(value: Any) -> Any:
        return frozenset(value.split("\n")) if isinstance(value, str) else value

    hidden = {"id", "domain", "created_at"}
    return {
        one["domain"]: {name: text(value) for name, value in one.items() if name not in hidden}
        for one in sandbox.websites()
    }


def _runner(execute: Execute) -> Callable[..., Any]:
    def run(task: Any, *names: str) -> Any:
        return execute(type(task), **{name: argument(task, name) for name in names})

    return run


def test_the_export_is_of_the_snapshot_that_the_page_names(recipe: dict[str, Any]) -> None:
    assert isinstance(recipe["export"], ExportWebsitesOperator)
    assert recipe["export"].snapshot_date == "2026-11-21"
