"""Snapshots on a server that speaks S3, over real sockets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow_versions import attach
from dag_runs import RunDag
from upath import UPath

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.snapshots.catalog import Dataset, list_snapshots, read_snapshot
from airflow_provider_analytics.snapshots.retention import Retention, plan_pruning, prune
from airflow_provider_analytics.storage import StoragePath, names

# What speaks S3, on both sides, takes seconds to load.
pytestmark = pytest.mark.slow
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def file_system(s3: dict[str, Any]) -> Any:
    import s3fs  # brings botocore

    return s3fs.S3FileSystem(**s3)


@pytest.fixture
def bucket(s3: dict[str, Any]) -> StoragePath:
    name = f"bucket-{uuid.uuid4().hex}"
    file_system(s3).mkdir(name)
    return StoragePath.of(UPath(f"s3://{name}/analytics", **s3))


@pytest.fixture
def take(analytics_sandbox: Any) -> Iterator[Callable[..., Any]]:
    from airflow_provider_analytics.api.client import AnalyticsClient
    from airflow_provider_analytics.api.settings import Settings
    from airflow_provider_analytics.snapshots.manifest import ListSource
    from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

    settings = Settings(base_url=analytics_sandbox.url, api_key=analytics_sandbox.api_key)
    with AnalyticsClient(settings) as client:

        def run(base: StoragePath, now: datetime = NOW, **options: Any) -> Any:
            origin = Origin(client.iter_websites, ListSource(url="https://sandbox", account_id=None), client.stats)
            return take_snapshot(Dataset(base), now.date(), origin, now=now, options=SnapshotOptions(**options))

        yield run


@pytest.mark.parametrize(("file_format", "compression"), [("jsonl", "gzip"), ("csv", "zstd"), ("parquet", None)])
def test_a_snapshot_is_written_replaced_and_read(
    take: Callable[..., Any], bucket: StoragePath, analytics_sandbox: Any, file_format: str, compression: str | None
) -> None:
    analytics_sandbox.seed(120)
    options = {"format": file_format, "compression": compression, "report": True}
    first = take(bucket, **options)
    analytics_sandbox.add_website("new.example.com")
    second = take(bucket, NOW + timedelta(hours=1), **options)
    third = take(bucket, NOW + timedelta(days=1), **options)
    for snapshot, count in ((second, 121), (third, 121)):
        read = read_snapshot(bucket, snapshot.manifest.snapshot_date)
        assert read is not None
        assert read.digest == snapshot.digest
        assert sum(1 for _ in read.rows()) == count
        held = names(read.partition.data) + names(read.partition.about)
        assert sorted(held) == sorted(["_SUCCESS", "_manifest.json", *read.manifest.file_names])
        assert first.manifest.file_names.isdisjoint(held)
    assert third.manifest.previous is not None
    assert [entry.is_whole for entry in list_snapshots(bucket, verify=True)] == [True, True]
    prune(Dataset(bucket), plan_pruning(Dataset(bucket), Retention(1), NOW, remove_damaged=False))
    assert [entry.snapshot for entry in list_snapshots(bucket)] == [third]
    assert names(second.partition.data) == names(second.partition.about) == []
    assert str(third.partition.data).startswith("s3://bucket-")


def test_a_bucket_that_is_missing_is_an_error_and_not_created(
    take: Callable[..., Any], s3: dict[str, Any], analytics_sandbox: Any
) -> None:
    analytics_sandbox.seed(3)
    missing = StoragePath.of(UPath("s3://nobody-made-this-bucket/analytics", **s3))
    with pytest.raises(StorageError, match=r"cannot write the snapshot to s3://nobody-made-this-bucket/.*bucket"):
        take(missing)
    assert "nobody-made-this-bucket" not in file_system(s3).ls("")


@pytest.mark.chosen
def test_the_operator_writes_to_s3(
    run_dag: RunDag, bucket: StoragePath, s3: dict[str, Any], analytics_sandbox: Any
) -> None:
    from airflow.providers.common.compat.sdk import DAG

    from airflow_provider_analytics.operators.snapshots import CompareSnapshotsOperator, SnapshotWebsitesOperator

    attach("s3", file_system(s3))
    analytics_sandbox.seed(120)
    with DAG(f"s3_{uuid.uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path=str(bucket), report=True)
        snapshot >> CompareSnapshotsOperator(task_id="compare", base_path=str(bucket))
    outcome = run_dag(dag)
    assert outcome.state == "success"
    returned = outcome.tasks["snapshot"].returned
    read = read_snapshot(bucket, datetime.now(UTC).date())
    assert read is not None
    assert (read.digest, sum(1 for _ in read.rows())) == (returned["digest"], 120)
    assert returned["path"].startswith(str(bucket))
    assert returned["report"].startswith(f"{bucket}/_websites/")
