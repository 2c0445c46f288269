"""Every night, take a snapshot of many instances and sync their excluded IP addresses, for an agency with an instance
per client.

The instances are the Airflow Variable ``analytics_instances``: the ids of their connections as a JSON array, such as
``["client_a", "client_b"]``. Each instance has its own folder, named after its connection, so you can reorder the
array. The addresses are the Variable ``exclude_ips``: one per line, ``#`` starts a comment. An instance is synced after
its snapshot. If the snapshot fails, the instance is not changed.

An instance that fails does not stop the others. **Read the task ``summary`` first**: it fails if an instance failed,
and its log lists the failed instances with their reasons. To repeat some, trigger the DAG with their ids in ``only``.
To override their guards, set ``override_guards`` too.

A DAG that waits for the asset of the snapshots, ``snapshot_asset("many_instances")``, can start once per instance. For
a single run, wait for ``snapshot_asset("many_instances", snapshot_name="summary")``: the task ``summary`` updates it
once, if no instance failed; ``paths`` in the event are all snapshots.

The sync of a scheduled run that starts more than an hour late only plans. So the run that Airflow starts at once when
you unpause the DAG plans, unless you unpause it between 00:00 and 01:00 UTC. The next scheduled run changes websites.

Copy this file to your DAG folder. Requires the connections, of type Website Analytics, both Variables, and a pool with
as many slots as instances that run at the same time: ``airflow pools set analytics 4 "instances"``.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import AirflowFailException, Param, dag, task, task_group

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator, snapshot_asset

#: Guards that a run can override, and their findings.
GUARDS = {
    "fewer_websites": "many websites are missing",
    "missing_fields": "a field lost many values",
    "other_source": "the list is of another service, account, or filter",
    "empty_list": "the list is empty",
    "entries_lost": "many entries were removed from the list",
}
#: Folder of all files, with one per instance: shared by all workers and durable, such as s3://bucket/path.
FOLDER = os.environ.get("ANALYTICS_FOLDER") or str(
    Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "analytics"
)
#: Allowed characters of a connection id, so that no instance can reach the folder of another one.
CONNECTION_ID = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"

#: Updated once per run, so that one run of another DAG follows.
DONE = snapshot_asset("many_instances", snapshot_name="summary")

log = logging.getLogger("many_instances")  # Airflow's own name for this file is hard to read


def keep_reason(context):
    """Pass the reason of a failure to the summary. Only this callback receives it."""
    # If many websites failed, the first line has the number and the reason, and the second the websites.
    first_lines = " ".join(str(context["exception"]).splitlines()[:2])
    task_id = context["ti"].task_id.rpartition(".")[2]
    context["ti"].xcom_push(key="reason", value=f"the task {task_id} failed. {first_lines}")


def connection_ids(listed):
    """Return the ids of the connections in the text of the Variable."""
    try:
        conn_ids = json.loads(listed)
    except json.JSONDecodeError:
        conn_ids = None
    if not isinstance(conn_ids, list) or not conn_ids or not all(isinstance(conn_id, str) for conn_id in conn_ids):
        raise AirflowFailException(
            f"The Variable analytics_instances is {listed!r}. Set it to a JSON array of connection ids, "
            'such as ["client_a", "client_b"].'
        )
    unusable = [conn_id for conn_id in conn_ids if not re.fullmatch(CONNECTION_ID, conn_id)]
    counts = Counter(conn_id.lower() for conn_id in conn_ids)
    repeated = [conn_id for conn_id, count in counts.items() if count > 1]
    if unusable or repeated:
        raise AirflowFailException(
            f"The Variable analytics_instances contains ids that cannot be used: {unusable + repeated}. Each id is the "
            "name of a folder, so use each once, ignoring case, with letters, digits, _, -, and . only."
        )
    return conn_ids


#: When a DAG is unpaused, Airflow starts the scheduled run of the day at once, also if "Trigger" unpaused it. A
#: scheduled run that starts over an hour late only plans, so you can read a plan before anything changes.
DRY_RUN = (
    "{{ params.dry_run or (dag_run.run_type == 'scheduled'"
    " and (dag_run.start_date - data_interval_end).total_seconds() > 3600) }}"
)


@dag(
    description="Every night, take a snapshot of many instances and sync their excluded IP addresses",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 2,
        "retry_delay": pendulum.duration(minutes=5),
        "execution_timeout": pendulum.duration(hours=1),  # an instance that never ends a list must not stop the others
        "on_failure_callback": keep_reason,
    },
    params={
        "only": Param(
            [],
            type=["array", "null"],  # without null, the form of Airflow 2 asks for a value
            items={"type": "string", "pattern": CONNECTION_ID},
            title="Connections",
            description="Ids of the connections to run. "
            "Leave empty to run all ids in the Variable analytics_instances.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Plan the sync without sending changes. Snapshots are still published.",
        ),
        "override_guards": Param(
            [],
            type=["array", "null"],
            items={"type": "string", "enum": [*GUARDS]},
            examples=[*GUARDS],  # for a drop-down
            values_display={name: f"{name}: {finding}" for name, finding in GUARDS.items()},
            title="Override guards",
            description="Publish snapshots and send changes despite these guards, in this run only",
        ),
    },
    tags=["analytics", "example"],
    doc_md=__doc__,
)
def many_instances():
    @task
    def instances(listed, params=None):
        """Return the connection and the folders of each instance to run."""
        conn_ids = connection_ids(listed)
        only = set(params["only"] or conn_ids)
        unknown = sorted(only - set(conn_ids))
        if unknown:
            raise AirflowFailException(
                f"The Param 'only' contains {', '.join(unknown)}, which the Variable analytics_instances does not "
                "contain. Add it to the Variable, or correct the Param."
            )
        if params["override_guards"] and not params["only"]:
            raise AirflowFailException(
                "Guards would be overridden for all instances. Select the reviewed instances in the Param 'only'."
            )
        folders = {conn_id: f"{FOLDER.rstrip('/')}/{conn_id}" for conn_id in conn_ids if conn_id in only}
        return [
            {"conn_id": conn_id, "base_path": f"{folder}/snapshots", "state_path": folder}
            for conn_id, folder in folders.items()
        ]

    # A group that is mapped keeps the instances apart. Two mapped tasks would not: if one instance failed in the first,
    # the second would be run for none.
    @task_group
    def instance(conn_id, base_path, state_path):
        common = {
            "analytics_conn_id": conn_id,
            "pool": "analytics",
            "map_index_template": "{{ task.analytics_conn_id }}",  # the name in the grid, instead of a number
        }
        snapshot = SnapshotWebsitesOperator(
            task_id="snapshot",
            base_path=base_path,
            asset=snapshot_asset("many_instances"),  # one for all: the event has the path
            # The next night compares with the published snapshot.
            override_guards="{{ '' if params.dry_run else (params.override_guards or []) | join(',') }}",
            **common,
        )
        sync = SyncExcludedIpsOperator(
            task_id="sync",
            exclude_ips="{{ var.value.get('exclude_ips', '') }}",
            state_path=state_path,
            list_name="exclude_ips",
            dry_run=DRY_RUN,
            override_guards="{{ (params.override_guards or []) | join(',') }}",
            **common,
        )
        snapshot >> sync

    @task(trigger_rule="all_done", on_failure_callback=None, outlets=[DONE])
    def summary(rows, ti=None, outlet_events=None):
        if rows is None:
            reason = ti.xcom_pull(task_ids=listed.operator.task_id, key="reason")
            raise AirflowFailException(f"No instance was run, because {reason}")
        failed, done, paths = [], [], []
        for index, row in enumerate(rows):

            def pull(task_id, key="return_value", index=index):
                return ti.xcom_pull(task_ids=f"{group.group_id}.{task_id}", key=key, map_indexes=index)

            reason = pull("snapshot", "reason") or pull("sync", "reason")
            written, synced = pull("snapshot"), pull("sync")
            if reason is None and written and synced:
                paths.append(written["path"])
                planned = f"{synced['updates']} to sync" if synced["dry_run"] else f"{synced['applied']} synced"
                done.append(f"{row['conn_id']}: {written['count']} websites, {planned}")
            else:
                # A killed task has no reason.
                reason = reason or "a task was killed. Read the end of its log."
                failed.append(f"{row['conn_id']}: {reason}")
        log.info("\n".join([f"{len(done)} of {len(rows)} instances are done", *done, "Numbers are of each last try."]))
        if failed:
            raise AirflowFailException("\n".join([f"{len(failed)} of {len(rows)} instances failed", *failed]))
        outlet_events[DONE].extra = {"paths": paths}

    listed = instances("{{ var.value.get('analytics_instances', '') }}")
    group = instance.expand_kwargs(listed)
    group >> summary(listed)


many_instances()
