"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag, task
from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.smtp.operators.smtp import EmailOperator

STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"


@dag(
    schedule="0 6 * * 1",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    params={"state_path": Param(STATE.as_uri(), type="string", description="state_path of sync_excluded_ips.py")},
    tags=["analytics"],
    doc_md=__doc__,
)
def remind_of_expiring_entries():
    plan = HttpOperator(
        task_id="plan", method="GET", endpoint="api/v1/websites", data={"state": "{{ params.state_path }}"}
    )

    @task.short_circuit
    def remind(result):
        return [result]

    mail = EmailOperator(
        task_id="mail",
        conn_id="smtp_default",
        to="{{ var.value.website_analytics_notify }}",
        subject="{{ ti.xcom_pull('remind')[0] }}",
        html_content="<pre>{{ ti.xcom_pull('remind')[1:] | join('\\n') | e }}</pre>",
    )
    remind(plan.output) >> mail


remind_of_expiring_entries()
