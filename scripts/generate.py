"""Write all files and tables of documents that are generated from code; ``--check`` only lists the stale files."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "tests" / "contract"))

import contract_table  # noqa: E402 - needs the path above

from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, WEBSITE_FIELDS  # noqa: E402
from airflow_provider_analytics.api.kinds import Secret  # noqa: E402
from airflow_provider_analytics.api.settings import Settings  # noqa: E402
from airflow_provider_analytics.api.stats import COUNTED, METRICS_PREFIX, TIMERS  # noqa: E402
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE, get_provider_info  # noqa: E402
from airflow_provider_analytics.reconcile import websites_file  # noqa: E402
from airflow_provider_analytics.snapshots import manifest  # noqa: E402
from airflow_provider_analytics.snapshots.rows import COLUMNS, MEANINGS  # noqa: E402

_BLOCK = re.compile(r"(<!-- begin (\w+), written by `make generate` -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def columns() -> Iterator[str]:
    """Yield the rows of the table of a snapshot's columns."""
    yield "| column | type | |"
    yield "|---|---|---|"
    for name, kind in COLUMNS.items():
        field = FIELDS.get(name)
        meaning = f"{field.meaning}{field.kind.in_a_column}" if field else MEANINGS[name]
        yield f"| `{name}` | {kind} | {meaning} |"


def settings_of_a_file() -> Iterator[str]:
    """Yield the rows of the table of settings in a file of websites."""
    yield "| setting | value | |"
    yield "|---|---|---|"
    for field in WEBSITE_FIELDS:
        if field.on_update:
            name = f"{field.name}_from" if isinstance(field.kind, Secret) else field.name
            yield f"| `{name}` | {field.kind.in_a_file} | {field.meaning} |"
            if field.name in LINE_FIELDS:
                yield f"| `also_{name}` | a list | entries besides those that the more general layers name |"


def extras() -> Iterator[str]:
    """Yield the rows of the table of a connection's extras."""
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    yield "| Extra | Default | Meaning |"
    yield "|---|---|---|"
    for name, field in CONNECTION_TYPE["conn-fields"].items():
        meaning, _, stated = field["description"].rstrip(".").rpartition("; ")
        if not stated.endswith(" if empty"):
            meaning, stated = field["description"].rstrip("."), f"{_text(defaults[name])} if empty"
        yield f"| `{name}` | {stated.removesuffix(' if empty')} | {meaning} |"


def metrics() -> Iterator[str]:
    """Yield the rows of the table of metrics."""
    yield "| Metric | Kind | Meaning |"
    yield "|---|---|---|"
    for name, meaning in COUNTED.items():
        yield f"| `{METRICS_PREFIX}.{name}` | {'timer' if name in TIMERS else 'counter'} | {meaning} |"


BLOCKS: Mapping[str, Callable[[], Iterable[str]]] = {
    "columns": columns,
    "settings": settings_of_a_file,
    "extras": extras,
    "metrics": metrics,
}


_REGISTRY_HEAD = """\
# What Apache Airflow's registry of providers shows of this one. Written by `make generate` from the provider info, the
# docstrings and pyproject.toml.
"""


def registry() -> str:
    """Return ``.airflow-registry.yaml``: the keys that providers which are listed there use."""
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
    yield package / "reconcile" / websites_file.SCHEMA_FILE, _json(websites_file.schema())
    yield package / "snapshots" / "manifest.schema.json", _json(manifest.json_schema())
    yield CHECKOUT / "docs" / "interface.md", contract_table.render()
    yield CHECKOUT / ".airflow-registry.yaml", registry()
    for document in (CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))):
        text = document.read_text(encoding="utf-8")
        filled = _BLOCK.sub(lambda found: found[1] + "\n".join(BLOCKS[found[2]]()) + "\n" + found[3], text)
        if _BLOCK.search(text):
            yield document, filled


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


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _text(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    sys.exit(main())
