# SPDX-License-Identifier: Apache-2.0
"""Apply a websites file to staging, and to production if staging then matches the file."""

from __future__ import annotations

import pendulum
from airflow.providers.common.compat.sdk import dag

from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    PlanWebsitesOperator,
)

FILE = "/opt/airflow/dags/websites.yaml"
STATE = "s3://analytics-state"


@dag(schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), max_active_runs=1)
def promote_websites():
    staging = ApplyWebsitesOperator(task_id="staging", analytics_conn_id="analytics_staging", config_path=FILE)
    check = CheckDriftOperator(task_id="check", analytics_conn_id="analytics_staging", config_path=FILE)
    plan = PlanWebsitesOperator(
        task_id="plan", analytics_conn_id="analytics_production", config_path=FILE, state_path=STATE
    )
    production = ApplyWebsitesOperator(
        task_id="production",
        analytics_conn_id="analytics_production",
        config_path=FILE,
        state_path=STATE,
        approved_digest=f"{{{{ ti.xcom_pull('{plan.task_id}', map_indexes=ti.map_index)['digest'] }}}}",
        retries=2,
    )
    staging >> check >> plan >> production


promote_websites()
