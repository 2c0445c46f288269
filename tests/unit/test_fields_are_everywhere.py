"""Every place that has to know the fields of a website knows each field of the table in ``api/fields.py``.

What can be derived from the table is. The rest (signatures and docstrings that people read in an editor, SQL, the
report, the sandbox's own table and seeds, the worlds of the oracle, the statements of docs/interface.md) is held to it
here: a test per place, a case per field. What fails names the place.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import contract_table
import duckdb
import pytest
import soak
import world
from reference import signature_of

from airflow_provider_analytics.api import fields
from airflow_provider_analytics.api.client import Written
from airflow_provider_analytics.api.fields import (
    LINE_FIELDS,
    PASSWORD_FROM,
    RECORD_FIELDS,
    WEBSITE_FIELDS,
    Field,
    same_setting,
)
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators import exclusions
from airflow_provider_analytics.operators.websites import ARGUMENTS, CreateWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.reconcile import websites_file
from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS
from airflow_provider_analytics.sandbox import fields as sandbox_fields
from airflow_provider_analytics.sandbox.seeds import generate_websites
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots import report
from airflow_provider_analytics.snapshots.rows import COLUMNS

CHECKOUT = Path(__file__).parents[2]
#: A value of each kind, as the service shows it.
SAMPLES: dict[str, Any] = {"Domain": "a.example", "PrivacyFlag": 1, "Flag": 1, "Boolean": True, "Lines": "192.0.2.1"}


def sample(field: Field) -> Any:
    return SAMPLES.get(type(field).__name__, "a text")


def each(chosen: Callable[[Field], bool]) -> pytest.MarkDecorator:
    found = [field for field in WEBSITE_FIELDS if chosen(field)]
    return pytest.mark.parametrize("field", found, ids=[field.name for field in found])


EVERY = each(lambda field: True)
ON_CREATE = each(lambda field: field.on_create)
ON_UPDATE = each(lambda field: field.on_update)
RECORDED = each(lambda field: field.name in RECORD_FIELDS)


def place(where: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Name the place that lacks a field where a test of it fails."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def named(*args: Any, field: Field, **kwargs: Any) -> None:
            try:
                test(*args, field=field, **kwargs)
            except (AssertionError, AttributeError, KeyError, TypeError) as error:
                pytest.fail(f"{where}: is {field.name} there?\n{error}")

        return named

    return decorate


class Recorder:
    """A hook or client that answers every call and keeps its arguments."""

    def __init__(self, *_: Any) -> None:
        self.calls: dict[str, dict[str, Any]] = {}
        self.stats = Stats()

    @property
    def client(self) -> Self:
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **arguments: Any) -> Any:
            self.calls[name] = arguments | ({"domain": args[0]} if args else {})
            return Written({"id": 1})

        return call


def annotation(function: Callable[..., Any], argument: str) -> str:
    return str(signature_of(inspect.unwrap(function)).parameters[argument].annotation)


def type_of(field: Field) -> str:
    """Return the annotation of an argument for this field."""
    types = fields.UpdateSettings.__annotations__
    return types[field.name].__forward_arg__ if field.name in types else "str"


def documented(text: str | None) -> list[str]:
    return re.findall(r"^\s*:param (\w+):", text or "", re.MULTILINE)


# The hook


@ON_CREATE
@place("airflow_provider_analytics/api/fields.py, CreateSettings")
def test_the_hook_takes_and_sends_it_on_create(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    hook, client = AnalyticsHook(), Recorder()
    monkeypatch.setattr(AnalyticsHook, "client", client)
    hook.create_website(**{"domain": "a.example", field.name: sample(field)})
    assert client.calls["create_website"][field.name] == sample(field)
    assert annotation(AnalyticsHook.create_website, field.name) == type_of(field)


@ON_UPDATE
@place("airflow_provider_analytics/api/fields.py, UpdateSettings")
def test_the_hook_takes_and_sends_it_on_update(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    hook, client = AnalyticsHook(), Recorder()
    monkeypatch.setattr(AnalyticsHook, "client", client)
    hook.update_website(1, **{field.name: sample(field)})
    assert client.calls["update_website"][field.name] == sample(field)
    assert annotation(AnalyticsHook.update_website, field.name) == type_of(field)


@EVERY
@place("airflow_provider_analytics/hooks/analytics.py, docstrings of create_website and update_website")
def test_the_hook_documents_it(field: Field) -> None:
    assert (field.name in documented(AnalyticsHook.create_website.__doc__)) == field.on_create
    assert (field.name in documented(AnalyticsHook.update_website.__doc__)) == field.on_update


@EVERY
@place("airflow_provider_analytics/api/fields.py, CreateSettings and UpdateSettings")
def test_type_checkers_know_it(field: Field) -> None:
    if field.name != "domain":
        assert (field.name in fields.CreateSettings.__annotations__) == field.on_create
        assert (field.name in fields.UpdateSettings.__annotations__) == field.on_update


# The operators


def run(operator: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run an operator with a hook that records, and return what it told the hook to send."""
    hook = Recorder()
    monkeypatch.setattr("airflow_provider_analytics.hooks.analytics.AnalyticsHook", lambda conn_id: hook)
    operator.execute({})
    return hook.calls.get("ensure_website") or hook.calls["update_website"]


def argument_of(field: Field, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Any]:
    """Return the argument of operators for a field, and its value; a secret is in Airflow."""
    argument = ARGUMENTS.get(field.name, field.name)
    if argument != PASSWORD_FROM:
        return argument, sample(field)
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic", "password": sample(field)}))
    return argument, "connection:page_password"


@ON_CREATE
@place("airflow_provider_analytics/operators/websites.py, CreateWebsiteOperator")
def test_the_create_operator_takes_and_sends_it(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    argument, value = argument_of(field, monkeypatch)
    sent = run(CreateWebsiteOperator(task_id="create", **{"domain": "a.example", argument: value}), monkeypatch)
    assert same_setting(field.name, sent[field.name], sample(field))
    assert annotation(CreateWebsiteOperator.__init__, argument) == type_of(field)


@ON_UPDATE
@place("airflow_provider_analytics/operators/websites.py, UpdateWebsiteOperator")
def test_the_update_operator_takes_and_sends_it(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    argument, value = argument_of(field, monkeypatch)
    sent = run(UpdateWebsiteOperator(task_id="update", website_id=1, **{argument: value}), monkeypatch)
    assert same_setting(field.name, sent[field.name], sample(field))
    assert annotation(UpdateWebsiteOperator.__init__, argument) == type_of(field)


@each(lambda field: field.name in LINE_FIELDS)
@place("airflow_provider_analytics/operators/exclusions.py, a class per list")
def test_an_operator_keeps_the_list_in_step(field: Field) -> None:
    found = [value for value in vars(exclusions).values() if getattr(value, "field", None) == field.name]
    assert len(found) == 1


# The sandbox has a table of its own, so that a mistake here is not mirrored there.


@EVERY
@place("airflow_provider_analytics/sandbox/fields.py, WEBSITE_FIELDS")
def test_the_sandbox_takes_it(field: Field) -> None:
    assert (field.name in {found.name for found in sandbox_fields.CREATE_FIELDS}) == field.on_create
    assert (field.name in {found.name for found in sandbox_fields.UPDATE_FIELDS}) == field.on_update


@EVERY
@place("airflow_provider_analytics/sandbox/fields.py, WEBSITE_FIELDS")
def test_the_sandbox_shows_it(field: Field, analytics_sandbox: SandboxServer) -> None:
    shown = analytics_sandbox.add_website("a.example")
    assert (field.name in shown) == (field.name in RECORD_FIELDS)


# Documents, schemas and SQL


@ON_UPDATE
@place("airflow_provider_analytics/reconcile/websites.schema.json, settings and website")
def test_the_schema_of_a_file_of_websites_has_it(field: Field) -> None:
    schema = json.loads((Path(websites_file.__file__).with_name("websites.schema.json")).read_text())
    names = {PASSWORD_FROM} if field.name == "password" else {field.name}
    names |= {f"also_{name}" for name in names & LINE_FIELDS.keys()}
    for layer in ("settings", "website"):
        assert names <= schema["definitions"][layer]["properties"].keys()
    if names <= set(SETTABLE_FIELDS):
        assert names <= set(schema["definitions"]["ignore"]["items"]["enum"])
    assert schema["properties"]["modes"]["properties"].keys() == LINE_FIELDS.keys()


@EVERY
@place("tests/contract/contract_table.py, then make generate")
def test_the_interface_page_states_it(field: Field) -> None:
    stated = {statement.id for statement in contract_table.STATEMENTS}
    assert {f"{field.name}-{column}" for column in contract_table.FIELD_COLUMNS} <= stated


#: Fields of the first version; a table in a warehouse has a column for each of them.
FIRST = ("domain", "privacy", "email", "exclude_bots", "exclude_params", "exclude_ips", "favorite")
#: Type of a column, in DuckDB and in PostgreSQL.
IN_DUCKDB = {"string": "VARCHAR", "integer": "BIGINT", "boolean": "BOOLEAN"}
IN_POSTGRESQL = {"string": "text", "integer": "bigint", "boolean": "boolean"}
DUCKDB, POSTGRESQL = "dags/load_snapshot_into_duckdb.py", "docs/loading.md"
#: Place in SQL, by its file: the pattern of it, in which ``{}`` is the field, and ``{type}`` its type there.
PLACES_OF_SQL = {
    (DUCKDB, "CREATE TABLE websites"): r"TABLE IF NOT EXISTS websites \([^;]*\b{} {type}",
    (DUCKDB, "the columns of LOAD"): r"columns = \{{[^}}]*\b{}: '{type}'",
    (DUCKDB, "row(...) AS settings in website_history"): r"row\([^)]*\b{}\b[^)]*\) AS settings",
    (DUCKDB, "the last SELECT of website_history"): r"SELECT source, id, version,[^;]*\b{}\b[^;]*AS valid_from",
    (POSTGRESQL, "CREATE TABLE of PostgreSQL"): r"CREATE TABLE websites \([^;]*\b{} {type}",
    (POSTGRESQL, "the columns of copy, in the order of the file"): r"\\copy websites \([^)]*\b{}\b",
}


@RECORDED
@pytest.mark.parametrize(("file", "part"), PLACES_OF_SQL, ids=[part.replace(" ", "_") for _, part in PLACES_OF_SQL])
def test_sql_names_it(file: str, part: str, field: Field) -> None:
    types = IN_DUCKDB if file == DUCKDB else IN_POSTGRESQL
    wanted = PLACES_OF_SQL[file, part].format(field.name, type=types[COLUMNS[field.name]])
    assert re.search(wanted, (CHECKOUT / file).read_text()), f"{file}: add {field.name} to {part}"


@RECORDED
def test_a_table_of_an_earlier_version_gets_the_column(field: Field) -> None:
    statement = f"ALTER TABLE websites ADD COLUMN IF NOT EXISTS {field.name} {IN_DUCKDB[COLUMNS[field.name]]};"
    assert field.name in FIRST or statement in (CHECKOUT / DUCKDB).read_text(), (
        f"{DUCKDB}: add {statement!r} to CREATE, before the view. CHANGELOG.md: tell users to add the column to their "
        f"tables ({POSTGRESQL}, New columns)"
    )


def test_a_table_of_duckdb_without_a_column_gets_it_at_the_end(tmp_path: Path) -> None:
    source = ast.parse((CHECKOUT / DUCKDB).read_text()).body
    sql = {
        one.targets[0].id: one.value.value
        for one in source
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant) and isinstance(one.targets[0], ast.Name)
    }
    create = str(sql["CREATE"])
    earlier = create.partition("CREATE OR REPLACE VIEW")[0].replace(", favorite BOOLEAN", "")
    add = "ALTER TABLE websites ADD COLUMN IF NOT EXISTS favorite BOOLEAN;\nCREATE OR REPLACE VIEW"
    row = {**dict.fromkeys(COLUMNS), "id": "1", "favorite": True, "snapshot_date": "2026-01-01"}
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row))
    with duckdb.connect() as connection:
        connection.execute(earlier)
        for _ in range(2):  # each run executes it
            connection.execute(create.replace("CREATE OR REPLACE VIEW", add))
        connection.execute(str(sql["LOAD"]), {"source": "a", "file": str(rows)})
        found = connection.execute("SELECT * FROM websites")
        assert [column[0] for column in found.description or ()][-1] == "favorite"
        assert found.fetchall()[0][-1] is True


@RECORDED
def test_the_report_of_a_snapshot_shows_it(field: Field) -> None:
    for function in (report.summarise, report._table_cells):
        # The domain is the first column of the table, and is not counted.
        if field.name != "domain" or function is report._table_cells:
            assert f'"{field.name}"' in inspect.getsource(function), (
                f"airflow_provider_analytics/snapshots/report.py: add {field.name} to {function.__name__}, and to "
                "report.html.j2 if it needs a column"
            )


# What draws websites by chance


@RECORDED
def test_the_websites_of_a_sandbox_differ_in_it(field: Field) -> None:
    values = {str(website.get(field.name)) for website in generate_websites(200, seed=1)}
    assert len(values) > 1, f"airflow_provider_analytics/sandbox/seeds.py: add {field.name} to generate_websites"


@RECORDED
def test_the_worlds_of_the_oracle_have_it(field: Field) -> None:
    if field.name == "domain":
        return
    assert field.name in world.FIELDS, f"tests/oracle/world.py: add {field.name} to FIELDS or LISTS"
    assert field.name in world.DEFAULTS, f"tests/oracle/world.py: add {field.name} to DEFAULTS"
    drawn = [soak.Draw(seed) for seed in range(50)]
    for what in ("website", "settings"):
        values = {
            str(getattr(one, what)(**{"update": True} if what == "settings" else {}).get(field.name)) for one in drawn
        }
        assert len(values) > 1, f"tests/oracle/soak.py: add {field.name} to Draw.{what}"


@pytest.mark.repository
def test_what_is_generated_is_up_to_date() -> None:
    """Schemas, docs/interface.md, tables of documents: ``make generate`` writes them."""
    command = [sys.executable, str(CHECKOUT / "scripts" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
