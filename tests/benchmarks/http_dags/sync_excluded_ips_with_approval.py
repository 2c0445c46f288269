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
)
from airflow.providers.http.operators.http import HttpOperator

try:
    from airflow.providers.standard.operators.hitl import ApprovalOperator
except (ImportError, AirflowOptionalProviderFeatureException):  # before Airflow 3.1, or without the standard provider
    ApprovalOperator = None

STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"


@dag(
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    max_active_runs=1,  # concurrent runs must not write the ledger
    params={
        "state_path": Param(
            STATE.as_uri(),
            type="string",
            description="Folder for ledger, plans and audit trail: shared by all workers and durable, "
            "such as s3://bucket/path",
        ),
        "dry_run": Param(False, type="boolean", description="Only plan, send nothing"),
        "force": Param(False, type="boolean", description="Plan even if a safety check fails; the approver decides"),
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def sync_excluded_ips_with_approval():
    arguments = {
        "exclude_ips": "{{ var.value.exclude_ips }}",
        "list_name": "office",
        "ledger_path": "{{ params.state_path }}/office_ledger.json",
        "plan_path": "{{ params.state_path }}/plans/{{ run_id }}.json",
    }
    plan = HttpOperator(
        task_id="plan", method="GET", endpoint="api/v1/websites", data={"force": "{{ params.force }}", **arguments}
    )

    @task.short_circuit
    def anything_to_approve(planned: dict, params: dict | None = None) -> bool:
        if planned["unsafe"] and not planned["force"]:
            raise AirflowFailException(f"{planned['unsafe']} If this is intended, trigger the DAG with force.")
        return bool(planned["changes"]) and not params["dry_run"]

    approve = ApprovalOperator(
        task_id="approve",
        subject="Change the excluded IP addresses?",
        body="{{ ti.xcom_pull(task_ids='plan')['markdown'] }}",
        response_timeout=timedelta(days=1),  # Airflow 3.3 does not accept a pendulum.duration here
    )
    apply = HttpOperator(
        task_id="apply",
        method="PUT",
        endpoint="api/v1/websites/1",
        data={
            "expected_digest": "{{ ti.xcom_pull(task_ids='plan')['digest'] }}",
            "audit_path": "{{ params.state_path }}/audit",
            **arguments,
        },
        retries=2,
    )
    anything_to_approve(plan.output) >> approve >> apply


if ApprovalOperator is not None:
    sync_excluded_ips_with_approval()
