"""Kinds of values of website fields: how each is parsed, sent, compared and stored.

A value has three forms:

*given* by a user
    Anything that :meth:`Kind.parse` accepts.
*normalized*, for plans, comparisons and reports
    Privacy as its label, a flag as bool, a list as a tuple of its lines.
*sent*
    The text of docs/interface.md, Fields.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from airflow_provider_analytics.api import checks
from airflow_provider_analytics.api.domains import check_domain, domain_key
from airflow_provider_analytics.api.entries import EntryType, UnusableEntriesError, stripped, without_comment

#: Setting of files and operators with the location of a password, and its allowed form.
PASSWORD_FROM = "password_from"  # noqa: S105 - the name of a setting
PASSWORD_REFERENCE = r"(connection|variable):page_password[\w.-]*"  # noqa: S105 - a pattern
#: Texts for false and true, in this order.
BooleanTexts = tuple[str, str]


class Privacy(IntEnum):
    """Who sees a website's public statistics page (docs/interface.md, Fields)."""

    PUBLIC = 0
    PRIVATE = 1
    PASSWORD = 2

    @property
    def label(self) -> str:
        """Name in files and messages: ``public``, ``private`` or ``password``."""
        return self.name.lower()


class Kind:
    """A kind of value; the base class is plain text."""

    #: Type of the column in a snapshot; None if the value is never stored.
    column: ClassVar[str | None] = "string"
    #: Annotation of the argument in the hook and the operators.
    argument: ClassVar[str] = "str | None"
    #: Allowed values in a file of websites, as Markdown.
    in_a_file: ClassVar[str] = "text"
    #: Values in the column of a snapshot, as Markdown; empty if the type of the column is enough.
    in_a_column: ClassVar[str] = ""

    def parse(self, field: str, value: object) -> Any:
        """Normalize a value of a user.

        :raises ValueError: if it is invalid; the message contains the field, the value and the allowed values.
        """
        if not isinstance(value, str):
            raise checks.refused(field, value, "text")
        return value

    def read(self, value: object) -> Any:
        """Normalize a value of the service; null stays None.

        :raises ValueError: if it is not of this kind.
        """
        return None if value is None else self.parse("", value)

    def encode(self, value: Any, booleans: BooleanTexts) -> str:
        """Return the text to send for a normalized value."""
        return str(value)

    def key(self, value: Any) -> Any:
        """Return a key that is equal for equal normalized values."""
        return value

    def cell(self, value: object) -> Any:
        """Return a value of the service for the column, or None if it does not fit."""
        return value if isinstance(value, str) else None

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the setting in a file of websites."""
        return {"type": "string"}


class Domain(Kind):
    """A domain name, kept as written."""

    argument = "str"

    def parse(self, field: str, value: object) -> str:
        """Return the domain unchanged if it is valid."""
        return check_domain(value)

    def read(self, value: object) -> Any:
        """Return the value unchanged: the service decides what a valid domain is."""
        return value

    def key(self, value: Any) -> Any:
        """Return the domain as A-labels in lower case."""
        return domain_key(value) if isinstance(value, str) else value


class PrivacySetting(Kind):
    """A :class:`Privacy`, normalized to its label."""

    column = "integer"
    argument = "Privacy | int | str | None"
    in_a_file = "`public`, `private` or `password`"
    in_a_column = ": 0 public, 1 private, 2 password"

    def parse(self, field: str, value: object) -> str:
        """Return the label of a privacy given as enum member, number or name, any case."""
        return parse_privacy(value).label

    def encode(self, value: Any, booleans: BooleanTexts) -> str:
        """Return the number."""
        return str(parse_privacy(value).value)

    def cell(self, value: object) -> int | None:
        """Return the number, even if the interface does not define it."""
        if type(value) is int:  # nearly always
            return _integer(value)
        try:
            return parse_privacy(value).value
        except ValueError:
            return _integer(value)

    def json_schema(self) -> dict[str, Any]:
        """Return an enum of the labels."""
        return {"enum": [setting.label for setting in Privacy]}


class Flag(Kind):
    """On or off, sent as 0 or 1."""

    column = "integer"
    argument = "bool | None"
    in_a_file = "`true` or `false`"
    in_a_column = ": 0 or 1"

    def parse(self, field: str, value: object) -> bool:
        """Return the flag as bool."""
        return checks.flag(field, value)

    def encode(self, value: Any, booleans: BooleanTexts) -> str:
        """Return 0 or 1."""
        return "1" if value else "0"

    def cell(self, value: object) -> Any:
        """Return 0 or 1, or any other number of the service."""
        if type(value) is int:  # nearly always
            return _integer(value)
        try:
            return int(checks.flag("", value))
        except ValueError:
            return _integer(value)

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of a boolean."""
        return {"type": "boolean"}


class Boolean(Flag):
    """True or false, sent in the format of the extra ``boolean_format``."""

    column = "boolean"
    in_a_column = ""

    def read(self, value: object) -> Any:
        """Return the flag as bool. Null means false: services return it for a flag that is not set."""
        return False if value is None else self.parse("", value)

    def encode(self, value: Any, booleans: BooleanTexts) -> str:
        """Return the text for false or true."""
        return booleans[bool(value)]

    def cell(self, value: object) -> bool | None:
        """Return the bool, or None if it is not one."""
        if isinstance(value, bool):  # nearly always
            return value
        try:
            return checks.flag("", value)
        except ValueError:
            return None


@dataclass(frozen=True)
class Lines(Kind):
    """A list that the service stores as one text, one entry per line; normalized to a tuple of lines.

    :param entries: type of the entries; two lists are equal if they have the same entries in any order.
    """

    entries: EntryType

    argument: ClassVar[str] = "Iterable[str] | str | None"
    in_a_file: ClassVar[str] = "the whole list, or a text with an entry per line"
    in_a_column: ClassVar[str] = ", an entry per line"

    def parse(self, field: str, value: object) -> tuple[str, ...]:
        """Return the lines of a list, or of a text with an entry per line, with their comments.

        ``[]`` means no entries. A text without entries is invalid, so that an empty Variable, or a file that was read
        incorrectly, never clears a list.
        """
        if isinstance(value, str):
            lines = [line for line in map(stripped, value.splitlines()) if line]
            if not any(map(self.entries.key, lines)):  # nothing, or comments only
                raise ValueError(f"{field}={value!r} has no entries; to clear the list, give []")
        elif isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
            raise checks.refused(field, value, "a list, or a text with one entry per line")
        else:
            lines = list(value)
        found, problems = [], []
        for number, line in enumerate(lines, start=1):
            try:
                found.append(self.entries.check_line(line))
            except ValueError as error:
                problems.append((number, f"{checks.short_repr(line)} {error}"))
        if problems:
            place = "line" if isinstance(value, str) else "entry"
            raise UnusableEntriesError(field, place, problems, self.entries.allowed)
        return tuple(found)

    def read(self, value: object) -> tuple[str, ...]:
        """Return the lines of a text or an array of the service, without blank lines; null means no lines.

        :raises ValueError: if it is neither, or if a line is not one entry (:meth:`EntryType.is_understood`).
        """
        lines = self.split(value)
        invalid = _first_invalid_line(self.entries, lines)
        if invalid is not None:
            raise checks.refused("", invalid, "one entry per line")
        return lines

    def split(self, value: object) -> tuple[str, ...]:
        """Return the lines of the service, even if they are not valid entries.

        :raises ValueError: if it is neither a text nor an array of texts.
        """
        if isinstance(value, str):
            return _lines(value)
        parts = [] if value is None else value
        if not isinstance(parts, (list, tuple)) or not all(part is None or isinstance(part, str) for part in parts):
            raise checks.refused("", value, "a text, or an array of texts")
        return tuple(line for part in parts for line in _lines(part or ""))

    def count(self, lines: tuple[str, ...]) -> int:
        """Return the number of distinct entries; for a line that is not one entry, the number of its words."""
        return _count(self.entries, lines)

    def encode(self, value: Any, booleans: BooleanTexts) -> str:
        """Return a text with one entry per line."""
        return "\n".join(value)

    def key(self, value: Any) -> Any:
        """Return the set of the entries, without comments."""
        return {self.entries.key(line) for line in value} - {""} if isinstance(value, tuple) else value

    def cell(self, value: object) -> str | None:
        """Return a text with one entry per line."""
        try:
            return "\n".join(self.split(value))
        except ValueError:
            return None

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of a list of texts or dicts, or of a text with an entry per line."""
        item = {
            "type": ["string", "object"],
            "additionalProperties": False,
            "properties": {
                "entry": {"type": "string", "description": "The entry."},
                "owner": {"type": "string", "description": "Who asked for it."},
                "until": {"description": "Its last day, YYYY-MM-DD, for a list in mode managed."},
                "reason": {"type": "string", "description": "Why it is there, for readers of the file."},
                "comment": {"type": "string", "description": "A comment that is sent with the entry when it is added."},
            },
        }
        return {"type": ["array", "string"], "items": item, "pattern": r"\S"}


# Many websites have the same list, and each list is read several times.
@functools.lru_cache(maxsize=1 << 8)
def _lines(text: str) -> tuple[str, ...]:
    """Return the lines of a text that are not blank, without surrounding white space."""
    return tuple(line for line in map(stripped, text.splitlines()) if line)


@functools.lru_cache(maxsize=1 << 16)
def _is_valid_line(entries: EntryType, line: str) -> bool:
    entry = without_comment(line)
    return not entry or entries.is_understood(entry)


@functools.lru_cache(maxsize=1 << 8)
def _first_invalid_line(entries: EntryType, lines: tuple[str, ...]) -> str | None:
    """Return the first line that is not one entry."""
    return next((line for line in lines if not _is_valid_line(entries, line)), None)


@functools.lru_cache(maxsize=1 << 8)
def _count(entries: EntryType, lines: tuple[str, ...]) -> int:
    distinct = [line for line in dict.fromkeys(lines) if not line.startswith("#")]
    return sum(1 if _is_valid_line(entries, line) else len(re.findall(r"[^\s,;]+", line)) for line in distinct)


class Secret(Kind):
    """A text that is sent, but never displayed or stored."""

    column = None
    in_a_file = "`connection:NAME` (its password) or `variable:NAME`; the name begins with `page_password`"

    def parse(self, field: str, value: object) -> str:
        """Return the secret.

        :raises ValueError: if it is invalid; the message, which may be logged, omits the value.
        """
        if not isinstance(value, str) or not value or len(value.splitlines()) != 1:
            raise checks.refused(field, checks.NOT_SHOWN, "one line of text, not empty")
        if value == "***":
            raise ValueError(f"{field} is '***', Airflow's mask for a secret; give the {field} itself")
        return value


def check_password_from(value: object) -> str:
    """Return the location of a password: ``connection:NAME`` or ``variable:NAME``.

    The name must begin with ``page_password``. Otherwise the author of a YAML file could have any other secret sent to
    the service.

    :raises ValueError: for any other value; the message omits a value that may be the password itself.
    """
    if not isinstance(value, str) or not re.fullmatch(PASSWORD_REFERENCE, value):
        shown = value if isinstance(value, str) and value.startswith(("connection:", "variable:")) else checks.NOT_SHOWN
        raise checks.refused(PASSWORD_FROM, shown, "connection:page_password... or variable:page_password...")
    return value


def parse_privacy(value: object) -> Privacy:
    """Parse a privacy given as :class:`Privacy`, number or name, any case.

    A number may be text, because templates render to text.

    :raises ValueError: for any other value.
    """
    text = str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    for setting in Privacy:
        if text == str(setting.value) or text.upper() == setting.name:
            return setting
    raise checks.refused("privacy", value, ", ".join(f"{setting.value} ({setting.label})" for setting in Privacy))


def _integer(value: object) -> int | None:
    """Return a number, or the number in a text; None above 18 digits, which do not fit a column."""
    if type(value) is int:
        return value if abs(value) < 10**18 else None
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", str(value).strip()) else None
