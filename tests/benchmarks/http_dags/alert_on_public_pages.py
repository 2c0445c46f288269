"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Asset, Param, dag
from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.smtp.notifications.smtp import SmtpNotifier

DATA = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"


@dag(
    schedule=[Asset(uri="website-snapshots://websites", name="website_snapshots")],
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=1)},
    params={"base_path": Param(DATA.as_uri(), type="string", description="Base path of the snapshots")},
    tags=["analytics"],
    doc_md=__doc__,
)
def alert_on_public_pages():
    HttpOperator(
        task_id="check",
        method="GET",
        endpoint="api/v1/websites",
        data={"base_path": "{{ params.base_path }}"},
        on_failure_callback=SmtpNotifier(
            to="{{ var.value.website_analytics_notify }}",
            subject="{{ (exception | string).splitlines()[0] | truncate(150) }}",
            html_content="<pre>{{ exception | string | e }}</pre>"
            '<p>The details are in <a href="{{ ti.log_url }}">the log</a>.</p>',
        ),
    )


alert_on_public_pages()
