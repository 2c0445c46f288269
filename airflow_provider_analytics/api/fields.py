"""Names, values and encodings of interface.md, parts 2 and 4.

Every check here runs before a request is built, and every failure is a :class:`ValueError` that names the
field, the value and what is allowed. ``None`` always means "not given": the field is not sent.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, TypedDict, Unpack

SORT_KEYS = ("id", "domain")
SORT_DIRECTIONS = ("desc", "asc")
SEARCH_FIELDS = ("domain",)
PAGE_SIZES = (10, 25, 50, 100)

LINE_FIELDS = ("exclude_params", "exclude_ips")
FLAG_FIELDS = ("email", "exclude_bots")
#: Form fields of create besides the domain, and of update, in the order of interface.md, part 4.
CREATE_FIELDS = ("privacy", "password", "email", "exclude_bots", "exclude_params", "exclude_ips")
UPDATE_FIELDS = (*CREATE_FIELDS, "favorite")

_BOOLEAN_TEXTS = {"true": True, "1": True, "false": False, "0": False}
_NOT_IN_A_DOMAIN = re.compile(r"[\s\x00-\x20\x7f/\\:@?#%&=,;\"'<>()\[\]{}|^`]")


class Privacy(IntEnum):
    """Protection of a website's public statistics page (interface.md, part 2)."""

    PUBLIC = 0
    PRIVATE = 1
    PASSWORD = 2


class CreateSettings(TypedDict, total=False):
    """What can be set when a website is created, besides its domain."""

    privacy: Privacy | int | str | None
    password: str | None
    email: bool | None
    exclude_bots: bool | None
    exclude_params: Iterable[str] | str | None
    exclude_ips: Iterable[str] | str | None


class UpdateSettings(CreateSettings, total=False):
    """What can be set when a website is updated."""

    favorite: bool | None


class ListFilters(TypedDict, total=False):
    """What selects and orders a list of websites."""

    search: str | None
    search_by: str | None
    favorite: bool | None
    sort_by: str | None
    sort: str | None
    per_page: int | None


def create_form(domain: str, **settings: Unpack[CreateSettings]) -> dict[str, str]:
    """Return the form fields of a create request (interface.md, part 4, "Store")."""
    return {"domain": check_domain(domain), **_form(CREATE_FIELDS, settings)}


def update_form(*, boolean_texts: tuple[str, str], **settings: Unpack[UpdateSettings]) -> dict[str, str]:
    """Return the form fields of an update request; at least one has to be given (part 4, "Update").

    :param boolean_texts: how false and true are written, see :data:`dialect.BOOLEAN_FORMATS`.
    """
    form = _form(UPDATE_FIELDS, settings, boolean_texts)
    if not form:
        raise ValueError(f"nothing to update: give at least one of {', '.join(UPDATE_FIELDS)}")
    return form


def list_query(*, boolean_texts: tuple[str, str], **filters: Unpack[ListFilters]) -> dict[str, str]:
    """Return the query parameters of a list request, those that are given (part 4, "List")."""
    _check_names(filters, ("search", "search_by", "favorite", "sort_by", "sort", "per_page"))
    given = {name: value for name, value in filters.items() if value is not None}
    query: dict[str, str] = {}
    if "search" in given:
        query["search"] = _text("search", given["search"])
    if "search_by" in given:
        query["search_by"] = _choice("search_by", given["search_by"], SEARCH_FIELDS)
    if "favorite" in given:
        query["favorite"] = boolean_texts[parse_flag("favorite", given["favorite"])]
    if "sort_by" in given:
        query["sort_by"] = _choice("sort_by", given["sort_by"], SORT_KEYS)
    if "sort" in given:
        query["sort"] = _choice("sort", given["sort"], SORT_DIRECTIONS)
    if "per_page" in given:
        query["per_page"] = _choice("per_page", given["per_page"], PAGE_SIZES)
    return query


def parse_privacy(value: object) -> Privacy:
    """Return the privacy setting meant by a :class:`Privacy`, its number or its name in any case.

    Numbers may come as text, because templates render to text.
    """
    text = str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    for setting in Privacy:
        if text == str(setting.value) or text.upper() == setting.name:
            return setting
    allowed = ", ".join(f"{setting.value} ({setting.name})" for setting in Privacy)
    raise ValueError(f"privacy={value!r} is not allowed; allowed: {allowed}")


def parse_flag(field: str, value: object) -> bool:
    """Return the truth value meant by a bool, by 0 or 1, or by the texts true, false, 0 and 1 in any case."""
    if isinstance(value, (bool, int, str)):
        meant = _BOOLEAN_TEXTS.get(str(value).strip().lower())
        if meant is not None:
            return meant
    raise ValueError(f"{field}={value!r} is not allowed; allowed: True or False")


def split_lines(field: str, value: Iterable[str] | str) -> list[str]:
    """Return the entries meant by a list of text, or by one text with an entry per line.

    Entries are kept as they are but for white space around them. ``[]`` and ``""`` mean no entries; a text of
    blank lines only is refused, so that a file that was read badly never clears a list.
    """
    if isinstance(value, str):
        entries = [line.strip() for line in value.splitlines() if line.strip()]
        if value and not entries:
            raise ValueError(f"{field}={value!r} holds blank lines only; to clear the list give [] or ''")
        return entries
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(f"{field}={value!r} is not allowed; allowed: a list, or text with an entry per line")
    entries = []
    for number, entry in enumerate(value, start=1):
        if not isinstance(entry, str) or not entry.strip():
            raise ValueError(f"{field}: entry {number} is {entry!r}; allowed: text that is not blank")
        if len(entry.splitlines()) != 1 or entry.splitlines()[0] != entry:
            raise ValueError(f"{field}: entry {number} is {entry!r}; an entry must not hold a line break")
        entries.append(entry.strip())
    return entries


def check_domain(domain: object) -> str:
    """Return the domain as it was given, if it can be a domain name; :class:`ValueError` if not."""
    allowed = "a domain name such as www.example.com, without scheme, port, path or spaces"
    if not isinstance(domain, str) or domain == "None":  # an empty template renders to the text None
        raise ValueError(f"domain={domain!r} is not allowed; allowed: {allowed}")
    labels = domain.removesuffix(".").split(".")
    if len(domain) > 254 or _NOT_IN_A_DOMAIN.search(domain) or not all(labels):
        raise ValueError(f"domain={domain!r} is not allowed; allowed: {allowed}")
    return domain


def check_website_id(website_id: object) -> str:
    """Return the path segment for a website id, a number or text; :class:`ValueError` if it cannot be one."""
    text = str(website_id) if isinstance(website_id, (int, str)) and not isinstance(website_id, bool) else ""
    # "None" is what an empty template renders to; a delete that ignores missing websites would call it done.
    if not text or text in {"None", ".", ".."} or re.search(r"[\s\x00-\x1f\x7f/?#\\]", text):
        raise ValueError(f"website_id={website_id!r} is not allowed; allowed: a number or text that names a website")
    return text


def same_domain(one: str, other: str) -> bool:
    """Tell whether two domains are the same: letter case and a dot at the end do not count."""
    return domain_key(one) == domain_key(other)


def domain_key(domain: str) -> str:
    """Return the form of a domain under which equal domains are equal."""
    return domain.casefold().removesuffix(".")


def canonical(field: str, value: object) -> object:
    """Return the value of a field in the form under which equal settings are equal.

    Takes what a user gives as well as what the service sends, where numbers and flags may be text and a list
    is one text: privacy becomes :class:`Privacy`, flags bool, the two lists a tuple of entries (an absent
    list is an empty one). A value that has no such form is returned as it is.
    """
    try:
        if field in LINE_FIELDS:
            text = isinstance(value, str)
            return tuple(split_lines(field, str(value).strip() if text else value or []))  # type: ignore[arg-type]
        if value is None:
            return None
        if field == "privacy":
            return parse_privacy(value)
        if field in FLAG_FIELDS or field == "favorite":
            return parse_flag(field, value)
    except ValueError:
        return value
    return value


def differing_fields(record: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the given settings that the record does not show to be so already.

    The two lists compare as sets. A field that the record does not show counts as different, as does a given
    password, which no record shows.
    """
    return [
        field
        for field, wanted in settings.items()
        if wanted is not None and (field not in record or not _same(field, record[field], wanted))
    ]


def _same(field: str, one: object, other: object) -> bool:
    one, other = canonical(field, one), canonical(field, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return set(one) == set(other)
    return one == other


def _form(
    allowed: tuple[str, ...], settings: Mapping[str, Any], boolean_texts: tuple[str, str] = ("0", "1")
) -> dict[str, str]:
    _check_names(settings, allowed)
    form: dict[str, str] = {}
    for field in allowed:
        value = settings.get(field)
        if value is None:
            continue
        if field == "privacy":
            form[field] = str(parse_privacy(value).value)
        elif field == "password":
            form[field] = _password(value)
        elif field in LINE_FIELDS:
            form[field] = "\n".join(split_lines(field, value))
        elif field == "favorite":
            form[field] = boolean_texts[parse_flag(field, value)]
        else:
            form[field] = "1" if parse_flag(field, value) else "0"
    return form


def _check_names(given: Iterable[str], allowed: tuple[str, ...]) -> None:
    for name in given:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; allowed: {', '.join(allowed)}"
            raise ValueError(f"{name} is not a field of this request{hint}")


def _choice(field: str, value: object, allowed: tuple[object, ...]) -> str:
    text = str(value)
    if isinstance(value, bool) or text not in {str(choice) for choice in allowed}:
        listed = ", ".join(str(choice) for choice in allowed)
        raise ValueError(f"{field}={value!r} is not allowed; allowed: {listed}")
    return text


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{field}={value!r} is not allowed; allowed: text")
    return value


def _password(value: object) -> str:
    # The value stays out of the message: it would end in a log.
    if not isinstance(value, str) or not value or len(value.splitlines()) != 1:
        raise ValueError("password (value not shown) is not allowed; allowed: one line of text, not empty")
    if value == "***":
        raise ValueError("password is '***', the mask Airflow shows for a secret; give the password itself")
    return value
