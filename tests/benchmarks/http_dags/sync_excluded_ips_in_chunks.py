"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag, task
from airflow.providers.http.hooks.http import HttpHook
from airflow.providers.http.operators.http import HttpOperator

STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"
CHUNKS = 8


@dag(
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    params={
        "state_path": Param(
            STATE.as_uri(),
            type="string",
            description="Folder for lists, plans and audit trails: shared by all workers and durable, such as "
            "s3://bucket/path",
        ),
        "dry_run": Param(False, type="boolean", description="Only plan, send nothing"),
        "accept": Param(
            [],
            type="array",
            items={"type": "string", "enum": ["empty", "loss"]},
            description="Safety checks to override in this run",
        ),
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def sync_excluded_ips_in_chunks():
    @task
    def chunks():
        websites = HttpHook(method="GET").run("api/v1/websites").json()["data"]
        return [{"exclude_ips": [one["id"] for one in websites[chunk::CHUNKS]]} for chunk in range(CHUNKS)]

    HttpOperator.partial(
        task_id="sync",
        method="PUT",
        endpoint="api/v1/websites/{{ ti.map_index }}",
        headers={
            "state_path": "{{ params.state_path }}",
            "dry_run": "{{ params.dry_run }}",
            "accept": "{{ params.accept | join(',') }}",
        },
        max_active_tis_per_dag=4,  # how many tasks ask the service at the same time
    ).expand(data=chunks())


sync_excluded_ips_in_chunks()
