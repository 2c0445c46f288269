# SPDX-License-Identifier: Apache-2.0
"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag
from airflow.providers.http.operators.http import HttpOperator

#: Safety checks that a run can override.
GUARDS = ["empty_list", "entries_lost"]
STATE = str(Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics")


@dag(
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    params={
        "dry_run": Param(False, type="boolean", description="Only plan, send nothing"),
        "override_guards": Param(
            [],
            type="array",
            items={"type": "string", "enum": GUARDS},
            examples=GUARDS,  # for a drop-down
            description="Safety checks to override in this run",
        ),
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def sync_excluded_ips():
    HttpOperator(
        task_id="sync",
        method="PUT",
        endpoint="api/v1/websites/1",
        data={
            "exclude_ips": "{{ var.value.exclude_ips }}",
            "state_path": STATE,
            "dry_run": "{{ params.dry_run }}",
            "override_guards": "{{ params.override_guards | join(',') }}",
        },
    )


sync_excluded_ips()
