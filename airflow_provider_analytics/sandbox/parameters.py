"""The interface's parameters and form fields: their allowed values, checked strictly and described for OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_DOMAIN = rf"(?:{_LABEL}\.)*{_LABEL}\.?"
_DOMAIN_LENGTH = 253
# Offsets have to stay within SQLite's integers.
_LAST_PAGE = 10**15 - 1


class InvalidInputError(Exception):
    """What the client sent breaks a rule; ``errors`` maps each field's name to its messages."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        super().__init__("The given data was invalid.")
        self.errors = dict(errors)


@dataclass(frozen=True)
class Parameter:
    """One query parameter or form field: ``parse`` turns its text into a value or raises ValueError."""

    name: str
    parse: Callable[[str], Any]
    schema: Mapping[str, Any]
    meaning: str
    required: bool = False


def decode_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Decode a query string or an ``application/x-www-form-urlencoded`` body, blank values kept.

    Raises :class:`InvalidInputError` for anything that is not well-formed.
    """
    if not raw:
        return []
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError as error:
        raise InvalidInputError({"body": ["The data is not well-formed name=value pairs."]}) from error


def read_values(
    pairs: Sequence[tuple[str, str]], parameters: Sequence[Parameter], *, strict: bool = True
) -> dict[str, Any]:
    """Check ``pairs`` against ``parameters`` and return the values given, by name.

    Every problem is reported at once, as :class:`InvalidInputError`. Names that are not in ``parameters`` are errors
    when ``strict``, otherwise left out.
    """
    known = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    seen: set[str] = set()
    for name, text in pairs:
        if name not in known:
            if strict:
                errors.setdefault(name, []).append(f"The {name} field is not accepted here.")
            continue
        if name in seen:
            errors.setdefault(name, []).append(f"The {name} field is given more than once.")
            continue
        seen.add(name)
        try:
            values[name] = known[name].parse(text)
        except ValueError as error:
            errors.setdefault(name, []).append(f"The {name} field {error}.")
    for parameter in parameters:
        if parameter.required and parameter.name not in seen:
            errors.setdefault(parameter.name, []).append(f"The {parameter.name} field is required.")
    if errors:
        raise InvalidInputError(errors)
    return values


def page_parameter(name: str) -> Parameter:
    """Return the parameter that selects a page by number, from 1. The interface does not show its name."""
    schema = {"type": "integer", "minimum": 1, "maximum": _LAST_PAGE, "default": 1}
    return Parameter(name, _page_number, schema, "number of the page")


def _page_number(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]*", text) or len(text) > len(str(_LAST_PAGE)):
        raise ValueError("must be a whole number from 1")
    return int(text)


def _number_of(*allowed: int) -> Callable[[str], int]:
    by_text = {str(number): number for number in allowed}

    def parse(text: str) -> int:
        if text not in by_text:
            raise ValueError(f"must be one of {', '.join(by_text)}")
        return by_text[text]

    return parse


def _word_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError("must be true or false")
    return _BOOLEANS[text]


def _domain(text: str) -> str:
    if not text:
        raise ValueError("is required")
    if len(text) > _DOMAIN_LENGTH or not re.fullmatch(_DOMAIN, text):
        raise ValueError("must be a domain name")
    return text


def _integer(name: str, allowed: tuple[int, ...], meaning: str, default: int | None = None) -> Parameter:
    schema: dict[str, Any] = {"type": "integer", "enum": list(allowed)}
    return Parameter(name, _number_of(*allowed), _with_default(schema, default), meaning)


def _word(name: str, allowed: tuple[str, ...], meaning: str, default: str | None = None) -> Parameter:
    schema: dict[str, Any] = {"type": "string", "enum": list(allowed)}
    return Parameter(name, _word_of(*allowed), _with_default(schema, default), meaning)


def _text(name: str, meaning: str) -> Parameter:
    return Parameter(name, str, {"type": "string"}, meaning)


def _with_default(schema: dict[str, Any], default: object) -> dict[str, Any]:
    return schema if default is None else {**schema, "default": default}


_FAVORITE = Parameter(
    "favorite",
    _boolean,
    {"anyOf": [{"type": "boolean"}, {"type": "integer", "enum": [0, 1]}]},
    "marked as favourite",
)
_DOMAIN_FIELD = Parameter(
    "domain",
    _domain,
    {"type": "string", "pattern": f"^{_DOMAIN}$", "maxLength": _DOMAIN_LENGTH},
    "domain name",
    required=True,
)


def _settings(*, defaults: bool) -> tuple[Parameter, ...]:
    return (
        _integer("privacy", (0, 1, 2), "0 public, 1 private, 2 password", 0 if defaults else None),
        _text("password", "password of the statistics page; without effect unless privacy is 2"),
        _integer("email", (0, 1), "periodic e-mail reports", 0 if defaults else None),
        _integer("exclude_bots", (0, 1), "exclude common bots from tracking", 1 if defaults else None),
        _text("exclude_params", "URL query parameters to exclude, one per line"),
        _text("exclude_ips", "IP addresses to exclude, one per line"),
    )


LIST_PARAMETERS = (
    _text("search", "part of the searched field"),
    _word("search_by", ("domain",), "field that is searched", "domain"),
    _FAVORITE,
    _word("sort_by", ("id", "domain"), "sort key", "id"),
    _word("sort", ("desc", "asc"), "sort direction", "desc"),
    _integer("per_page", (10, 25, 50, 100), "websites per page", 100),
)
CREATE_FIELDS = (_DOMAIN_FIELD, *_settings(defaults=True))
UPDATE_FIELDS = (*_settings(defaults=False), _FAVORITE)
