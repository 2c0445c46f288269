# SPDX-License-Identifier: Apache-2.0
"""Forms, errors, and pages as a Laravel application reads and returns them.

Input follows the middleware of a new application (``TrimStrings``, ``ConvertEmptyStringsToNull``) and the rules
``integer``, ``in``, ``boolean``, and ``string``; errors follow ``ValidationException``, and pages
``PaginatedResourceResponse`` and ``LengthAwarePaginator``. ``tests/laravel`` compares them with a real application.

The fields are those of ``api/fields.py``. ``tests/contract`` compares both with the interface.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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

    def shown(self) -> list[int | None]:
        """Return the numbers that the page links to, like ``UrlWindow``; None where some are left out."""
        near, ends = 3, 2
        if self.last < 2 * near + 8:
            return list(range(1, self.last + 1))
        long = 2 * near + 4
        head, tail = range(1, ends + 1), range(self.last - ends + 1, self.last + 1)
        if self.number <= near + 4:
            return [*range(1, long + 1), None, *tail]
        if self.number > self.last - near - 4:
            return [*head, None, *range(self.last - long + 1, self.last + 1)]
        return [*head, None, *range(self.number - near, self.number + near + 1), None, *tail]


def collection(page: Paginator, *, url: str, query: Mapping[str, str], parameter: str = "page") -> dict[str, Any]:
    """Return a resource collection, the body of a list response.

    :param url: URL of the list, for the links.
    :param query: parameters of the request, which the links keep.
    :param parameter: parameter that selects a page.
    """
    kept = {name: clean(value) for name, value in query.items() if name != parameter}
    kept = {name: value for name, value in kept.items() if value is not None}

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
        "links": [
            {"url": links["prev"], "label": "&laquo; Previous", "active": False},
            *(
                {"url": number and link(number), "label": str(number or "..."), "active": number == page.number}
                for number in page.shown()
            ),
            {"url": links["next"], "label": "Next &raquo;", "active": False},
        ],
        "path": url,
        "per_page": page.size,
        "to": last_row,
        "total": page.total,
    }
    return {"data": page.websites, "links": links, "meta": meta}


_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_DOMAIN = rf"(?=.{{1,255}}$)(?:{_LABEL}\.)*{_LABEL}\.?"

#: Converts text, None if it is empty, to a value. Raises ValueError; its message has ``{}`` in place of the name.
Parse = Callable[[str | None], Any]


def clean(text: str) -> str | None:
    """Return a text as the middleware passes it on."""
    return text.strip() or None


def one_of(*allowed: str) -> Parse:
    """Return a parser of one of these texts."""

    def parse(text: str | None) -> str | None:
        if text not in allowed:
            raise ValueError("The selected {} is invalid.")
        return text

    return parse


def _integer(*allowed: int) -> Parse:
    def parse(text: str | None) -> int:
        if text is None or not re.fullmatch("[+-]?(0|[1-9][0-9]{0,17})", text):
            raise ValueError("The {} must be an integer.")
        if int(text) not in allowed:
            raise ValueError("The selected {} is invalid.")
        return int(text)

    return parse


def boolean(text: str | None) -> bool:
    """Parse a field by the rule ``boolean``, which rejects the texts true and false."""
    if text not in ("0", "1"):
        raise ValueError("The {} field must be true or false.")
    return text == "1"


def boolean_filter(text: str | None) -> bool:
    """Parse a parameter like ``$request->boolean()``."""
    return (text or "").lower() in ("1", "true", "on", "yes")


def text_of(limit: int | None = None) -> Parse:
    """Return a parser of texts with at most ``limit`` characters."""

    def parse(text: str | None) -> str | None:
        if text and limit and len(text) > limit:
            raise ValueError(f"The {{}} must not be greater than {limit} characters.")
        return text

    return parse


_TEXT = text_of()


def domain(text: str | None) -> str:
    """Parse a domain name."""
    if text is None:
        raise ValueError("The {} field is required.")
    if not re.fullmatch(_DOMAIN, text):
        raise ValueError("The {} format is invalid.")
    return text


def page(text: str | None) -> int:
    """Parse the number of a page; any text that is not a number means the first page."""
    if text is None or not re.fullmatch("[+]?[1-9][0-9]{0,14}", text):
        return 1
    return int(text)


@dataclass(frozen=True)
class FormField:
    """A field of a website, or a parameter of the list.

    :param parse: parser of its text.
    :param default: its value if it is omitted; None for a text, because an empty text is stored as null.
    :param required: whether a create must contain it.
    :param on_create: whether a create can contain it.
    :param on_update: whether an update can contain it.
    :param is_shown: whether responses contain it.
    """

    name: str
    parse: Parse = _TEXT
    default: Any = None
    required: bool = False
    on_create: bool = True
    on_update: bool = True
    is_shown: bool = True


#: Type of a field to the parser of its text; any other field is text of any length.
_PARSERS: dict[type[fields.Field], Parse] = {
    fields.Domain: domain,
    fields.PrivacyFlag: _integer(*fields.Privacy),
    fields.Flag: _integer(0, 1),
    fields.Boolean: boolean,
    fields.Secret: text_of(255),
}


def _form_field(field: fields.Field) -> FormField:
    default = None
    if field.column in ("integer", "boolean"):
        default = field.to_column(field.default or field.omitted)
    return FormField(
        field.name,
        _PARSERS.get(type(field), _TEXT),
        default,
        required=isinstance(field, fields.Domain),
        on_create=field.on_create,
        on_update=field.on_update,
        is_shown=field.column is not None,
    )


_FORM_FIELDS = [_form_field(field) for field in fields.WEBSITE_FIELDS]
#: Every field of a website, in the order of responses.
WEBSITE_FIELDS = (FormField("id"), *_FORM_FIELDS, FormField("created_at"))
CREATE_FIELDS = [field for field in _FORM_FIELDS if field.on_create]
UPDATE_FIELDS = [field for field in _FORM_FIELDS if field.on_update]
#: Values of a new website.
DEFAULTS = {field.name: field.default for field in _FORM_FIELDS if not field.required}

LIST_PARAMETERS = [
    FormField("search", _TEXT),
    FormField("search_by", one_of("domain"), default="domain"),
    FormField("favorite", boolean_filter),
    FormField("sort_by", one_of("id", "domain"), default="id"),
    FormField("sort", one_of("desc", "asc"), default="desc"),
    FormField("per_page", _integer(10, 25, 50, 100), default=100),
    FormField("page", page, default=1),
]


def decode_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Decode a query string or an ``application/x-www-form-urlencoded`` body. Values can be empty or missing."""
    return parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True)


def read_values(pairs: Iterable[tuple[str, str]], fields: Sequence[FormField]) -> dict[str, Any]:
    """Return the given values of the fields by name. Other names are ignored; of equal names, the last one counts.

    :raises ApiError: with all problems at once.
    """
    given = dict(pairs)
    values: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    for field in fields:
        name = field.name
        try:
            if name in given:
                values[name] = field.parse(clean(given[name]))
            elif field.required:
                values[name] = field.parse(None)
        except ValueError as error:
            errors[name] = [str(error).format(name.replace("_", " "))]
    if errors:
        raise invalid(errors)
    return values
