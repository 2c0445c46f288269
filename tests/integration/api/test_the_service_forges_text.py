"""A service that is not trusted puts characters into domains, entries and messages that would forge a log or a plan."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from attacks import FORGED, shows_as_it_is
from fixture_types import Execute, Serving
from jinja2.sandbox import SandboxedEnvironment
from raw_server import http
from wire_client import error_of

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import GetWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator, PlanWebsitesOperator

RECORD = {
    "id": 1,
    "domain": f"{FORGED}.example",
    "privacy": 1,
    "email": 0,
    "exclude_bots": 1,
    "exclude_params": f"{FORGED.splitlines()[0]}\u202e\u200b",
    "exclude_ips": "192.0.2.1 # \u202e\n192.0.2.2 # ![](https://evil.example/pixel.png)\n192.0.2.3 # [](//evil.test)",
    "favorite": False,
    f"field{FORGED}": 1,
}


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (500, []),
        (422, []),
        (302, [("Location", "https://evil.example/\x1b[31m\xad")]),
        (403, [("Content-Type", "text/html\x1b[31m")]),
        (200, [("Content-Type", "text/\x1b[31m\xad")]),
        (200, [("Content-Encoding", "br\x1b[31m\xad")]),
        (503, [("Retry-After", "soon\x1b[31m\xad"), ("CF-Ray", "\x1b[2J\xad")]),
    ],
)
@pytest.mark.parametrize("shape", ["page", "title", "message", "errors"])
def test_no_answer_forges_a_line(
    status: int, headers: list[tuple[str, str]], shape: str, logged: Callable[[], str]
) -> None:
    body: Any = {
        "page": FORGED.encode(),
        "title": f"<title>{FORGED}</title>".encode(),
        "message": {"message": FORGED},
        "errors": {"message": "no", "errors": {FORGED: [FORGED]}},
    }[shape]
    error = str(error_of(http(status, body, kind=None, headers=headers)))
    assert shows_as_it_is(error) == []
    assert not [line for line in error.splitlines() if line.startswith("ERROR")]
    assert any(escape in error for escape in ("forged \\x1b", "forged\\r\\u001b", "br\\x1b"))
    assert shows_as_it_is(logged()) == []
    assert not [line for line in logged().splitlines() if line.startswith("ERROR forged")]


def test_no_record_forges_a_log_a_plan_or_a_report(
    serving: Serving, execute: Execute, logged: Callable[[], str], tmp_path: Path
) -> None:
    other = {**RECORD, "id": 2, "domain": "b.example", "exclude_ips": ""}
    base = str(tmp_path / "base")
    snapshot: dict[str, Any] = {"base_path": base, "late": "label", "report": True}
    with serving(other, RECORD):
        execute(GetWebsiteOperator, website_id=1)
        execute(GetAccountOperator)
        execute(SnapshotWebsitesOperator, **snapshot, partition_date="2026-01-01")
        synced = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.9"], dry_run=True, state_path=f"{tmp_path}/s")
        file = {"websites": {"b.example": {"privacy": "public"}}}
        planned = execute(PlanWebsitesOperator, config=file, prune=True, accept=["delete"])
        execute(ExportWebsitesOperator, config_path=f"{tmp_path}/export.yaml")
        with pytest.raises((AnalyticsError, AirflowFailException)) as failed:
            execute(UpdateWebsiteOperator, website_id=1, email_reports=True)
    changed = {**RECORD, "privacy": FORGED, "exclude_params": "x"}
    with serving(changed):
        execute(SnapshotWebsitesOperator, **snapshot, partition_date="2026-01-02", accept=["source", "count", "fields"])
    execute(CompareSnapshotsOperator, base_path=base)
    pages = [path.read_text() for path in tmp_path.rglob("*") if path.suffix in (".md", ".html", ".yaml")]
    assert len(pages) == 4
    texts = [logged(), str(failed.value), synced["markdown"], planned["markdown"], *synced["changes"], *pages]
    assert [shows_as_it_is(text) for text in texts] == [[]] * len(texts)
    assert not [line for text in texts for line in text.splitlines() if line.startswith("ERROR forged")]
    assert any("\\u202e" in text for text in texts)


def test_no_page_of_markdown_loads_a_picture_or_links_elsewhere(
    serving: Serving, execute: Execute, tmp_path: Path
) -> None:
    markup = "![](https://evil.example/pixel.png) [link](https://evil.example) <img src=x> https://evil.example `x"
    record = {**RECORD, "domain": markup, "privacy": f"{markup} ` {markup}", "exclude_params": markup.split()}
    with serving(record):
        file = {"websites": {"b.example": {"privacy": "private"}}}
        execute(PlanWebsitesOperator, config=file, prune=True, accept=["delete", "empty"], state_path=str(tmp_path))
    [page] = tmp_path.rglob("*.md")
    text = page.read_text()
    assert "evil.example" in text
    assert [
        line for line in outside_of_code(text).splitlines() if "evil" in line or "<img" in line or "](" in line
    ] == []


def test_no_text_of_a_sample_mentions_or_links_in_slack() -> None:
    forged = "x.example <!channel> & <https://evil.example|x>"
    shown = []
    for path in (Path(__file__).parents[3] / "dags").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and "SlackWebhookNotifier" in ast.unparse(call.func):
                [template] = [ast.literal_eval(one.value) for one in call.keywords if one.arg == "text"]
                shown.append(SandboxedEnvironment().from_string(template).render(exception=ValueError(forged)))
    assert shown == ["x.example &lt;!channel&gt; &amp; &lt;https://evil.example|x&gt;"]


def outside_of_code(text: str) -> str:
    """Return what is left of Markdown without its code spans, as CommonMark delimits them."""
    left, at = "", 0
    while (begin := text.find("`", at)) >= 0:
        left += text[at:begin]
        fence = text[begin : len(text) - len(text[begin:].lstrip("`"))]
        end = begin + len(fence)
        while True:
            end = text.find(fence, end)
            assert end >= 0, "a code span without an end"
            run = len(text[end:]) - len(text[end:].lstrip("`"))
            if run == len(fence):
                break
            end += run
        at = end + len(fence)
    return left + text[at:]
