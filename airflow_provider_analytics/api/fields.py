"""Table of website fields, and the forms and queries built from it (docs/interface.md, Fields).

All code that depends on the set of fields is derived from :data:`WEBSITE_FIELDS`, or compared with it by
``tests/unit/test_fields_are_everywhere.py``.

Values are validated before a request is built. An invalid value raises :class:`ValueError` with the field, the value
and the allowed values. ``None`` means "not given": the field is not sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from airflow_provider_analytics.api.checks import nearest, one_of, refused
from airflow_provider_analytics.api.entries import Addresses, Words
from airflow_provider_analytics.api.kinds import (
    Boolean,
    BooleanTexts,
    Domain,
    Flag,
    Kind,
    Lines,
    Privacy,
    PrivacySetting,
    Secret,
)

SORT_KEYS = ("id", "domain")
SORT_DIRECTIONS = ("desc", "asc")
SEARCH_FIELDS = ("domain",)
PAGE_SIZES = (10, 25, 50, 100)


@dataclass(frozen=True)
class Field:
    """A field of a website.

    :param name: exact name in the interface.
    :param kind: kind of its values.
    :param meaning: its purpose, as a phrase for documents.
    :param on_create: whether a create can send it.
    :param on_update: whether an update can send it.
    :param default: documented default of a new website, normalized; None if the interface documents none.
    """

    name: str
    kind: Kind
    meaning: str
    on_create: bool = True
    on_update: bool = True
    default: Any = None


#: All fields, in the order of the interface and of the columns of a snapshot.
WEBSITE_FIELDS = (
    Field("domain", Domain(), "domain name of the website", on_update=False),
    Field("privacy", PrivacySetting(), "who sees the public statistics page", default="public"),
    Field("password", Secret(), "password of the statistics page; has effect only with privacy `password`"),
    Field("email", Flag(), "whether periodic e-mail reports are sent", default=False),
    Field("exclude_bots", Flag(), "whether common bots are excluded from tracking", default=True),
    Field("exclude_params", Lines(Words()), "URL query parameters excluded from tracking", default=()),
    Field("exclude_ips", Lines(Addresses()), "IP addresses excluded from tracking", default=()),
    Field("favorite", Boolean(), "whether the website is marked as favorite", on_create=False),
)

FIELDS: Mapping[str, Field] = {field.name: field for field in WEBSITE_FIELDS}
#: Form fields of a create, without the domain.
CREATE_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.on_create and field.name != "domain")
#: Form fields of an update.
UPDATE_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.on_update)
#: Exclusion list to the type of its entries.
LINE_FIELDS = {field.name: field.kind.entries for field in WEBSITE_FIELDS if isinstance(field.kind, Lines)}
#: Fields that a record may contain: all except secrets.
RECORD_FIELDS = tuple(field.name for field in WEBSITE_FIELDS if field.kind.column)


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
    """Return the form fields of normalized settings, in the order of the interface (docs/interface.md, Operations).

    :param boolean_texts: texts for false and true, see :data:`dialect.BOOLEAN_FORMATS`.
    """
    return {
        name: field.kind.encode(settings[name], boolean_texts) for name, field in FIELDS.items() if name in settings
    }


def list_query(*, boolean_texts: BooleanTexts, **filters: Unpack[ListFilters]) -> dict[str, str]:
    """Return the given query parameters of a list request (docs/interface.md, List parameters)."""
    _check_names(filters, tuple(ListFilters.__annotations__))
    given = {name: value for name, value in filters.items() if value is not None}
    query: dict[str, str] = {}
    if "search" in given:
        if not isinstance(given["search"], str):
            raise refused("search", given["search"], "text")
        query["search"] = given["search"]
    if "search_by" in given:
        query["search_by"] = one_of("search_by", given["search_by"], SEARCH_FIELDS)
    if "favorite" in given:
        query["favorite"] = _encode_value("favorite", given["favorite"], boolean_texts)
    if "sort_by" in given:
        query["sort_by"] = one_of("sort_by", given["sort_by"], SORT_KEYS)
    if "sort" in given:
        query["sort"] = one_of("sort", given["sort"], SORT_DIRECTIONS)
    if "per_page" in given:
        query["per_page"] = str(one_of("per_page", given["per_page"], PAGE_SIZES))
    return query


def check_website_id(website_id: object) -> str:
    """Return a website id, given as number or text, as a path segment.

    :raises ValueError: if it cannot be a path segment.
    """
    text = str(website_id) if isinstance(website_id, (int, str)) and not isinstance(website_id, bool) else ""
    # An empty template renders to "None". A delete that ignores missing websites would succeed with it.
    if not text or text in {"None", ".", ".."} or re.search(r"[\s\x00-\x1f\x7f/?#\\]", text):
        raise refused("website_id", website_id, "the id of a website, a number or text")
    return text


def normalise(name: str, value: object) -> Any:
    """Normalize the value of a field, so that equal settings compare equal and have one spelling.

    Accepts values of users and of the service. Numbers and flags may be text. Privacy becomes its label, a flag becomes
    a bool, an exclusion list becomes a tuple of its lines, and a missing list an empty tuple. Returns an invalid value,
    and the value of a field that is not in :data:`WEBSITE_FIELDS`, unchanged.
    """
    try:
        return FIELDS[name].kind.read(value) if name in FIELDS else value
    except ValueError:
        return value


def raw_lines(name: str, value: object) -> tuple[str, ...] | None:
    """Return the lines of a list of the service, even if they are not valid entries; None if it is not a list."""
    kind = FIELDS[name].kind
    try:
        return kind.split(value) if isinstance(kind, Lines) else None
    except ValueError:
        return None


def count_entries(name: str, lines: object) -> int:
    """Return the number of entries in the lines of a list; 0 if it is not a list."""
    kind = FIELDS[name].kind
    return kind.count(lines) if isinstance(kind, Lines) and isinstance(lines, tuple) else 0


def sendable(name: str, value: object) -> Any:
    """Return a value of the service, normalized, if the client can send it back; otherwise None."""
    normalized = normalise(name, value)
    try:
        FIELDS[name].kind.encode(normalized, ("0", "1"))
    except ValueError:
        return None
    return normalized


def same_setting(name: str, one: object, other: object) -> bool:
    """Return whether two values of a field are equal settings. Exclusion lists compare as sets of entries."""
    one, other = normalise(name, one), normalise(name, other)
    if name not in FIELDS:
        return one == other
    key = FIELDS[name].kind.key
    return bool(key(one) == key(other))


def differing_fields(record: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that differ from the record or are missing there; ignore settings of None."""
    return [
        name
        for name, wanted in settings.items()
        if wanted is not None and (name not in record or not same_setting(name, record[name], wanted))
    ]


def _parse_settings(allowed: tuple[str, ...], settings: Mapping[str, Any]) -> dict[str, Any]:
    _check_names(settings, allowed)
    given = {name: settings[name] for name in allowed if settings.get(name) is not None}
    return {name: FIELDS[name].kind.parse(name, value) for name, value in given.items()}


def _encode_value(name: str, value: object, boolean_texts: BooleanTexts) -> str:
    kind = FIELDS[name].kind
    return kind.encode(kind.parse(name, value), boolean_texts)


def _check_names(given: Iterable[str], allowed: tuple[str, ...]) -> None:
    for name in given:
        if name not in allowed:
            near = nearest(name, allowed)
            hint = f"; did you mean {near}?" if near else f"; allowed: {', '.join(allowed)}"
            raise ValueError(f"{name} is not a field of this request{hint}")
