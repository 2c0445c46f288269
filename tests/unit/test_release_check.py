# SPDX-License-Identifier: Apache-2.0
"""``make dist``: each check of the release rejects a bad release."""

from __future__ import annotations

import pytest
import release_check


@pytest.mark.parametrize(
    ("heading", "tags", "problem"),
    [
        ("## 1.2.0 (unreleased)", [], ""),
        ("## 1.2.0 (2026-11-22)", [], ""),
        ("## 1.2.0 (2026-11-22)", ["v1.2.0"], ""),
        ("## 1.2.0 (unreleased)", ["v1.2.0"], "CHANGELOG.md calls 1.2.0 unreleased"),
        ("## 1.2.0 (2026-11-22)", ["v1.2.0", "v1.2.1"], "tagged v1.2.0, v1.2.1"),
        ("## 1.3.0 (unreleased)", [], "begins with 1.3.0, the version of the package is 1.2.0"),
        ("## Notes\n\n## 1.2.0 (unreleased)", [], "no '## <version> (<date> or unreleased)': ## Notes"),
    ],
)
def test_version_changelog_and_tag_agree(heading: str, tags: list[str], problem: str) -> None:
    changelog = f"# Changelog\n\n{heading}\n\n* Text.\n\n## 1.1.0 (2026-01-01)\n"
    found = release_check.version_problem("1.2.0", changelog, tags)
    assert problem in found
    assert bool(found) == bool(problem)


STEM = "airflow_provider_analytics-1.0"
TRACKED = ["airflow_provider_analytics/__init__.py", "airflow_provider_analytics/api/client.py"]
PACKED = [*TRACKED, *(f"{STEM}.dist-info/{name}" for name in release_check.METADATA_FILES)]


@pytest.mark.parametrize(
    ("more", "without", "problems"),
    [
        ([], [], []),
        ([], TRACKED[1:], ["airflow_provider_analytics/api/client.py is missing"]),
        ([], [f"{STEM}.dist-info/entry_points.txt"], [f"{STEM}.dist-info/entry_points.txt is missing"]),
        (["dags/test_a.py"], [], ["dags/test_a.py is not expected", "dags/test_a.py is a test"]),
    ],
)
def test_wheel_has_exactly_the_files_of_the_package(more: list[str], without: list[str], problems: list[str]) -> None:
    packed = [name for name in (*PACKED, *more) if name not in without]
    assert release_check.content_problems(packed, TRACKED, STEM) == problems
