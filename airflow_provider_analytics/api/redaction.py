"""Redaction of data for XCom, snapshots and audit trails, by structure. For text, see :mod:`readable`.

A key that names a secret is dropped with its value. A value that contains a secret of the connection is replaced as a
whole. All other data are unchanged.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from airflow_provider_analytics.readable import MASK, Redactor

#: Keys of a website record whose values identify it, and are never replaced. ``dialect`` refuses a record that contains
#: the API key in one of them.
IDENTITY = ("id", "domain")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
#: Names that Airflow masks, and similar names that a website or an account may have.
_SECRET = re.compile(
    r"pass_?(?:word|wd|phrase)|secret|token|credential|authorization|api_?key"
    r"|(?<![a-z])(?:bearer|dsn|otp|pass|prox(?:y|ies)|pwd)(?![a-z])"
    r"|(?<![a-z])(?:access|auth|encryption|license|private|service|session|signing|ssh)_?keys?(?![a-z])"
    r"|(?<![a-z])(?:backup|recovery|scratch)_?codes?(?![a-z])"
    r"|(?<![a-z])(?:auth_header|connection_string|keyfile_dict|service_account|webhook_url)s?(?![a-z])"
)
#: Last words of names that describe a secret, but do not contain it.
_DESCRIBES_A_SECRET = re.compile(
    r"_(?:at|count|created|enabled|expires|expiry|length|limit|protected|required|total|type|updated|used|verified)$"
)

_NESTED = frozenset({dict, list, tuple})

Data = TypeVar("Data")

_encode = msgspec.json.Encoder().encode


@functools.lru_cache(maxsize=4096)
def is_secret_key(name: str) -> bool:
    """Return whether a key names a secret, in any case, with words joined, in snake case or in camel case.

    True for ``api_token``, ``apiKey``, ``rememberToken`` and ``password_hash``. False for ``password_protected``,
    ``tokens_used`` and ``token_expires_at``, which only describe a secret.
    """
    words = "_".join(_WORD.findall(name)).lower()
    return bool(_SECRET.search(words)) and not _DESCRIBES_A_SECRET.search(words)


def without_secrets(data: Data, secrets: Redactor | None = None) -> Data:
    """Return JSON data without keys that name a secret, at any depth, and with :data:`MASK` for values with a secret.

    Flags are kept, whatever their names: true and false are no secrets. The id and the domain of a record are
    unchanged.

    :param data: a record, a list of records, or any other JSON data.
    :param secrets: secrets of the connection; None: only the keys are checked.
    """
    with suppress(TypeError, ValueError, OverflowError, RecursionError):  # not JSON data
        if not may_hold_a_secret(_encode(data), names_in(data), secrets):  # as nearly always
            return data
    cleaned: Data = _redact(data, secrets or _NO_SECRETS, IDENTITY)
    return cleaned


def may_hold_a_secret(document: bytes, names: Iterable[str], secrets: Redactor | None = None) -> bool:
    """Return whether :func:`without_secrets` may change JSON data; a quick check for many records at once.

    :param document: the data as JSON.
    :param names: the keys in it, see :func:`names_in`.
    """
    return any(map(is_secret_key, names)) or (secrets is not None and secrets.may_be_in(document))


def names_in(data: Any) -> set[str]:
    """Return the keys in JSON data, at any depth."""
    found: set[str] = set()
    left = [data] if type(data) in _NESTED else []
    while left:
        part = left.pop()
        if isinstance(part, dict):
            found.update(part)
            part = part.values()
        left += [inner for inner in part if type(inner) in _NESTED]
    return found


def _redact(value: Any, secrets: Redactor, kept: tuple[str, ...] = ()) -> Any:
    if isinstance(value, Mapping):
        return {
            name: inner if name in kept and not isinstance(inner, (Mapping, list)) else _redact(inner, secrets)
            for name, inner in value.items()
            if (isinstance(inner, bool) or not is_secret_key(name)) and not secrets.finds(name)
        }
    if isinstance(value, (list, tuple)):
        return [_redact(inner, secrets, kept) for inner in value]
    if isinstance(value, str):
        return MASK if secrets.finds(value) else value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return MASK if secrets.is_one(str(value)) else value
    return value


_NO_SECRETS = Redactor()
