# SPDX-License-Identifier: Apache-2.0
"""Table of website fields, and the forms and queries built from it (interface.md, Fields).

All code that depends on the set of fields is derived from :data:`WEBSITE_FIELDS`, or compared with it by
``tests/unit/test_typical_changes.py``. A value has three forms:

*given* by a user
    Anything that :meth:`Field.from_user` accepts. ``None`` means "not given": the field is not sent.
*normalized*, for plans, comparisons, and reports
    Privacy as its label, a flag as bool, a list as a tuple of its lines.
*sent*
    The text of interface.md, Fields.

Values are validated before a request is built. An invalid value raises :class:`ValueError` with the field, the value
and the allowed values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypedDict, Unpack

from airflow_provider_analytics.api.checks import NOT_SHOWN, closest, flag, invalid, is_missing_text, one_of
from airflow_provider_analytics.api.domains import check_domain, domain_key
from airflow_provider_analytics.api.entries import Addresses, EntryType, Parameters, each_line, stripped
from airflow_provider_analytics.readable import is_plain, readable

#: Setting of files and operators with the location of a password, and its allowed form.
PASSWORD_FROM = "password_from"  # noqa: S105 - the name of a setting
PASSWORD_REFERENCE = r"(connection|variable):page_password[\w.-]*"  # noqa: S105 - a pattern
PAGE_SIZES = (10, 25, 50, 100)
#: Texts for false and true, in this order.
BooleanTexts = tuple[str, str]

#: Longer numbers do not fit a column.
_MAX_NUMBER = 10**18
_WORD = re.compile(r"[^\s,;]+")


class Privacy(IntEnum):
    """Protection of a website's public statistics page (interface.md, Fields)."""

    PUBLIC = 0
    PRIVATE = 1
    PASSWORD = 2

    @property
    def label(self) -> str:
        """Name in files and messages: ``public``, ``private``, or ``password``."""
        return self.name.lower()


@dataclass(frozen=True)
class Field:
    """A field of a website: how its values are parsed, sent, compared and stored. This class is for plain text.

    :param name: exact name in the interface.
    :param meaning: its purpose, as a phrase for documents.
    :param default: documented default of a new website, normalized; None if the interface documents none.
    :param on_create: whether a create can send it.
    :param on_update: whether an update can send it.
    """

    name: str
    meaning: str
    default: Any = None
    on_create: bool = True
    on_update: bool = True

    #: Type of the column in a snapshot; None if the value is never stored.
    column: ClassVar[str | None] = "string"
    #: Value of a field that a service omits from a record, or returns as null: an empty text, false, or zero.
    omitted: ClassVar[str | int] = ""

    def from_user(self, value: object) -> Any:
        """Normalize a value of a user.

        :raises ValueError: if it is invalid; the message contains the field, the value and the allowed values.
        """
        if not isinstance(value, str):
            raise invalid(self.name, value, "text")
        return value

    def from_service(self, value: object) -> Any:
        """Normalize a value of the service. Null means an empty text: services return it for a text that is not set.

        :raises ValueError: if it is invalid.
        """
        if value is None:
            return ""
        return self.from_user(value)

    def to_form(self, value: Any, booleans: BooleanTexts) -> str:
        """Return the text to send for a normalized value."""
        return str(value)

    def comparison_key(self, value: Any) -> Any:
        """Return a key that is equal for equal normalized values."""
        return value

    def to_column(self, value: object) -> Any:
        """Return a value of the service for the column, or None if it does not fit."""
        if not isinstance(value, str):
            return None
        return value


class Domain(Field):
    """A domain name, kept as written."""

    def from_user(self, value: object) -> str:
        """Return the domain unchanged if it is valid."""
        return check_domain(value)

    def from_service(self, value: object) -> Any:
        """Return the value unchanged: the service decides which domains are valid."""
        return value

    def comparison_key(self, value: Any) -> Any:
        """Return the domain as A-labels in lower case."""
        if not isinstance(value, str):
            return value
        return domain_key(value)


class Flag(Field):
    """On or off, sent as 0 or 1."""

    column = "integer"
    omitted = 0

    def from_user(self, value: object) -> Any:
        """Return the flag as bool."""
        return flag(self.name, value)

    def from_service(self, value: object) -> Any:
        """Normalize a value of the service; null stays None."""
        if value is None:
            return None
        return self.from_user(value)

    def to_form(self, value: Any, booleans: BooleanTexts) -> str:
        """Return 0 or 1."""
        return str(int(value))

    def to_column(self, value: object) -> Any:
        """Return the number that is sent for the value, or any other number of the service."""
        if type(value) is not int:  # rare
            try:
                value = int(self.to_form(self.from_user(value), ("0", "1")))
            except ValueError:
                return None
        if abs(value) >= _MAX_NUMBER:
            return None
        return value


class PrivacyFlag(Flag):
    """A :class:`Privacy`, normalized to its label."""

    def from_user(self, value: object) -> str:
        """Return the label of a privacy given as enum member, number or name, any case.

        A number can be text, because templates render to text.
        """
        if isinstance(value, (int, str)) and not isinstance(value, bool):
            text = str(value).strip().lower()
            for setting in Privacy:
                if text in (str(setting.value), setting.label):
                    return setting.label
        allowed = ", ".join([f"{setting.label} ({setting.value})" for setting in Privacy])
        raise invalid(self.name, value, allowed + closest(str(value), [setting.label for setting in Privacy]))

    def to_form(self, value: Any, booleans: BooleanTexts) -> str:
        """Return the number."""
        return str(Privacy[value.upper()].value)


class Boolean(Flag):
    """True or false, sent as two texts that depend on the service."""

    column = "boolean"

    def from_service(self, value: object) -> Any:
        """Return the flag as bool. Null means false: services return it for a flag that is not set."""
        if value is None:
            return False
        return self.from_user(value)

    def to_form(self, value: Any, booleans: BooleanTexts) -> str:
        """Return the text for false or true."""
        return booleans[value]

    def to_column(self, value: object) -> bool | None:
        """Return the bool, or None if it is not one."""
        if isinstance(value, bool):
            return value
        try:
            return flag(self.name, value)
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True)
class Lines(Field):
    """A list that the service stores as one text, one entry per line; normalized to a tuple of lines.

    :param entries: type of the entries; two lists are equal if they contain the same entries in any order.
    """

    entries: EntryType

    def from_user(self, value: object) -> tuple[str, ...]:
        """Return the lines of a list, or of a text with an entry per line, with their comments.

        ``[]`` means no entries. A text without entries is invalid, so that an empty Variable, or a file that was read
        incorrectly, never clears a list.
        """
        if isinstance(value, str):
            lines = _lines(value)
            if not any(map(self.entries.key, lines)):  # nothing, or comments only
                raise ValueError(f"{self.name}={value!r} has no entries. To clear the list, give []")
            value = "\n".join(lines)
        return tuple(each_line(self.name, value, self.entries.check_line, self.entries.allowed))

    def from_service(self, value: object) -> tuple[str, ...]:
        """Return the lines of a text or an array of the service, without blank lines; null means no lines.

        :raises ValueError: if it is neither, or in another form (:meth:`EntryType.is_in_another_form`).
        """
        lines = self.lines_from_service(value)
        if _is_in_another_form(self.entries, lines):
            raise invalid(self.name, value, "one entry per line")
        return lines

    def lines_from_service(self, value: object) -> tuple[str, ...]:
        """Return the lines of the service, even if they are not valid entries.

        :raises ValueError: if it is neither a text nor an array of texts.
        """
        if isinstance(value, str):
            return _lines(value)
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)):
            raise invalid(self.name, value, "a text, or an array of texts")
        lines: list[str] = []
        for text in value:
            if not isinstance(text, str):
                raise invalid(self.name, value, "a text, or an array of texts")
            lines += _lines(text)
        return tuple(lines)

    def count_entries(self, lines: tuple[str, ...]) -> int:
        """Return the number of distinct entries; a list in another form counts as its words."""
        entries = [line for line in dict.fromkeys(lines) if not line.startswith("#")]
        if _is_in_another_form(self.entries, lines):
            return len(_WORD.findall("\n".join(entries)))
        return len(entries)

    def to_form(self, value: Any, booleans: BooleanTexts) -> str:
        """Return a text with one entry per line."""
        return "\n".join(value)

    def comparison_key(self, value: Any) -> Any:
        """Return the set of the entries, without comments."""
        if not isinstance(value, tuple):
            return value
        return set(map(self.entries.key, value)) - {""}

    def to_column(self, value: object) -> str | None:
        """Return a text with one entry per line."""
        try:
            return "\n".join(self.lines_from_service(value))
        except ValueError:
            return None


# Many websites have the same list, and each list is read several times.
@functools.lru_cache(maxsize=1 << 8)
def _lines(text: str) -> tuple[str, ...]:
    """Return the lines of a text that are not blank, without surrounding white space."""
    return tuple(filter(None, map(stripped, text.splitlines())))


@functools.lru_cache(maxsize=1 << 8)
def _is_in_another_form(entries: EntryType, lines: tuple[str, ...]) -> bool:
    return entries.is_in_another_form(lines)


class Secret(Field):
    """A text that is sent, but never displayed or stored."""

    column = None

    def from_user(self, value: object) -> str:
        """Return the secret.

        A service can trim a secret. The trimmed text would not be masked where the service quotes it.

        :raises ValueError: if it is invalid; the message, which might be logged, omits the value.
        """
        if not isinstance(value, str) or not value or value != value.strip() or not is_plain(value):
            allowed = "one line of visible text, not empty, without blanks around it"
            raise invalid(self.name, NOT_SHOWN, allowed)
        if value == "***":
            raise ValueError(f"{self.name} is '***', Airflow's mask for a secret. Give the {self.name} itself")
        return value

    def from_service(self, value: object) -> str | None:
        """Normalize a value of the service; null stays None."""
        if value is None:
            return None
        return self.from_user(value)


def check_password_from(value: object) -> str:
    """Return the location of a password: ``connection:NAME`` or ``variable:NAME``.

    The name must start with ``page_password``. Otherwise the author of a YAML file could have any other secret sent to
    the service.

    :raises ValueError: for any other value; the message omits a value that might be the password itself.
    """
    if isinstance(value, str) and re.fullmatch(PASSWORD_REFERENCE, value):
        return value
    shown: object = NOT_SHOWN
    if isinstance(value, str) and value.startswith(("connection:", "variable:")):
        shown = value
    raise invalid(PASSWORD_FROM, shown, "connection:page_password... or variable:page_password...")


#: All fields, in the order of the interface and of the columns of a snapshot.
WEBSITE_FIELDS = (
    Domain("domain", "domain name of the website", on_update=False),
    PrivacyFlag("privacy", "who sees the public statistics page", default="public"),
    Secret("password", "password of the statistics page; only with privacy `password`"),
    Flag("email", "whether periodic e-mail reports are sent", default=False),
    Flag("exclude_bots", "whether common bots are excluded from tracking", default=True),
    Lines("exclude_params", "URL query parameters excluded from tracking", (), entries=Parameters()),
    Lines("exclude_ips", "IP addresses excluded from tracking", (), entries=Addresses()),
    Boolean("favorite", "whether the website is marked as favorite", on_create=False),
)

FIELDS: Mapping[str, Field] = {field.name: field for field in WEBSITE_FIELDS}
#: Form fields of a create, without the domain.
CREATE_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.on_create and field.name != "domain")
#: Form fields of an update.
UPDATE_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.on_update)
#: Exclusion list to the type of its entries.
LINE_FIELDS = {field.name: field.entries for field in WEBSITE_FIELDS if isinstance(field, Lines)}
#: Fields that a record can contain: all except secrets.
RECORD_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.column)
#: Fields that can be set and that a record can contain, such as ``privacy`` and ``exclude_ips``, but not ``password``.
SETTABLE_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.on_update and field.column)


class CreateSettings(TypedDict, total=False):
    """Settings of a create, without the domain."""

    privacy: Privacy | int | str | None
    password: str | None
    email: bool | None
    exclude_bots: bool | None
    exclude_params: Iterable[str] | str | None
    exclude_ips: Iterable[str] | str | None


class UpdateSettings(CreateSettings, total=False):
    """Settings of an update."""

    favorite: bool | None


class ListFilters(TypedDict, total=False):
    """Filters and sort order of a list of websites."""

    search: str | None
    search_by: str | None
    favorite: bool | None
    sort_by: str | None
    sort: str | None
    per_page: int | None


#: List parameter to its allowed values.
_ALLOWED: Mapping[str, tuple[str | int, ...]] = {
    "search_by": ("domain",),
    "sort_by": ("id", "domain"),
    "sort": ("desc", "asc"),
    "per_page": PAGE_SIZES,
}


def check_create(**settings: Unpack[CreateSettings]) -> dict[str, Any]:
    """Return the given settings of a create, normalized.

    :raises ValueError: if a setting is unknown or invalid.
    """
    return _parse_settings(CREATE_FIELDS, settings)


def check_update(**settings: Unpack[UpdateSettings]) -> dict[str, Any]:
    """Return the given settings of an update, normalized.

    :raises ValueError: if no setting is given, or if one is unknown or invalid.
    """
    checked = _parse_settings(UPDATE_FIELDS, settings)
    if not checked:
        raise ValueError(f"Nothing to update: give at least one of {', '.join(UPDATE_FIELDS)}")
    return checked


def form(settings: Mapping[str, Any], boolean_texts: BooleanTexts) -> dict[str, str]:
    """Return the form fields of normalized settings, in the order of the interface (interface.md, Operations).

    :param boolean_texts: texts for false and true, see :data:`laravel.FORM_TEXTS`.
    """
    texts = {}
    for name, field in FIELDS.items():
        if name in settings:
            texts[name] = field.to_form(settings[name], boolean_texts)
    return texts


def list_query(*, boolean_texts: BooleanTexts, **filters: Unpack[ListFilters]) -> dict[str, str]:
    """Return the given query parameters of a list request (interface.md, List parameters)."""
    query: dict[str, str] = {}
    for name, value in _given(tuple(ListFilters.__annotations__), filters).items():
        if name in _ALLOWED:
            query[name] = str(one_of(name, value, _ALLOWED[name]))
        elif name == "favorite":
            query[name] = boolean_texts[flag(name, value)]
        elif isinstance(value, str):
            query[name] = value
        else:
            raise invalid(name, value, "text")
    return query


def check_website_id(website_id: object) -> str:
    """Return a website id, given as number or text, as a path segment.

    :raises ValueError: if it cannot be a path segment.
    """
    text = ""
    if isinstance(website_id, str) or (type(website_id) is int and website_id >= 0):
        text = str(website_id)
    # A delete that ignores missing websites would succeed with the text of a missing value.
    is_path_segment = text not in ("", ".", "..") and not re.search(r"[\s/?#\\]", text) and is_plain(text)
    if not is_path_segment or is_missing_text(text):
        raise invalid("website_id", website_id, "the id of a website, a number or text")
    return text


def normalize(name: str, value: object) -> Any:
    """Normalize the value of a field, so that equal settings compare equal and have one spelling.

    Accepts values of users and of the service. Numbers and flags can be text. Privacy becomes its label, a flag becomes
    a bool, an exclusion list becomes a tuple of its lines, and a missing list an empty tuple. Returns an invalid value,
    and the value of a field that is not in :data:`WEBSITE_FIELDS`, unchanged.
    """
    if name not in FIELDS:
        return value
    try:
        return FIELDS[name].from_service(value)
    except ValueError:
        return value


def raw_lines(name: str, value: object) -> tuple[str, ...] | None:
    """Return the lines of a list of the service, even if they are not valid entries; None if it is not a list."""
    field = FIELDS[name]
    if not isinstance(field, Lines):
        return None
    try:
        return field.lines_from_service(value)
    except ValueError:
        return None


def count_entries(name: str, lines: object) -> int:
    """Return the number of entries in the lines of a list; 0 if it is not a list."""
    field = FIELDS[name]
    if not isinstance(field, Lines) or not isinstance(lines, tuple):
        return 0
    return field.count_entries(lines)


def same_setting(name: str, first: object, other: object) -> bool:
    """Return whether two values of a field are equal settings. Exclusion lists compare as sets of entries."""
    first, other = normalize(name, first), normalize(name, other)
    if name in FIELDS:
        key = FIELDS[name].comparison_key
        first, other = key(first), key(other)
    return first == other


def differing_fields(record: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that differ from the record or are missing there; ignore settings of None."""
    differing = []
    for name, setting in settings.items():
        is_same = name in record and same_setting(name, record[name], setting)
        if setting is not None and not is_same:
            differing.append(name)
    return differing


def check_password_has_effect(settings: Mapping[str, Any]) -> None:
    """Check that a password, or its source, is given only with the privacy *password*: otherwise it protects nothing.

    :raises ValueError: if it is given with another privacy, or without any.
    """
    if settings.get("password") is None and settings.get(PASSWORD_FROM) is None:
        return
    privacy = settings.get("privacy")
    if normalize("privacy", privacy) != Privacy.PASSWORD.label:
        raise invalid("privacy", privacy, "'password': with another privacy, a password has no effect")


def _parse_settings(allowed: tuple[str, ...], settings: Mapping[str, Any]) -> dict[str, Any]:
    checked = {name: FIELDS[name].from_user(value) for name, value in _given(allowed, settings).items()}
    check_password_has_effect(checked)
    return checked


def _given(allowed: tuple[str, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None, in the order of the interface.

    :raises ValueError: if a name is not allowed.
    """
    for name in values:
        if name not in allowed:
            hint = closest(name, allowed) or f". Allowed: {', '.join(allowed)}"
            raise ValueError(f"{name} is not a field of this request{hint}")
    return {name: values[name] for name in allowed if values.get(name) is not None}


def website_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the domain (empty if missing) and the id of a record, such as ``("www.example.com", "7")``."""
    return str(record.get("domain") or ""), str(record["id"])


def by_id(records: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return records by website id, such as ``{"7": {"id": 7, "domain": "www.example.com"}}``."""
    return {str(record["id"]): record for record in records}


def website_name(domain: str, website_id: str | None) -> str:
    """Return the readable name of a website for logs and errors, such as ``www.example.com (id 7)``."""
    if not website_id:
        return readable(domain)
    return f"{readable(domain)} (id {website_id})" if domain else f"id {website_id}"


@dataclass(frozen=True)
class Operation:
    """An operation.

    :param name: its name in documents, in faults of the sandbox, and in tests.
    :param methods: the methods of its requests, all with the same effect.
    :param path: path below ``/api/v1``; ``{id}`` is the id of a website.
    :param hook: method of the hook, and with the suffix ``Operator``, the operator.
    :param meaning: its effect, as a sentence for documents.
    """

    name: str
    methods: tuple[str, ...]
    path: str
    hook: str
    meaning: str

    @property
    def operator(self) -> str:
        """Name of the operator, such as ``ListWebsitesOperator``."""
        return f"{self.hook.title().replace('_', '')}Operator"


_WEBSITE = "/websites/{id}"
_TABLE = (
    Operation("list", ("GET",), "/websites", "list_websites", "List websites, with the query parameters below."),
    Operation("show", ("GET",), _WEBSITE, "get_website", "Show a website, without a payload."),
    Operation(
        "create",
        ("POST",),
        "/websites",
        "create_website",
        "Create a website (the interface says *store*), with form fields.",
    ),
    Operation("update", ("PATCH", "PUT"), _WEBSITE, "update_website", "Update a website, with form fields."),
    Operation("delete", ("DELETE",), _WEBSITE, "delete_website", "Delete a website, without a payload."),
    Operation("account", ("GET",), "/account", "get_account", "Show the account, without a payload."),
)
OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _TABLE}
