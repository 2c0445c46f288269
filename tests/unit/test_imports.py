# SPDX-License-Identifier: Apache-2.0
"""Imports: which modules each part may import, and which modules the package loads in a separate process."""

from __future__ import annotations

import ast
import builtins
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_analytics
from airflow_provider_analytics.get_provider_info import get_provider_info

PACKAGE = "airflow_provider_analytics"
ROOT = Path(airflow_provider_analytics.__file__).parent

#: Folder or module of the package to its allowed imports, besides itself, ``exceptions`` and ``readable``.
MAY_IMPORT = {
    "__init__": set[str](),
    "exceptions": set(),
    "readable": set(),
    "randomness": set(),
    "guards": {"api"},
    "get_provider_info": {"SITE", "__version__"},
    "assets": set(),
    "storage": set(),
    "api": {"SITE", "__version__"},
    "reconcile": {"SITE", "api", "guards", "storage"},
    "snapshots": {"__version__", "api", "storage", "guards"},
    "hooks": {"api", "get_provider_info", "storage"},
    "operators": {"SITE", "api", "assets", "hooks", "reconcile", "snapshots", "storage", "guards"},
    "commands": {"__version__", "api", "hooks", "operators", "reconcile", "snapshots", "storage", "guards"},
    "__main__": {"commands"},
    "sandbox": {"__version__", "api"},
}
#: Folder of ``reconcile`` to the folders and modules of ``reconcile`` that it may import: the direction of the data.
MAY_IMPORT_IN_RECONCILE = {
    "desired": {"service_websites"},
    "plan": {"desired", "job"},
    "apply": {"audit_trail", "desired", "job", "plan", "service_websites"},
}
WITH_AIRFLOW = {"assets", "commands", "hooks", "operators"}

#: Modules that only a running task needs; the rest (names, enums, constants) is small.
HEAVY = ("api.client", "api.listing", "api.transport", "hooks", "sandbox", "snapshots", "storage")

NEW_MODULES = """
import json, sys
{before}
known = set(sys.modules)
import {modules}
print("\\n" + json.dumps(sorted(set(sys.modules) - known)))
"""


def imported(path: Path) -> set[str]:
    """Return the full names that a module imports anywhere, inside functions and for type checkers too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_import_only_allowed_layers(path: Path) -> None:
    part, names = path.relative_to(ROOT).parts[0].removesuffix(".py"), imported(path)
    assert part in MAY_IMPORT, "add a rule for it to MAY_IMPORT"
    own = {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")}
    assert own <= MAY_IMPORT[part] | {part, "exceptions", "randomness", "readable"}
    folder = path.parent.name
    if part == "reconcile" and folder in MAY_IMPORT_IN_RECONCILE:
        steps = {name.split(".")[2] for name in names if name.startswith(f"{PACKAGE}.reconcile.")}
        assert steps <= MAY_IMPORT_IN_RECONCILE[folder] | {folder}
    packages = {name.split(".")[0] for name in names - {"http.HTTPStatus"}}
    assert part in WITH_AIRFLOW or "airflow" not in packages
    # Only the transport sends requests; host names are looked up beside it, and the watchdog shuts its sockets. The
    # module of its errors knows the exceptions of these packages.
    if part != "sandbox" and path.name not in ("transport.py", "connection_errors.py"):
        # laravel.py parses a header with the library's function.
        allowed = {"socket"} if path.name in ("host_names.py", "waiting.py") else set()
        packages -= {"requests"} if names >= {"requests.utils"} and "requests" not in names else set()
        assert {"requests", "urllib3", "http", "httpx", "socket"} & packages <= allowed
    # Every folder describes its content and its allowed imports.
    if path.name == "__init__.py" and path.parent != ROOT:
        assert "import" in (ast.get_docstring(ast.parse(path.read_text())) or "").lower()


def defined_names() -> tuple[set[str], set[str]]:
    """Return the names of folders, modules, and classes, and all other names that the package defines."""
    owners, names = set[str](), set(dir(builtins))
    for path in ROOT.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        owners |= {path.stem, path.parent.name, *re.findall(r"\bclass (\w+)", source)}
        names.update(re.findall(r"\bdef (\w+)", source))
        # A constant, an attribute, or the field of a dataclass.
        names.update(re.findall(r"(?:^ *|self\.|, )(\w+)(?:, \w+)*(?:: [^=\n]+)?(?: = |$)", source, re.MULTILINE))
    return owners, names


@pytest.mark.repository
def test_architecture_names_only_existing_modules() -> None:
    text = (ROOT.parent / "docs" / "internals" / "architecture.md").read_text()
    owners, names_of_code = defined_names()
    files = set(re.findall(r"\b(\w+\.py)\b", text))
    assert files <= {path.name for path in ROOT.rglob("*.py")}
    names = set(re.findall(r"`([A-Z]\w+|[a-z]+_[a-z_]+|\w+\.\w+)`", text)) - files - {"_manifest.json", "_latest.json"}
    assert len(names) > 10
    assert {name for name in names if name.rpartition(".")[2] not in owners | names_of_code} == set()


def modules_in(package: str) -> list[str]:
    found = __import__(package, fromlist=["__path__"])
    folder = getattr(found, "__path__", ())  # a module has none
    return [package, *(inner.name for inner in pkgutil.walk_packages(folder, f"{package}."))]


def brought_along(modules: list[str], before: str = "") -> set[str]:
    """Name the modules that importing ``modules`` loads beyond those that ``before`` has loaded."""
    code = NEW_MODULES.format(before=before, modules=", ".join(modules))
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(answer.stdout.splitlines()[-1]))


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_modules_without_airflow_never_load_it_and_the_package_loads_nothing() -> None:
    parts = ("api", "reconcile", "snapshots", "sandbox")
    modules = [module for part in parts for module in modules_in(f"{PACKAGE}.{part}")]
    assert "airflow" not in packages(brought_along(modules))
    assert brought_along([PACKAGE], before="import __future__") == {PACKAGE}
    new = brought_along([f"{PACKAGE}.get_provider_info"], before="import typing, __future__")
    assert packages(new) == {PACKAGE}


def test_dag_files_load_no_heavy_modules() -> None:
    """DAG files are parsed every few seconds, so operators may cost no more than Airflow's own base class."""
    base = "from airflow.providers.common.compat.sdk import BaseOperator, BaseOperatorLink, AirflowFailException"
    (integration,) = get_provider_info()["operators"]
    new = brought_along(integration["python-modules"], before=base)
    assert packages(new) - set(sys.stdlib_module_names) <= {PACKAGE, "airflow"}
    assert not {name for name in new if name.startswith(tuple(f"{PACKAGE}.{heavy}" for heavy in HEAVY))}


def test_references_in_docstrings_name_something_that_exists() -> None:
    owners, names = defined_names()
    missing = []
    for path in ROOT.rglob("*.py"):
        for reference in re.findall(r":(?:attr|class|data|exc|func|meth|mod):`~?\.?([\w.]+)`", path.read_text("utf-8")):
            *parents, name = reference.split(".")
            if parents != ["os"] and not (owners.issuperset(parents) and name in owners | names):
                missing.append(f"{path.relative_to(ROOT)}: {reference}")
    assert missing == []
