"""All assumptions about what the interface does not document (docs/interface.md, Not documented).

The table of ``probe/unknowns.py`` lists the alternatives, and how a task detects each of them.

=============================================  =====================================  ====================
assumption                                     here                                   changed by the extra
=============================================  =====================================  ====================
how a page is selected                         the link to the next page, or          ``page_parameter``
                                               :data:`PAGE_PARAMETER`
format of a boolean in query and form          :data:`BOOLEAN_FORMATS`                ``boolean_format``
update method that every proxy passes          :data:`UPDATE_METHODS`                 ``update_method``
separator of the entries of a list             a line feed, in :mod:`kinds`           none
statuses that mean success                     :data:`SUCCESS`                        none
place of the list                              :func:`page`                           ``list_key``
place of records and page metadata             :func:`record`, :func:`page`           none
place of the message in an error response      :func:`error_details`                  none
headers that announce the rate limit           :func:`retry_after`, :func:`pause`     none
identity of an account                         :func:`account_id`                     none
keys that mark a record as deleted             :func:`is_deleted`                     none
=============================================  =====================================  ====================

The rule for all of them: parse tolerantly, but never accept a response as a success if it may not be one.
"""

from __future__ import annotations

import html
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import msgspec

from airflow_provider_analytics.api.fields import ListFilters
from airflow_provider_analytics.exceptions import UnexpectedResponseError
from airflow_provider_analytics.readable import EXCERPT_LENGTH, MIN_IN_DATA, decoded, is_plain, readable

API_PREFIX = "/api/v1"
#: Query parameter that selects a page, if no link contains another one.
PAGE_PARAMETER = "page"
#: Query parameter for a cursor that the service returns without a link.
CURSOR_PARAMETER = "cursor"
#: Format name to its texts for false and true.
BOOLEAN_FORMATS = {"true/false": ("false", "true"), "1/0": ("0", "1")}
UPDATE_METHODS = ("PATCH", "PUT")
#: Without 202, which means that the service has not applied the request yet.
SUCCESS = frozenset({200, 201, 204})
#: Statuses that services return for a page after the last one, instead of an empty page.
NO_SUCH_PAGE = frozenset({400, 404, 410, 416, 422})
#: Statuses of an update that do not report its outcome: the website is fetched instead.
UNCONFIRMED = frozenset({202, 203, 205, 206})
#: Maximum number of fields of an error response, and of messages per field.
MAX_MESSAGES = 50
#: Maximum number of values in a response: about 50,000 websites. A few bytes of JSON take a hundred bytes of memory.
MAX_VALUES = 2_000_000
#: Maximum length of an id: no server accepts a longer one in a path.
MAX_ID_LENGTH = 10_000
#: Number of bytes at the beginning of a page that are searched for its title.
_TITLE_SEARCH_BYTES = 16 * 1024

#: A reset above this number is a Unix timestamp; otherwise it is a number of seconds.
_MIN_TIMESTAMP = 1_000_000_000
#: Headers that announce a rate limit.
LIMIT_HEADERS = tuple(
    f"{prefix}-{name}"
    for prefix in ("RateLimit", "X-RateLimit", "X-Rate-Limit")
    for name in ("Limit", "Remaining", "Reset")
)
#: Headers in which proxies and services return the id of a request.
_REQUEST_ID_HEADERS = ("CF-Ray", "X-Request-Id", "X-Amz-Cf-Id")

_JSON_TYPE = re.compile(r"^(application|text)/([\w.+-]+\+)?json\s*(;|$)", re.IGNORECASE)
#: Keys of other lists that a response may contain besides the list of websites.
_OTHER_LISTS = ("links", "errors")
#: Keys that describe a response. A response without any other key contains no account.
_MESSAGE_KEYS = frozenset({"code", "detail", "message", "status", "success", "title"})
#: Keys that may mark a website as deleted, and the values of ``status`` that do.
_DELETED_KEYS = frozenset({"deleted", "is_deleted", "deleted_at", "trashed", "trashed_at", "status"})
_DELETED_STATUSES = ("deleted", "trashed")
#: Values of the other keys that mean "not deleted": no, and the empty dates of MySQL, PHP and Go.
_NOT_DELETED = re.compile(r"(0|f|false|n|no|off|null|none|-?000[01]-.*)?", re.IGNORECASE)
#: Keys that identify an account, the best first.
ACCOUNT_NAMES = ("id", "uuid", "email", "username", "name")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


class _TooManyValuesError(Exception):
    """A response that would take too much memory."""


_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, _TooManyValuesError)


@dataclass(frozen=True)
class Answer:
    """A complete response of the service.

    :param key: the API key, which no id and no domain may contain.
    """

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    key: str = field(repr=False)

    def excerpt(self, limit: int = EXCERPT_LENGTH) -> str:
        """Return the beginning of the body as one readable line."""
        kind = self.headers.get("Content-Type", "")
        return readable(self.body, limit, breaks="fold", is_part=True, content_type=kind)

    def unexpected(self, why: str) -> UnexpectedResponseError:
        """Return the error for a response that is not accepted as a success.

        :param why: what is wrong with the response.
        """
        return UnexpectedResponseError(why, self.status, self.method, self.path, self.excerpt())


@dataclass(frozen=True)
class Selection:
    """How a link of the service selects a page.

    :param parameter: the query parameter that docs/interface.md does not document; None if there is none.
    :param value: its value, a page number or a cursor.
    """

    parameter: str | None
    value: str | None


@dataclass(frozen=True)
class Page:
    """A page of the list, with the metadata of the service; None for missing metadata.

    :param first: selection of the first page, taken from a link; None if there is no such link.
    :param following: selection of the next page; None if there is none, or if the service does not link pages.
    """

    rows: list[dict[str, Any]]
    total: int | None = None
    current_page: int | None = None
    first: Selection | None = None
    following: Selection | None = None


def record(answer: Answer) -> dict[str, Any]:
    """Return the website record of a response; it must have an id.

    The record is the whole body, or the value of ``data``, or of the only key besides a message.
    """
    found = _object(answer)
    website_id(found, answer)
    _reject_api_key(_domains([found]), answer)
    return found


def record_or_none(answer: Answer) -> dict[str, Any] | None:
    """Return the website record of a response to a write, or None if there is none: an empty body, a message.

    :raises UnexpectedResponseError: for a response that is not JSON, or that reports a failure.
    """
    if is_empty(answer):
        return None
    found = _unwrapped(document(answer))
    if not isinstance(found, dict) or not _is_valid_id(found.get("id")):
        return None
    _reject_api_key([str(found["id"]), *_domains([found])], answer)
    return found


def account(answer: Answer) -> dict[str, Any]:
    """Return the account record of a response: the body, or its ``data``. Its fields are not documented."""
    found = _object(answer)
    if found.keys() <= _MESSAGE_KEYS:
        raise answer.unexpected("The response contains no account record.")
    _reject_api_key([account_id(found) or ""], answer)
    return found


def account_id(found: Mapping[str, Any]) -> str | None:
    """Return the id of an account, or else the first of :data:`ACCOUNT_NAMES` that the record has."""
    return next((str(found[name]) for name in ACCOUNT_NAMES if found.get(name) not in (None, "")), None)


def is_deleted(found: Mapping[str, Any]) -> bool:
    """Return whether a record marks its website as deleted."""
    texts = {name: str(found[name] or "").strip() for name in _DELETED_KEYS & found.keys()}
    status = texts.pop("status", "").lower()
    return status in _DELETED_STATUSES or not all(_NOT_DELETED.fullmatch(text) for text in texts.values())


def not_deleted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of websites that are not deleted."""
    # The first condition saves a call for most records: a list may have 100,000 of them.
    return [row for row in rows if _DELETED_KEYS.isdisjoint(row) or not is_deleted(row)]


def is_empty(answer: Answer) -> bool:
    """Return whether the body is empty or blank."""
    return not answer.body.strip()


def acknowledged(answer: Answer) -> None:
    """Accept a response without a record as a success: an empty one, or a JSON object that reports no error.

    :raises UnexpectedResponseError: for any other response.
    """
    if is_empty(answer):
        return
    found = document(answer)
    inner = _unwrapped(found)
    if not isinstance(found, dict) or any(
        part.get("deleted") is False for part in (found, inner) if isinstance(part, dict)
    ):
        raise answer.unexpected("The response does not confirm the request.")


def page(answer: Answer, url: str, list_key: str | None = None) -> Page:
    """Return the rows and the page metadata of a list response.

    The rows are the whole body, the value of ``data``, or the only other list. They may be nested in the same way in an
    object under ``data``. The metadata are next to the rows or under ``meta``. Numbers may be text.

    :param url: URL of the request without its query; only links to this address are used.
    :param list_key: key of the list, with dots for nested objects; None: as described.
    """
    found = document(answer)
    if isinstance(found, list):
        return Page(_rows(found, answer))
    rows, around = _find_list(found, answer, list_key)
    meta: dict[str, Any] = {}
    for place in around:
        nested = place.get("meta")
        meta |= {**place, **nested} if isinstance(nested, dict) else place
    return Page(
        rows=_rows(rows, answer),
        total=number(meta.get("total")),
        current_page=number(meta.get("current_page")),
        first=_first(meta, url),
        following=_following(meta, url),
    )


def _first(meta: Mapping[str, Any], url: str) -> Selection | None:
    """Return the selection of the first page, from ``links.first`` or ``first_page_url``."""
    link = _linked(meta, "first") or meta.get("first_page_url")
    return selection(link, url) if isinstance(link, str) and link else None


def _following(meta: Mapping[str, Any], url: str) -> Selection | None:
    """Return the selection of the next page, from ``links.next``, ``next_page_url``, ``next`` or ``next_cursor``.

    The client never follows a link. It reads only the query, and only if the link has the address of the request. A
    link to another address, as behind some proxies, means only that there is a next page.
    """
    for link in (_linked(meta, "next"), meta.get("next_page_url"), meta.get("next")):
        if isinstance(link, str) and link:
            return selection(link, url)
    cursor = meta.get("next_cursor")
    return Selection(None, str(cursor)) if isinstance(cursor, (str, int)) and cursor != "" else None


def _linked(meta: Mapping[str, Any], name: str) -> Any:
    links = meta.get("links")
    return links.get(name) if isinstance(links, dict) else None


def selection(link: str, url: str) -> Selection:
    """Return how a link selects a page; an empty selection if the link has another address."""
    try:
        target, base = urlsplit(urljoin(url, link)), urlsplit(url)
    except ValueError:
        return Selection(None, None)
    if (target.scheme, target.netloc.lower(), target.path) != (base.scheme, base.netloc.lower(), base.path):
        return Selection(None, None)
    others = [(name, value) for name, value in parse_qsl(target.query) if name not in ListFilters.__annotations__]
    return Selection(*others[0]) if len(others) == 1 else Selection(None, None)


def _find_list(found: Any, answer: Answer, list_key: str | None) -> tuple[list[Any], list[Mapping[str, Any]]]:
    """Return the list of websites, and the objects that contain it, the outermost first."""
    around: list[Mapping[str, Any]] = []
    if list_key is not None:
        for name in list_key.split("."):
            if isinstance(found, dict):
                around.append(found)
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, list):
            raise answer.unexpected(
                f"The response contains no list under {list_key!r}, which the extra list_key names."
            )
        return found, around
    while isinstance(found, dict):
        around.append(found)
        lists = {key: value for key, value in found.items() if isinstance(value, list)}
        if "data" in lists:
            return lists["data"], around
        named = [key for key in lists if key not in _OTHER_LISTS]
        if len(named) == 1:
            return lists[named[0]], around
        if named or not isinstance(found.get("data"), dict):
            raise answer.unexpected(
                "The response contains no list of websites, or more than one: the extra list_key names the right one."
            )
        found = found["data"]
    raise answer.unexpected("The response is not a list of websites.")


def website_id(row: Mapping[str, Any], answer: Answer) -> str:
    """Return the id of a website record as text."""
    found = row.get("id")
    if not _is_valid_id(found):
        value = f": {readable(repr(found), 60)}" if "id" in row else ""
        raise answer.unexpected(f"A website record has no usable id{value}.")
    _reject_api_key([str(found)], answer)
    return str(found)


def _is_valid_id(value: object) -> bool:
    """Return whether a value can be an id: a number, or text without invisible characters, which is safe in paths."""
    if isinstance(value, str):
        return 0 < len(value) <= MAX_ID_LENGTH and is_plain(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _domains(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [domain for row in rows if type(domain := row.get("domain")) is str]


def _reject_api_key(names: list[str], answer: Answer) -> None:
    """Raise if the id or the domain of a website, or the id of an account, contains the API key.

    Ids and domains are not redacted, and appear in files, logs and paths.
    """
    if len(answer.key) >= MIN_IN_DATA and answer.key in "\n".join(names):
        raise answer.unexpected(
            "The service shows the API key in an id or in a domain. Rename the website, and replace the key."
        )


def error_details(answer: Answer) -> tuple[str, dict[str, list[str]]]:
    """Return the message of an error response, or its excerpt, and the messages by field; all readable."""
    try:
        found = _decode(answer.body)
    except _DECODE_ERRORS:
        found = None
    if not isinstance(found, dict):
        return (page_title(answer) or answer.excerpt() or "(empty response)"), {}
    errors: dict[str, list[str]] = {}
    for name, messages in _by_field(found.get("errors")):
        if len(errors) < MAX_MESSAGES or name in errors:
            kept = errors.setdefault(_one_line(name), [])
            kept += [_one_line(message) for message in messages[: MAX_MESSAGES - len(kept)]]
    for key in ("message", "error", "detail", "title"):
        if isinstance(found.get(key), str) and found[key].strip():
            return _one_line(found[key]), errors
    return answer.excerpt(), errors


def _by_field(errors: object) -> Iterator[tuple[str, list[object]]]:
    """Yield each field of an error response with its messages, from an object or a list of objects."""
    if isinstance(errors, dict):
        yield from ((name, _as_list(messages)) for name, messages in errors.items())
    for entry in errors if isinstance(errors, list) else ():
        if isinstance(entry, dict):
            name = next((entry[key] for key in ("field", "param", "name", "source") if key in entry), None)
            message = next((entry[key] for key in ("message", "detail", "msg", "title") if key in entry), "")
            if isinstance(name, str):
                yield name, [message]


def error_facts(answer: Answer) -> list[str]:
    """Return facts from the headers of an error response: when to retry, rate limits, request ids for support."""
    facts = []
    for name in ("Retry-After", "RateLimit", "RateLimit-Policy", *LIMIT_HEADERS, *_REQUEST_ID_HEADERS):
        if value := answer.headers.get(name, "").strip():
            seconds = number(value) if name == "Retry-After" or name.endswith("-Reset") else None
            if seconds is not None and seconds > _MIN_TIMESTAMP:
                facts.append(f"{name} {_time_of_day(seconds)}")
            elif seconds is not None:
                facts.append(f"{name} {seconds} s, until {_time_of_day(time.time() + seconds)}")
            else:
                facts.append(f"{name} {_one_line(value, 60)}")
    return facts


def _time_of_day(timestamp: float) -> str:
    try:
        return f"{datetime.fromtimestamp(timestamp, UTC):%H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def page_title(answer: Answer) -> str:
    """Return the title of an HTML page, readable; empty for any other response."""
    head = decoded(answer.body[:_TITLE_SEARCH_BYTES], answer.headers.get("Content-Type", ""))
    _, _, rest = re.split(r"<title\b", head, maxsplit=1, flags=re.IGNORECASE)[-1].partition(">")
    title, *closed = re.split("</title", rest, maxsplit=1, flags=re.IGNORECASE)
    # One entity at a time: Python raises an error for a number of thousands of digits.
    plain = _ENTITY.sub(lambda entity: html.unescape(entity[0]), title)
    return readable(plain, breaks="fold", is_part=True) if closed else ""


def is_html(answer: Answer) -> bool:
    """Return whether the response is an HTML page, such as a login page or the error page of a proxy."""
    kind = answer.headers.get("Content-Type", "").strip().lower()
    return kind.startswith("text/html") or answer.body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))


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

    Reads ``RateLimit-Remaining`` and ``RateLimit-Reset``, also with the prefixes ``X-RateLimit-`` and
    ``X-Rate-Limit-``. The reset is a number of seconds or a Unix timestamp. Also reads the header ``RateLimit`` with
    ``r=`` and ``t=``. Returns 0 without a reset.
    """
    if not any("rate" in name.lower() for name in headers):
        return 0.0
    combined = headers.get("RateLimit", "")
    remaining = _parameter(combined, "r")
    reset = _parameter(combined, "t")
    for prefix in ("RateLimit", "X-RateLimit", "X-Rate-Limit"):
        remaining = number(headers.get(f"{prefix}-Remaining")) if remaining is None else remaining
        reset = number(headers.get(f"{prefix}-Reset")) if reset is None else reset
    if remaining != 0 or reset is None:
        return 0.0
    return max(0.0, reset - time.time()) if reset > _MIN_TIMESTAMP else float(reset)


def document(answer: Answer) -> Any:
    """Return the JSON of a response.

    :raises UnexpectedResponseError: if it is not JSON, or reports a failure.
    """
    if is_empty(answer):
        raise answer.unexpected("The response is empty.")
    kind = answer.headers.get("Content-Type", "").strip()
    if kind and not _JSON_TYPE.match(kind):
        page = " It is a web page: of a login, or of a wrong Base URL." if is_html(answer) else ""
        raise answer.unexpected(f"The response is not JSON.{page} Its type is '{_one_line(kind, 60)}'.")
    try:
        found = _decode(answer.body)
    except _TooManyValuesError:
        raise answer.unexpected(f"The response has more than {MAX_VALUES:,} values.") from None
    except _DECODE_ERRORS as error:
        raise answer.unexpected(f"The response is not JSON ({error}).") from None
    if isinstance(found, dict) and _reports_failure(found):
        raise answer.unexpected("The response reports a failure, although its status means success.")
    return found


def _decode(body: bytes) -> Any:
    # Each value except the first follows one of these characters. Those within text are counted as well.
    if len(body) > MAX_VALUES and sum(map(body.count, (b",", b":", b"[", b"{"))) > MAX_VALUES:
        raise _TooManyValuesError
    plain = body.removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(plain)
    except msgspec.DecodeError:
        # Half a surrogate pair and a number too large for a float are valid JSON, but cannot be stored or sent.
        with suppress(ValueError):
            found = json.loads(
                plain.decode(), parse_float=_finite, parse_constant=_reject_constant, object_hook=_require_encodable_id
            )
            return msgspec.json.decode(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
        raise


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _require_encodable_id(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object of a response; raise if its id cannot be encoded: replacing characters could make ids equal."""
    str(found.get("id")).encode()
    return found


def _object(answer: Answer) -> dict[str, Any]:
    found = _unwrapped(document(answer))
    if not isinstance(found, dict):
        raise answer.unexpected("The response contains no record.")
    return found


def _unwrapped(found: Any) -> Any:
    """Return the value of ``data``, or of the only key besides a message; otherwise the value itself."""
    if not isinstance(found, dict) or "id" in found:
        return found
    if "data" in found:
        return found["data"]
    held = [value for key, value in found.items() if key not in _MESSAGE_KEYS]
    return held[0] if len(held) == 1 and isinstance(held[0], dict) else found


def _rows(found: list[Any], answer: Answer) -> list[dict[str, Any]]:
    if not set(map(type, found)) <= {dict}:
        raise answer.unexpected("The list contains items that are not website records.")
    _reject_api_key(_domains(found), answer)
    return found


def _reports_failure(found: Mapping[str, Any]) -> bool:
    """Return whether a body reports an error despite a success status."""
    status = number(found.get("status"))
    return (
        bool(found.get("error") or found.get("errors"))
        or str(found.get("success", True)).lower() in ("false", "0")
        or str(found.get("status")).lower() in ("error", "fail", "failed")
        or (status is not None and status >= 400)
    )


def number(value: object) -> int | None:
    """Return the whole number of an int or a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    text = str(value).strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _parameter(header: str, name: str) -> int | None:
    found = re.search(rf"[;,]\s*{name}=(\d+)", header)
    return number(found[1]) if found else None


def _one_line(message: object, limit: int = EXCERPT_LENGTH) -> str:
    """Return a text of a response as one readable line; the service may have cut it."""
    text = message if isinstance(message, str) else msgspec.json.encode(message)
    return readable(text, limit, breaks="fold", is_part=True)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
