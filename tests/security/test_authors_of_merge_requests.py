"""Whoever proposes a change of the files of websites: runs no code beside the key of the pipeline that plans it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = pytest.mark.slow  # starts processes that import Airflow

PAGE = Path(__file__).parents[2] / "docs" / "websites_in_git.md"
#: Modules that Python, pip, Airflow or this package imports. ``-m`` and ``-c`` take them from the current folder first.
MODULES = (
    "airflow", "airflow_provider_analytics", "ensurepip", "json", "logging", "msgspec", "pip", "pydantic", "requests",
    "runpy", "sitecustomize", "subprocess", "types", "usercustomize", "venv", "yaml",
)  # fmt: skip
HOSTILE = "import os\nwith open(os.environ['STOLEN'], 'a') as file:\n    print(__name__, dict(os.environ), file=file)\n"
#: What stands in for the programs of the hosts: it answers with a digest.
DIGEST = "0" * 64
PROGRAM = f"""#!/bin/sh
case "$*" in *statuses?name*) echo '[{{"description": "{DIGEST}"}}]' ;; *) echo {DIGEST} ;; esac
"""


def jobs() -> Iterator[Any]:
    """Yield the commands of each job of the page."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    github, gitlab = map(yaml.safe_load, blocks)
    for name, job in github["jobs"].items():
        steps = [f"({step['run']})" for step in job["steps"] if "run" in step]
        yield pytest.param("\n".join(steps), id=f"github-{name}")
    for name in gitlab["stages"]:
        yield pytest.param("\n".join(gitlab[name]["script"]), id=f"gitlab-{name}")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the change. Its links have the names of files that a job may write."""
    folder = tmp_path / "checkout"
    (folder / "websites").mkdir(parents=True)
    (folder / "websites" / "a.yaml").write_text("websites: {a.example: {privacy: private}}\n")
    for name in MODULES:
        (folder / f"{name}.py").write_text(HOSTILE)
    packages = folder / ".venv" / "lib" / "python3" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "hostile.pth").write_text("import yaml\n")
    for name in ("plan.md", "plan.txt", "codequality.json"):
        (folder / name).symlink_to(tmp_path / "overwritten")
    return folder


@pytest.mark.parametrize("script", [*jobs()])
@pytest.mark.chosen(1)
def test_no_module_of_the_change_is_imported(
    script: str, checkout: Path, tmp_path: Path, analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.add_website("a.example")
    programs, runner = tmp_path / "bin", tmp_path / "runner"
    programs.mkdir()
    runner.mkdir()
    for name in ("gh", "aws", "curl"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    script = re.sub(
        r'("\S+/bin)/pip" install --quiet airflow-provider-analytics==\S+ apache-airflow==[\d.]+',
        rf'ln -s {Path(sys.executable).with_name("airflow-provider-analytics")} \1/"',
        script,
    )
    script = script.replace("pip --isolated install --quiet awscli", "")
    assert "pip" not in script
    env = {
        **os.environ,
        **dict.fromkeys(("NUMBER", "HEAD", "COMMIT", "AIRFLOW_URL", "AIRFLOW_TOKEN", "CI_COMMIT_SHA"), "0"),
        # The first step of GitHub adds the second folder.
        "PATH": f"{programs}:{runner}/venv/bin:{os.environ['PATH']}",
        "AIRFLOW_CONN_ANALYTICS_DEFAULT": analytics_sandbox.connection_json(),
        "GITHUB_PATH": str(runner / "path"),
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_WORKSPACE": str(checkout),
        "RUNNER_TEMP": str(runner),
        "STOLEN": str(tmp_path / "stolen"),
        "TMPDIR": str(runner),
    }
    ended = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=checkout, env=env, capture_output=True, text=True
    )
    assert not (tmp_path / "stolen").exists()
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "overwritten").exists()
