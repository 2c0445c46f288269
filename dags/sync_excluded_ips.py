"""Sync the excluded IP addresses of all websites with one list.

The list is the Airflow Variable ``exclude_ips``: one address per line, ``#`` starts a comment. Addresses that this DAG
added are removed when they are no longer in the list. Addresses added manually stay. If the lists would lose too many
entries, the task fails and lists them. If that is intended, trigger the DAG once with ``force``.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator

STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"
#: Whoever triggers a run chooses one of these folders, or one in it, and no other place.
ROOTS = os.environ.get("WEBSITE_ANALYTICS_ROOTS", STATE.as_uri()).split()
BELOW_A_ROOT = rf"^({'|'.join(ROOTS).replace('.', '[.]')})(/[\w-][\w.-]*)*/?$(?!\n)"


@dag(
    description="Every day, sync the excluded IP addresses of all websites with one list",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,  # concurrent runs must not write the ledger
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    params={
        "state_path": Param(
            ROOTS[0],
            type="string",
            pattern=BELOW_A_ROOT,
            description="Folder for ledger and audit trail: shared by all workers and durable, such as "
            "s3://bucket/path",
        ),
        "dry_run": Param(False, type="boolean", description="Only plan, send nothing"),
        "force": Param(False, type="boolean", description="Apply the plan even if it exceeds the removal limit"),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def sync_excluded_ips():
    SyncExcludedIpsOperator(
        task_id="sync",
        exclude_ips="{{ var.value.exclude_ips }}",
        mode="managed",
        ledger_path="{{ params.state_path }}/excluded_ips_ledger.json",
        audit_path="{{ params.state_path }}/audit",
        dry_run="{{ params.dry_run }}",
        force="{{ params.force }}",
    )


sync_excluded_ips()
