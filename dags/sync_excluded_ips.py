"""Keep the excluded IP addresses of all websites in step with one list.

The list is the Airflow Variable ``excluded_ips``: an address per line, ``#`` begins a comment. What this DAG has
added and the list no longer holds is removed again; what people typed by hand on a website stays.

Copy this file into your DAG folder. Needed: a connection ``analytics_default`` of type Website Analytics, and a
place for the ledger that remembers what was added, any URL that Airflow's ObjectStoragePath takes.
"""

from __future__ import annotations

import pendulum
from airflow.providers.common.compat.sdk import Param, dag

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator


@dag(
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,  # two runs must not write the ledger at the same time
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    params={
        "state_path": Param("file:///tmp/website_analytics", type="string", description="Where ledger and audit go"),
        "dry_run": Param(False, type="boolean", description="Only say what would be changed"),
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def sync_excluded_ips():
    SyncExcludedIpsOperator(
        task_id="sync",
        excluded_ips="{{ var.value.get('excluded_ips', '') }}",
        mode="managed",
        ledger_path="{{ params.state_path }}/excluded_ips_ledger.json",
        audit_path="{{ params.state_path }}/audit",
        dry_run="{{ params.dry_run }}",
    )


sync_excluded_ips()
