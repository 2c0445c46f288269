# SPDX-License-Identifier: Apache-2.0
"""Write all files and tables of documents that are generated from code; ``--check`` only lists the stale files."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

if __name__ == "__main__":  # tests import this module, and have their own log level
    # The operators run once, and log only what is wrong with this script.
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "CRITICAL"

import package_limits
import public_api
import reference

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "tests" / "contract"))

import contract_table  # noqa: E402 - needs the path above

from airflow_provider_analytics.api.fields import (  # noqa: E402
    FIELDS,
    PASSWORD_FROM,
    PASSWORD_REFERENCE,
    SETTABLE_FIELDS,
    WEBSITE_FIELDS,
    Field,
    Flag,
    Lines,
    Privacy,
    PrivacyFlag,
    Secret,
)
from airflow_provider_analytics.api.settings import Settings  # noqa: E402
from airflow_provider_analytics.api.waiting import METRICS_PREFIX, TIMERS, Stats  # noqa: E402
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE, get_provider_info  # noqa: E402
from airflow_provider_analytics.reconcile.desired import websites_file  # noqa: E402
from airflow_provider_analytics.reconcile.desired.desired_state import MODES  # noqa: E402
from airflow_provider_analytics.snapshots import manifest  # noqa: E402
from airflow_provider_analytics.snapshots.formats import COLUMNS, MEANINGS  # noqa: E402

Found = TypeVar("Found")

_BLOCK = re.compile(r"(<!-- begin (\w+), written by `make generate` -->\n).*?(<!-- end \2 -->)", re.DOTALL)

#: Type of a field to its values in the column of a snapshot; none if the type of the column is enough.
_IN_A_COLUMN: dict[type[Field], str] = {
    Flag: ": 0 or 1",
    PrivacyFlag: ": 0 public, 1 private, 2 password",
    Lines: ", an entry per line",
}


def known(table: Mapping[Any, Found], key: Any, place: str) -> Found:
    """Return the entry of a table; if it is missing, exit with the place that has to be edited.

    :param place: file and name of the table.
    """
    if key not in table:
        name = key.__name__ if isinstance(key, type) else repr(key)
        raise SystemExit(f"{place} has no entry for {name}. Add it, then run make generate again.")
    return table[key]


def columns() -> Iterator[str]:
    """Yield the rows of the table of a snapshot's columns."""
    yield "| Column | Type | Meaning |"
    yield "|---|---|---|"
    for name, kind in COLUMNS.items():
        field = FIELDS.get(name)
        if field:
            meaning = f"{field.meaning}{_IN_A_COLUMN.get(type(field), '')}"
        else:
            meaning = known(MEANINGS, name, "MEANINGS in airflow_provider_analytics/snapshots/formats.py")
        yield f"| `{name}` | {kind} | {meaning} |"


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema of a manifest."""
    schema = msgspec.json.schema(manifest.Manifest)
    for described in schema["$defs"].values():
        # Python 3.13 strips the indentation of docstrings; earlier versions do not.
        described["description"] = inspect.cleandoc(described["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def websites_schema() -> dict[str, Any]:
    """Return the JSON Schema of a file of websites: the written part, with the fields of the table."""
    schema = websites_file.schema()  # cached: the tables of documents read the same dict
    definitions = schema["definitions"]
    layers = [definitions["settings"], definitions["website"]]
    for layer in layers:
        layer["properties"] = {name: part for name, part in layer["properties"].items() if "$ref" not in part}
    modes = {}
    for field in WEBSITE_FIELDS:
        for name, definition in _settings(field).items() if field.on_update else ():
            definitions[name] = definition
            for layer in layers:
                layer["properties"][name] = {"$ref": f"#/definitions/{name}"}
        if isinstance(field, Lines):
            modes[field.name] = {"enum": list(MODES)}
    schema["properties"]["modes"]["properties"] = modes
    definitions["ignore"] = definitions.pop("ignore")
    definitions["ignore"]["items"]["enum"] = list(SETTABLE_FIELDS)
    for layer in layers:
        layer["properties"]["ignore"] = {"$ref": "#/definitions/ignore"}
    return schema


def _settings(field: Field) -> dict[str, dict[str, Any]]:
    """Return the settings of a file for a field, with their schemas."""
    meaning = f"{field.meaning[0].upper()}{field.meaning[1:]}."
    if isinstance(field, Secret):
        return {
            PASSWORD_FROM: {
                "description": "Where Airflow reads the password: connection:NAME or variable:NAME.",
                "type": "string",
                "pattern": f"^{PASSWORD_REFERENCE}$",
                "errorMessage": "connection:page_password... or variable:page_password...",
            }
        }
    if isinstance(field, PrivacyFlag):
        return {field.name: {"description": meaning, "enum": [privacy.label for privacy in Privacy]}}
    if isinstance(field, Flag):
        return {field.name: {"description": meaning, "type": "boolean", "errorMessage": "true, false"}}
    if not isinstance(field, Lines):
        return {field.name: {"description": meaning, "type": "string", "errorMessage": "text"}}
    entries = {"type": ["array", "string"], "items": {"$ref": "#/definitions/entry"}}
    allowed = "a list, or text with an entry per line"
    return {
        field.name: {
            "description": f"{meaning} The complete list: replaces the lists of defaults and groups.",
            **entries,
            "errorMessage": f"{allowed}; [] clears the list",
        },
        f"also_{field.name}": {
            "description": f"Entries added to the {field.name} of defaults and groups.",
            **entries,
            "errorMessage": allowed,
        },
    }


def extras() -> Iterator[str]:
    """Yield the rows of the table of a connection's extras."""
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    yield "| Extra | Default | Meaning |"
    yield "|---|---|---|"
    for name, field in CONNECTION_TYPE["conn-fields"].items():
        meaning, _, stated = field["description"].rstrip(".").partition(". Default: ")
        default = _text(known(defaults, name, "Settings in airflow_provider_analytics/api/settings.py"))
        yield f"| `{name}` | {stated or default} | {meaning} |"


def keys_of_a_manifest() -> Iterator[str]:
    """Yield a list for each object of a manifest: its keys, their types and meanings."""
    for name, definition in manifest_schema()["$defs"].items():
        _, *parameters = re.split(r"^:param (?=\w+: )", definition["description"], flags=re.MULTILINE)
        meanings = dict(parameter.split(": ", 1) for parameter in parameters)
        yield from (f"### {name}", "")
        for key, schema in definition["properties"].items():
            place = f"The docstring of {name} in airflow_provider_analytics/snapshots/manifest.py"
            meaning = known(meanings, key, place).replace("``", "`")
            yield f"* `{key}` ({_type(schema)}): {' '.join(meaning.split()).rstrip('.')}."
        yield ""


def keys_of_a_file() -> Iterator[str]:
    """Yield a list of the keys at each place of a file of websites."""
    schema = websites_file.schema()
    places = {
        "At the top of the file": schema,
        "In `defaults` and in each of `groups`": schema["definitions"]["settings"],
        "In each of `websites`": schema["definitions"]["website"],
    }
    shared = schema["definitions"]["settings"]["properties"].keys()
    for place, found in places.items():
        yield from (f"### {place}", "")
        if place == "In each of `websites`":
            yield from ("All settings of `defaults`, and in addition:", "")
        for key, schema_of_key in found["properties"].items():
            if place == "In each of `websites`" and key in shared:
                continue
            reference = schema_of_key.get("$ref", "").rpartition("/")[2]
            element = schema["definitions"].get(reference, {}) | {"description": ""} | schema_of_key
            described = schema_of_key if "description" in schema_of_key else schema["definitions"].get(reference, {})
            source = f"{key!r} in airflow_provider_analytics/reconcile/desired/websites.schema.json"
            meaning = known(described, "description", source)
            yield f"* `{key}` ({_allowed(element)}): {meaning.rstrip('.')}."
        yield ""


#: Warehouse to its table, its types (string, integer, boolean, date, timestamp), and the end of the statement.
TABLES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "PostgreSQL": (
        "TABLE websites",
        ("text", "bigint", "boolean", "date", "timestamptz"),
        ",\n    PRIMARY KEY (snapshot_date, id)\n)",
    ),
    "BigQuery": (
        "TABLE IF NOT EXISTS analytics.websites",
        ("STRING", "INT64", "BOOL", "DATE", "TIMESTAMP"),
        "\n) PARTITION BY snapshot_date",
    ),
    "Snowflake": (
        "TABLE IF NOT EXISTS websites",
        ("VARCHAR", "NUMBER", "BOOLEAN", "DATE", "TIMESTAMP_TZ"),
        ",\n    PRIMARY KEY (snapshot_date, id)\n)",
    ),
    "Redshift": (
        "TABLE IF NOT EXISTS websites",
        ("VARCHAR(65535)", "BIGINT", "BOOLEAN", "DATE", "TIMESTAMPTZ"),
        "\n) SORTKEY (snapshot_date)",
    ),
}
#: Types of columns that differ from those of their warehouse.
_TYPES = {
    ("PostgreSQL", "record"): "jsonb",
    ("Redshift", "id"): "VARCHAR(255)",
    ("Redshift", "domain"): "VARCHAR(255)",
    ("Redshift", "record_hash"): "CHAR(64)",
}


def create_table(warehouse: str) -> str:
    """Return the statement that creates the table of a warehouse."""
    table, types, end = TABLES[warehouse]
    kinds = dict(zip(("string", "integer", "boolean", "date", "timestamp"), types, strict=True))
    columns = []
    for name, kind in COLUMNS.items():
        column = f"{name} {_TYPES.get((warehouse, name), kinds[kind])}"
        if name in ("id", "snapshot_date"):
            column += " NOT NULL"
        columns.append(column)
    return f"CREATE {table} (\n    " + ",\n    ".join(columns) + f"{end};"


def warehouses() -> str:
    """Return ``examples/warehouses/create_tables.sql``."""
    lines = ["-- Not run: the table of each warehouse. Written by `make generate`."]
    for warehouse in TABLES:
        if warehouse != "PostgreSQL":  # its recipe is in docs/loading.md, and tested
            lines.append(f"\n-- {warehouse}\n{create_table(warehouse)}")
    return _page(lines)


def postgresql() -> Iterator[str]:
    """Yield the statements that create the table in PostgreSQL, and load a day."""
    yield from ("Create the table once:", "", "```sql", create_table("PostgreSQL"), "```", "")
    yield 'Load a day in `psql`, from a snapshot with `format="csv", compression="gzip"`:'
    yield from ("", "```sql", "BEGIN;", "DELETE FROM websites WHERE snapshot_date = '2026-11-20';")
    source = "'gzip -dc /data/analytics/websites/dt=2026-11-20/*.csv.gz'"
    yield f"\\copy websites ({', '.join(COLUMNS)}) FROM PROGRAM {source} WITH (FORMAT csv, HEADER match)"
    yield from ("COMMIT;", "```")


#: Minor version of Airflow that is pinned in constraints/ to the day of its first release, and for 2.11 to the day on
#: which Airflow ended its support of Airflow 2.
AIRFLOW_DAYS = {
    "2.11": date(2026, 4, 22),
    "3.0": date(2025, 4, 22),
    "3.1": date(2025, 9, 25),
    "3.2": date(2026, 4, 7),
    "3.3": date(2026, 7, 6),
}


def policy() -> Iterator[str]:
    """Yield the rows of the table of supported versions of Airflow; a pinned one without a date is an error."""
    yield "| Airflow | Tested with | Counted from | Supported until at least |"
    yield "|---|---|---|---|"
    for pins in sorted((CHECKOUT / "constraints").glob("airflow-*.[0-9].in")):
        version = pins.stem.removeprefix("airflow-")
        minor = version.rpartition(".")[0]
        day = known(AIRFLOW_DAYS, minor, "AIRFLOW_DAYS in scripts/generate.py")
        what, years = ("end of support of Airflow 2", 1) if minor == "2.11" else ("first release", 2)
        yield f"| {minor} | {version} | {day} ({what}) | {day.replace(year=day.year + years)} |"


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(item) for item in schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if schema["type"] == "array":
        return f"array of {_type(schema['items'])}"
    return str(schema.get("format", schema["type"]))


def _allowed(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{item}`" for item in schema["enum"])
    if "const" in schema:
        return f"`{_text(schema['const'])}`"
    if "items" in schema and "enum" in schema["items"]:
        return f"a list of {_allowed(schema['items'])}"
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    names = {"array": "a list", "string": "text", "boolean": "`true` or `false`", "object": "a mapping"}
    return " or ".join(known(names, type_, "_allowed in scripts/generate.py") for type_ in types if type_ != "null")


def metrics() -> Iterator[str]:
    """Yield the rows of the table of metrics."""
    yield "| Metric | Kind | Meaning |"
    yield "|---|---|---|"
    described = re.findall(r":param (\w+): (.*)", inspect.getdoc(Stats) or "")
    for name, meaning in described[:-1]:  # without the listener
        yield f"| `{METRICS_PREFIX}.{name}` | {'timer' if name in TIMERS else 'counter'} | {meaning} |"


BLOCKS: Mapping[str, Callable[[], Iterable[str]]] = {
    "columns": columns,
    "extras": extras,
    "manifest": keys_of_a_manifest,
    "keys": keys_of_a_file,
    "postgresql": postgresql,
    "policy": policy,
    "metrics": metrics,
    "commands": reference.command_line,
    "hook": reference.hook,
    "functions": reference.snapshot_functions,
    "exceptions": reference.raised,
    "sandbox": reference.sandbox,
}


_REGISTRY_HEAD = """\
# Description of this provider, with the keys that providers in the Airflow repository use. No registry reads it yet.
# Written by `make generate` from the provider info, the docstrings and pyproject.toml.
"""


def registry() -> str:
    """Return ``.airflow-registry.yaml``: with the keys that providers in the Airflow repository use."""
    info = get_provider_info()
    urls = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    listed: dict[str, Any] = {
        "package-name": info["package-name"],
        "display-name": info["name"],
        "description": info["description"],
        "docs-url": urls["Documentation"],
        "source-url": urls["Source"],
    }
    for room in ("operators", "hooks"):
        modules = [module for entry in info[room] for module in entry["python-modules"]]
        listed[room] = [
            {"module": f"{module}.{name}", "description": description}
            for module in modules
            for name, description in _public_classes(module, room.removesuffix("s").capitalize())
        ]
    return _REGISTRY_HEAD + yaml.safe_dump(listed, sort_keys=False, allow_unicode=True, width=1000)


def _public_classes(module: str, suffix: str) -> Iterator[tuple[str, str]]:
    """Yield each class of a module that is named so, with the first sentence of its docstring; without importing it."""
    source = (CHECKOUT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
    for found in ast.parse(source).body:
        if isinstance(found, ast.ClassDef) and found.name.endswith(suffix) and not found.name.startswith("_"):
            first = (ast.get_docstring(found) or "").partition("\n\n")[0].replace("\n", " ")
            # Without the document that it refers to: there is none where this is read.
            yield found.name, re.sub(r" \(docs/[^)]*\)", "", first.partition(". ")[0]).rstrip(".") + "."


def contents() -> Iterator[tuple[Path, str]]:
    """Yield the path and the expected content of each generated file."""
    package = CHECKOUT / "airflow_provider_analytics"
    yield package / "snapshots" / "manifest.schema.json", _json(manifest_schema())
    file = package / "reconcile" / "desired" / "websites.schema.json"
    yield file, _json(websites_schema())
    yield CHECKOUT / "docs" / "reference" / "interface.md", contract_table.render()
    yield CHECKOUT / "examples" / "warehouses" / "create_tables.sql", warehouses()
    yield CHECKOUT / ".airflow-registry.yaml", registry()
    yield CHECKOUT / "docs" / "reference" / "public_api.txt", public_api.render()
    yield CHECKOUT / "docs" / "internals" / "limits.txt", package_limits.render()
    pages = CHECKOUT / "docs" / "reference" / "operators"
    yield pages / "index.md", _page(reference.operator_index())
    for module in reference.operator_modules():
        yield pages / f"{module.rpartition('.')[2]}.md", _page(reference.operators(module))
    for document in (CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))):
        text = document.read_text(encoding="utf-8")
        if _BLOCK.search(text):
            yield document, _BLOCK.sub(_filled, text)


def _filled(block: re.Match[str]) -> str:
    """Return a block of a document with its current content."""
    lines = known(BLOCKS, block[2], "BLOCKS in scripts/generate.py")()
    return block[1] + "\n".join(lines) + "\n" + block[3]


def out_of_date() -> list[str]:
    """Return the generated files that are missing or out of date."""
    return [
        str(path.relative_to(CHECKOUT))
        for path, content in contents()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]


def main() -> int:
    """Write the files; with ``--check``, return 1 if one is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, list the files that are out of date")
    if parser.parse_args().check:
        stale = out_of_date()
        sys.stdout.writelines(f"{name} is out of date: run make generate\n" for name in stale)
        return int(bool(stale))
    for path, content in contents():
        path.write_text(content, encoding="utf-8")
    return 0


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _text(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    sys.exit(main())
