# SPDX-License-Identifier: Apache-2.0
"""Snapshots on an S3 server over real sockets (``storage.py``, ``hooks/connection.py``)."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow_versions import attach
from dag_runs import RunDag
from shelf import HOUR, NIGHT, NOON, Shelf, held, own
from upath import UPath

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.retention import Retention, plan_pruning, prune
from airflow_provider_analytics.storage import StoragePath

# The S3 libraries of both sides take seconds to load.
pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(s3: dict[str, Any]) -> Shelf:
    shelf = Shelf(StoragePath.of(UPath(f"s3://bucket-{uuid.uuid4().hex}/analytics", **s3)))
    with pytest.raises(StorageError, match=r"Cannot write the snapshot to s3://bucket-.*bucket"):
        shelf.take(3)  # a missing bucket is not created
    shelf.fs.mkdir(str(shelf.base).split("/")[2])
    return shelf


@pytest.mark.parametrize(("file_format", "compression"), [("jsonl", "gzip"), ("csv", "gzip"), ("parquet", None)])
def test_snapshot_in_s3_is_written_replaced_read_and_removed(
    bucket: Shelf, file_format: str, compression: str | None
) -> None:
    first, second, third = (
        bucket.take(count, when, format=file_format, compression=compression, html_report=True)
        for count, when in ((120, NOON), (121, HOUR), (121, NIGHT))
    )
    for snapshot in (second, third):
        day = snapshot.manifest.snapshot_date
        assert (bucket.read(day), bucket.count(day), held(snapshot)) == (snapshot, 121, own(snapshot))
    assert first.manifest.file_names.isdisjoint(held(second))
    assert third.manifest.previous is not None
    assert bucket.days() == {21: True, 20: True}
    prune(bucket.series, plan_pruning(bucket.series, Retention(1), NOON, remove_damaged=False))
    assert (bucket.days(), held(second)) == ({21: True}, [])
    assert str(third.partition.data).startswith("s3://bucket-")


@pytest.mark.chosen
def test_operator_writes_to_s3(
    run_dag: RunDag, bucket: Shelf, s3: dict[str, Any], analytics_sandbox: SandboxServer
) -> None:
    from airflow.providers.common.compat.sdk import DAG

    from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator

    attach("s3", bucket.fs)
    analytics_sandbox.seed(120)
    with DAG(f"s3_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path=str(bucket.base), html_report=True)
        snapshot >> CompareSnapshotsOperator(task_id="compare", base_path=str(bucket.base))
    returned = run_dag(dag).tasks["snapshot"].returned
    read = bucket.read(returned["snapshot_date"])
    assert read
    assert (read.digest, bucket.count(returned["snapshot_date"])) == (returned["digest"], 120)
    assert returned["path"].startswith(str(bucket.base))
    assert returned["report"].startswith(f"{bucket.base}/_websites/")
