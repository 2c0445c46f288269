# SPDX-License-Identifier: Apache-2.0
"""Parse the desired websites from YAML files or from the output of a task, and report the place of every problem.

``groups`` override ``defaults``, and ``websites`` override both. A setting that is in none of them is not changed.
``websites.schema.json`` is the JSON Schema of the file; ``errorMessage`` lists the allowed values, for editors, too.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

import jsonschema

from airflow_provider_analytics.api.checks import invalid, short_repr
from airflow_provider_analytics.api.domains import MAX_PATTERNS, check_domain, domain_key, is_pattern
from airflow_provider_analytics.api.entries import NETWORKS, UnusableEntriesError
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, PASSWORD_FROM, check_password_has_effect
from airflow_provider_analytics.readable import first_of, readable
from airflow_provider_analytics.reconcile.desired.desired_state import (
    DesiredWebsite,
    WebsitesAsCode,
)
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, merge_lists, read_list
from airflow_provider_analytics.reconcile.desired.yaml_values import Path, Problem, ProblemsError, Values, is_over

_ALSO = "also_"
#: Keys that a layer can contain in addition to settings.
_GROUPS, _IGNORE, _PROTECT = "groups", "ignore", "protect"
_YAML_NAME = re.compile(r".*\.ya?ml", re.IGNORECASE | re.DOTALL)
#: The name of a file in a sub-folder, or of a copy or a template, such as ``team/shops.yaml`` or ``shops.yaml.bak``.
_LIKE_A_YAML_NAME = re.compile(r"\.ya?ml(?![a-z0-9])[^/]*$", re.IGNORECASE)
#: JSON is YAML. The JSON Schema of the file can be in the folder for editors.
_JSON_NAME = re.compile(r"(?<!\.schema)\.json$", re.IGNORECASE)
#: Maximum number of files in a message.
_MAX_NAMED = 10


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file."""
    found: dict[str, Any] = json.loads(FilePath(__file__).with_name("websites.schema.json").read_text(encoding="utf-8"))
    return found


def parse_websites_files(texts: Mapping[str, str | ValueError], default_mode: str = "merge") -> WebsitesAsCode:
    """Parse the files of a folder, in the order of their names, as one file.

    ``defaults``, ``groups``, and ``networks`` apply to their own file. A domain can be in one file only. ``modes`` must
    be the same in all files with websites, because they apply to the whole plan.

    :param texts: file name, for messages, to text, or to why it cannot be read.
    :param default_mode: mode of lists that the files do not name under ``modes``.
    :raises ProblemsError: with every problem of every file.
    """
    counts = Counter[str]()
    problems: list[Problem] = []
    parsed = WebsitesAsCode()
    for source, text in sorted(texts.items(), key=lambda item: item[0]):
        if is_over(counts):
            break  # each further file would be one more problem
        values = Values(source, counts)
        try:
            _YamlFile(parsed, values.read(text), values, default_mode)
        except ProblemsError as error:
            problems += error.problems
        problems += values.problems
    if problems:
        raise ProblemsError(problems)
    return parsed


def in_a_folder(folder: str, names: Iterable[str]) -> list[str]:
    """Return the names of the websites files in a folder, sorted: ``*.yaml`` and ``*.yml``, in upper or lower case.

    :param names: all names in the folder, and paths in its sub-folders.
    :raises ValueError: if there is no such file, or if another file looks like a websites file. If it was left out
        silently, ``prune=True`` would delete its websites.
    """
    known = set(names)
    found = []
    omitted = []
    for name in sorted(known):
        is_backup_of_editor = name.strip("#~") != name and name.strip("#~") in known
        if name.startswith(".") or is_backup_of_editor:
            continue
        is_in_subfolder = "/" in name
        if _YAML_NAME.fullmatch(name) and not is_in_subfolder:
            found.append(name)
        elif _LIKE_A_YAML_NAME.search(name) or (_JSON_NAME.search(name) and not is_in_subfolder):
            omitted.append(name)
    if omitted:
        raise ValueError(
            f"{readable(folder)}: {first_of(omitted, _MAX_NAMED, show=readable)} would not be read, but might contain "
            "websites. Move its websites to a *.yaml or *.yml file directly in this folder, or move the file "
            "elsewhere"
        )
    if not found:
        raise ValueError(
            f"{readable(folder)}: there is no *.yaml or *.yml file in this folder. Allowed: a folder with at least one"
        )
    return found


def parse_websites(value: object, *, default_mode: str = "merge") -> WebsitesAsCode:
    """Parse desired websites from values: the content of the YAML file, or a list of records.

    A record is a dict with ``domain`` and the settings of the website. The ``websites`` of a dict can be such a list,
    too. In records, null means "not set". Values can be in the form that databases use: flags as 0 and 1, privacy as a
    number, and lists as text. Text is parsed as YAML, which includes JSON, because templates render to text.

    :param default_mode: see :func:`parse_websites_files`.
    :raises ProblemsError: with every problem.
    """
    values = Values("config", Counter())
    if isinstance(value, str):
        value = values.read(value)
        if isinstance(value, str):
            raise invalid("config", value, "settings by name, and websites; the path of a file belongs in config_path")
    parsed = WebsitesAsCode()
    _YamlFile(parsed, _to_file_shape(value, values), values, default_mode)
    if values.problems:
        raise ProblemsError(values.problems)
    return parsed


def _to_file_shape(data: Any, values: Values) -> Any:
    """Return data in the shape of the file: websites by domain, and normalized values."""
    if isinstance(data, (list, tuple)):
        data = {"websites": data}
    if not isinstance(data, Mapping):
        return data
    data = {str(name): value for name, value in data.items()}
    if isinstance(data.get("websites"), (list, tuple)):
        data["websites"] = _by_domain(data["websites"], values)
    for part in ("groups", "websites"):
        if not isinstance(data.get(part), Mapping):
            continue
        layers = {}
        for name, layer in data[part].items():
            if not isinstance(name, str):
                values.problem((part,), f"the key {name!r} is not text")
            layers[str(name)] = _normalized(layer)
        data[part] = layers
    for part in ("defaults", "modes"):
        if part in data:
            data[part] = _normalized(data[part])
    return data


def _by_domain(records: Sequence[Any], values: Values) -> dict[str, Any]:
    """Return the settings of records by domain, without null, which means "not set"."""
    found: dict[str, Any] = {}
    nameless: list[tuple[int, Any]] = []
    for number, record in enumerate(records, start=1):
        domain = record.get("domain") if isinstance(record, Mapping) else None
        if not isinstance(domain, str):
            nameless.append((number, record))
            continue
        path = ("websites", domain)
        if domain in found:
            values.problem(path, f"row {number} is a duplicate")
            continue
        values.rows[path] = number
        found[domain] = {}
        for name, value in record.items():
            is_null = value is None or value != value  # pandas represents null as NaN, which differs from itself
            if name != "domain" and not is_null:
                found[domain][name] = value
    if not found and len(nameless) > 1:
        del nameless[1:]  # all rows have the same problem
    for number, record in nameless:
        values.problem(("websites",), f"row {number} has no domain. {_columns(record)}")
    return found


def _columns(record: Any) -> str:
    """Return the columns of a record without a domain, as the end of a message."""
    if not isinstance(record, Mapping):
        return f"It is {short_repr(record)}. Allowed: a dict with domain and settings"
    columns = first_of([f"'{readable(str(name), 60)}'" for name in record], _MAX_NAMED) or "none"
    if "domain" in record:
        return f"The domain is {short_repr(record['domain'])}. Allowed: text"
    return f"Its columns: {columns}. Allowed: the column 'domain', and columns with the names of settings"


def _normalized(layer: Any) -> Any:
    """Return the settings of a layer, with values in the form of the file if they can be parsed."""
    if not isinstance(layer, Mapping):
        return layer
    return {str(name): _normalized_value(str(name), value) for name, value in layer.items()}


def _normalized_value(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, (float, Decimal)) and value % 1 == 0:
        value = int(value)  # pandas and databases can return whole numbers as floats
    if name not in FIELDS or name in LINE_FIELDS or value is None:
        return value
    try:
        return FIELDS[name].from_user(value)
    except ValueError:
        return value  # the schema rejects it


@functools.cache
def _validator() -> Any:
    return jsonschema.Draft7Validator(schema())


def _without_invalid_values(data: Any, values: Values) -> dict[str, Any]:
    """Return the data without the values that the schema rejects, which become problems."""
    invalid: list[Path] = []
    for error in _validator().iter_errors(data):
        path = tuple(error.absolute_path)
        if error.validator == "additionalProperties":
            known = error.schema["properties"]
            for key in error.instance.keys() - known.keys():
                invalid.append((*path, key))
                values.problem((*path, key), _unknown_key(key, known, path, values))
            continue
        invalid.append(path)
        values.problem(path, _invalid_value(error, path, values))
    for path in invalid:
        _take_out(data, path)
    return data if isinstance(data, dict) else {}


def _invalid_value(error: Any, path: Path, values: Values) -> str:
    """Return the problem of a value, from an error of the validator."""
    name = values.source
    for part in path:
        if isinstance(part, str):
            name = part
    if error.validator == "type" and error.instance is None:
        return f"{name} is empty"
    # The value might be a password, or contain one.
    is_shown = not isinstance(error.instance, (dict, list)) and PASSWORD_FROM not in path
    value = f"={readable(repr(error.instance), 60)}" if is_shown else " (value not shown)"
    choices = error.schema.get("enum", ())
    allowed = error.schema.get("errorMessage") or ", ".join(choices)
    if is_shown:
        allowed += values.closest(str(error.instance), choices)
    return f"{name}{value} is not allowed. Allowed: {allowed}"


def _unknown_key(key: str, known: Iterable[str], path: Path, values: Values) -> str:
    """Return the problem of a key.

    :param path: path of the mapping with the key.
    """
    is_in_a_list = bool(path) and isinstance(path[-1], int)
    if is_in_a_list and ":" in key:  # an IPv6 address that ends with a colon
        return f"{key}: is a key for YAML, because a colon ends it; write the entry in quotes"
    if key == "password":
        return f"password: passwords are not allowed in the file. Use {PASSWORD_FROM}"
    if key == "<<":
        return f"<< is not supported: put the shared settings into {_GROUPS}, and give the websites these groups"
    hint = values.closest(key, known) or f". Allowed: {', '.join(known)}"
    return f"{key} is not known{hint}"


def _take_out(data: Any, path: Path) -> None:
    """Empty an invalid value, so that the rest can be checked. An invalid value within a list empties its list item."""
    for depth, part in enumerate(path, start=1):
        if isinstance(part, int):
            data[part] = ""
            return
        if depth == len(path):
            data[part] = None
            return
        data = data[part]


class _YamlFile:
    """Adds the websites of one file to the websites that were parsed before.

    :param parsed: the websites of all files.
    :param data: the content of the file.
    :param values: its places and problems.
    """

    def __init__(self, parsed: WebsitesAsCode, data: Any, values: Values, default_mode: str) -> None:
        self._parsed = parsed
        self._values = values
        data = _without_invalid_values(data, values)
        modes = data.get("modes") or {}
        self._modes = {name: modes.get(name) or default_mode for name in LINE_FIELDS}
        self._networks = data.get("networks") or NETWORKS[0]
        self._defaults = self._layer(data.get("defaults"), ("defaults",))
        self._groups = {}
        for name, value in (data.get(_GROUPS) or {}).items():
            self._groups[name] = self._layer(value, (_GROUPS, name))
        websites = data.get("websites") or {}
        if not websites:
            return
        if parsed.by_domain and parsed.modes != self._modes:
            other = parsed.websites[0].place.source
            values.problem((), f"modes differ from those of {other}. Allowed: the same in all files")
        parsed.modes = self._modes
        for domain, value in websites.items():
            self._add(domain, value or {}, ("websites", domain))
        number = len(parsed.protected_patterns)
        if number > MAX_PATTERNS:
            values.problem(
                ("websites",), f"there are {number:,} patterns up to here. Allowed: at most {MAX_PATTERNS:,}"
            )

    def _add(self, domain: str, value: Mapping[str, Any], path: Path) -> None:
        """Add a website, or a protected pattern."""
        if value.get(_PROTECT):
            self._parsed.protected.append(domain)
        if is_pattern(domain):
            if value != {_PROTECT: True}:
                self._values.problem(path, f"{domain} is a pattern. Allowed: protect: true, and nothing else")
            return
        try:
            check_domain(domain)
        except ValueError as error:
            self._values.problem(path, str(error))
        layers = [self._defaults, *self._groups_of(value, path), self._layer(value, path)]
        settings: dict[str, Any] = {}
        ignored: set[str] = set()
        for layer in layers:
            settings |= layer
            ignored.update(layer.get(_IGNORE, ()))
        settings.pop(_IGNORE, None)
        if PASSWORD_FROM in layers[-1]:  # defaults and groups might have one for other websites
            try:
                check_password_has_effect(settings)
            except ValueError as error:
                self._values.problem((*path, PASSWORD_FROM), str(error))
        lists = {}
        for name in LINE_FIELDS:
            parts = self._parts(name, layers, path)
            if parts:
                lists[name] = merge_lists(parts)
            settings.pop(name, None)
            settings.pop(f"{_ALSO}{name}", None)
        website = DesiredWebsite(settings, lists, domain, self._values.place(path), frozenset(ignored))
        same = self._parsed.by_domain.setdefault(domain_key(domain), website)
        if same is not website:
            self._values.problem(path, f"{domain} is a duplicate of {same.place.text}")

    def _groups_of(self, value: Mapping[str, Any], path: Path) -> Iterator[Mapping[str, Any]]:
        """Yield the layers of the groups of a website."""
        for number, name in enumerate(value.get(_GROUPS) or ()):
            if name in self._groups:
                yield self._groups[name]
            elif name and not self._values.has_problem(_GROUPS):
                problem = f"there is no group {name}{self._values.closest(name, self._groups)}"
                self._values.problem((*path, _GROUPS, number), problem)

    def _parts(self, name: str, layers: Sequence[Mapping[str, Any]], path: Path) -> list[EntryList]:
        """Return the parts of a list of a website: the list of the last layer that overrides it, and added lists.

        For example, with ``exclude_ips`` in the defaults and ``also_exclude_ips`` in a group, both lists.
        """
        parts: list[EntryList] = []
        for layer in layers:
            if name in layer:
                parts = [layer[name]]
            if f"{_ALSO}{name}" in layer:
                parts = [*parts, layer[f"{_ALSO}{name}"]]
        # Counted before duplicates are removed, because removing them takes the time.
        self._values.count("entries", sum(part.size for part in parts), path)
        return parts

    def _layer(self, layer: Mapping[str, Any] | None, path: Path) -> dict[str, Any]:
        """Return the settings of defaults, of a group, or of a website, with their lists parsed."""
        settings = {}
        for name, value in (layer or {}).items():
            if value is None or name in (_GROUPS, _PROTECT):
                continue
            if name.removeprefix(_ALSO) in LINE_FIELDS:
                settings[name] = self._list(name, value, (*path, name))
            else:
                settings[name] = value
        return settings

    def _list(self, name: str, value: Any, path: Path) -> EntryList:
        list_field = name.removeprefix(_ALSO)
        is_managed = self._modes[list_field] == "managed"
        if self._values.has_problem("networks") or self._values.has_problem("modes", below=True):
            return EntryList()  # it is unknown which entries are allowed
        try:
            entry_list = read_list(name, value, LINE_FIELDS[list_field], networks=self._networks, managed=is_managed)
        except UnusableEntriesError as error:
            for number, problem in error.problems:
                self._values.problem((*path, number - 1), f"{name}: {problem}")
            return EntryList()
        is_empty = not (entry_list.sources or entry_list.expired or entry_list.lines)
        if is_empty and value != [] and not self._values.has_problem(*path, below=True):
            self._values.problem(path, f"{name} has no entries: write [] to clear the list, or leave it out")
        self._parsed.parts.setdefault(list_field, []).append(entry_list)
        return entry_list
