"""Make the websites what ``websites.yaml`` says, after somebody has looked at the plan.

The plan is shown for approval (Required Actions in Airflow's UI). Only the plan that was approved is applied: if
the file or the websites change in between, the last task fails and the plan has to be made anew.

Copy this file and ``websites.yaml`` into your DAG folder. Needed: Airflow 3.1 or newer, which is the first with
approvals (on older versions this file defines no DAG), a connection ``analytics_default`` of type Website
Analytics, and a place for plans: the Variable ``website_analytics_state``, any URL that ObjectStoragePath takes.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException, dag, task

from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator

try:
    from airflow.providers.standard.operators.hitl import ApprovalOperator
except AirflowOptionalProviderFeatureException:  # before Airflow 3.1
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
        response_timeout=timedelta(days=1),  # Airflow 3.3 cannot hand a pendulum.duration over here
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
