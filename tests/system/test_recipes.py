"""The recipes of docs/loading.md that need tools of their own: their code, as it is written there, on real snapshots.

The tools are in ``.tools/recipes``, which ``make test`` sets up: nothing of it is beside Airflow.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow_versions import allow_execute_in_this_thread

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = [pytest.mark.repository, pytest.mark.system]

ROOT = Path(__file__).parents[2]
DAYS = ("2026-11-20", "2026-11-21")

#: What a test does with ``load``, and how it looks at the table: columns of the first row, and rows per day.
ICEBERG = """
def look():
    rows = load_catalog("analytics").load_table("analytics.websites").scan().to_arrow()
    return str(rows.schema.field("snapshot_date").type), str(rows.schema.field("observed_at").type), rows.to_pylist()

def remove(day):
    load_catalog("analytics").load_table("analytics.websites").delete(f"snapshot_date = '{day}'")
"""
DLT = """
import duckdb

def look():
    with duckdb.connect("website_snapshots.duckdb") as database:
        rows = database.sql("SELECT * FROM analytics.websites").fetch_arrow_table()
    return str(rows.schema.field("snapshot_date").type), str(rows.schema.field("observed_at").type), rows.to_pylist()
"""
MAIN = """
import sys
for step in sys.argv[1:]:
    what, day = step.split("=")
    {"load": load, "remove": globals().get("remove")}[what](day)
    date, time, rows = look()
    days = sorted(str(row["snapshot_date"]) for row in rows)
    counts = {day: days.count(day) for day in days}
    domains = sorted({row["domain"] for row in rows})
    print("SEEN " + json.dumps({"date": date, "time": time, "days": counts, "domains": domains}))
"""


def recipe(heading: str, base: Path) -> str:
    """Return the code of a recipe, with the folder of the test."""
    text = (ROOT / "docs" / "loading.md").read_text("utf-8")
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert 'BASE = Path("/data/analytics")' in code
    return str(code).replace("/data/analytics", str(base))


@pytest.fixture
def take(analytics_sandbox: SandboxServer, tmp_path: Path) -> Callable[[str], None]:
    """Take the snapshot of a day, as Parquet."""

    def run(day: str) -> None:
        allow_execute_in_this_thread()
        arguments: dict[str, Any] = {"partition_date": day, "late": "label", "format": "parquet"}
        SnapshotWebsitesOperator(task_id="take", base_path=f"file://{tmp_path}/base", **arguments).execute({})

    return run


@pytest.fixture
def run(recipes_python: str, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    def run(code: str, *steps: str) -> list[dict[str, Any]]:
        (tmp_path / "work").mkdir(exist_ok=True)
        script = tmp_path / "work" / "recipe.py"
        script.write_text(code)
        catalog = {
            "PYICEBERG_CATALOG__ANALYTICS__TYPE": "sql",
            "PYICEBERG_CATALOG__ANALYTICS__URI": f"sqlite:///{tmp_path}/work/catalog.db",
            "PYICEBERG_CATALOG__ANALYTICS__WAREHOUSE": f"file://{tmp_path}/work",
        }
        environment = {
            "HOME": str(tmp_path / "work"),
            "TZ": "UTC",
            "DLT_DATA_DIR": str(tmp_path / "work" / "dlt"),
            "RUNTIME__DLTHUB_TELEMETRY": "false",
            **catalog,
        }
        done = subprocess.run(
            [recipes_python, str(script), *steps],
            cwd=tmp_path / "work",
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line.removeprefix("SEEN ")) for line in done.stdout.splitlines() if line.startswith("SEEN ")]

    return run


def days(seen: list[dict[str, Any]]) -> list[dict[str, int]]:
    return [one["days"] for one in seen]


@pytest.mark.parametrize(("heading", "looks"), [("Iceberg", ICEBERG), ("dlt", DLT)])
def test_days_are_loaded_replaced_and_keep_their_types(
    analytics_sandbox: SandboxServer,
    take: Callable[[str], None],
    run: Callable[..., list[dict[str, Any]]],
    tmp_path: Path,
    heading: str,
    looks: str,
) -> None:
    analytics_sandbox.seed(40)
    first, second = DAYS
    take(first)
    analytics_sandbox.remove_website(3)
    take(second)
    code = recipe(heading, tmp_path / "base") + looks + MAIN
    seen = run(code, f"load={first}", f"load={second}", f"load={first}")
    assert days(seen) == [{first: 40}, {first: 40, second: 39}, {first: 40, second: 39}]
    # DuckDB names the time zone of the session.
    types = {(one["date"], one["time"].replace("Etc/UTC", "UTC")) for one in seen}
    assert types == {("date32[day]", "timestamp[us, tz=UTC]")}
    assert len(seen[0]["domains"]) == 40
    # The day is taken again with fewer websites: those that are gone leave the table.
    analytics_sandbox.remove_website(4)
    take(second)
    assert days(run(code, f"load={second}")) == [{first: 40, second: 38}]
    if heading == "Iceberg":
        assert days(run(code, f"remove={first}")) == [{second: 38}]
