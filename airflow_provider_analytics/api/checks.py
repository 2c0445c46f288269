# SPDX-License-Identifier: Apache-2.0
"""Validation of single values, with uniform errors: name, value, allowed values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from airflow_provider_analytics.readable import readable

Choice = TypeVar("Choice")

#: Length of a name, and number of known names, up to which a similar name is suggested.
_MAX_LENGTH, _MAX_COMPARED = 100, 5_000
#: Python's spelling of None or a list, unlike the pattern ``[ab]``.
_PYTHON = re.compile(r"[\[({].*('|None).*[\])}]", re.DOTALL)
#: How Python, JSON and pandas write a missing value, in lower case.
_MISSING = ("none", "null", "nan")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
#: Placeholder for a value that might be a secret.
NOT_SHOWN = object()
#: Maximum number of levels of a website record. Python cannot write, compare or copy much deeper data.
MAX_DEPTH = 50


def invalid(name: str, value: object, allowed: str) -> ValueError:
    """Return the error for a value that is not allowed.

    :param value: the value, or :data:`NOT_SHOWN`.
    """
    if value is NOT_SHOWN:
        return ValueError(f"{name} (value not shown) is not allowed. Allowed: {allowed}")
    return ValueError(f"{name}={short_repr(value)} is not allowed. Allowed: {allowed}")


def invalid_together(**values: object) -> ValueError:
    """Return the error for values of which exactly one is needed."""
    if all(value is None for value in values.values()):
        return ValueError(f"{' and '.join(values)} are missing. Set one of them")
    shown = " and ".join(f"{name}={short_repr(value)}" for name, value in values.items())
    return ValueError(f"{shown} are not allowed together. Set only one of them")


def short_repr(value: object) -> str:
    """Return the representation of a value for a message, cut to a length that leaves room for the allowed values."""
    return readable(repr(value))


def one_of(name: str, value: object, allowed: Iterable[Choice]) -> Choice:
    """Return the allowed value that equals ``value``, which can be text, because templates render to text.

    :raises ValueError: for any other value; the message lists the allowed values and suggests the nearest.
    """
    by_text = {str(choice): choice for choice in allowed}
    if not isinstance(value, bool) and str(value) in by_text:
        return by_text[str(value)]
    raise invalid(name, value, ", ".join(by_text) + closest(str(value), by_text))


def closest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message, with the known name that is most similar to ``name``; empty without one."""
    near = nearest(name, known)
    if near is None:
        return ""
    return f". The closest is {near!r}."


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to ``name``; None without one, or if it takes long to find."""
    import difflib  # imported late: operator modules import this module, and few need it

    names = list(known)
    if len(name) > _MAX_LENGTH or len(names) > _MAX_COMPARED:
        return None
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=cutoff)), None)


def flag(name: str, value: object) -> bool:
    """Parse a flag: bool, 0/1 or true/false, any case.

    :raises ValueError: for any other value.
    """
    if isinstance(value, (int, str)):
        found = _FLAGS.get(str(value).strip().lower())
        if found is not None:
            return found
    raise invalid(name, value, "True or False")


def whole_number(name: str, value: object, *, at_least: int) -> int:
    """Parse a whole number, given as number or text.

    :raises ValueError: for any other value, and below ``at_least``.
    """
    number = _number(value)
    if not number.is_integer() or number < at_least:
        raise invalid(name, value, f"a whole number, {at_least} or more")
    return int(number)


def fraction(name: str, value: object) -> float:
    """Parse a fraction from 0 to 1, given as number or text.

    :raises ValueError: for any other value.
    """
    number = _number(value)
    if not 0 <= number <= 1:
        raise invalid(name, value, "0 to 1, such as 0.3")
    return number


def _number(value: object) -> float:
    """Return a number that is given as number or text; NaN, which is in no range, for any other value."""
    with suppress(ValueError, OverflowError):
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            return float(value)
    return math.nan


def is_missing_text(value: object) -> bool:
    """Return whether a value is the text of a missing value, which a template renders for None, null or NaN."""
    return isinstance(value, str) and value.strip().lower() in _MISSING


def id_of(website: object) -> object:
    """Return the id in the record of a website, or in the result of an operator; any other value unchanged."""
    if isinstance(website, Mapping):
        return website.get("id", website.get("website_id", website))
    return website


def text_list(name: str, text: str) -> list[Any] | None:
    """Return the list in a JSON text, such as one that a template renders with ``tojson``; None for any other text.

    :raises ValueError: for the Python spelling of a list or None, which templates render without ``tojson``.
    """
    plain = text.strip()
    if plain.startswith("["):
        with suppress(ValueError):
            found = json.loads(plain)
            if isinstance(found, list):
                return found
    if is_missing_text(plain) or _PYTHON.fullmatch(plain):
        raise invalid(name, text, "a list, or its JSON text: use the filter tojson in the template")
    return None


def once(value: object) -> Any:
    """Return a value that can be read several times: a lazy collection becomes a tuple."""
    if isinstance(value, dict):
        return {key: once(inner) for key, inner in value.items()}
    if isinstance(value, (str, bytes, Mapping, list, tuple, set, frozenset)) or not isinstance(value, Iterable):
        return value
    return tuple(value)


def names(name: str, value: object) -> tuple[str, ...]:
    """Parse names, given as a list of texts, or as one text with commas, because templates render to text.

    None and blank text mean no names.

    :raises ValueError: for any other value.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        listed = text_list(name, value)
        if listed is None:
            return tuple(filter(None, map(str.strip, value.split(","))))
        value = listed
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)):
        value = tuple(value)
        if all(isinstance(text, str) and text.strip() for text in value):
            return value
    raise invalid(name, value, "a list of names, or names separated by commas")


def is_too_deep(value: object) -> bool:
    """Return whether JSON data is nested more than :data:`MAX_DEPTH` levels deep."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        found: list[object] = []
        for part in level:
            if isinstance(part, dict):
                found += part.values()
            elif isinstance(part, list):
                found += part
        if not found:
            return False
        level = found
    return True
