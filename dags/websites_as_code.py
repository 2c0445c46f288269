"""Make the websites match ``websites.yaml`` after someone has approved the plan.

``plan`` compares the websites with the file and sends no changes. If something differs, ``approve`` waits under
Required Actions in Airflow's UI, with the plan. ``apply`` then applies only that plan: if the file or the
websites change in between, it fails and sends no changes. A retry finishes a plan that was applied in part.

If a guard blocks the plan, ``check`` fails and names the guard and the reason. If you want the change, trigger the DAG
with this name in ``override_guards``.

Copy this file and ``websites.yaml`` to your DAG folder. Requires Airflow 3.1 or newer for approvals (on older versions
this file defines no DAG) and a connection ``analytics_default`` of type Website Analytics.
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
    "many_created": "many websites of the last run are created again",
    "many_deleted": "many websites are deleted",
    "empty_list": "a list is empty, or all websites are deleted",
    "entries_lost": "many entries were removed from a list",
    "made_public": "many statistics pages become public",
}
#: Folder of lists, plans, and audit trails: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)
#: Pool of the tasks that change websites. If it has one slot, they run one after the other, and each unexpected change
#: in a result was made by someone else: airflow pools set analytics_writers 1 "tasks that change websites"
POOL = os.environ.get("ANALYTICS_POOL", "default_pool")


@dag(
    description="Make the websites match a file after someone has approved the plan",
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
def websites_as_code():
    task_groups.websites_as_code(
        "websites",
        config_path=str(Path(__file__).with_name("websites.yaml")),
        state_path=FOLDER,
        pool=POOL,
        override_guards="{{ (params.override_guards or []) | join(',') }}",
    )


with suppress(AirflowOptionalProviderFeatureException):
    websites_as_code()
