"""Sync the excluded IP addresses of all websites with one list.

The list is the Airflow Variable ``exclude_ips``: one address per line. A comment can have its owner and its expiration
date: ``203.0.113.7  # office Berlin, owner=it@example.com, until=2027-01-31``. To leave websites out, add the argument
``except_websites``.

When you remove an address from the list, the next run removes it from all websites, even if someone added it there by
hand. Lines with a comment on a website, and addresses of other lists in the same folder, are kept. If you remove many
addresses at once, the task fails and lists them. If you intend to, trigger the DAG once with ``entries_lost`` in
``override_guards``.

When you unpause the DAG, Airflow starts the scheduled run of the day at once. A scheduled run that starts more than an
hour late only plans. So the first run plans, unless you unpause the DAG between 00:00 and 01:00 UTC: read its plan in
the log. The next scheduled run, and each run that you trigger, changes websites.

Copy this file to your DAG folder. Requires a connection ``analytics_default`` of type Website Analytics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import Param, dag

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
#: Pool of the tasks that change websites. If it has one slot, they run one after the other, and each unexpected change
#: in a result was made by someone else: airflow pools set analytics_writers 1 "tasks that change websites"
POOL = os.environ.get("ANALYTICS_POOL", "default_pool")

#: When a DAG is unpaused, Airflow starts the scheduled run of the day at once, also if "Trigger" unpaused it. A
#: scheduled run that starts over an hour late only plans, so you can read a plan before anything changes.
DRY_RUN = (
    "{{ params.dry_run or (dag_run.run_type == 'scheduled'"
    " and (dag_run.start_date - data_interval_end).total_seconds() > 3600) }}"
)


@dag(
    description="Every day, sync the excluded IP addresses of all websites with one list",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={
        "pool": POOL,
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
def sync_excluded_ips():
    SyncExcludedIpsOperator(
        task_id="sync",
        exclude_ips="{{ var.value.get('exclude_ips', '') }}",
        state_path=FOLDER,
        dry_run=DRY_RUN,
        override_guards="{{ (params.override_guards or []) | join(',') }}",
    )


sync_excluded_ips()
