# SPDX-License-Identifier: Apache-2.0
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

#: Parts of the names that Airflow masks, its ``DEFAULT_SENSITIVE_FIELDS``.
SENSITIVE_NAMES = frozenset({
    "access_key", "access_token", "api_key", "apikey", "auth_header", "authorization", "bearer", "connection_string",
    "dsn", "keyfile_dict", "passphrase", "passwd", "password", "private_key", "proxies", "proxy", "proxy_password",
    "secret", "service_account", "service_key", "token", "webhook_url",
})  # fmt: skip
#: Start of the keys with which Airflow marks serialized objects, such as ``__classname__``.
RESERVED = "__"
_SEPARATORS = re.compile(r"\W+")

_NESTED = frozenset({dict, list, tuple})

Data = TypeVar("Data")

_encode = msgspec.json.Encoder().encode


@functools.lru_cache(maxsize=4096)
def is_secret_key(name: str) -> bool:
    """Return whether Airflow would mask the value of a key: its name contains one of :data:`SENSITIVE_NAMES`."""
    normalized = _SEPARATORS.sub("_", name.strip().lower())
    return any(map(normalized.__contains__, SENSITIVE_NAMES))


def without_secrets(data: Data, secrets: Redactor | None = None) -> Data:
    """Return JSON data without keys that name a secret, at any depth, and with :data:`MASK` for values with a secret.

    Flags are kept, whatever their names: true and false are not secrets. ``dialect`` rejects a record that contains a
    secret in its id or domain.

    :param data: a record, a list of records, or any other JSON data.
    :param secrets: secrets of the connection; None: only the keys are checked.
    """
    with suppress(TypeError, ValueError, OverflowError, RecursionError):  # not JSON data
        if not may_contain_a_secret(_encode(data), names_in(data), secrets):  # as nearly always
            return data
    cleaned: Data = _redact(data, secrets or _NO_SECRETS)
    return cleaned


def without_reserved(data: Data) -> Data:
    """Return JSON data without keys that start with :data:`RESERVED`, at any depth."""
    cleaned: Any = data
    if isinstance(data, Mapping):
        cleaned = {}
        for name, inner in data.items():
            if not name.startswith(RESERVED):
                cleaned[name] = without_reserved(inner)
    elif isinstance(data, (list, tuple)):
        cleaned = list(map(without_reserved, data))
    return cleaned  # type: ignore[no-any-return]


def may_contain_a_secret(document: bytes, names: Iterable[str], secrets: Redactor | None = None) -> bool:
    """Return whether :func:`without_secrets` can change JSON data; a quick check for many records at once.

    :param document: the data as JSON.
    :param names: the keys in it, see :func:`names_in`.
    """
    return any(map(is_secret_key, names)) or (secrets is not None and secrets.may_be_in(document))


def names_in(data: Any) -> set[str]:
    """Return the keys in JSON data, at any depth."""
    found: set[str] = set()
    left = [data]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            found.update(part)
            part = part.values()
        elif not isinstance(part, (list, tuple)):
            continue
        left += [inner for inner in part if type(inner) in _NESTED]
    return found


def _redact(value: Any, secrets: Redactor) -> Any:
    if isinstance(value, Mapping):
        cleaned = {}
        for name, inner in value.items():
            is_named_as_secret = is_secret_key(name) and not isinstance(inner, bool)
            if not is_named_as_secret and not secrets.finds(name):
                cleaned[name] = _redact(inner, secrets)
        return cleaned
    if isinstance(value, (list, tuple)):
        return [_redact(inner, secrets) for inner in value]
    is_scalar = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if is_scalar and secrets.finds(str(value)):
        return MASK
    return value


_NO_SECRETS = Redactor()
