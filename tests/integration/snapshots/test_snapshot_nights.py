"""Three nights, two comparisons, a report, and the answer of DuckDB: the sample DAG and the SQL of the docs."""

from __future__ import annotations

import importlib.util
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

RunDag = Callable[..., Any]
ROOT = Path(__file__).parents[3]


def sample_dag() -> Any:
    path = ROOT / "dags" / "load_snapshot_into_duckdb.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load_snapshot_into_duckdb()


def night_dag(base: Path) -> Any:
    from airflow.providers.common.compat.sdk import DAG

    from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator

    night = "{{ dag_run.conf['night'] }}"
    with DAG(f"night_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        snapshot = SnapshotWebsitesOperator(
            task_id="snapshot", base_path=str(base), partition_date=night, late="label", report=True
        )
        snapshot >> CompareSnapshotsOperator(task_id="compare", base_path=str(base), current=night)
    return dag


@pytest.fixture
def three_nights(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> list[Any]:
    analytics_sandbox.seed(40)
    outcomes = []
    for days in (2, 1, 0):
        night = (datetime.now(UTC) - timedelta(days=days)).date().isoformat()
        outcomes.append(run_dag(night_dag(tmp_path), conf={"night": night}).tasks)
        analytics_sandbox.add_website(f"after-{days}.example.com", privacy=0)
    return outcomes


def test_three_nights(run_dag: RunDag, three_nights: list[Any], tmp_path: Path) -> None:
    assert [tasks["snapshot"].returned["count"] for tasks in three_nights] == [40, 41, 42]
    assert [tasks["compare"].returned["added"] for tasks in three_nights] == [0, 1, 1]
    assert three_nights[0]["compare"].returned["previous"] is None
    page = Path(three_nights[2]["snapshot"].returned["report"]).read_text()
    assert "over the last 3 snapshots" in page
    assert "after-1.example.com" in page
    # Files beside the data are not mistaken for it.
    assert len(list(tmp_path.glob("websites/*/*.jsonl"))) == 3

    dag = sample_dag()
    conf = {"base_path": f"file://{tmp_path}", "database": str(tmp_path / "test.duckdb")}
    outcome = run_dag(dag, conf=conf)
    assert len(outcome.tasks["load"].returned) == 3
    answer = outcome.tasks["answer"].returned
    assert [(row["websites"], row["new"]) for row in answer] == [(42, 1), (41, 1), (40, 40)]
    assert answer[0]["public"] == answer[1]["public"] + 1

    again = run_dag(dag, conf=conf, logical_date=datetime.now(UTC))
    assert again.tasks["load"].returned == []
    assert again.tasks["answer"].returned == answer


def test_a_replaced_snapshot_is_loaded_again(
    run_dag: RunDag, analytics_sandbox: Any, three_nights: list[Any], tmp_path: Path
) -> None:
    dag = sample_dag()
    conf = {"base_path": str(tmp_path), "database": str(tmp_path / "test.duckdb")}
    run_dag(dag, conf=conf)
    night = three_nights[2]["snapshot"].returned["snapshot_date"]
    run_dag(night_dag(tmp_path), conf={"night": night})
    outcome = run_dag(dag, conf=conf, logical_date=datetime.now(UTC))
    assert outcome.tasks["load"].returned == [night]
    assert [row["websites"] for row in outcome.tasks["answer"].returned] == [43, 41, 40]


def test_the_dag_waits_for_the_asset_of_the_snapshot() -> None:
    from airflow_provider_analytics.operators.snapshots import snapshot_asset

    dag = sample_dag()
    condition = getattr(dag.timetable, "asset_condition", None) or dag.timetable.dataset_condition
    assert [asset.uri for asset in condition.objects] == [snapshot_asset().uri]


def documented_sql() -> list[str]:
    text = (ROOT / "docs" / "snapshots.md").read_text()
    section = text.split("### DuckDB", 1)[1].split("\n### ", 1)[0]
    return [
        pytest.param(block, id=f"block {n}") for n, block in enumerate(re.findall(r"```sql\n(.*?)```", section, re.S))
    ]


@pytest.mark.parametrize("sql", documented_sql(), ids=["by manifest", "by glob"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_the_documented_sql_runs(sql: str, compression: str | None, analytics_sandbox: Any, tmp_path: Path) -> None:
    from upath import UPath

    from airflow_provider_analytics.api.client import AnalyticsClient
    from airflow_provider_analytics.api.settings import Settings
    from airflow_provider_analytics.snapshots.manifest import Source
    from airflow_provider_analytics.snapshots.storage import StoragePath
    from airflow_provider_analytics.snapshots.take import Options, take_snapshot

    analytics_sandbox.seed(40)
    settings = Settings(base_url=analytics_sandbox.url, api_key=analytics_sandbox.api_key)
    with AnalyticsClient(settings) as client:
        for days in (1, 0):
            now = datetime.now(UTC) - timedelta(days=days)
            take_snapshot(
                StoragePath.of(UPath(tmp_path)),
                now.date(),
                client.iter_websites,
                stats=client.stats,
                source=Source(host="sandbox", account_id=None),
                now=now,
                options=Options(compression=compression),
            )
    with duckdb.connect() as connection:
        rows = connection.execute(sql.replace("/data/analytics", str(tmp_path))).fetchall()
    assert sum(row[1] for row in rows) == 80
