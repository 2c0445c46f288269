"""Make the websites match ``websites.yaml`` in two steps, on every Airflow from 2.11 on.

1. Trigger ``plan_websites``. It sends no changes; the log of its task has the plan and its digest.
2. Read the plan. To approve it, trigger ``apply_websites`` with that digest.

Only the approved plan is applied: if the file or the websites change in between, ``apply_websites`` fails and sends
no changes. A plan that a guard blocks cannot be applied. If you want the change, trigger both DAGs with
the name of the guard in ``override_guards``.

From Airflow 3.1 on, ``websites_as_code.py`` does the same in one DAG, with a button.

Copy this file and ``websites.yaml`` to your DAG folder. Requires a connection ``analytics_default`` of type Website
Analytics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag

from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator

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
OVERRIDE_GUARDS = Param(
    [],
    type=["array", "null"],  # without null, the form of Airflow 2 asks for a value
    items={"type": "string", "enum": [*GUARDS]},
    examples=[*GUARDS],  # for a drop-down
    values_display={name: f"{name}: {finding}" for name, finding in GUARDS.items()},
    title="Override guards",
    description="Send changes despite these guards, in this run only. The plan shows them to the approver.",
)
FILES = {
    "config_path": str(Path(__file__).with_name("websites.yaml")),
    "state_path": FOLDER,
    "pool": POOL,
    "list_name": "websites",
    "override_guards": "{{ (params.override_guards or []) | join(',') }}",
}
SETTINGS = {
    "schedule": None,
    "start_date": pendulum.datetime(2026, 1, 1, tz="UTC"),
    "max_active_runs": 1,
    "tags": ["analytics", "example"],
    "doc_md": __doc__,
}


@dag(
    **SETTINGS,
    description="Plan the changes that make the websites match a file; send no changes",
    params={"override_guards": OVERRIDE_GUARDS},
)
def plan_websites():
    PlanWebsitesOperator(task_id="plan", **FILES)


@dag(
    **SETTINGS,
    description="Apply the approved plan of plan_websites",
    params={
        "override_guards": OVERRIDE_GUARDS,
        "approved_digest": Param(
            type="string",
            pattern="^[0-9a-f]{64}$",
            title="Digest of the approved plan",
            description="Digest of the plan, 64 characters, from the log of plan_websites",
        ),
    },
)
def apply_websites():
    ApplyWebsitesOperator(
        task_id="apply",
        approved_digest="{{ params.approved_digest }}",
        retries=2,
        **FILES,
    )


plan_websites()
apply_websites()
