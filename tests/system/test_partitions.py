# SPDX-License-Identifier: Apache-2.0
"""Consumers that a snapshot starts: each pair of producer and consumer in a real scheduler (``assets.py``)."""

from __future__ import annotations

from pathlib import Path

import partition_cells
from airflow_versions import needs_partitions


@needs_partitions
def test_snapshot_starts_the_documented_consumers(tmp_path: Path) -> None:
    """Airflow gives each event of a partitioned run the key of the run, and such an event starts no plain consumer."""
    with partition_cells.scheduled(tmp_path) as airflow:
        found = partition_cells.cells(airflow)
    assert "\n".join(partition_cells.table(found)) in partition_cells.PAGE.read_text()
