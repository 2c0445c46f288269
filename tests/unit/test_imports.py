"""What importing this package brings along, each looked at in an interpreter of its own."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import pytest

import airflow_provider_analytics

#: What only a running task needs; the rest (names, enums, constants) is small.
HEAVY = ("api.client", "api.listing", "api.transport", "hooks", "sandbox", "snapshots")

NEW_MODULES = """
import json, sys
{before}
known = set(sys.modules)
import {modules}
print("\\n" + json.dumps(sorted(set(sys.modules) - known)))
"""


def modules_in(package: str) -> list[str]:
    room = __import__(package, fromlist=["__path__"])
    return [package, *(found.name for found in pkgutil.walk_packages(room.__path__, f"{package}."))]


def brought_along(modules: list[str], before: str = "") -> set[str]:
    """Name the modules that importing ``modules`` loads beyond those that ``before`` has loaded."""
    code = NEW_MODULES.format(before=before, modules=", ".join(modules))
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(answer.stdout.splitlines()[-1]))


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("room", ["api", "reconcile", "snapshots"])
def test_the_pure_rooms_never_import_airflow(room: str) -> None:
    assert "airflow" not in packages(brought_along(modules_in(f"airflow_provider_analytics.{room}")))


def test_the_package_itself_imports_nothing() -> None:
    assert brought_along(["airflow_provider_analytics"], before="import __future__") == {"airflow_provider_analytics"}


def test_provider_info_imports_nothing_else() -> None:
    new = brought_along(["airflow_provider_analytics.get_provider_info"], before="import typing, __future__")
    assert packages(new) == {"airflow_provider_analytics"}


@pytest.mark.parametrize("room", ["operators"])
def test_dag_files_load_nothing_heavy(room: str) -> None:
    """DAG files are parsed every few seconds: operators cost no more than Airflow's own base class does."""
    base = "from airflow.providers.common.compat.sdk import BaseOperator, BaseOperatorLink, AirflowFailException"
    new = brought_along(modules_in(f"airflow_provider_analytics.{room}"), before=base)
    assert packages(new) - set(sys.stdlib_module_names) <= {"airflow_provider_analytics", "airflow"}
    assert not {
        name for name in new if name.startswith(tuple(f"airflow_provider_analytics.{heavy}" for heavy in HEAVY))
    }


def test_the_package_has_these_rooms() -> None:
    """A room that is renamed would silently leave the tests above."""
    found = {module.name for module in pkgutil.iter_modules(airflow_provider_analytics.__path__)}
    assert {"api", "reconcile", "snapshots", "hooks", "operators", "sandbox"} <= found
