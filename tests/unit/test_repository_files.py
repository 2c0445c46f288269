# SPDX-License-Identifier: Apache-2.0
"""Files for GitHub, Airflow's registry, and builds: real places, pinned tools with hashes, and tested versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import matrix
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from airflow_provider_analytics.get_provider_info import get_provider_info

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: Files that a reader opens.
TEXTS = sorted(
    path
    for pattern in ("*.md", "*.yml", "docs/*.md", ".github/*", ".github/*/*", "airflow_provider_analytics/**/*.py")
    for path in ROOT.glob(pattern)
    if path.is_file()
)


def loaded(*path: str) -> Any:
    return yaml.safe_load(ROOT.joinpath(*path).read_text())


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step for job in jobs for step in job.get("steps", [{"uses": job.get("uses")}])]


# Addresses


def test_every_project_url_is_a_known_place() -> None:
    source = PROJECT["urls"]["Source"]
    raw = source.replace("//github.com/", "//raw.githubusercontent.com/")
    package_page = "https://pypi.org/project/airflow-provider-analytics/"
    ours = re.compile(r"https://[\w./-]*airflow-provider-analytics[\w./#-]*")
    strangers = {
        (path.name, url)
        for path in TEXTS
        for url in ours.findall(path.read_text())
        if not url.startswith((source, raw, PROJECT["urls"]["Documentation"], package_page))
    }
    assert strangers == set()


def test_project_urls_equal_the_urls_of_documents_and_airflow() -> None:
    urls = PROJECT["urls"]
    assert urls["Homepage"] == urls["Source"]
    assert urls["Issues"] == f"{urls['Source']}/issues"
    assert urls["Changelog"] == f"{urls['Source']}/blob/main/CHANGELOG.md"
    [integration] = get_provider_info()["integrations"]
    assert integration["external-doc-url"] == urls["Documentation"]
    security = (ROOT / "SECURITY.md").read_text()
    assert re.findall(r"gh attestation verify \S+ --repo (\S+)", security) == [urls["Source"].partition(".com/")[2]]
    named = re.findall(r"`(tests/\S+\.py|docs/\S+\.md|\.github/\S+)`", security)
    assert len(named) >= 4
    assert [path for path in named if not (ROOT / path).is_file()] == []


# Airflow's registry


def test_registry_lists_every_operator() -> None:
    folder = ROOT / "airflow_provider_analytics" / "operators"
    texts = [path.read_text() for path in folder.glob("*.py")]
    found = {name for text in texts for name in re.findall(r"^class ([A-Z]\w+Operator)\(", text, re.MULTILINE)}
    listed = {entry["module"].rpartition(".")[2] for entry in loaded(".airflow-registry.yaml")["operators"]}
    assert found - listed == {"AnalyticsBaseOperator", "ProviderBaseOperator", "ReconcilingOperator"}


def test_registry_file_claims_no_reader() -> None:
    head = (ROOT / ".airflow-registry.yaml").read_text().partition("package-name:")[0]
    assert "No registry reads it yet." in head


def test_project_is_beta_until_a_real_server_was_verified() -> None:
    assert "Development Status :: 4 - Beta" in PROJECT["classifiers"]
    assert "not with a vendor's product" in " ".join((ROOT / "README.md").read_text().split())


def test_server_template_asks_for_the_report_of_the_trial() -> None:
    fields = {
        field["id"]: field for field in loaded(".github", "ISSUE_TEMPLATE", "server.yml")["body"] if "id" in field
    }
    assert "try_your_service" in fields["trial"]["attributes"]["label"]
    assert fields["trial"]["validations"]["required"]


# Workflows


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_jobs_have_minimal_permissions_and_no_secret(workflow: Path) -> None:
    lines = re.findall(r"^ *-? *uses: (.*)$", workflow.read_text(), re.MULTILINE)
    assert len(lines) == len([step for step in steps(workflow) if step.get("uses")]) > 0
    pinned = re.compile(r"[\w-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\$/\.github/workflows/\w+\.yml")
    assert [line for line in lines if not pinned.fullmatch(line)] == []
    content = yaml.safe_load(workflow.read_text())
    assert content["permissions"] == {}
    assert all("permissions" in job for job in content["jobs"].values())
    assert "secrets." not in workflow.read_text()


def test_ci_runs_the_make_targets_and_uses_each_action_in_a_single_version() -> None:
    all_steps = [step for workflow in WORKFLOWS for step in steps(workflow)]
    used = {step["uses"] for step in all_steps if step.get("uses")}
    assert len(used) == len({action.partition("@")[0] for action in used})
    commands = [step.get("run", "") for step in all_steps]
    assert {".ci/run", "make dist TAGGED=1"} <= {*commands}
    called = {target for command in commands for target in re.findall(r"^make ([\w-]+)", command)}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert called <= targets


def test_ci_runs_on_every_claimed_python() -> None:
    jobs = loaded(".github", "workflows", "ci.yml")["jobs"]
    image = re.fullmatch(r"python:(3\.\d+)-bookworm@sha256:[0-9a-f]{64}", jobs["suite"]["container"])
    assert image, "a tag can be moved to another image"
    suite = image[1]
    claimed = {found[1] for line in PROJECT["classifiers"] if (found := re.search(r"Python :: (3\.\d+)$", line))}
    tested = {suite, *jobs["python"]["strategy"]["matrix"]["python"]}
    assert claimed < tested
    assert tested - claimed == {"3.14"}, "tested ahead of the claim"


def test_only_checked_packages_are_published() -> None:
    jobs = loaded(".github", "workflows", "release.yml")["jobs"]
    assert jobs["ci"]["uses"].endswith("/ci.yml")
    assert [jobs[name]["needs"] for name in ("build", "publish", "announce")] == ["ci", "build", "publish"]
    can_publish = [name for name, job in jobs.items() if "id-token" in job["permissions"]]
    assert can_publish == ["publish"]


def test_every_module_names_its_license() -> None:
    line = f"# SPDX-License-Identifier: {PROJECT['license']}"
    modules = [
        path for folder in ("airflow_provider_analytics", "scripts", "tests") for path in ROOT.glob(f"{folder}/**/*.py")
    ]
    assert len(modules) > 200
    assert not [path for path in modules if path.read_text().strip() and line not in path.read_text().splitlines()[:2]]


#: The first versions without a known denial of service by a response.
SAFE = {"urllib3": "2.6.3", "requests": "2.32.4", "idna": "3.7"}


@pytest.mark.parametrize("tools", ["release", "docs", "uv"])
def test_every_pin_of_a_tool_has_hashes(tools: str) -> None:
    text = (ROOT / "constraints" / f"{tools}.txt").read_text()
    pins = [pin for pin in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if pin]
    assert len(pins) >= (1 if tools == "uv" else 20)
    for pin in pins:
        requirement, *hashes = pin.split("--hash=")
        assert re.fullmatch(r"==[^*]+", str(Requirement(requirement.replace("\\", "").strip()).specifier))
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}[\s\\]*", hashe) for hashe in hashes)


def test_tools_are_installed_only_with_hashes() -> None:
    recipes = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in recipes.splitlines() if re.search(r"pip (install|sync)", line)]
    # The environments of the tests have pins without hashes.
    tools = [line for line in installs if "--python $(PY)" not in line and "--python .venv" not in line]
    assert len(tools) == 2
    assert all("--require-hashes" in line for line in tools)
    assert not re.search(r"pip install(?!.*--requirement).* uv\b", recipes)


def floors() -> dict[str, str]:
    """Return the lowest version of each dependency that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {}
    for text in project["dependencies"]:
        requirement = Requirement(text)
        [lowest] = [item.version for item in requirement.specifier if item.operator == ">="]
        found[str(canonicalize_name(requirement.name))] = lowest
    return found


def test_lowest_version_of_each_dependency_is_declared_and_safe() -> None:
    assert floors().items() >= SAFE.items()


def test_wire_tests_run_on_the_lowest_versions() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints" / "floors.txt").read_text(), re.MULTILINE))
    declared = floors()
    assert {name: pinned[name] for name in SAFE} == SAFE
    assert declared.keys() <= pinned.keys()
    older = [name for name, version in declared.items() if Version(pinned[name]) < Version(version)]
    assert older == []
    assert "run: make test-floors" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()


TABLE = (ROOT / "constraints" / "test_runs.md").read_text("utf-8").partition("<!-- begin runs")[2]


def test_every_pinned_airflow_was_run_without_a_failure() -> None:
    rows = [re.split(r" *\| *", line.strip("| ")) for line in TABLE.splitlines() if line.startswith("| ")]
    table = {(airflow, python): cells for airflow, python, *cells in rows}
    for cell in matrix.pinned():
        discovery, *suites, samples = table[cell.airflow, cell.python]
        assert discovery == "yes"
        for counts in suites:
            assert re.fullmatch(r"[\d,]+(, \d+ skipped)?", counts), f"{cell}: {counts}"
        assert int(samples.partition(" of ")[0]) > 0


def test_readme_claims_only_tested_versions() -> None:
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    airflows = [cell.airflow for cell in matrix.pinned()]
    pythons = sorted({cell.python for cell in matrix.pinned()})
    minor = [version.rpartition(".")[0] for version in airflows]
    assert (
        f"Airflow {minor[0]} to {matrix.newest().rpartition('.')[0]} and Python {pythons[0]} to {pythons[-1]}" in readme
    )
    assert "docs/reference/compatibility.md" in readme
    assert f'apache-airflow>={minor[0]}"' in (ROOT / "pyproject.toml").read_text("utf-8")
