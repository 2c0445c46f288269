"""Every night, write the complete list of websites to storage and compare it with the night before.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics and a base path
for the snapshots: any URL that Airflow's ObjectStoragePath supports, such as ``s3://bucket/path``.
"""

from __future__ import annotations

import pendulum
from airflow.providers.common.compat.sdk import Param, dag, task

from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator


@dag(
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    params={
        "base_path": Param("file:///tmp/website_analytics", type="string", description="Base path of the snapshots")
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def nightly_website_snapshot():
    snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path="{{ params.base_path }}")
    compare = CompareSnapshotsOperator(task_id="compare", base_path="{{ params.base_path }}")

    @task
    def announce(written: dict, changes: dict) -> None:
        print(f"{written['count']} websites are in {written['path']}")
        print("Since {previous}: {added} added, {removed} removed, {changed} changed".format(**changes))

    snapshot >> compare
    announce(snapshot.output, compare.output)


nightly_website_snapshot()
