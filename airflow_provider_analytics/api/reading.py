# SPDX-License-Identifier: Apache-2.0
"""Reading from the service: the list, single websites, the account, and looking a domain up."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Self, TypeVar, Unpack, cast
from urllib.parse import quote

from airflow_provider_analytics.api import fields, laravel
from airflow_provider_analytics.api.domains import check_domain, domain_key, might_become, same_domain, spellings
from airflow_provider_analytics.api.fields import ListFilters
from airflow_provider_analytics.api.laravel import Answer, Page, Record
from airflow_provider_analytics.api.listing import DEFAULT_QUERY, Listing, ids_descend, read_again, requests_of_a_list
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Texts, Transport
from airflow_provider_analytics.api.verification import COMPARED, present_fields, with_omitted
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    DomainError,
    IncompleteListError,
    NotFoundError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import counted, readable, without_secrets

WEBSITES = "/websites"
ACCOUNT = "/account"
#: Maximum number of websites found by a search. If there are more, the search is not read to its end.
SEARCH_LIMIT = 100
#: Statuses with which a service rejects a search, so that the whole list is read instead.
_SEARCH_REJECTED = frozenset({400, 404, 410, 422})

Returned = TypeVar("Returned")
Method = TypeVar("Method", bound=Callable[..., Any])

log = logging.getLogger(__name__)


def with_location(method: Method) -> Method:
    """Add the service and the connection to the errors of a method."""

    @functools.wraps(method)
    def located(self: ReadingClient, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except AnalyticsError as error:
            error.where = error.where or self.settings.where
            # A log needs only the frames of the caller: the message contains the cause.
            raise error.with_traceback(None) from None

    return cast("Method", located)


@dataclass(frozen=True)
class LookUp:
    """Result of looking up a domain in the complete list.

    :param websites: the websites of exactly this domain.
    :param variants: websites of a domain that the service might have made of this one (:func:`domains.might_become`).
    :param newest: id of the newest website of the list; None without websites.
    """

    websites: Sequence[Record]
    variants: Sequence[Record]
    newest: str | None


class ReadingClient:
    """Client of one service with one API key that only reads; thread-safe.

    Every method validates its arguments before it sends a request, and raises :class:`ValueError` if one is invalid.
    All other errors come from :mod:`airflow_provider_analytics.exceptions`. Records are plain dicts as the service
    returns them. Their fields are not documented; only ``id`` is certain (interface.md, Not documented).

    :param settings: base URL, API key and options.
    :param transport: sends the requests; by default a new one for these settings.
    """

    def __init__(self, settings: Settings, transport: Transport | None = None) -> None:
        transport = transport or Transport(settings)
        self.settings = settings
        #: Base URL without a trailing slash.
        self.base_url = settings.base_url
        #: Sends single requests.
        self.transport = transport
        #: Counters of this client.
        self.stats = transport.stats
        #: Redactor with the secrets of this client; call it to make a text readable.
        self.redact = transport.redact
        #: See :class:`Transport`.
        self.stop = transport.stop
        self.close = transport.close
        self.wait = transport.wait
        self.announce = transport.announce
        #: Fields that rows of the list, and single records, contained so far.
        self._fields_of_rows: set[str] = set()
        self._fields_of_records: set[str] = set()
        #: Texts for false and true in queries.
        self._query_texts = laravel.QUERY_TEXTS
        #: Whom the key belongs to, as far as the account was read; and whether the log says it.
        self._owner = ""
        self._is_introduced = False

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    @property
    def stopped(self) -> bool:
        """Whether the client sends no further requests."""
        return self.transport.stopped

    def for_output(self, data: Returned) -> Returned:
        """Return JSON data without keys that name a secret, and without the secrets of this client."""
        return without_secrets(data, self.redact)

    # Reading

    def iter_websites(self, **filters: Unpack[ListFilters]) -> Listing:
        """Return the list, to iterate over its records. See :class:`Listing` for when they can be used."""
        return Listing(
            self.page,
            fields.list_query(boolean_texts=self._query_texts, **filters),
            self.settings.page_parameter,
            parallel=self.settings.parallel_requests,
            wait=self.wait,
            stats=self.stats,
            change_format=self._change_query_format,
        )

    def _change_query_format(self) -> bool:
        """Write booleans of queries in the other format from now on; return whether it was not tried yet."""
        if self._query_texts != laravel.QUERY_TEXTS:
            return False
        self._query_texts = laravel.OTHER_TEXTS[self._query_texts]
        return True

    @with_location
    def page(self, query: Texts, unwanted: Event | None = None) -> Page:
        """Return a page of the list.

        :param unwanted: set when the page is no longer needed: the request is neither sent nor retried.
        """
        answer = self.transport.request("GET", WEBSITES, query=query, unwanted=unwanted, is_alone=unwanted is None)
        self.stats.count("pages")
        page = laravel.page(answer)
        if not self._is_introduced and _is_whole_list(query):
            self._introduce(page)
        for row in page.rows:
            if self._fields_of_rows.issuperset(COMPARED):
                break
            self._fields_of_rows |= present_fields(row)
        return page

    def _introduce(self, page: Page) -> None:
        """Log once whom the key belongs to, that the list has a supported form, and how many websites it has."""
        self._is_introduced = True
        owner = f"The API key belongs to {self._owner}. " if self._owner else ""
        websites = "no total"
        if page.total is not None:
            websites = counted(page.total, "website")
        log.info("%sThe list has a supported form and %s.", owner, websites)

    @with_location
    def list_websites(self, **filters: Unpack[ListFilters]) -> list[Record]:
        """Return the complete list. A list that changes during the read is read again.

        :raises IncompleteListError: if the list cannot be proven complete.
        """
        return read_again(list, lambda: self.iter_websites(**filters))

    def list_websites_within(self, requests: int) -> list[Record] | None:
        """Return the complete list; None if it takes more than about ``requests`` requests after the first one.

        The number is computed from the total of the first page. Without a total, the result is None.

        :raises IncompleteListError: if the list cannot be proven complete.
        """

        def consume(listing: Listing) -> list[Record] | None:
            records = []
            for record in listing:
                if listing.total is None or requests_of_a_list(listing.total) - 1 > requests:
                    return None
                records.append(record)
            return records

        return read_again(consume, self.iter_websites)

    @with_location
    def get_website(self, website_id: int | str) -> Record:
        """Return the record of a website, as the service returns it.

        :raises NotFoundError: if it does not exist, or if its record is marked as deleted.
        """
        return self._show(website_id, self.transport.request)

    @with_location
    def read_website(self, website_id: int | str) -> Record:
        """Return the record of a website, with the fields that the service omits if they are empty.

        :raises NotFoundError: as :meth:`get_website`.
        """
        return self._with_omitted(self._show(website_id, self.transport.request))

    def read_once(self, website_id: int | str) -> Record:
        """Return a website as :meth:`read_website`, with one request, which is not repeated."""
        return self._with_omitted(self._show(website_id, self.transport.once))

    @property
    def known_fields(self) -> set[str]:
        """The fields that any record contained so far."""
        return self._fields_of_records | self._fields_of_rows

    def _with_omitted(self, record: Record) -> Record:
        self._fields_of_records |= present_fields(record)
        # A field of the rows is also one of single records, but a row often has fewer fields than a single record.
        return with_omitted(record, self.known_fields)

    def complete_rows(self, rows: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Return rows of the complete list, with the fields that the service omits if they are empty."""
        return [with_omitted(dict(row), self._fields_of_rows) for row in rows]

    def _show(self, website_id: int | str, send: Callable[[str, str], Answer]) -> Record:
        answer = send("GET", website_path(website_id))
        record = laravel.record(answer)
        if str(record["id"]) != str(website_id):
            seen = f"The response is about website {record['id']}, but website {website_id} was requested."
            raise answer.unexpected(seen)
        if laravel.is_deleted(record):
            facts = ["the record says that the website is deleted"]
            raise NotFoundError(answer.status, answer.method, answer.path, "", facts=facts)
        return record

    @with_location
    def get_account(self) -> Record:
        """Return the record of the account that the API key belongs to."""
        account = laravel.account(self.transport.request("GET", ACCOUNT))
        self._owner = laravel.account_name(account)
        return account

    # Lookup

    @with_location
    def find_website(self, domain: str) -> Record | None:
        """Return the website of exactly this domain, or None (see :func:`domains.domain_key`).

        :raises DomainError: if the domain has several websites.
        """
        return self.search_website(domain) or single_website(domain, self.look_up(domain).websites)

    def search_website(self, domain: str) -> Record | None:
        """Return the website that the service's search finds for a domain; None if the complete list is needed.

        The interface does not document which websites a search matches, nor how old its index is. So the result counts
        only if it was read to its proven end and contains exactly one website, which is then fetched by its id. The
        search text is the domain in mixed case, which no website has. A case-sensitive search could find only one of
        two spellings: this way it finds none.
        """
        key = domain_key(check_domain(domain))
        found = set()
        try:
            for spelling in spellings(domain):
                listing = self.iter_websites(search=_in_mixed_case(spelling), search_by="domain")
                for record in listing:
                    if (listing.total or 0) > SEARCH_LIMIT:
                        return None
                    if has_domain(record, key):
                        found.add(str(record["id"]))
        except (IncompleteListError, AnalyticsApiError) as error:
            if isinstance(error, AnalyticsApiError) and error.status not in _SEARCH_REJECTED:
                raise
            log.info("The search for %s cannot be used: %s", domain, error.text)
            return None
        if len(found) != 1:
            return None
        website = self.website_or_none(found.pop())  # the search can use an old index
        if website is None or not has_domain(website, key):
            return None
        return website

    def look_up(self, domain: str) -> LookUp:
        """Look a domain up in the complete list.

        :raises IncompleteListError: if the list cannot be proven complete.
        :raises UnexpectedResponseError: if the domain is not in the list, and a website has no domain in its record.
        """
        key, others = domain_key(check_domain(domain)), might_become(domain)

        def consume(listing: Listing) -> LookUp:
            websites, variants, newest, nameless = [], [], None, None
            for record in listing:
                newest = newest or str(record["id"])
                if not isinstance(record.get("domain"), str):
                    nameless = nameless or record["id"]
                elif has_domain(record, key):
                    websites.append(record)
                elif domain_key(record["domain"]) in others:
                    variants.append(record)
            if nameless is not None and not websites:
                why = f"Website {nameless} is returned without a domain. It might be {domain!r}, so the lookup fails."
                raise UnexpectedResponseError(why, 200, "GET", laravel.API_PREFIX + WEBSITES)
            return LookUp(websites, variants, newest)

        return read_again(consume, self.iter_websites)

    def website_or_none(self, website_id: str) -> Record | None:
        """Return a website by its id, or None. A single response of "not found" might be wrong, so it is repeated."""
        try:
            return self.read_website(website_id)
        except NotFoundError:
            if self.is_gone(website_id):
                return None
            return self.read_website(website_id)

    def is_gone(self, website_id: str, domain: object = None) -> bool:
        """Return whether a website no longer exists. If the request fails otherwise, the complete list is checked.

        :param domain: domain of the website. If the record has another domain, the service has given the id to a new
            website.
        """
        try:
            return not _might_be_of(self.get_website(website_id), domain)
        except NotFoundError:
            return True
        except (AnalyticsApiError, UnexpectedResponseError) as error:
            log.info("Website %s could not be read, so the complete list is read instead: %s", website_id, error.text)
            return website_id not in {str(record["id"]) for record in self.list_websites()}

    def newest_websites(self, known: str | None) -> Sequence[Record]:
        """Return the newest websites, down to a known one; all websites if one page does not contain it.

        If the ids have no order, a new website might be on any page, so all websites are returned.

        :param known: id of the website that was the newest; None if there was none, or if it is unknown.
        """
        page = self.page(DEFAULT_QUERY)
        ids = {str(row["id"]) for row in page.rows}
        is_enough = page.total == len(ids) < int(DEFAULT_QUERY["per_page"])
        if known:
            is_enough = known in ids and ids_descend(page.rows)
        if not is_enough:
            return self.list_websites()
        return laravel.not_deleted(page.rows)


def _is_whole_list(query: Texts) -> bool:
    """Return whether a query selects all websites."""
    return query.keys().isdisjoint({"search", "favorite"})


def other_domain(domain: str, record: Mapping[str, Any], advice: str = "") -> DomainError:
    """Return the error for a website that has another domain than the one sent."""
    shown = str(record["domain"])
    remedy = ""
    if domain_key(shown) in might_become(domain):
        remedy = f"If the service writes it so, write domain={shown!r}, or name the website by its id."
    problem = f"Website id {record['id']} has the domain {readable(shown)!r}, not {domain!r}."
    return DomainError(
        problem,
        [str(record["id"])],
        f"{remedy} {advice}".strip(),
        permanent=True,
        before_retry="correct the domain first",
    )


def unknown_domain(domain: str, record: Mapping[str, Any]) -> DomainError:
    """Return the error for a website whose record has no domain, so that it might be the website of someone else."""
    problem = f"The record of website {record['id']} has no domain, so it might not be {domain!r}."
    remedy = "Nothing was sent. Name the website by its id only, if the service returns no domain for it."
    return DomainError(problem, [str(record["id"])], remedy, permanent=True, before_retry="check the website first")


def duplicates(domain: str, website_ids: Iterable[str]) -> DomainError:
    """Return the error for several websites with the same domain."""
    ids = sorted(website_ids, key=lambda website_id: (len(website_id), website_id))
    problem = f"{len(ids)} websites have the domain {domain!r}: ids {', '.join(ids)}."
    remedy = "Delete all but one of them, or name one by its id."
    return DomainError(problem, ids, remedy, permanent=True, before_retry="resolve the duplicates first")


def has_domain(record: Mapping[str, Any], key: str) -> bool:
    """Return whether a record has the domain of a key (:func:`domains.domain_key`)."""
    domain = record.get("domain")
    return isinstance(domain, str) and domain_key(domain) == key


def _might_be_of(record: Mapping[str, Any], domain: object) -> bool:
    """Return whether a record can belong to a domain: the domains are equal, or one of the two is unknown."""
    found = record.get("domain")
    return not isinstance(found, str) or not isinstance(domain, str) or same_domain(found, domain)


def single_website(domain: str, websites: Sequence[Record]) -> Record | None:
    """Return the only website of a domain; None if there is none."""
    if len(websites) > 1:
        raise duplicates(domain, [str(record["id"]) for record in websites])
    return next(iter(websites), None)


def _in_mixed_case(text: str) -> str:
    """Return a text with ASCII letters in alternating case."""
    mixed = list(text)
    for position, character in enumerate(text):
        if not character.isascii():
            continue
        mixed[position] = character.lower()
        if position % 2 == 1:
            mixed[position] = character.upper()
    return "".join(mixed)


def website_path(website_id: int | str) -> str:
    """Return the path of a website below ``/api/v1``."""
    return f"{WEBSITES}/{quote(fields.check_website_id(website_id), safe='')}"
