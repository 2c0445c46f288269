# SPDX-License-Identifier: Apache-2.0
"""Temporary folders of snapshots: the folder of a killed process is removed (``snapshots/take.py``)."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from pathlib import Path

import pytest

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.storage import temporary_folder


def test_temporary_folder_of_a_killed_process_is_removed_by_a_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        left = folder
    left.mkdir()  # as if no process had removed it
    others, link = tmp_path / "of-somebody-else", tmp_path / "analytics-snapshot-of-somebody"
    others.mkdir()
    link.symlink_to(others)
    for hours, names in ((47, {left.name, others.name, link.name}), (49, {others.name, link.name})):
        then = time.time() - hours * 3600
        for item in (left, others):
            os.utime(item, (then, then))
        with temporary_folder() as mine:
            assert {path.name for path in tmp_path.iterdir()} == {mine.name, *names}
        assert not mine.exists()


def test_worker_without_a_writable_temporary_folder_is_told_about_tmpdir(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp', '/']")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", fail)
    with pytest.raises(StorageError, match=r"No usable temporary directory found.*\s.*TMPDIR"), temporary_folder():
        pass
    monkeypatch.setattr(tempfile, "tempdir", "/proc/self")
    with pytest.raises(StorageError, match="TMPDIR"), temporary_folder():
        pass
