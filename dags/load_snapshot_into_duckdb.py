"""After each snapshot, load new snapshots into DuckDB and query them with SQL.

Copy this file to the folder of ``nightly_website_snapshot.py``; it runs after each snapshot of that DAG. Requires
``pip install duckdb``. Snapshots are found by their manifests, so that one run catches up on all earlier ones and a
repeated run changes nothing. For a base path in object storage, load DuckDB's ``httpfs`` extension first.
"""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.providers.common.compat.sdk import Param, dag, task

from airflow_provider_analytics.operators.snapshots import snapshot_asset

CREATE = """
CREATE TABLE IF NOT EXISTS websites (
    id VARCHAR, domain VARCHAR, privacy BIGINT, email BIGINT, exclude_bots BIGINT,
    exclude_params VARCHAR, exclude_ips VARCHAR, favorite BOOLEAN,
    record JSON, record_hash VARCHAR, snapshot_date DATE, observed_at TIMESTAMPTZ
);
"""

# Files of the snapshots that are not in the table yet or were replaced since, by their manifests.
FIND = """
SELECT m.snapshot_date, list(replace(m.filename, 'manifest.json', m.file.name)) AS files
FROM (
    SELECT filename, snapshot_date::DATE AS snapshot_date, observed_at::TIMESTAMPTZ AS observed_at,
           unnest(files) AS file
    FROM read_json($manifests, filename = true, hive_partitioning = false)
) AS m
WHERE NOT EXISTS (
    FROM websites AS w WHERE w.snapshot_date = m.snapshot_date AND w.observed_at = m.observed_at
)
GROUP BY m.snapshot_date
ORDER BY m.snapshot_date;
"""

REMOVE = "DELETE FROM websites WHERE snapshot_date = $day;"

LOAD = """
INSERT INTO websites
SELECT * FROM read_json($files, format = 'newline_delimited', hive_partitioning = false, columns = {
    id: 'VARCHAR', domain: 'VARCHAR', privacy: 'BIGINT', email: 'BIGINT', exclude_bots: 'BIGINT',
    exclude_params: 'VARCHAR', exclude_ips: 'VARCHAR', favorite: 'BOOLEAN',
    record: 'VARCHAR', record_hash: 'VARCHAR', snapshot_date: 'DATE', observed_at: 'TIMESTAMPTZ'
});
"""

# Websites per night, those with a public statistics page, and new ones.
ANSWER = """
SELECT s.snapshot_date::VARCHAR AS night, count(*) AS websites, count(*) FILTER (s.privacy = 0) AS public,
       count(*) FILTER (NOT EXISTS (
           FROM websites AS b WHERE b.id = s.id AND b.snapshot_date < s.snapshot_date
       )) AS new
FROM websites AS s GROUP BY ALL ORDER BY night DESC LIMIT 10;
"""


@dag(
    schedule=[snapshot_asset()],
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=1)},
    params={
        "base_path": Param("/tmp/website_analytics", type="string", description="Base path of the snapshots"),  # noqa: S108
        "database": Param("/tmp/website_analytics/websites.duckdb", type="string"),  # noqa: S108
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def load_snapshot_into_duckdb() -> None:
    @task
    def load(base_path: str, database: str, **context: Any) -> list[str]:
        import duckdb

        # A run started by an event has default Params, so the path comes from the event. Airflow 2 calls assets
        # datasets.
        events = context.get("triggering_asset_events") or context.get("triggering_dataset_events") or {}
        paths = [event.extra["path"] for found in events.values() for event in found]
        loaded = []
        with duckdb.connect(database) as connection:
            connection.execute(CREATE)
            for base in {path.rpartition("/websites/")[0] for path in paths} or {base_path}:
                manifests = f"{base.removeprefix('file://')}/websites/*/manifest.json"
                for day, files in connection.execute(FIND, {"manifests": manifests}).fetchall():
                    connection.begin()
                    connection.execute(REMOVE, {"day": day})
                    connection.execute(LOAD, {"files": files})
                    connection.commit()
                    loaded.append(str(day))
        return loaded

    @task
    def answer(database: str) -> list[dict[str, Any]]:
        import duckdb

        with duckdb.connect(database, read_only=True) as connection:
            cursor = connection.execute(ANSWER)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    load("{{ params.base_path }}", "{{ params.database }}") >> answer("{{ params.database }}")


load_snapshot_into_duckdb()
