"""Sync the excluded IP addresses of all websites with one list, after someone has approved the plan.

As in ``websites_as_code.py``, the plan waits under Required Actions in Airflow's UI, and only this plan is applied.

The list is the Airflow Variable ``exclude_ips``: one address per line, ``#`` starts a comment.

Copy this file to your DAG folder. Requires Airflow 3.1 or newer for approvals (on older versions this file defines no
DAG) and a connection ``analytics_default`` of type Website Analytics.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException, Param, dag

from airflow_provider_analytics.operators import task_groups

#: Guards that a run can override, and their findings.
GUARDS = {
    "fewer_websites": "many websites are missing",
    "empty_list": "the list is empty",
    "entries_lost": "many entries were removed from the list",
}
#: Folder of lists, plans, and audit trails: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)
#: Pool of the tasks that change websites. If it has one slot, they run one after the other, and each unexpected change
#: in a result was made by someone else: airflow pools set analytics_writers 1 "tasks that change websites"
POOL = os.environ.get("ANALYTICS_POOL", "default_pool")


@dag(
    description="Sync the excluded IP addresses of all websites after someone has approved the plan",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    max_active_runs=1,
    params={
        "override_guards": Param(
            [],
            type=["array", "null"],
            items={"type": "string", "enum": [*GUARDS]},
            examples=[*GUARDS],  # for a drop-down
            values_display={name: f"{name}: {finding}" for name, finding in GUARDS.items()},
            title="Override guards",
            description="Send changes despite these guards, in this run only. The plan shows them to the approver.",
        ),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def sync_excluded_ips_with_approval():
    task_groups.exclusion_list(
        "office",
        exclude_ips="{{ var.value.get('exclude_ips', '') }}",
        state_path=FOLDER,
        pool=POOL,
        override_guards="{{ (params.override_guards or []) | join(',') }}",
    )


with suppress(AirflowOptionalProviderFeatureException):
    sync_excluded_ips_with_approval()
