# SPDX-License-Identifier: Apache-2.0
"""Wheel and source distribution: their files."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from release_check import content_problems

from airflow_provider_analytics import __version__


@pytest.mark.chosen
def test_wheel_contains_exactly_the_expected_files(wheel: Path, checkout: Path) -> None:
    files = [path for path in (checkout / "airflow_provider_analytics").rglob("*") if path.is_file()]
    tracked = [str(path.relative_to(checkout)) for path in files if path.suffix != ".pyc"]
    packed = zipfile.ZipFile(wheel).namelist()
    assert content_problems(packed, tracked, f"airflow_provider_analytics-{__version__}") == []


def test_source_distribution_builds_the_same_wheel(wheel: Path, checkout: Path, uv: str, tmp_path: Path) -> None:
    subprocess.run([uv, "build", "--quiet", "--sdist", "--out-dir", str(tmp_path), str(checkout)], check=True)
    [archive] = tmp_path.glob("*.tar.gz")
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(archive)], check=True)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
