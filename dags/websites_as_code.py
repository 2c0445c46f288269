"""Make the websites match ``websites.yaml``, after the plan was approved.

The plan waits for approval under Required Actions in Airflow's UI. The approved plan is applied whole or not at all: if
the file or the websites change in between, so that something else would be changed, the last task fails. Then, and to
plan again for any other reason, start a new run: a cleared run would show the old plan. A plan that a guard refuses is
not put up for approval; if it is intended, trigger the DAG with ``force``.

Copy this file and ``websites.yaml`` to your DAG folder. Requires Airflow 3.1 or newer for approvals (on older versions
this file defines no DAG: use ``websites_as_code_in_two_steps.py``) and a connection ``analytics_default`` of type
Website Analytics.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowOptionalProviderFeatureException,
    AirflowSkipException,
    Param,
    dag,
    task,
)

from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator

try:
    from airflow.providers.standard.operators.hitl import ApprovalOperator
except (ImportError, AirflowOptionalProviderFeatureException):  # before Airflow 3.1, or without the standard provider
    ApprovalOperator = None
else:

    class Approval(ApprovalOperator):
        """An approval that ends as skipped, with the reason, if the plan is rejected."""

        def execute_complete(self, context, event):
            if event.get("chosen_options") == [self.REJECT]:
                user = (event.get("responded_by_user") or {}).get("name") or "an unknown user"
                raise AirflowSkipException(f"Rejected by {user}. Nothing was changed.")
            return super().execute_complete(context, event)


STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"
#: Whoever triggers a run chooses one of these folders, or one in it, and no other place.
ROOTS = os.environ.get("WEBSITE_ANALYTICS_ROOTS", STATE.as_uri()).split()
BELOW_A_ROOT = rf"^({'|'.join(ROOTS).replace('.', '[.]')})(/[\w-][\w.-]*)*/?$(?!\n)"


def show_digest(context):
    """Show the digest of the plan in the form: the answer then says which plan was approved."""
    digest = context["ti"].xcom_pull(task_ids="plan")["digest"]
    context["task"].params["digest"] = Param(digest, type="string", description="Plan to approve")


@dag(
    description="Make the websites match a file after a person approved the plan",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    max_active_runs=1,
    params={
        "state_path": Param(
            ROOTS[0],
            type="string",
            pattern=BELOW_A_ROOT,
            description="Folder for plans and audit trail: shared by all workers, such as s3://bucket/path",
        ),
        "dry_run": Param(False, type="boolean", description="Only plan, send nothing"),
        "force": Param(False, type="boolean", description="Plan even if a safety check fails; the approver decides"),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def websites_as_code():
    files = {
        "config_path": str(Path(__file__).with_name("websites.yaml")),
        "plan_path": "{{ params.state_path }}/plans/{{ run_id }}.json",
    }
    plan = PlanWebsitesOperator(task_id="plan", force="{{ params.force }}", **files)

    @task.short_circuit
    def anything_to_approve(planned: dict, params: dict | None = None) -> bool:
        if planned["unsafe"] and not planned["force"]:
            raise AirflowFailException(f"{planned['unsafe']} If this is intended, trigger the DAG with force.")
        return bool(planned["changes"]) and not params["dry_run"]

    approve = Approval(
        task_id="approve",
        subject="Change the websites?",
        body="{{ ti.xcom_pull(task_ids='plan')['markdown'] }}",
        pre_execute=show_digest,
        response_timeout=timedelta(days=1),  # Airflow 3.3 does not accept a pendulum.duration here
    )
    apply = ApplyWebsitesOperator(
        task_id="apply",
        expected_digest=approve.output,  # None if the task was only marked as success: then nothing is applied
        refuse_own_approval=False,  # True: the person who started a run cannot approve it (Airflow 3.2 or newer)
        audit_path="{{ params.state_path }}/audit",
        retries=2,
        **files,
    )
    anything_to_approve(plan.output) >> approve >> apply


if ApprovalOperator is not None:
    websites_as_code()
