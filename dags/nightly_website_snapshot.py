"""Every night, write the complete list of websites to storage and compare it with the night before.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics and a base path
for the snapshots: any URL that Airflow's ObjectStoragePath supports, such as ``s3://bucket/path``.

If a guard fails the task, the error has its name. To publish anyway, trigger the DAG with that name in
``override_guards``. The task ``prune`` only logs what it would remove, unless ``prune`` is set.
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag, task

from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)

#: Guards that a run can override, and their findings.
GUARDS = {
    "fewer_websites": "many websites are missing",
    "other_source": "the list is of another service, account, or filter",
    "missing_fields": "a field lost many values",
    "clock_skew": "the clock is behind the last snapshot",
    "newer_version": "a newer package wrote the last snapshot",
}
#: Folder of the snapshots: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)


@dag(
    description="Every night, store the complete list of websites and compare it with the night before",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 2,
        "retry_delay": pendulum.duration(minutes=5),
        "execution_timeout": pendulum.duration(hours=2),
    },
    params={
        "override_guards": Param(
            [],
            type=["array", "null"],  # without null, the form of Airflow 2 asks for a value
            items={"type": "string", "enum": [*GUARDS]},
            examples=[*GUARDS],  # for a drop-down
            values_display={name: f"{name}: {finding}" for name, finding in GUARDS.items()},
            title="Override guards",
            description="Publish the snapshot despite these guards, in this run only",
        ),
        "prune": Param(
            False,
            type="boolean",
            title="Remove old snapshots",
            description="Remove snapshots beyond the 90 daily and 36 monthly ones",
        ),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def nightly_website_snapshot():
    snapshot = SnapshotWebsitesOperator(
        task_id="snapshot",
        base_path=FOLDER,
        override_guards="{{ (params.override_guards or []) | join(',') }}",
    )
    # The pair that this run wrote, even if another run publishes at the same time. The index is for a mapped
    # task group.
    taken = f"ti.xcom_pull('{snapshot.task_id}', map_indexes=ti.map_index)"
    compare = CompareSnapshotsOperator(
        task_id="compare",
        base_path=FOLDER,
        current=f"{{{{ {taken}['snapshot_date'] }}}}",
        previous=f"{{{{ {taken}['previous'] }}}}",
    )
    prune = PruneSnapshotsOperator(
        task_id="prune", base_path=FOLDER, keep_days=90, keep_months=36, dry_run="{{ not params.prune }}"
    )

    @task
    def announce(written: dict, changes: dict) -> None:
        print(f"{written['count']} websites are in {written['path']}")
        if written["is_first"]:
            print("Nothing was compared, because no earlier day has a snapshot.")
        elif changes["previous"] is None:
            print("Nothing was compared, because the previous snapshot is damaged.")
        else:
            print("Since {previous}: {removed} removed, {changed} changed, {added} added".format(**changes))
        for change in changes["changes"]:
            print(change["change"], repr(change["domain"]), change["fields"] if change["change"] == "changed" else "")

    snapshot >> compare >> prune
    announce(snapshot.output, compare.output)


nightly_website_snapshot()
