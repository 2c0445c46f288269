# SPDX-License-Identifier: Apache-2.0
"""Provider info for Airflow (``get_provider_info.py``)."""

from __future__ import annotations

import json
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import airflow
import jsonschema
from airflow.providers_manager import ProvidersManager
from airflow_versions import hooks

import airflow_provider_analytics
from airflow_provider_analytics import __version__
from airflow_provider_analytics.get_provider_info import get_provider_info

PACKAGE = "airflow-provider-analytics"
#: Requirements of provider.yaml for Airflow's release managers, which provider info omits.
RELEASE_KEYS = {"state", "source-date-epoch", "dependencies"}
#: Keys that Airflow 2 does not know and ignores.
NEWER_KEYS = {"asset-uris", "cli"}
#: Modules that users do not import.
INTERNAL_MODULES = {
    "hooks": {"connection", "host_names"},
    "operators": {"base", "lineage", "links", "reconciling"},
}


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
    assert get_provider_info()["versions"] == [__version__] == [metadata.version(PACKAGE)]
    assert ProvidersManager().providers[PACKAGE].version == __version__  # type: ignore[no-untyped-call]
    hook = hooks()["analytics"]
    assert hook is not None
    assert hook.hook_name == "Website Analytics"
    assert hook.package_name == PACKAGE
    assert hook.connection_id_attribute_name == "analytics_conn_id"
    for connection_type in get_provider_info()["connection-types"]:
        module, _, name = connection_type["hook-class-name"].rpartition(".")
        assert getattr(import_module(module), name).conn_type == connection_type["connection-type"]
