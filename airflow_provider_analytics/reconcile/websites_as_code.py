"""Websites as code: a YAML file of what websites should be, compared with what they are.

``defaults`` < ``groups`` < ``websites``: what is more particular overrides what is more general. A setting that
none of them names is left alone. ``websites.schema.json`` beside this module is the shape of the file; editors
complete from it, and it is what files are checked against.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema
import yaml

from airflow_provider_analytics.api.fields import (
    LINE_FIELDS,
    UPDATE_FIELDS,
    check_domain,
    domain_key,
)
from airflow_provider_analytics.reconcile.exclusions import (
    Entries,
    UnusableEntriesError,
    entry_key,
    parse_ips,
    parse_params,
    reconcile,
)
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, plain, website_of

PASSWORD_FROM = "password_from"  # noqa: S105 - the name of a field
SCHEMA_FILE = "websites.schema.json"

#: Fields that a file can name and a record can show.
EXPORTED_FIELDS = tuple(field for field in UPDATE_FIELDS if field != "password")
_ALSO = "also_"

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class DesiredWebsite:
    """A website as a file wants it, after layering; only settings that the file names.

    :param line: line of the file, for messages.
    """

    domain: str
    settings: Mapping[str, Any]
    line: int


@dataclass(frozen=True)
class WebsitesFile:
    """What a file says.

    :param source: name of the file, for messages.
    """

    source: str
    websites: tuple[DesiredWebsite, ...]

    @property
    def fields(self) -> list[str]:
        """The record fields that any website names."""
        named = {field for website in self.websites for field in website.settings}
        return [field for field in EXPORTED_FIELDS if field in named]

    @property
    def password_references(self) -> list[str]:
        """Where passwords are taken from, each once."""
        return sorted(
            {website.settings[PASSWORD_FROM] for website in self.websites if PASSWORD_FROM in website.settings}
        )


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file."""
    text = importlib.resources.files(__package__).joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def parse_websites_file(text: str, source: str) -> WebsitesFile:
    """Read a file.

    :param source: name of the file, for messages.
    :raises ValueError: lists every problem, one per line, as ``source:line: problem``.
    """
    reader = _Reader()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data: Any = reader.read(node, ()) if node else None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"{source}:{line}: this is not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{source}:1: this is not YAML: {error!r}") from error
    _check_shape(data, reader)
    websites = [] if reader.problems else _websites(data, reader)
    _raise(source, reader.problems)
    return WebsitesFile(source, tuple(websites))


def plan_websites(websites_file: WebsitesFile, records: Sequence[Mapping[str, Any]], *, prune: bool) -> Plan:
    """Return the plan that makes the websites what the file says.

    A password is sent with a create, or when ``privacy`` becomes ``password``: no record shows a password, so
    that a changed one cannot be noticed. A field that a record does not show is sent.

    :param records: the complete list.
    :param prune: also delete the websites that the file does not name.
    :raises ValueError: lists every website that cannot be planned: duplicates, and new ones without privacy or
        password.
    """
    by_domain: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        domain, website_id = website_of(record)
        by_domain.setdefault(domain_key(domain), []).append(record)
    problems = [
        (1, f"website {record['id']} comes without a domain, so it cannot be told whether the file names it")
        for record in by_domain.pop("", [])
    ]
    changes, compared = [], []
    for website in websites_file.websites:
        found = by_domain.pop(domain_key(website.domain), [])
        if len(found) > 1:
            ids = ", ".join(str(record["id"]) for record in found)
            problems.append((website.line, f"several websites have the domain {website.domain}: ids {ids}"))
            continue
        compared += found
        change = _update(website, found[0], problems) if found else _create(website, problems)
        if change.fields or not found:
            changes.append(change)
    if prune:
        for record in (record for group in by_domain.values() for record in group):
            compared.append(record)
            domain, website_id = website_of(record)
            shown = tuple(
                FieldChange(field, plain(field, record[field]), None) for field in EXPORTED_FIELDS if field in record
            )
            changes.append(Change("delete", domain, website_id, shown))
    _raise(websites_file.source, problems)
    return Plan.of(changes, compared)


def relevant_records(
    websites_file: WebsitesFile, records: Iterable[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the records of websites that the file names, and the others."""
    named = {domain_key(website.domain) for website in websites_file.websites}
    parts: tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]] = ([], [])
    for record in records:
        parts[domain_key(website_of(record)[0]) not in named].append(record)
    return parts


def export_websites(records: Iterable[Mapping[str, Any]], *, origin: str) -> str:
    """Return a file that says what the records say: planned against them, it changes nothing.

    What the file cannot say is listed in comments at its head: fields that are not shown or that hold what no
    file may hold, and passwords, which no record shows.

    :param origin: where the records come from, for the first line.
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
                f"several websites have the domain {domain}: ids {seen[domain_key(domain)]}, {website_id}. A file "
                "names each once: remove all but one"
            )
        seen[domain_key(domain)] = website_id
        try:
            check_domain(domain)
        except ValueError as error:
            notes.append(f"id {website_id}: left out, {error}")
            continue
        settings = websites[domain] = {}
        for field in EXPORTED_FIELDS:
            value = plain(field, record.get(field))
            try:
                settings[field], network = _exported(field, value, shown=field in record)
                networks |= network
            except ValueError as error:
                notes.append(f"{domain}: {field} is left out, {error}")
        if settings.get("privacy") == "password":
            notes.append(f"{domain}: to create it anew, write down where its password is ({PASSWORD_FROM})")
    head = [
        f"# Websites of {origin}.",
        "# Not in here, and not to be brought back by it: ids, statistics, passwords.",
        *(f"# {json.dumps(note, ensure_ascii=False)[1:-1]}" for note in notes),
    ]
    data = {**({"networks": "send"} if networks else {}), "websites": websites}
    body: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join(head) + "\n" + body


def _exported(field: str, value: Any, *, shown: bool) -> tuple[Any, bool]:
    """Return a value as the file writes it, and whether it holds a network."""
    if not shown:
        raise ValueError("the record does not show it")
    if field not in LINE_FIELDS:
        if (field == "privacy" and value in schema()["definitions"]["privacy"]["enum"]) or isinstance(value, bool):
            return value, False
        raise ValueError(f"its value {value!r} is none that the interface knows")
    if not isinstance(value, tuple):
        raise ValueError("it is no list")
    entries = tuple(dict.fromkeys(key for key in (entry_key(field, line) for line in value) if key))
    _parse_entries(field, entries, "send")
    return list(entries), field == "exclude_ips" and any("/" in entry for entry in entries)


def _parse_entries(field: str, entries: Sequence[str], networks: str) -> Entries:
    return parse_ips(field, entries, networks) if field == "exclude_ips" else parse_params(field, entries)


def _update(website: DesiredWebsite, record: Mapping[str, Any], problems: list[tuple[int, str]]) -> Change:
    domain, website_id = website_of(record)
    changes = []
    for field, wanted in website.settings.items():
        if field == PASSWORD_FROM:
            continue
        before = plain(field, record[field]) if field in record else None
        after = wanted
        if field in LINE_FIELDS and isinstance(before, tuple):
            after, _ = reconcile(field, before, wanted, "replace")
        if field not in record or before != after:
            changes.append(FieldChange(field, before, after))
    if any(change.field == "privacy" and change.after == "password" for change in changes):
        changes += _password(website, problems)
    return Change("update", domain, website_id, tuple(changes))


def _create(website: DesiredWebsite, problems: list[tuple[int, str]]) -> Change:
    privacy = website.settings.get("privacy")
    if privacy is None:
        problems.append(
            (
                website.line,
                f"{website.domain} is new and has no privacy: write it down, here or in defaults; the service's "
                "own default is a public statistics page",
            )
        )
    changes = [
        FieldChange(field, None, value)
        for field, value in website.settings.items()
        # What a new website has anyway: no entries, no mark (which a create cannot set, interface.md, part 2).
        if field != PASSWORD_FROM and value != () and not (field == "favorite" and value is False)
    ]
    if privacy == "password":
        changes += _password(website, problems)
    return Change("create", website.domain, None, tuple(changes))


def _password(website: DesiredWebsite, problems: list[tuple[int, str]]) -> list[FieldChange]:
    reference = website.settings.get(PASSWORD_FROM)
    if reference is None:
        problems.append(
            (
                website.line,
                f"{website.domain} is to be protected by a password, but has no {PASSWORD_FROM}: write down "
                "connection:NAME or variable:NAME, or privacy: private",
            )
        )
        return []
    return [FieldChange(PASSWORD_FROM, None, reference)]


class _Reader:
    """Turns YAML nodes into values, and remembers on which line each stood."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {(): 1}
        self.problems: list[tuple[int, str]] = []
        self._constructor = yaml.constructor.SafeConstructor()
        self._open: set[int] = set()

    def read(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, _line(node))
        if id(node) in self._open:
            raise yaml.constructor.ConstructorError(None, None, "this refers to itself", node.start_mark)
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
                self.problems.append((_line(key_node), f"the name {key!r} is not text; write it in quotes"))
            where = (*path, key)
            if key in data:
                self.problems.append((_line(key_node), f"{key} is written twice; first on line {self.lines[where]}"))
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
    """Note every problem that the schema sees."""
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
        else:
            reader.problems.append((line, f"{where}: {error.message}"))


def _unknown(name: str, known: Sequence[str]) -> str:
    if name == "password":
        return f"password: a password never stands in the file; {PASSWORD_FROM} says where it is"
    near = difflib.get_close_matches(name, known, n=1)
    return f"{name} is not known; " + (f"did you mean {near[0]}?" if near else f"allowed: {', '.join(known)}")


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
            reader.problems.append((line, f"{domain} is the domain of line {other.line} again"))
        settings: dict[str, Any] = {}
        _override(settings, defaults)
        for number, name in enumerate((value or {}).get("groups", [])):
            if name not in layers:
                known = difflib.get_close_matches(name, layers, n=1) or sorted(layers)
                hint = f"known: {', '.join(known)}" if known else "there are none"
                reader.problems.append((reader.lines[*path, "groups", number], f"there is no group {name}; {hint}"))
            _override(settings, layers.get(name, {}))
        _override(settings, _layer(value, path, networks, reader))
        website = DesiredWebsite(domain, settings, line)
        first.setdefault(domain_key(domain), website)
        websites.append(website)
    return websites


def _layer(value: Mapping[str, Any] | None, path: Path, networks: str, reader: _Reader) -> dict[str, Any]:
    """Return the settings of one layer, its lists parsed."""
    layer: dict[str, Any] = {}
    for name, setting in (value or {}).items():
        field = name.removeprefix(_ALSO)
        if field not in LINE_FIELDS:
            layer[name] = setting
            continue
        try:
            layer[name] = _parse_entries(field, setting, networks)
        except UnusableEntriesError as error:
            for number, problem in error.problems:
                reader.problems.append((reader.lines[*path, name, number - 1], f"{name}: {problem}"))
    layer.pop("groups", None)
    return layer


def _override(settings: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for name in sorted(layer, key=lambda name: name.startswith(_ALSO)):  # the list itself before what is added to it
        field = name.removeprefix(_ALSO)
        if field == name:
            settings[name] = layer[name]
        else:
            settings[field] = tuple(dict.fromkeys((*settings.get(field, ()), *layer[name])))


def _raise(source: str, problems: Iterable[tuple[int, str]]) -> None:
    listed = sorted(set(problems))
    if listed:
        raise ValueError("\n".join(f"{source}:{line}: {problem}" for line, problem in listed))
