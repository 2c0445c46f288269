"""Parse the desired websites from YAML files or from the output of a task, and report the place of every problem.

``groups`` override ``defaults``, and ``websites`` override both. A setting that is in none of them is not changed.
:func:`schema` is the JSON Schema of the file; editors read it from ``websites.schema.json``.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import jsonschema
import yaml

from airflow_provider_analytics.api.checks import NOT_SHOWN, nearest, refused
from airflow_provider_analytics.api.domains import check_domain, domain_key
from airflow_provider_analytics.api.entries import NETWORKS, UnusableEntriesError
from airflow_provider_analytics.api.fields import (
    FIELDS,
    LINE_FIELDS,
    PASSWORD_FROM,
    PASSWORD_REFERENCE,
    WEBSITE_FIELDS,
    Secret,
    check_password_from,
)
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.reconcile.desired import (
    MODES,
    SETTABLE_FIELDS,
    Place,
    Problem,
    Wanted,
)
from airflow_provider_analytics.reconcile.maintained import Listed, read_list, together

SCHEMA_FILE = "websites.schema.json"

_ALSO = "also_"
#: Keys that a layer may contain in addition to settings.
_IGNORE, _PROTECT = "ignore", "protect"
_NO_ENTRIES = "has no entries: write [] to clear the list, or leave it out"
#: Maximum number of values in all files, with their aliases expanded; also the maximum number of their websites and
#: list entries, with defaults and groups applied.
MAX_VALUES = 1_000_000
_MAX_PROBLEMS = 20
_MAX_CHARACTERS = 180
_PATTERN = re.compile(r"[*?]")

Path = tuple[str | int, ...]

#: Maximum depth of a file; libyaml's composer would crash with a segmentation fault.
_MAX_DEPTH = 100
#: Maximum length of a value that is not text: Python takes long for numbers of many digits, and refuses to print them.
_MAX_SCALAR = 100
#: Length of a text up to which PyYAML's own parser explains a wrong syntax: it does so better, but slowly.
_MAX_EXPLAINED = 100_000
#: Number of problems with a suggestion, because it takes long to find the nearest name.
_MAX_SUGGESTIONS = 100
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
#: libyaml takes a fifth of the time, but PyYAML may be built without it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ProblemsError(ValueError):
    """The problems of a file; the message contains at most twenty.

    :param text: the message.
    :param problems: all problems, sorted by place.
    """

    def __init__(self, text: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(text)
        self.problems = problems


@dataclass(frozen=True)
class WebsitesFile:
    """The content of a file.

    :param websites: its websites, in the order of the file, with defaults and groups applied.
    :param modes: list field to its mode (see :func:`desired.reconcile`).
    :param protected: domains, or patterns, of websites that are never deleted.
    :param parts: list field to the lists of defaults, groups and websites.
    """

    websites: tuple[Wanted, ...]
    modes: Mapping[str, str] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    parts: Mapping[str, Sequence[Listed]] = field(default_factory=dict)

    @property
    def managed(self) -> list[str]:
        """List fields that need a table: those that a website sets, in mode ``managed``."""
        return [name for name, mode in self.modes.items() if mode == "managed" and name in self.parts]

    @property
    def fields(self) -> list[str]:
        """Record fields that at least one website sets."""
        named = {name for website in self.websites for name in website.settings}
        return [name for name in SETTABLE_FIELDS if name in named]


def check_key(domain: str) -> None:
    """Raise :class:`ValueError` if a website of this domain is not allowed in a file."""
    check_domain(domain)
    if _PATTERN.search(domain):
        raise ValueError(f"domain={domain!r} is a pattern in a file; allowed: a domain name without * and ?")


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file; its settings are the ``WEBSITE_FIELDS``, in the same order."""
    settings: dict[str, Any] = {}
    for one in WEBSITE_FIELDS:
        if not one.on_update:
            continue
        if isinstance(one, Secret):
            settings[f"{one.name}_from"] = {
                "description": f"Where Airflow reads the {one.name}: connection:NAME or variable:NAME.",
                "type": "string",
                "pattern": f"^{PASSWORD_REFERENCE}$",
            }
            continue
        described = one.meaning[0].upper() + one.meaning[1:]
        settings[one.name] = {"description": f"{described}.", **one.json_schema}
        if one.name in LINE_FIELDS:
            settings[one.name]["description"] += " The complete list: replaces that of defaults and groups."
            settings[f"{_ALSO}{one.name}"] = {
                "description": f"Entries added to the {one.name} of defaults and groups.",
                **one.json_schema,
            }
    settings[_IGNORE] = {
        "description": "Settings that are sent when the website is created, and not changed afterwards.",
        "type": "array",
        "items": {"enum": list(SETTABLE_FIELDS)},
    }
    protect = {"description": "Whether the website, or those that match the pattern, are never deleted.", "const": True}
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
            "modes": {
                "description": "How exclusion lists are reconciled: merged, managed (entries that left the list are "
                "removed; default with a state folder), or replaced.",
                "type": "object",
                "additionalProperties": False,
                "properties": {name: {"enum": list(MODES)} for name in LINE_FIELDS},
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
            "website": {**layer, "properties": {"groups": groups, _PROTECT: protect, **references}},
            **settings,
        },
    }


def parse_websites_files(texts: Mapping[str, str], default_mode: str = "merge") -> WebsitesFile:
    """Parse the files of a folder, in the order of their names, as one file.

    ``defaults``, ``groups`` and ``networks`` apply to their own file. A domain may be in one file only. ``modes`` must
    be the same in all files with websites, because they apply to the whole plan.

    :param texts: file name, for messages, to text.
    :param default_mode: mode of lists that the files do not name under ``modes``.
    :raises ProblemsError: with every problem of every file, one per line, as ``source:line: problem``.
    """
    counts = Counter[str]()
    problems: list[Problem] = []
    files: list[tuple[str, WebsitesFile]] = []
    for source in sorted(texts):
        if max(counts.values(), default=0) > MAX_VALUES:
            break  # each further file would be one more problem
        reader = _Reader(source, counts)
        try:
            files.append((source, _build(_read(texts[source], reader), reader, default_mode)))
        except ProblemsError as error:
            problems += error.problems
        problems += reader.problems
    first: dict[str, Wanted] = {}
    for website in (website for _, file in files for website in file.websites):
        other = first.setdefault(domain_key(website.domain), website)
        if other.place.source != website.place.source:
            problems.append((website.place, f"{website.domain} is a duplicate of {other.place.text}"))
    modes = next(((source, file.modes) for source, file in files if file.websites), ("", {}))
    problems += [
        (Place(source, 1, 1), f"modes: {_mode_text(file.modes)}, but {_mode_text(modes[1])} in {modes[0]}; allowed: "
         "the same in all files")
        for source, file in files
        if file.websites and dict(file.modes) != dict(modes[1])
    ]  # fmt: skip
    raise_problems(problems)
    return WebsitesFile(
        tuple(website for _, file in files for website in file.websites),
        modes[1],
        tuple(dict.fromkeys(one for _, file in files for one in file.protected)),
        {
            name: [one for _, file in files for one in file.parts.get(name, ())]
            for name in dict.fromkeys(name for _, file in files for name in file.parts)
        },
    )


def in_a_folder(folder: str, names: Iterable[str]) -> list[str]:
    """Return the names of the websites files in a folder, sorted.

    :param names: all names in the folder.
    :raises ValueError: if there is no such file.
    """
    found = sorted(name for name in names if name.endswith(".yaml") and not name.startswith("."))
    if not found:
        raise ValueError(
            f"{readable(folder)}: there is no *.yaml file in this folder; allowed: a folder with at least one"
        )
    return found


def _mode_text(modes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {mode}" for name, mode in sorted(modes.items())) or "none"


def _read(text: str, reader: _Reader) -> Any:
    """Return the values of a YAML text; the reader records their lines and the problems.

    :raises ProblemsError: if it is not YAML, or has too many values.
    """
    try:
        node = _compose(text, reader)
        return reader.read(node, ()) if node else None
    except yaml.MarkedYAMLError as error:
        where, problem = reader.at_mark(error.problem_mark), f"invalid YAML: {error.problem}"
        raise problems_error([(where, problem)]) from error
    except (yaml.YAMLError, RecursionError) as error:
        problem = f"invalid YAML: {str(error) or repr(error)}".partition("\n")[0]
        raise problems_error([(reader.at_mark(None), problem)]) from error


def _compose(text: str, reader: _Reader) -> yaml.Node | None:
    try:
        _check_size(text, reader)
        return yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError:
        if len(text) > _MAX_EXPLAINED:
            raise
        return yaml.compose(text, Loader=yaml.SafeLoader)


def _check_size(text: str, reader: _Reader) -> None:
    """Raise an error if a text has too many or too deeply nested values, before they take memory."""
    depth = values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        values += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            place = reader.at_mark(event.start_mark)
            raise problems_error([(place, f"nested too deeply; allowed: at most {_MAX_DEPTH} levels")])
        if values > 2 * MAX_VALUES:  # keys are values, too
            reader.count("values", values, ())


def parse_websites(value: object, source: str = "config", *, default_mode: str = "merge") -> WebsitesFile:
    """Parse desired websites from values: the content of the YAML file, or a list of records.

    A record is a dict with ``domain`` and the settings of the website. The ``websites`` of a dict may be such a list,
    too. In records, null means "not set". Values may have the form that databases use: flags as 0 and 1, privacy as a
    number, and lists as text. Text is parsed as YAML, which includes JSON, because templates render to text.

    :param source: name of the argument, for messages.
    :param default_mode: see :func:`parse_websites_files`.
    :raises ValueError: with every problem, one per line, as ``source place: problem``.
    """
    places = _Places(source)
    if isinstance(value, str):
        reader = _Reader(source)
        value, places = _read(value, reader), reader
    data = _to_file_shape({"websites": value} if isinstance(value, (list, tuple)) else value, places)
    file = _build(data, places, default_mode)
    raise_problems(places.problems)
    return file


def _build(data: Any, places: _Places, default_mode: str) -> WebsitesFile:
    """Return the content of a file without the values that have problems; the problems are in ``places``."""
    _check_shape(data, places)
    return _websites(data, places, default_mode) if isinstance(data, dict) else WebsitesFile(())


class _Places:
    """The places of values by path, and the problems found.

    :param source: name of the file or argument, for messages.
    :param counts: what all files have so far; see :data:`MAX_VALUES`.
    """

    def __init__(self, source: str, counts: Counter[str] | None = None) -> None:
        self.source = source
        self.problems: list[Problem] = []
        #: Paths of values that the schema refuses, and of the values that contain them.
        self.refused: set[Path] = set()
        self._counts = Counter[str]() if counts is None else counts

    def at(self, path: Path) -> Place:
        """Return the place of a path."""
        return Place(" ".join((self.source, ".".join(map(str, path)))).strip())

    def name(self, path: Path) -> str:
        """Return the name of a value, for a message after its place."""
        return "the value" if path else "the whole"

    def problem(self, path: Path, problem: str) -> None:
        """Add a problem."""
        self.problems.append((self.at(path), problem))

    def count(self, what: str, number: int, path: Path) -> None:
        """Count values or entries, and raise an error if all files together have too many."""
        self._counts[what] += number
        if self._counts[what] > MAX_VALUES:
            allowed = f"at most {MAX_VALUES:,} in all files"
            raise problems_error([(self.at(path), f"there are too many {what} up to here; allowed: {allowed}")])

    def nearest(self, name: str, known: Iterable[str]) -> str | None:
        """Return the known name that is most similar to ``name``; None without one, or if many names were compared."""
        self._counts["suggestions"] += 1
        return nearest(name, known) if self._counts["suggestions"] <= _MAX_SUGGESTIONS else None


class _Reader(_Places):
    """A reader of YAML nodes that records the line of each value."""

    def __init__(self, source: str, counts: Counter[str] | None = None) -> None:
        super().__init__(source, counts)
        self._marks: dict[Path, Any] = {(): None}
        self._constructor = yaml.constructor.SafeConstructor()
        self._open: set[int] = set()

    def at(self, path: Path) -> Place:
        """Return the place of a path, or of the nearest parent with a known place."""
        while path not in self._marks:
            path = path[:-1]
        return self.at_mark(self._marks[path])

    def name(self, path: Path) -> str:
        """Return the path, because the place is only a line."""
        return ".".join(map(str, path)) or "the file"

    def at_mark(self, mark: Any) -> Place:
        """Return the place of a PyYAML mark; None is the beginning of the file."""
        return Place(self.source, mark.line + 1, mark.column + 1) if mark else Place(self.source, 1, 1)

    def _add(self, node: yaml.Node, problem: str) -> None:
        self.problems.append((self.at_mark(node.start_mark), problem))

    def read(self, node: yaml.Node, path: Path) -> Any:
        # The alias of a value is the value itself: each use counts, as it is read as a copy.
        self.count("values", 1, path)
        if path not in self._marks:
            self._marks[path] = node.start_mark
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise yaml.constructor.ConstructorError(None, None, "this alias refers to itself", node.start_mark)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            return [self.read(item, (*path, number)) for number, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key_node.tag not in (_TEXT, _MERGE):
                self._add(key_node, f"the key {key!r} is not text; write it in quotes")
            where = (*path, key)
            if key in data:
                self._add(key_node, f"{key} is a duplicate of line {self.at(where).line}")
            else:
                self._marks[where] = key_node.start_mark
            data[key] = self.read(value_node, where)
        return data

    def _scalar(self, node: yaml.Node) -> Any:
        if node.tag == _TEXT:
            return node.value
        if len(node.value) > _MAX_SCALAR:
            allowed = f"at most {_MAX_SCALAR} characters, or text in quotes"
            self._add(node, f"a number or a date of {len(node.value):,} characters is not allowed; allowed: {allowed}")
            return node.value
        try:
            return self._constructor.construct_object(node)
        except ValueError as error:  # such as the date 2026-13-45
            self._add(node, f"{node.value!r} cannot be read: {error}")
            return node.value


def _to_file_shape(data: Any, places: _Places) -> Any:
    """Return data in the shape of the file: websites by domain, and normalized values."""
    if not isinstance(data, Mapping):
        return data
    data = dict(data)
    websites = data.get("websites")
    if isinstance(websites, (list, tuple)):
        by_domain: dict[str, Any] = {}
        for number, record in enumerate(websites):
            domain = record.get("domain") if isinstance(record, Mapping) else None
            if not isinstance(domain, str):
                places.problem(("websites", number), "has no domain; allowed: a dict with domain and settings")
            elif domain in by_domain:
                places.problem(("websites", number), f"{domain} is a duplicate")
            else:
                # pandas represents null as NaN
                named = {name: one for name, one in record.items() if name != "domain" and not _is_null(one)}
                by_domain[domain] = named
        data["websites"] = by_domain
    for part in ("groups", "websites"):
        layers = data.get(part)
        if isinstance(layers, Mapping):
            for name in layers:
                if not isinstance(name, str):
                    places.problem((part,), f"the key {name!r} is not text")
            data[part] = {name: _normalize_layer(layer) for name, layer in layers.items() if isinstance(name, str)}
    return data | {name: _normalize_layer(data[name]) for name in ("defaults", "modes") if name in data}


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, (float, Decimal)) and math.isnan(value))


def _normalize_layer(layer: Any) -> Any:
    """Return the settings of a layer, with values in the form of the file if they can be parsed."""
    if not isinstance(layer, Mapping):
        return layer
    return {str(name): _normalize_value(str(name), value) for name, value in layer.items()}


def _normalize_value(name: str, value: Any) -> Any:
    if isinstance(value, (tuple, set, frozenset)):
        value = list(value)
    if isinstance(value, (float, Decimal)) and math.isfinite(value) and value == int(value):
        value = int(value)  # pandas and databases may return whole numbers as floats
    if name not in FIELDS or name in LINE_FIELDS or value is None:
        return value
    try:
        return FIELDS[name].parse(value)
    except ValueError:
        return value  # _check_shape reports it


@functools.cache
def _validator() -> Any:
    """Return the validator of the schema, with its references inlined: resolving them takes half of the time."""
    definitions = schema()["definitions"]

    def inlined(part: Any) -> Any:
        if isinstance(part, dict):
            name = part["$ref"].rpartition("/")[2] if isinstance(part.get("$ref"), str) else None
            return inlined(definitions[name]) if name else {key: inlined(value) for key, value in part.items()}
        return part

    return jsonschema.Draft7Validator({key: inlined(part) for key, part in schema().items() if key != "definitions"})


def _check_shape(data: object, places: _Places) -> None:
    """Collect the problems that the schema finds."""
    for error in list(_validator().iter_errors(data)):
        path = tuple(error.absolute_path)
        where = places.name(path)
        if error.validator == "additionalProperties":
            known = list(error.schema["properties"])
            for name in sorted(set(error.instance) - set(known)):
                _refuse((*path, name), data, places)
                places.problem((*path, name), _unknown(name, known, places))
            continue
        _refuse(path, data, places)
        if error.validator == "type" and error.instance is None:
            places.problem(path, f"{where} is empty")
        elif PASSWORD_FROM in path:
            try:
                check_password_from(error.instance)
            except ValueError as problem:
                places.problem(path, str(problem))
        elif error.validator == "type" and _expected(error)[0] in ("object", "array"):
            # The wrong value may contain a password.
            kind = "settings by name" if "object" in _expected(error) else "a list"
            places.problem(path, str(refused(where, NOT_SHOWN, kind)))
        elif error.validator == "type" and "string" in _expected(error):
            places.problem(path, f"{where}: {_short(error.instance)} is not text; put the value in quotes")
        elif error.validator == "pattern":
            places.problem(path, f"{where} {_NO_ENTRIES}")
        else:
            allowed = error.schema.get("enum") or {"boolean": ["true", "false"]}.get(str(error.schema.get("type")))
            allowed_values = f"; allowed: {', '.join(map(str, allowed))}" if allowed else ""
            message = f"{_short(error.instance)} is not allowed{allowed_values}" if allowed else error.message
            places.problem(path, f"{where}: {message}")


def _refuse(path: Path, data: Any, places: _Places) -> None:
    """Take a refused value out of the data, so that the rest of them can be checked.

    A value within a list stays: its list is checked without it.
    """
    places.refused.update(path[:length] for length in range(len(path) + 1))
    if path and not any(isinstance(part, int) for part in path):
        for part in path[:-1]:
            data = data[part]
        data[path[-1]] = None


def _short(value: object) -> str:
    """Return a value for a problem, with room for what is allowed."""
    return readable(repr(value), _MAX_CHARACTERS // 3)


def _expected(error: jsonschema.ValidationError) -> list[str]:
    """Return the allowed types, the usual one first."""
    types: Any = error.validator_value
    return [types] if isinstance(types, str) else list(types)


def _unknown(name: str, known: Sequence[str], places: _Places) -> str:
    if name == "password":
        return f"password: passwords are not allowed in the file; use {PASSWORD_FROM}"
    near = places.nearest(name, known)
    return f"{name} is not known; " + (f"did you mean {near}?" if near else f"allowed: {', '.join(known)}")


def _websites(data: Mapping[str, Any], places: _Places, default_mode: str) -> WebsitesFile:
    modes = {name: (data.get("modes") or {}).get(name) or default_mode for name in LINE_FIELDS}
    lists = _Lists(data.get("networks") or NETWORKS[0], modes)
    groups = data.get("groups") or {}
    defaults = _layer(data.get("defaults"), ("defaults",), lists, places)
    layers = {name: _layer(value, ("groups", name), lists, places) for name, value in groups.items()}
    websites: list[Wanted] = []
    protected: list[str] = []
    first: dict[str, Wanted] = {}
    for domain, value in (data.get("websites") or {}).items():
        path: Path = ("websites", domain)
        if (value or {}).get(_PROTECT):
            protected.append(domain)
        if _PATTERN.search(domain):
            if value != {_PROTECT: True}:
                places.problem(path, f"{domain} is a pattern; allowed: protect: true, and nothing else")
            continue
        try:
            check_key(domain)
        except ValueError as error:
            places.problem(path, str(error))
        other = first.get(domain_key(domain))
        if other:
            line = other.place.line
            places.problem(path, f"{domain} is a duplicate of {f'line {line}' if line else other.domain}")
        included = [layers[name] for name in _groups_of(value, path, layers, places)]
        settings: dict[str, Any] = {}
        for layer in (defaults, *included, _layer(value, path, lists, places)):
            _override(settings, layer)
        ignored = frozenset(one for one in settings.pop(_IGNORE, ()) if isinstance(one, str))
        listed = {name: one for name, one in settings.items() if isinstance(one, Listed)}
        settings |= {name: one.entries for name, one in listed.items()}
        places.count("entries", 1 + sum(len(one.entries) for one in listed.values()), path)
        website = Wanted(settings, domain, places.at(path), ignored, listed)
        first.setdefault(domain_key(domain), website)
        websites.append(website)
    return WebsitesFile(tuple(websites), dict(lists.modes), tuple(protected), lists.found)


def _groups_of(value: Mapping[str, Any] | None, path: Path, layers: Mapping[str, Any], places: _Places) -> list[str]:
    """Return the names of the groups of a website that exist."""
    named = [(number, name) for number, name in enumerate((value or {}).get("groups") or []) if isinstance(name, str)]
    for number, name in named:
        if name not in layers:
            near = places.nearest(name, layers)
            few = ", ".join(sorted(layers)) if len(layers) <= _MAX_PROBLEMS else f"{len(layers):,} groups"
            hint = f"known: {near or few}" if layers else "there are none"
            places.problem((*path, "groups", number), f"there is no group {name}; {hint}")
    return [name for _, name in named if name in layers]


@dataclass(frozen=True)
class _Lists:
    """How to read the lists of a file, and the lists found, by field."""

    networks: str
    modes: Mapping[str, str]
    found: dict[str, list[Listed]] = field(default_factory=dict)


def _layer(value: Mapping[str, Any] | None, path: Path, lists: _Lists, places: _Places) -> dict[str, Any]:
    """Return the settings of one layer, with its lists parsed."""
    layer: dict[str, Any] = {}
    for name, setting in (value or {}).items():
        field_name = name.removeprefix(_ALSO)
        if setting is None or name in ("groups", _PROTECT):
            continue
        if field_name not in LINE_FIELDS:
            layer[name] = setting
            continue
        where = (*path, name)
        is_managed = lists.modes[field_name] == "managed"
        try:
            listed = read_list(name, setting, LINE_FIELDS[field_name], networks=lists.networks, managed=is_managed)
        except UnusableEntriesError as error:
            for number, problem in error.problems:
                if (*where, number - 1) not in places.refused:
                    places.problem((*where, number - 1), f"{name}: {problem}")
            continue
        lists.found.setdefault(field_name, []).append(listed)
        layer[name] = listed
        if not (listed.sources or listed.expired or listed.lines) and setting != []:
            places.problem(where, f"{name} {_NO_ENTRIES}")
    return layer


def _override(settings: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for name in sorted(layer, key=lambda name: name.startswith(_ALSO)):  # a list before its additions
        field_name = name.removeprefix(_ALSO)
        if name == _IGNORE:
            settings[name] = (*settings.get(name, ()), *layer[name])
        elif field_name == name:
            settings[name] = layer[name]
        else:
            settings[field_name] = together([settings.get(field_name, Listed()), layer[name]])


def problems_error(problems: Iterable[Problem]) -> ProblemsError:
    """Return one error with the problems, sorted by place; its message contains at most twenty."""
    listed = sorted(set(problems))
    lines = [readable(f"{place.text}: {problem}", _MAX_CHARACTERS) for place, problem in listed[:_MAX_PROBLEMS]]
    more = [f"and {len(listed) - len(lines):,} more problems"] if len(listed) > len(lines) else []
    return ProblemsError("\n".join([*lines, *more]), listed)


def raise_problems(problems: Sequence[Problem]) -> None:
    """Raise one :class:`ValueError` with the problems, if there are any."""
    if problems:
        raise problems_error(problems)
