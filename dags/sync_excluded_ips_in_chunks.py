"""Sync the excluded IP addresses of many websites in several tasks at the same time, each with a part of the websites.

Like ``sync_excluded_ips``, for thousands of websites. One task reads the list and divides the websites into chunks. A
mapped task per chunk syncs them. All of them share one list in the state folder. If a worker is lost, only its chunks
are repeated.

A scheduled run that starts more than an hour late only plans. So the run that Airflow starts at once when you unpause
the DAG plans, unless you unpause it between 00:00 and 01:00 UTC. The next scheduled run changes websites.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag, task

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator

#: Guards that a run can override, and their findings.
GUARDS = {
    "fewer_websites": "many websites are missing",
    "empty_list": "the list is empty",
    "entries_lost": "many entries were removed from the list",
}
#: Folder of lists, plans, and audit trails: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)
CHUNKS = 8

#: When a DAG is unpaused, Airflow starts the scheduled run of the day at once, also if "Trigger" unpaused it. A
#: scheduled run that starts over an hour late only plans, so you can read a plan before anything changes.
DRY_RUN = (
    "{{ params.dry_run or (dag_run.run_type == 'scheduled'"
    " and (dag_run.start_date - data_interval_end).total_seconds() > 3600) }}"
)


@dag(
    description="Every day, sync the excluded IP addresses of many websites in parallel tasks",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 2,
        "retry_delay": pendulum.duration(minutes=5),
        "execution_timeout": pendulum.duration(hours=2),
    },
    params={
        "dry_run": Param(False, type="boolean", title="Dry run", description="Plan the changes without sending them"),
        "override_guards": Param(
            [],
            type=["array", "null"],  # without null, the form of Airflow 2 asks for a value
            items={"type": "string", "enum": [*GUARDS]},
            examples=[*GUARDS],  # for a drop-down
            values_display={name: f"{name}: {finding}" for name, finding in GUARDS.items()},
            title="Override guards",
            description="Send changes despite these guards, in this run only",
        ),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def sync_excluded_ips_in_chunks():
    @task
    def chunks():
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook
        from airflow_provider_analytics.operators.exclusions import chunk_websites

        with AnalyticsHook("analytics_default") as hook:
            return chunk_websites(hook.list_websites(), CHUNKS)

    SyncExcludedIpsOperator.partial(
        task_id="sync",
        exclude_ips="{{ var.value.get('exclude_ips', '') }}",
        state_path=FOLDER,
        dry_run=DRY_RUN,
        # A chunk can be empty, and a website can be deleted during the run.
        override_guards="{{ (['no_match'] + (params.override_guards or [])) | join(',') }}",
        # The name in the grid, instead of a number.
        map_index_template="{{ 'ids ' ~ task.websites[:3] | join(', ') if task.websites else 'no websites' }}"
        "{{ ', ...' if task.websites | length > 3 }}",
        max_active_tis_per_dag=4,  # number of tasks that call the service at the same time
    ).expand(websites=chunks())


sync_excluded_ips_in_chunks()
