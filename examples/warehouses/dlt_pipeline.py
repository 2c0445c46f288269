# SPDX-License-Identifier: Apache-2.0
"""Load snapshots of any format with dlt, with the types of the manifest.

Install ``dlt[duckdb]``, or the extra of another destination. dlt sends usage statistics unless you set
``RUNTIME__DLTHUB_TELEMETRY=false``. Exclusion lists are text with one entry per line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dlt

from airflow_provider_analytics.snapshots.catalog import read_snapshot

BASE_PATH = "/data/analytics"
TYPES = {"string": "text", "integer": "bigint", "boolean": "bool", "date": "date", "timestamp": "timestamp"}


def pipeline() -> dlt.Pipeline:
    """Return the pipeline, here into DuckDB."""
    return dlt.pipeline("analytics", destination=dlt.destinations.duckdb("/data/dlt.duckdb"), dataset_name="analytics")


def load(day: str) -> None:
    """Replace a day."""
    snapshot = read_snapshot(BASE_PATH, day)  # None if none is published

    @dlt.resource(
        write_disposition={"disposition": "merge", "strategy": "delete-insert"},
        merge_key="snapshot_date",
        columns={column.name: {"data_type": TYPES[column.type]} for column in snapshot.manifest.columns},
    )
    def websites() -> Iterator[dict[str, Any]]:
        yield from snapshot.rows()

    pipeline().run(websites())


def delete(day: str) -> None:
    """Delete a day. A load does not replace a day by a snapshot without websites, so delete it instead."""
    with pipeline().sql_client() as client:
        client.execute_sql("DELETE FROM websites WHERE snapshot_date = %s", day)
