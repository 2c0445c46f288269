"""What `make dist` finds: each check is shown a release that it has to refuse."""

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
        ("## 1.2.0 (2026-11-22)", ["v1.2.1"], "tagged v1.2.1, the version of the package is 1.2.0"),
        ("## 1.2.0 (2026-11-22)", ["v1.2.0", "v1.2.1"], "tagged v1.2.0, v1.2.1"),
        ("## 1.3.0 (unreleased)", [], "begins with 1.3.0, the version of the package is 1.2.0"),
        ("## Unreleased", [], "no '## <version> (<date> or unreleased)': ## Unreleased"),
        ("## Notes\n\n## 1.2.0 (unreleased)", [], "no '## <version> (<date> or unreleased)': ## Notes"),
        ("", [], "no '## <version> (<date> or unreleased)': none"),
    ],
)
def test_version_changelog_and_tag_name_the_same(heading: str, tags: list[str], problem: str) -> None:
    changelog = f"# Changelog\n\n{heading}\n\n* Text.\n\n## 1.1.0 (2026-01-01)\n"
    if not heading:
        changelog = "# Changelog\n"
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
        (["dags/a.py"], [], ["dags/a.py is not expected"]),
        ([], TRACKED[1:], ["airflow_provider_analytics/api/client.py is missing"]),
        ([], [f"{STEM}.dist-info/entry_points.txt"], [f"{STEM}.dist-info/entry_points.txt is missing"]),
        (
            ["airflow_provider_analytics/api/test_a.py"],
            [],
            [f"airflow_provider_analytics/api/test_a.py {why}" for why in ("is not expected", "is a test")],
        ),
    ],
)
def test_a_wheel_has_the_files_of_the_package_and_nothing_else(
    more: list[str], without: list[str], problems: list[str]
) -> None:
    packed = [name for name in (*PACKED, *more) if name not in without]
    assert release_check.content_problems(packed, TRACKED, STEM) == problems
