# SPDX-License-Identifier: Apache-2.0
"""Recipes of docs/loading.md and examples/warehouses: their code runs unchanged on real snapshots.

The tools are in ``.tools/recipes``, which ``make test`` sets up, separate from Airflow.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from cluster import postgres, program

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.snapshots.catalog import read_snapshot, snapshot_series
from airflow_provider_analytics.snapshots.formats import COLUMNS
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.retention import remove_snapshot
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

pytestmark = pytest.mark.repository

#: The day that the page loads, between two others.
DAY = date(2026, 11, 20)
DAYS = [DAY - timedelta(days=1), DAY, DAY + timedelta(days=1)]
#: Lists as people write them: in this order, with comments.
IPS = "# offices\n203.0.113.7\n192.0.2.1 # Berlin\n2001:db8::1"

Run = Callable[..., Any]

#: A process for several programs, each with separate names: importing the libraries takes seconds.
IN_TURN = """
import json, sys

for program in json.load(sys.stdin):
    exec(compile(program, "<recipe>", "exec"), {"__name__": "__main__"})
"""

ICEBERG_ROWS = """
import json
from pyiceberg.catalog import load_catalog

catalog = load_catalog("analytics", type="sql", uri="sqlite:////data/catalog.db", warehouse="file:///data/iceberg")
table = catalog.load_table("analytics.websites")
found = {
    "rows": table.scan().to_arrow().to_pylist(),
    "types": {field.name: str(field.field_type) for field in table.schema().fields},
    "partitions": [partition["partition"]["snapshot_date"] for partition in table.inspect.partitions().to_pylist()],
}
print(json.dumps(found, default=str))
"""

DUCKDB_ROWS = """
import duckdb, json

with duckdb.connect("/data/dlt.duckdb") as connection:
    connection.execute("SET TimeZone = 'UTC'")
    types = {row[0]: row[1] for row in connection.execute("DESCRIBE analytics.websites").fetchall()}
    names = [name for name in types if not name.startswith("_dlt")]
    rows = connection.execute(f"SELECT {', '.join(names)} FROM analytics.websites").fetchall()
found = {"rows": [dict(zip(names, row)) for row in rows], "types": {name: types[name] for name in names}}
print(json.dumps(found, default=str))
"""


@pytest.fixture
def run(recipes_python: str, checkout: Path, environment: dict[str, str], tmp_path: Path) -> Run:
    """Run programs in sequence, and return their output as JSON; ``/data`` is a folder of the test."""

    def running(*programs: str, fails: bool = False) -> Any:
        ended = subprocess.run(
            [recipes_python, "-P", "-c", IN_TURN],
            env={
                **environment,
                "PYTHONPATH": str(checkout),
                "DLT_DATA_DIR": str(tmp_path / "dlt"),
                "RUNTIME__DLTHUB_TELEMETRY": "false",
            },
            cwd=tmp_path,
            input=json.dumps([program.replace("/data/", f"{tmp_path}/") for program in programs]),
            capture_output=True,
            text=True,
            check=False,
        )
        if fails:
            assert ended.returncode, ended.stdout
            return ended.stderr
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line) for line in ended.stdout.splitlines()]

    return running


@pytest.fixture
def take(analytics_sandbox: Any, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Take the snapshot of a day: ``take(DAY, format="csv")``."""
    sandbox = analytics_sandbox
    with AnalyticsClient(Settings(base_url=sandbox.url, api_key=sandbox.api_key)) as client:
        origin = Origin(client.iter_websites, ListSource(url=sandbox.url, account_id=None), client.stats)

        now = datetime(2026, 1, 1, tzinfo=UTC)

        def taking(day: date, **options: Any) -> None:
            nonlocal now
            # A day that is replaced is read after all others: a clock never goes back.
            now = max(datetime(day.year, day.month, day.day, 0, 2, tzinfo=UTC), now + timedelta(seconds=1))
            given = {
                "format": "parquet",
                "override_guards": frozenset({"fewer_websites"}),
                "max_loss_fraction": 1,
                **options,
            }
            take_snapshot(
                snapshot_series(f"{tmp_path}/analytics"),
                day,
                origin,
                clock=lambda: now,
                options=SnapshotOptions(**given),
            )

        yield taking


@pytest.fixture
def nights(analytics_sandbox: Any, take: Callable[..., None]) -> Callable[..., None]:
    """Take a snapshot per night: ``nights("jsonl", "csv", "parquet")``; no website has a list in the first."""

    def taking(*formats: str) -> None:
        analytics_sandbox.reset()
        website = analytics_sandbox.add_website("a.example.com", exclude_params=None, exclude_ips=None)
        for day, file_format in zip(DAYS, formats, strict=True):
            take(day, format=file_format)
            analytics_sandbox.change_website(website["id"], exclude_ips=IPS, exclude_params="utm_id\nref")
            analytics_sandbox.add_website(f"new-{day}.example.com")

    return taking


WAREHOUSES = Path(__file__).parents[2] / "examples" / "warehouses"


def code_of(checkout: Path, section: str, language: str = "python") -> list[str]:
    """Return the blocks of a language below a heading of the page."""
    page = (checkout / "docs" / "loading.md").read_text(encoding="utf-8")
    [text] = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def on(program: str, *days: date) -> list[str]:
    """Return a program for each of some days."""
    return [program.replace(str(DAY), str(day)) for day in days]


def calls(recipe: str, *functions: str) -> list[str]:
    """Return a program that calls each of some functions of a recipe for the day."""
    text = (WAREHOUSES / recipe).read_text(encoding="utf-8")
    return [f"{text}\n{function}({str(DAY)!r})\n" for function in functions]


def rows_of(tmp_path: Path, *days: date) -> list[dict[str, Any]]:
    """Return the rows of the snapshots of some days."""
    found = [read_snapshot(f"{tmp_path}/analytics", day) for day in days]
    return in_order([row for snapshot in found if snapshot for row in snapshot.rows()])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by day and id, with times as in rows of snapshots."""
    times = [{**row, "observed_at": datetime.fromisoformat(row["observed_at"])} for row in rows]
    return sorted(times, key=lambda row: (row["snapshot_date"], row["id"]))


def test_iceberg_follows_loaded_replaced_and_removed_days(
    run: Run,
    nights: Callable[..., None],
    take: Callable[..., None],
    analytics_sandbox: Any,
    tmp_path: Path,
) -> None:
    create, load, delete = calls("iceberg.py", "create_table", "load", "delete")
    nights("parquet", "parquet", "parquet")
    files = sorted(tmp_path.glob("analytics/websites/*/*"))
    programs = [*on(create, DAYS[0]), *on(load, *DAYS), load, ICEBERG_ROWS, delete, ICEBERG_ROWS, load]
    [table, without_the_day] = run(*programs)
    assert in_order(table["rows"]) == rows_of(tmp_path, *DAYS)
    assert sorted(table["partitions"]) == list(map(str, DAYS))
    kinds = {"string": "string", "integer": "long", "boolean": "boolean", "date": "date", "timestamp": "timestamptz"}
    assert table["types"] == {name: kinds[kind] for name, kind in COLUMNS.items()}
    assert in_order(without_the_day["rows"]) == rows_of(tmp_path, DAYS[0], DAYS[2])
    assert sorted(tmp_path.glob("analytics/websites/*/*")) == files

    take(DAY)
    assert "No such file" in run(ICEBERG_ROWS, fails=True)
    [replaced] = run(load, ICEBERG_ROWS)
    assert in_order(replaced["rows"]) == rows_of(tmp_path, *DAYS)
    analytics_sandbox.reset()
    take(DAY)
    remove_snapshot(f"{tmp_path}/analytics", DAYS[0])
    [last] = run(load, *on(delete, DAYS[0]), ICEBERG_ROWS)
    assert in_order(last["rows"]) == rows_of(tmp_path, DAYS[2])


def test_dlt_keeps_types_and_lists_of_all_formats_and_replaces_a_day(
    run: Run,
    nights: Callable[..., None],
    take: Callable[..., None],
    analytics_sandbox: Any,
    tmp_path: Path,
) -> None:
    load, delete = calls("dlt_pipeline.py", "load", "delete")
    nights("jsonl", "csv", "parquet")
    [first, table] = run(*on(load, DAYS[0]), DUCKDB_ROWS, *on(load, *DAYS[1:]), DUCKDB_ROWS)
    kinds = {"string": "VARCHAR", "integer": "BIGINT", "timestamp": "TIMESTAMP WITH TIME ZONE"}
    types = {name: kinds.get(kind, kind.upper()) for name, kind in COLUMNS.items()}
    assert first["types"] == table["types"] == types
    assert in_order(table["rows"]) == rows_of(tmp_path, *DAYS)
    assert IPS in {row["exclude_ips"] for row in table["rows"]}
    take(DAY)
    [replaced] = run(load, DUCKDB_ROWS)
    assert in_order(replaced["rows"]) == rows_of(tmp_path, *DAYS) != in_order(table["rows"])
    analytics_sandbox.reset()
    take(DAY)
    [empty, deleted] = run(load, DUCKDB_ROWS, delete, DUCKDB_ROWS)
    assert in_order(empty["rows"]) == in_order(replaced["rows"])  # documented in the recipe
    assert in_order(deleted["rows"]) == rows_of(tmp_path, DAYS[0], DAYS[2])


@pytest.mark.parametrize("is_migrated", [False, True])
@pytest.mark.usefixtures("postgresql")
def test_postgresql_has_each_day_once(
    is_migrated: bool, checkout: Path, nights: Callable[..., None], take: Callable[..., None], tmp_path: Path
) -> None:
    create, load = code_of(checkout, "PostgreSQL", "sql")
    nights("csv", "csv", "csv")
    for day in DAYS:
        take(day, format="csv", compression="gzip")
    with TemporaryDirectory() as folder, postgres(Path(folder) / "postgres") as url:

        def sql(text: str) -> str:
            text = text.replace("/data/", f"{tmp_path}/")
            command = [program("psql"), url, "--quiet", "--no-align", "--tuples-only", "-v", "ON_ERROR_STOP=1"]
            return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

        if is_migrated:
            sql(without(create))
            with pytest.raises(subprocess.CalledProcessError, match="non-zero"):
                sql(without(load))  # the header has one column more
            assert not sql("SELECT * FROM websites;")
            [add] = code_of(checkout, "New columns", "sql")
            sql(add)
        else:
            sql(create)
        for statement in (*on(load, *DAYS), load):
            sql(statement)
        rows = [json.loads(line) for line in sql("SELECT row_to_json(websites) FROM websites;").splitlines()]
    columns = ("id", "snapshot_date", "domain", "privacy", "exclude_ips", "favorite", "record_hash")
    # CSV does not distinguish an empty text from null.
    wanted = [{name: row[name] or None for name in columns} for row in rows_of(tmp_path, *DAYS)]
    found = [{name: row[name] or None for name in columns} for row in rows]
    assert sorted(found, key=lambda row: (row["snapshot_date"], row["id"])) == wanted


def without(program: str) -> str:
    """Return a program that creates a table or loads it like an earlier version, whose rows had no ``favorite``."""
    for found in ("favorite boolean,\n    ", "favorite, "):
        program = program.replace(found, "")
    program = program.replace("snapshot.manifest.columns}", "snapshot.manifest.columns if column.name != 'favorite'}")
    program = program.replace(
        "yield from snapshot.rows()",
        "yield from ({name: row[name] for name in row if name != 'favorite'} for row in snapshot.rows())",
    )
    return program.replace(
        "    catalog().create_n",
        "    columns = columns.remove(columns.get_field_index('favorite'))\n    catalog().create_n",
    )


def test_iceberg_and_dlt_add_a_new_column_at_the_end(run: Run, nights: Callable[..., None], tmp_path: Path) -> None:
    create, into_iceberg = calls("iceberg.py", "create_table", "load")
    [into_dlt] = calls("dlt_pipeline.py", "load")
    nights("parquet", "parquet", "parquet")
    before = [*on(without(create), DAYS[0]), *on(without(into_dlt), DAYS[0]), DUCKDB_ROWS]
    after = [*on(into_iceberg, *DAYS), *on(into_dlt, *DAYS), ICEBERG_ROWS, DUCKDB_ROWS]
    for table in run(*before):
        assert "favorite" not in table["types"]
    for table in run(*after):
        assert list(table["types"])[-1] == "favorite"
        assert in_order(table["rows"]) == rows_of(tmp_path, *DAYS)


@pytest.mark.parametrize("warehouse", ["bigquery", "snowflake", "redshift"])
def test_recipe_that_no_test_runs_gives_the_reason_and_replaces_a_day(warehouse: str) -> None:
    text = (WAREHOUSES / f"{warehouse}.sql").read_text(encoding="utf-8")
    assert text.startswith("-- Not run: ")
    assert "create_tables.sql" in text
    assert "2026-11-20" in text.partition("\n-- Replace a day")[2]


def test_dbt_sources_have_freshness_by_a_column_of_the_snapshots() -> None:
    [source] = yaml.safe_load((WAREHOUSES / "dbt_sources.yml").read_text(encoding="utf-8"))["sources"]
    [table] = source["tables"]
    assert table["loaded_at_field"] in COLUMNS
    assert table["freshness"].keys() == {"warn_after", "error_after"}
    assert {column["name"] for column in table["columns"]} <= COLUMNS.keys()
    model = (WAREHOUSES / "dbt_newest_day.sql").read_text(encoding="utf-8")
    assert f"source('{source['name']}', '{table['name']}')" in model
