"""Make the websites match ``websites.yaml``, after the plan was approved.

The plan waits for approval under Required Actions in Airflow's UI. Only the approved plan is applied: if the file or
the websites change in between, the last task fails, and a new run has to plan again.

Copy this file and ``websites.yaml`` to your DAG folder. Requires Airflow 3.1 or newer for approvals (on older versions
this file defines no DAG), a connection ``analytics_default`` of type Website Analytics, and a path for plans in the
Variable ``website_analytics_state``: any URL that ObjectStoragePath supports.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException, dag, task

from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator

try:
    from airflow.providers.standard.operators.hitl import ApprovalOperator
except (ImportError, AirflowOptionalProviderFeatureException):  # before Airflow 3.1, or without the standard provider
    ApprovalOperator = None

STATE = "{{ var.value.get('website_analytics_state', 'file:///tmp/website_analytics') }}"


@dag(
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    max_active_runs=1,
    tags=["analytics"],
    doc_md=__doc__,
)
def websites_as_code():
    files = {
        "config_path": str(Path(__file__).with_name("websites.yaml")),
        "plan_path": f"{STATE}/plans/{{{{ run_id }}}}.json",
    }
    plan = PlanWebsitesOperator(task_id="plan", **files)

    @task.short_circuit
    def anything_to_do(planned: dict) -> bool:
        return bool(planned["changes"])

    approve = ApprovalOperator(
        task_id="approve",
        subject="Change the websites?",
        body="{{ ti.xcom_pull(task_ids='plan')['markdown'] }}",
        response_timeout=timedelta(days=1),  # Airflow 3.3 does not accept a pendulum.duration here
    )
    apply = ApplyWebsitesOperator(
        task_id="apply",
        expected_digest="{{ ti.xcom_pull(task_ids='plan')['digest'] }}",
        audit_path=f"{STATE}/audit",
        retries=2,
        **files,
    )
    anything_to_do(plan.output) >> approve >> apply


if ApprovalOperator is not None:
    websites_as_code()
