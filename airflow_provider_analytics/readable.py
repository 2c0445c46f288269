r"""Text for people: decoded, redacted, escaped and cut, in this order, by one function.

Whatever the service sends, and whatever a user or a file gives, passes :func:`readable` before it stands in a log line,
an error, Markdown or HTML. The order is what makes it safe: a secret is hidden before the text is cut, so that no part
of it remains, and before invisible characters are escaped, so that they cannot split it.

A secret is found as it is, with invisible characters or line breaks inside, and in any nesting of percent-encoding,
HTML entities and backslash escapes.
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
#: Maximum length of a text, unless another one is given.
EXCERPT_LENGTH = 200
#: Shortest secret that is searched for in text: shorter ones are parts of ordinary words.
MIN_IN_TEXT = 4
#: Shortest secret that is searched for in data, where a chance hit would replace a value.
MIN_IN_DATA = 8

#: Length of the part of a text that is looked at, if only its beginning is shown.
_LOOKED_AT = 16 * 1024
#: Maximum number of nested encodings that are decoded.
_DEPTH = 8

_INVISIBLE = r"(?P<others>[^ -~\t-\r\x1c-\x1e\x85\u2028\u2029]+)"
_HIDDEN = (
    # A line break with the indentation around it. It begins at the first blank of a row, so that a long row is read
    # once.
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
#: Decoded in turn. Invisible characters go first, because one may separate a line break from its indentation. Line
#: breaks are next, because one may split an escape. Each further level decodes one level of nested escapes.
_LEVELS = (re.compile(_INVISIBLE), re.compile(_HIDDEN), *[re.compile(f"{_ESCAPED}|{_HIDDEN}", re.DOTALL)] * _DEPTH)
#: A text without a match means what it says.
_ENCODED = re.compile(r"[&%+\\]|[^ -~]")
#: An escape that a cut may have split.
_SPLIT_ESCAPE = re.compile(r"(?:&#?[0-9A-Za-z]{0,32}|%[0-9a-fA-F]?|\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?)\Z")
#: Characters without a glyph that Python calls printable: joiners, fillers, variation selectors, an empty Braille cell.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
#: Control characters, invisible ones, half of a surrogate pair, separators.
_NO_GLYPH = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
_ASCII = bytes(range(128))
_NOT_ASCII = re.compile(r"[^ -~]+")
#: Not every codec of Python is a character set: some take minutes, some warn.
_CHARSET = re.compile(
    r"charset\s*=\s*[\"']?((?:utf|us-|ascii|iso|latin|windows|cp|ibm|mac|koi|euc|shift|gb|big)[\w:-]*)", re.IGNORECASE
)


class _Forms(NamedTuple):
    """Secrets as they are searched for.

    :param plain: the secrets unchanged.
    :param decoded: secrets without blanks, with all escapes decoded.
    :param joined: secrets with blanks, decoded and without the blanks. A line may have been broken at any of them.
    """

    plain: tuple[str, ...] = ()
    decoded: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()

    def of(self, secret: str, shortest: int) -> _Forms:
        """Return these forms and those of another secret."""
        if len(secret) < shortest:
            return self
        *_, meant = _meanings(secret)
        meant = meant.replace("+", " ")
        plain, decoded, joined = {*self.plain, secret}, {*self.decoded}, {*self.joined}
        # What is left of a secret that is all escapes is too little to be looked for.
        if len(meant.replace(" ", "")) >= shortest // 2:
            (joined if " " in meant else decoded).add(meant.replace(" ", ""))
        return _Forms(tuple(plain), tuple(decoded), tuple(joined))


class Redactor:
    """Secrets of a connection or a client. :func:`readable` hides them as long as this object exists."""

    def __init__(self) -> None:
        self._in_text = self._in_data = _Forms()
        #: What a JSON document has that may contain a secret.
        self._marks: tuple[bytes, ...] = ()
        with _lock:
            _register(self)

    def add(self, secret: str) -> None:
        """Hide this text from now on; one that is too short for it is ignored (:data:`MIN_IN_TEXT`)."""
        if secret in self._in_text.plain:
            return
        with _lock:
            self._in_text = self._in_text.of(secret, MIN_IN_TEXT)
            self._in_data = self._in_data.of(secret, MIN_IN_DATA)
            plain, decoded, joined = self._in_data
            marks = ("&", "%", "\\", "\x7f", *plain, *decoded, *joined, *(("+",) if joined else ()))
            self._marks = tuple(mark.encode("utf-8", "replace") for mark in marks)

    def __call__(self, text: str) -> str:
        """Return the whole text, :func:`readable`."""
        return readable(text, None)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that are hidden in text."""
        return self._in_text.plain

    def finds(self, text: str) -> bool:
        """Return whether a text of data contains a secret of :data:`MIN_IN_DATA` characters or more."""
        plain, decoded, joined = self._in_data
        if _is_in(plain, text):
            return True
        if not _ENCODED.search(text):
            return False
        lines = text.replace("\n", "")
        if " " not in lines and not _ENCODED.search(lines):  # an exclusion list
            return _is_in(plain, lines) or _is_in(joined, lines)
        for meant in _meanings(text):
            blank = meant.replace("+", " ")
            if _is_in(plain, meant) or _is_in(decoded, blank) or _is_in(joined, blank.replace(" ", "")):
                return True
        return False

    def is_one(self, text: str) -> bool:
        """Return whether a text is a secret of :data:`MIN_IN_DATA` characters or more."""
        return text in self._in_data.plain

    def may_be_in(self, document: bytes) -> bool:
        """Return whether any text of a JSON document may contain a secret: one quick look at all of them."""
        if not self._in_data.plain:
            return False
        # Lists of lines have line breaks, which may split a secret. Any other backslash may begin an escape. Splitting
        # and joining is faster than replacing, and most records have no blank.
        joined = b"".join(document.split(b"\\n"))
        if _is_in(self._marks, joined) or (b" " in joined and (b"\\n " in document or b" \\n" in document)):
            return True
        if self._in_data.joined and b" " in joined and _is_in(self._marks, joined.replace(b" ", b"")):
            return True
        others = b"" if joined.isascii() else joined.translate(None, _ASCII)
        return not is_plain(others.decode("utf-8", "replace"))


_lock = threading.Lock()
#: All redactors; replaced as a whole, so that readers need no lock.
_redactors: tuple[weakref.ref[Redactor], ...] = ()


def _register(redactor: Redactor) -> None:
    global _redactors  # one list for the process, like that of Airflow's own masking
    _redactors = (*(known for known in _redactors if known() is not None), weakref.ref(redactor))


def _after_fork() -> None:
    global _lock  # a thread of the parent may have held it, and does not exist here
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
    r"""Return a text as a person may read it: without secrets, without characters that do not show, and cut.

    Never raises, whatever the text is.

    :param text: the text; bytes are decoded.
    :param limit: maximum length; None for the whole text.
    :param breaks: what happens to line breaks: ``escape`` shows them as ``\n``; ``fold`` turns each run of white space
        into a blank, for a document whose layout means nothing; ``keep`` keeps them, for a message of this package,
        whose parts were escaped when they were put in.
    :param is_part: whether the text may end within a secret, as what a service or a broken connection cut.
    :param content_type: header ``Content-Type`` of the bytes.
    """
    least = MIN_IN_TEXT if is_part else 0
    if isinstance(text, bytes):
        # Four bytes for a character at most.
        looked_at = text if limit is None else text[: 4 * _LOOKED_AT]
        least = 1 if len(looked_at) < len(text) else least
        text = decoded(looked_at, content_type)
    if limit is not None and len(text) > _LOOKED_AT:
        text, least = text[:_LOOKED_AT], 1
    text = _redacted(text, least)
    if breaks == "fold":
        text = " ".join(text.split())
    text = "\n".join(map(_escaped, text.split("\n"))) if breaks == "keep" else _escaped(text)
    return text if limit is None or len(text) <= limit else f"{text[: limit - 3]}..."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 website``, ``3 websites``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def code_span(text: str, limit: int | None = EXCERPT_LENGTH) -> str:
    """Return a readable text as a code span of Markdown, in which nothing is markup: no link, picture or HTML."""
    shown = readable(text, limit)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    blank = " " if "`" in shown or not shown.strip() else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def decoded(raw: bytes, content_type: str = "") -> str:
    """Return bytes as text: UTF-16 and UTF-32 with or without a mark, what ``Content-Type`` names, or UTF-8."""
    encoding = json.detect_encoding(raw)
    named = _CHARSET.search(content_type)
    for name in (encoding if encoding != "utf-8" else "", named[1] if named else ""):
        try:
            if name:
                return raw.decode(name, "replace")
        except (LookupError, ValueError):  # no encoding of this name, or not one of text
            continue
    return raw.decode("utf-8", "replace")


def is_plain(text: str) -> bool:
    """Return whether every character of a text shows: none is a control character, invisible, or turns a line."""
    return text.isprintable() and (text.isascii() or not _IGNORABLE.search(text))


def _is_in(parts: Iterable[AnyStr], text: AnyStr) -> bool:
    for part in parts:  # noqa: SIM110 - any() takes three times as long, for each text of a snapshot
        if part in text:
            return True
    return False


def _redacted(text: str, least: int) -> str:
    """Return a text with each secret replaced by :data:`MASK`.

    :param least: length from which the beginning of a secret at the end of the text is replaced as well; 0 for never.
    """
    known = [redactor._in_text for reference in _redactors if (redactor := reference())]
    plain = {secret for forms in known for secret in forms.plain}
    if not plain:
        return text
    spans = _spans(text, range(len(text) + 1), plain, least)
    if _ENCODED.search(text):
        decoded = {form for forms in known for form in forms.decoded}
        joined = {form for forms in known for form in forms.joined}
        for meant, places in _decoded(text, is_cut=least > 0):
            spans += _spans(meant, places, plain, least)
            blank = meant.replace("+", " ")
            spans += _spans(blank, places, decoded, least)
            if joined:
                kept = [place for place, character in zip(places, blank, strict=False) if character != " "]
                found = _spans(blank.replace(" ", ""), [*kept, places[-1]], joined, least)
                # A span ends at the next character that was kept, so it includes the blanks before that.
                spans += [(begin, begin + len(text[begin:end].rstrip(" "))) for begin, end in found]
    return _masked(text, spans) if spans else text


def _spans(text: str, places: Sequence[int], secrets: Iterable[str], least: int) -> list[tuple[int, int]]:
    """Return where secrets begin and end in the original of a text.

    :param places: for each character of the text, and for its end, the place in the original.
    """
    found = []
    for secret in secrets:
        at = text.find(secret)
        while at >= 0:
            end = at + len(secret)
            # Several characters may come from one escape: it ends where the next place begins.
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


def _masked(text: str, spans: list[tuple[int, int]]) -> str:
    parts, shown = [], 0
    for begin, end in sorted(spans):
        if begin >= shown:
            parts += [text[shown:begin], MASK]
        shown = max(shown, end)
    return "".join([*parts, text[shown:]])


def _decoded(text: str, *, is_cut: bool) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield a text at each step of :data:`_LEVELS`, with the place in the original of each character and of the end.

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
            plain = _plain(escape)
            parts += [text[done:begin], plain]
            now += places[done:begin]
            now += [places[begin]] * len(plain)
            done = end
        text, places = "".join([*parts, text[done:]]), [*now, *places[done:]]
        if text == before and level is _LEVELS[-1]:
            return
        yield text, places


def _meanings(text: str) -> Iterator[str]:
    """Yield the texts of :func:`_decoded`."""
    for level in _LEVELS:
        before, text = text, level.sub(_plain, text)
        if text == before and level is _LEVELS[-1]:
            return
        yield text


def _plain(escape: re.Match[str]) -> str:
    """Return what an escape means."""
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


def _escaped(text: str) -> str:
    """Return a text in which each character that does not show is escaped as Python escapes it."""
    if is_plain(text):
        return text
    return _NOT_ASCII.sub(lambda run: "".join(map(_shown, run[0])), text)


def _shown(character: str) -> str:
    return character if is_plain(character) else character.encode("unicode_escape").decode("ascii")
