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
    description="Folder for lists, plans and audit trails: shared by all workers and durable, such as s3://bucket/path",
)
ACCEPT = Param(
    [],
    type="array",
    items={"type": "string", "enum": ["delete", "empty", "loss", "public"]},
    description="Safety checks to override in this run; the approver decides",
)
FILES = {
    "config_path": str(Path(__file__).with_name("websites.yaml")),
    "state_path": "{{ params.state_path }}",
    "accept": "{{ params.accept | join(',') }}",
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
    params={"state_path": STATE_PATH, "accept": ACCEPT},
)
def plan_websites():
    HttpOperator(task_id="plan", method="GET", endpoint="api/v1/websites", data=FILES)


@dag(
    **SETTINGS,
    params={
        "state_path": STATE_PATH,
        "accept": ACCEPT,
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
        data={"expected_digest": "{{ params.approved_digest }}", **FILES},
        retries=2,
    )


plan_websites()
apply_websites()
