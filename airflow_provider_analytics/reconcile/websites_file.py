"""The YAML file of websites as code: parse it, with the line of every problem, and write it.

``groups`` override ``defaults``, ``websites`` override both. A setting that none of them names is not changed.
:func:`schema` is the JSON Schema of the file; editors read it from ``websites.schema.json``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema
import yaml

from airflow_provider_analytics.api.checks import nearest
from airflow_provider_analytics.api.domains import check_domain, domain_key
from airflow_provider_analytics.api.entries import NETWORKS, Addresses, UnusableEntriesError
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, WEBSITE_FIELDS, normalise
from airflow_provider_analytics.api.kinds import Secret
from airflow_provider_analytics.reconcile.plan import website_of

PASSWORD_FROM = "password_from"  # noqa: S105 - the name of a field
SCHEMA_FILE = "websites.schema.json"

#: Fields that a file can set and a record can show.
SETTABLE_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.on_update and field.kind.column)
_ALSO = "also_"

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class DesiredWebsite:
    """A website of a file, with defaults and groups applied.

    :param domain: domain name, as written in the file.
    :param settings: field to desired value; only settings that the file names.
    :param line: line in the file, for messages.
    """

    domain: str
    settings: Mapping[str, Any]
    line: int


@dataclass(frozen=True)
class WebsitesFile:
    """The content of a file.

    :param source: name of the file, for messages.
    :param websites: its websites, in the order of the file.
    """

    source: str
    websites: tuple[DesiredWebsite, ...]

    @property
    def fields(self) -> list[str]:
        """The record fields that any website sets."""
        named = {field for website in self.websites for field in website.settings}
        return [field for field in SETTABLE_FIELDS if field in named]


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file; its settings are those of ``WEBSITE_FIELDS``, in the same order."""
    settings: dict[str, Any] = {}
    for field in WEBSITE_FIELDS:
        if not field.on_update:
            continue
        if isinstance(field.kind, Secret):
            settings[f"{field.name}_from"] = {
                "description": f"Where Airflow reads the {field.name}: connection:NAME or variable:NAME.",
                "type": "string",
                "pattern": r"^(connection|variable):\S+$",
            }
            continue
        described = field.meaning[0].upper() + field.meaning[1:]
        settings[field.name] = {"description": f"{described}.", **field.kind.json_schema()}
        if field.name in LINE_FIELDS:
            settings[field.name]["description"] += " The complete list: replaces that of defaults and groups."
            settings[f"{_ALSO}{field.name}"] = {
                "description": f"Entries added to the {field.name} of defaults and groups.",
                **field.kind.json_schema(),
            }
    references = {name: {"$ref": f"#/definitions/{name}"} for name in settings}
    layer = {"type": ["object", "null"], "additionalProperties": False}
    groups = {
        "description": "Names of groups; a later one overrides an earlier one.",
        "type": "array",
        "items": {"type": "string"},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Websites as code",
        "description": "The websites of an analytics account. Groups override defaults, websites override groups.",
        "type": "object",
        "additionalProperties": False,
        "required": ["websites"],
        "properties": {
            "networks": {
                "description": "How networks such as 203.0.113.0/24 in lists of IP addresses are handled: rejected, "
                "expanded to single addresses, or sent unchanged.",
                "enum": list(NETWORKS),
                "default": NETWORKS[0],
            },
            "defaults": {"$ref": "#/definitions/settings", "description": "Settings of every website in this file."},
            "groups": {
                "description": "Named settings that websites can include.",
                "type": "object",
                "additionalProperties": {"$ref": "#/definitions/settings"},
            },
            "websites": {
                "description": "Domain name to settings; nothing after the colon means the defaults.",
                "type": "object",
                "additionalProperties": {"$ref": "#/definitions/website"},
            },
        },
        "definitions": {
            "settings": {**layer, "properties": references},
            "website": {**layer, "properties": {"groups": groups, **references}},
            **settings,
        },
    }


def parse_websites_file(text: str, source: str) -> WebsitesFile:
    """Parse a file.

    :param source: name of the file, for messages.
    :raises ValueError: with every problem, one per line, as ``source:line: problem``.
    """
    reader = _Reader()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data: Any = reader.read(node, ()) if node else None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"{source}:{line}: invalid YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{source}:1: invalid YAML: {error!r}") from error
    _check_shape(data, reader)
    websites = [] if reader.problems else _websites(data, reader)
    raise_problems(source, reader.problems)
    return WebsitesFile(source, tuple(websites))


def export_websites(records: Iterable[Mapping[str, Any]], *, origin: str) -> str:
    """Return the text of a file that describes the records: planned against them, it changes nothing.

    Comments at the top list what is missing: fields that a record does not show or whose value is not allowed in a
    file, and passwords, which no record shows.

    :param origin: source of the records, for the first line.
    :raises ValueError: if several records have the same domain.
    """
    websites: dict[str, dict[str, Any]] = {}
    notes = []
    networks = False
    seen: dict[str, str] = {}
    for record in sorted(records, key=lambda record: domain_key(website_of(record)[0])):
        domain, website_id = website_of(record)
        if domain_key(domain) in seen:
            raise ValueError(
                f"several websites have the domain {domain}: ids {seen[domain_key(domain)]}, {website_id}. A file can "
                "hold a domain only once: delete all but one"
            )
        seen[domain_key(domain)] = website_id
        try:
            check_domain(domain)
        except ValueError as error:
            notes.append(f"id {website_id}: omitted, {error}")
            continue
        settings = websites[domain] = {}
        for field in SETTABLE_FIELDS:
            value = normalise(field, record.get(field))
            try:
                settings[field], network = _exported(field, value, shown=field in record)
                networks |= network
            except ValueError as error:
                notes.append(f"{domain}: {field} omitted, {error}")
        if settings.get("privacy") == "password":
            notes.append(f"{domain}: set {PASSWORD_FROM} before it is created again")
    head = [
        f"# Websites of {origin}.",
        "# Not included, and not restored by this file: ids, statistics, passwords.",
        *(f"# {json.dumps(note, ensure_ascii=False)[1:-1]}" for note in notes),
    ]
    data = {**({"networks": "send"} if networks else {}), "websites": websites}
    body: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join(head) + "\n" + body


def _exported(field: str, value: Any, *, shown: bool) -> tuple[Any, bool]:
    """Return a value as written in the file, and whether it contains a network."""
    if not shown:
        raise ValueError("the record does not show it")
    if field not in LINE_FIELDS:
        try:
            return FIELDS[field].kind.parse(field, value), False
        except ValueError:
            raise ValueError(f"its value {value!r} is not documented") from None
    if not isinstance(value, tuple):
        raise ValueError("its value is not a list")
    entry_type = LINE_FIELDS[field]
    entries = tuple(dict.fromkeys(key for key in map(entry_type.key, value) if key))
    entry_type.parse(field, entries, "send")
    return list(entries), isinstance(entry_type, Addresses) and any("/" in entry for entry in entries)


class _Reader:
    """A reader of YAML nodes that records the line of each value."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {(): 1}
        self.problems: list[tuple[int, str]] = []
        self._constructor = yaml.constructor.SafeConstructor()
        self._open: set[int] = set()

    def read(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, _line(node))
        if id(node) in self._open:
            raise yaml.constructor.ConstructorError(None, None, "this alias refers to itself", node.start_mark)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.read(item, (*path, number)) for number, item in enumerate(node.value)]
            return self._scalar(node)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key_node.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                self.problems.append((_line(key_node), f"the key {key!r} is not text; write it in quotes"))
            where = (*path, key)
            if key in data:
                self.problems.append((_line(key_node), f"{key} is a duplicate of line {self.lines[where]}"))
            self.lines.setdefault(where, _line(key_node))
            data[key] = self.read(value_node, where)
        return data

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            return self._constructor.construct_object(node)
        except ValueError as error:  # such as the date 2026-13-45
            self.problems.append((_line(node), f"{node.value!r} cannot be read: {error}"))
            return node.value


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _check_shape(data: object, reader: _Reader) -> None:
    """Collect the problems that the schema finds."""
    for error in jsonschema.Draft7Validator(schema()).iter_errors(data):
        path = tuple(error.absolute_path)
        line = reader.lines.get(path, 1)
        where = ".".join(str(part) for part in path) or "the file"
        if error.validator == "additionalProperties":
            known = list(error.schema["properties"])
            for name in sorted(set(error.instance) - set(known)):
                reader.problems.append((reader.lines.get((*path, name), line), _unknown(name, known)))
        elif error.validator == "type" and error.instance is None:
            reader.problems.append((line, f"{where} is empty"))
        elif PASSWORD_FROM in path:
            allowed = "connection:NAME or variable:NAME"
            reader.problems.append((line, f"{where} (value not shown) is not allowed; allowed: {allowed}"))
        elif error.validator == "type" and ("object" in error.validator_value or "array" in error.validator_value):
            # What stands there instead may hold a password.
            kind = "settings by name" if "object" in error.validator_value else "a list"
            reader.problems.append((line, f"{where} (value not shown) is not allowed; allowed: {kind}"))
        else:
            reader.problems.append((line, f"{where}: {error.message}"))


def _unknown(name: str, known: Sequence[str]) -> str:
    if name == "password":
        return f"password: passwords are not allowed in the file; use {PASSWORD_FROM}"
    near = nearest(name, known)
    return f"{name} is not known; " + (f"did you mean {near}?" if near else f"allowed: {', '.join(known)}")


def _websites(data: Mapping[str, Any], reader: _Reader) -> list[DesiredWebsite]:
    networks = data.get("networks", "reject")
    groups = data.get("groups", {})
    defaults = _layer(data.get("defaults"), ("defaults",), networks, reader)
    layers = {name: _layer(value, ("groups", name), networks, reader) for name, value in groups.items()}
    websites: list[DesiredWebsite] = []
    first: dict[str, DesiredWebsite] = {}
    for domain, value in data["websites"].items():
        path: Path = ("websites", domain)
        line = reader.lines[path]
        try:
            check_domain(domain)
        except ValueError as error:
            reader.problems.append((line, str(error)))
        other = first.get(domain_key(domain))
        if other:
            reader.problems.append((line, f"{domain} is a duplicate of line {other.line}"))
        settings: dict[str, Any] = {}
        _override(settings, defaults)
        for number, name in enumerate((value or {}).get("groups", [])):
            if name not in layers:
                hint = f"known: {nearest(name, layers) or ', '.join(sorted(layers))}" if layers else "there are none"
                reader.problems.append((reader.lines[*path, "groups", number], f"there is no group {name}; {hint}"))
            _override(settings, layers.get(name, {}))
        _override(settings, _layer(value, path, networks, reader))
        website = DesiredWebsite(domain, settings, line)
        first.setdefault(domain_key(domain), website)
        websites.append(website)
    return websites


def _layer(value: Mapping[str, Any] | None, path: Path, networks: str, reader: _Reader) -> dict[str, Any]:
    """Return the settings of one layer, with its lists parsed."""
    layer: dict[str, Any] = {}
    for name, setting in (value or {}).items():
        field = name.removeprefix(_ALSO)
        if field not in LINE_FIELDS:
            layer[name] = setting
            continue
        try:
            layer[name] = LINE_FIELDS[field].parse(name, setting, networks)
        except UnusableEntriesError as error:
            for number, problem in error.problems:
                reader.problems.append((reader.lines[*path, name, number - 1], f"{name}: {problem}"))
    layer.pop("groups", None)
    return layer


def _override(settings: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for name in sorted(layer, key=lambda name: name.startswith(_ALSO)):  # a list before its additions
        field = name.removeprefix(_ALSO)
        if field == name:
            settings[name] = layer[name]
        else:
            settings[field] = tuple(dict.fromkeys((*settings.get(field, ()), *layer[name])))


def raise_problems(source: str, problems: Iterable[tuple[int, str]]) -> None:
    """Raise one :class:`ValueError` with all problems, sorted by line, if there are any."""
    listed = sorted(set(problems))
    if listed:
        raise ValueError("\n".join(f"{source}:{line}: {problem}" for line, problem in listed))
