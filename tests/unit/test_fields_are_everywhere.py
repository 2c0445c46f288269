# SPDX-License-Identifier: Apache-2.0
"""Fields of a website: every place that needs them knows each field of the table in ``api/fields.py``.

Most places derive their fields from the table. The others (signatures and docstrings that people read in an editor,
SQL, the report, the sandbox's own table and seeds, the scenarios of the fuzzer, the statements of interface.md)
are compared here, with a case for each place. A failure names the place and the fields.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self
from unittest import mock

import contract_table
import duckdb
import pytest
import scenario
import shelf
import soak
from samples import sample

from airflow_provider_analytics.api.client import WriteResult
from airflow_provider_analytics.api.fields import (
    LINE_FIELDS,
    PASSWORD_FROM,
    RECORD_FIELDS,
    WEBSITE_FIELDS,
    CreateSettings,
    UpdateSettings,
    same_setting,
)
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators import exclusions, task_groups
from airflow_provider_analytics.operators.values import ARGUMENTS, check_value
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.reconcile.desired import websites_file
from airflow_provider_analytics.reconcile.records import SETTABLE_FIELDS
from airflow_provider_analytics.sandbox import form_fields as sandbox_fields
from airflow_provider_analytics.sandbox.seeds import generate_websites
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots import html_report
from airflow_provider_analytics.snapshots.rows import COLUMNS

CHECKOUT = Path(__file__).parents[2]
ALL = {field.name for field in WEBSITE_FIELDS}
ON_CREATE = {field.name for field in WEBSITE_FIELDS if field.on_create}
ON_UPDATE = {field.name for field in WEBSITE_FIELDS if field.on_update}
RECORDED = ALL & set(RECORD_FIELDS)
IN_FILES = ON_UPDATE - {"password"} | {PASSWORD_FROM}
#: A value of each kind, as the service returns it.
KINDS: dict[str, Any] = {"Domain": "a.example", "PrivacyFlag": 1, "Flag": 1, "Boolean": True, "Lines": "192.0.2.1"}
VALUES = {field.name: KINDS.get(type(field).__name__, "a text") for field in WEBSITE_FIELDS}
VALUES["privacy"] = 2  # with a password, no other value is allowed
#: Fields of the first version; a warehouse table has a column for each of them.
FIRST = {"domain", "privacy", "email", "exclude_bots", "exclude_params", "exclude_ips", "favorite"}
DUCKDB, LOADING = "dags/load_snapshot_into_duckdb.py", "docs/loading.md"
#: Warehouse to the types of its columns: string, integer, and boolean.
TYPES = {
    "DuckDB": ("VARCHAR", "BIGINT", "BOOLEAN"),
    "PostgreSQL": ("text", "bigint", "boolean"),
    "BigQuery": ("STRING", "INT64", "BOOL"),
    "Snowflake": ("VARCHAR", "NUMBER", "BOOLEAN"),
    "Redshift": (r"VARCHAR\(\d+\)", "BIGINT", "BOOLEAN"),
}
#: File, warehouse, and place in its SQL, to a pattern: ``{}`` is the field, and ``{type}`` its type there.
SQL = {
    (DUCKDB, "DuckDB", "CREATE TABLE websites"): r"TABLE IF NOT EXISTS websites \([^;]*\b{} {type}",
    (DUCKDB, "DuckDB", "the columns of LOAD"): r"columns = \{{[^}}]*\b{}: '{type}'",
    (DUCKDB, "DuckDB", "row(...) AS settings in website_history"): r"row\([^)]*\b{}\b[^)]*\) AS settings",
    (DUCKDB, "DuckDB", "the last SELECT of website_history"): (
        r"SELECT source, id, version,[^;]*\b{}\b[^;]*AS valid_from"
    ),
    (LOADING, "PostgreSQL", "CREATE TABLE"): r"CREATE TABLE websites \([^;]*\b{} {type}",
    (LOADING, "PostgreSQL", "the columns of copy, in the order of the file"): r"\\copy websites \([^)]*\b{}\b",
    **{
        (f"examples/warehouses/{warehouse.lower()}.sql", warehouse, "CREATE TABLE"): (
            r"CREATE TABLE IF NOT EXISTS [\w.]+ \([^;]*\b{} {type}"
        )
        for warehouse in ("BigQuery", "Snowflake", "Redshift")
    },
}
ADD = "ALTER TABLE websites ADD COLUMN IF NOT EXISTS {} {type};"


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
    given = {ARGUMENTS.get(name, name): value for name, value in VALUES.items()}
    given[PASSWORD_FROM] = "connection:page_password"
    secret = json.dumps({"conn_type": "generic", "password": VALUES["password"]})
    with (
        mock.patch.dict(os.environ, {"AIRFLOW_CONN_PAGE_PASSWORD": secret}),
        mock.patch("airflow_provider_analytics.hooks.analytics.AnalyticsHook", return_value=hook),
    ):
        arguments = {name: value for name, value in given.items() if name in known}
        try:
            operator(task_id="task", **{**arguments, **others}).execute({})
        except AttributeError as error:
            places = "docstring, template_fields, signature, and body of __init__"
            raise AssertionError(f"operators/websites.py, {operator.__name__}: {error}. Add it to: {places}") from error
    sent = hook.calls.get("ensure_website") or hook.calls["update_website"]
    return {name for name, value in sent.items() if name in ALL and same_setting(name, value, VALUES[name])}


def documented(method: object) -> set[str]:
    return set(re.findall(r"^:param (\w+):", inspect.getdoc(method) or "", re.MULTILINE))


def shown_by_the_sandbox() -> set[str]:
    with SandboxServer() as sandbox:
        return set(sandbox.add_website("a.example"))


def schema(*path: str) -> Iterable[str]:
    found = json.loads(Path(websites_file.__file__).with_name("websites.schema.json").read_text())
    for name in path:
        found = found[name]
    return set(found)


def in_sql(file: str, warehouse: str, pattern: str) -> set[str]:
    text = (CHECKOUT / file).read_text()
    types = dict(zip(("string", "integer", "boolean"), TYPES[warehouse], strict=True))
    return {name for name in RECORDED if re.search(pattern.format(name, type=types[COLUMNS[name]]), text)}


def fields_in(file: str, pattern: str) -> set[str]:
    """Return the fields that are named in the part of a file that matches a pattern."""
    found = re.search(pattern, (CHECKOUT / file).read_text())
    assert found, f"{file} has no text like {pattern}: adapt the pattern in this test"
    return ALL & set(re.findall(r"\w+", found[1]))


def keys_of(file: str, table: str) -> set[str]:
    """Return the keys of a dict that is assigned to a name in a file, without importing the file."""
    for statement in ast.parse((CHECKOUT / file).read_text()).body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == table:
            assert isinstance(statement.value, ast.Dict)
            return {str(ast.literal_eval(key)) for key in statement.value.keys if key}
    raise AssertionError(f"{file} has no dict {table}: adapt this test")


def operators_in(annotation: str) -> set[str]:
    """Return the list fields of the operators that an annotation names."""
    named = [getattr(exclusions, name, None) for name in re.findall(r"\w+", annotation)]
    return {getattr(operator, "field", "") for operator in named} & set(LINE_FIELDS)


def quoted_in(function: Callable[..., Any]) -> set[str]:
    return set(re.findall(r'"(\w+)"', inspect.getsource(function)))


def differ(records: list[dict[str, Any]]) -> set[str]:
    """Name the fields that have more than one value."""
    return {name for name in ALL if len({str(record.get(name)) for record in records}) > 1}


def rejects_blank_text(argument: str) -> bool:
    try:
        check_value(argument, " ")
    except ValueError:
        return True
    return False


#: Place, the expected names, and the names that are there.
PLACES: dict[str, tuple[set[str], Callable[[], Iterable[str]]]] = {
    "api/fields.py, CreateSettings": (ON_CREATE - {"domain"}, lambda: CreateSettings.__annotations__),
    "api/fields.py, UpdateSettings": (ON_UPDATE, lambda: UpdateSettings.__annotations__),
    "the docstring of hook.create_website": (ON_CREATE, lambda: documented(AnalyticsHook.create_website)),
    "the docstring of hook.update_website": (ON_UPDATE, lambda: documented(AnalyticsHook.update_website)),
    "CreateWebsiteOperator": (ON_CREATE, lambda: sent_by(CreateWebsiteOperator)),
    "UpdateWebsiteOperator": (ON_UPDATE, lambda: sent_by(UpdateWebsiteOperator, website_id=1, domain=None)),
    # A template that renders to a blank text must not be sent.
    "operators/values.py, _TEXTS, _OPTIONAL_FLAGS, or CHOICES": (
        ON_UPDATE - set(LINE_FIELDS),
        lambda: {name for name in ON_UPDATE if rejects_blank_text(ARGUMENTS.get(name, name))},
    ),
    "operators/exclusions.py, a class per list": (
        set(LINE_FIELDS),
        lambda: {getattr(var, "field", "") for var in vars(exclusions).values()},
    ),
    # The sandbox has its own table, so that a mistake here is not repeated there.
    "sandbox/form_fields.py, on_create": (ON_CREATE, lambda: {field.name for field in sandbox_fields.CREATE_FIELDS}),
    "sandbox/form_fields.py, on_update": (ON_UPDATE, lambda: {field.name for field in sandbox_fields.UPDATE_FIELDS}),
    "sandbox/form_fields.py, is_shown": (RECORDED, shown_by_the_sandbox),
    **{
        f"reconcile/desired/websites.schema.json, {layer}": (
            IN_FILES | {f"also_{name}" for name in LINE_FIELDS},
            lambda layer=layer: schema("definitions", layer, "properties"),  # type: ignore[misc]
        )
        for layer in ("settings", "website")
    },
    "reconcile/desired/websites.schema.json, ignore": (
        IN_FILES & set(SETTABLE_FIELDS),
        lambda: schema("definitions", "ignore", "items", "enum"),
    ),
    "reconcile/desired/websites.schema.json, modes": (
        set(LINE_FIELDS),
        lambda: schema("properties", "modes", "properties"),
    ),
    "tests/contract/contract_table.py, then make generate": (
        {f"{name}-{column}" for name in ALL for column in contract_table.FIELD_COLUMNS},
        lambda: {statement.id for statement in contract_table.STATEMENTS},
    ),
    **{
        f"{file}, {warehouse}, {part}": (RECORDED, functools.partial(in_sql, file, warehouse, pattern))
        for (file, warehouse, part), pattern in SQL.items()
    },
    f"{DUCKDB}, nullif in website_history": (
        {name for name in RECORDED if COLUMNS[name] == "string"},
        lambda: in_sql(DUCKDB, "DuckDB", r"nullif\({0}, ''\) AS {0}\b"),
    ),
    "docs/troubleshooting.md, the list that restores only the addresses: ignore": (
        set(SETTABLE_FIELDS) - {"exclude_ips"},
        lambda: fields_in("docs/troubleshooting.md", r"ignore: \[([^\]]*)\]"),
    ),
    "operators/task_groups.py, the union in the annotation of exclusion_list(operator=...)": (
        set(LINE_FIELDS),
        lambda: operators_in(str(inspect.signature(task_groups.exclusion_list).parameters["operator"].annotation)),
    ),
    "tests/support/shelf.py, websites": (RECORDED, lambda: set(shelf.websites(1)[0])),
    "tests/integration/docs/test_recovery.py, fields": (
        set(SETTABLE_FIELDS) - {"favorite"},
        lambda: fields_in("tests/integration/docs/test_recovery.py", r"fields = \(([^)]*)\)"),
    ),
    "tests/contract/test_contract_servers.py, UPDATES": (
        ON_UPDATE - {"password"},
        lambda: keys_of("tests/contract/test_contract_servers.py", "UPDATES"),
    ),
    "tests/contract/test_contract_fields.py, SENT": (
        ALL - {"domain"},
        lambda: keys_of("tests/contract/test_contract_fields.py", "SENT"),
    ),
    "tests/contract/test_contract_fields.py, SETTINGS": (
        ALL - {"domain"},
        lambda: keys_of("tests/contract/test_contract_fields.py", "SETTINGS"),
    ),
    "tests/integration/operators/test_odd_arguments.py, ACCEPTED": (
        {ARGUMENTS.get(name, name) for name in ALL},
        lambda: keys_of("tests/integration/operators/test_odd_arguments.py", "ACCEPTED"),
    ),
    f"{DUCKDB}, {ADD!r} in CREATE, before the view; CHANGELOG.md: users add the column, too ({LOADING})": (
        RECORDED - FIRST,
        lambda: in_sql(DUCKDB, "DuckDB", ADD),
    ),
    # The domain is the first column of the table and is not counted.
    "snapshots/html_report.py, summarise": (RECORDED - {"domain"}, lambda: quoted_in(html_report.summarise)),
    "snapshots/html_report.py, _table_cells, and report.html.j2": (
        RECORDED,
        lambda: quoted_in(html_report._table_cells),
    ),
    "sandbox/seeds.py, generate_websites, from its own generator": (
        RECORDED,
        lambda: differ(list(generate_websites(200, seed=1))),
    ),
    "tests/fuzzer/scenario.py, FIELDS or LISTS": (RECORDED - {"domain"}, lambda: set(scenario.FIELDS)),
    "tests/fuzzer/scenario.py, DEFAULTS": (RECORDED - {"domain"}, lambda: set(scenario.DEFAULTS)),
    "tests/fuzzer/soak.py, ScenarioGenerator.website": (
        RECORDED - {"domain"},
        lambda: differ([soak.ScenarioGenerator(seed).website() for seed in range(50)]),
    ),
    "tests/fuzzer/soak.py, ScenarioGenerator.settings": (
        RECORDED - {"domain"},
        lambda: differ([soak.ScenarioGenerator(seed).settings(update=True) for seed in range(50)]),
    ),
}
#: Places where additional names are harmless.
MAY_HAVE_MORE = ("tests/fuzzer", "sandbox/seeds.py", "snapshots/html_report.py", f"{DUCKDB}, {ADD!r}")


@pytest.mark.parametrize("place", PLACES)
def test_every_place_has_every_field(place: str) -> None:
    wanted, find = PLACES[place]
    found = set(find())
    missing, extra = wanted - found, (found & ALL) - wanted
    assert not missing, f"{place}: add {', '.join(sorted(missing))}"
    assert not extra or place.startswith(MAY_HAVE_MORE), f"{place}: remove {', '.join(sorted(extra))}"


def test_text_in_the_sandbox_is_null_by_default() -> None:
    texts = {field.name for field in WEBSITE_FIELDS if field.column == "string" and field.name != "domain"}
    wrong = {name for name in texts if sandbox_fields.DEFAULTS.get(name) is not None}
    message = f"sandbox/form_fields.py: remove the default of {wrong}: the sandbox stores an empty text as null"
    assert not wrong, message


def test_generated_websites_are_the_same_in_each_version() -> None:
    domains = [website["domain"] for website in generate_websites(250, seed=7)]
    message = "sandbox/seeds.py, generate_websites: draw the new field from its own generator, see the comment there"
    assert (domains[2], domains[249]) == ("mellow-drum.example.com", "sunny-garden.example.org"), message


def test_duckdb_table_gets_a_missing_column_at_the_end(tmp_path: Path) -> None:
    sql = sample("load_snapshot_into_duckdb", tmp_path)
    earlier = sql.CREATE.partition("CREATE OR REPLACE VIEW")[0].replace(", favorite BOOLEAN", "")
    view = "CREATE OR REPLACE VIEW"
    row = {**dict.fromkeys(COLUMNS), "id": "1", "favorite": True, "snapshot_date": "2026-01-01"}
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row))
    with duckdb.connect() as connection:
        connection.execute(earlier)
        for _ in range(2):  # each run executes it
            connection.execute(sql.CREATE.replace(view, f"{ADD.format('favorite', type='BOOLEAN')}\n{view}"))
        connection.execute(sql.LOAD, {"source": "a", "file": str(rows)})
        found = connection.execute("SELECT * FROM websites")
        assert [column[0] for column in found.description or ()][-1] == "favorite"
        assert found.fetchall()[0][-1] is True


@pytest.mark.repository
def test_generated_files_are_up_to_date() -> None:
    """``make generate`` writes schemas, interface.md, and tables of documents."""
    command = [sys.executable, str(CHECKOUT / "scripts" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
