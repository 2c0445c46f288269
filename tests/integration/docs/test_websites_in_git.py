"""docs/websites_in_git.md, the whole way: its workflows in a real repository, its DAG, and a sandbox.

Whoever proposes a change runs no code beside the key of the pipeline that plans it.
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

#: What stands in for the hosts: each program writes what it was called with, and answers with the stored digest.
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
"""
INSTALL = re.compile(
    r'"\S+/bin/pip" install --quiet airflow-provider-analytics==\S+ apache-airflow==[\d.]+'
    "|pip --isolated install --quiet awscli"
)
#: Modules that Python, pip, Airflow or this package imports. ``-m`` and ``-c`` take them from the current folder first.
MODULES = (
    "airflow", "airflow_provider_analytics", "ensurepip", "json", "logging", "msgspec", "pip", "pydantic", "requests",
    "runpy", "sitecustomize", "subprocess", "types", "usercustomize", "venv", "yaml",
)  # fmt: skip
HOSTILE = "import os\nwith open(os.environ['STOLEN'], 'a') as file:\n    print(__name__, dict(os.environ), file=file)\n"
FILES = {
    "client_a.yaml": "defaults: {privacy: private}\nwebsites:\n  www.client-a.example:\n",
    "client_b.yaml": "websites:\n  www.client-b.example: {privacy: public, favorite: true}\n",
}


class Repository:
    """A repository, and the machine that runs its workflows."""

    def __init__(self, folder: Path, state: Path, connection: str) -> None:
        self.folder, self.state = folder, state
        programs = state / "bin"
        programs.mkdir(parents=True)
        for name in ("gh", "aws", "curl"):
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
        # What the author of a change may leave: modules, and links with the names of files that a job may write.
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


def script_of(host: str, job: str, blocks: list[str]) -> str:
    """Return what a job runs, without the installation of packages. Each step of GitHub begins in the checkout."""
    workflow = yaml.safe_load(blocks[["github", "gitlab"].index(host)])
    if host == "github":
        script = "\n".join(f"({step['run']})" for step in workflow["jobs"][job]["steps"] if "run" in step)
    else:
        script = "\n".join(workflow[job]["script"])
    script = INSTALL.sub("true", script)
    assert "pip" not in script
    return script


@pytest.fixture
def repository(tmp_path: Path, analytics_sandbox: SandboxServer) -> Repository:
    analytics_sandbox.add_website("www.client-a.example", privacy="public")
    return Repository(tmp_path / "repository", tmp_path / "state", analytics_sandbox.connection_json())


@pytest.fixture
def applied(run_dag: RunDag, blocks: Callable[[str, str], list[str]]) -> Callable[[Repository], DagOutcome]:
    """Run the DAG of the page with what the workflow has sent to Airflow."""

    def run(repository: Repository) -> DagOutcome:
        [code] = [one for one in blocks("websites_in_git", "python") if "DAG(" in one]
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
@pytest.mark.parametrize("world", ["stays", "changes"])
@pytest.mark.chosen(1)
def test_what_was_reviewed_is_applied_and_no_code_of_the_checkout_runs(
    host: str,
    world: str,
    repository: Repository,
    blocks: Callable[[str, str], list[str]],
    applied: Callable[[Repository], DagOutcome],
    analytics_sandbox: SandboxServer,
) -> None:
    workflows = blocks("websites_in_git", "yaml")
    head = repository.commit(FILES)
    planned = repository.run(script_of(host, "plan", workflows), **variables(head, ""))
    assert planned.returncode == 0, planned.stderr
    digest = (repository.state / "digest").read_text()
    [markdown] = repository.state.rglob("plan.md")
    assert digest in markdown.read_text()
    assert len(analytics_sandbox.websites()) == 1

    started = repository.run(script_of(host, "apply", workflows), **variables(head, repository.merge()))
    assert not (repository.state / "stolen").exists()
    assert started.returncode == 0, started.stderr
    assert not (repository.state / "overwritten").exists()
    if world == "changes":
        analytics_sandbox.add_website("www.client-b.example", privacy="public")
    before = analytics_sandbox.websites()
    outcome = applied(repository)
    if world == "changes":
        assert outcome.tasks["apply"].state == "failed"
        assert analytics_sandbox.websites() == before
    else:
        assert outcome.tasks["apply"].returned["applied"] == 2
        assert outcome.tasks["apply"].returned["digest"] == digest
        assert outcome.tasks["apply"].returned["verified"]


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_a_file_with_a_problem_stops_the_request(
    host: str, repository: Repository, blocks: Callable[[str, str], list[str]], analytics_sandbox: SandboxServer
) -> None:
    head = repository.commit({**FILES, "client_c.yaml": "websites:\n  www.client-a.example: {privcy: 1}\n"})
    planned = repository.run(script_of(host, "plan", blocks("websites_in_git", "yaml")), **variables(head, ""))
    assert planned.returncode == 1
    assert not (repository.state / "calls").exists()
    assert not analytics_sandbox.requests
