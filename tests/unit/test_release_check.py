"""What `make dist` finds: each check is shown a release that it has to refuse."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

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


def test_links_that_need_a_file_beside_the_text_are_found() -> None:
    html = (
        '<a href="docs/a.md">a</a> <a href="#b">b</a> <a href="https://example.com/c">c</a> <a href="mailto:d@e.f">d'
        '</a><p><img src="docs/e.png" alt=""><img src="https://example.com/f.png"></p> <a href="/g">g</a>'
    )
    assert release_check.relative_targets(html) == ["docs/a.md", "docs/e.png", "/g"]


def wheel(folder: Path, *without: str, **more: str) -> Path:
    """A wheel as it should be, but for what is left out and what is added."""
    about = "airflow_provider_analytics-1.0.dist-info"
    names = {f"airflow_provider_analytics/{name}" for name in release_check.DATA_FILES}
    rooms = {name if name.endswith(".py") else f"{name}/__init__.py" for name in release_check.ENTRIES - {"py.typed"}}
    names |= {f"airflow_provider_analytics/{name}" for name in rooms}
    files = dict.fromkeys(names | {f"{about}/{name}" for name in release_check.METADATA_FILES}, "")
    files[f"{about}/METADATA"] = "".join(f"Project-URL: {name}, https://example.com\n" for name in release_check.URLS)
    files[f"{about}/entry_points.txt"] = "\n".join(
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in points.items())
        for group, points in release_check.ENTRY_POINTS.items()
    )
    made = folder / "airflow_provider_analytics-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in {**files, **more}.items():
            if name not in without:
                archive.writestr(name, text)
    return made


def test_a_wheel_as_it_should_be(tmp_path: Path) -> None:
    assert release_check.content_problems(wheel(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("dags/a.py", ["the wheel: dags is not expected"]),
        ("airflow_provider_analytics/notes.txt", ["the package: notes.txt is not", "no Python: notes.txt is not"]),
        ("airflow_provider_analytics/api/a.pyc", ["no Python: api/a.pyc is not expected"]),
        ("airflow_provider_analytics/api/test_a.py", ["tests: api/test_a.py is not expected"]),
        ("airflow_provider_analytics/api/tests/a.py", ["tests: api/tests/a.py is not expected"]),
    ],
)
def test_what_does_not_belong_into_a_wheel(tmp_path: Path, name: str, problems: list[str]) -> None:
    found = release_check.content_problems(wheel(tmp_path, **{name: ""}))
    assert len(found) == len(problems)
    assert all(problem in one for problem, one in zip(problems, found, strict=True))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("airflow_provider_analytics/py.typed", "py.typed is missing"),
        ("airflow_provider_analytics/snapshots/report.html.j2", "snapshots/report.html.j2 is missing"),
        ("airflow_provider_analytics/storage.py", "storage.py is missing"),
        ("airflow_provider_analytics-1.0.dist-info/licenses/LICENSE", "licenses/LICENSE is missing"),
        ("airflow_provider_analytics-1.0.dist-info/entry_points.txt", "pytest11:analytics_sandbox"),
        ("airflow_provider_analytics-1.0.dist-info/METADATA", "project URLs: Changelog is missing"),
    ],
)
def test_what_a_wheel_lacks(tmp_path: Path, name: str, problem: str) -> None:
    assert problem in "; ".join(release_check.content_problems(wheel(tmp_path, name)))


def test_two_archives_that_differ_are_told_apart_by_name(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    name = "airflow_provider_analytics/storage.py"
    assert release_check.difference(wheel(tmp_path), wheel(tmp_path / "other", **{name: "x"})) == name


def environment() -> dict[str, Any]:
    """An SBOM as that of an environment with the wheel, what it needs, and what that needs."""

    def component(name: str, version: str) -> dict[str, Any]:
        return {"name": name, "version": version, "bom-ref": f"{name}=={version}"}

    local = {"type": "distribution", "url": "file:///home/somebody/dist/a.whl"}
    known = {"type": "website", "url": "https://example.com"}
    needed = component("airflow-provider-analytics", "1.0")
    return {
        "metadata": {"tools": {}},
        "components": [
            component("Deprecated", "1.3.1"),
            {**needed, "purl": "pkg:pypi/a@1.0?file_name=a.whl", "externalReferences": [local, known]},
            component("typing_extensions", "4.0"),
        ],
        "dependencies": [
            {"ref": needed["bom-ref"], "dependsOn": ["Deprecated==1.3.1"]},
            {"ref": "Deprecated==1.3.1", "dependsOn": ["typing_extensions==4.0"]},
            {"ref": "typing_extensions==4.0"},
        ],
    }


def test_the_sbom_is_about_the_wheel_and_names_no_path() -> None:
    document = release_check.about_the_wheel(environment(), "ab12")
    about = document["metadata"]["component"]
    assert about["purl"] == "pkg:pypi/airflow-provider-analytics@1.0"
    assert about["hashes"] == [{"alg": "SHA-256", "content": "ab12"}]
    assert about["externalReferences"] == [{"type": "website", "url": "https://example.com"}]
    assert [found["name"] for found in document["components"]] == ["Deprecated", "typing_extensions"]


def test_a_component_of_the_sbom_is_pinned_and_needed() -> None:
    document = release_check.about_the_wheel(environment(), "ab12")
    pins = {"deprecated": "1.3.1", "typing-extensions": "4.0"}
    assert release_check.stray_components(document, pins) == []
    assert release_check.stray_components(document, {**pins, "deprecated": "2"}) == [
        "deprecated 1.3.1 is not what is pinned: 2"
    ]
    document["dependencies"][1]["dependsOn"] = []
    assert release_check.stray_components(document, pins) == ["typing-extensions is nothing that the wheel needs"]


def test_pins_are_those_of_this_python() -> None:
    this = "{}.{}".format(*sys.version_info)
    text = f"# why\nA_b==1.0\nc==1 ; python_version < '{this}'\nc==2 ; python_version >= '{this}'\n"
    assert release_check.pinned(text) == {"a-b": "1.0", "c": "2"}


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(release_check.ReleaseError, match=r"(?s)ended with 3:.*because"):
        release_check.run(sys.executable, "-c", "import sys; print('because'); sys.exit(3)")
