"""What a snapshot leaves behind on the worker: no temporary folder of a killed process, no word of the fonts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_analytics.storage import ABANDONED_AFTER_HOURS, temporary_folder

#: Holds a temporary folder until it is killed.
OWNER = """
import sys
from airflow_provider_analytics.storage import temporary_folder
with temporary_folder() as folder:
    (folder / "data.jsonl").write_text("half a list")
    print(folder, flush=True)
    sys.stdin.read()
"""

#: Takes a snapshot with a report, and logs as a task does.
REPORTER = """
import logging, sys
from datetime import UTC, datetime
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.snapshots.catalog import dataset_of
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import SnapshotOptions, Origin, take_snapshot

logging.basicConfig(level=logging.INFO)
url, key, base = sys.argv[1:]
now = datetime(2026, 11, 20, tzinfo=UTC)
with AnalyticsClient(Settings(base_url=url, api_key=key)) as client:
    origin = Origin(client.iter_websites, ListSource(url="https://sandbox", account_id=None), client.stats)
    snapshot = take_snapshot(dataset_of(base), now.date(), origin, now=now, options=SnapshotOptions(report=True))
logging.info("took it: %s", snapshot.manifest.report)
"""


@contextmanager
def owner(directory: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    command = [sys.executable, "-c", OWNER]
    environment = {**os.environ, "TMPDIR": str(directory)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=environment) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def grow_old(folder: Path, hours: float) -> None:
    then = time.time() - hours * 3600
    os.utime(folder, (then, then))


@pytest.mark.kill
def test_the_folder_of_a_killed_process_is_removed_by_a_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with owner(tmp_path) as (process, left):
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        assert (left / "data.jsonl").read_text() == "half a list"
        strange = tmp_path / "analytics-snapshot-of-somebody"
        strange.symlink_to(tmp_path)
        for hours, stays in ((ABANDONED_AFTER_HOURS - 1, True), (ABANDONED_AFTER_HOURS + 1, False)):
            grow_old(left, hours)
            with temporary_folder() as mine:
                assert mine.parent == tmp_path
            assert left.exists() == stays
        # What is no folder.
        assert strange.is_symlink()
    assert not mine.exists()


def test_only_folders_of_snapshots_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("analytics-snapshot-old", "of-somebody-else"):
        (tmp_path / name).mkdir()
        grow_old(tmp_path / name, ABANDONED_AFTER_HOURS + 1)
    with temporary_folder():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["of-somebody-else"]
