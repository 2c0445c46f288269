# SPDX-License-Identifier: Apache-2.0
"""Write the same websites in every format, read them back, and print the table of tests/snapshot_formats.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.catalog import snapshot_series
from airflow_provider_analytics.snapshots.formats import COMPRESSIONS, FORMATS, Row
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

#: The same time for all, so that only the format differs.
NOW = datetime(2026, 11, 20, tzinfo=UTC)
CHOICES = [(file_format, compression) for file_format in FORMATS for compression in (None, *COMPRESSIONS)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("websites", type=int, nargs="?", default=10_000, help="number of websites in the list")
    websites = parser.parse_args().websites
    say("| format | compression | rows | bytes |")
    say("|---|---|---|---|")
    first: list[Row] | None = None
    with SandboxServer() as sandbox, tempfile.TemporaryDirectory(prefix="formats-") as folder:
        sandbox.seed(websites)
        with AnalyticsClient(Settings(base_url=sandbox.url, api_key=sandbox.api_key)) as client:
            for file_format, compression in CHOICES:
                snapshot = take_snapshot(
                    snapshot_series(f"file://{folder}/{file_format}-{compression}"),
                    NOW.date(),
                    Origin(client.iter_websites, ListSource(url=sandbox.url, account_id=None), client.stats),
                    clock=lambda: NOW,
                    options=SnapshotOptions(format=file_format, compression=compression),
                )
                rows = list(snapshot.rows())
                first = first or rows
                if len(rows) != websites or rows != first:
                    say(f"FAILED: {file_format} with {compression} reads back different rows")
                    return 1
                size = sum(file.bytes for file in snapshot.manifest.files)
                inside = compression or ("snappy" if file_format == "parquet" else "none")
                say(f"| `{file_format}` | {inside} | {len(rows):,} | {size:,} |")
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
