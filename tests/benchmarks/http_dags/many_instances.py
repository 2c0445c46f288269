"""The sample DAG of this name with HttpOperator: the same schedule, Params and tasks, none of the checks."""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from pathlib import Path

import pendulum
from airflow.providers.common.compat.sdk import AirflowFailException, Asset, Param, dag, task, task_group
from airflow.providers.http.operators.http import HttpOperator

STATE = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "website_analytics"
#: In each folder that is named like a connection: no other characters, so that no instance reaches that of another.
CONNECTION_ID = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$"

log = logging.getLogger("many_instances")  # Airflow's name for this file is no name for people


def keep_reason(context):
    """Hand the reason of a failure to the summary: Airflow tells it to this callback only."""
    # Of many websites that failed, the first line tells the number, and the second why.
    first_lines = " ".join(str(context["exception"]).splitlines()[:2])
    context["ti"].xcom_push(key="reason", value=f"{context['ti'].task_id.rpartition('.')[2]}: {first_lines}")


@dag(
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 2,
        "retry_delay": pendulum.duration(minutes=5),
        "on_failure_callback": keep_reason,
    },
    params={
        "base_path": Param(
            STATE.as_uri(),
            type="string",
            description="Folder for all files, with one per instance: shared by all workers and durable, "
            "such as s3://bucket/path",
        ),
        "only": Param(
            [],
            type="array",
            items={"type": "string", "pattern": CONNECTION_ID},
            description="Connections to run. If empty: all in the Variable",
        ),
        "dry_run": Param(False, type="boolean", description="Take the snapshots, and only plan the sync"),
        "accept": Param(
            [],
            type="array",
            items={"type": "string", "enum": ["count", "fields", "source", "empty", "loss"]},
            description="Safety checks of the selected instances to override in this run",
        ),
    },
    tags=["analytics"],
    doc_md=__doc__,
)
def many_instances():
    @task
    def instances(listed, params=None):
        """Return where the files of each instance are."""
        try:
            conn_ids = params["only"] or json.loads(listed)
        except json.JSONDecodeError:
            conn_ids = listed
        is_array = isinstance(conn_ids, list) and all(isinstance(one, str) for one in conn_ids)
        if not is_array or not conn_ids:
            raise AirflowFailException(
                f"The Variable analytics_instances is {listed!r}; allowed: a JSON array of the ids of connections, "
                'such as ["client_a", "client_b"]'
            )
        wrong = [one for one in conn_ids if not re.fullmatch(CONNECTION_ID, one)]
        twice = [one for one, number in Counter(one.lower() for one in conn_ids).items() if number > 1]
        if wrong or twice:
            raise AirflowFailException(
                f"The ids of connections {', '.join(wrong + twice)} are not allowed; allowed: each once, whatever its "
                "case, of letters, digits, _, - and ., as each is the name of a folder"
            )
        if params["accept"] and not params["only"]:
            raise AirflowFailException("accept without only is not allowed; allowed: accept with the instances in only")
        folders = {conn_id: f"{params['base_path'].rstrip('/')}/{conn_id}" for conn_id in conn_ids}
        return [
            {
                "conn_id": conn_id,
                "base_path": f"{folder}/snapshots",
                "state_path": folder,
            }
            for conn_id, folder in folders.items()
        ]

    # A group that is mapped keeps the instances apart. Two mapped tasks would not: if one instance failed in the first,
    # the second would be run for none.
    @task_group
    def instance(conn_id, base_path, state_path):
        common = {
            "http_conn_id": conn_id,
            "endpoint": "api/v1/websites",
            "pool": "website_analytics",
            "map_index_template": "{{ task.http_conn_id }}",  # what the grid shows in place of a number
        }
        snapshot = HttpOperator(
            task_id="snapshot",
            method="GET",
            data={"per_page": "100", "base_path": base_path},
            outlets=[Asset(uri="website-snapshots://many_instances", name="many_instances")],
            **common,
        )
        sync = HttpOperator(
            task_id="sync",
            method="PUT",
            data={
                "exclude_ips": "{{ var.value.exclude_ips }}",
                "state_path": state_path,
                "list_name": "exclude_ips",
                "dry_run": "{{ params.dry_run }}",
                "accept": "{{ params.accept | join(',') }}",
            },
            **common,
        )
        snapshot >> sync

    @task(trigger_rule="all_done", on_failure_callback=None)
    def summary(ti=None):
        rows = ti.xcom_pull(task_ids="instances")
        if rows is None:
            raise AirflowFailException(f"No instance was run. {ti.xcom_pull(task_ids='instances', key='reason')}")
        failed, done = [], []
        for index, row in enumerate(rows):

            def pull(task_id, key="return_value", index=index):
                return ti.xcom_pull(task_ids=f"instance.{task_id}", key=key, map_indexes=index)

            reason = pull("snapshot", "reason") or pull("sync", "reason")
            written, synced = pull("snapshot"), pull("sync")
            if reason is None and written and synced:
                planned = f"{synced['updates']} to sync" if synced["dry_run"] else f"{synced['applied']} synced"
                done.append(f"{row['conn_id']}: {written['count']} websites, {planned}")
            else:
                # Who is killed can tell no reason.
                failed.append(f"{row['conn_id']}: {reason or 'ended without a reason: see the end of its log'}")
        message = "\n".join([f"{len(failed)} of {len(rows)} instances failed", *failed])
        if failed:
            log.error(message)
        log.info("\n".join([f"{len(done)} of {len(rows)} instances are done", *done]))
        if failed:
            raise AirflowFailException(message)  # what a notifier in on_failure_callback is told

    instance.expand_kwargs(instances("{{ var.value.get('analytics_instances', '') }}")) >> summary()


many_instances()
