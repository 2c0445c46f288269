# SPDX-License-Identifier: Apache-2.0
"""The files of the wheel. ``make dist`` compares wheels built from clones and from the source distribution."""

from __future__ import annotations

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
