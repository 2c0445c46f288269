# SPDX-License-Identifier: Apache-2.0
"""README.md and examples/comparison: their DAGs run through the nights of the table in README.md."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from dag_runs import DagOutcome, RunDag

from airflow_provider_analytics.sandbox.server import SandboxServer

pytest.importorskip("airflow.providers.http", reason="the DAG that people write needs the http provider")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
[FIRST] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
THEIRS = (ROOT / "examples" / "comparison" / "with_http_operator.py").read_text("utf-8")
OURS = (ROOT / "examples" / "comparison" / "with_this_package.py").read_text("utf-8")
#: The rows of the table: the event, and the result of each DAG.
NIGHTS = re.findall(
    r"^\| (\w.*?) \| (\w.*?) \| (\w.*?) \|$", TEXT.partition("| What happens |")[2].partition("\n\n")[0], re.M
)
OFFICE, BY_HAND = "192.0.2.7", "198.51.100.1"

#: Run one of the DAGs against the sandbox, with /data in a folder of the test.
Night = Callable[[str], DagOutcome]


@pytest.fixture
def night(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Night:
    connection = {"conn_type": "http", "host": analytics_sandbox.url}
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_HTTP", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_VAR_ANALYTICS_API_KEY", analytics_sandbox.api_key)
    monkeypatch.setattr("airflow_provider_analytics.api.client.SETTLE_SECONDS", 0)
    # The interface does not say that a domain must be unique.
    analytics_sandbox.configure(allow_duplicates=True)

    def run(code: str) -> DagOutcome:
        # A DAG file leaves its DAG to its parser; here it is requested by name.
        named = re.sub(r"^(websites\w*)\(\)$", r"the_dag = \1()", code, flags=re.MULTILINE)
        (tmp_path / "a_dag.py").write_text(
            named.replace("/data/", f"{tmp_path}/").replace("/tmp/analytics-state", f"{tmp_path}/state")
        )
        [dag] = [value for value in runpy.run_path(str(tmp_path / "a_dag.py")).values() if isinstance(value, DAG)]
        for task in dag.tasks:
            task.retry_delay = timedelta(0)
        return run_dag(dag)

    return run


def states(outcome: DagOutcome) -> set[str]:
    return {task.state for task in outcome.tasks.values()}


def published(tmp_path: Path) -> list[Any]:
    """Return the published websites of any of the DAGs."""
    found = [*tmp_path.glob("websites.json"), *tmp_path.glob("analytics/websites/dt=*/*.jsonl")]
    text = "".join(file.read_text() for file in found)
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def without_the_address(sandbox: SandboxServer) -> int:
    return sum(OFFICE not in (website["exclude_ips"] or "") for website in sandbox.websites())


def test_readme_table_of_nights_is_complete() -> None:
    assert NIGHTS == [
        (
            "The response to a create is lost",
            "succeeds with two websites",
            "the first try fails, the retry finds the website and succeeds",
        ),
        (
            "The service returns 30 of 60 websites",
            "succeeds, publishes 30, updates 30",
            "fails with `IncompleteListError`, sends and publishes nothing",
        ),
        ("Someone added an IP address manually", "succeeds, the address is gone", "succeeds, the address is kept"),
    ]


def test_first_dag_of_the_readme_runs(night: Night, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.seed(3)
    assert states(night(FIRST)) == {"success"}
    assert without_the_address(analytics_sandbox) == 0
    assert states(night(FIRST.replace(OFFICE, BY_HAND))) == {"success"}
    assert without_the_address(analytics_sandbox) == 3


both = pytest.mark.parametrize("code", [THEIRS, OURS], ids=["people write", "of this package"])


@both
def test_readme_dag_after_a_lost_response(night: Night, analytics_sandbox: SandboxServer, code: str) -> None:
    analytics_sandbox.fault("create", drop=True, commit=True)
    assert states(night(code)) == {"success"}
    shops = [website for website in analytics_sandbox.websites() if website["domain"] == "shop.example.com"]
    assert len(shops) == (2 if code is THEIRS else 1)


@both
def test_readme_dag_with_half_of_the_list(
    night: Night, analytics_sandbox: SandboxServer, tmp_path: Path, task_log: Callable[[], str], code: str
) -> None:
    for number in range(59):
        analytics_sandbox.add_website(f"{number}.example")
    analytics_sandbox.configure(row_cap=30)
    before = analytics_sandbox.websites()
    outcome = night(code)
    if code is THEIRS:
        assert states(outcome) == {"success"}
        assert (len(analytics_sandbox.websites()), len(published(tmp_path))) == (60, 30)
        assert without_the_address(analytics_sandbox) == 30
        return
    ended = {name: task.state for name, task in outcome.tasks.items()}
    assert ended == {"create": "failed", "office": "upstream_failed", "snapshot": "upstream_failed"}
    assert "IncompleteListError" in task_log()
    assert {request.method for request in analytics_sandbox.requests} == {"GET"}
    assert (analytics_sandbox.websites(), published(tmp_path)) == (before, [])


@both
def test_readme_dag_keeps_an_address_typed_by_hand(
    night: Night, analytics_sandbox: SandboxServer, tmp_path: Path, code: str
) -> None:
    analytics_sandbox.add_website("by-hand.example", exclude_ips=BY_HAND)
    assert states(night(code)) == {"success"}
    lists = [website["exclude_ips"] for website in analytics_sandbox.websites()]
    assert lists == [OFFICE if code is THEIRS else f"{BY_HAND}\n{OFFICE}", OFFICE]
    assert len(published(tmp_path)) == 2


def test_error_that_repeats_the_header_is_masked(
    night: Night, analytics_sandbox: SandboxServer, task_log: Callable[[], str]
) -> None:
    analytics_sandbox.fault("create", status=422, echo=True, times=None)
    assert "failed" in states(night(OURS))
    log = task_log()
    assert "Authorization: Bearer ***" in log
    assert analytics_sandbox.api_key not in log
