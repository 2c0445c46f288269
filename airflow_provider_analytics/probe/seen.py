"""The requests of the probe: at most 15 reads within a time limit. The responses are kept without evaluation."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.dialect import Answer, Page, Selection
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import list_query
from airflow_provider_analytics.api.listing import DEFAULT_QUERY
from airflow_provider_analytics.api.operations import ACCOUNT, WEBSITES, website_path
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import AnalyticsError, UnexpectedResponseError

MAX_REQUESTS = 15
#: Time limits for all requests in seconds. The connection test has a shorter one: a user and the API server wait.
MAX_SECONDS = 60.0
MAX_SECONDS_OF_A_TEST = 10.0
#: Seconds for one response.
TIMEOUT = 10.0
#: Parameters to try if neither a link nor ``page`` selects a page, with the value for the second page of ten.
GUESSES = {"p": "2", "page_number": "2", "offset": "10"}
_NEWEST = {**DEFAULT_QUERY}
_TEN = {**DEFAULT_QUERY, "per_page": "10"}
_OLDEST = {**_TEN, "sort": "asc"}
_LINK = re.compile(r'<([^>]*)>\s*;[^,]*?rel="?(\w+)"?', re.IGNORECASE)

Rows = list[dict[str, Any]]
#: Called with a description of the next request.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Listed:
    """A response to a list request.

    :param answer: the response.
    :param document: the decoded JSON; None if the body is not JSON.
    :param page: the page that the package reads from the response; None if it rejects the response.
    :param key: the extra ``list_key`` that is required to read the page; empty: none.
    """

    answer: Answer
    document: Any
    page: Page | None
    key: str = ""

    @property
    def rows(self) -> Rows:
        """The rows, including those of deleted websites."""
        return self.page.rows if self.page else []

    @property
    def ids(self) -> list[str]:
        """The ids of the rows."""
        return [str(row["id"]) for row in self.rows]


@dataclass
class Seen:
    """All responses; None for a request that was not sent or got no complete response.

    :param newest: the 100 newest websites.
    :param ten: the ten newest websites; ``again`` is the same list at the end, ``oldest`` the ten oldest websites.
    :param parameter: the query parameter that selects a page; None: not found.
    :param found_by: how the parameter was found: ``link``, ``link elsewhere``, ``assumed`` or ``guessed``.
    :param base: number of the first page; None: unknown, or pages have no numbers.
    :param second: the second page of ten; ``third`` is requested only if the second page repeats the first one.
    :param tail: pages of 100 by number: those that must contain the oldest website, and the page after them.
    :param searches: list responses of the searches, by name of the search.
    :param favorites: lists filtered by ``favorite``, by the text that was sent.
    :param unanswered: why requests got no complete response, by name of the request.
    """

    settings: Settings
    requests: int = 0
    seconds: float = 0.0
    account: Answer | None = None
    newest: Listed | None = None
    ten: Listed | None = None
    again: Listed | None = None
    oldest: Listed | None = None
    elsewhere: Selection | None = None
    link_place: str = ""
    parameter: str | None = None
    found_by: str = ""
    base: int | None = None
    second: Listed | None = None
    third: Listed | None = None
    first_by_number: Listed | None = None
    tail: dict[int, Listed] = field(default_factory=dict)
    searched: dict[str, Any] | None = None
    searches: dict[str, Listed] = field(default_factory=dict)
    favorites: dict[str, Listed] = field(default_factory=dict)
    shown: dict[str, Any] | None = None
    show: Answer | None = None
    missing: Answer | None = None
    wrong_key: Answer | None = None
    answers: list[Answer] = field(default_factory=list)
    unanswered: dict[str, str] = field(default_factory=dict)
    holds_key: bool = False

    @property
    def newest_ids(self) -> list[str]:
        """Ids of the 100 newest websites."""
        return self.newest.ids if self.newest else []


def decoded(answer: Answer | None) -> Any:
    """Return the decoded JSON of a response with any status; None if the body is not JSON."""
    try:
        return msgspec.json.decode(answer.body) if answer else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def lists_in(document: Any, path: str = "", depth: int = 3) -> Iterator[tuple[str, Rows]]:
    """Yield the lists of records in a document, each preceded by the dotted path of its keys."""
    if isinstance(document, list):
        if document and all(isinstance(row, dict) and "id" in row for row in document):
            yield path, document
    elif isinstance(document, dict) and depth:
        for key, inner in document.items():
            yield from lists_in(inner, f"{path}.{key}" if path else key, depth - 1)


def listed(answer: Answer, url: str, list_key: str | None) -> Listed:
    """Return the page that the package reads from a list response, and the extra ``list_key`` if it needs one."""
    document = decoded(answer)
    page = _page(answer, url, list_key)
    if page is not None or answer.status not in dialect.SUCCESS:
        return Listed(answer, document, page)
    found = list(lists_in(document))
    websites = [path for path, rows in found if all("domain" in row for row in rows)] or [path for path, _ in found]
    key = websites[0] if len(websites) == 1 and re.fullmatch(r"[^.\s]+(\.[^.\s]+)*", websites[0]) else ""
    return Listed(answer, document, _page(answer, url, key) if key else None, key)


def _page(answer: Answer, url: str, list_key: str | None) -> Page | None:
    if answer.status not in dialect.SUCCESS:
        return None
    try:
        page = dialect.page(answer, url, list_key)
        for row in page.rows:
            dialect.website_id(row, answer)
    except UnexpectedResponseError:
        return None
    return page


def links_elsewhere(found: Listed, url: str) -> tuple[str, Selection | None]:
    """Return the place and the selection of a link to the next page that the package does not read."""
    for link, relation in _LINK.findall(found.answer.headers.get("Link", "")):
        if relation.lower() == "next":
            return "in the header Link", dialect.selection(link, url)
    document = found.document if isinstance(found.document, dict) else {}
    for place in (document.get("meta"), document):
        links = place.get("links") if isinstance(place, dict) else None
        for entry in links if isinstance(links, list) else ():
            label = str(entry.get("label") or entry.get("rel") or "") if isinstance(entry, dict) else ""
            if "next" in label.lower():
                link = entry.get("url") or entry.get("href")
                return "as a list", dialect.selection(link, url) if isinstance(link, str) else None
    if document.get("links") and isinstance(document["links"], list):
        return "as a list", None
    return "", None


class Probe:
    """Sends the requests of one probe.

    :param settings: settings of the connection; the probe does not retry and shortens the timeout.
    :param progress: called with a description of the next request.
    :param seconds: time limit for all requests together.
    """

    def __init__(self, settings: Settings, *, progress: Progress | None = None, seconds: float = MAX_SECONDS) -> None:
        self._settings = replace(settings, max_retries=0, timeout=min(settings.timeout, TIMEOUT, seconds))
        self._transport = Transport(self._settings)
        self._progress = progress or (lambda _: None)
        self._requests_left = MAX_REQUESTS
        self._url = self._transport.url(WEBSITES)
        self._timer = threading.Timer(seconds, self._transport.stop)
        self._timer.daemon = True
        self.seen = Seen(settings)

    def __enter__(self) -> Self:
        """Start the time limit."""
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._timer.cancel()
        self._transport.close()

    def begin(self) -> Seen:
        """Request the account and the first page.

        :raises AnalyticsError: if the service rejects the key, or returns no account or no list.
        """
        try:
            return self._begin()
        except AnalyticsError as error:
            error.where = error.where or self._settings.where
            raise

    def _begin(self) -> Seen:
        seen = self.seen
        seen.account = self._request_or_raise("the account", ACCOUNT)
        dialect.account(seen.account)
        answer = self._request_or_raise("the newest websites", WEBSITES, _NEWEST)
        seen.newest = listed(answer, self._url, self._settings.list_key)
        if seen.newest.page is None:
            raise answer.unexpected(
                "The response is not a list of websites, or contains several lists. See the extra list_key."
            )
        seen.link_place, seen.elsewhere = links_elsewhere(seen.newest, self._url)
        return seen

    def run(self, *, wrong_key: bool = False) -> Seen:
        """Send all requests.

        :param wrong_key: whether to also send a request with a wrong key.
        :raises AnalyticsError: if the service rejects the key, or returns no list.
        """
        began = time.monotonic()
        kept = 1 + wrong_key  # reserved for the last requests
        self._requests_left -= kept
        seen = self.begin()
        seen.ten = self._list("the first page", _TEN)
        if seen.ten is not None:
            self._find_pages(seen.ten)
        seen.oldest = self._list("the oldest websites", _OLDEST)
        self._fetch_tail()
        self._fetch_one()
        self._fetch_favorites()
        self._search()
        self._fetch_page_after_last()
        self._requests_left += kept
        seen.again = self._list("the first page again", _TEN)
        if wrong_key:
            self._send_wrong_key()
        seen.holds_key = any(self._transport.redact.finds(one.body.decode("utf-8", "replace")) for one in seen.answers)
        seen.seconds = time.monotonic() - began
        return seen

    # Requests

    def _request_or_raise(self, what: str, path: str, query: Mapping[str, str] | None = None) -> Answer:
        self._progress(what)
        self._requests_left -= 1
        self.seen.requests += 1
        answer = self._transport.request("GET", path, query=query)
        self.seen.answers.append(answer)
        return answer

    def _request(self, what: str, path: str, query: Mapping[str, str] | None = None) -> Answer | None:
        if self._requests_left <= 0:
            self.seen.unanswered[what] = f"{MAX_REQUESTS} requests were sent"
            return None
        self._progress(what)
        self._requests_left -= 1
        self.seen.requests += 1
        try:
            answer = self._transport.answer(path, query)
        except AnalyticsError as error:
            self.seen.unanswered[what] = type(error).__name__
            return None
        self.seen.answers.append(answer)
        return answer

    def _list(self, what: str, query: Mapping[str, str]) -> Listed | None:
        answer = self._request(what, WEBSITES, query)
        key = self._settings.list_key or (self.seen.newest.key if self.seen.newest else "")
        return None if answer is None else listed(answer, self._url, key or None)

    # Pages

    def _find_pages(self, ten: Listed) -> None:
        seen, page = self.seen, ten.page
        if page is None:
            return
        place, elsewhere = links_elsewhere(ten, self._url)
        seen.link_place, seen.elsewhere = place or seen.link_place, elsewhere or seen.elsewhere
        own = self._settings.page_parameter
        linked = page.following or elsewhere
        if linked is not None and linked.value is not None:
            seen.found_by = "link" if linked is page.following else "link elsewhere"
            seen.parameter = own or linked.parameter or dialect.CURSOR_PARAMETER
            number = dialect.number(linked.value)
            seen.base = number - 1 if number in (1, 2) else None
            seen.second = self._list("the second page", _TEN | {seen.parameter: linked.value})
            is_number = seen.base is not None
        else:
            is_number = True
            seen.found_by, seen.parameter = "assumed", own or dialect.PAGE_PARAMETER
            if not self._has_second(ten):
                return
            seen.base = self._base_of(page)
            second = str(2 if seen.base is None else seen.base + 1)
            seen.second = self._list("the second page", _TEN | {seen.parameter: second})
            is_short = seen.second is not None and not seen.second.rows and len(seen.newest_ids) <= len(ten.rows)
            if not own and not is_short and (seen.second is None or seen.second.ids in ([], ten.ids)):
                self._guess(ten)
        if not is_number or seen.second is None:
            return
        if seen.second.ids == ten.ids:
            number = 3 if seen.base is None else seen.base + 2
            seen.third = self._list("the third page", _TEN | {str(seen.parameter): str(number)})
        elif seen.base is None and seen.second.rows:
            seen.first_by_number = self._list("the first page by number", _TEN | {str(seen.parameter): "1"})
            if seen.first_by_number is not None and seen.first_by_number.rows:
                seen.base = 1 if seen.first_by_number.ids == ten.ids else 0

    def _guess(self, ten: Listed) -> None:
        seen = self.seen
        for name, value in GUESSES.items():
            found = self._list(f"the second page by {name}", _TEN | {name: value})
            if found is not None and found.rows and set(found.ids).isdisjoint(ten.ids):
                seen.parameter, seen.found_by, seen.second = name, "guessed", found
                seen.base = None
                return

    @staticmethod
    def _base_of(page: Page) -> int | None:
        if page.first is not None and page.first.value in ("0", "1"):
            return int(page.first.value)
        return page.current_page if page.current_page in (0, 1) else None

    def _has_second(self, ten: Listed) -> bool:
        """Return whether there may be a second page of ten."""
        newest = self.seen.newest
        if newest is None or newest.page is None or not ten.rows:
            return False
        total = newest.page.total
        # If a request for 100 returns ten rows and no total, the page size of the server may be ten.
        return len(newest.rows) > len(ten.rows) or (len(ten.rows) >= 10 if total is None else total > len(ten.rows))

    @property
    def _is_numbered(self) -> bool:
        """Whether any page of 100 can be requested by its number."""
        seen = self.seen
        return (
            seen.base is not None
            and seen.second is not None
            and seen.ten is not None
            and bool(seen.second.rows)
            and seen.second.ids != seen.ten.ids
        )

    def _fetch_page_of_100(self, what: str, number: int) -> Listed | None:
        seen = self.seen
        found = self._list(what, _NEWEST | {str(seen.parameter): str((seen.base or 0) + number - 1)})
        if found is not None:
            seen.tail[number] = found
        return found

    def _fetch_tail(self) -> None:
        """Fetch the page that must contain the oldest website, and an adjacent page if it does not."""
        newest, oldest = self.seen.newest, self.seen.oldest
        if newest is None or newest.page is None or oldest is None or not oldest.rows or not self._is_numbered:
            return
        total, size = newest.page.total, len(newest.rows)
        if total is None or not size or total < size:
            return
        last = -(-total // size)
        if last > 1:
            page = self._fetch_page_of_100("the last page", last)
            if page is not None and oldest.ids[0] not in page.ids:
                adjacent = last + 1 if len(page.rows) == size else last - 1
                page = self._fetch_page_of_100("a page beside the last one", adjacent) if adjacent > 1 else page
                if page is not None and not page.rows and 2 not in self.seen.tail:
                    self._fetch_page_of_100("the second page of 100", 2)
        elif not set(oldest.ids) <= set(newest.ids):
            self._fetch_page_of_100("the page behind the total", 2)

    def _fetch_page_after_last(self) -> None:
        newest = self.seen.newest
        if newest is None or newest.page is None or not self._is_numbered or not newest.rows:
            return
        behind = -(-(newest.page.total or 0) // len(newest.rows)) + 1
        if newest.page.total and behind not in self.seen.tail:
            self._fetch_page_of_100("the page behind the last one", behind)

    # Records

    def _fetch_one(self) -> None:
        seen = self.seen
        rows = dialect.not_deleted(seen.newest.rows) if seen.newest else []
        if rows:
            seen.shown = max(rows, key=lambda row: sum(value not in (None, "", [], 0, False) for value in row.values()))
            seen.show = self._request("one website", website_path(str(seen.shown["id"])))
        ids = [dialect.number(row["id"]) for row in rows + (seen.oldest.rows if seen.oldest else [])]
        if None not in ids:
            above = max((one for one in ids if one is not None), default=0) + 1_000_003
            seen.missing = self._request("a website that does not exist", website_path(str(above)))

    def _fetch_favorites(self) -> None:
        seen = self.seen
        if seen.newest is None or not seen.newest.rows:
            return
        used = self._settings.boolean_format
        other = next(name for name in dialect.BOOLEAN_FORMATS if name != used)
        false, true = dialect.BOOLEAN_FORMATS[used]
        for text in (true, false):
            self._filter(text)
        both = [seen.favorites.get(text) for text in (true, false)]
        if any(one is not None and (one.page is None or one.ids == both[0].ids) for one in both[1:] if both[0]):
            self._filter(dialect.BOOLEAN_FORMATS[other][0])

    def _filter(self, text: str) -> None:
        query = list_query(boolean_texts=("false", "true")) | _NEWEST | {"favorite": text}
        found = self._list(f"websites with favorite={text}", query)
        if found is not None:
            self.seen.favorites[text] = found

    def _search(self) -> None:
        seen = self.seen
        rows = dialect.not_deleted(seen.newest.rows) if seen.newest else []
        seen.searched = next((row for row in reversed(rows) if _is_searchable(row.get("domain"))), None)
        if seen.searched is None:
            return
        domain = str(seen.searched["domain"])
        if self._finds("in another case", domain.swapcase()):
            if not self._finds("by a part", domain[1:-1]) and not self._finds("by its beginning", domain[:-1]):
                self._finds("by its first label", domain.partition(".")[0])
        elif self._finds("by its domain", domain) and not self._finds("in another case again", domain.swapcase()):
            self._finds("by a part", domain[1:-1])

    def _finds(self, how: str, text: str) -> bool:
        seen = self.seen
        found = self._list(f"a website {how}", _NEWEST | {"search": text, "search_by": "domain"})
        if found is None or seen.searched is None:
            return False
        seen.searches[how] = found
        return str(seen.searched["id"]) in found.ids

    def _send_wrong_key(self) -> None:
        self._progress("a request with a wrong key")
        settings = replace(self._settings, api_key=f"wrong-{secrets.token_hex(8)}")
        other = Transport(settings)
        self.seen.requests += 1
        try:
            self.seen.wrong_key = other.answer(ACCOUNT)
        except AnalyticsError as error:
            self.seen.unanswered["a wrong key"] = type(error).__name__
        finally:
            other.close()


def _is_searchable(domain: object) -> bool:
    """Return whether a domain is suitable for testing searches by part and by case."""
    return (
        isinstance(domain, str)
        and bool(re.fullmatch(r"[a-z0-9-]{3,}(\.[a-z0-9-]+)+", domain))
        and (domain_key(domain) == domain)
    )
