# SPDX-License-Identifier: Apache-2.0
"""docs/deployment.md: its commands run, and the rest is checked."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider_analytics import __version__
from airflow_provider_analytics.sandbox.server import SandboxServer

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "deployment.md").read_text()
#: The Airflow of the document.
AIRFLOW = "3.3.2"
#: Keys of the official chart that the document uses, as in the parameters reference of chart 1.22.
CHART = {
    "defaultAirflowRepository",
    "defaultAirflowTag",
    "airflowVersion",
    "executor",
    "extraEnvFrom",
    "config",
    "workers.celery.terminationGracePeriodSeconds",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


*_, REMOVE_ENTRIES, UNINSTALL = blocks("console")
COMMANDS = [line for block in blocks("console")[:-2] for line in block.splitlines()]
[DOCKERFILE] = blocks("dockerfile")
VALUES, SECRET = (yaml.safe_load(block) for block in blocks("yaml"))
#: The connection of the document, as an environment variable.
CONNECTION = SECRET["stringData"]["AIRFLOW_CONN_ANALYTICS_DEFAULT"]

#: Run a command in the environment of the document; the other arguments are environment variables.
Run = Callable[..., str]


@pytest.fixture(scope="module")
def service() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


@pytest.fixture(scope="module")
def run(
    uv: str, wheel: Path, environment: dict[str, str], service: SandboxServer, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """Run a command of the document: with its service, in an environment that contains only the documented packages."""
    home = tmp_path_factory.mktemp("deployment")
    programs = home / "venv" / "bin"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home / "venv")], check=True)
    # uv works like pip, in a tenth of the time.
    pip = programs / "pip"
    pip.write_text(f'#!/bin/sh\nexec {shlex.quote(uv)} pip "$@"\n')
    pip.chmod(0o755)
    base = {
        **environment,
        "PATH": f"{programs}:{environment['PATH']}",
        "VIRTUAL_ENV": str(home / "venv"),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "NO_PROXY": "127.0.0.1",
    }

    def run(command: str, **variables: str) -> str:
        answer = subprocess.run(
            ["bash", "-c", here(command, service).replace(f"dist/{wheel.name}", str(wheel))],
            env={**base, **variables},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert answer.returncode == 0, f"{command}\n{answer.stdout}"
        assert service.api_key not in answer.stdout
        return answer.stdout

    install, *_ = COMMANDS
    run(install)
    run("airflow db migrate")
    return run


def here(text: str, service: SandboxServer) -> str:
    """Return a text of the document with the service of these tests."""
    return text.replace("https://stats.example.com", service.url).replace('"KEY"', f'"{service.api_key}"')


def test_documented_commands_run_and_the_helm_secret_is_a_connection(run: Run, service: SandboxServer) -> None:
    said = {command: run(command) for command in COMMANDS}
    assert __version__ in said["airflow providers get airflow-provider-analytics"]
    assert "analytics" in said["airflow providers hooks"]
    [tested] = [answer for command, answer in said.items() if "connections test" in command]
    assert "Connection success!" in tested
    # The setting is available to the sample of the document.
    assert json.loads(run("airflow variables get analytics_instances").splitlines()[-1])[0] == "client_a"
    assert re.search(r"(?m)^analytics *\| 4", run("airflow pools list"))
    variable = {
        "AIRFLOW_CONN_ANALYTICS_DEFAULT": here(CONNECTION, service),
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    }
    assert "Connection success!" in run("airflow connections test analytics_default", **variable)


def test_uninstall_removes_the_entries_and_the_settings(run: Run, service: SandboxServer) -> None:
    service.seed(3)
    run("airflow connections delete analytics_default || true")  # of another test
    run("""
        mkdir -p $AIRFLOW_HOME/dags && cp dags/sync_excluded_ips.py $AIRFLOW_HOME/dags
        airflow variables set exclude_ips 203.0.113.7 && airflow pools set analytics 1 slots
    """)
    connection = here(CONNECTION, service)
    run(f"airflow connections add analytics_default --conn-json {shlex.quote(connection)}")
    run("airflow dags test sync_excluded_ips")
    assert all("203.0.113.7" in website["exclude_ips"] for website in service.websites())
    # A trigger needs a scheduler.
    run(REMOVE_ENTRIES.replace("dags trigger", "dags test"))
    assert not any("203.0.113.7" in (website["exclude_ips"] or "") for website in service.websites())
    run("rm $AIRFLOW_HOME/dags/sync_excluded_ips.py")
    *commands, package = UNINSTALL.splitlines()
    run("set -e\n" + "\n".join(commands))
    assert package == "pip uninstall airflow-provider-analytics"  # the other tests need it
    left = run("airflow connections list; airflow pools list; airflow variables list")
    assert re.findall(r"(?m)^(analytics_default|analytics|exclude_ips) ", left) == []


def test_helm_values_are_keys_of_the_chart_with_the_tested_versions() -> None:
    def names(values: dict[str, Any], before: str = "") -> Iterator[str]:
        for name, value in values.items():
            whole = f"{before}{name}"
            if whole in CHART or not isinstance(value, dict):
                yield whole
            else:
                yield from names(value, f"{whole}.")

    assert set(names(VALUES)) == CHART
    [source] = yaml.safe_load(VALUES["extraEnvFrom"])
    assert source["secretRef"]["name"] == SECRET["metadata"]["name"]
    assert VALUES["airflowVersion"] == AIRFLOW
    assert VALUES["defaultAirflowTag"] == f"{AIRFLOW}-{__version__}"
    # Otherwise, a second worker starts the task that the first one may still end.
    visible = VALUES["config"]["celery_broker_transport_options"]["visibility_timeout"]
    assert visible > VALUES["workers"]["celery"]["terminationGracePeriodSeconds"]
    pins = f"constraints/airflow-{AIRFLOW}.txt"
    assert {name for command in COMMANDS for name in re.findall(r"constraints/airflow-.*?\.txt", command)} == {pins}
    assert f"apache-airflow=={AIRFLOW}\n" in (ROOT / pins).read_text()


def test_documented_image_installs_the_wheel(run: Run, wheel: Path) -> None:
    image, user, copy, install, *_ = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    expected = (f"FROM apache/airflow:{AIRFLOW}", "USER airflow", f"COPY dist/{wheel.name} /tmp/")
    assert (image, user, copy) == expected
    extras = re.search(rf'"apache-airflow=={AIRFLOW}" "/tmp/{wheel.name}\[(.*)\]"', install)
    assert extras, install
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    # uv would download all of it again.
    run(install.removeprefix("RUN ").replace(" --no-cache-dir", "").replace("/tmp/", "dist/"))
    assert AIRFLOW in run("airflow version")
    assert blocks("sh")[0] == "pip wheel --no-deps --wheel-dir dist .\n"
