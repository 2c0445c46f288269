# SPDX-License-Identifier: Apache-2.0
"""Send an e-mail if the snapshot of the night is not there by 06:00. Needs Airflow 3.1 and a triggerer."""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.providers.common.compat.sdk import dag
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator


@dag(
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Berlin"),
    catchup=False,
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_LOGICAL_DATE,
        interval=timedelta(hours=6),
        callback=AsyncCallback(
            SmtpNotifier,
            kwargs={
                "to": "team@example.com",
                "subject": "No snapshot by 06:00: {{ dag_run.dag_id }}",
                "html_content": "The run {{ dag_run.dag_run_id }} is {{ dag_run.state }}.",
            },
        ),
    ),
)
def snapshot_by_six():
    SnapshotWebsitesOperator(task_id="snapshot", base_path="s3://my-bucket/analytics", retries=2)


snapshot_by_six()
