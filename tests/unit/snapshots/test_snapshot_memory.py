"""Memory use does not grow with the list: two nights, the second compared with the first, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TWO_NIGHTS = """
import resource, sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.snapshots.catalog import dataset_of
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import SnapshotOptions, Origin, take_snapshot

base, file_format, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Listing:
    proof = None

    def __init__(self):
        self.records = self.read()

    def read(self):
        for number in range(count, 0, -1):
            yield {"id": number, "domain": f"site-{number}.example.com", "privacy": number % 3}
        self.proof = SimpleNamespace(websites=count, method="one page", total=count, pages=1)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.records)

    def close(self, wait=True):
        pass

source = ListSource(url="https://stats.example.com", account_id=None)
origin = Origin(Listing, source, Stats(requests=1))
for night in range(2):
    now = datetime(2026, 11, 20 + night, tzinfo=UTC)
    take_snapshot(dataset_of(base), now.date(), origin, now=now, options=SnapshotOptions(format=file_format))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def kilobytes(base: Path, file_format: str, count: int) -> int:
    command = [sys.executable, "-c", TWO_NIGHTS, str(base / str(count)), file_format, str(count)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow  # a hundred thousand websites, twice
@pytest.mark.parametrize(("file_format", "growth"), [("jsonl", 1.1), ("csv", 1.1), ("parquet", 1.5)])
@pytest.mark.chosen(1)
def test_ten_times_as_many_websites_take_the_same_memory(tmp_path: Path, file_format: str, growth: float) -> None:
    assert kilobytes(tmp_path, file_format, 100_000) < growth * kilobytes(tmp_path, file_format, 10_000)
