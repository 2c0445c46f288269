# SPDX-License-Identifier: Apache-2.0
"""Typical changes: an incomplete change fails a test that names the places to edit.

Operators are tested in ``operators/test_operator_classes.py`` and in the registry test of ``test_repository_files.py``.
This file tests the fields of a website, list parameters, operations, file formats with their extras, guards, and
secrets of a connection. Nearly all places derive their fields from the table in ``api/fields.py``; the others, which
people and type checkers read, are compared here. CONTRIBUTING lists the places of each change.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self
from unittest import mock

import contract_table
import pytest
import scenario
from field_values import VALUES
from reference import signature_of
from sync_operators import SYNC_OPERATORS
from wire_client import client_of

import airflow_provider_analytics
from airflow_provider_analytics.api import listing
from airflow_provider_analytics.api.client import AnalyticsClient, WriteResult
from airflow_provider_analytics.api.fields import (
    LINE_FIELDS,
    OPERATIONS,
    PASSWORD_FROM,
    WEBSITE_FIELDS,
    CreateSettings,
    ListFilters,
    Operation,
    UpdateSettings,
    same_setting,
)
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.waiting import Stats
from airflow_provider_analytics.exceptions import MissingPackageError
from airflow_provider_analytics.get_provider_info import get_provider_info
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.base import ARGUMENTS
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.sandbox.laravel import LIST_PARAMETERS
from airflow_provider_analytics.sandbox.service import Service
from airflow_provider_analytics.sandbox.store import generate_websites
from airflow_provider_analytics.snapshots import formats
from airflow_provider_analytics.snapshots.formats import COMPRESSIONS, FORMATS, check_format
from airflow_provider_analytics.snapshots.manifest import Manifest

CHECKOUT = Path(__file__).parents[2]

#: List parameters that might move rows of a list of several pages, and parameters that do not select: for the latter,
#: the order of the rows is part of the proof. The others are named as stable, or the list is read in both directions.
MOVES_ROWS = {"favorite"}
SELECTS_NOTHING = {"sort_by", "sort", "per_page"}


def text_of(path: str) -> str:
    return (CHECKOUT / path).read_text()


def source_of(path: str, line: str) -> str:
    """Return the part of a test file that contains this line."""
    return next(part for part in text_of(f"tests/{path}").split("\n\n") if line in part)


def page(name: str) -> str:
    return text_of(f"docs/{name}")


def parameters(function: Callable[..., object]) -> set[str]:
    """Return the arguments that a function has and documents."""
    return {*signature_of(function).parameters} & {*re.findall(r":param (\w+):", inspect.getdoc(function) or "")}


PLACES_OF_A_LIST_PARAMETER: dict[str, Callable[[], object]] = {
    "the proof of the list (api/listing.py)": lambda: listing.STABLE_FILTERS | MOVES_ROWS | SELECTS_NOTHING,
    "hook.list_websites": lambda: parameters(AnalyticsHook.list_websites),
    "hook.iter_websites": lambda: parameters(AnalyticsHook.iter_websites),
    "ListWebsitesOperator": lambda: parameters(ListWebsitesOperator),
    "the sandbox": lambda: {parameter.name for parameter in LIST_PARAMETERS},
    "docs/reference/interface.md": lambda: page("reference/interface.md"),
    "tests/contract": contract_table.render,
}


@pytest.mark.parametrize("name", ListFilters.__annotations__)
@pytest.mark.parametrize("place", PLACES_OF_A_LIST_PARAMETER)
def test_list_parameter_is_in_each_place_that_needs_it(place: str, name: str) -> None:
    known = name in PLACES_OF_A_LIST_PARAMETER[place]()  # type: ignore[operator]
    assert known, f"{place} says nothing of {name}"


#: Methods of the hook that are no operation.
NO_OPERATION = {
    "client", "where", "get_conn", "close", "stop", "iter_websites", "find_website", "ensure_website",
    "test_connection", "get_ui_field_behaviour", "get_connection_form_widgets",
}  # fmt: skip
#: Operation to the step of the fuzzer that calls it, if the names differ; all steps read the account.
IN_THE_FUZZER = {"show": "find", "account": "list"}
PLACES_OF_AN_OPERATION: dict[str, Callable[[Operation], bool]] = {
    "the client (api/client.py)": lambda operation: hasattr(AnalyticsClient, operation.hook),
    "the hook (hooks/analytics.py)": lambda operation: hasattr(AnalyticsHook, operation.hook),
    "an operator (operators/, docs/operators.md)": lambda operation: operation.operator in page("operators.md"),
    "the sandbox (sandbox/service.py)": lambda operation: hasattr(Service, operation.hook),
    "tests/fuzzer/scenario.py, STEPS; IN_THE_FUZZER of this test": lambda operation: (
        IN_THE_FUZZER.get(operation.name, operation.name) in scenario.STEPS
    ),
    "the counted requests: run make requests": lambda operation: (
        f"`hook.{operation.hook}`" in page("reference/performance.md")
        or operation.operator in page("reference/performance.md")
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("place", PLACES_OF_AN_OPERATION)
def test_operation_is_in_each_place_that_needs_it(place: str, operation: Operation) -> None:
    assert PLACES_OF_AN_OPERATION[place](operation), f"{place} does not know the operation {operation.name}"


def test_method_of_the_hook_is_an_operation_of_the_table() -> None:
    own = {name for name in vars(AnalyticsHook) if not name.startswith("_") and not name.endswith(("_name", "_type"))}
    unknown = own - NO_OPERATION - {operation.hook for operation in OPERATIONS.values()}
    assert not {name for name in unknown if callable(getattr(AnalyticsHook, name))}, (
        "Add these methods of the hook to api/fields.py if they send the request of an operation, otherwise "
        "to NO_OPERATION."
    )


PLACES_OF_A_FORMAT: dict[str, Callable[[], str]] = {
    "SnapshotWebsitesOperator": lambda: inspect.getdoc(SnapshotWebsitesOperator) or "",
    "docs/snapshots.md": lambda: page("snapshots.md"),
    "the sizes of tests/snapshot_formats.md (make formats)": lambda: text_of("tests/snapshot_formats.md"),
    "Manifest (snapshots/manifest.py)": lambda: inspect.getdoc(Manifest) or "",
    "docs/loading.md": lambda: page("loading.md"),
    "tests/integration/snapshots/test_snapshot_readers.py, the readers that are tried": lambda: source_of(
        "integration/snapshots/test_snapshot_readers.py", "ALL = "
    ),
    "tests/integration/snapshots/test_snapshot_operator.py, the test of S3": lambda: source_of(
        "integration/snapshots/test_snapshot_operator.py", "def test_snapshot_in_s3"
    ),
    "tests/unit/snapshots/test_snapshot_formats.py, the growth per website": lambda: source_of(
        "unit/snapshots/test_snapshot_formats.py", "def test_ten_times_as_many_websites"
    ),
    "tests/system/test_recipes.py, the night of each format": lambda: text_of("tests/system/test_recipes.py"),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("place", PLACES_OF_A_FORMAT)
def test_file_format_is_in_each_place_that_needs_it(place: str, name: str) -> None:
    assert re.search(rf"\b{name}\b", PLACES_OF_A_FORMAT[place]()), f"{place} says nothing of {name}"


PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
#: Extras that snapshots need; each is installed by users, and named where they look for it.
EXTRAS = PROJECT["optional-dependencies"].keys() - {"sandbox"}


@pytest.mark.parametrize("choice", [*FORMATS, *COMPRESSIONS])
def test_library_of_a_file_format_is_an_extra(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(formats, "import_module", missing)
    try:
        check_format(*((choice, None) if choice in FORMATS else ("jsonl", choice)))
    except MissingPackageError as error:
        [package] = re.findall(r"pip install (\w+)", str(error))
        listed = " ".join(requirement for extra in EXTRAS for requirement in PROJECT["optional-dependencies"][extra])
        assert package in listed, f"pyproject.toml: add an extra with {package} to optional-dependencies"


PLACES_OF_AN_EXTRA: dict[str, Callable[[], str]] = {
    "docs/deployment.md": lambda: page("deployment.md"),
    "docs/snapshots.md": lambda: page("snapshots.md"),
    "SnapshotWebsitesOperator": lambda: inspect.getdoc(SnapshotWebsitesOperator) or "",
}


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_extra_of_the_package_is_documented_and_pinned(extra: str) -> None:
    for place, text in PLACES_OF_AN_EXTRA.items():
        assert f"`{extra}`" in text(), f"{place} says nothing of the extra {extra}"
    for pins in sorted((CHECKOUT / "constraints").glob("airflow-*.txt")):
        for requirement in PROJECT["optional-dependencies"][extra]:
            name = re.match(r"[\w.-]+", requirement)[0]  # type: ignore[index]
            assert re.search(rf"^{name}==", pins.read_text(), re.MULTILINE), f"{pins.name}: run make constraints"


def is_of_snapshots(guard: str) -> bool:
    return GUARDS[guard].startswith("a snapshot")


def code_of(part: str) -> str:
    package = Path(airflow_provider_analytics.__file__).parent
    return "".join(path.read_text() for path in (package / part).rglob("*.py"))


PLACES_OF_A_GUARD: dict[str, Callable[[str], str]] = {
    "docs/guards.md": lambda name: page("guards.md"),
    "the docstring of its operator": lambda name: code_of("operators"),
    "its check": lambda name: code_of("snapshots") if is_of_snapshots(name) else code_of("reconcile"),
}


@pytest.mark.parametrize("name", GUARDS)
@pytest.mark.parametrize("place", PLACES_OF_A_GUARD)
def test_guard_is_in_each_place_that_needs_it(place: str, name: str) -> None:
    assert re.search(rf"[`\"]{name}[`\"]", PLACES_OF_A_GUARD[place](name)), f"{place} says nothing of {name}"


MARKER = "a-marker-of-32-characters-1234567"
#: Settings that authenticate, with a value.
SECRETS: dict[str, Any] = {
    "api_key": MARKER,
    "headers": {"X-Any": MARKER},
    "proxies": {"https": f"http://user:{MARKER}@proxy:3128"},
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Settings) if not field.repr])
def test_connection_secret_is_hidden_and_named(name: str) -> None:
    """Another way to authenticate starts with a setting that is not printed."""
    assert name in SECRETS, f"SECRETS of this test does not know {name}"
    with client_of("https://stats.example", **{name: SECRETS[name]}) as client:
        assert MARKER not in client.redact(f"a {MARKER} b")
        assert MARKER not in str(client.for_output({"x": f"a {MARKER} b"}))
        assert MARKER not in repr(client.settings)
    named = {"api_key": "API key"}.get(name, name)
    for place in (str(get_provider_info()["connection-types"]), page("connection.md"), page("security.md")):
        assert named in place, f"the form, docs/connection.md and docs/security.md name {named}"


ON_CREATE = {field.name for field in WEBSITE_FIELDS if field.on_create}
ON_UPDATE = {field.name for field in WEBSITE_FIELDS if field.on_update}
GIVEN: dict[str, Any] = {"domain": "a.example", **{name: value.given for name, value in VALUES.items()}}
GIVEN["privacy"] = 2  # with a password, no other value is allowed


class Recorder:
    """A hook that answers every call and keeps its arguments."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, Any]] = {}
        self.stats = Stats()
        self.redact = Redactor()

    @property
    def client(self) -> Self:
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **arguments: Any) -> Any:
            self.calls[name] = arguments | ({"domain": args[0]} if args else {})
            return WriteResult({"id": 1})

        return call


def sent_by(operator: Any, **others: Any) -> set[str]:
    """Name the fields that an operator sends unchanged."""
    known, hook = inspect.signature(inspect.unwrap(operator.__init__)).parameters, Recorder()
    given = {ARGUMENTS.get(name, name): value for name, value in GIVEN.items()}
    given[PASSWORD_FROM] = "connection:page_password"
    secret = json.dumps({"conn_type": "generic", "password": GIVEN["password"]})
    with (
        mock.patch.dict(os.environ, {"AIRFLOW_CONN_PAGE_PASSWORD": secret}),
        mock.patch("airflow_provider_analytics.hooks.analytics.AnalyticsHook", return_value=hook),
    ):
        arguments = {name: value for name, value in given.items() if name in known}
        try:
            operator(task_id="task", **{**arguments, **others}).execute({})
        except AttributeError as error:
            places = "docstring, signature, and body of __init__"
            raise AssertionError(f"operators/websites.py, {operator.__name__}: {error}. Add it to: {places}") from error
    sent = hook.calls.get("ensure_website") or hook.calls["update_website"]
    return {name for name, value in sent.items() if name in GIVEN and same_setting(name, value, GIVEN[name])}


def lists_of_the_page() -> set[str]:
    page = (CHECKOUT / "docs" / "exclusions.md").read_text(encoding="utf-8")
    return {field for field, operator in SYNC_OPERATORS.items() if f"`{operator.__name__}`" in page}


#: Place, the expected names, and the names that are there.
PLACES: dict[str, tuple[set[str], Callable[[], Iterable[str]]]] = {
    "api/fields.py, CreateSettings": (ON_CREATE - {"domain"}, lambda: CreateSettings.__annotations__),
    "api/fields.py, UpdateSettings": (ON_UPDATE, lambda: UpdateSettings.__annotations__),
    "CreateWebsiteOperator": (ON_CREATE, lambda: sent_by(CreateWebsiteOperator)),
    "UpdateWebsiteOperator": (ON_UPDATE, lambda: sent_by(UpdateWebsiteOperator, website_id=1, domain=None)),
    "operators/exclusions.py, a class per list": (set(LINE_FIELDS), lambda: SYNC_OPERATORS),
    "docs/exclusions.md, the operator of each list": (set(LINE_FIELDS), lists_of_the_page),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_has_every_field(place: str) -> None:
    wanted, find = PLACES[place]
    found = set(find())
    assert not wanted - found, f"{place}: add {', '.join(sorted(wanted - found))}"
    assert not found - wanted, f"{place}: remove {', '.join(sorted(found - wanted))}"


def test_generated_websites_are_the_same_in_each_version() -> None:
    domains = [website["domain"] for website in generate_websites(250, seed=7)]
    assert (domains[2], domains[249]) == ("mellow-drum.example.com", "sunny-garden.example.org")


@pytest.mark.repository
def test_generated_files_are_up_to_date() -> None:
    """``make generate`` writes schemas, interface.md, and tables of documents."""
    command = [sys.executable, str(CHECKOUT / "scripts" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
