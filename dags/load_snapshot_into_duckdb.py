"""After each snapshot, load new snapshots into DuckDB and query them with SQL.

Copy this file to the folder of ``nightly_website_snapshot.py``; it runs after each snapshot of that DAG. Requires
``pip install duckdb``. It loads every format from each of ``SOURCES``, by the manifests: one run catches up on all
earlier ones, a replaced snapshot is loaded again, a damaged one is skipped, and a repeated run changes nothing.

The table ``websites`` has a row per website and day of each source. The table ``snapshots`` has a row per day, also for
a day without websites. The view ``website_history`` has a row per version of a website, with its first and last day (a
slowly changing dimension of type 2).
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.common.compat.sdk import ObjectStoragePath, dag, task

from airflow_provider_analytics.operators.snapshots import snapshot_asset

#: Folder of the snapshots: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)
#: Base paths of the snapshots. Not taken from the event, because anyone who can send one could choose the files.
SOURCES = [FOLDER]
#: Connection of the object storage, if it needs one.
STORAGE_CONN_ID = None
#: File of the DuckDB database, on a disk.
DATABASE = f"{FOLDER.removeprefix('file://')}/websites.duckdb"

CREATE = """
CREATE TABLE IF NOT EXISTS snapshots (
    source VARCHAR, snapshot_date DATE, observed_at TIMESTAMPTZ, late BOOLEAN, websites BIGINT, digest VARCHAR,
    PRIMARY KEY (source, snapshot_date)
);
CREATE TABLE IF NOT EXISTS websites (
    source VARCHAR, id VARCHAR, domain VARCHAR, privacy BIGINT, snapshot_date DATE,
    PRIMARY KEY (source, snapshot_date, id)
);
"""

#: Type of a column in the manifest to its type here. A later version of the package can add columns.
TYPES = {"string": "VARCHAR", "integer": "BIGINT", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMPTZ"}
ADD = "ALTER TABLE websites ADD COLUMN IF NOT EXISTS {name} {type};"

#: Columns that are not settings.
OTHERS = ("source", "id", "record", "record_hash", "snapshot_date", "observed_at")
HISTORY = """
CREATE OR REPLACE VIEW website_history AS
WITH days AS (
    SELECT source, snapshot_date,
           row_number() OVER (PARTITION BY source ORDER BY snapshot_date) AS number,
           lead(snapshot_date) OVER (PARTITION BY source ORDER BY snapshot_date) AS next_date
    FROM snapshots
), seen AS (
    SELECT source, id, snapshot_date, {values}, number, next_date
    FROM websites JOIN days USING (source, snapshot_date)
), compared AS (
    SELECT *, row({names}) AS settings FROM seen
), marked AS (
    -- A version starts where the settings differ from those of the day before, or the website was not there.
    SELECT *, number IS DISTINCT FROM 1 + lag(number) OVER website
              OR settings IS DISTINCT FROM lag(settings) OVER website AS begins
    FROM compared WINDOW website AS (PARTITION BY source, id ORDER BY snapshot_date)
), numbered AS (
    SELECT *, count_if(begins) OVER (PARTITION BY source, id ORDER BY snapshot_date) AS version FROM marked
)
SELECT source, id, version, {names},
       min(snapshot_date) AS valid_from,
       -- The first day on which it was gone or different; null if it is the current one.
       if(bool_or(next_date IS NULL), NULL, max(next_date)) AS valid_to
FROM numbered GROUP BY ALL;
"""

KNOWN = "SELECT snapshot_date, digest FROM snapshots WHERE source = $source;"

REMOVE = """
DELETE FROM websites WHERE source = $source AND snapshot_date = $day;
DELETE FROM snapshots WHERE source = $source AND snapshot_date = $day;
"""

LOAD = """
INSERT INTO websites BY NAME
SELECT $source AS source, * FROM read_json($file, format = 'newline_delimited', columns = {{{columns}}});
"""

# Websites per night, those with a public statistics page, and new ones.
ANSWER = """
SELECT s.source, s.snapshot_date::VARCHAR AS night, s.websites, count_if(w.privacy = 0) AS public,
       count_if(w.id IS NOT NULL AND NOT EXISTS (
           FROM websites AS b WHERE b.source = w.source AND b.id = w.id AND b.snapshot_date < w.snapshot_date
       )) AS new
FROM snapshots AS s LEFT JOIN websites AS w USING (source, snapshot_date)
GROUP BY ALL ORDER BY night DESC, source LIMIT 10;
"""


@dag(
    description="Load new snapshots into DuckDB after each snapshot",
    schedule=[snapshot_asset()],
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=1)},
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def load_snapshot_into_duckdb() -> None:
    @task
    def load() -> list[str]:
        import duckdb

        Path(DATABASE).parent.mkdir(parents=True, exist_ok=True)
        with duckdb.connect(DATABASE) as connection:
            connection.execute(CREATE)
            loaded = [day for source in SOURCES for day in load_new(connection, source)]
            describe_history(connection)
        return loaded

    @task
    def answer() -> list[dict[str, Any]]:
        import duckdb

        with duckdb.connect(DATABASE, read_only=True) as connection:
            cursor = connection.execute(ANSWER)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    load() >> answer()


def load_new(connection: Any, source: str) -> list[str]:
    """Load the snapshots of a source that are new or were replaced, oldest first, and return their days."""
    from airflow_provider_analytics.exceptions import StorageError
    from airflow_provider_analytics.snapshots.catalog import list_snapshots

    loaded = []
    known = dict(connection.execute(KNOWN, {"source": source}).fetchall())
    for listed in reversed(list_snapshots(ObjectStoragePath(source, conn_id=STORAGE_CONN_ID))):
        snapshot = listed.snapshot
        if snapshot is None or not listed.is_whole:
            print(f"Skipped the damaged snapshot of {listed.day}. {', '.join(listed.problems)}")
        elif known.get(listed.day) != snapshot.digest:
            connection.begin()
            try:
                store(connection, source, snapshot)
            except StorageError as error:  # its content is read only now
                connection.rollback()
                print(f"Skipped the damaged snapshot of {listed.day}. {error}")
                continue
            connection.commit()
            loaded.append(str(listed.day))
    return loaded


def store(connection: Any, source: str, snapshot: Any) -> None:
    """Replace a day of a source. The rows are those of any format, verified against the manifest."""
    manifest = snapshot.manifest
    for statement in REMOVE.strip().splitlines():
        connection.execute(statement, {"source": source, "day": manifest.snapshot_date})
    connection.execute(
        "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)",
        [
            source,
            manifest.snapshot_date,
            manifest.observed_at,
            manifest.late,
            manifest.count,
            snapshot.digest,
        ],
    )
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for row in snapshot.rows():
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()
        columns = {quoted(column.name): TYPES[column.type] for column in manifest.columns}
        for name, kind in columns.items():
            connection.execute(ADD.format(name=name, type=kind))
        if manifest.count:
            typed = ", ".join(f"{name}: '{kind}'" for name, kind in columns.items())
            connection.execute(LOAD.format(columns=typed), {"source": source, "file": file.name})


def describe_history(connection: Any) -> None:
    """Write the view of the versions, with all settings that the table has."""
    found = connection.execute("SELECT column_name, column_type FROM (DESCRIBE websites)").fetchall()
    settings = {quoted(name): kind for name, kind in found if name not in OTHERS}
    values = []
    for name, kind in settings.items():
        # CSV does not distinguish an empty text from null; otherwise, a change of the format would start a new version.
        values.append(f"nullif({name}, '') AS {name}" if kind == "VARCHAR" else name)
    connection.execute(HISTORY.format(values=", ".join(values), names=", ".join(settings)))


def quoted(name: str) -> str:
    """Return the name of a column for SQL: a manifest could have any text."""
    return '"' + name.replace('"', '""') + '"'


load_snapshot_into_duckdb()
