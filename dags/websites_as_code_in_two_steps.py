"""Make the websites match ``websites.yaml`` in two steps, on every Airflow from 2.11 on.

1. Trigger ``plan_websites``. It sends nothing; the log of its task shows the plan and its digest.
2. Read the plan. To approve it, trigger ``apply_websites`` with that digest.

The approved plan is applied whole or not at all: if the file or the websites change in between, or the plan is made
again with another result, ``apply_websites`` fails and sends nothing. A plan that a guard refuses cannot be applied; if
it is intended, trigger ``plan_websites`` with ``force``.

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

STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"
#: Whoever triggers a run chooses one of these folders, or one in it, and no other place.
ROOTS = os.environ.get("WEBSITE_ANALYTICS_ROOTS", STATE.as_uri()).split()
BELOW_A_ROOT = rf"^({'|'.join(ROOTS).replace('.', '[.]')})(/[\w-][\w.-]*)*/?$(?!\n)"
STATE_PATH = Param(
    ROOTS[0],
    type="string",
    pattern=BELOW_A_ROOT,
    description="Folder for the plan and the audit trail: shared by all workers, such as s3://bucket/path",
)
FILES = {
    "config_path": str(Path(__file__).with_name("websites.yaml")),
    "plan_path": "{{ params.state_path }}/plans/to_approve.json",
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
    description="Plan the changes that make the websites match a file; send nothing",
    params={
        "state_path": STATE_PATH,
        "force": Param(False, type="boolean", description="Plan even if a safety check fails; the approver decides"),
    },
)
def plan_websites():
    # Each plan replaces the one before: it is approved by its digest.
    PlanWebsitesOperator(task_id="plan", force="{{ params.force }}", overwrite_plan=True, **FILES)


@dag(
    **SETTINGS,
    description="Apply the approved plan of plan_websites",
    params={
        "state_path": STATE_PATH,
        "approved_digest": Param(
            type="string", pattern="^[0-9a-f]{64}$", description="Digest of the plan, from the log of plan_websites"
        ),
    },
)
def apply_websites():
    ApplyWebsitesOperator(
        task_id="apply",
        expected_digest="{{ params.approved_digest }}",
        audit_path="{{ params.state_path }}/audit",
        retries=2,
        **FILES,
    )


plan_websites()
apply_websites()
