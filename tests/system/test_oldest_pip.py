# SPDX-License-Identifier: Apache-2.0
"""Commands of documents, such as docs/snapshots.md, that install packages: an old pip finds all versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from install_commands import install_commands

pytestmark = pytest.mark.slow

#: The pip in a new virtual environment of Python 3.11.0, which is the oldest that this package supports.
OLDEST_PIP = "22.3"


@pytest.fixture(scope="module")
def oldest_pip(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    venv = tmp_path_factory.mktemp("oldest_pip")
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = venv / "bin" / "pip"
    subprocess.run([str(pip), "install", "--quiet", f"pip=={OLDEST_PIP}"], check=True, env=environment)
    return pip


@pytest.mark.parametrize("command", install_commands())
def test_oldest_pip_resolves_the_install_command(
    command: str, oldest_pip: Path, wheel: Path, checkout: Path, environment: dict[str, str]
) -> None:
    command = re.sub(r"\bdist/\S+\.whl", str(wheel), command).replace("./airflow-provider-analytics[", f"{checkout}[")
    command = command.replace("airflow-provider-analytics/constraints/", "constraints/")
    command = command.replace("pip install", f"{oldest_pip} install --dry-run --quiet", 1)
    done = subprocess.run(
        ["bash", "-c", command], cwd=checkout, env=environment, stderr=subprocess.PIPE, text=True, timeout=550
    )
    assert done.returncode == 0, done.stderr
