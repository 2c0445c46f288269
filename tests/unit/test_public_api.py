# SPDX-License-Identifier: Apache-2.0
"""Public API, provider info, imports, and assets: what users and Airflow see of the package."""

from __future__ import annotations

import ast
import builtins
import difflib
import json
import pkgutil
import re
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import airflow
import jsonschema
import public_api
import pytest
from airflow.providers.common.compat.sdk import Asset
from airflow.providers_manager import ProvidersManager
from airflow_versions import (
    asset_handler,
    hooks,
    needs_no_partitions,
    needs_openlineage,
    needs_partitions,
    needs_what_is_measured,
)

import airflow_provider_analytics
from airflow_provider_analytics import __version__
from airflow_provider_analytics.assets import convert_asset_to_openlineage, sanitize_uri
from airflow_provider_analytics.get_provider_info import get_provider_info
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator, snapshot_asset
from airflow_provider_analytics.operators.websites import DeleteWebsiteOperator

CHECKOUT = Path(__file__).parents[2]
FILE = CHECKOUT / "docs" / "reference" / "public_api.txt"
PACKAGE = "airflow_provider_analytics"
SAMPLES = [*CHECKOUT.glob("dags/*.py"), *CHECKOUT.rglob("examples/**/*.py")]


@pytest.mark.repository
@needs_what_is_measured
def test_public_api_equals_the_documented_api() -> None:
    written, found = FILE.read_text(encoding="utf-8").splitlines(), public_api.render().splitlines()
    changes = "\n".join(difflib.unified_diff(written, found, "written", "found", lineterm="", n=0))
    assert not changes, (
        f"The public surface changed. Run make generate, and follow CONTRIBUTING.md, Public surface:\n{changes}"
    )


@pytest.mark.repository
def test_result_of_an_operator_is_the_same_after_a_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    operators = [DeleteWebsiteOperator, *public_api._operators()]
    monkeypatch.setattr(public_api, "_operators", lambda: operators)
    assert {*public_api.returned()} <= {*FILE.read_text(encoding="utf-8").splitlines()}


@pytest.mark.repository
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_imports_only_public_names(path: Path) -> None:
    public = {line.partition("(")[0] for line in FILE.read_text(encoding="utf-8").splitlines()}
    public |= {name.rpartition(".")[0] for name in public}  # modules
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            names = {f"{node.module}.{alias.name}".removeprefix(f"{PACKAGE}.exceptions.") for alias in node.names}
            assert names <= public


DISTRIBUTION = "airflow-provider-analytics"
#: Requirements of provider.yaml for Airflow's release managers, which provider info omits.
RELEASE_KEYS = {"state", "source-date-epoch", "dependencies"}
#: Keys that Airflow 2 does not know and ignores.
NEWER_KEYS = {"asset-uris", "cli"}
#: Modules that users do not import.
INTERNAL_MODULES = {"hooks": {"connection", "host_names"}, "operators": {"base", "lineage", "links", "reconciling"}}


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(airflow.__file__).parent / name).read_text())
    return found


def test_provider_info_is_read_by_airflow_and_follows_the_strict_schema() -> None:
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))
    strict = schema("provider.yaml.schema.json")
    strict["required"] = [key for key in strict["required"] if key not in RELEASE_KEYS]
    newer = NEWER_KEYS - strict["properties"].keys()
    jsonschema.validate({key: value for key, value in get_provider_info().items() if key not in newer}, strict)


def test_metadata_lists_each_public_module_of_hooks_and_operators() -> None:
    package = Path(airflow_provider_analytics.__file__).parent
    for folder, internal in INTERNAL_MODULES.items():
        [listed] = get_provider_info()[folder]
        names = {module.removeprefix(f"{package.name}.{folder}.") for module in listed["python-modules"]}
        assert names == {path.stem for path in (package / folder).glob("[!_]*.py")} - internal


def test_connection_form_hides_only_the_fields_that_no_connection_uses() -> None:
    """The test button of Airflow 2.11 reads the extra from the form, and does nothing if it is hidden."""
    [connection_type] = get_provider_info()["connection-types"]
    assert connection_type["ui-field-behaviour"]["hidden-fields"] == ["login", "schema"]


def test_airflow_discovers_the_provider_and_the_hook() -> None:
    assert get_provider_info()["versions"] == [__version__] == [metadata.version(DISTRIBUTION)]
    assert ProvidersManager().providers[DISTRIBUTION].version == __version__  # type: ignore[no-untyped-call]
    hook = hooks()["analytics"]
    assert hook is not None
    assert hook.hook_name == "Website Analytics"
    assert hook.package_name == DISTRIBUTION
    assert hook.connection_id_attribute_name == "analytics_conn_id"
    for connection_type in get_provider_info()["connection-types"]:
        module, _, name = connection_type["hook-class-name"].rpartition(".")
        assert getattr(import_module(module), name).conn_type == connection_type["connection-type"]


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


@pytest.mark.parametrize(
    ("arguments", "uri"),
    [
        ({}, "analytics://analytics_default/websites"),
        ({"analytics_conn_id": "stats"}, "analytics://stats/websites"),
        ({"snapshot_name": "favourites"}, "analytics://analytics_default/favourites"),
        ({"favorite": True}, "analytics://analytics_default/websites?favorite=true"),
        (
            {"favorite": False, "search": "a b&c"},
            "analytics://analytics_default/websites?favorite=false&search=a+b%26c",
        ),
    ],
)
def test_asset_identifies_the_list(arguments: dict[str, Any], uri: str) -> None:
    operator = SnapshotWebsitesOperator(task_id="a_task", base_path="/data", **arguments)
    assert operator.asset.uri == snapshot_asset(**arguments).uri == uri
    assert operator.outlets[0] is operator.asset


@needs_partitions
def test_second_outlet_is_the_partitioned_asset_that_users_cannot_pass() -> None:
    operator = SnapshotWebsitesOperator(task_id="a_task", base_path="/data", favorite=False, search="a b&c")
    second = snapshot_asset(favorite=False, search="a b&c", partitioned=True)
    assert operator.outlets == [operator.asset, second]
    assert "&partitioned=true" in second.uri
    with pytest.raises(ValueError, match=r"asset='analytics://.*partitioned=true' is not allowed. Allowed: "):
        SnapshotWebsitesOperator(task_id="a_task", base_path="/data", asset=snapshot_asset(partitioned=True))


def test_custom_asset_adds_no_partitioned_outlet() -> None:
    theirs = Asset("s3://bucket/websites")
    assert SnapshotWebsitesOperator(task_id="a_task", base_path="/data", asset=theirs).outlets == [theirs]


@needs_no_partitions
def test_partitioned_asset_is_rejected_before_airflow_3_3() -> None:
    with pytest.raises(ValueError, match=r"partitioned=True is not allowed before Airflow 3\.3"):
        snapshot_asset(partitioned=True)
    operator = SnapshotWebsitesOperator(task_id="a_task", base_path="/data")
    assert operator.outlets == [operator.asset]


@pytest.mark.parametrize("name", ["base_path", "snapshot_name", "search", "favorite", "analytics_conn_id"])
@pytest.mark.parametrize("template", ["{{ params.x }}", "a-{% if x %}b{% endif %}"])
def test_template_needs_an_asset_when_the_dag_is_parsed(name: str, template: str) -> None:
    arguments: dict[str, Any] = {"task_id": "a_task", "base_path": "/data", name: template}
    with pytest.raises(ValueError, match=rf"asset is required, because {name}="):
        SnapshotWebsitesOperator(**arguments)
    asset = snapshot_asset("stats")
    assert SnapshotWebsitesOperator(**arguments, asset=asset).asset is asset


def test_airflow_checks_asset_uris_of_the_scheme_analytics() -> None:
    assert asset_handler("analytics") is sanitize_uri


@pytest.mark.parametrize("uri", ["analytics://stats/", "analytics://stats/a/b", "analytics:///websites"])
def test_uri_without_a_dataset_is_rejected(uri: str) -> None:
    with pytest.raises(ValueError, match=r"Allowed: analytics://<connection id>/<snapshot_name>"):
        sanitize_uri(urlsplit(uri))


@needs_openlineage
def test_lineage_keeps_the_asset() -> None:
    from airflow.providers.openlineage.utils.utils import translate_airflow_asset  # type: ignore[import-not-found,unused-ignore]

    found: Any = translate_airflow_asset(Asset("analytics://stats/websites?favorite=true"), None)
    assert (found.namespace, found.name) == ("analytics://stats", "websites?favorite=true")
    assert convert_asset_to_openlineage(Asset("analytics://stats/websites"), None).name == "websites"
