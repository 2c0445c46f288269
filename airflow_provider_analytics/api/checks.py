"""Validation of single values, with uniform errors: name, value, allowed values."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from airflow_provider_analytics.readable import readable

Choice = TypeVar("Choice")

_BOOLEAN_TEXTS = {"true": True, "1": True, "false": False, "0": False}


#: Placeholder for a value that may be a secret.
NOT_SHOWN = object()


def refused(name: str, value: object, allowed: str) -> ValueError:
    """Return the error for a value that is not allowed.

    :param value: the value, or :data:`NOT_SHOWN`.
    """
    shown = " (value not shown)" if value is NOT_SHOWN else f"={short_repr(value)}"
    return ValueError(f"{name}{shown} is not allowed; allowed: {allowed}")


def refused_together(allowed: str, **values: object) -> ValueError:
    """Return the error for values that are not allowed together."""
    shown = " and ".join(f"{name}={short_repr(value)}" for name, value in values.items())
    return ValueError(f"{shown} are not allowed together; allowed: {allowed}")


def short_repr(value: object) -> str:
    """Return the representation of a value for a message, cut to a length that leaves room for the allowed values."""
    return readable(repr(value))


def one_of(name: str, value: object, allowed: Iterable[Choice]) -> Choice:
    """Return the allowed value that equals ``value``, which may be text, because templates render to text.

    :raises ValueError: for any other value; the message lists the allowed values and suggests the nearest.
    """
    by_text = {str(choice): choice for choice in allowed}
    if not isinstance(value, bool) and str(value) in by_text:
        return by_text[str(value)]
    near = nearest(str(value), by_text)
    raise refused(name, value, ", ".join(by_text) + (f"; did you mean {near}?" if near else ""))


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to ``name``, or None."""
    import difflib  # imported late: operator modules import this module, and few need it

    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def flag(name: str, value: object) -> bool:
    """Parse a flag: bool, 0/1 or true/false, any case.

    :raises ValueError: for any other value.
    """
    if isinstance(value, (bool, int, str)):
        meant = _BOOLEAN_TEXTS.get(str(value).strip().lower())
        if meant is not None:
            return meant
    raise refused(name, value, "True or False")


def whole_number(name: str, value: object, *, at_least: int) -> int:
    """Parse a whole number, given as int or text.

    :raises ValueError: for any other value, and below ``at_least``.
    """
    text = str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.removeprefix("-").isdigit()) or int(text) < at_least:
        raise refused(name, value, f"a whole number, {at_least} or more")
    return int(text)


def fraction(name: str, value: object) -> float:
    """Parse a fraction from 0 to 1, given as number or text.

    :raises ValueError: for any other value.
    """
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:  # NaN compares false
        raise refused(name, value, "0 to 1, such as 0.3")
    return number


def positive_number(name: str, value: object, example: str = "24", at_most: float = 1e6) -> float:
    """Parse a number above 0, given as number or text.

    :raises ValueError: for any other value, and above ``at_most``.
    """
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else 0.0
    except ValueError:
        number = 0.0
    if not 0 < number <= at_most:
        raise refused(name, value, f"a number above 0, at most {at_most:g}, such as {example}")
    return number


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
    if _is_python_literal(plain):
        raise refused(name, text, "a list, or its JSON text: use the filter tojson in the template")
    return None


def _is_python_literal(text: str) -> bool:
    """Return whether a text is the Python spelling of a list, tuple, set or None, unlike the glob ``[ab]``."""
    if text == "None":
        return True
    if text[:1] + text[-1:] not in ("[]", "()", "{}"):
        return False
    try:
        return isinstance(ast.literal_eval(text), (list, tuple, set))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return "'" in text


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
        value = value if listed is None else listed
    if isinstance(value, str):
        return tuple(part for part in map(str.strip, value.split(",")) if part)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)):
        found = tuple(value)
        if all(isinstance(part, str) and part.strip() for part in found):
            return found
    raise refused(name, value, "a list of names, or names separated by commas")
