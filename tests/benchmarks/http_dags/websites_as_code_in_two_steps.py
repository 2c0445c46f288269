"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag
from airflow.providers.http.operators.http import HttpOperator

STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"
STATE_PATH = Param(
    STATE.as_uri(),
    type="string",
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
    "tags": ["analytics"],
    "doc_md": __doc__,
}


@dag(
    **SETTINGS,
    params={
        "state_path": STATE_PATH,
        "force": Param(False, type="boolean", description="Plan even if a safety check fails; the approver decides"),
    },
)
def plan_websites():
    # Each plan replaces the one before: it is approved by its digest.
    HttpOperator(
        task_id="plan", method="GET", endpoint="api/v1/websites", data={"force": "{{ params.force }}", **FILES}
    )


@dag(
    **SETTINGS,
    params={
        "state_path": STATE_PATH,
        "approved_digest": Param(
            type="string", pattern="^[0-9a-f]{64}$", description="Digest of the plan, from the log of plan_websites"
        ),
    },
)
def apply_websites():
    HttpOperator(
        task_id="apply",
        method="PUT",
        endpoint="api/v1/websites/1",
        data={
            "expected_digest": "{{ params.approved_digest }}",
            "audit_path": "{{ params.state_path }}/audit",
            **FILES,
        },
        retries=2,
    )


plan_websites()
apply_websites()
