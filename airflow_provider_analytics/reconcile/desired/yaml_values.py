# SPDX-License-Identifier: Apache-2.0
r"""Read JSON or YAML text within a budget, with the place of each value. Problems are collected, and all are reported.

JSON is almost YAML, but not quite: YAML rejects ``"\\ud83d\\ude00"``, tabs, and long keys. So a text that is valid JSON
is read as JSON. It is parsed as YAML, too, because only the YAML parser knows the places of the values.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from airflow_provider_analytics.api.checks import MAX_DEPTH, closest, is_too_deep
from airflow_provider_analytics.readable import readable

#: Maximum number of values in all files, with their aliases expanded; also the maximum number of list entries, with
#: defaults and groups applied.
MAX_VALUES = 1_000_000
_MAX_DEPTH = 100
#: Maximum length of a value that is not text: Python takes long for numbers of many digits, and cannot print them.
_MAX_SCALAR = 100
_MAX_PROBLEMS = 20
_MAX_CHARACTERS = 300
#: Number of problems with a suggestion, because it takes long to find the nearest name.
_MAX_SUGGESTIONS = 100
#: libyaml compares each %TAG with all others, which takes long and cannot be interrupted. A version is harmless.
_DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])\ufeff?(%(?!YAML )\\S*)")
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_BINARY = "tag:yaml.org,2002:binary"
#: Tags of lists and mappings that change nothing. Any other tag means something to another program.
_PLAIN_TAGS = (None, "!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")
#: The result of reading a text that is not JSON.
_NOT_JSON = object()
#: Parts of messages about a text that YAML reads as something else, such as ``2001:db8::`` or ``*.example.com``.
_UNQUOTED = ("mapping values are not allowed", "found unexpected ':'", "expected alphabetic or numeric character")
#: libyaml takes a fifth of the time, but PyYAML might be built without it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: Keys and numbers of list items that lead to a value.
Path = tuple[str | int, ...]


class Place(NamedTuple):
    """The place of a definition, for messages.

    :param source: a file such as ``websites.yaml``, or ``config websites.www.example.com``.
    :param line: line of the file, or row of the table, from 1; 0 if there is neither.
    :param column: column of the line, from 1.
    :param in_row: place in the row of a table, such as ``websites.www.example.com``; empty in a file.
    """

    source: str
    line: int = 0
    column: int = 0
    in_row: str = ""

    @property
    def text(self) -> str:
        """The place in messages, such as ``websites.yaml:12``, or ``config row 3, websites.www.example.com``."""
        if self.in_row:
            return f"{self.source} row {self.line}, {self.in_row}"
        if self.line:
            return f"{self.source}:{self.line}"
        return self.source


#: Place and text of a problem, such as ``(Place("websites.yaml", 12, 3), "privacy is empty")``.
Problem = tuple[Place, str]


class ProblemsError(ValueError):
    """The problems of files or websites; the message contains at most twenty.

    :param problems: the problems; sorted by place in :attr:`problems`.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = sorted(set(problems))
        lines = []
        for place, problem in self.problems[:_MAX_PROBLEMS]:
            lines.append(readable(f"{place.text}: {problem}", _MAX_CHARACTERS))
        more = len(self.problems) - len(lines)
        if more:
            lines.append(f"and {more:,} more problems")
        super().__init__("\n".join(lines))


class _InvalidYamlError(ProblemsError):
    """The text is not YAML."""


def _read_json(text: str, duplicates: list[str]) -> tuple[Any, str]:
    """Return the value of a text that is a JSON object or list, or :data:`_NOT_JSON`, and why it is none.

    The reason is empty for a text that does not look like JSON.

    :param duplicates: the keys that an object has twice are added.
    """

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _value in pairs)
        duplicates.extend(key for key, number in counts.items() if number > 1)
        return dict(pairs)

    if not text.lstrip().startswith(("{", "[")):
        return _NOT_JSON, ""
    try:
        # JSON has no NaN, for which int raises an error.
        found = json.loads(text, object_pairs_hook=read_object, parse_constant=int)
        json.dumps(found, ensure_ascii=False).encode()  # raises an error for half of a character, such as "\ud83d"
    except (ValueError, RecursionError) as error:
        return _NOT_JSON, str(error)
    return found, ""


def _too_deep(levels: int) -> str:
    return f"nested too deeply. Allowed: at most {levels} levels"


def _unsupported_tag(tag: str) -> str:
    return f"the tag {readable(tag)} is not supported. Write the value itself"


def is_over(counts: Counter[str]) -> bool:
    """Return whether all files together have too many values or entries."""
    return max(counts.values(), default=0) > MAX_VALUES


class Values:
    r"""The places of the values of one file or argument, and the problems found in them.

    For example, after ``Values("websites.yaml", Counter()).read("websites:\n  www.example.com: {}")``, the path
    ``("websites", "www.example.com")`` is at the place ``websites.yaml:2``.

    :param source: name of the file or argument, for messages.
    :param counts: numbers of values and entries so far, in all files; see :data:`MAX_VALUES`.
    """

    def __init__(self, source: str, counts: Counter[str]) -> None:
        self.source = source
        self.problems: list[Problem] = []
        #: Path of a website to the number of its row, from 1, if the websites are a list of records.
        self.rows: dict[Path, int] = {}
        #: Paths of the values that have a problem.
        self._invalid_paths: set[Path] = set()
        self._text = ""
        self._counts = counts
        #: Path to the place in the text; empty for values that have no text.
        self._places: dict[Path, Place] = {}
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._yaml = yaml.SafeLoader("")

    def read(self, text: str | ValueError) -> Any:
        """Return the values of a JSON or YAML text, and record their places.

        :param text: the text, or why the file cannot be read.
        :raises ProblemsError: if it is neither, or has too many values.
        """
        self._places[()] = self._at(None)
        if isinstance(text, ValueError):
            raise ProblemsError([(self._at(None), str(text))])
        duplicates: list[str] = []
        found, why_not = _read_json(text, duplicates)
        if found is _NOT_JSON and not why_not:
            return self._read_yaml(text)
        if found is _NOT_JSON:
            try:
                return self._read_yaml(text)
            except _InvalidYamlError as error:
                [(place, problem)] = error.problems
                raise ProblemsError([(place, f"neither JSON ({why_not}) nor YAML ({problem})")]) from error
        try:
            self._read_yaml(text)
        except _InvalidYamlError:
            # The places are unknown, and what the YAML parser has checked before it failed is checked here.
            self._places = {(): self._at(None)}
            self.problems = [(self._at(None), f"{key} is a duplicate") for key in duplicates]
            self.count("values", text.count(",") + 1, ())
            if is_too_deep(found):
                raise ProblemsError([(self._at(None), _too_deep(MAX_DEPTH))]) from None
        return found

    def _read_yaml(self, text: str) -> Any:
        directive = _DIRECTIVE.search(text)
        if directive:
            line = text.count("\n", 0, directive.start(1)) + 1
            problem = f"the directive {readable(directive[1])} is not allowed. Remove the line"
            raise ProblemsError([(Place(self.source, line, 1), problem)])
        try:
            self._text = text
            self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
            return self._document()
        except yaml.MarkedYAMLError as error:
            raise self._invalid(error.problem_mark, error.problem) from error
        except (yaml.YAMLError, RecursionError) as error:
            raise self._invalid(None, (str(error) or repr(error)).partition("\n")[0]) from error

    def place(self, path: Path) -> Place:
        """Return the place of a path, or of the nearest parent with a known place."""
        row = self.rows.get(path[:2])
        if row is not None:
            return Place(self.source, row, in_row=".".join(map(str, path)))
        if not self._places:
            return Place(" ".join((self.source, ".".join(map(str, path)))).strip())
        while path and path not in self._places:
            path = path[:-1]
        return self._places[path]

    def problem(self, path: Path, problem: str) -> None:
        """Add a problem."""
        self.problems.append((self.place(path), problem))
        self._invalid_paths.add(path)

    def has_problem(self, *path: str | int, below: bool = False) -> bool:
        """Return whether a value has a problem, so that its consequences are not reported as further problems.

        :param below: also if a value in it has one.
        """
        if path in self._invalid_paths:
            return True
        return below and any(invalid[: len(path)] == path for invalid in self._invalid_paths)

    def count(self, what: str, number: int, path: Path) -> None:
        """Count values or entries, and raise an error if all files together have too many."""
        self._counts[what] += number
        if is_over(self._counts):
            allowed = f"at most {MAX_VALUES:,} in all files"
            raise ProblemsError([(self.place(path), f"there are too many {what} up to here. Allowed: {allowed}")])

    def closest(self, name: str, known: Iterable[str]) -> str:
        """Return the end of a message, see :func:`closest`; empty after many problems."""
        return closest(name, known) if len(self.problems) < _MAX_SUGGESTIONS else ""

    def _at(self, mark: Any) -> Place:
        """Return the place of a PyYAML mark; None is the start of the file."""
        return Place(self.source, mark.line + 1, mark.column + 1) if mark else Place(self.source, 1, 1)

    def _invalid(self, mark: Any, problem: str | None) -> _InvalidYamlError:
        return _InvalidYamlError([(self._at(mark), f"invalid YAML: {problem}{self._hint(mark, problem or '')}")])

    def _hint(self, mark: Any, problem: str) -> str:
        """Return what to do about an error of the parser, whose messages name neither a tab nor quotes."""
        lines = self._text.splitlines()
        rest = ""
        if mark and mark.line < len(lines):
            rest = lines[mark.line][mark.column :]
        if "cannot start any token" in problem and rest.startswith("\t"):
            return ": a tab. Use spaces"
        if "cannot start any token" in problem:
            return f": {rest[:1]!r}. Write the text in quotes"
        if any(map(problem.__contains__, _UNQUOTED)):
            return ". Write a text in quotes if it starts with '*' or '&', ends with ':', or has a colon and a space"
        return ""

    def _document(self) -> Any:
        value: Any = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent) and value is not None:
                raise self._invalid(event.start_mark, "found another document")
            if isinstance(event, yaml.NodeEvent):
                value = self._value(event, ())
        return value

    def _value(self, event: Any, path: Path) -> Any:
        place = self._places.setdefault(path, self._at(event.start_mark))
        self.count("values", 1, path)
        if isinstance(event, yaml.CollectionStartEvent) and len(path) >= _MAX_DEPTH:
            raise ProblemsError([(place, _too_deep(_MAX_DEPTH))])
        if isinstance(event, yaml.CollectionStartEvent) and event.tag not in _PLAIN_TAGS:
            self.problem(path, _unsupported_tag(event.tag))
        number = self._counts["values"]
        value: Any
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._invalid(event.start_mark, f"found undefined alias *{event.anchor}")
            value, size = self._anchors[event.anchor]
            self.count("values", size, path)
        elif isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            children = self._until(yaml.SequenceEndEvent)
            value = [self._value(child, (*path, index)) for index, child in enumerate(children)]
        else:
            value = self._mapping(path)
        if event.anchor:
            self._anchors[event.anchor] = value, self._counts["values"] - number
        return value

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _mapping(self, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for event in self._until(yaml.MappingEndEvent):
            key, at = getattr(event, "value", ""), self._at(event.start_mark)
            if not isinstance(event, yaml.ScalarEvent):
                self._value(event, (*path, key))
            if isinstance(event, yaml.MappingStartEvent):
                problem = "a template in {{ }} is not rendered here, and is no YAML. Write the value itself"
                self.problems.append((at, problem))
            elif isinstance(event, yaml.ScalarEvent) and event.tag not in (None, "!", _TEXT):
                self.problems.append((at, _unsupported_tag(event.tag)))
            elif not isinstance(event, yaml.ScalarEvent) or self._tag(event) not in (_TEXT, _MERGE):
                self.problems.append((at, f"the key {key!r} is not text. Write it in quotes"))
            path_of_value = (*path, key)
            if key in data:
                self.problems.append((at, f"{key} is a duplicate of line {self.place(path_of_value).line}"))
            self._places.setdefault(path_of_value, at)
            data[key] = self._value(next(self._events), path_of_value)
        return data

    def _tag(self, event: Any) -> Any:
        return event.tag or self._yaml.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]

    def _scalar(self, event: Any) -> Any:
        tag: str = self._tag(event)
        if tag == _TEXT:
            return event.value
        problem = f"a number or a date of {len(event.value):,} characters is not allowed. Write it in quotes"
        if tag == _BINARY:
            problem = _unsupported_tag("!!binary")
        elif len(event.value) <= _MAX_SCALAR:
            try:
                return self._yaml.construct_object(yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark))
            except yaml.constructor.ConstructorError:
                problem = _unsupported_tag(tag)
            except ValueError as error:  # such as the date 2026-13-45
                problem = f"{event.value!r} cannot be read: {error}"
        self.problems.append((self._at(event.start_mark), problem))
        return event.value
