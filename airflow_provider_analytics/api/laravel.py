# SPDX-License-Identifier: Apache-2.0
"""The forms of responses that a Laravel application sends, and plain JSON.

The interface does not document them. This table is the whole contract; a read of any other form fails before the first
write, with the error of :func:`_refused`.

=================  ========================================================================  =======================
part               supported forms                                                           function
=================  ========================================================================  =======================
list               under ``data``, in a paginator under ``data``, under the only other key,  :func:`page`
                   or bare; an array, or an object with numbered keys; null or ``{}`` with
                   total 0
page metadata      ``total`` and ``current_page``, beside the list or under ``meta``         :func:`page`
next page          ``links.next``, ``next_page_url``, or ``next_cursor``; otherwise          :func:`_following`
                   :data:`PAGE_PARAMETER`, from 1, or the extra ``page_parameter``
record, account    under ``data``, under the only other key besides a message, or bare       :func:`_unwrapped`
record of a write  as a record, or none                                                      :func:`record_or_none`
status of a write  any 2xx: the website is read anyway                                       :func:`is_success`
id                 a number, or a text without invisible characters                          :func:`_is_valid_id`
field              beside the id; a flag or the privacy as boolean, number, or text of one;  :func:`_check_value`
                   a list as text or array of texts; null
deleted website    ``deleted_at`` with a value                                               :func:`is_deleted`
error              ``message`` or ``error``, and messages by field under ``errors``; of      :func:`error_details`
                   anything else its start
rate limit         429, or the 503 of nginx, with or without ``Retry-After``                 :func:`is_limited`
boolean            true and false in a query, 1 and 0 in a form; the other one if this is    :data:`QUERY_TEXTS`
                   rejected
=================  ========================================================================  =======================

docs/internals/assumptions.md lists the guarantees that depend on these forms.
"""

from __future__ import annotations

import functools
import html
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import msgspec

from airflow_provider_analytics import SITE
from airflow_provider_analytics.api.checks import MAX_DEPTH, is_too_deep
from airflow_provider_analytics.api.fields import FIELDS, Flag, Lines, ListFilters
from airflow_provider_analytics.exceptions import UnexpectedResponseError
from airflow_provider_analytics.readable import EXCERPT_LENGTH, Redactor, is_plain, readable

API_PREFIX = "/api/v1"
#: Query parameter that selects a page, if no link contains another one.
PAGE_PARAMETER = "page"
#: Query parameter that selects a page by ``next_cursor``.
CURSOR_PARAMETER = "cursor"
#: Texts for false and true in the query, as interface.md documents them.
QUERY_TEXTS = ("false", "true")
#: The same in a form, as long as the service understands them: the rule ``boolean`` of Laravel accepts only these.
FORM_TEXTS = ("0", "1")
#: Texts for false and true to the other ones.
OTHER_TEXTS = {QUERY_TEXTS: FORM_TEXTS, FORM_TEXTS: QUERY_TEXTS}
#: Maximum number of fields of an error response, and of messages per field.
MAX_MESSAGES = 50
#: Maximum number of values in a response: about 50,000 websites. A few bytes of JSON take a hundred bytes of memory.
MAX_VALUES = 2_000_000
#: Maximum length of an id: no server accepts a longer one in a path.
MAX_ID_LENGTH = 10_000
#: Maximum length of the description of an unsupported form.
MAX_SHAPE = 300

#: Headers with the state of a rate limit. A throttled route has them in each response.
LIMIT_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
#: Not 206, the status of a part of the response.
_SUCCESS_OF_A_READ = frozenset({200, 201, 204})
#: Headers in which proxies and services return the id of a request.
_REQUEST_IDS = ("CF-Ray", "X-Request-Id", "X-Amz-Cf-Id")
#: A word in place of a flag or a choice, such as ``on`` or ``public``.
_WORD = re.compile("(?!true$|false$)[a-z]+", re.IGNORECASE)
#: Field names without case and underscores, to recognize fields in another spelling.
_FIELD_NAMES = {name.replace("_", ""): name for name in FIELDS}
_JSON_TYPE = re.compile(r"[/+]json\b", re.IGNORECASE)
#: Keys beside a list that can contain a list, too.
_OTHER_LISTS = ("links", "meta", "errors")
#: Keys that describe a response. A response without any other key contains no account.
_MESSAGE_KEYS = frozenset({"code", "message", "status", "success"})
#: Keys that identify an account, the best first.
ACCOUNT_NAMES = ("id", "uuid", "email", "username", "name")
#: Mark at the start of a UTF-8 text.
_BOM = b"\xef\xbb\xbf"
_TITLE = re.compile(r"<title\b[^>]*>([^<]*)</title", re.IGNORECASE)
#: What to do about a response that is not JSON.
_LOOK = "Open the Base URL in a browser, and check the proxy."
#: Number of bytes at the start of a page that are searched for its title.
_TITLE_SEARCH_BYTES = 4096
_A_LIST = "one list of websites, under data or under the only other key"
_A_RECORD = "a website with an id, under data, under the only other key, or bare"
_TYPES = {str: "text", bool: "boolean", int: "number", float: "number", type(None): "null"}

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
    def content(self) -> Any:
        """JSON of the body; :class:`ValueError` if it is not JSON."""
        return _decode(self.body)

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
    """

    rows: list[Record]
    total: int | None = None
    current_page: int | None = None
    following: Selection | None = None
    size: int = 0
    values: int = 0


def is_success(answer: Answer) -> bool:
    """Return whether the service carried out the request, or, for a write, at least received it."""
    if answer.method == "GET":
        return answer.status in _SUCCESS_OF_A_READ
    return 200 <= answer.status < 300


def _refused(answer: Answer, found: str, expected: str) -> UnexpectedResponseError:
    """Return the error for a form that is not supported.

    :param found: the part of the response in question, or its keys and types.
    :param expected: the supported forms, in one line.
    """
    return answer.unexpected(
        f"The service returns {found}. This form is not supported, so no task can use the service. Expected: "
        f"{expected}. Supported forms: {SITE}reference/interface/#supported-forms"
    )


def shape(value: Any, depth: int = 2) -> str:
    """Return the keys and types of JSON data, at most :data:`MAX_SHAPE` characters."""
    if isinstance(value, dict) and depth:
        inner = [f"{key}: {shape(item, depth - 1)}" for key, item in islice(value.items(), 20)]
        text = f"{{{', '.join(inner)}}}"
    elif isinstance(value, dict):
        text = "object"
    elif isinstance(value, list):
        text = f"array of {len(value)}"
        if value:
            text += f" x {shape(value[0], 0)}"
    else:
        text = _TYPES[type(value)]
    return readable(text, MAX_SHAPE, is_part=True)


# Records


def record(answer: Answer) -> Record:
    """Return the website record of a response; it must have an id."""
    found = record_or_none(answer)
    if found is None:
        if not answer.body.strip():
            raise answer.unexpected("The response is empty.")
        raise _refused(answer, shape(answer.content), _A_RECORD)
    _check_fields([found], answer)
    return found


def record_or_none(answer: Answer) -> Record | None:
    """Return the website record of a response to a write, or None if it contains none: nothing, or a message.

    :raises UnexpectedResponseError: for a web page, a damaged record, or a response that reports a failure.
    """
    found = None
    # A text such as ``OK`` says nothing about the website, which is read back.
    if answer.status != 202 and answer.body.lstrip().startswith((b"{", b"[", b"<", _BOM)):
        found = _unwrapped(document(answer))
    if not isinstance(found, dict) or not _is_valid_id(found.get("id")):
        return None
    _check_depth([found], answer)
    _reject_secrets([str(found["id"]), *_domains([found])], answer)
    return found


def _unwrapped(found: Any) -> Any:
    """Return the value of ``data``, or of the only key besides a message; otherwise the value itself."""
    if not isinstance(found, dict) or "id" in found:
        return found
    if "data" in found:
        return found["data"]
    others = found.keys() - _MESSAGE_KEYS
    if len(others) == 1:
        [key] = others
        if isinstance(found[key], dict):
            return found[key]
    return found


def account(answer: Answer) -> Record:
    """Return the account record of a response. Its fields are not documented."""
    found = _unwrapped(document(answer))
    if not isinstance(found, dict) or found.keys() <= _MESSAGE_KEYS:
        raise _refused(answer, shape(answer.content), "an account, under data, under the only other key, or bare")
    _check_depth([found], answer)
    _reject_secrets([account_id(found) or ""], answer)
    return found


def account_name(found: Record) -> str:
    """Return a text by which a person recognizes an account, at most 60 characters; empty if its record has none."""
    for name in ("email", "username", "name", "id", "uuid"):
        value = found.get(name)
        if isinstance(value, (str, int)) and value not in ("", True, False):
            return readable(str(value), 60)
    return ""


def account_id(found: Record) -> str | None:
    """Return the id of an account, or else the first of :data:`ACCOUNT_NAMES` that the record has."""
    for name in ACCOUNT_NAMES:
        if found.get(name) not in (None, ""):
            return str(found[name])
    return None


def is_deleted(found: Record) -> bool:
    """Return whether a record marks its website as deleted."""
    return bool(found.get("deleted_at"))


def not_deleted(rows: list[Record]) -> list[Record]:
    """Return the records of websites that are not deleted."""
    return [row for row in rows if not is_deleted(row)]


# Checks of records


def _check_fields(rows: list[Record], answer: Answer) -> None:
    """Raise an error for fields in a form that no task can use; the first record represents all."""
    for row in rows[:1]:
        for key, value in row.items():
            name = _FIELD_NAMES.get(key.lower().replace("_", ""), "")
            if name and key != name and name not in row:
                raise _refused(answer, f"the field {name} with the key {readable(key, 60)!r}", f"the key {name!r}")
            if isinstance(value, dict) and "domain" in value and "domain" not in row:
                found = f"the fields of a website under the key {readable(key, 60)!r}"
                raise _refused(answer, found, "the fields beside the id")
            if name == key:
                _check_value(name, value, answer)


def _check_value(name: str, value: object, answer: Answer) -> None:
    """Raise an error for a value of a documented field in another form than those of the table."""
    expected = "a text"
    is_supported = not isinstance(value, (dict, list))
    if isinstance(FIELDS[name], Flag):
        expected = "true and false, or numbers"
        is_supported = is_supported and not (isinstance(value, str) and _WORD.fullmatch(value))
    elif isinstance(FIELDS[name], Lines):
        expected = "a text with an entry per line, or an array of texts"
        is_supported = not isinstance(value, dict)
    if not is_supported:
        raise _refused(answer, f"the field {name} with the value {readable(repr(value), 60)}", expected)


def _check_id(row: Record, answer: Answer) -> None:
    if not _is_valid_id(row.get("id")):
        found = "a website without an id"
        if "id" in row:
            found = f"a website with the id {readable(repr(row['id']), 60)}"
        raise _refused(answer, found, "an id for each website, a number or a text")


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
    """Return the rows and the page metadata of a list response. Each row has an id; numbers can be text."""
    rows, meta = _rows_and_metadata(answer)
    if not set(map(type, rows)) <= {dict}:
        raise _refused(answer, shape(rows), "only objects in the list")
    for row in rows:
        if type(row.get("id")) is not int:  # rare
            _check_id(row, answer)
    _check_depth(rows, answer)
    _check_fields(rows, answer)
    ids = [str(row["id"]) for row in rows]
    _reject_secrets(ids + _domains(rows), answer)
    return Page(
        rows,
        number(meta.get("total")),
        number(meta.get("current_page")),
        _following(meta, answer.path),
        len(answer.body),
        count_values(answer.body),
    )


def _rows_and_metadata(answer: Answer) -> tuple[list[Any], Record]:
    """Return the list of websites, and the metadata beside it."""
    place = document(answer)
    rows = _rows_of(place)
    meta: Record = {}
    if rows is None and isinstance(place, dict):
        meta = _metadata(place)
        paginator = place.get("data")
        if isinstance(paginator, dict) and "data" in paginator:
            place = paginator
            meta |= _metadata(place)
        rows = _rows_in(place, number(meta.get("total")))
    if rows is None:
        raise _refused(answer, shape(answer.content), _A_LIST)
    return rows, meta


def _rows_in(place: Record, total: int | None) -> list[Any] | None:
    """Return the list under ``data``, or under the only other key with a list; None if there is none, or several."""
    if "data" in place:
        if place["data"] in (None, {}) and total == 0:
            return []
        return _rows_of(place["data"])
    lists = [_rows_of(value) for key, value in place.items() if key not in _OTHER_LISTS]
    found = [rows for rows in lists if rows is not None]
    if len(found) != 1:
        return None
    return found[0]


def _rows_of(value: Any) -> list[Any] | None:
    """Return the rows of an array, or of an object with numbered keys, as PHP writes a filtered array; else None."""
    if isinstance(value, dict) and value:
        is_filtered = all(key.isdecimal() and isinstance(row, dict) for key, row in value.items())
        return list(value.values()) if is_filtered else None
    return value if isinstance(value, list) else None


def _metadata(place: Record) -> Record:
    """Return the page metadata of an object: beside the list, and under ``meta``."""
    nested = place.get("meta")
    if not isinstance(nested, dict):
        nested = {}
    # Laravel's ``links`` in ``meta`` is a list of labels, and must not hide the object ``links``.
    labels = {name: value for name, value in nested.items() if not isinstance(value, list)}
    return place | labels


def _following(meta: Record, path: str) -> Selection | None:
    """Return the selection of the next page. The client never follows a link: it reads only the query."""
    links = meta.get("links")
    link = meta.get("next_page_url")
    if isinstance(links, dict):
        link = links.get("next") or link
    if isinstance(link, str) and link:
        return selection(link, path)
    cursor = meta.get("next_cursor")
    if isinstance(cursor, str) and cursor:
        return Selection(CURSOR_PARAMETER, cursor)
    return None


def selection(link: str, path: str) -> Selection:
    """Return how a link selects a page; an empty selection if it does not.

    A service behind a proxy can see another scheme, host and prefix than the client. So a link counts if its path ends
    with the path of the list, or the other way round. It can repeat the filters of the request.

    :param path: path of the list, from ``/api/v1`` on.
    """
    try:
        target = urlsplit(urljoin(path, link))
    except ValueError:
        return Selection()
    link_path = target.path.rstrip("/")
    if not link_path or not (link_path.endswith(path) or path.endswith(link_path)):
        return Selection()
    others = [(name, value) for name, value in parse_qsl(target.query) if name not in ListFilters.__annotations__]
    if len(others) > 1:
        others = [(name, value) for name, value in others if name in (PAGE_PARAMETER, CURSOR_PARAMETER)]
    if len(others) != 1:
        return Selection()
    return Selection(*others[0])


# Errors


def error_details(answer: Answer) -> tuple[str, dict[str, list[str]]]:
    """Return the message of an error response, or its start, and the messages by field; all readable."""
    found = error_object(answer)
    if found is None:
        return (page_title(answer) or answer.excerpt() or "(empty response)"), {}
    errors: dict[str, list[str]] = {}
    by_field = found.get("errors")
    if isinstance(by_field, dict):
        for name, messages in islice(by_field.items(), MAX_MESSAGES):
            # An entry of an array has the name of its field with a number: ``exclude_ips.0``.
            errors.setdefault(_one_line(name.partition(".")[0]), []).extend(_messages(messages))
    for key in ("message", "error"):
        message = found.get(key)
        if isinstance(message, str) and message.strip():
            return _one_line(message), errors
    return answer.excerpt(), errors


def error_object(answer: Answer) -> Record | None:
    """Return the JSON object of an error response; None if it is not an object."""
    try:
        found = answer.content
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return found


def _messages(messages: object) -> list[str]:
    if not isinstance(messages, list):
        return [_one_line(messages)]
    return list(map(_one_line, messages[:MAX_MESSAGES]))


def error_facts(answer: Answer) -> list[str]:
    """Return facts from the headers of an error response: when to retry, rate limits, request ids for support."""
    names = ["Retry-After"]
    if is_limited(answer) or answer.status == 503:
        names += LIMIT_HEADERS
    facts = []
    for name in (*names, *_REQUEST_IDS):
        value = answer.headers.get(name, "").strip()
        if name == "Retry-After" and value.isdigit():
            value += " s"
        if value:
            facts.append(f"{name} {_one_line(value, 60)}")
    return facts


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

    That is a 429, or the page of nginx (``limit_req``). A 403 is a missing permission, also if no request is left.
    """
    is_page_of_nginx = answer.status == 503 and b"<hr><center>nginx" in answer.body
    return answer.status == 429 or is_page_of_nginx


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of ``Retry-After``, given as seconds or as a date; None if it is missing or invalid."""
    value = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
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


def _decode(body: bytes) -> Any:
    """Return the JSON of a body.

    :raises ValueError: if it is not JSON, or would take too much memory; the message is a sentence.
    """
    if len(body) > MAX_VALUES and count_values(body) > MAX_VALUES:
        raise ValueError(f"The response has more than {MAX_VALUES:,} values.")
    try:
        return msgspec.json.decode(body.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"The response is not JSON ({error}). {_LOOK}") from None


def count_values(body: bytes | bytearray) -> int:
    """Return an upper bound of the number of values in JSON."""
    # Each value except the first follows one of these characters. Those within text are counted as well.
    return sum(map(body.count, (b",", b":", b"[", b"{")))


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
