"""What a snapshot leaves behind on the worker: no temporary folder of a killed process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from airflow_provider_analytics.storage import ABANDONED_AFTER_HOURS, temporary_folder

#: Holds a temporary folder until it is killed.
OWNER = """
import os, signal
from airflow_provider_analytics.storage import temporary_folder
with temporary_folder() as folder:
    (folder / "data.jsonl").write_text("half a list")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def grow_old(folder: Path, hours: float) -> None:
    then = time.time() - hours * 3600
    os.utime(folder, (then, then))


@pytest.mark.kill
def test_the_folder_of_a_killed_process_is_removed_by_a_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = subprocess.run([sys.executable, "-c", OWNER], env=environment, stdout=subprocess.PIPE, check=False)
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.decode().strip())
    assert (left / "data.jsonl").read_text() == "half a list"
    others, link = tmp_path / "of-somebody-else", tmp_path / "analytics-snapshot-of-somebody"
    others.mkdir()
    link.symlink_to(others)
    for hours, names in ((-1, {left.name, others.name, link.name}), (1, {others.name, link.name})):
        for folder in (left, others):
            grow_old(folder, ABANDONED_AFTER_HOURS + hours)
        with temporary_folder() as mine:
            assert {path.name for path in tmp_path.iterdir()} == {mine.name, *names}
        assert not mine.exists()
