# SPDX-License-Identifier: Apache-2.0
"""Forms, errors, and pages in the style of Laravel 13.26.

Errors and pages follow ``ValidationException``, the exception handler, ``PaginatedResourceResponse`` and
``LengthAwarePaginator`` of laravel/framework.

The fields are those of ``api/fields.py``. ``tests/contract`` compares both with the interface.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from airflow_provider_analytics.api import fields


class ApiError(Exception):
    """An error response: status, headers, and a body with a message."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **others: Any) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.content = {"message": message, **others}


def invalid(errors: Mapping[str, list[str]]) -> ApiError:
    """Return the error for invalid input; ``errors`` maps names to messages."""
    message, *others = chain.from_iterable(errors.values())
    if len(others) == 1:
        message += " (and 1 more error)"
    elif others:
        message += f" (and {len(others)} more errors)"
    return ApiError(422, message, errors=errors)


@dataclass(frozen=True)
class Paginator:
    """A page of a list.

    :param number: its number.
    :param size: number of websites on a full page.
    :param total: number of matching websites on all pages.
    """

    websites: list[Any]
    number: int
    size: int
    total: int

    @property
    def last(self) -> int:
        """Number of the last page."""
        return max(1, math.ceil(self.total / self.size))


def collection(page: Paginator, *, url: str, query: Mapping[str, str], parameter: str = "page") -> dict[str, Any]:
    """Return a resource collection, the body of a list response.

    :param url: URL of the list, for the links.
    :param query: parameters of the request, which the links keep.
    :param parameter: parameter that selects a page.
    """
    # Laravel reads empty parameters as null and leaves them out.
    kept = {name: value for name, value in query.items() if value}
    kept.pop(parameter, None)

    def link(number: int) -> str | None:
        if number < 1 or number > max(page.number, page.last):
            return None
        encoded = urlencode({**kept, parameter: number}, quote_via=quote)
        return f"{url}?{encoded}"

    before = (page.number - 1) * page.size
    first_row = last_row = None
    if page.websites:
        first_row = before + 1
        last_row = before + len(page.websites)
    links = {"first": link(1), "last": link(page.last), "prev": link(page.number - 1), "next": link(page.number + 1)}
    meta = {
        "current_page": page.number,
        "from": first_row,
        "last_page": page.last,
        "path": url,
        "per_page": page.size,
        "to": last_row,
        "total": page.total,
    }
    return {"data": page.websites, "links": links, "meta": meta}


_REQUIRED = "The {} field is required."
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_DOMAIN = rf"(?=.{{1,253}}$)(?:{_LABEL}\.)*{_LABEL}\.?"

#: Converts text to a value. Raises ValueError whose arguments are messages, with ``{}`` for the name of the field.
Parse = Callable[[str], Any]


def one_of(allowed: Mapping[str, Any], message: str = "The selected {} is invalid.") -> Parse:
    """Return a parser of one of these texts, given with their values."""

    def parse(text: str) -> Any:
        if text not in allowed:
            raise ValueError(message)
        return allowed[text]

    return parse


def _integer(*allowed: int) -> Parse:
    return one_of({str(number): number for number in allowed})


boolean = one_of({"1": True, "0": False, "true": True, "false": False}, "The {} field must be true or false.")


def domain(text: str) -> str:
    """Parse a domain name."""
    if not text:
        raise ValueError(_REQUIRED)
    if not re.fullmatch(_DOMAIN, text):
        raise ValueError("The {} field format is invalid.")
    return text


def page(text: str) -> int:
    """Parse the number of a page; any text that is not a number means the first page."""
    if not re.fullmatch("[0-9]{1,15}", text):
        return 1
    return max(1, int(text))


@dataclass(frozen=True)
class FormField:
    """A field of a website, or a parameter of the list.

    :param parse: parser of its text; None: requests cannot contain it.
    :param default: its value if it is omitted; None for a text, because an empty text is stored as null.
    :param required: whether a create must contain it.
    :param on_create: whether a create can contain it.
    :param on_update: whether an update can contain it.
    :param is_shown: whether responses contain it.
    """

    name: str
    parse: Parse | None = None
    default: Any = None
    required: bool = False
    on_create: bool = True
    on_update: bool = True
    is_shown: bool = True


#: Type of a field to the parser of its text; any other field is text.
_PARSERS: dict[type[fields.Field], Parse] = {
    fields.Domain: domain,
    fields.PrivacyFlag: _integer(*fields.Privacy),
    fields.Flag: _integer(0, 1),
    fields.Boolean: boolean,
}


def _form_field(field: fields.Field) -> FormField:
    default = None
    if field.column in ("integer", "boolean"):
        default = field.to_column(field.default or field.omitted)
    return FormField(
        field.name,
        _PARSERS.get(type(field), str),
        default,
        required=isinstance(field, fields.Domain),
        on_create=field.on_create,
        on_update=field.on_update,
        is_shown=field.column is not None,
    )


#: Every field of a website, in the order of responses.
WEBSITE_FIELDS = (FormField("id"), *map(_form_field, fields.WEBSITE_FIELDS), FormField("created_at"))
_FORM_FIELDS = [field for field in WEBSITE_FIELDS if field.parse is not None]
CREATE_FIELDS = [field for field in _FORM_FIELDS if field.on_create]
UPDATE_FIELDS = [field for field in _FORM_FIELDS if field.on_update]
#: Values of a new website.
DEFAULTS = {field.name: field.default for field in _FORM_FIELDS if not field.required}

LIST_PARAMETERS = [
    FormField("search", str, default=""),
    FormField("search_by", one_of({"domain": "domain"}), default="domain"),
    FormField("favorite", boolean),
    FormField("sort_by", one_of({"id": "id", "domain": "domain"}), default="id"),
    FormField("sort", one_of({"desc": "desc", "asc": "asc"}), default="desc"),
    FormField("per_page", _integer(10, 25, 50, 100), default=100),
    FormField("page", page, default=1),
]


def decode_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Decode a query string or an ``application/x-www-form-urlencoded`` body; blank values are kept.

    :raises ValueError: if it is malformed.
    """
    if not raw:
        return []
    return parse_qsl(raw.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")


def read_values(raw: bytes, fields: Sequence[FormField]) -> dict[str, Any]:
    """Decode a query string or form, and return the given values by name.

    Unlike Laravel, it rejects names that are not in ``fields``, and names that are given twice.

    :raises ApiError: with all problems at once.
    """
    try:
        pairs = decode_pairs(raw)
    except ValueError:
        raise invalid({"body": ["The data must be URL-encoded name=value pairs."]}) from None
    parsers = {field.name: field.parse for field in fields}
    values: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}

    def reject(name: str, *messages: str) -> None:
        label = name.replace("_", " ")
        found = errors.setdefault(name, [])
        found += [message.format(label) for message in messages]

    for name, text in pairs:
        parse = parsers.get(name)
        if parse is None:
            reject(name, "The {} field is prohibited.")
        elif name in values:
            reject(name, "The {} field has a duplicate value.")
        else:
            values[name] = None
            try:
                values[name] = parse(text)
            except ValueError as error:
                reject(name, *error.args)
    for field in fields:
        if field.required and field.name not in values:
            reject(field.name, _REQUIRED)
    if errors:
        raise invalid(errors)
    return values
