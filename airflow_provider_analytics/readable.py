# SPDX-License-Identifier: Apache-2.0
r"""Safe text for people: one function masks secrets, escapes invisible characters, and cuts, in this order.

All text of the service, of users and of files passes :func:`readable` before it appears in a log line, an error,
Markdown or HTML. Secrets are masked before the text is cut, so that no part of a secret remains.

A secret is found in plain form, and as URLs, JSON, HTML and the Basic scheme write it, but not if these are nested: a
service that has a secret can always write it in a form that nobody expects.

Data for XCom, snapshots and audit trails are redacted by structure (:func:`without_secrets`). A key that names a secret
is dropped with its value. A value that contains a secret of the connection is replaced as a whole. All other data are
unchanged.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar
from urllib.parse import quote, quote_plus

MASK = "***"
#: Default maximum length of a text.
EXCERPT_LENGTH = 200
#: Shortest secret that is masked in text: shorter ones are parts of ordinary words.
MIN_IN_TEXT = 4
#: Shortest secret that is masked in data, where a chance match would replace a value.
MIN_IN_DATA = 8

#: Number of characters that are processed, if only the start of a text is returned.
_MAX_PROCESSED = 16 * 1024

#: Invisible characters that Python considers printable: joiners, fillers, variation selectors, an empty Braille cell.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)

#: A character as URLs write it.
_ESCAPE = re.compile("%[0-9A-F]{2}")


class Redactor:
    """Secrets of a connection or a client. :func:`readable` masks them as long as this object exists."""

    def __init__(self) -> None:
        # Dicts, because several threads can add secrets while others read.
        self._secrets: dict[str, None] = {}
        self._in_text: dict[str, None] = {}
        #: Each form, and how it is written within a JSON document.
        self._in_data: dict[str, bytes] = {}
        _redactors[id(self)] = self

    def add(self, secret: str, *, in_data: bool = True) -> None:
        """Mask this text from now on; ignore it if it is shorter than :data:`MIN_IN_TEXT`.

        :param in_data: also find it in data, if it has at least :data:`MIN_IN_DATA` characters.
        """
        if len(secret) < MIN_IN_TEXT or secret in self._secrets:
            return
        for form in _forms(secret):
            self._in_text[form] = None
            if in_data and len(secret) >= MIN_IN_DATA:
                self._in_data[form] = json.dumps(form, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
        self._secrets[secret] = None

    def __call__(self, text: str) -> str:
        """Return the whole text, made :func:`readable`."""
        return readable(text, None)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that are masked in text."""
        return tuple(self._secrets)

    def finds(self, text: str) -> bool:
        """Return whether a value of data, a key, an id or a domain contains a secret, in any of its forms.

        Only secrets of at least :data:`MIN_IN_DATA` characters count.
        """
        return any(map(text.__contains__, tuple(self._in_data)))

    def might_be_in(self, document: bytes) -> bool:
        """Return whether any text in a JSON document can contain a secret; a quick check of all of them."""
        return any(map(document.__contains__, tuple(self._in_data.values())))


#: All redactors. It is only read by ``valuerefs``, which other threads do not disturb.
_redactors: weakref.WeakValueDictionary[int, Redactor] = weakref.WeakValueDictionary()


def readable(
    text: str | bytes,
    limit: int | None = EXCERPT_LENGTH,
    *,
    breaks: Literal["escape", "fold", "keep"] = "escape",
    is_part: bool = False,
) -> str:
    r"""Return a text that is safe to read: secrets masked, invisible characters escaped, and cut.

    Never raises an exception.

    :param text: the text, or the bytes of one in UTF-8.
    :param limit: maximum length; None for the whole text.
    :param breaks: handling of line breaks. ``escape`` writes them as ``\n``. ``fold`` replaces each run of white space
        with a blank, for a document whose layout means nothing. ``keep`` keeps them, for a message of this package,
        whose parts are already escaped.
    :param is_part: whether the text can end within a secret, because a service or a broken connection cut it.
    """
    if limit is not None and len(text) > _MAX_PROCESSED:
        text = text[:_MAX_PROCESSED]
        is_part = True
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig", "replace")
    text = _mask(text, is_part)
    if breaks == "fold":
        text = " ".join(text.split())
    if not is_plain(text):
        escapes = _Escapes()
        if breaks == "keep":
            escapes[ord("\n")] = "\n"
        text = text.translate(escapes)
    if limit is None or len(text) <= limit:
        return text
    text = text[: limit - 3]
    # Between two words, unless a word fills half of the text.
    end = max(text.rfind(" ", limit // 2), text.rfind("\n", limit // 2))
    if end > 0:
        text = text[:end]
    return f"{text}..."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 website``, ``3 websites``, ``2 entries``."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeou":
        return f"{number:,} {noun.removesuffix('y')}ies"
    return f"{number:,} {noun}s"


def first_of(items: Sequence[str], limit: int, separator: str = ", ", show: Callable[[str], str] = str) -> str:
    """Return the first items as text, with the number of the others: ``a, b and 3 more``.

    :param show: formats an item.
    """
    text = separator.join(map(show, items[:limit]))
    if len(items) > limit:
        text += f" and {len(items) - limit:,} more"
    return text


def code_span(text: str, limit: int | None = EXCERPT_LENGTH) -> str:
    """Return a readable text as a code span of Markdown, in which links, pictures and HTML have no effect."""
    content = readable(text, limit)
    fence = "`"
    while fence in content:
        fence += "`"
    if "`" in content or not content.strip():
        content = f" {content} "
    return f"{fence}{content}{fence}"


def is_plain(text: str) -> bool:
    """Return whether every character is visible: no control characters, invisible characters or line breaks."""
    return text.isprintable() and (text.isascii() or not _IGNORABLE.search(text))


def _forms(secret: str) -> set[str]:
    """Return a secret as texts write it: plain, in URLs, in JSON, in HTML, and as Basic credentials."""
    in_urls = {quote_plus(secret, errors="replace")}
    for safe in ("", "/", "!'()*~"):
        in_urls.add(quote(secret, safe=safe, errors="replace"))
    # The second ones as .NET writes them.
    forms = {secret, *in_urls, *(_ESCAPE.sub(_lower, form) for form in in_urls)}
    for is_ascii in (True, False):
        in_json = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        forms |= {in_json, in_json.replace("/", "\\/")}  # the second one as PHP writes it
    in_html = html.escape(secret)
    forms |= {in_html, in_html.replace("&#x27;", "&#039;")}  # the second one as PHP writes it
    for pair in (f":{secret}", f"{secret}:"):
        forms.add(base64.b64encode(pair.encode("utf-8", "replace")).decode().rstrip("="))
    return forms


def _lower(escape: re.Match[str]) -> str:
    return escape[0].lower()


class _Escapes(dict[int, str]):
    """Table of ``str.translate`` that escapes each invisible character in Python syntax."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if is_plain(character):
            return character
        return character.encode("unicode_escape").decode("ascii")


def _mask(text: str, is_part: bool) -> str:
    """Return a text with each secret replaced by :data:`MASK`.

    :param is_part: whether the text can end within a secret; then the start of a secret at its end is replaced, too.
    """
    forms: set[str] = set()
    for reference in _redactors.valuerefs():
        redactor = reference()
        if redactor is not None:
            forms.update(tuple(redactor._in_text))
    # The longest first, because a secret can contain another one.
    longest_first = sorted(forms, key=len, reverse=True)
    for form in longest_first:
        text = text.replace(form, MASK)
    if is_part:
        for form in longest_first:
            text = _mask_end(text, form)
    return text


def _mask_end(text: str, form: str) -> str:
    """Return a text with :data:`MASK` in place of the start of a secret at its end."""
    longest = min(len(form) - 1, len(text))
    for length in range(longest, MIN_IN_TEXT - 1, -1):
        if text.endswith(form[:length]):
            return text[:-length] + MASK
    return text


#: Parts of the names that Airflow masks, its ``DEFAULT_SENSITIVE_FIELDS``.
SENSITIVE_NAMES = frozenset({
    "access_key", "access_token", "api_key", "apikey", "auth_header", "authorization", "bearer", "connection_string",
    "dsn", "keyfile_dict", "passphrase", "passwd", "password", "private_key", "proxies", "proxy", "proxy_password",
    "secret", "service_account", "service_key", "token", "webhook_url",
})  # fmt: skip
_SEPARATORS = re.compile(r"\W+")

_NESTED = frozenset({dict, list, tuple})

Data = TypeVar("Data")


@functools.lru_cache(maxsize=4096)
def is_secret_key(name: str) -> bool:
    """Return whether Airflow would mask the value of a key: its name contains one of :data:`SENSITIVE_NAMES`."""
    normalized = _SEPARATORS.sub("_", name.strip().lower())
    return any(map(normalized.__contains__, SENSITIVE_NAMES))


def without_secrets(data: Data, secrets: Redactor | None = None) -> Data:
    """Return JSON data without keys that name a secret, at any depth, and with :data:`MASK` for values with a secret.

    Flags are kept, whatever their names: true and false are not secrets. ``laravel`` rejects a record that contains a
    secret in its id or domain.

    :param data: a record, a list of records, or any other JSON data.
    :param secrets: secrets of the connection; None: only the keys are checked.
    """
    import msgspec  # imported late: each DAG file imports this module, and Airflow 2 does not import msgspec

    with suppress(TypeError, ValueError, OverflowError, RecursionError):  # not JSON data
        document = msgspec.json.encode(data)
        has_value = secrets is not None and secrets.might_be_in(document)
        if not has_value and not any(map(is_secret_key, names_in(data))):  # as nearly always
            return data
    cleaned: Data = _redact(data, secrets or _NO_SECRETS)
    return cleaned


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
