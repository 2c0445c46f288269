"""Types of form and query values, with a parser and the JSON schema of the allowed values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_DOMAIN = rf"(?:{_LABEL}\.)*{_LABEL}\.?"
_DOMAIN_LENGTH = 253
# Offsets must fit into SQLite's 64-bit integers.
_LAST_PAGE = 10**15 - 1


@dataclass(frozen=True)
class ValueType:
    """A type of form or query value.

    :param parse: converts the text to a value. Raises ValueError whose message completes "The ... field".
    :param schema: JSON schema of the value.
    """

    parse: Callable[[str], Any]
    schema: Mapping[str, Any]


def integer(*allowed: int) -> ValueType:
    """Return the type of an integer from a fixed set, without sign or leading zeros."""
    by_text = {str(number): number for number in allowed}

    def parse(text: str) -> int:
        if text not in by_text:
            raise ValueError(f"must be one of {', '.join(by_text)}")
        return by_text[text]

    return ValueType(parse, {"type": "integer", "enum": list(allowed)})


def word(*allowed: str) -> ValueType:
    """Return the type of a word from a fixed set, case-sensitive."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return ValueType(parse, {"type": "string", "enum": list(allowed)})


def _parse_boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError("must be true or false")
    return _BOOLEANS[text]


def _parse_domain(text: str) -> str:
    if not text:
        raise ValueError("is required")
    if len(text) > _DOMAIN_LENGTH or not re.fullmatch(_DOMAIN, text):
        raise ValueError("must be a domain name")
    return text


def page_number(first: int) -> ValueType:
    """Return the type of a page number, counted from ``first``."""

    def parse(text: str) -> int:
        if not re.fullmatch("0|[1-9][0-9]*", text) or len(text) > len(str(_LAST_PAGE)) or int(text) < first:
            raise ValueError(f"must be an integer from {first}")
        return int(text)

    return ValueType(parse, {"type": "integer", "minimum": first, "maximum": _LAST_PAGE})


TEXT = ValueType(str, {"type": "string"})
BOOLEAN = ValueType(_parse_boolean, {"anyOf": [{"type": "boolean"}, {"type": "integer", "enum": [0, 1]}]})
DOMAIN = ValueType(_parse_domain, {"type": "string", "pattern": f"^{_DOMAIN}$", "maxLength": _DOMAIN_LENGTH})
#: The truth value of text: only empty text and "0" are false.
TRUTH_OF_TEXT = ValueType(lambda text: text not in ("", "0"), {"type": "string"})
#: A boolean that must be 0 or 1.
NUMBER_OF_BOOLEAN = ValueType(lambda text: bool(integer(0, 1).parse(text)), {"type": "integer", "enum": [0, 1]})
