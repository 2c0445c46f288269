"""docs/snapshots.md: its code, its layout and its return value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

Blocks = Callable[[str, str], list[str]]
OPERATORS = (SnapshotWebsitesOperator, CompareSnapshotsOperator, PruneSnapshotsOperator)
TODAY = datetime.now(UTC).date().isoformat()


@pytest.fixture
def run(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Callable[..., Any],
    blocks: Blocks,
    tmp_path: Path,
) -> Callable[[int], Any]:
    """Run a Python block of the page; return the result of its operator, or its names if it has none."""
    connect()
    analytics_sandbox.seed(12)

    def run_block(number: int) -> Any:
        code = blocks("snapshots", "python")[number].replace("s3://my-bucket", tmp_path.as_uri())
        code = re.sub(r"^from airflow_provider_analytics\.operators.*\n", "", code, flags=re.MULTILINE)
        results = []

        def runner(operator: type) -> Callable[..., None]:
            def call(*, task_id: str, **arguments: Any) -> None:
                given = {name: value for name, value in arguments.items() if "{{" not in str(value)}
                results.append(execute(operator, **given))

            return call

        names: dict[str, Any] = {operator.__name__: runner(operator) for operator in OPERATORS}
        exec(compile(code.replace("2026-11-20", TODAY), "docs/snapshots.md", "exec"), names)
        return results[0] if results else names

    return run_block


def test_the_code_of_the_page(run: Callable[[int], Any], analytics_sandbox: SandboxServer) -> None:
    assert run(0)["count"] == 12
    names = run(1)
    assert len(names["rows"]) == 12
    assert (names["newest"], names["damaged"]) == (None, [])
    assert run(2)["first"]
    assert run(3)["kept"] == 1


def test_the_return_value_has_these_keys(run: Callable[[int], Any], blocks: Blocks) -> None:
    [text] = blocks("snapshots", "json")
    shown = json.loads(text)
    result = run(0)
    assert list(shown) == list(result)
    assert shown["fields"] == result["fields"]
    assert all(path.endswith(".jsonl.gz") for path in (*shown["files"], *result["files"]))


def test_the_layout_is_what_is_written(run: Callable[[int], Any], page: Callable[[str], str], tmp_path: Path) -> None:
    run(0)
    layout = page("snapshots").partition("\n## Layout\n")[2].partition("```\n")[2].partition("```")[0]
    documented = {re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}|\d{8}T\d{6}Z", "*", line.split()[0]) for line in layout.splitlines()}
    written = (path.name for path in (tmp_path / "analytics").rglob("*") if path.is_file())
    for name in written:
        assert re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}|\d{8}T\d{6}Z", "*", name) in documented
