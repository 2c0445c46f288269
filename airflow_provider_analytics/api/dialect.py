"""All assumptions about what the interface does not document (docs/interface.md, Not documented).

What servers do instead, and how a task notices, is in the table of ``probe/unknowns.py``.

=============================================  =====================================  ====================
assumption                                     here                                   changed by the extra
=============================================  =====================================  ====================
how a page is selected                         the link to the next, else             ``page_parameter``
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
keys by which a record says that it is         :func:`is_deleted`                     none
deleted
=============================================  =====================================  ====================

The rule for all of them: parse tolerantly, and never accept a response as a success that may not be one.
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
#: Query parameter that selects a page where no link names another one.
PAGE_PARAMETER = "page"
#: Query parameter for a cursor that comes without a link.
CURSOR_PARAMETER = "cursor"
#: Name of a format to its texts for false and true.
BOOLEAN_FORMATS = {"true/false": ("false", "true"), "1/0": ("0", "1")}
UPDATE_METHODS = ("PATCH", "PUT")
#: Not 202: it means that nothing has been done yet.
SUCCESS = frozenset({200, 201, 204})
#: Statuses of a page behind the last one, where it is no empty page.
NO_SUCH_PAGE = frozenset({400, 404, 410, 416, 422})
#: Statuses of an update that says nothing of its outcome: the website is asked for instead.
UNCONFIRMED = frozenset({202, 203, 205, 206})
#: Maximum number of fields of an error response, and of messages per field, that are kept.
MAX_MESSAGES = 50
#: Maximum number of values in a response: about 50,000 websites. A few bytes of JSON are a hundred bytes of memory.
MAX_VALUES = 2_000_000
#: Maximum length of an id: no server takes a longer one in a path.
MAX_ID_LENGTH = 10_000
#: Bytes of a page in which its title is looked for.
_HEAD_OF_A_PAGE = 16 * 1024

#: A reset above this number is a Unix timestamp, below it is seconds.
_A_POINT_IN_TIME = 1_000_000_000
#: Headers that announce a limit of requests.
LIMIT_HEADERS = tuple(
    f"{prefix}-{name}"
    for prefix in ("RateLimit", "X-RateLimit", "X-Rate-Limit")
    for name in ("Limit", "Remaining", "Reset")
)
#: Headers by which proxies and services name a request.
_REQUEST_ID_HEADERS = ("CF-Ray", "X-Request-Id", "X-Amz-Cf-Id")

_JSON_TYPE = re.compile(r"^(application|text)/([\w.+-]+\+)?json\s*(;|$)", re.IGNORECASE)
#: Keys of other lists that may stand beside the list of websites.
_NOT_WEBSITES = ("links", "errors")
#: Keys that describe a response; one that has no other key holds no account.
_NO_RECORD = frozenset({"code", "detail", "message", "status", "success", "title"})
#: Keys by which a record says that its website is deleted, and texts of the key ``status`` that say so.
_DELETED = frozenset({"deleted", "is_deleted", "deleted_at", "trashed", "trashed_at", "status"})
_DELETED_STATUSES = ("deleted", "trashed")
#: Texts of the other keys that say that it is not: no, and the dates by which MySQL, PHP and Go say that there is none.
_NOT_DELETED = re.compile(r"(0|f|false|n|no|off|null|none|-?000[01]-.*)?", re.IGNORECASE)
#: Keys of an account that tell it from others, the best first.
ACCOUNT_NAMES = ("id", "uuid", "email", "username", "name")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


class _TooManyValuesError(Exception):
    """A response that would take too much memory."""


_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, _TooManyValuesError)


@dataclass(frozen=True)
class Answer:
    """A complete response of the service.

    :param key: the API key: no id and no domain may contain it.
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

        :param why: what is wrong with it.
        """
        return UnexpectedResponseError(why, self.status, self.method, self.path, self.excerpt())


@dataclass(frozen=True)
class Selection:
    """How a link of the service selects a page.

    :param parameter: query parameter, the one that docs/interface.md does not name; None if there is no such one.
    :param value: its value, a page number or a cursor.
    """

    parameter: str | None
    value: str | None


@dataclass(frozen=True)
class Page:
    """A page of the list, with the metadata of the service; None for what it does not state.

    :param first: the first page, as a link of the service selects it; None if there is no such link.
    :param following: the next page; None if there is none, or if the service does not link pages.
    """

    rows: list[dict[str, Any]]
    total: int | None = None
    current_page: int | None = None
    first: Selection | None = None
    following: Selection | None = None


def record(answer: Answer) -> dict[str, Any]:
    """Return the website record of a response; it must have an id.

    It stands bare, under ``data``, or under the only key besides a message.
    """
    found = _object(answer)
    website_id(found, answer)
    _refuse_key(_domains([found]), answer)
    return found


def record_or_none(answer: Answer) -> dict[str, Any] | None:
    """Return the website record of a response to a write, or None if it holds none: an empty body, a message.

    :raises UnexpectedResponseError: for a response that is not JSON, or that reports a failure.
    """
    if is_empty(answer):
        return None
    found = _unwrapped(document(answer))
    if not isinstance(found, dict) or not _is_id(found.get("id")):
        return None
    _refuse_key([str(found["id"]), *_domains([found])], answer)
    return found


def account(answer: Answer) -> dict[str, Any]:
    """Return the account record of a response, bare or under ``data``; its fields are not documented."""
    found = _object(answer)
    if found.keys() <= _NO_RECORD:
        raise answer.unexpected("The response contains no account record.")
    _refuse_key([account_id(found) or ""], answer)
    return found


def account_id(found: Mapping[str, Any]) -> str | None:
    """Return what tells an account from others: its id, else the first of its names that is shown."""
    return next((str(found[name]) for name in ACCOUNT_NAMES if found.get(name) not in (None, "")), None)


def is_deleted(found: Mapping[str, Any]) -> bool:
    """Return whether a record says that its website is deleted."""
    said = {name: str(found[name] or "").strip() for name in _DELETED & found.keys()}
    status = said.pop("status", "").lower()
    return status in _DELETED_STATUSES or not all(_NOT_DELETED.fullmatch(text) for text in said.values())


def not_deleted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of websites that are not deleted."""
    # The first condition spares most records a call: a list may have 100,000 of them.
    return [row for row in rows if _DELETED.isdisjoint(row) or not is_deleted(row)]


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

    The rows stand bare, under ``data``, under the only other key that holds a list of objects, or so within an object
    under ``data``. The metadata stand beside them or under ``meta``; numbers may be text.

    :param url: URL of the request without its query, to tell links of the service from others.
    :param list_key: key of the list, with a dot for each object on the way; None: as described.
    """
    found = document(answer)
    if isinstance(found, list):
        return Page(_rows(found, answer))
    rows, around = _list_in(found, answer, list_key)
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
    """Return how the service selects the first page: by ``links.first`` or ``first_page_url``."""
    link = _linked(meta, "first") or meta.get("first_page_url")
    return selection(link, url) if isinstance(link, str) and link else None


def _following(meta: Mapping[str, Any], url: str) -> Selection | None:
    """Return how the service selects the next page: by ``links.next``, ``next_page_url``, ``next`` or ``next_cursor``.

    A link is never followed: only its query is read, and only if it leads to the same address as the request. A link
    that leads elsewhere, as behind some proxies, says only that there is a next page.
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
    """Return how a link selects a page; nothing if it leads elsewhere."""
    try:
        target, base = urlsplit(urljoin(url, link)), urlsplit(url)
    except ValueError:
        return Selection(None, None)
    if (target.scheme, target.netloc.lower(), target.path) != (base.scheme, base.netloc.lower(), base.path):
        return Selection(None, None)
    others = [(name, value) for name, value in parse_qsl(target.query) if name not in ListFilters.__annotations__]
    return Selection(*others[0]) if len(others) == 1 else Selection(None, None)


def _list_in(found: Any, answer: Answer, list_key: str | None) -> tuple[list[Any], list[Mapping[str, Any]]]:
    """Return the list of websites, and the objects that it stands in, the outermost first."""
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
        named = [key for key in lists if key not in _NOT_WEBSITES]
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
    if not _is_id(found):
        shown = f": {readable(repr(found), 60)}" if "id" in row else ""
        raise answer.unexpected(f"A website record has no usable id{shown}.")
    _refuse_key([str(found)], answer)
    return str(found)


def _is_id(value: object) -> bool:
    """Return whether a value can be an id. It stands in paths, file names and log lines, so every character shows."""
    if isinstance(value, str):
        return 0 < len(value) <= MAX_ID_LENGTH and is_plain(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _domains(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [domain for row in rows if type(domain := row.get("domain")) is str]


def _refuse_key(names: list[str], answer: Answer) -> None:
    """Raise if the id or the domain of a website, or the id of an account, contains the API key.

    They are never altered, and stand in files, logs and paths.
    """
    if len(answer.key) >= MIN_IN_DATA and answer.key in "\n".join(names):
        raise answer.unexpected(
            "The service shows the API key in an id or in a domain. Rename the website, and replace the key."
        )


def error_details(answer: Answer) -> tuple[str, dict[str, list[str]]]:
    """Return the message and the messages by field of an error response, readable; else the excerpt."""
    try:
        found = _decode(answer.body)
    except _NOT_JSON:
        found = None
    if not isinstance(found, dict):
        return (page_title(answer) or answer.excerpt() or "(empty response)"), {}
    errors: dict[str, list[str]] = {}
    for name, messages in _by_field(found.get("errors")):
        if len(errors) < MAX_MESSAGES or name in errors:
            said = errors.setdefault(_said(name), [])
            said += [_said(message) for message in messages[: MAX_MESSAGES - len(said)]]
    for key in ("message", "error", "detail", "title"):
        if isinstance(found.get(key), str) and found[key].strip():
            return _said(found[key]), errors
    return answer.excerpt(), errors


def _by_field(errors: object) -> Iterator[tuple[str, list[object]]]:
    """Yield the fields of an error response with their messages: of an object, or of a list of objects."""
    if isinstance(errors, dict):
        yield from ((name, _as_list(messages)) for name, messages in errors.items())
    for entry in errors if isinstance(errors, list) else ():
        if isinstance(entry, dict):
            name = next((entry[key] for key in ("field", "param", "name", "source") if key in entry), None)
            message = next((entry[key] for key in ("message", "detail", "msg", "title") if key in entry), "")
            if isinstance(name, str):
                yield name, [message]


def error_facts(answer: Answer) -> list[str]:
    """Return what the headers of an error response tell: when to come again, rate limits, ids to quote to support."""
    facts = []
    for name in ("Retry-After", "RateLimit", "RateLimit-Policy", *LIMIT_HEADERS, *_REQUEST_ID_HEADERS):
        if value := answer.headers.get(name, "").strip():
            seconds = number(value) if name == "Retry-After" or name.endswith("-Reset") else None
            if seconds is not None and seconds > _A_POINT_IN_TIME:
                facts.append(f"{name} {_time_of_day(seconds)}")
            elif seconds is not None:
                facts.append(f"{name} {seconds} s, until {_time_of_day(time.time() + seconds)}")
            else:
                facts.append(f"{name} {_said(value, 60)}")
    return facts


def _time_of_day(timestamp: float) -> str:
    try:
        return f"{datetime.fromtimestamp(timestamp, UTC):%H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def page_title(answer: Answer) -> str:
    """Return the title of an HTML page, readable; empty if the response is none."""
    head = decoded(answer.body[:_HEAD_OF_A_PAGE], answer.headers.get("Content-Type", ""))
    _, _, rest = re.split(r"<title\b", head, maxsplit=1, flags=re.IGNORECASE)[-1].partition(">")
    title, *closed = re.split("</title", rest, maxsplit=1, flags=re.IGNORECASE)
    # Not the whole text at once: Python raises for a number of thousands of digits.
    plain = _ENTITY.sub(lambda entity: html.unescape(entity[0]), title)
    return readable(plain, breaks="fold", is_part=True) if closed else ""


def is_html(answer: Answer) -> bool:
    """Return whether the response is an HTML page, as proxies and login pages are."""
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

    Reads ``RateLimit-Remaining`` and ``RateLimit-Reset``, also as ``X-RateLimit-`` and ``X-Rate-Limit-`` (the reset in
    seconds or as a Unix timestamp), and the header ``RateLimit`` with ``r=`` and ``t=``. 0 without a reset.
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
    return max(0.0, reset - time.time()) if reset > _A_POINT_IN_TIME else float(reset)


def document(answer: Answer) -> Any:
    """Return the JSON of a response.

    :raises UnexpectedResponseError: if it is none, or reports a failure.
    """
    if is_empty(answer):
        raise answer.unexpected("The response is empty.")
    kind = answer.headers.get("Content-Type", "").strip()
    if kind and not _JSON_TYPE.match(kind):
        page = " It is a web page: of a login, or of a wrong Base URL." if is_html(answer) else ""
        raise answer.unexpected(f"The response is not JSON.{page} Its type is '{_said(kind, 60)}'.")
    try:
        found = _decode(answer.body)
    except _TooManyValuesError:
        raise answer.unexpected(f"The response has more than {MAX_VALUES:,} values.") from None
    except _NOT_JSON as error:
        raise answer.unexpected(f"The response is not JSON ({error}).") from None
    if isinstance(found, dict) and _says_failure(found):
        raise answer.unexpected("The response reports a failure, although its status means success.")
    return found


def _decode(body: bytes) -> Any:
    # Each value but the first follows one of these; within a text they count as well.
    if len(body) > MAX_VALUES and sum(map(body.count, (b",", b":", b"[", b"{"))) > MAX_VALUES:
        raise _TooManyValuesError
    plain = body.removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(plain)
    except msgspec.DecodeError:
        # Half of a surrogate pair and a number that no float holds are JSON, but nothing can store or send them.
        with suppress(ValueError):
            found = json.loads(
                plain.decode(), parse_float=_finite, parse_constant=_refused, object_hook=_with_usable_id
            )
            return msgspec.json.decode(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
        raise


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _with_usable_id(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object of a response; two ids could become the same one if anything in them were replaced."""
    str(found.get("id")).encode()
    return found


def _object(answer: Answer) -> dict[str, Any]:
    found = _unwrapped(document(answer))
    if not isinstance(found, dict):
        raise answer.unexpected("The response contains no record.")
    return found


def _unwrapped(found: Any) -> Any:
    """Return the record that stands under ``data``, or under the only key besides a message."""
    if not isinstance(found, dict) or "id" in found:
        return found
    if "data" in found:
        return found["data"]
    held = [value for key, value in found.items() if key not in _NO_RECORD]
    return held[0] if len(held) == 1 and isinstance(held[0], dict) else found


def _rows(found: list[Any], answer: Answer) -> list[dict[str, Any]]:
    if not set(map(type, found)) <= {dict}:
        raise answer.unexpected("The list contains items that are not website records.")
    _refuse_key(_domains(found), answer)
    return found


def _says_failure(found: Mapping[str, Any]) -> bool:
    """Return whether a body reports an error, although the status of the response does not."""
    status = number(found.get("status"))
    return (
        bool(found.get("error") or found.get("errors"))
        or str(found.get("success", True)).lower() in ("false", "0")
        or str(found.get("status")).lower() in ("error", "fail", "failed")
        or (status is not None and status >= 400)
    )


def number(value: object) -> int | None:
    """Return the whole number that is meant by an int or text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    text = str(value).strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _parameter(header: str, name: str) -> int | None:
    found = re.search(rf"[;,]\s*{name}=(\d+)", header)
    return number(found[1]) if found else None


def _said(message: object, limit: int = EXCERPT_LENGTH) -> str:
    """Return what a response says as one readable line; the service may have cut it."""
    text = message if isinstance(message, str) else msgspec.json.encode(message)
    return readable(text, limit, breaks="fold", is_part=True)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
