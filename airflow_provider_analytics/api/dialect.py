"""Every assumption about what interface.md leaves "not shown", in one place.

=============================================  =====================================  ====================
assumption                                     here                                   changed by the extra
=============================================  =====================================  ====================
name of the parameter that selects a page      :data:`PAGE_PARAMETER`, from 1 up      ``page_parameter``
how a boolean is written in query and form     :data:`BOOLEAN_FORMATS`                ``boolean_format``
method of an update that every proxy lets by   :data:`UPDATE_METHODS`                 ``update_method``
what separates the entries of a list           a line feed, in :mod:`fields`          none
statuses that mean success                     :data:`SUCCESS`                        none
where records, lists and page numbers stand    :func:`record`, :func:`page`           none
where an error answer keeps its message        :func:`error_details`                  none
how a service announces its rate limit         :func:`retry_after`, :func:`pause`     none
=============================================  =====================================  ====================

The rule for all of them: read tolerantly, and take nothing for a success that is not one for certain.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from airflow_provider_analytics.exceptions import UnexpectedResponseError

API_PREFIX = "/api/v1"
PAGE_PARAMETER = "page"
#: Format name to how false and true are written.
BOOLEAN_FORMATS = {"true/false": ("false", "true"), "1/0": ("0", "1")}
UPDATE_METHODS = ("PATCH", "PUT")
#: Not 202: it says that nothing has been done yet.
SUCCESS = frozenset({200, 201, 204})
EXCERPT_LENGTH = 200
#: How many messages of an error answer, and of each of its fields, are kept.
MAX_MESSAGES = 50
_LOOKED_AT = 16 * 1024

_JSON_TYPE = re.compile(r"^(application|text)/([\w.+-]+\+)?json\s*(;|$)", re.IGNORECASE)
#: Lists of objects that page metadata may hold beside the list of websites.
_NOT_WEBSITES = ("links", "errors")
#: Fields of an answer that say something about it, and nothing of an account.
_NO_RECORD = frozenset({"code", "detail", "message", "status", "success", "title"})
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True)
class Answer:
    """One whole answer of the service."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    redact: Callable[[str], str] = field(repr=False)

    def excerpt(self) -> str:
        """Return the beginning of the body as one line: redacted first, then cut."""
        return self.shorten(self.body[:_LOOKED_AT].decode("utf-8", errors="replace"))

    def shorten(self, text: str) -> str:
        """Return the beginning of a text as one line: redacted first, then cut."""
        # Cut once before as well: redacting 50 MiB to show 200 characters would take seconds. That may cut a
        # secret in two, so that the end of what was looked at is never shown, however much of it is blank.
        return " ".join(self.redact(text[:_LOOKED_AT])[: _LOOKED_AT // 4].split())[:EXCERPT_LENGTH]

    def unexpected(self, why: str) -> UnexpectedResponseError:
        """Return the error that says why this answer is not taken for a success."""
        return UnexpectedResponseError(self.redact(why), self.status, self.method, self.path, self.excerpt())


@dataclass(frozen=True)
class Page:
    """One page of the list, with what the service says about it, as far as it does."""

    rows: list[dict[str, Any]]
    total: int | None = None
    current_page: int | None = None
    last_page: int | None = None
    per_page: int | None = None


def record(answer: Answer) -> dict[str, Any]:
    """Return the website record of an answer, bare or under ``data``; it must have an id."""
    found = _object(answer)
    website_id(found, answer)
    return found


def account(answer: Answer) -> dict[str, Any]:
    """Return the account record of an answer, bare or under ``data``; its fields are not shown."""
    found = _object(answer)
    if found.keys() <= _NO_RECORD:
        raise answer.unexpected("The answer holds no account record.")
    return found


def is_empty(answer: Answer) -> bool:
    """Tell whether the answer has no body at all."""
    return not answer.body.strip()


def acknowledged(answer: Answer) -> None:
    """Take an answer without a record for a success: an empty one, or a JSON object that reports no error."""
    if is_empty(answer):
        return
    found = _json(answer)
    if not isinstance(found, dict) or found.get("deleted") is False:
        raise answer.unexpected("The answer does not confirm what was asked for.")


def page(answer: Answer) -> Page:
    """Return the rows and the page metadata of a list answer.

    The rows stand bare, under ``data``, or under the only other key that holds a list of objects; metadata
    stands beside them or under ``meta``, its numbers perhaps as text.
    """
    found = _json(answer)
    if isinstance(found, list):
        return Page(_rows(found, answer))
    if not isinstance(found, dict):
        raise answer.unexpected("The answer is no list of websites.")
    lists = {key: value for key, value in found.items() if isinstance(value, list)}
    named = [key for key in lists if key not in _NOT_WEBSITES]
    if "data" not in lists and len(named) != 1:
        raise answer.unexpected("The answer holds no list of websites, or more than one list.")
    nested = found.get("meta")
    meta = {**found, **nested} if isinstance(nested, dict) else found
    return Page(
        _rows(lists["data"] if "data" in lists else lists[named[0]], answer),
        *(_number(meta.get(name)) for name in ("total", "current_page", "last_page", "per_page")),
    )


def website_id(row: Mapping[str, Any], answer: Answer) -> str:
    """Return the id of a website record as text."""
    found = row.get("id")
    if isinstance(found, bool) or not isinstance(found, (int, str)) or found == "":
        raise answer.unexpected("A website record comes without an id.")
    return str(found)


def error_details(answer: Answer) -> tuple[str, dict[str, list[str]]]:
    """Return the message and the messages by field of an error answer, redacted; else the excerpt."""
    try:
        found = _decode(answer.body)
    except _NOT_JSON:
        found = None
    if not isinstance(found, dict):
        return answer.excerpt() or "(empty answer)", {}
    named = found.get("errors")
    errors = {
        answer.shorten(name): [_said(message, answer) for message in _as_list(messages)[:MAX_MESSAGES]]
        for name, messages in list(named.items() if isinstance(named, dict) else ())[:MAX_MESSAGES]
    }
    for key in ("message", "error", "detail", "title"):
        if isinstance(found.get(key), str) and found[key].strip():
            return answer.shorten(found[key]), errors
    return answer.excerpt(), errors


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, as seconds or as a date; None if it does not."""
    value = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def pause(headers: Mapping[str, str]) -> float:
    """Return the seconds to wait before the next request where the service says that its limit is used up.

    Read are ``RateLimit-Remaining`` and ``-Reset``, with or without ``X-`` before them (the reset in seconds
    or as a point in time), and the one header ``RateLimit`` with ``r=`` and ``t=``. 0 where no reset is told.
    """
    combined = headers.get("RateLimit", "")
    remaining = _parameter(combined, "r")
    reset = _parameter(combined, "t")
    for prefix in ("RateLimit", "X-RateLimit", "X-Rate-Limit"):
        remaining = _number(headers.get(f"{prefix}-Remaining")) if remaining is None else remaining
        reset = _number(headers.get(f"{prefix}-Reset")) if reset is None else reset
    if remaining != 0 or reset is None:
        return 0.0
    is_point_in_time = reset > 1_000_000_000
    return max(0.0, reset - time.time()) if is_point_in_time else float(reset)


def _json(answer: Answer) -> Any:
    if is_empty(answer):
        raise answer.unexpected("The answer is empty.")
    kind = answer.headers.get("Content-Type", "").strip()
    if kind and not _JSON_TYPE.match(kind):
        raise answer.unexpected(f"The answer is of type {kind[:60]!r}, not JSON.")
    try:
        found = _decode(answer.body)
    except _NOT_JSON:
        raise answer.unexpected("The answer is not JSON.") from None
    if isinstance(found, dict) and _says_failure(found):
        raise answer.unexpected("The answer reports a failure, although its status means success.")
    return found


def _decode(body: bytes) -> Any:
    return msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))


def _object(answer: Answer) -> dict[str, Any]:
    found = _json(answer)
    if isinstance(found, dict) and "id" not in found and "data" in found:
        found = found["data"]
    if not isinstance(found, dict):
        raise answer.unexpected("The answer holds no record.")
    return found


def _rows(found: list[Any], answer: Answer) -> list[dict[str, Any]]:
    if not all(isinstance(row, dict) for row in found):
        raise answer.unexpected("The list holds something else than website records.")
    return found


def _says_failure(found: Mapping[str, Any]) -> bool:
    """Tell whether a body reports an error although the status of the answer does not."""
    status = _number(found.get("status"))
    return (
        bool(found.get("error") or found.get("errors"))
        or found.get("success") is False
        or (status is not None and status >= 400)
    )


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    text = str(value).strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _parameter(header: str, name: str) -> int | None:
    found = re.search(rf"[;,]\s*{name}=(\d+)", header)
    return _number(found[1]) if found else None


def _said(message: object, answer: Answer) -> str:
    return answer.shorten(message if isinstance(message, str) else msgspec.json.encode(message).decode())


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
