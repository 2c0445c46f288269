"""Redaction of secrets in text before it is shown, logged or stored."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import msgspec

MASK = "***"
#: Replaces a whole text that contains a secret in an encoding that cannot be replaced within it.
HIDDEN = "*** (not shown: it contains a secret)"

#: Maximum number of nested encodings that are decoded.
_DEPTH = 2

Data = TypeVar("Data")

_encode = msgspec.json.Encoder().encode


class Redactor:
    """Callable that replaces all added secrets in a text: plain, percent-encoded, JSON- or HTML-escaped.

    Encoders differ in what they escape. A text that contains a secret in another spelling, or encoded twice, is
    replaced as a whole by :data:`HIDDEN`.
    """

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        #: Longest first, so that a secret that contains another one is replaced as a whole.
        self._forms: list[str] = []
        self._lock = threading.Lock()

    def add(self, secret: str) -> None:
        """Redact this text from now on; an empty text is ignored."""
        if not secret or secret in self._secrets:
            return
        with self._lock:
            self._forms = sorted({*self._forms, *_written_forms(secret)}, key=len, reverse=True)
            self._secrets = self._secrets | {secret}

    def __call__(self, text: str) -> str:
        """Return the text with all added secrets replaced by ``***``."""
        for form in self._forms:
            text = text.replace(form, MASK)
        if not _ENCODED.search(text):
            return text
        secrets = self._secrets
        if any(secret in decoded for decoded in _decoded(text, _DEPTH) for secret in secrets):
            return HIDDEN
        return text

    def may_concern(self, document: str) -> bool:
        """Return whether a call may change any text of a JSON document."""
        # How JSON writes a secret is one of its forms.
        if any(form in document for form in (*self._forms, "&", "%", "+")):
            return True
        # Lists of lines have line breaks. Any other backslash may be a part of a text that is encoded.
        return document.count("\\") != document.count("\\n")


def without_secrets(value: Data, redact: Redactor | None = None) -> Data:
    """Return JSON data without keys that name a secret, at any depth; the data itself if there is nothing to remove.

    :param redact: applied to every remaining text.
    """
    try:
        document = _encode(value).decode()
    except (TypeError, UnicodeEncodeError):  # no JSON data
        pass
    else:
        if not may_hold_a_secret(document, redact):  # as nearly always: one look at all of it is enough
            return value
    cleaned: Data = _cleaned(value, redact)
    return cleaned


def may_hold_a_secret(document: str, redact: Redactor | None = None) -> bool:
    """Return whether :func:`without_secrets` may change anything in what a JSON document says."""
    return is_secret_key(document) or (redact is not None and redact.may_concern(document))


def _cleaned(value: Any, redact: Redactor | None) -> Any:
    if isinstance(value, Mapping):
        kept = ((name, inner) for name, inner in value.items() if not is_secret_key(name))
        return {redact(name) if redact else name: _cleaned(inner, redact) for name, inner in kept}
    if isinstance(value, list):
        return [_cleaned(inner, redact) for inner in value]
    if redact is None or value is None or isinstance(value, bool):
        return value
    text = redact(str(value))
    return text if isinstance(value, str) or text == MASK else value


def is_secret_key(name: str) -> bool:
    """Return whether a key names a secret; the same rule for all outputs."""
    lowered = name.lower()
    return "password" in lowered or "secret" in lowered


def _written_forms(secret: str) -> set[str]:
    forms = {secret, html.escape(secret)}
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        forms |= {encoded, re.sub(r"%[0-9A-F]{2}", lambda escape: escape[0].lower(), encoded)}
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        forms |= {escaped, escaped.replace("/", "\\/")}
    return forms


def _decoded(text: str, depth: int) -> Iterator[str]:
    """Yield the text decoded by every sequence of up to ``depth`` decoders."""
    for decode in _DECODERS:
        decoded = decode(text)
        if decoded != text:
            yield decoded
            if depth > 1:
                yield from _decoded(decoded, depth - 1)


def _from_json(text: str) -> str:
    units = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", _unescape, text, flags=re.DOTALL)
    # A character above U+FFFF is escaped as a surrogate pair.
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _SHORT_ESCAPES.get(escape[2], escape[2])


_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: What every decoder looks for: a text without it is no encoding of another one.
_ENCODED = re.compile(r"[&%+\\]")
_DECODERS: tuple[Callable[[str], str], ...] = (html.unescape, unquote, unquote_plus, _from_json)
