"""All assumptions about what the interface does not document (docs/interface.md, Not documented).

=============================================  =====================================  ====================
assumption                                     here                                   changed by the extra
=============================================  =====================================  ====================
name of the query parameter for the page       :data:`PAGE_PARAMETER`, pages from 1   ``page_parameter``
format of a boolean in query and form          :data:`BOOLEAN_FORMATS`                ``boolean_format``
update method that every proxy passes          :data:`UPDATE_METHODS`                 ``update_method``
separator of the entries of a list             a line feed, in :mod:`kinds`           none
statuses that mean success                     :data:`SUCCESS`                        none
place of records, lists and page metadata      :func:`record`, :func:`page`           none
place of the message in an error response      :func:`error_details`                  none
headers that announce the rate limit           :func:`retry_after`, :func:`pause`     none
=============================================  =====================================  ====================

The rule for all of them: parse tolerantly, and never accept a response as a success that may not be one.
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
#: Name of a format to its texts for false and true.
BOOLEAN_FORMATS = {"true/false": ("false", "true"), "1/0": ("0", "1")}
UPDATE_METHODS = ("PATCH", "PUT")
#: Not 202: it means that nothing has been done yet.
SUCCESS = frozenset({200, 201, 204})
EXCERPT_LENGTH = 200
#: Maximum number of fields of an error response, and of messages per field, that are kept.
MAX_MESSAGES = 50
#: Length of the text that is redacted for an excerpt.
_LOOKED_AT = 16 * 1024

_JSON_TYPE = re.compile(r"^(application|text)/([\w.+-]+\+)?json\s*(;|$)", re.IGNORECASE)
#: Keys of other lists that may stand beside the list of websites.
_NOT_WEBSITES = ("links", "errors")
#: Keys that describe a response; one that has no other key holds no account.
_NO_RECORD = frozenset({"code", "detail", "message", "status", "success", "title"})
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True)
class Answer:
    """A complete response of the service."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    redact: Callable[[str], str] = field(repr=False)

    def excerpt(self) -> str:
        """Return the beginning of the body as one line: redacted, then cut to :data:`EXCERPT_LENGTH` characters."""
        return self.shorten(self.body[:_LOOKED_AT].decode("utf-8", errors="replace"))

    def shorten(self, text: str) -> str:
        """Return the beginning of a text as one line: redacted, then cut to :data:`EXCERPT_LENGTH` characters."""
        # Cut before redacting as well: redacting 50 MiB to show 200 characters would take seconds. That cut may
        # split a secret, so the end of the redacted text is never shown, however much of the text is blank.
        return " ".join(self.redact(text[:_LOOKED_AT])[: _LOOKED_AT // 4].split())[:EXCERPT_LENGTH]

    def unexpected(self, why: str) -> UnexpectedResponseError:
        """Return the error for a response that is not accepted as a success.

        :param why: what is wrong with it.
        """
        return UnexpectedResponseError(self.redact(why), self.status, self.method, self.path, self.excerpt())


@dataclass(frozen=True)
class Page:
    """A page of the list, with the metadata of the service; None for what it does not state."""

    rows: list[dict[str, Any]]
    total: int | None = None
    current_page: int | None = None
    last_page: int | None = None
    per_page: int | None = None


def record(answer: Answer) -> dict[str, Any]:
    """Return the website record of a response, bare or under ``data``; it must have an id."""
    found = _object(answer)
    website_id(found, answer)
    return found


def account(answer: Answer) -> dict[str, Any]:
    """Return the account record of a response, bare or under ``data``; its fields are not documented."""
    found = _object(answer)
    if found.keys() <= _NO_RECORD:
        raise answer.unexpected("The response holds no account record.")
    return found


def is_empty(answer: Answer) -> bool:
    """Return whether the body is empty or blank."""
    return not answer.body.strip()


def acknowledged(answer: Answer) -> None:
    """Accept a response without a record as a success: an empty one, or a JSON object that reports no error.

    :raises UnexpectedResponseError: for any other response.
    """
    if is_empty(answer):
        return
    found = _json(answer)
    if not isinstance(found, dict) or found.get("deleted") is False:
        raise answer.unexpected("The response does not confirm the request.")


def page(answer: Answer) -> Page:
    """Return the rows and the page metadata of a list response.

    The rows stand bare, under ``data``, or under the only other key that holds a list of objects. The metadata stand
    beside them or under ``meta``; numbers may be text.
    """
    found = _json(answer)
    if isinstance(found, list):
        return Page(_rows(found, answer))
    if not isinstance(found, dict):
        raise answer.unexpected("The response is not a list of websites.")
    lists = {key: value for key, value in found.items() if isinstance(value, list)}
    named = [key for key in lists if key not in _NOT_WEBSITES]
    if "data" not in lists and len(named) != 1:
        raise answer.unexpected("The response holds no list of websites, or more than one list.")
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
        raise answer.unexpected("A website record has no id.")
    return str(found)


def error_details(answer: Answer) -> tuple[str, dict[str, list[str]]]:
    """Return the message and the messages by field of an error response, redacted; else the excerpt."""
    try:
        found = _decode(answer.body)
    except _NOT_JSON:
        found = None
    if not isinstance(found, dict):
        return answer.excerpt() or "(empty response)", {}
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
    """Return the seconds of ``Retry-After``, given as seconds or as a date; None if it is missing or invalid."""
    value = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def pause(headers: Mapping[str, str]) -> float:
    """Return the seconds to wait before the next request if the rate limit is used up, else 0.

    Reads ``RateLimit-Remaining`` and ``RateLimit-Reset``, also as ``X-RateLimit-`` and ``X-Rate-Limit-`` (the reset in
    seconds or as a Unix timestamp), and the header ``RateLimit`` with ``r=`` and ``t=``. 0 without a reset.
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
        raise answer.unexpected("The response is empty.")
    kind = answer.headers.get("Content-Type", "").strip()
    if kind and not _JSON_TYPE.match(kind):
        raise answer.unexpected(f"The response is of type {kind[:60]!r}, not JSON.")
    try:
        found = _decode(answer.body)
    except _NOT_JSON:
        raise answer.unexpected("The response is not JSON.") from None
    if isinstance(found, dict) and _says_failure(found):
        raise answer.unexpected("The response reports a failure, although its status means success.")
    return found


def _decode(body: bytes) -> Any:
    return msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))


def _object(answer: Answer) -> dict[str, Any]:
    found = _json(answer)
    if isinstance(found, dict) and "id" not in found and "data" in found:
        found = found["data"]
    if not isinstance(found, dict):
        raise answer.unexpected("The response holds no record.")
    return found


def _rows(found: list[Any], answer: Answer) -> list[dict[str, Any]]:
    if not all(isinstance(row, dict) for row in found):
        raise answer.unexpected("The list holds something other than website records.")
    return found


def _says_failure(found: Mapping[str, Any]) -> bool:
    """Return whether a body reports an error, although the status of the response does not."""
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
