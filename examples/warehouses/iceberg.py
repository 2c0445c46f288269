# SPDX-License-Identifier: Apache-2.0
"""Load snapshots into an Apache Iceberg table, which refers to their Parquet files and copies nothing.

Install ``pyiceberg[pyarrow,sql-sqlite]``, and take the snapshots with ``format="parquet"``. On Airflow 2.11, use
another catalog, because the SQLite catalog needs SQLAlchemy 2. Call ``create_table`` once, and ``load`` after each
snapshot.

The table cannot be read while it refers to missing files, so follow three rules:

* Load a day again after its snapshot was replaced.
* Delete a day from the table before ``PruneSnapshotsOperator`` removes its snapshot.
* Do not run ``expire_snapshots`` of Spark on the table, because it would remove files of the snapshots.
"""

from __future__ import annotations

import pyarrow.parquet
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import EqualTo

from airflow_provider_analytics.snapshots.catalog import read_snapshot

BASE_PATH = "/data/analytics"
TABLE = "analytics.websites"


def catalog() -> Catalog:
    """Return the catalog of the table."""
    return load_catalog("analytics", type="sql", uri="sqlite:////data/catalog.db", warehouse="file:///data/iceberg")


def create_table(day: str) -> None:
    """Create the table, with the columns of any day that has websites."""
    snapshot = read_snapshot(BASE_PATH, day)  # None if none is published
    columns = pyarrow.parquet.read_schema(str(snapshot.files[0]))
    catalog().create_namespace_if_not_exists("analytics")
    with catalog().create_table_transaction(TABLE, columns) as creation, creation.update_spec() as partitions:
        partitions.add_identity("snapshot_date")


def load(day: str) -> None:
    """Replace a day. The first load warns that there was nothing to delete."""
    snapshot = read_snapshot(BASE_PATH, day)
    files = [str(file) for file in snapshot.files]
    with catalog().load_table(TABLE).transaction() as change:
        for file in files[:1]:
            with change.update_schema() as columns:
                columns.union_by_name(pyarrow.parquet.read_schema(file))  # new columns come last
        change.delete(EqualTo("snapshot_date", day))
        change.add_files(files)


def delete(day: str) -> None:
    """Remove a day from the table. The snapshot is kept."""
    catalog().load_table(TABLE).delete(EqualTo("snapshot_date", day))
