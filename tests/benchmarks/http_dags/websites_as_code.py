"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowOptionalProviderFeatureException,
    Param,
    dag,
    task,
    task_group,
)
from airflow.providers.http.operators.http import HttpOperator

try:
    from airflow.providers.standard.operators.hitl import ApprovalOperator
except (ImportError, AirflowOptionalProviderFeatureException):  # before Airflow 3.1, or without the standard provider
    ApprovalOperator = None

#: Folder for lists, plans and audit trails: shared by all workers and durable, such as s3://bucket/path.
STATE_PATH = os.environ.get("AIRFLOW_HOME", str(Path("~/airflow").expanduser())) + "/website_analytics"


@dag(
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    max_active_runs=1,
    params={
        "accept": Param(
            [],
            type="array",
            items={"type": "string", "enum": ["delete", "empty", "loss", "public"]},
            description="Safety checks to override in this run; the approver decides",
        ),
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def websites_as_code():
    arguments = {
        "config_path": str(Path(__file__).with_name("websites.yaml")),
        "state_path": STATE_PATH,
        "accept": "{{ params.accept | join(',') }}",
    }

    @task.short_circuit
    def check(planned: dict) -> bool:
        if planned["unsafe"]:
            raise AirflowFailException(f"{planned['unsafe']} If this is intended, trigger the DAG with accept.")
        return bool(planned["changes"])

    @task_group
    def websites():
        plan = HttpOperator(task_id="plan", method="GET", endpoint="api/v1/websites", data=arguments)
        approve = ApprovalOperator(
            task_id="approve",
            subject="Change the websites?",
            body="{{ ti.xcom_pull(task_ids='websites.plan')['markdown'] }}",
            response_timeout=timedelta(days=1),  # Airflow 3.3 does not accept a pendulum.duration here
        )
        digest = "{{ ti.xcom_pull(task_ids='websites.plan')['digest'] }}"
        apply = HttpOperator(
            task_id="apply",
            method="PUT",
            endpoint="api/v1/websites/1",
            data={"expected_digest": digest, **arguments},
            retries=2,
        )
        check(plan.output) >> approve >> apply

    websites()


if ApprovalOperator is not None:
    websites_as_code()
