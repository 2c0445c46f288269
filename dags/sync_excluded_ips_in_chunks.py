"""Sync the excluded IP addresses of many websites in several tasks at the same time, each with a part of the websites.

Like ``sync_excluded_ips``, for thousands of websites. One task reads the list and divides the websites into chunks. A
mapped task per chunk syncs them, with its own ledger. A website is in the same chunk in every run. Choose the number of
chunks once: with another number, websites change their ledgers. If a worker is lost, only its chunks are repeated.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag, task

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator

STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"
#: Whoever triggers a run chooses one of these folders, or one in it, and no other place.
ROOTS = os.environ.get("WEBSITE_ANALYTICS_ROOTS", STATE.as_uri()).split()
BELOW_A_ROOT = rf"^({'|'.join(ROOTS).replace('.', '[.]')})(/[\w-][\w.-]*)*/?$(?!\n)"
CHUNKS = 8


@dag(
    description="Every day, sync the excluded IP addresses of many websites in parallel tasks",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,  # concurrent runs must not write the ledgers
    default_args={"retries": 2, "retry_delay": pendulum.duration(minutes=5)},
    params={
        "state_path": Param(
            ROOTS[0],
            type="string",
            pattern=BELOW_A_ROOT,
            description="Folder for ledgers and audit trails: shared by all workers and durable, such as "
            "s3://bucket/path",
        ),
        "dry_run": Param(False, type="boolean", description="Only plan, send nothing"),
        "force": Param(False, type="boolean", description="Apply the plans even if they exceed the removal limit"),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def sync_excluded_ips_in_chunks():
    @task
    def chunks():
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook
        from airflow_provider_analytics.reconcile.chunks import chunk_websites

        with AnalyticsHook("analytics_default") as hook:
            return chunk_websites(hook.list_websites(), CHUNKS)

    SyncExcludedIpsOperator.partial(
        task_id="sync",
        exclude_ips="{{ var.value.exclude_ips }}",
        mode="managed",
        ledger_path="{{ params.state_path }}/excluded_ips_ledgers/{{ ti.map_index }}.json",
        audit_path="{{ params.state_path }}/audit",
        allow_no_match=True,  # a chunk may be empty, and a website may be deleted during the run
        dry_run="{{ params.dry_run }}",
        force="{{ params.force }}",
        # What the grid shows in place of a number.
        map_index_template="{{ 'ids ' ~ task.websites[:3] | join(', ') if task.websites else 'no websites' }}"
        "{{ ', ...' if task.websites | length > 3 }}",
        max_active_tis_per_dag=4,  # how many tasks ask the service at the same time
    ).expand(websites=chunks())


sync_excluded_ips_in_chunks()
