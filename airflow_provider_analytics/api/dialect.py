# SPDX-License-Identifier: Apache-2.0
"""All assumptions about facts that the interface does not document (interface.md, Not documented).

docs/internals/assumptions.md lists the guarantees that depend on them, and how a task detects that one is wrong. The
options of ``tests/support/fake_services.py`` play the alternatives.

=============================================  =====================================  ====================
assumption                                     here                                   changed by the extra
=============================================  =====================================  ====================
how a page is selected                         the link or cursor of the next page,   ``page_parameter``
                                               or :data:`PAGE_PARAMETER`
format of a boolean in the query               :data:`QUERY_FORMAT`                   none
format of a boolean in a form                  :data:`FORM_FORMAT`                    none
update method that every proxy passes          PATCH                                  ``update_method``
separator of the entries of a list             a line feed, in :mod:`fields`          none
statuses that mean success                     :data:`SUCCESS`                        none
place of the list                              :func:`page`                           none
place of records and page metadata             :func:`record`, :func:`page`           none
place of the message in an error response      :func:`error_details`                  none
header that asks to wait                       :func:`retry_after`, :func:`reset_after`  none
identity of an account                         :func:`account_id`                     none
keys that mark a record as deleted             :func:`is_deleted`                     none
=============================================  =====================================  ====================

The rule for all of them: parse tolerantly, but never accept a response as a success if it might not be one.
"""

from __future__ import annotations

import functools
import html
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, unquote, urljoin, urlsplit

import msgspec

from airflow_provider_analytics import SITE
from airflow_provider_analytics.api.checks import MAX_DEPTH, is_too_deep
from airflow_provider_analytics.api.fields import FIELDS, Flag, ListFilters
from airflow_provider_analytics.exceptions import UnexpectedResponseError
from airflow_provider_analytics.readable import EXCERPT_LENGTH, Redactor, is_plain, readable

API_PREFIX = "/api/v1"
#: Query parameter that selects a page, if no link contains another one.
PAGE_PARAMETER = "page"
#: Query parameter for a cursor that the service returns without a link.
CURSOR_PARAMETER = "cursor"
#: Query parameters that select a page by the number of websites before it.
OFFSET_PARAMETERS = ("offset", "page[offset]", "skip", "start")
#: Usual query parameters that select a page by its number, and those that select it by a cursor.
NUMBER_PARAMETERS = (PAGE_PARAMETER, "p", "page_number", "pageNumber", "page[number]")
CURSOR_PARAMETERS = (CURSOR_PARAMETER, "page_token", "pageToken", "token", "after", "page[cursor]", "page[after]")
#: Key of a cursor for the next page to the query parameter that usually takes it.
CURSOR_KEYS = {
    "next_cursor": CURSOR_PARAMETER,
    "nextCursor": CURSOR_PARAMETER,
    "next_page_token": "page_token",
    "nextPageToken": "pageToken",
}
#: Format name to its texts for false and true.
BOOLEAN_FORMATS = {"true/false": ("false", "true"), "1/0": ("0", "1")}
#: Format of a boolean in the query, as interface.md documents it.
QUERY_FORMAT = "true/false"
#: Format of a boolean in a form, as long as the service understands it: there, the rule ``boolean`` of Laravel accepts
#: only 1 and 0.
FORM_FORMAT = "1/0"
#: Format to the other one.
OTHER_FORMATS = {"true/false": "1/0", "1/0": "true/false"}
#: Without 202, which means that the service has not applied the request yet.
SUCCESS = frozenset({200, 201, 204})
#: Statuses that services return for a page after the last one, instead of an empty page.
NO_SUCH_PAGE = frozenset({400, 404, 410, 416, 422})
#: Statuses of a write that do not report its outcome: it counts as sent, and the website is fetched.
UNCONFIRMED = frozenset({202, 203, 205, 206})
#: Maximum number of fields of an error response, and of messages per field.
MAX_MESSAGES = 50
#: Maximum number of values in a response: about 50,000 websites. A few bytes of JSON take a hundred bytes of memory.
MAX_VALUES = 2_000_000
#: Maximum length of an id: no server accepts a longer one in a path.
MAX_ID_LENGTH = 10_000

#: Headers that announce a rate limit.
LIMIT_HEADERS = (
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-Rate-Limit-Limit",
    "X-Rate-Limit-Remaining",
    "X-Rate-Limit-Reset",
)
RESET_HEADERS = ("RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset")
#: The same in the header ``RateLimit`` of the drafts of the IETF: ``limit=60, reset=20``, ``"default";r=0;t=20``.
_RESET_IN_RATE_LIMIT = re.compile(r"\b(?:reset|t)=([0-9]+)")
#: Numbers from these on are times, and not durations: the year 2001, in seconds and in milliseconds.
_FIRST_SECOND = 1_000_000_000
_FIRST_MILLISECOND = 1000 * _FIRST_SECOND
#: Headers in which proxies and services return the id of a request.
_REQUEST_IDS = ("CF-Ray", "X-Request-Id", "X-Amz-Cf-Id")

#: Texts of a flag that no documented form has.
_WORDS_OF_FLAGS = ("on", "off", "yes", "no")
#: Field names as :func:`_field` compares them: without case and underscores.
_FIELD_NAMES = {name.replace("_", ""): name for name in FIELDS}
#: Statuses of responses to values that the service rejects.
_INVALID = frozenset({400, 422})
#: Keys of lists or objects with further messages of an error response.
_DETAIL_KEYS = ("errors", "details", "detail", "violations", "message", "error")
#: Keys of such a message, and of the field that it is about.
_TEXT_KEYS = ("message", "msg", "detail", "description", "error")
_PLACE_KEYS = ("field", "name", "path", "propertyPath", "loc", "source")
_PATH_SEPARATOR = re.compile(r"[./\]]")
_JSON_TYPE = re.compile(r"[/+]json\b", re.IGNORECASE)
#: Query parameters of the page size that links can contain.
_SIZE_PARAMETERS = frozenset({"limit", "size", "page_size", "pageSize", "page[size]", "page[limit]"})
_SELECTING_PARAMETERS = frozenset({*NUMBER_PARAMETERS, *OFFSET_PARAMETERS, *CURSOR_PARAMETERS})
#: Keys of objects with page metadata, which can be nested: of Laravel, Fractal, JSON:API, Spring and others.
_METADATA_KEYS = ("meta", "pagination", "paging", "page", "response_metadata")
#: In the header ``Link``: ``<https://stats.example.com/api/v1/websites?page=2>; rel="next"``.
_LINK_TO_NEXT = re.compile(r'<([^<>]*)>[^<>]*;\s*rel="?(?:[^"<>;,]*\s)?next(?=[\s",;]|$)', re.IGNORECASE)
#: Keys of the total. The last one can also be the number of rows on the page.
_TOTAL_KEYS = ("total", "total_count", "totalCount", "totalElements", "totalItems", "itemCount", "hydra:totalItems")
_COUNT_KEY = "count"
#: Headers with the total, if the body contains none.
_TOTAL_HEADERS = ("X-Total", "X-Total-Count")
#: Keys of other lists that a response can contain besides the list of websites.
_OTHER_LISTS = ("links", "errors")
#: Keys that describe a response. A response without any other key contains no account.
_MESSAGE_KEYS = frozenset({"code", "detail", "message", "status", "success", "title"})
#: Keys that mark a website as deleted, and values of them that do not: no, and the empty date of MySQL.
_DELETED_KEYS = ("deleted", "deleted_at")
_NOT_DELETED = re.compile(r"(0|false|no|none|null|0000-.*)?", re.IGNORECASE)
#: Keys that identify an account, the best first.
ACCOUNT_NAMES = ("id", "uuid", "email", "username", "name")
#: Mark at the start of a UTF-8 text.
_BOM = b"\xef\xbb\xbf"
#: Half of a surrogate pair in a text, as pairs are decoded.
_HALF = re.compile("[\ud800-\udfff]")
_TITLE = re.compile(r"<title\b[^>]*>([^<]*)</title", re.IGNORECASE)
#: What to do about a response that is not JSON.
_LOOK = "Open the Base URL in a browser, and check the proxy."
#: Number of bytes at the start of a page that are searched for its title.
_TITLE_SEARCH_BYTES = 4096


Record = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A complete response of the service.

    :param secrets: the known secrets, which no id and no domain can contain.
    """

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    secrets: Redactor = field(repr=False)

    @functools.cached_property
    def _decoded(self) -> tuple[Any, Iterable[str]]:
        return _decode(self.body)

    @property
    def content(self) -> Any:
        """JSON of the body; :class:`ValueError` if it is not JSON."""
        return self._decoded[0]

    @property
    def damaged(self) -> Iterable[str]:
        """Ids of the websites with values that were replaced (:func:`_decode`); an empty text for another place."""
        return self._decoded[1]

    def excerpt(self, limit: int = EXCERPT_LENGTH) -> str:
        """Return the start of the body as one readable line."""
        return readable(self.body, limit, breaks="fold", is_part=True)

    def unexpected(self, why: str, *, is_garbled: bool = False) -> UnexpectedResponseError:
        """Return the error for a response that is not accepted as a success.

        :param why: problem of the response, as a sentence.
        :param is_garbled: whether it is not JSON.
        """
        return UnexpectedResponseError(why, self.status, self.method, self.path, self.excerpt(), is_garbled)


@dataclass(frozen=True)
class Selection:
    """How a link of the service selects a page.

    :param parameter: the query parameter that interface.md does not document; None if there is none.
    :param value: its value, a page number or a cursor.
    """

    parameter: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Page:
    """A page of the list, with the metadata of the service; None for missing metadata.

    :param following: selection of the next page; None if there is none, or if the service does not link pages; empty if
        the link does not say how.
    :param size: number of bytes of the response.
    :param values: about the number of values in it.
    :param rejection: why the service rejected the page, as after the last one; empty if it returned the page.
    """

    rows: list[Record]
    total: int | None = None
    current_page: int | None = None
    following: Selection | None = None
    size: int = 0
    values: int = 0
    rejection: str = ""


def is_success(answer: Answer) -> bool:
    """Return whether the service carried out the request, or, for a write, at least received it."""
    return answer.status in SUCCESS or (answer.method != "GET" and answer.status in UNCONFIRMED)


# Records


def record(answer: Answer) -> Record:
    """Return the website record of a response; it must have an id.

    The record is the whole body, or the value of ``data``, or of the only key besides a message, also below ``data``.
    """
    found = record_or_none(answer)
    if found is None:
        raise answer.unexpected("The response is empty, or contains no website record with a usable id.")
    _check_form([found], answer)
    return found


def _check_form(rows: list[Record], answer: Answer) -> None:
    """Raise an error for records in a form that no task can use; the first one represents all."""
    for row in rows[:1]:
        for key, value in row.items():
            name = _field(key)
            shown = ""
            if name and key != name and name not in row:
                shown = f"the key {readable(key, 60)!r}"
            elif name and isinstance(FIELDS[name], Flag) and str(value).lower() in _WORDS_OF_FLAGS:
                shown = f"the value {value!r}"
            if shown:
                raise answer.unexpected(
                    f"The service returns the field {name} with {shown}. This form is not supported, so no task can "
                    f"use the service. Supported forms: {SITE}reference/interface/#supported-forms"
                )


def record_or_none(answer: Answer) -> Record | None:
    """Return the website record of a response to a write, or None if it contains none: an empty body, a message, 202.

    The record of a created website can have only the id, from the header ``Location``.

    :raises UnexpectedResponseError: for a web page, a damaged record, or a response that reports a failure.
    """
    if answer.status in UNCONFIRMED:
        return None
    found = None
    # A text such as ``OK`` says nothing about the website, which is read back.
    if answer.body.lstrip().startswith((b"{", b"[", b"<", _BOM)):
        found = _unwrapped(document(answer))
    if not isinstance(found, dict) or not _is_valid_id(found.get("id")):
        found = _located(answer)
    if found is None:
        return None
    _check_depth([found], answer)
    _reject_secrets([str(found["id"]), *_domains([found])], answer)
    return found


def _located(answer: Answer) -> Record | None:
    """Return the id of a website in the header ``Location`` of a response to a create; None without one."""
    if answer.status != 201:
        return None
    try:
        target = urlsplit(urljoin(answer.path, answer.headers.get("Location", "")))
    except ValueError:
        return None
    parent, _, website_id = target.path.rstrip("/").rpartition("/")
    website_id = unquote(website_id)
    is_website = bool(parent) and (parent.endswith(answer.path) or answer.path.endswith(parent))
    if not is_website or not _is_valid_id(website_id):
        return None
    return {"id": website_id}


def account(answer: Answer) -> Record:
    """Return the account record of a response: the body, or its ``data``. Its fields are not documented."""
    found = _unwrapped(document(answer))
    if not isinstance(found, dict) or found.keys() <= _MESSAGE_KEYS:
        raise answer.unexpected("The response contains no account record.")
    _check_depth([found], answer)
    _reject_secrets([account_id(found) or ""], answer)
    return found


def account_id(found: Record) -> str | None:
    """Return the id of an account, or else the first of :data:`ACCOUNT_NAMES` that the record has."""
    for name in ACCOUNT_NAMES:
        if found.get(name) not in (None, ""):
            return str(found[name])
    return None


def is_deleted(found: Record) -> bool:
    """Return whether a record marks its website as deleted."""
    for name in _DELETED_KEYS:
        mark = found.get(name)
        if mark and not _NOT_DELETED.fullmatch(str(mark).strip()):
            return True
    return False


def not_deleted(rows: list[Record]) -> list[Record]:
    """Return the records of websites that are not deleted."""
    return [row for row in rows if not is_deleted(row)]


def _check_id(row: Record, answer: Answer) -> None:
    if "id" not in row:
        raise answer.unexpected("A website record has no usable id.")
    if not _is_valid_id(row["id"]):
        raise answer.unexpected(f"A website record has no usable id: {readable(repr(row['id']), 60)}.")


def _is_valid_id(value: object) -> bool:
    """Return whether a value can be an id: a number, or text without invisible characters, which is safe in paths."""
    if isinstance(value, str):
        return 0 < len(value) <= MAX_ID_LENGTH and is_plain(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _check_depth(rows: list[Record], answer: Answer) -> None:
    """Raise an error if a record is nested too deeply: it could be read, but not written, compared or returned."""
    brackets = answer.body.count(b"[") + answer.body.count(b"{")
    if brackets - len(rows) <= MAX_DEPTH:  # as nearly always
        return
    for row in rows:
        if is_too_deep(row):
            raise answer.unexpected(
                f"The record with the id {readable(str(row.get('id')), 60)} has a field that is nested more than "
                f"{MAX_DEPTH} levels deep."
            )


def _domains(rows: Iterable[Record]) -> list[str]:
    """Return the domains of the records, as far as they are texts."""
    return [row["domain"] for row in rows if isinstance(row.get("domain"), str)]


def _reject_secrets(names: list[str], answer: Answer) -> None:
    """Raise an error if the id or the domain of a website, or the id of an account, contains a secret.

    Ids and domains are not redacted, and appear in files, logs and paths.
    """
    if answer.secrets.finds("\n".join(names)):
        raise answer.unexpected(
            "The service returns a secret in an id or in a domain: the API key, a password, or a header of the "
            "connection. Rename the website, and replace the secret."
        )


# Lists


def page(answer: Answer) -> Page:
    """Return the rows and the page metadata of a list response. Each row has an id.

    The rows are the whole body, the value of ``data``, or the only other list. They can be nested in the same way in an
    object under ``data``. The metadata are next to the rows or under ``meta``. Numbers can be text.
    """
    rows, around = _find_list(answer)
    if not set(map(type, rows)) <= {dict}:
        raise answer.unexpected("The list contains items that are not website records.")
    for row in rows:
        if type(row.get("id")) is not int:  # rare
            _check_id(row, answer)
    _check_depth(rows, answer)
    _check_form(rows, answer)
    ids = [str(row["id"]) for row in rows]
    _reject_secrets(ids + _domains(rows), answer)
    meta: Record = {}
    for place in around:
        meta |= _metadata(place)
    return Page(
        rows,
        _total(meta, answer, len(rows)),
        number(meta.get("current_page")),
        _following(meta, answer),
        len(answer.body),
        count_values(answer.body),
    )


def _total(meta: Record, answer: Answer, rows: int) -> int | None:
    """Return the total from the metadata, or else from a header."""
    values = [meta.get(name) for name in _TOTAL_KEYS] + [answer.headers.get(name) for name in _TOTAL_HEADERS]
    for value in values:
        total = number(value)
        if total is not None:
            return total
    count = number(meta.get(_COUNT_KEY))
    if count is not None and count > rows > 0:
        return count
    return None


def _metadata(place: Record) -> Record:
    """Return the page metadata of an object, also from nested objects."""
    # Without lists: Laravel's ``meta.links`` is a list of labels, and must not hide the object ``links``.
    found = {name: value for name, value in place.items() if not isinstance(value, list)}
    for name in _METADATA_KEYS:
        nested = place.get(name)
        if isinstance(nested, dict):
            found |= _metadata(nested)
    return found


def _find_list(answer: Answer) -> tuple[list[Any], list[Record]]:
    """Return the list of websites, and the objects that contain it, the outermost first."""
    found = document(answer)
    around: list[Record] = []
    while isinstance(found, dict):
        if _has_numbered_keys(found):
            return list(found.values()), around
        around.append(found)
        found = found.get(_key_of_list(found))
    if isinstance(found, list):
        return found, around
    raise answer.unexpected(
        "The response does not contain exactly one list of websites, under data or under the only other key."
    )


def _has_numbered_keys(found: Record) -> bool:
    """Return whether an object stands for a list, as PHP writes an array that was filtered."""
    return bool(found) and all(key.isdecimal() and isinstance(row, dict) for key, row in found.items())


def _key_of_list(found: Record) -> str:
    """Return the key of the list: ``data``, or the only one with a list; empty if there are several."""
    lists = [key for key, value in found.items() if isinstance(value, list) and key not in _OTHER_LISTS]
    if "data" in lists or not lists:
        return "data"
    if len(lists) == 1:
        return lists[0]
    return ""


def _following(meta: Record, answer: Answer) -> Selection | None:
    """Return the selection of the next page, from a link or a cursor in the metadata, or from the header ``Link``.

    The client never follows a link: it reads only the query. The first one that selects a page counts.
    """
    first = None
    for selected in _selections(meta, answer):
        if selected.value is not None:
            return selected
        first = first or selected
    return first


def _selections(meta: Record, answer: Answer) -> Iterator[Selection]:
    """Yield the selections of the next page: of links and cursors in the metadata, and of the header ``Link``."""
    for link in _next_links(meta):
        address = link
        if isinstance(link, dict):
            address = link.get("href")  # as JSON:API and HAL have it
        if isinstance(address, str) and address:
            yield selection(address, answer.path)
    for key, parameter in CURSOR_KEYS.items():
        cursor = meta.get(key)
        if isinstance(cursor, (str, int)) and not isinstance(cursor, bool) and cursor != "":
            yield Selection(parameter, str(cursor))
    for link in _LINK_TO_NEXT.findall(answer.headers.get("Link", "")):
        yield selection(link, answer.path)


def _next_links(meta: Record) -> Iterator[object]:
    """Yield the values of the metadata that might be a link to the next page."""
    for key in ("links", "_links"):
        links = meta.get(key)
        if isinstance(links, dict):
            yield links.get("next")
    yield meta.get("next_page_url")
    yield meta.get("next")


def selection(link: str, path: str) -> Selection:
    """Return how a link selects a page; an empty selection if it does not.

    A service behind a proxy can see another scheme, host and prefix than the client, and a proxy can add a slash. So a
    link counts if its path ends with the path of the list, or the other way round. It can repeat the filters of the
    request, and can contain the page size and other parameters.

    :param path: path of the list, from ``/api/v1`` on.
    """
    try:
        target = urlsplit(urljoin(path, link))
    except ValueError:
        return Selection()
    link_path = target.path.rstrip("/").removesuffix(".json")
    if not link_path or not (link_path.endswith(path) or path.endswith(link_path)):
        return Selection()
    known = ListFilters.__annotations__.keys() | _SIZE_PARAMETERS
    others = [(name, value) for name, value in parse_qsl(target.query) if name not in known]
    if len(others) > 1:
        others = [(name, value) for name, value in others if name in _SELECTING_PARAMETERS]
    if len(others) != 1:
        return Selection()
    return Selection(*others[0])


# Errors


def error_details(answer: Answer) -> tuple[str, dict[str, list[str]]]:
    """Return the message of an error response, or its excerpt, and the messages by field; all readable.

    Messages that belong to no field follow the message.
    """
    found = error_object(answer)
    if found is None:
        return (page_title(answer) or answer.excerpt() or "(empty response)"), {}
    errors: dict[str, list[str]] = {}
    others: list[str] = []
    for key in _DETAIL_KEYS:
        details = found.get(key)
        if isinstance(details, list):
            for detail in details[:MAX_MESSAGES]:
                _add_detail(detail, errors, others)
        elif isinstance(details, dict) and key != "error":
            for name, messages in islice(details.items(), MAX_MESSAGES):
                if key == "errors":
                    errors.setdefault(_field(name) or _one_line(name), []).extend(_messages(messages))
                else:
                    _add_detail({"field": name, "message": messages}, errors, others)
    if answer.status in _INVALID:
        # As Django REST framework has it: a key for each field.
        for name in filter(_field, found):
            errors.setdefault(_field(name), _messages(found[name]))
    for key in ("message", "error", "detail", "title"):
        message = found.get(key)
        if isinstance(message, str) and message.strip():
            others.insert(0, message)
            break
    return (_one_line(" ".join(others)) or answer.excerpt()), errors


def error_object(answer: Answer) -> Record | None:
    """Return the JSON object of an error response; None if it is not an object."""
    try:
        found = answer.content
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    nested = found.get("error")
    if isinstance(nested, dict):
        return found | nested
    return found


def _messages(messages: object) -> list[str]:
    if not isinstance(messages, list):
        return [_one_line(messages)]
    return list(map(_one_line, messages[:MAX_MESSAGES]))


def _add_detail(detail: object, errors: dict[str, list[str]], others: list[str]) -> None:
    """Add an entry of a list of errors: to those of its field, or to those of no field of a website."""
    if isinstance(detail, str):
        others.append(_one_line(detail))
    if not isinstance(detail, dict):
        return
    text = " ".join(_messages(next(filter(None, map(detail.get, _TEXT_KEYS)), detail)))
    place = next(filter(None, map(detail.get, _PLACE_KEYS)), "")
    if isinstance(place, dict):
        place = place.get("pointer", "")
    if isinstance(place, list):
        place = place[-1]
    name = _field(str(place))
    if name:
        errors.setdefault(name, []).append(text)
    elif place:
        others.append(f"{_one_line(place)}: {text}")
    else:
        others.append(text)


def _field(name: str) -> str:
    """Return the field of a website that a name in an error means, in any case; empty if it means none."""
    return _FIELD_NAMES.get(_PATH_SEPARATOR.split(name)[-1].lower().replace("_", ""), "")


def error_facts(answer: Answer) -> list[str]:
    """Return facts from the headers of an error response: when to retry, rate limits, request ids for support."""
    facts = []
    names = ["Retry-After"]
    # A throttled route has these headers in every response.
    if is_limited(answer) or answer.status == 503:
        names += ["RateLimit", "RateLimit-Policy", *LIMIT_HEADERS]
    for name in (*names, *_REQUEST_IDS):
        value = answer.headers.get(name, "").strip()
        if name == "Retry-After" and value.isdigit():
            value += " s"
        if value:
            facts.append(f"{name} {_one_line(value, 60)}")
    return facts


def adds_slash(answer: Answer) -> bool:
    """Return whether a redirect only adds a slash to the path. A proxy can see another host and prefix."""
    try:
        target = urlsplit(urljoin(answer.path, answer.headers.get("Location", "")))
    except ValueError:
        return False
    return target.path.endswith(f"{answer.path}/")


def base_url_of_redirect(answer: Answer) -> str:
    """Return the base URL with which a request would not be redirected; empty if the target is another path."""
    target = answer.headers.get("Location", "").partition("?")[0]
    base_url = target.removesuffix(answer.path)
    if base_url == target or not base_url.startswith(("http://", "https://")):
        return ""
    return readable(base_url, is_part=True)


def page_title(answer: Answer) -> str:
    """Return the title of an HTML page, readable; empty for any other response."""
    title = _TITLE.search(answer.body[:_TITLE_SEARCH_BYTES].decode("utf-8", "replace"))
    if title is None:
        return ""
    return readable(html.unescape(title[1]), breaks="fold", is_part=True)


def is_html(answer: Answer) -> bool:
    """Return whether the response is an HTML page, such as a login page or the error page of a proxy."""
    kind = answer.headers.get("Content-Type", "").strip().lower()
    start = answer.body[:200].lstrip().lower()
    if kind.startswith("text/html"):
        return not start.startswith((b"{", b"["))  # frameworks declare JSON as text/html by mistake
    return start.startswith((b"<!doctype html", b"<html"))


def is_limited(answer: Answer) -> bool:
    """Return whether a rate limit rejected the request, which was not applied.

    That is a 429, or the page of nginx. A 403 is a missing permission, also if no request is left.
    """
    return answer.status == 429 or _is_rejected_by_nginx(answer)


def _is_rejected_by_nginx(answer: Answer) -> bool:
    """Return whether nginx rejected the request with its own page (``limit_req``), instead of passing it on."""
    return answer.status == 503 and b"<hr><center>nginx" in answer.body


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of ``Retry-After``, given as seconds or as a date; None if it is missing or invalid."""
    value = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def reset_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a rate limit is reset, from the headers that announce it; None if they do not.

    The value is a number of seconds, or a time in seconds or milliseconds since 1970 by the clock of the service.
    """
    now = time.time()
    with suppress(ValueError, TypeError):
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
    values = [headers.get(name, "").strip() for name in RESET_HEADERS]
    values += _RESET_IN_RATE_LIMIT.findall(headers.get("RateLimit", ""))[:1]
    for value in values:
        if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?", value):
            continue
        seconds = float(value)
        if seconds >= _FIRST_MILLISECOND:
            seconds /= 1000
        if seconds >= _FIRST_SECOND:
            seconds -= now
        if seconds > 0:
            return seconds
    return None


# Bodies


def document(answer: Answer) -> Any:
    """Return the JSON of a response.

    :raises UnexpectedResponseError: if it is not JSON, or reports a failure.
    """
    if not answer.body.strip():
        raise answer.unexpected(f"The response is empty. {_LOOK}", is_garbled=True)
    try:
        found = answer.content
    except ValueError as error:
        why = str(error)
        kind = answer.headers.get("Content-Type", "").strip()
        if kind and not _JSON_TYPE.search(kind):
            why = f"The response is not JSON. Its type is '{_one_line(kind, 60)}'. {_LOOK}"
        if is_html(answer):
            why = f"The response is a web page: maintenance, login, or a wrong Base URL. {_LOOK}"
        raise answer.unexpected(why, is_garbled=True) from None
    if isinstance(found, dict) and _reports_failure(found):
        raise answer.unexpected("The response reports a failure, although its status means success.")
    return found


def _decode(body: bytes) -> tuple[Any, Iterable[str]]:
    """Return the JSON of a body, and the ids of the websites with values that JSON does not allow, which are replaced.

    A service that cuts a text in the middle of an emoji writes half of a surrogate pair, which becomes U+FFFD. NaN and
    infinite numbers become null.

    :raises ValueError: if it is not JSON, or would take too much memory; the message is a sentence.
    """
    if len(body) > MAX_VALUES and count_values(body) > MAX_VALUES:
        raise ValueError(f"The response has more than {MAX_VALUES:,} values.")
    text = body.removeprefix(_BOM)
    try:
        return msgspec.json.decode(text), ()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"The response is not JSON ({error}). {_LOOK}"
    damaged: dict[str, None] = {}
    try:
        return _repaired(json.loads(text.decode()), "", damaged), damaged
    except (ValueError, RecursionError):
        raise ValueError(why) from None


def _repaired(value: Any, website_id: str, damaged: dict[str, None]) -> Any:
    """Return JSON data without values that JSON does not allow; add the ids of their websites to ``damaged``."""
    if isinstance(value, str) and _HALF.search(value):
        damaged[website_id] = None
        return _HALF.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        damaged[website_id] = None
        return None
    if isinstance(value, list):
        return [_repaired(inner, website_id, damaged) for inner in value]
    if isinstance(value, dict):
        website_id = str(value.get("id", website_id))
        whole = {}
        for name, inner in value.items():
            whole[_HALF.sub("\ufffd", name)] = _repaired(inner, website_id, damaged)
        return whole
    return value


def count_values(body: bytes | bytearray) -> int:
    """Return an upper bound of the number of values in JSON."""
    # Each value except the first follows one of these characters. Those within text are counted as well.
    return sum(map(body.count, (b",", b":", b"[", b"{")))


def _unwrapped(found: Any) -> Any:
    """Return the value of ``data``, or of the only key besides a message; otherwise the value itself.

    Below ``data``, a record can have one more key.
    """
    if not isinstance(found, dict) or "id" in found:
        return found
    if "data" not in found:
        nested = _only_object(found)
        return found if nested is None else nested
    nested = _only_object(found["data"])
    if nested is not None and "id" in nested and "id" not in found["data"]:
        return nested
    return found["data"]


def _only_object(found: Any) -> Record | None:
    """Return the object under the only key besides a message; None if there is none."""
    if not isinstance(found, dict):
        return None
    others = found.keys() - _MESSAGE_KEYS
    if len(others) != 1:
        return None
    value = found[others.pop()]
    if isinstance(value, dict):
        return value
    return None


def _reports_failure(found: Record) -> bool:
    """Return whether a body reports an error despite a success status."""
    if found.get("error") or found.get("errors"):
        return True
    if str(found.get("success", True)).lower() in ("false", "0"):
        return True
    status = found.get("status")
    error_status = number(status)
    if error_status is not None:
        return error_status >= 400
    return str(status).lower() in ("error", "fail", "failed")


def number(value: object) -> int | None:
    """Return the whole number of an int or a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    text = str(value).strip()
    if not re.fullmatch(r"[0-9]{1,18}", text):
        return None
    return int(text)


def _one_line(message: object, limit: int = EXCERPT_LENGTH) -> str:
    """Return a text of a response as one readable line; the service might have cut it."""
    if not isinstance(message, str):
        message = msgspec.json.encode(message).decode()
    return readable(message, limit, breaks="fold", is_part=True)
