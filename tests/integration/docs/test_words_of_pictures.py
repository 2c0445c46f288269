# SPDX-License-Identifier: Apache-2.0
"""docs/images: the pictures contain what the code writes now. If a test fails, run ``make screenshots``.

``make screenshots`` writes the visible words of each picture into a file beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow_versions import needs_the_screens_of_3_3
from dag_runs import RunDag
from pictured import WEBSITES_FILE
from samples import sample_dag

from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = [pytest.mark.repository, needs_the_screens_of_3_3]  # the Airflow of the pictures

IMAGES = Path(__file__).parents[3] / "docs" / "images"
#: As many websites as the service of the pictures has at first.
WEBSITES = 250


def comparable(text: str) -> str:
    """Return a text without blanks, marks of Markdown, and differences between runs, which are digits and digests."""
    text = re.sub(r"[0-9a-f]{64}", "DIGEST", text)
    text = re.sub(r"[\s*`#]", "", text)
    return re.sub(r"\d+", "0", text)


def missing_in(picture: str, texts: list[str]) -> list[str]:
    """Return the texts that are not in a picture."""
    words = comparable((IMAGES / f"{picture}.txt").read_text(encoding="utf-8"))
    return [text for text in texts if comparable(text) not in words]


def lines_of(message: str, *, without: str) -> list[str]:
    """Return the lines of a message, except those with data, which begin with these words."""
    return [line for line in message.splitlines() if line and not line.startswith(without)]


def test_pictured_form_has_the_labels_of_the_connection() -> None:
    fields = CONNECTION_TYPE["ui-field-behaviour"]
    assert missing_in("connection", [*fields["relabeling"].values(), fields["placeholders"]["host"]]) == []


@pytest.mark.parametrize(
    ("picture", "key"), [("connection_tested", {}), ("connection_wrong_key", {"password": "0123456"})]
)
def test_pictured_connection_test_has_the_message_of_the_hook(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], picture: str, key: dict[str, str]
) -> None:
    analytics_sandbox.seed(WEBSITES)
    connect(**key)
    worked, message = AnalyticsHook().test_connection()
    assert worked == (key == {})
    assert missing_in(picture, lines_of(message, without="Service:")) == []


def test_pictured_trigger_form_has_the_params_of_the_sample() -> None:
    params = sample_dag("nightly_website_snapshot").params
    schemas = [params.get_param(name).schema for name in ("override_guards", "prune")]
    choices = schemas[0]["values_display"]
    shown = [choices[name] for name in schemas[0]["examples"]]
    assert missing_in("trigger", [*(schema["title"] for schema in schemas), *shown]) == []


def test_pictured_log_has_the_error_of_a_blocked_snapshot(
    run_dag: RunDag, analytics_sandbox: SandboxServer, task_log: Callable[[], str], tmp_path: Path
) -> None:
    dag = sample_dag("nightly_website_snapshot", tmp_path)
    dag.task_dict["snapshot"].retries = 0
    analytics_sandbox.seed(WEBSITES)
    assert run_dag(dag).state == "success"
    analytics_sandbox.reset()
    analytics_sandbox.seed(100)
    assert run_dag(dag).state == "failed"
    [error] = {*re.findall(r"AirflowFailException: (.*?first\.)$", task_log(), re.DOTALL | re.MULTILINE)}
    lines = lines_of(error, without="Missing:")
    assert len(lines) > 5
    assert missing_in("log_blocked", lines) == []


def test_pictured_report_has_the_sentences_of_the_report(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Callable[..., Any], tmp_path: Path
) -> None:
    connect()
    analytics_sandbox.seed(WEBSITES)
    report = {"base_path": str(tmp_path), "html_report": True, "on_late": "publish"}
    execute(SnapshotWebsitesOperator, partition_date="2026-11-01", **report)
    removed, changed, *_ = analytics_sandbox.websites()
    analytics_sandbox.remove_website(removed["id"])
    analytics_sandbox.change_website(changed["id"], privacy=2)
    analytics_sandbox.add_website("shop.example.com")
    html = Path(
        execute(SnapshotWebsitesOperator, partition_date="2026-11-02", **report)["report"].removeprefix("file://")
    )
    text = re.sub(r"<(style|svg|table).*?</\1>", "", html.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = text.partition("Most common in")[0]  # the rest is below the edge of the picture
    sentences = re.findall(r"<(?:h1|h2|p)\b[^>]*>(.*?)</", text, re.DOTALL)
    assert len(sentences) > 3
    assert missing_in("report", [re.sub(r"<[^>]+>", "", sentence) for sentence in sentences]) == []


def test_recording_has_the_plan_and_the_result(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Callable[..., Any],
    task_log: Callable[[], str],
    tmp_path: Path,
) -> None:
    connect()
    analytics_sandbox.seed(WEBSITES)
    file = tmp_path / "websites.yaml"
    file.write_text(WEBSITES_FILE)
    task = {"config_path": str(file), "state_path": str(tmp_path), "list_name": "websites_as_code"}
    plan = execute(PlanWebsitesOperator, **task)["markdown"]
    assert missing_in("approve_and_apply", plan.splitlines()) == []
    execute(ApplyWebsitesOperator, **task)
    [result] = {*re.findall(r"Applied .* changes\.", task_log())}
    group = sample_dag("websites_as_code").task_dict
    assert missing_in("approve_and_apply", [result, group["websites.approve"].subject]) == []
