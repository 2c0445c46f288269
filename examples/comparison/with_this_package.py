# SPDX-License-Identifier: Apache-2.0
"""Create a website, exclude an address everywhere, and publish the list, with this package."""

from __future__ import annotations

import pendulum
from airflow.providers.common.compat.sdk import dag

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator


@dag(schedule="@daily", start_date=pendulum.datetime(2026, 1, 1), catchup=False, default_args={"retries": 1})
def websites():
    create = CreateWebsiteOperator(task_id="create", domain="shop.example.com", privacy="private")
    office = SyncExcludedIpsOperator(task_id="office", exclude_ips=["192.0.2.7"], state_path="/data/analytics-state")
    snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path="/data/analytics")
    create >> office >> snapshot


websites()
