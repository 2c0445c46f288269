# SPDX-License-Identifier: Apache-2.0
"""Consumers that a snapshot starts, for docs/snapshots.md: producers and consumers in a real scheduler.

``make partitions`` writes the table.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from airflow_processes import AirflowProcesses, wait_for

from airflow_provider_analytics.sandbox.server import SandboxServer

PAGE = Path(__file__).parents[2] / "docs" / "snapshots.md"
_BLOCK = re.compile(
    r"(<!-- begin partitions, written by `make partitions` -->\n).*?(<!-- end partitions -->)", re.DOTALL
)
PRODUCERS = {"cron": '`schedule="@daily"`', "cron_partition": "`CronPartitionTimetable`"}
CONSUMERS = {
    "plain": "`schedule=[snapshot_asset()]`",
    "partitioned": "`PartitionedAssetTimetable`",
    "triggered": "`TriggerDagRunOperator`",
}
DAGS = """
import pendulum
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, CronPartitionTimetable, PartitionedAssetTimetable

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator, snapshot_asset

SCHEDULES = {
    "cron": "@daily",
    "cron_partition": CronPartitionTimetable("0 0 * * *", timezone="UTC", run_immediately=True),
}
for name, schedule in SCHEDULES.items():
    start = None if name == "cron_partition" else pendulum.datetime(2026, 1, 1, tz="UTC")
    with DAG(name, schedule=schedule, start_date=start, catchup=False):
        SnapshotWebsitesOperator(
            task_id="snapshot", base_path=BASE_PATH, snapshot_name=name
        ) >> TriggerDagRunOperator(
            task_id="trigger", trigger_dag_id=f"{name}_triggered", conf="{{ ti.xcom_pull('snapshot') | tojson }}"
        )
    consumers = {
        "plain": [snapshot_asset(snapshot_name=name)],
        "partitioned": PartitionedAssetTimetable(assets=snapshot_asset(snapshot_name=name, partitioned=True)),
        "triggered": None,
    }
    for kind, awaited in consumers.items():
        with DAG(f"{name}_{kind}", schedule=awaited, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
            EmptyOperator(task_id="load")
"""


@contextlib.contextmanager
def scheduled(home: Path) -> Iterator[AirflowProcesses]:
    """Make a scheduler run both producers once, and wait for all runs that must follow."""
    dags = home / "dags"
    dags.mkdir()
    (dags / "cells.py").write_text(DAGS.replace("BASE_PATH", repr(str(home / "snapshots"))))
    with SandboxServer() as sandbox:
        sandbox.seed(3)
        with AirflowProcesses(home, dags, {**sandbox.connection_env}) as airflow:
            for producer in PRODUCERS:
                for consumer in CONSUMERS:
                    airflow.api.unpause(f"{producer}_{consumer}")
            for producer in PRODUCERS:
                airflow.api.unpause(producer)
            yield airflow


def ended(airflow: AirflowProcesses, dag_id: str) -> dict[str, object]:
    """Wait for the end of the only run of a DAG, which must be a success, and return it."""
    run = wait_for(f"a run of {dag_id}", lambda: airflow.api.runs(dag_id))[0]
    state = airflow.api.wait(dag_id, run["dag_run_id"])
    assert state.state == "success", f"{dag_id}: {state}"
    [run] = airflow.api.runs(dag_id)
    return run


def cells(airflow: AirflowProcesses) -> dict[tuple[str, str], list[str | None]]:
    """Return the partition keys of the runs of each consumer, by producer and consumer."""
    for producer in PRODUCERS:
        ended(airflow, producer)
        # The scheduler starts the consumers that wait for an asset before or with these.
        ended(airflow, f"{producer}_partitioned")
        ended(airflow, f"{producer}_triggered")
    ended(airflow, "cron_plain")
    return {
        (producer, consumer): [run["partition_key"] for run in airflow.api.runs(f"{producer}_{consumer}")]
        for producer in PRODUCERS
        for consumer in CONSUMERS
    }


def table(found: dict[tuple[str, str], list[str | None]]) -> list[str]:
    """Return the lines of the table."""
    today = datetime.now(UTC).date().isoformat()
    lines = [f"| producer | {' | '.join(CONSUMERS.values())} |", "| --- |" + " --- |" * len(CONSUMERS)]
    for producer, shown in PRODUCERS.items():
        parts = []
        for consumer in CONSUMERS:
            runs = found[producer, consumer]
            key = ", key is the day" if runs and runs[0] == today else ""
            parts.append(f"{len(runs)} run{key}" if runs else "never")
        lines.append(f"| {shown} | {' | '.join(parts)} |")
    return lines


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder, scheduled(Path(folder)) as running:
        lines = table(cells(running))
    page = _BLOCK.sub(lambda block: block[1] + "\n".join([*lines, block[2]]), PAGE.read_text())
    PAGE.write_text(page)
    sys.stdout.write("\n".join(lines) + "\n")
