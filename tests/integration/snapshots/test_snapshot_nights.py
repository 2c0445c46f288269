"""Three nights, two comparisons, a report, and the answer of DuckDB: the sample DAG and the SQL of the docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from airflow_versions import awaited_uris
from dag_runs import RunDag
from samples import sample, sample_dag

ROOT = Path(__file__).parents[3]
LOAD = "load_snapshot_into_duckdb"


def run_night(run_dag: RunDag, base: Path, night: datetime, state: str = "success", **params: Any) -> Any:
    """Run the nightly DAG as it is, but for the report, at two minutes past midnight of that day."""
    dag = sample_dag("nightly_website_snapshot", base)
    dag.get_task("snapshot").report = True
    for task in dag.tasks:
        task.retries = 0  # a retry would wait for minutes
    with time_machine.travel(night + timedelta(minutes=2)):
        outcome = run_dag(dag, conf=params, logical_date=night)
    assert outcome.state == state
    return outcome.tasks


@pytest.fixture
def three_nights(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> list[Any]:
    analytics_sandbox.seed(40)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    outcomes = []
    for days in (1, 2, 3):
        outcomes.append(run_night(run_dag, tmp_path, today + timedelta(days=days)))
        analytics_sandbox.add_website(f"after-{days}.example.com", privacy=0)
    return outcomes


@pytest.mark.sample("nightly_website_snapshot")
@pytest.mark.sample("load_snapshot_into_duckdb")
@pytest.mark.slow  # five runs, three reports
@pytest.mark.chosen
def test_three_nights(run_dag: RunDag, three_nights: list[Any], tmp_path: Path) -> None:
    assert [tasks["snapshot"].returned["count"] for tasks in three_nights] == [40, 41, 42]
    assert [tasks["compare"].returned["added"] for tasks in three_nights] == [0, 1, 1]
    assert three_nights[0]["compare"].returned["previous"] is None
    assert [tasks["snapshot"].returned["first"] for tasks in three_nights] == [True, False, False]
    assert three_nights[2]["prune"].returned["dry_run"] is True
    page = Path(three_nights[2]["snapshot"].returned["report"].removeprefix("file://")).read_text()
    assert "over the last 3 snapshots" in page
    assert "after-2.example.com" in page
    # Files beside the data are not mistaken for it.
    assert len(list(tmp_path.glob("websites/*/*"))) == 3

    dag = sample_dag(LOAD, tmp_path)
    outcome = run_dag(dag)
    assert len(outcome.tasks["load"].returned) == 3
    answer = outcome.tasks["answer"].returned
    assert [(row["websites"], row["new"]) for row in answer] == [(42, 1), (41, 1), (40, 40)]
    assert answer[0]["public"] == answer[1]["public"] + 1

    again = run_dag(dag, logical_date=datetime.now(UTC))
    assert again.tasks["load"].returned == []
    assert again.tasks["answer"].returned == answer


@pytest.mark.slow  # six runs, four reports
def test_a_replaced_snapshot_is_loaded_again(
    run_dag: RunDag, analytics_sandbox: Any, three_nights: list[Any], tmp_path: Path
) -> None:
    dag = sample_dag(LOAD, tmp_path)
    run_dag(dag)
    night = three_nights[2]["snapshot"].returned["snapshot_date"]
    run_night(run_dag, tmp_path, datetime.fromisoformat(night).replace(hour=1, tzinfo=UTC))
    outcome = run_dag(dag, logical_date=datetime.now(UTC))
    assert outcome.tasks["load"].returned == [night]
    assert [row["websites"] for row in outcome.tasks["answer"].returned] == [43, 41, 40]


@pytest.mark.slow  # four runs, three reports
def test_the_trigger_form_accepts_what_a_guard_found(run_dag: RunDag, analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(20)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    run_night(run_dag, tmp_path, today + timedelta(days=1))
    analytics_sandbox.reset()
    analytics_sandbox.seed(5)
    run_night(run_dag, tmp_path, today + timedelta(days=2), state="failed")
    run_night(run_dag, tmp_path, today + timedelta(days=2, hours=1), state="failed", accept=["source", "clock"])
    tasks = run_night(run_dag, tmp_path, today + timedelta(days=2, hours=2), accept=["count"], prune=True)
    assert tasks["snapshot"].returned["count"] == 5
    assert tasks["prune"].returned["dry_run"] is False
    later = run_night(run_dag, tmp_path, today + timedelta(days=4))
    assert (later["compare"].returned["current"], later["compare"].returned["previous"]) == (
        later["snapshot"].returned["snapshot_date"],
        tasks["snapshot"].returned["snapshot_date"],
    )


def test_the_dag_waits_for_the_asset_of_the_snapshot() -> None:
    from airflow_provider_analytics.operators.snapshots import snapshot_asset

    dag = sample_dag(LOAD)
    assert awaited_uris(dag) == [snapshot_asset().uri]


def documented_sql() -> list[str]:
    text = (ROOT / "docs" / "loading.md").read_text()
    section = text.split("## DuckDB", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sql\n(.*?)```", section, re.S)


@pytest.mark.parametrize("sql", documented_sql(), ids=["by manifest", "by glob"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_the_documented_sql_runs(sql: str, compression: str | None, analytics_sandbox: Any, tmp_path: Path) -> None:
    import duckdb  # not at the top: it complains at exit of what the collector had to forget

    from airflow_provider_analytics.api.client import AnalyticsClient
    from airflow_provider_analytics.api.settings import Settings
    from airflow_provider_analytics.snapshots.catalog import dataset_of
    from airflow_provider_analytics.snapshots.manifest import ListSource
    from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

    analytics_sandbox.seed(40)
    settings = Settings(base_url=analytics_sandbox.url, api_key=analytics_sandbox.api_key)
    with AnalyticsClient(settings) as client:
        for days in (1, 0):
            now = datetime.now(UTC) - timedelta(days=days)
            take_snapshot(
                dataset_of(str(tmp_path)),
                now.date(),
                Origin(client.iter_websites, ListSource(url="https://sandbox", account_id=None), client.stats),
                now=now,
                options=SnapshotOptions(compression=compression),
            )
    with duckdb.connect() as connection:
        rows = connection.execute(sql.replace("/data/analytics", str(tmp_path))).fetchall()
    assert sum(row[1] for row in rows) == 80


@pytest.fixture
def take(analytics_sandbox: Any) -> Iterator[Any]:
    """Take a snapshot of the sandbox: ``take(base, day, dataset=..., **options)``."""
    from airflow_provider_analytics.api.client import AnalyticsClient
    from airflow_provider_analytics.api.settings import Settings
    from airflow_provider_analytics.snapshots.catalog import dataset_of
    from airflow_provider_analytics.snapshots.manifest import ListSource
    from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

    settings = Settings(base_url=analytics_sandbox.url, api_key=analytics_sandbox.api_key)
    with AnalyticsClient(settings) as client:

        def run(base: Path, day: int, dataset: str = "websites", **options: Any) -> Any:
            now = datetime(2031, 5, day, 0, 2, tzinfo=UTC)
            origin = Origin(client.iter_websites, ListSource(url="https://sandbox", account_id=None), client.stats)
            every = SnapshotOptions(accept=frozenset({"count"}), **options)
            return take_snapshot(
                dataset_of(str(base), dataset), now.date(), origin, now=now, clock=lambda: now, options=every
            )

        yield run


def loaded(database: Path, *sources: Path) -> list[str]:
    """Run the task that loads, and return the loaded days."""
    module = sample(LOAD)
    vars(module).update(SOURCES=list(map(str, sources)), DATABASE=str(database))
    found: list[str] = module.load_snapshot_into_duckdb().get_task("load").python_callable()
    return found


def asked(database: Path, sql: str) -> list[tuple[Any, ...]]:
    import duckdb  # not at the top: it complains at exit of what the collector had to forget

    with duckdb.connect(str(database), read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("file_format", "compression"), [("jsonl", None), ("jsonl", "zstd"), ("csv", "gzip"), ("parquet", None)]
)
def test_every_format_is_loaded_with_its_history(
    take: Any, analytics_sandbox: Any, tmp_path: Path, file_format: str, compression: str | None
) -> None:
    base, database = tmp_path / "base", tmp_path / "test.duckdb"
    options = {"format": file_format, "compression": compression}
    analytics_sandbox.add_website("kept.example.com", privacy=0)
    analytics_sandbox.add_website("gone.example.com", privacy=1)
    take(base, 14, **options)
    take(base, 15, **options)
    analytics_sandbox.reset()
    take(base, 16, **options)  # a night without a website
    analytics_sandbox.add_website("kept.example.com", privacy=2)
    take(base, 17, **options)
    assert loaded(database, base) == ["2031-05-14", "2031-05-15", "2031-05-16", "2031-05-17"]
    assert loaded(database, base) == []
    assert asked(database, "SELECT day(snapshot_date), websites FROM snapshots ORDER BY ALL") == [
        (14, 2),
        (15, 2),
        (16, 0),
        (17, 1),
    ]
    history = "SELECT domain, privacy, day(valid_from), day(valid_to) FROM website_history ORDER BY valid_from, domain"
    assert asked(database, history) == [
        ("gone.example.com", 1, 14, 16),
        ("kept.example.com", 0, 14, 16),
        ("kept.example.com", 2, 17, None),
    ]


def test_two_sources_share_a_database(take: Any, analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(3)
    database = tmp_path / "not" / "there" / "yet.duckdb"  # as where all snapshots go to another storage
    sources = [tmp_path / "one", tmp_path / "two"]
    for source in sources:
        take(source, 14)
    assert loaded(database, *sources) == ["2031-05-14"] * 2
    assert loaded(database, *sources) == []
    assert asked(database, "SELECT source, count(*) FROM websites GROUP BY ALL ORDER BY ALL") == [
        (str(source), 3) for source in sources
    ]


def test_a_day_with_a_changed_byte_is_skipped_until_it_is_whole(
    take: Any, analytics_sandbox: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, database = tmp_path / "base", tmp_path / "test.duckdb"
    analytics_sandbox.seed(3)
    nights = [take(base, day) for day in (14, 15, 16)]
    path = Path(nights[1].files[0].path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"example", b"exbmple", 1))
    assert loaded(database, base) == ["2031-05-14", "2031-05-16"]
    said = capsys.readouterr().out
    assert "Not loaded, as it is not whole: 2031-05-15: " in said
    assert f"{path} is damaged: its SHA-256" in said
    days = "SELECT day(snapshot_date), count(*) FROM snapshots JOIN websites USING (source, snapshot_date) GROUP BY 1"
    assert sorted(asked(database, days)) == [(14, 3), (16, 3)]
    path.write_bytes(content)
    assert loaded(database, base) == ["2031-05-15"]
    assert sorted(asked(database, days)) == [(14, 3), (15, 3), (16, 3)]


def test_another_format_makes_no_new_version(tmp_path: Path) -> None:
    from airflow_provider_analytics.api.dialect import Page
    from airflow_provider_analytics.api.listing import Listing
    from airflow_provider_analytics.api.stats import Stats
    from airflow_provider_analytics.snapshots.catalog import dataset_of
    from airflow_provider_analytics.snapshots.manifest import ListSource
    from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

    base, database = tmp_path / "base", tmp_path / "test.duckdb"
    page = Page([{"id": 1, "domain": "a.example.com", "exclude_params": "", "exclude_ips": None}], 1)
    for day, file_format in ((14, "jsonl"), (15, "csv"), (16, "parquet")):
        now = datetime(2031, 5, day, tzinfo=UTC)
        origin = Origin(
            lambda: Listing(lambda _: page, {}, "page"),
            ListSource(url="https://sandbox", account_id=None),
            Stats(requests=1),
        )
        options = SnapshotOptions(format=file_format)
        take_snapshot(dataset_of(str(base)), now.date(), origin, now=now, options=options)
    loaded(database, base)
    history = "SELECT version, exclude_params, exclude_ips, day(valid_from), day(valid_to) FROM website_history"
    assert asked(database, history) == [(1, None, None, 14, None)]
