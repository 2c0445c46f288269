# SPDX-License-Identifier: Apache-2.0
"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import dag
from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.smtp.notifications.smtp import SmtpNotifier


@dag(
    schedule="@hourly",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    tags=["analytics"],
    doc_md=__doc__,
)
def notify_on_drift():
    HttpOperator(
        task_id="check",
        method="GET",
        endpoint="api/v1/websites",
        data={"config_path": str(Path(__file__).with_name("websites.yaml"))},
        on_failure_callback=SmtpNotifier(
            to="{{ var.value.analytics_notify }}",
            subject="{{ (exception | string).splitlines()[0] | truncate(150) }}",
            html_content="<pre>{{ exception | string | e }}</pre>"
            '<p>The details are in <a href="{{ ti.log_url }}">the log</a>.</p>',
        ),
    )


notify_on_drift()
