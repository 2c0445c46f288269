from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from airflow_versions import AIRFLOW_VERSION
from release_check import content_problems

from airflow_provider_analytics import __version__


@pytest.mark.chosen
def test_the_wheel_holds_what_is_expected_and_nothing_else(wheel: Path, checkout: Path) -> None:
    files = [path for path in (checkout / "airflow_provider_analytics").rglob("*") if path.is_file()]
    tracked = [str(path.relative_to(checkout)) for path in files if path.suffix != ".pyc"]
    packed = zipfile.ZipFile(wheel).namelist()
    assert content_problems(packed, tracked, f"airflow_provider_analytics-{__version__}") == []


def test_the_source_distribution_makes_the_same_wheel(wheel: Path, checkout: Path, uv: str, tmp_path: Path) -> None:
    subprocess.run([uv, "build", "--quiet", "--sdist", "--out-dir", str(tmp_path), str(checkout)], check=True)
    [archive] = tmp_path.glob("*.tar.gz")
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(archive)], check=True)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.fixture(scope="module")
def installed(
    checkout: Path,
    uv: str,
    wheel: Path,
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """The wheel and Airflow in a virtual environment of their own; ``installed("providers", "list")`` asks Airflow."""
    directory = tmp_path_factory.mktemp("clean")
    python = directory / "venv" / "bin" / "python"
    constraints = checkout / "constraints" / f"airflow-{AIRFLOW_VERSION}.txt"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(directory / "venv")], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", str(python), "--constraint", str(constraints)]
    subprocess.run([*install, str(wheel), f"apache-airflow=={AIRFLOW_VERSION}"], check=True)

    def ask(*arguments: str, **variables: str) -> str:
        answer = subprocess.run(
            [str(python), "-m", "airflow", *arguments],
            env={**environment, "AIRFLOW_HOME": str(directory), **variables},
            cwd=directory,
            capture_output=True,
            text=True,
            check=True,
        )
        return answer.stdout

    return ask


def rows(answer: str) -> list[dict[str, str]]:
    """Return what ``--output json`` prints after what Airflow logs."""
    found: list[dict[str, str]] = json.loads(answer[answer.index("[{") :])
    return found


def test_airflow_lists_the_provider(installed: Any) -> None:
    listed = rows(installed("providers", "list", "--output", "json"))
    [provider] = [row for row in listed if row["package_name"] == "airflow-provider-analytics"]
    assert provider["version"] == __version__


def test_airflow_lists_the_hook(installed: Any) -> None:
    listed = rows(installed("providers", "hooks", "--output", "json"))
    [hook] = [row for row in listed if row["connection_type"] == "analytics"]
    assert hook["class"] == "airflow_provider_analytics.hooks.analytics.AnalyticsHook"
    assert hook["hook_name"] == "Website Analytics"
