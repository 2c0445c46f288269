# SPDX-License-Identifier: Apache-2.0
"""The public surface as text: ``docs/reference/public_api.txt``, written by ``make generate``.

A change of a line is a change of the surface: see CONTRIBUTING.md, Public surface.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from airflow_provider_analytics import commands, exceptions
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE, get_provider_info
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.reconcile.desired import tables, websites_file
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots import manifest
from airflow_provider_analytics.snapshots.formats import COLUMNS

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = "airflow_provider_analytics"
#: Module to its public names, besides the operators and the exceptions.
NAMES = {
    "hooks.analytics": ["AnalyticsHook"],
    "operators.task_groups": ["exclusion_list", "websites_as_code"],
    "operators.snapshots": ["snapshot_asset"],
    "operators.exclusions": ["chunk_websites"],
    "sandbox.server": ["SandboxServer"],
    "snapshots.catalog": ["Entry", "Snapshot", "list_snapshots", "newest_snapshot", "read_snapshot"],
    "snapshots.retention": ["remove_snapshot"],
}


def render() -> str:
    """Return the text."""
    sections = {
        "Operators: arguments": operators(),
        "Operators: keys of the return value": returned(),
        "Functions and classes": names(),
        "Exceptions": raised(),
        "Connection": connection(),
        "Guards: names for override_guards": iter(GUARDS),
        "Columns of a snapshot": (f"{name}: {kind}" for name, kind in COLUMNS.items()),
        "Files": files(),
        "Commands": commands_of_the_shell(),
        "Extras of the package": extras(),
    }
    parts = [f"{title}\n{'-' * len(title)}\n{chr(10).join(lines)}\n" for title, lines in sections.items()]
    return "Written by `make generate`. A change needs a line in CHANGELOG.md, see CONTRIBUTING.md.\n\n" + "\n".join(
        parts
    )


def operators() -> Iterator[str]:
    """Yield the import path of each operator, with its arguments and their defaults."""
    for kind in _operators():
        arguments = ", ".join(_arguments(kind))
        yield f"{kind.__module__}.{kind.__name__}({arguments})"


def returned() -> Iterator[str]:
    """Run each operator against the sandbox, and yield the keys of what it returns."""
    with (
        SandboxServer() as sandbox,
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, sandbox.connection_env),
    ):
        sandbox.seed(1)
        day = {"partition_date": "2026-01-01", "on_late": "publish"}
        file = {"config": {"websites": {sandbox.websites()[0]["domain"]: {"email": True}}}}
        given: dict[str, dict[str, Any]] = {
            "CreateWebsite": {"domain": "new.example"},
            "UpdateWebsite": {"website_id": 1, "email_reports": True},
            "SnapshotWebsites": {"base_path": folder, **day},
            "CompareSnapshots": {"base_path": folder},
            "PruneSnapshots": {"base_path": folder, "keep_days": 1},
            "PlanWebsites": file,
            "ApplyWebsites": file,
            "CheckDrift": {**file, "on_drift": "log"},
            "ExportWebsites": {"output_path": f"{folder}/websites.yaml"},
        }
        for kind in _operators():
            name = kind.__name__.removesuffix("Operator")
            arguments = given.get(name, {})
            if hasattr(kind, "field"):
                arguments = {kind.field: list(LINE_FIELDS[kind.field].examples)}
            elif name not in given and "website_id" in inspect.signature(kind).parameters:
                arguments = {"website_id": 1}
            sandbox.reset()  # the operator before might have deleted the website
            sandbox.seed(1)
            try:
                found = kind(task_id="task", **arguments).execute({})
            except Exception as error:
                raise SystemExit(_missing_argument(kind, error)) from error
            keys = "a record of the service" if name in ("GetWebsite", "GetAccount") else ", ".join(_keys(found))
            yield f"{kind.__name__}: {keys}"


def _missing_argument(kind: type, error: Exception) -> str:
    """Return the places to edit if an operator lacks an argument, or a value for it."""
    module = f"{kind.__module__.replace('.', '/')}.py"
    reason = str(error).partition("\n")[0].rstrip(".")
    return (
        f"{kind.__name__} failed: {reason}. If you added a field, add its argument to the signature and __init__ of "
        f"{kind.__name__} in {module}. If you added a required argument, add a value to `given` in "
        "scripts/public_api.py. Then run make generate again."
    )


def _keys(value: Any) -> Iterator[str]:
    """Yield the keys of a dict, and of the dicts within it, except those of records of the service; or another type."""
    if not isinstance(value, Mapping):
        yield f"({type(value).__name__})"
        return
    for key, inner in value.items():
        yield key
        if isinstance(inner, Mapping) and key not in ("website", "account"):
            yield from (f"{key}.{item}" for item in inner if not str(item).isdigit())


def names() -> Iterator[str]:
    """Yield the import path of each public function, and of each class with its methods."""
    for module, found in NAMES.items():
        for name in found:
            path = f"{PACKAGE}.{module}.{name}"
            element = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
            yield f"{path}{_signature(element)}"
            for method, function in inspect.getmembers(element, callable) if inspect.isclass(element) else ():
                is_own = str(getattr(function, "__module__", "")).startswith(PACKAGE)
                if is_own and not method.startswith("_") and not inspect.isclass(function):
                    yield f"    .{method}{_signature(function)}"


def raised() -> Iterator[str]:
    """Yield each exception with its base class and the attributes that its arguments set."""
    for found in vars(exceptions).values():
        if inspect.isclass(found) and issubclass(found, exceptions.AnalyticsError):
            yield f"{found.__name__}({found.__mro__[1].__name__}): {', '.join(inspect.signature(found).parameters)}"


def connection() -> Iterator[str]:
    """Yield the type of the connection and its extras."""
    yield f"type: {CONNECTION_TYPE['connection-type']}"
    yield f"extras: {', '.join(CONNECTION_TYPE['conn-fields'])}"


def files() -> Iterator[str]:
    """Yield the versions and keys of the files that other programs read, or that people write."""
    yield f"manifest, version {manifest.VERSION}: {', '.join(manifest.Manifest.__struct_fields__)}"
    yield f"_latest.json, version {manifest.VERSION}: {', '.join(manifest.IN_LATEST)}, manifest, digest, files"
    yield f"table of a list, version {tables.VERSION}"
    schema = websites_file.schema()
    for place, found in {
        "file of websites": schema,
        "its defaults and groups": schema["definitions"]["settings"],
        "its websites": schema["definitions"]["website"],
    }.items():
        yield f"{place}: {', '.join(found['properties'])}"


def commands_of_the_shell() -> Iterator[str]:
    """Yield each command with its arguments."""
    yield commands.EXIT_STATUSES
    for name in commands.COMMANDS:
        parser = argparse.ArgumentParser(add_help=False, epilog="")
        importlib.import_module(f"{PACKAGE}.commands.{name}").add_arguments(parser)
        found = [(action.option_strings or [action.dest.upper()])[-1] for action in parser._actions]
        yield f"airflow-provider-analytics {name} {' '.join(found)}"


def extras() -> Iterator[str]:
    """Yield the extras of the package."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from project["optional-dependencies"]


def _operators() -> Iterator[type[Any]]:
    for group in get_provider_info()["operators"]:
        for name in group["python-modules"]:
            for found in vars(importlib.import_module(name)).values():
                is_own = getattr(found, "__module__", "") == name and not found.__name__.startswith("_")
                if is_own and inspect.isclass(found) and hasattr(found, "execute"):
                    yield found


def _arguments(kind: type[Any]) -> Iterator[str]:
    """Yield the arguments of an operator that are not those of every Airflow task, sorted."""
    found: dict[str, inspect.Parameter] = {}
    for item in reversed(kind.__mro__):
        if item.__module__.startswith(PACKAGE) and "__init__" in vars(item):
            found |= {
                name: parameter
                for name, parameter in inspect.signature(vars(item)["__init__"]).parameters.items()
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY
            }
    for name, parameter in sorted(found.items()):
        yield name if parameter.default is parameter.empty else f"{name}={parameter.default!r}"


def _signature(found: Callable[..., Any]) -> str:
    """Return the parameters of a function or class, without annotations."""
    parameters = [
        element.replace(annotation=inspect.Parameter.empty)
        for name, element in inspect.signature(found).parameters.items()
        if name not in ("self", "cls")
    ]
    return str(inspect.Signature(parameters))
