# SPDX-License-Identifier: Apache-2.0
"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Asset, Param, dag, task
from airflow.providers.http.operators.http import HttpOperator

#: Safety checks that a run can override.
GUARDS = ["fewer_websites", "other_source", "missing_fields", "clock_skew", "newer_version"]
BASE_PATH = str(Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics")


@dag(
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    params={
        "override_guards": Param(
            [],
            type="array",
            items={"type": "string", "enum": GUARDS},
            examples=GUARDS,  # for a drop-down
            description="Safety checks to override in this run",
        ),
        "prune": Param(False, type="boolean", description="Remove old snapshots"),
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def nightly_website_snapshot():
    snapshot = HttpOperator(
        task_id="snapshot",
        method="GET",
        endpoint="api/v1/websites",
        data={
            "base_path": BASE_PATH,
            "override_guards": "{{ params.override_guards | join(',') }}",
        },
        outlets=[Asset(uri="website-snapshots://websites", name="website_snapshots")],
    )
    # The files of this run, independent of later publications.
    compare = HttpOperator(
        task_id="compare",
        endpoint="compare",
        data={
            "base_path": BASE_PATH,
            "current": "{{ ti.xcom_pull('snapshot')['snapshot_date'] }}",
            "previous": "{{ ti.xcom_pull('snapshot')['previous'] }}",
        },
    )
    prune = HttpOperator(
        task_id="prune",
        endpoint="prune",
        data={"base_path": BASE_PATH, "keep_days": 90, "keep_months": 36, "dry_run": "{{ not params.prune }}"},
    )

    @task
    def announce(written: dict, changes: dict) -> None:
        print(f"{written['count']} websites are in {written['path']}")
        if written["is_first"]:
            print("Nothing was compared, because no earlier day has a snapshot.")
        elif changes["previous"] is None:
            print("Nothing was compared, because the snapshot before is damaged.")
        else:
            print("Since {previous}: {removed} removed, {changed} changed, {added} added".format(**changes))
        for change in changes["changes"]:
            print(f"{change['change']}: {change['domain']} {change['fields'] if change['change'] == 'changed' else ''}")

    snapshot >> compare >> prune
    announce(snapshot.output, compare.output)


nightly_website_snapshot()
