"""Files for GitHub and for Airflow's registry: they name the project's places, and what is really there."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.common.compat.sdk import BaseHook, BaseOperator

from airflow_provider_analytics.get_provider_info import get_provider_info

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: What a reader opens.
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


def test_every_address_of_the_project_is_one_of_its_places() -> None:
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


def test_the_places_are_five() -> None:
    urls = PROJECT["urls"]
    assert urls.keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert urls["Homepage"] == urls["Source"]
    assert urls["Issues"] == f"{urls['Source']}/issues"
    assert urls["Changelog"] == f"{urls['Source']}/blob/main/CHANGELOG.md"


def test_airflow_is_told_where_the_documentation_is() -> None:
    [integration] = get_provider_info()["integrations"]
    assert integration["external-doc-url"] == PROJECT["urls"]["Documentation"]


def test_the_repository_of_an_attestation_is_the_projects() -> None:
    [named] = re.findall(r"gh attestation verify \S+ --repo (\S+)", (ROOT / "SECURITY.md").read_text())
    assert PROJECT["urls"]["Source"] == f"https://github.com/{named}"


def test_the_tests_that_hold_the_promises_about_keys_are_there() -> None:
    named = re.findall(r"`(tests/\S+\.py|docs/\S+\.md|\.github/\S+)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) >= 4
    assert [path for path in named if not (ROOT / path).is_file()] == []


# Airflow's registry


def test_the_registry_lists_every_operator_and_hook() -> None:
    listed = loaded(".airflow-registry.yaml")
    for room, base in (("operators", BaseOperator), ("hooks", BaseHook)):
        modules = [module for entry in get_provider_info()[room] for module in entry["python-modules"]]
        found = {
            f"{module}.{name}"
            for module in modules
            for name, value in vars(import_module(module)).items()
            if isinstance(value, type) and issubclass(value, base)
            if value.__module__ == module and not name.startswith("_")
        }
        assert {entry["module"] for entry in listed[room]} == found
        assert [entry for entry in listed[room] if not entry["description"].endswith(".")] == []


# Workflows


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_their_version(workflow: Path) -> None:
    lines = re.findall(r"^ *-? *uses: (.*)$", workflow.read_text(), re.MULTILINE)
    assert len(lines) == len([step for step in steps(workflow) if step.get("uses")]) > 0
    pinned = re.compile(r"[\w-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\$/\.github/workflows/\w+\.yml")
    assert [line for line in lines if not pinned.fullmatch(line)] == []


def test_an_action_has_the_same_commit_everywhere() -> None:
    used = {step["uses"] for workflow in WORKFLOWS for step in steps(workflow) if step.get("uses")}
    assert len(used) == len({action.partition("@")[0] for action in used})


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_gets_what_it_needs_and_no_secret(workflow: Path) -> None:
    content = yaml.safe_load(workflow.read_text())
    assert content["permissions"] == {}
    assert all("permissions" in job for job in content["jobs"].values())
    assert "secrets." not in workflow.read_text()


def test_the_ci_runs_what_a_maintainer_runs() -> None:
    commands = [step["run"] for step in steps(ROOT / ".github" / "workflows" / "ci.yml") if "run" in step]
    assert ".ci/run" in commands
    assert "make release-check" in commands


def test_every_target_that_is_called_exists() -> None:
    called = {
        target
        for workflow in WORKFLOWS
        for step in steps(workflow)
        for target in re.findall(r"^make ([\w-]+)", step.get("run", ""))
    }
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert called - targets - {"docs"} == set()  # the site brings its target with it


def test_the_ci_runs_on_every_python_that_is_claimed() -> None:
    jobs = loaded(".github", "workflows", "ci.yml")["jobs"]
    suite = jobs["suite"]["container"].partition(":")[2].partition("-")[0]
    claimed = {found[1] for line in PROJECT["classifiers"] if (found := re.search(r"Python :: (3\.\d+)$", line))}
    assert {suite, *jobs["python"]["strategy"]["matrix"]["python"]} == claimed


def test_nothing_is_published_that_was_not_checked() -> None:
    jobs = loaded(".github", "workflows", "release.yml")["jobs"]
    assert jobs["ci"]["uses"].endswith("/ci.yml")
    assert [jobs[name]["needs"] for name in ("build", "publish", "announce")] == ["ci", "build", "publish"]
    assert "make dist TAGGED=1" in [step.get("run") for step in jobs["build"]["steps"]]
    can_publish = [name for name, job in jobs.items() if "id-token" in job["permissions"]]
    assert can_publish == ["publish"]


# Forms


def test_the_form_for_a_bug_asks_for_what_is_needed() -> None:
    fields = {field["id"]: field for field in loaded(".github", "ISSUE_TEMPLATE", "bug.yml")["body"] if "id" in field}
    assert {"airflow", "provider", "answer"} <= fields.keys()
    assert all(fields[name]["validations"]["required"] for name in ("airflow", "provider"))
    assert "with the key removed" in fields["answer"]["attributes"]["label"]
