# SPDX-License-Identifier: Apache-2.0
"""Reads a service with the client of the tasks: at most 50 requests, within a time limit, with other extras if needed.

A list counts only if :class:`Listing` proves it complete, as for a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from threading import Timer
from typing import Any, Self, Unpack

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.dialect import Answer, Page, Record
from airflow_provider_analytics.api.fields import ListFilters
from airflow_provider_analytics.api.listing import DEFAULT_QUERY, Proof
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    IncompleteListError,
    StoppedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import counted

MAX_REQUESTS = 50
#: Number of requests after which the list is read no further, so that some are left for the other checks.
MAX_LIST_REQUESTS = 34
MAX_SEARCH_REQUESTS = 8
#: Time limits for all requests in seconds. The connection test has a shorter one: a user and the API server wait.
MAX_SECONDS = 60.0
MAX_SECONDS_OF_A_TEST = 10.0
#: Seconds for one response.
TIMEOUT = 10.0
#: Names of the page parameter that are tried, if the service returns no cursor.
NUMBER_PARAMETERS = (dialect.PAGE_PARAMETER, "p", "offset", "page[number]", "page_number", "pageNumber", "page[offset]")
#: Names that are tried if it returns one.
CURSOR_PARAMETERS = (*dialect.CURSOR_PARAMETERS[:3], dialect.PAGE_PARAMETER, *dialect.CURSOR_PARAMETERS[3:])

Extras = dict[str, Any]
_NO_EXTRAS: Extras = {}


@dataclass
class Attempt:
    """One reading of the list, possibly a filtered one.

    :param extras: extras that were tried, in addition to those that are known to be needed.
    :param rows: the records, as far as they were read.
    :param selected_by: query parameter that selected the pages after the first one; None if there were none.
    :param proof: why the list is complete; None without a proof.
    :param error: why the reading ended early; None if it did not.
    """

    extras: Extras = field(default_factory=dict)
    rows: list[Record] = field(default_factory=list)
    selected_by: str | None = None
    proof: Proof | None = None
    error: AnalyticsError | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether a limit of the probe ended the reading."""
        return isinstance(self.error, StoppedError)

    @property
    def is_rejected(self) -> bool:
        """Whether other extras can help."""
        if isinstance(self.error, AnalyticsApiError):
            return self.error.status in dialect.NO_SUCH_PAGE
        return isinstance(self.error, (IncompleteListError, UnexpectedResponseError))

    def is_better_than(self, other: Self) -> bool:
        """Return whether the list was read to its end, or further."""
        if self.is_stopped:
            return len(self.rows) > len(other.rows)
        return self.proof is not None


class LimitedTransport(Transport):
    """A transport that sends reads only, and no more than allowed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._allowed = 0
        #: The last response; None if it was not a success.
        self.last: Answer | None = None
        #: Names of the headers of all responses.
        self.header_names: set[str] = set()

    def allow(self, allowed: int = MAX_REQUESTS) -> None:
        """Allow requests, up to this number of all requests."""
        self._allowed = min(allowed, MAX_REQUESTS)

    def once(self, method: str, path: str, **options: Any) -> Answer:
        """Send a read, unless the requests are used up."""
        if method != "GET":
            raise ValueError(f"The probe sends no {method}.")
        self.last = None
        if self.stats.requests >= self._allowed:
            raise StoppedError("Not sent, because the probe has sent all its requests.")
        answer = super().once(method, path, **options)
        self.header_names.update(answer.headers)
        self.last = answer
        return answer


class LimitedReader:
    """Reads a service within limits.

    :param settings: settings of the connection.
    :param seconds: time limit for all requests together.
    """

    def __init__(self, settings: Settings, *, seconds: float = MAX_SECONDS) -> None:
        self.settings = replace(
            settings,
            timeout=min(settings.timeout, TIMEOUT, seconds),
            max_retries=min(settings.max_retries, 1),
            parallel_requests=1,  # no page is read in vain
        )
        self.transport = LimitedTransport(self.settings)
        #: Extras that are needed in addition to the extras of the connection.
        self.extras = _NO_EXTRAS
        self.account: Record = {}
        #: The first page of the list.
        self.page = Page([])
        self._timer = Timer(seconds, self.transport.stop)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start the time limit."""
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._timer.cancel()
        self.transport.close()

    def client(self, extras: Extras = _NO_EXTRAS) -> AnalyticsClient:
        """Return a client with further extras; all clients share the limits.

        :raises AnalyticsConfigError: if an extra is invalid.
        """
        settings = replace(self.settings, **self.extras | extras)
        self.transport.settings = settings  # these extras do not concern the connection
        return AnalyticsClient(settings, self.transport)

    def start(self) -> None:
        """Fetch the account and the first page.

        :raises AnalyticsError: if the service rejects the key, or returns no account or no list.
        """
        try:
            self.transport.allow()
            self.account = self.client().get_account()
            self.page = self._first_page()
        except AnalyticsError as error:
            error.where = error.where or self.settings.where
            raise

    def _first_page(self) -> Page:
        try:
            return self.client().page(DEFAULT_QUERY)
        except UnexpectedResponseError:
            if self.transport.last is None:
                raise
            document = dialect.document(self.transport.last)
            keys = list(_list_keys(document))
            if len(keys) != 1:
                raise
        self.extras = {"list_key": keys[0]}
        return self.client().page(DEFAULT_QUERY)

    def summary(self) -> str:
        """Return the number of websites in words, with the extra that is needed."""
        text = f"{counted(len(self.page.rows), 'website')} on the first page, no total"
        if self.page.total is not None:
            text = counted(self.page.total, "website")
        if self.extras:
            text += f"; set the extra list_key to {self.extras['list_key']}"
        return text

    def read_list(self, **filters: Unpack[ListFilters]) -> Attempt:
        """Read the list; if that fails, with other page parameters."""
        self.transport.allow(MAX_LIST_REQUESTS)
        own = self.settings.page_parameter
        following = self.page.following
        usual: tuple[str, ...] = NUMBER_PARAMETERS
        if following is not None and following.value is not None and dialect.number(following.value) is None:
            usual = CURSOR_PARAMETERS
        others = [{"page_parameter": name} for name in usual if name != own]
        return self._first_working(partial(self._read, **filters), others)

    def read_favorites(self) -> Attempt:
        """Read the favorites; if that fails, with the other format of a boolean."""
        self.transport.allow()
        names = dialect.BOOLEAN_FORMATS.keys() - {self.settings.boolean_format}
        others = [{"boolean_format": name} for name in names]
        return self._first_working(self._read_favorites, others)

    def read_website(self, website_id: int | str) -> Record:
        """Return the record of a website."""
        self.transport.allow()
        return self.client().get_website(website_id)

    def search(self, domain: str) -> Record | None:
        """Return the website that a search finds for a domain; None if a task would read the whole list."""
        sent = self.transport.stats.requests
        self.transport.allow(sent + MAX_SEARCH_REQUESTS)
        return self.client().search_website(domain)

    def _first_working(self, read: Callable[[Extras], Attempt], others: Iterable[Extras]) -> Attempt:
        """Read the list. If that fails, return the first attempt with other extras that works.

        A list that changes can fail once, so two attempts without these extras have to fail before, and one after.
        """
        attempt = read(_NO_EXTRAS)
        if attempt.is_rejected:
            attempt = read(_NO_EXTRAS)
        if not attempt.is_rejected:
            return attempt
        for extras in others:
            found = read(extras)
            if found.is_better_than(attempt):
                break
        else:
            return attempt
        again = read(_NO_EXTRAS)
        if again.proof:
            return again
        self.extras = self.extras | found.extras
        return found

    def _read(self, extras: Extras, at_most: int | None = None, **filters: Unpack[ListFilters]) -> Attempt:
        """Read the list once.

        :param at_most: number of records after which the reading ends, without a proof; None: read them all.
        """
        attempt = Attempt(extras)
        try:
            listing = self.client(extras).iter_websites(**filters)
            attempt.rows.extend(islice(listing, at_most))
            attempt.proof = listing.proof
            attempt.selected_by = listing.selected_by
        except AnalyticsError as error:
            attempt.error = error
        return attempt

    def _read_favorites(self, extras: Extras) -> Attempt:
        # The first page of the other websites is enough to see whether they contradict the filter.
        others = self._read(extras, at_most=1, favorite=False)
        if others.error:
            return others
        return self._read(extras, favorite=True)


def _list_keys(document: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted path of each list of websites in a document."""
    if isinstance(document, dict):
        for key, inner in document.items():
            yield from _list_keys(inner, f"{path}.{key}".lstrip("."))
    elif path and isinstance(document, list) and any(map(_is_website, document)):
        yield path


def _is_website(row: Any) -> bool:
    return isinstance(row, dict) and "domain" in row
