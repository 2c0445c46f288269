# SPDX-License-Identifier: Apache-2.0
"""docs/websites_in_git.md and examples/ci: the workflows in a real repository, the DAG, and a sandbox.

The author of a change runs no code beside the key of the pipeline that plans it.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from airflow.providers.common.compat.sdk import DAG
from dag_runs import DagOutcome, RunDag

from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = pytest.mark.slow  # starts processes that import Airflow

#: Replacements of the hosts' programs: each records its call, and responds with the stored digest.
PROGRAM = """\
#!{python}
import json, os, shutil, sys
from pathlib import Path
state, name, given = Path({state!r}), {name!r}, sys.argv[1:]
with (state / "calls").open("a") as calls:
    calls.write(json.dumps([name, *given]) + "\\n")
text = " ".join(given)
for one in given:
    if one.startswith("description="):
        (state / "digest").write_text(one.partition("=")[2])
    if one.startswith('{{"logical_date"'):
        (state / "conf").write_text(one)
if name == "aws":
    shutil.copytree(given[-2], given[-1].replace("s3://analytics-state", str(state)))
elif "/status --jq" in text:
    print((state / "digest").read_text())
elif "/statuses?name=" in text:
    print(json.dumps([{{"description": (state / "digest").read_text()}}]))
if name == "pip-of-the-test":
    (state / "environment of pip").write_text("\\n".join(os.environ))
"""
#: An installation: its programs, and their arguments.
INSTALL = re.compile(r'("[^"]+/bin/pip"|/\S+/bin/pip|pip\b)(?= (?:--\S+ )*install)')
#: Variables that only the step that needs them gets.
KEY = "AIRFLOW_CONN_ANALYTICS_DEFAULT"
#: Modules that Python, pip, Airflow, or this package imports. ``-m`` and ``-c`` load them from the current folder
#: first.
MODULES = (
    "airflow", "airflow_provider_analytics", "ensurepip", "json", "logging", "msgspec", "pip", "pydantic", "requests",
    "runpy", "sitecustomize", "subprocess", "types", "usercustomize", "venv", "yaml",
)  # fmt: skip
HOSTILE = "import os\nwith open(os.environ['STOLEN'], 'a') as file:\n    print(__name__, dict(os.environ), file=file)\n"
FILES = {
    "client_a.yaml": "defaults: {privacy: private}\nwebsites:\n  www.client-a.example:\n",
    "client_b.yaml": "websites:\n  www.client-b.example: {privacy: public, favorite: true}\n",
}


CI = Path(__file__).parents[3] / "examples" / "ci"
#: Name of a host of repositories to its workflow.
WORKFLOWS = {host: (CI / f"{host}.yml").read_text(encoding="utf-8") for host in ("github", "gitlab")}


class Repository:
    """A repository, and the machine that runs its workflows."""

    def __init__(self, folder: Path, state: Path, connection: str) -> None:
        self.folder, self.state = folder, state
        programs = state / "bin"
        programs.mkdir(parents=True)
        for name in ("gh", "aws", "curl", "pip-of-the-test"):
            program = programs / name
            program.write_text(PROGRAM.format(python=sys.executable, state=str(state), name=name))
            program.chmod(0o755)
        self.env = {
            **os.environ,
            # The installed command is beside the Python of the tests.
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GITHUB_WORKSPACE": str(folder),
            "GITHUB_PATH": str(state / "path"),
            "RUNNER_TEMP": str(state),
            "STOLEN": str(state / "stolen"),
            "TMPDIR": str(state),
            "AIRFLOW_CONN_ANALYTICS_DEFAULT": connection,
            **{f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        (folder / "websites").mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("commit", "--quiet", "--allow-empty", "--message=begin")
        self.git("switch", "--quiet", "--create", "change")
        # Files that the author of a change might leave: modules, and links with the names of files that a job might
        # write.
        for name in MODULES:
            (folder / f"{name}.py").write_text(HOSTILE)
        packages = folder / ".venv" / "lib" / "python3" / "site-packages"
        packages.mkdir(parents=True)
        (packages / "hostile.pth").write_text("import yaml\n")
        for name in ("plan.md", "plan.txt", "codequality.json"):
            (folder / name).symlink_to(state / "overwritten")

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.env, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, files: dict[str, str]) -> str:
        for name, text in files.items():
            (self.folder / "websites" / name).write_text(text)
        self.git("add", "websites")
        self.git("commit", "--quiet", "--message=change")
        return self.git("rev-parse", "HEAD")

    def merge(self) -> str:
        self.git("switch", "--quiet", "main")
        self.git("merge", "--quiet", "--no-ff", "--message=merge", "change")
        return self.git("rev-parse", "HEAD")

    def run(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
        )


def script_of(host: str, job: str, state: Path) -> str:
    """Return the script of a job, with a replacement of pip. Each step of GitHub starts in the checkout."""
    workflow = yaml.safe_load(WORKFLOWS[host])
    if host == "github":
        steps = [step for step in workflow["jobs"][job]["steps"] if "run" in step]
        script = "\n".join(
            f"({step['run']})" if KEY in step.get("env", {}) else f"(unset {KEY}\n{step['run']})" for step in steps
        )
    else:
        script = "\n".join(workflow[job]["script"])
        if "environment" not in workflow[job]:
            script = f"unset {KEY}\n{script}"
        script = script.replace("/opt", str(state / "opt"))
    return INSTALL.sub("pip-of-the-test", script)


def jobs_before(host: str, job: str) -> list[str]:
    """Return a job with the jobs that it needs."""
    return [job] if host == "github" else ["install", job]


@pytest.fixture
def repository(tmp_path: Path, analytics_sandbox: SandboxServer) -> Repository:
    analytics_sandbox.add_website("www.client-a.example", privacy=0)
    return Repository(tmp_path / "repository", tmp_path / "state", analytics_sandbox.connection_json())


@pytest.fixture
def applied(run_dag: RunDag, blocks: Callable[[str, str], list[str]]) -> Callable[[Repository], DagOutcome]:
    """Run the DAG of the page with the data that the workflow has sent to Airflow."""

    def run(repository: Repository) -> DagOutcome:
        [code] = [block for block in blocks("websites_in_git", "python") if "DAG(" in block]
        file = repository.state / "websites_in_git.py"
        file.write_text(code.replace("s3://analytics-state", str(repository.state)))
        dag: DAG = runpy.run_path(str(file))["dag"]
        dag.task_dict["apply"].retries = 0
        return run_dag(dag, conf=json.loads((repository.state / "conf").read_text())["conf"])

    return run


def variables(head: str, commit: str) -> dict[str, str]:
    of_github = {"GITHUB_REPOSITORY": "a/b", "HEAD": head, "COMMIT": commit, "NUMBER": "7", "GH_TOKEN": "t"}
    api = {"CI_API_V4_URL": "https://host/api/v4", "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "7"}
    tokens = {"ANALYTICS_BOT_TOKEN": "t", "AIRFLOW_URL": "https://airflow", "AIRFLOW_TOKEN": "t"}
    return {**of_github, **api, **tokens, "CI_COMMIT_SHA": commit or head}


@pytest.mark.parametrize("host", ["github", "gitlab"])
@pytest.mark.parametrize("scenario", ["stays", "changes"])
@pytest.mark.chosen(1)
def test_reviewed_plan_is_applied_without_running_code_of_the_checkout(
    host: str,
    scenario: str,
    repository: Repository,
    applied: Callable[[Repository], DagOutcome],
    analytics_sandbox: SandboxServer,
) -> None:
    head = repository.commit(FILES)
    for job in jobs_before(host, "plan"):
        planned = repository.run(script_of(host, job, repository.state), **variables(head, ""))
        assert planned.returncode == 0, planned.stderr
    digest = (repository.state / "digest").read_text()
    [markdown] = repository.state.rglob("plan.md")
    assert digest in markdown.read_text()
    assert len(analytics_sandbox.websites()) == 1

    merged = repository.merge()
    for job in jobs_before(host, "apply"):
        started = repository.run(script_of(host, job, repository.state), **variables(head, merged))
        assert started.returncode == 0, started.stderr
    assert not (repository.state / "stolen").exists()
    assert not (repository.state / "overwritten").exists()
    if scenario == "changes":
        analytics_sandbox.add_website("www.client-b.example", privacy=0)
    before = analytics_sandbox.websites()
    outcome = applied(repository)
    if scenario == "changes":
        assert outcome.tasks["apply"].state == "failed"
        assert analytics_sandbox.websites() == before
    else:
        assert outcome.tasks["apply"].returned["applied"] == 2
        assert outcome.tasks["apply"].returned["digest"] == digest
        assert outcome.tasks["apply"].returned["verified"]


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_file_with_a_problem_stops_the_pull_request(
    host: str, repository: Repository, analytics_sandbox: SandboxServer
) -> None:
    head = repository.commit({**FILES, "client_c.yaml": "websites:\n  www.client-a.example: {privcy: 1}\n"})
    results = [
        repository.run(script_of(host, job, repository.state), **variables(head, ""))
        for job in jobs_before(host, "plan")
    ]
    assert results[-1].returncode == 1
    assert '["pip-of-the-test"' in (repository.state / "calls").read_text()
    assert len((repository.state / "calls").read_text().splitlines()) == 1
    assert not analytics_sandbox.requests


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_packages_are_installed_by_hashes_from_your_index_where_there_is_no_key(
    host: str, repository: Repository
) -> None:
    head = repository.commit(FILES)
    for job in jobs_before(host, "plan"):
        done = repository.run(script_of(host, job, repository.state), **variables(head, ""))
        assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in (repository.state / "calls").read_text().splitlines()]
    [install] = [call for call in calls if call[0] == "pip-of-the-test"]
    assert {"--require-hashes", "--only-binary=:all:", "--index-url=https://pypi.example.com/simple"} <= set(install)
    assert [item for item in install[1:] if not item.startswith("--")] == ["install"]
    assert "--requirement=ci/requirements.txt" in install
    environment = (repository.state / "environment of pip").read_text().splitlines()
    assert "PATH" in environment
    assert KEY not in environment


def test_workflows_install_nothing_beside_a_secret_and_pin_their_images() -> None:
    github, gitlab = map(yaml.safe_load, WORKFLOWS.values())
    for job in github["jobs"].values():
        assert "env" not in job
        for step in job["steps"]:
            assert not ("pip" in step.get("run", "") and "secrets." in str(step.get("env", {})))
    jobs = [job for job in gitlab.values() if isinstance(job, dict) and "script" in job]
    assert len(jobs) == 3
    for job in jobs:
        assert not ("environment" in job and "pip" in " ".join(job["script"]))
    images = re.findall(r"image: (\S+)", "\n".join(WORKFLOWS.values()))
    assert images
    assert all("@sha256:" in image for image in images)


def test_documented_requirements_name_every_program_with_its_version() -> None:
    page = (CI / "README.md").read_text(encoding="utf-8")
    [command] = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    assert {"--generate-hashes", "--only-binary", "--default-index"} <= set(command.split())
    [requirements] = re.findall(r"```text\n# ci/requirements\.in\n(.*?)```", page, re.DOTALL)
    named = [line for line in requirements.splitlines() if line]
    assert {line.partition("==")[0] for line in named} == {"airflow-provider-analytics", "apache-airflow", "awscli"}
    assert all(re.fullmatch(r"[a-z-]+==[0-9][0-9a-z.]+", line) for line in named)
