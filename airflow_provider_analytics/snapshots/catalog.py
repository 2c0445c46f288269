"""List the published snapshots, find the newest, and check whether each is whole.

Readers without Python find the newest snapshot in ``_latest.json``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.snapshots.layout import DATASET, Dataset, dataset_of
from airflow_provider_analytics.snapshots.manifest import VERSION, Latest, encode
from airflow_provider_analytics.snapshots.reader import Snapshot, newest_day, published_days, read_partition
from airflow_provider_analytics.storage import StoragePath, new_token, put_bytes, storage_errors

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A published snapshot in the catalog.

    :param day: its day.
    :param snapshot: the snapshot; None if its manifest cannot be read.
    :param problems: problems found; empty if it is whole.
    """

    day: date
    snapshot: Snapshot | None
    problems: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the manifest and all files exist and are undamaged."""
        return not self.problems


def list_snapshots(base: StoragePath | str, dataset: str = DATASET, *, verify: bool = False) -> list[Entry]:
    """Return the published snapshots of a dataset, newest first.

    :param base: base path, also as the text of a URL or path: ``s3://bucket/path``.
    :param dataset: name of the dataset; default ``websites``.
    :param verify: read all files and compare their SHA-256 with the manifest, not only their sizes.
    :raises ValueError: if the name of the dataset is not allowed.
    :raises StorageError: if the storage fails.
    """
    return list(entries(dataset_of(base, dataset), verify=verify))


def newest_snapshot(base: StoragePath | str, dataset: str = DATASET) -> Snapshot | None:
    """Return the newest published snapshot of a dataset, or None if there is none.

    :param base: base path, also as the text of a URL or path: ``s3://bucket/path``.
    :param dataset: name of the dataset; default ``websites``.
    :raises ValueError: if the name of the dataset is not allowed.
    :raises StorageError: if its manifest cannot be read, is damaged, or is from a newer version.
    """
    found = dataset_of(base, dataset)
    day = newest_day(found)
    return None if day is None else read_partition(found.partition(day))


def entries(dataset: Dataset, *, before: date | None = None, verify: bool = False) -> Iterator[Entry]:
    """Yield the published snapshots of a dataset, newest first.

    :param before: only days before this one.
    :param verify: read all files and compare their SHA-256 with the manifest, not only their sizes.
    """
    for day in published_days(dataset, before):
        try:
            snapshot = read_partition(dataset.partition(day))
        except StorageError as error:
            yield Entry(day, None, (str(error),))
            continue
        if snapshot is not None:  # otherwise removed since the days were listed
            yield Entry(day, snapshot, tuple(snapshot.problems(verify=verify)))


def point_to_latest(dataset: Dataset) -> None:
    """Point ``_latest.json`` to the newest published snapshot, with one atomic write.

    :raises StorageError: if the storage fails.
    """
    for _ in range(3):  # another run may publish a newer one at the same time
        day = newest_day(dataset)
        if day is None:
            return
        try:
            snapshot = read_partition(dataset.partition(day))
        except StorageError as error:
            log.warning("%s still names an earlier snapshot: %s", dataset.latest, error)
            return
        if snapshot is None:
            continue
        manifest = snapshot.manifest
        latest = Latest(
            version=VERSION,
            dataset=manifest.dataset,
            snapshot_date=manifest.snapshot_date,
            observed_at=manifest.observed_at,
            late=manifest.late,
            count=manifest.count,
            manifest=f"{dataset.about.name}/{snapshot.partition.about.name}/{snapshot.partition.manifest.name}",
            digest=snapshot.digest,
            files=[file.path for file in manifest.files],
        )
        with storage_errors(f"write {dataset.latest}"):
            put_bytes(dataset.latest, encode(latest), new_token(datetime.now(UTC)))
        if newest_day(dataset) == day:
            return
