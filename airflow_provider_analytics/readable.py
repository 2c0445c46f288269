r"""Safe text for people: one function decodes, redacts, escapes and cuts it, in this order.

All text of the service, of users and of files passes :func:`readable` before it appears in a log line, an error,
Markdown or HTML. The order makes it safe. Secrets are masked before the text is cut, so that no part of a secret
remains. They are also masked before invisible characters are escaped, so that these cannot split a secret.

A secret is found in plain form, with invisible characters or line breaks inside, and in any nesting of
percent-encoding, HTML entities and backslash escapes.
"""

from __future__ import annotations

import html
import json
import os
import re
import threading
import unicodedata
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import AnyStr, Literal, NamedTuple

MASK = "***"
#: Default maximum length of a text.
EXCERPT_LENGTH = 200
#: Shortest secret that is masked in text: shorter ones are parts of ordinary words.
MIN_IN_TEXT = 4
#: Shortest secret that is masked in data, where a chance match would replace a value.
MIN_IN_DATA = 8

#: Number of characters that are processed, if only the beginning of a text is returned.
_MAX_PROCESSED = 16 * 1024
#: Maximum number of nested encodings that are decoded.
_DEPTH = 8

_INVISIBLE = r"(?P<others>[^ -~\t-\r\x1c-\x1e\x85\u2028\u2029]+)"
_HIDDEN = (
    # A line break with the indentation around it. The match begins at the first of several blanks, so that a long run
    # of blanks is scanned once.
    r"(?P<line_break>(?<! ) *+[\t-\r\x1c-\x1e\x85\u2028\u2029]\s*+)"
    rf"|{_INVISIBLE}"
)
_ESCAPED = (
    r"&#0*(?P<decimal>[0-9]{1,7});?"
    r"|&#[xX]0*(?P<hex>[0-9a-fA-F]{1,6});?"
    r"|(?P<entity>&[A-Za-z][A-Za-z0-9]{1,31};?)"
    r"|(?P<percent>(?:%[0-9a-fA-F]{2})+)"
    r"|(?P<units>(?:\\u[0-9a-fA-F]{4})+)"
    r"|\\x(?P<byte>[0-9a-fA-F]{2})"
    r"|\\(?P<short>.?)"
)
#: Decoding steps. Invisible characters are first, because one may separate a line break from its indentation. Line
#: breaks are next, because one may split an escape. Each further step decodes one level of nested escapes.
_LEVELS = (re.compile(_INVISIBLE), re.compile(_HIDDEN), *[re.compile(f"{_ESCAPED}|{_HIDDEN}", re.DOTALL)] * _DEPTH)
#: A text without a match needs no decoding.
_ENCODED = re.compile(r"[&%+\\]|[^ -~]")
#: An escape that a cut may have split.
_SPLIT_ESCAPE = re.compile(r"(?:&#?[0-9A-Za-z]{0,32}|%[0-9a-fA-F]?|\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?)\Z")
#: Invisible characters that Python considers printable: joiners, fillers, variation selectors, an empty Braille cell.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
#: Categories of control characters, invisible characters, surrogates and separators.
_NO_GLYPH = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
_ASCII = bytes(range(128))
_NOT_ASCII = re.compile(r"[^ -~]+")
#: Only character sets: some other codecs of Python take minutes, or warn.
_CHARSET = re.compile(
    r"charset\s*=\s*[\"']?((?:utf|us-|ascii|iso|latin|windows|cp|ibm|mac|koi|euc|shift|gb|big)[\w:-]*)", re.IGNORECASE
)


class _Forms(NamedTuple):
    """Search forms of secrets.

    :param plain: secrets, unchanged.
    :param decoded: secrets without blanks, with all escapes decoded.
    :param joined: secrets with blanks, decoded and with the blanks removed: text may have a line break at any of them.
    """

    plain: tuple[str, ...] = ()
    decoded: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()

    def of(self, secret: str, shortest: int) -> _Forms:
        """Return these forms with the forms of another secret added."""
        if len(secret) < shortest:
            return self
        *_, meant = _decoded_texts(secret)
        meant = meant.replace("+", " ")
        plain, decoded, joined = {*self.plain, secret}, {*self.decoded}, {*self.joined}
        # If a secret consists of escapes, the decoded form may be too short to search for.
        if len(meant.replace(" ", "")) >= shortest // 2:
            (joined if " " in meant else decoded).add(meant.replace(" ", ""))
        return _Forms(tuple(plain), tuple(decoded), tuple(joined))


class Redactor:
    """Secrets of a connection or a client. :func:`readable` masks them as long as this object exists."""

    def __init__(self) -> None:
        self._in_text = self._in_data = _Forms()
        #: Bytes of which a JSON document with a secret contains at least one.
        self._marks: tuple[bytes, ...] = ()
        with _lock:
            _register(self)

    def add(self, secret: str) -> None:
        """Mask this text from now on; ignore it if it is shorter than :data:`MIN_IN_TEXT`."""
        if secret in self._in_text.plain:
            return
        with _lock:
            self._in_text = self._in_text.of(secret, MIN_IN_TEXT)
            self._in_data = self._in_data.of(secret, MIN_IN_DATA)
            plain, decoded, joined = self._in_data
            marks = ("&", "%", "\\", "\x7f", *plain, *decoded, *joined, *(("+",) if joined else ()))
            self._marks = tuple(mark.encode("utf-8", "replace") for mark in marks)

    def __call__(self, text: str) -> str:
        """Return the whole text, made :func:`readable`."""
        return readable(text, None)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that are masked in text."""
        return self._in_text.plain

    def finds(self, text: str) -> bool:
        """Return whether a value of data contains a secret of at least :data:`MIN_IN_DATA` characters."""
        plain, decoded, joined = self._in_data
        if _contains_any(plain, text):
            return True
        if not _ENCODED.search(text):
            return False
        lines = text.replace("\n", "")
        if " " not in lines and not _ENCODED.search(lines):  # an exclusion list
            return _contains_any(plain, lines) or _contains_any(joined, lines)
        for meant in _decoded_texts(text):
            blank = meant.replace("+", " ")
            if (
                _contains_any(plain, meant)
                or _contains_any(decoded, blank)
                or _contains_any(joined, blank.replace(" ", ""))
            ):
                return True
        return False

    def is_one(self, text: str) -> bool:
        """Return whether a text is a secret of at least :data:`MIN_IN_DATA` characters."""
        return text in self._in_data.plain

    def may_be_in(self, document: bytes) -> bool:
        """Return whether any text in a JSON document may contain a secret; a quick check of all of them."""
        if not self._in_data.plain:
            return False
        # Exclusion lists have line breaks, which may split a secret. Any other backslash may begin an escape. Splitting
        # and joining is faster than replacing, and most records contain no blank.
        joined = b"".join(document.split(b"\\n"))
        if _contains_any(self._marks, joined) or (b" " in joined and (b"\\n " in document or b" \\n" in document)):
            return True
        if self._in_data.joined and b" " in joined and _contains_any(self._marks, joined.replace(b" ", b"")):
            return True
        others = b"" if joined.isascii() else joined.translate(None, _ASCII)
        return not is_plain(others.decode("utf-8", "replace"))


_lock = threading.Lock()
#: All redactors. The tuple is replaced as a whole, so that readers need no lock.
_redactors: tuple[weakref.ref[Redactor], ...] = ()


def _register(redactor: Redactor) -> None:
    global _redactors  # one list per process, like that of Airflow's own masking
    _redactors = (*(known for known in _redactors if known() is not None), weakref.ref(redactor))


def _after_fork() -> None:
    global _lock  # a thread of the parent that no longer exists may hold it
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def readable(
    text: str | bytes,
    limit: int | None = EXCERPT_LENGTH,
    *,
    breaks: Literal["escape", "fold", "keep"] = "escape",
    is_part: bool = False,
    content_type: str = "",
) -> str:
    r"""Return a text that is safe to read: secrets masked, invisible characters escaped, and cut.

    Never raises an exception.

    :param text: the text; bytes are decoded.
    :param limit: maximum length; None for the whole text.
    :param breaks: handling of line breaks. ``escape`` writes them as ``\n``. ``fold`` replaces each run of white space
        with a blank, for a document whose layout means nothing. ``keep`` keeps them, for a message of this package,
        whose parts are already escaped.
    :param is_part: whether the text may end within a secret, because a service or a broken connection cut it.
    :param content_type: value of the header ``Content-Type``, for bytes.
    """
    least = MIN_IN_TEXT if is_part else 0
    if isinstance(text, bytes):
        # A character has at most four bytes.
        prefix = text if limit is None else text[: 4 * _MAX_PROCESSED]
        least = 1 if len(prefix) < len(text) else least
        text = decoded(prefix, content_type)
    if limit is not None and len(text) > _MAX_PROCESSED:
        text, least = text[:_MAX_PROCESSED], 1
    text = _redact(text, least)
    if breaks == "fold":
        text = " ".join(text.split())
    text = "\n".join(map(_escape, text.split("\n"))) if breaks == "keep" else _escape(text)
    return text if limit is None or len(text) <= limit else f"{text[: limit - 3]}..."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 website``, ``3 websites``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def code_span(text: str, limit: int | None = EXCERPT_LENGTH) -> str:
    """Return a readable text as a code span of Markdown, in which links, pictures and HTML have no effect."""
    content = readable(text, limit)
    fence = "`" * (max(map(len, re.findall("`+", content)), default=0) + 1)
    blank = " " if "`" in content or not content.strip() else ""
    return f"{fence}{blank}{content}{blank}{fence}"


def decoded(raw: bytes, content_type: str = "") -> str:
    """Return bytes as text, as UTF-16 or UTF-32 if detected, else the charset of ``Content-Type``, else UTF-8."""
    encoding = json.detect_encoding(raw)
    named = _CHARSET.search(content_type)
    for name in (encoding if encoding != "utf-8" else "", named[1] if named else ""):
        try:
            if name:
                return raw.decode(name, "replace")
        except (LookupError, ValueError):  # unknown, or not a text encoding
            continue
    return raw.decode("utf-8", "replace")


def is_plain(text: str) -> bool:
    """Return whether every character is visible: no control characters, invisible characters or line breaks."""
    return text.isprintable() and (text.isascii() or not _IGNORABLE.search(text))


def _contains_any(parts: Iterable[AnyStr], text: AnyStr) -> bool:
    for part in parts:  # noqa: SIM110 - any() takes three times as long, which counts in a snapshot
        if part in text:
            return True
    return False


def _redact(text: str, least: int) -> str:
    """Return a text with each secret replaced by :data:`MASK`.

    :param least: minimum length of a secret's beginning that is also replaced at the end of the text; 0 for never.
    """
    known = [redactor._in_text for reference in _redactors if (redactor := reference())]
    plain = {secret for forms in known for secret in forms.plain}
    if not plain:
        return text
    spans = _find_spans(text, range(len(text) + 1), plain, least)
    if _ENCODED.search(text):
        decoded = {form for forms in known for form in forms.decoded}
        joined = {form for forms in known for form in forms.joined}
        for meant, places in _decoding_steps(text, is_cut=least > 0):
            spans += _find_spans(meant, places, plain, least)
            blank = meant.replace("+", " ")
            spans += _find_spans(blank, places, decoded, least)
            if joined:
                kept = [place for place, character in zip(places, blank, strict=False) if character != " "]
                found = _find_spans(blank.replace(" ", ""), [*kept, places[-1]], joined, least)
                # A span ends at the next character that was kept, so it includes the blanks before that.
                spans += [(begin, begin + len(text[begin:end].rstrip(" "))) for begin, end in found]
    return _mask_spans(text, spans) if spans else text


def _find_spans(text: str, places: Sequence[int], secrets: Iterable[str], least: int) -> list[tuple[int, int]]:
    """Return where secrets begin and end in the original text.

    :param places: position in the original, for each character of the text and for its end.
    """
    found = []
    for secret in secrets:
        at = text.find(secret)
        while at >= 0:
            end = at + len(secret)
            # Several characters may come from one escape, which ends where the next position begins.
            after = min(bisect_right(places, places[end - 1]), len(places) - 1)
            found.append((places[at], places[after]))
            at = text.find(secret, end)
        at = text.find(secret[:least], max(0, len(text) - len(secret) + 1)) if least else -1
        while at >= 0:
            if secret.startswith(text[at:]):
                found.append((places[at], places[-1]))
                break
            at = text.find(secret[:least], at + 1)
    return found


def _mask_spans(text: str, spans: list[tuple[int, int]]) -> str:
    parts, done = [], 0
    for begin, end in sorted(spans):
        if begin >= done:
            parts += [text[done:begin], MASK]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _decoding_steps(text: str, *, is_cut: bool) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield a text after each step of :data:`_LEVELS`, with the original position of each character and of the end.

    :param is_cut: whether the text may end within an escape.
    """
    places: Sequence[int] = range(len(text) + 1)
    for level in _LEVELS:
        before = text
        if is_cut:
            text = _SPLIT_ESCAPE.sub("", text)
            places = [*places[: len(text)], places[-1]]
        parts, now, done = [], list[int](), 0
        for escape in level.finditer(text):
            begin, end = escape.span()
            plain = _decode_escape(escape)
            parts += [text[done:begin], plain]
            now += places[done:begin]
            now += [places[begin]] * len(plain)
            done = end
        text, places = "".join([*parts, text[done:]]), [*now, *places[done:]]
        if text == before and level is _LEVELS[-1]:
            return
        yield text, places


def _decoded_texts(text: str) -> Iterator[str]:
    """Yield only the texts of :func:`_decoding_steps`."""
    for level in _LEVELS:
        before, text = text, level.sub(_decode_escape, text)
        if text == before and level is _LEVELS[-1]:
            return
        yield text


def _decode_escape(escape: re.Match[str]) -> str:
    """Return the decoded text of an escape."""
    kind, text = str(escape.lastgroup), escape[str(escape.lastgroup)]
    if kind == "others":
        text = "".join(character for character in text if unicodedata.category(character) not in _NO_GLYPH)
        return _IGNORABLE.sub("", text)
    if kind == "entity":
        return html.unescape(text)
    if kind == "percent":
        return bytes.fromhex(text.replace("%", "")).decode("utf-8", "replace")
    if kind == "units":  # a character above U+FFFF is two of them
        return bytes.fromhex(text.replace("\\u", "")).decode("utf-16-be", "replace")
    if kind == "decimal":
        return _character(int(text))
    if kind in ("hex", "byte"):
        return _character(int(text, 16))
    if kind == "line_break" or text in ("", "b", "f", "t"):
        return ""
    return "\n" if text in ("n", "r") else text


def _character(number: int) -> str:
    return chr(number) if number <= 0x10FFFF else ""


def _escape(text: str) -> str:
    """Return a text with each invisible character escaped in Python syntax."""
    if is_plain(text):
        return text
    return _NOT_ASCII.sub(lambda run: "".join(map(_escape_character, run[0])), text)


def _escape_character(character: str) -> str:
    return character if is_plain(character) else character.encode("unicode_escape").decode("ascii")
