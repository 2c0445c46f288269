# SPDX-License-Identifier: Apache-2.0
"""Client of the service: proven lists, domain lookup, and verified writes."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Event
from typing import Any, Self, TypeVar, Unpack, cast
from urllib.parse import quote

from airflow_provider_analytics.api import fields, laravel
from airflow_provider_analytics.api.domains import check_domain, domain_key, might_become, same_domain, spellings
from airflow_provider_analytics.api.fields import CreateSettings, ListFilters, UpdateSettings
from airflow_provider_analytics.api.laravel import Answer, Page, Record
from airflow_provider_analytics.api.listing import DEFAULT_QUERY, Listing, ids_descend, read_again, requests_of_a_list
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Texts, Transport, might_have_been_applied
from airflow_provider_analytics.api.verification import (
    COMPARED,
    Comparison,
    Differences,
    ExpectedRecord,
    cause_of,
    has_value,
    is_final,
    present_fields,
    with_omitted,
)
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsError,
    DomainError,
    IncompleteListError,
    NotAppliedError,
    NotFoundError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import RESERVED, counted, names_in, readable, without_reserved, without_secrets

WEBSITES = "/websites"
ACCOUNT = "/account"
#: Seconds to wait before a website is fetched again, if the service does not return a write yet.
CONFIRM_WAITS: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
#: Seconds to wait in addition, if the service responds to writes with 202: it applies them later.
ACCEPTED_WAITS: tuple[float, ...] = (8.0, 8.0, 8.0)
#: Seconds after which the log says that the service does not return a write yet.
USUAL_DELAY = 1.5
#: Seconds to wait before all changed websites are read back: an update that another process computed earlier might
#: still arrive.
SETTLE_SECONDS = 1.0
#: How often a change that is not in effect is sent again.
RESENDS = 2
#: Maximum number of websites found by a search. If there are more, the search is not read to its end.
SEARCH_LIMIT = 100
#: Statuses that services return for a domain that already exists.
_MIGHT_MEAN_TAKEN = frozenset({400, 409, 422})

Returned = TypeVar("Returned")
Method = TypeVar("Method", bound=Callable[..., Any])

log = logging.getLogger(__name__)


def _with_location(method: Method) -> Method:
    """Add the service and the connection to the errors of a method."""

    @functools.wraps(method)
    def located(self: AnalyticsClient, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except AnalyticsError as error:
            error.where = error.where or self.settings.where
            # A log needs only the frames of the caller: the message contains the cause.
            raise error.with_traceback(None) from None

    return cast("Method", located)


def _counted(method: Method) -> Method:
    """Count the change of a website as applied or failed; do not count a bad argument."""

    @functools.wraps(method)
    def counted(self: AnalyticsClient, *args: Any, **kwargs: Any) -> Any:
        try:
            returned = method(self, *args, **kwargs)
        except AnalyticsError:
            self.stats.count("changes_failed")
            raise
        self.stats.count("changes_applied")
        return returned

    return cast("Method", counted)


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


@dataclass(frozen=True)
class WriteResult:
    """A website after a verified write.

    :param record: record that the service returns.
    :param unverified: fields that the record cannot verify, such as the password.
    :param unsent: unsent changes, see :class:`Comparison`.
    :param created: whether this call created it.
    :param sent: whether this call sent anything.
    """

    record: Record
    unverified: tuple[str, ...] = ()
    unsent: Differences = field(default_factory=dict)
    created: bool = False
    sent: bool = True


@dataclass
class Meant:
    """The website that a write means: before each attempt, its id must belong to its domain.

    A service can give the id of a deleted website to a new one, and its operator can rename a domain.

    :param website_id: its id.
    :param domain: its domain; None or empty: the domain of the first record that :meth:`check` gets.
    """

    website_id: int | str
    domain: str | None = None

    def check(self, record: Record) -> None:
        """Raise :class:`DomainError` for the record of another website; nothing must be sent then."""
        domain = record.get("domain")
        if not isinstance(domain, str):
            return
        if not self.domain:
            self.domain = domain
        elif not same_domain(domain, self.domain):
            raise other_domain(self.domain, record)


class AnalyticsClient:
    """Client of one service with one API key; thread-safe.

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
        self._not_returned: set[str] = set()
        #: Fields that records of the list, and single records, contained so far.
        self._fields_of_rows: set[str] = set()
        self._fields_of_records: set[str] = set()
        #: Whether the service responded to a write with 202.
        self._applies_later = False
        #: Formats of booleans, keys of :data:`laravel.BOOLEAN_FORMATS`.
        self._query_format = laravel.QUERY_FORMAT
        self._form_format = laravel.FORM_FORMAT

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
        """Return JSON data without keys that name a secret, and without the secrets of this client.

        Keys that Airflow reserves are left out, because Airflow could not return them.
        """
        reserved = [name for name in sorted(names_in(data)) if name.startswith(RESERVED)]
        if reserved:
            log.warning(
                "Left out %s of the records, because Airflow reserves keys that start with %r.",
                readable(", ".join(reserved)),
                RESERVED,
            )
            data = without_reserved(data)
        return without_secrets(data, self.redact)

    # Reading

    def iter_websites(self, **filters: Unpack[ListFilters]) -> Listing:
        """Return the list, to iterate over its records. See :class:`Listing` for when they can be used."""
        return Listing(
            self.page,
            fields.list_query(boolean_texts=laravel.BOOLEAN_FORMATS[self._query_format], **filters),
            self.settings.page_parameter,
            parallel=self.settings.parallel_requests,
            wait=self.wait,
            stats=self.stats,
            change_format=self._change_query_format,
        )

    def _change_query_format(self) -> bool:
        """Write booleans of queries in the other format from now on; return whether it was not tried yet."""
        if self._query_format != laravel.QUERY_FORMAT:
            return False
        self._query_format = laravel.OTHER_FORMATS[self._query_format]
        return True

    @_with_location
    def page(self, query: Texts, unwanted: Event | None = None) -> Page:
        """Return a page of the list.

        :param unwanted: set when the page is no longer needed: the request is neither sent nor retried.
        """
        answer = self.transport.request("GET", WEBSITES, query=query, unwanted=unwanted, is_alone=unwanted is None)
        self.stats.count("pages")
        page = laravel.page(answer)
        for row in page.rows:
            if self._fields_of_rows.issuperset(COMPARED):
                break
            self._fields_of_rows |= present_fields(row)
        return page

    @_with_location
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

    @_with_location
    def get_website(self, website_id: int | str) -> Record:
        """Return the record of a website, as the service returns it.

        :raises NotFoundError: if it does not exist, or if its record is marked as deleted.
        """
        return self._show(website_id, self.transport.request)

    @_with_location
    def read_website(self, website_id: int | str) -> Record:
        """Return the record of a website, with the fields that the service omits if they are empty.

        :raises NotFoundError: as :meth:`get_website`.
        """
        return self._with_omitted(self._show(website_id, self.transport.request))

    def _with_omitted(self, record: Record) -> Record:
        self._fields_of_records |= present_fields(record)
        # A field of the rows is also one of single records, but a row often has fewer fields than a single record.
        return with_omitted(record, self._fields_of_records | self._fields_of_rows)

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

    @_with_location
    def get_account(self) -> Record:
        """Return the record of the account that the API key belongs to."""
        return laravel.account(self.transport.request("GET", ACCOUNT))

    # Lookup

    @_with_location
    def find_website(self, domain: str) -> Record | None:
        """Return the website of exactly this domain, or None (see :func:`domains.domain_key`).

        :raises DomainError: if the domain has several websites.
        """
        return self.search_website(domain) or _single_website(domain, self.look_up(domain).websites)

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
                    if _has_domain(record, key):
                        found.add(str(record["id"]))
        except (IncompleteListError, AnalyticsApiError) as error:
            if isinstance(error, AnalyticsApiError) and error.status not in laravel.NO_SUCH_PAGE:
                raise
            log.info("The search for %s cannot be used: %s", domain, error.text)
            return None
        if len(found) != 1:
            return None
        website = self.website_or_none(found.pop())  # the search can use an old index
        if website is None or not _has_domain(website, key):
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
                elif _has_domain(record, key):
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

    # Creating

    @_with_location
    def ensure_website(self, domain: str, **settings: Unpack[CreateSettings]) -> WriteResult:
        """Return the website of a domain; create it with these settings if it does not exist.

        The client reads the complete list before the create, and the newest websites after it. So it detects a second
        website of the domain that another task creates at the same time. An existing website is returned unchanged.

        :raises DomainError: if the domain has several websites.
        :raises DomainError: if the service seems to write the domain in another way, and has such a website.
        :raises AnalyticsError: as :meth:`create_website`.
        """
        checked = fields.check_create(**settings)
        before = self.look_up(domain)
        existing = _single_website(domain, before.websites)
        if existing is None:
            for record in before.variants:
                raise other_domain(domain, record, "If these are two websites, create this one with the hook.")
            try:
                return self._create(domain, checked, before)
            except AnalyticsApiError as error:
                if error.created or not might_mean_taken(error):
                    raise
                existing = self._find_new(domain, None, before.newest)  # another task created it
                if existing is None:
                    raise
        if not _has_all_fields(existing):
            existing = self.get_website(existing["id"])
        return WriteResult(existing, sent=False)

    @_with_location
    def create_website(self, domain: str, **settings: Unpack[CreateSettings]) -> WriteResult:
        """Create a website, and verify it. The request is never sent twice.

        :raises AmbiguousWriteError: if the website might or might not have been created.
        :raises DomainError: if the service returns another domain than the one sent.
        :raises NotAppliedError: if the service returns other settings than the sent ones.
        """
        return self._create(check_domain(domain), fields.check_create(**settings), None)

    @_counted
    def _create(self, domain: str, settings: Mapping[str, Any], before: LookUp | None) -> WriteResult:
        """Create a website, and verify it. With ``before``, also verify that it is the only one of its domain."""
        expected = ExpectedRecord.of_new(domain, settings)
        record = self.send_create(domain, settings)
        created = ""
        if record is not None:
            created = str(record["id"])
        try:
            if before is None and created:
                comparison = self.verify(created, expected)
            else:
                row = self._listed_new(domain, created, before)
                created = str(row["id"])
                comparison = expected.compare(row)
                if not _has_all_fields(row) or not comparison.is_as_expected:
                    comparison = self.verify(created, expected)
        except AnalyticsError as error:
            error.created = created
            raise
        return WriteResult(dict(comparison.record), comparison.unverified, comparison.unsent, created=True)

    def _listed_new(self, domain: str, website_id: str, before: LookUp | None) -> Record:
        """Return the new website of a domain, as it is in the list.

        :param website_id: its id; empty if the response to the create contained none.
        :raises AmbiguousWriteError: if the list does not contain it.
        """
        known = None
        if before is not None:
            known = before.newest
        row = self._find_new(domain, website_id or None, known)
        if row is not None:
            return row
        response = "without an id"
        if website_id:
            response = f"with the id {website_id}"
        reason = f"The service reported success {response}, but the website is not in the list."
        raise _ambiguous(domain, reason, None)

    def send_create(self, domain: str, settings: Mapping[str, Any]) -> Record | None:
        """Create a website, and return the record of the response; None if the service reports success without an id.

        :param settings: normalized settings.
        :raises AmbiguousWriteError: if the website might or might not have been created.
        """
        form = self._form({"domain": domain, **settings}, self._form_format)
        try:
            return self._written(self.transport.request("POST", WEBSITES, form=form))
        except AnalyticsError as error:
            if not might_have_been_applied(error):
                raise
            raise _ambiguous(domain, error.text, error) from None

    def _find_new(self, domain: str, website_id: str | None, known: str | None) -> Record | None:
        """Return the new website of a domain, as it is in the list; None if the list does not contain it.

        The newest 100 websites are fetched until they contain it. They must include a website that existed before the
        create; otherwise the whole list is read.

        :param website_id: its id; None if it is unknown.
        :param known: id of the newest website before the create; None if there was none, or if it is unknown.
        :raises DomainError: if the domain has several websites.
        """
        key = domain_key(domain)

        def find() -> Record | None:
            same = {}
            for row in self.newest_websites(known):
                row_id = str(row["id"])
                if row_id == website_id or _has_domain(row, key):
                    same[row_id] = row
            if len(same) > 1:
                raise duplicates(domain, same)
            if website_id is not None:
                return same.get(website_id)
            return next(iter(same.values()), None)

        return self._until(find, bool)

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

    # Changing and deleting

    @_with_location
    @_counted
    def update_website(
        self, website_id: int | str, *, expected_domain: str | None = None, **settings: Unpack[UpdateSettings]
    ) -> WriteResult:
        """Change the given settings of a website, and verify that only these changed.

        If the website already has all settings, no update is sent.

        :param expected_domain: the domain that the website must have; None: any.
        :raises DomainError: if the website has another domain.
        :raises NotAppliedError: if the service returns something other than *before + sent*.
        """
        checked = fields.check_update(**settings)
        meant = Meant(website_id, expected_domain)
        attempts: list[ExpectedRecord] = []
        is_sent = False
        comparison = Comparison()

        def work_out(record: Record) -> Mapping[str, Any] | None:
            nonlocal is_sent
            expected = ExpectedRecord(record, checked, meant.domain or "")
            if attempts:
                expected = expected.following(attempts[-1])
            attempts.append(expected)
            # A read cannot verify an update that changes nothing.
            if expected.compare(record).is_verified:
                return None
            is_sent = True
            return checked

        def send(_: Sequence[int | str]) -> None:
            self.until_found(lambda: self.change_website(meant, work_out))

        def read(ids: Sequence[int | str]) -> Sequence[int | str]:
            nonlocal comparison
            comparison = self.read_until(str(website_id), attempts[-1])
            if self._can_be_omitted(comparison.unverified):
                # Other records reveal whether the service returns these fields at all. The update itself needs no list.
                with suppress(IncompleteListError, AnalyticsApiError, UnexpectedResponseError):
                    self.list_websites_within(0)
                comparison = self.read_until(str(website_id), attempts[-1])
            if comparison.not_applied and not comparison.unsent:
                self.note_not_applied(comparison.not_applied)
                return ids
            return ()

        send([website_id])
        self.until_in_effect([website_id], read, send, resends=1)
        if is_sent and comparison.unsent and comparison.other_domain is None:
            self._raise_unsent(comparison, attempts[-1].before)
        self._check(attempts[-1], comparison)
        return WriteResult(dict(comparison.record), comparison.unverified, comparison.unsent, sent=is_sent)

    def change_website(self, meant: Meant, work_out: Callable[[Record], Mapping[str, Any] | None]) -> None:
        """Compute an update from the current record, and send it. The outcome is not verified: see :meth:`verify`.

        :param work_out: returns the normalized settings to send for a record, or None to send no update.
        :raises ValueError: if ``work_out`` raises it.
        :raises DomainError: if the website is not the one that is meant; nothing is sent then.
        """

        def send(record: Record) -> None:
            settings = work_out(record)
            if settings is not None:
                self.send_update(meant.website_id, settings)

        self.write_to(meant, self.settings.update_method, send)

    def write_to(self, meant: Meant, method: str, send: Callable[[Record], Returned]) -> Returned:
        """Fetch a website, and call ``send`` with its record; repeat both if one fails and that is safe.

        Every update, delete, and restore passes here. The write immediately follows the read: all waiting comes before
        both. So each write is computed from a current record of the website that is meant.

        :param method: HTTP method of the write.
        :param send: sends one request.
        :raises DomainError: if the website is not the one that is meant; nothing is sent then.
        """

        def attempt() -> Returned:
            record = self._with_omitted(self._show(meant.website_id, self.transport.once))
            meant.check(record)
            return send(record)

        return self.transport.retried(attempt, method, number=2)

    def send_update(self, website_id: int | str, settings: Mapping[str, Any]) -> None:
        """Send normalized settings, with one request; only for :meth:`write_to`.

        If the service rejects the format of a boolean, the settings are sent once more in the other format.
        """
        used = self._form_format
        try:
            self._send_form(website_id, self._form(settings, used))
        except AnalyticsApiError as error:
            if not _rejects_a_boolean(error, settings):
                raise
            other = laravel.OTHER_FORMATS[used]
            try:
                self._send_form(website_id, self._form(settings, other))
            except AnalyticsApiError as second:
                # Only a rejection proves that nothing was stored.
                if _rejects_a_boolean(second, settings):
                    raise error from None
                raise
            self._form_format = other

    def _send_form(self, website_id: int | str, form: Texts) -> None:
        self._written(self.transport.once(self.settings.update_method, website_path(website_id), form=form))

    def _form(self, settings: Mapping[str, Any], boolean_format: str) -> dict[str, str]:
        """Return the form fields of normalized settings. A password is redacted from now on."""
        form = fields.form(settings, laravel.BOOLEAN_FORMATS[boolean_format])
        if "password" in form:
            self.redact.add(form["password"])
        return form

    def note_not_applied(self, names: Collection[str]) -> None:
        """Note that the service did not store these sent fields: booleans are sent in the other format from now on."""
        if _booleans(names):
            self._form_format = laravel.OTHER_FORMATS[self._form_format]

    @_with_location
    @_counted
    def delete_website(self, website_id: int | str, *, expected_domain: str | None = None) -> None:
        """Delete a website, and verify that it is gone.

        :param expected_domain: the domain that the website must have; None: any.
        :raises NotFoundError: if the website does not exist, unless a previous attempt of this call might have deleted
            it.
        :raises DomainError: if the website has another domain.
        :raises NotAppliedError: if the service still returns it.
        """
        checked_id = fields.check_website_id(website_id)
        domain = self.send_delete(Meant(checked_id, expected_domain)).get("domain")
        if not self._becomes_gone(checked_id, domain):
            raise NotAppliedError(checked_id, {"website": "still exists after it was deleted"}, waited=self._waited)

    def send_delete(
        self, meant: Meant, start: Callable[[], None] = lambda: None, lost: Callable[[], None] = lambda: None
    ) -> Record:
        """Delete a website, without verifying the outcome, and return its record from before.

        :param start: called before each delete is sent.
        :param lost: called after a delete that might or might not have been applied.
        :raises NotFoundError: as :meth:`delete_website`.
        :raises DomainError: if the website is not the one that is meant, and no earlier attempt might have deleted it.
        :raises NotAppliedError: if the service responds with "not found", but still returns the website.
        """
        website_id = str(meant.website_id)
        deleted: Record | None = None  # by an attempt whose response was lost

        def send(record: Record) -> Record:
            nonlocal deleted
            start()
            try:
                self._written(self.transport.once("DELETE", website_path(website_id)))
            except AnalyticsError as error:
                if might_have_been_applied(error):
                    deleted = record
                    lost()
                raise
            return record

        try:
            return self.write_to(meant, "DELETE", send)
        except (DomainError, NotFoundError) as error:
            if deleted is not None:
                return deleted  # the id belongs to nobody, or to a new website, since the attempt that was lost
            if isinstance(error, DomainError) or self._becomes_gone(website_id, None):
                raise
            still = {"website": "still exists, although the service responded with 'not found'"}
            raise NotAppliedError(website_id, still) from error

    # Verification

    def verify(self, website_id: str, expected: ExpectedRecord) -> Comparison:
        """Fetch a website after a write until it is as expected, and return the comparison with its record.

        A service can take a moment until it returns a write or a new website. If it does not return a field at all,
        the client logs this once.

        :raises NotFoundError: if the service does not return it.
        :raises DomainError: if it has another domain.
        :raises NotAppliedError: if it is not as expected.
        """
        comparison = self.read_until(website_id, expected)
        self._check(expected, comparison)
        return comparison

    def until_in_effect(
        self,
        changed: Sequence[Returned],
        read: Callable[[Sequence[Returned]], Sequence[Returned]],
        send: Callable[[Sequence[Returned]], None],
        resends: int = RESENDS,
    ) -> None:
        """Read changed websites back, and send the changes again that are not in effect, a few times.

        Another process overwrote them, or the change was computed from an old replica.

        :param changed: the websites.
        :param read: reads websites until they are as sent, and returns those to send again.
        :param send: sends the changes of websites again.
        :param resends: how often.
        """
        again = read(changed)
        for _ in range(resends):
            if not again:
                return
            log.info("Sending the change of %s again, because it is not in effect.", counted(len(again), "website"))
            # Several tasks that overwrite each other's lines must not do it again at the same time.
            self.wait(RANDOM.uniform(0, SETTLE_SECONDS))
            send(again)
            again = read(again)

    def read_until(self, website_id: str, expected: ExpectedRecord) -> Comparison:
        """Fetch a website until it is as expected, or will not be; return the last record, compared.

        :raises NotFoundError: if the service does not return it.
        """
        reads: list[Comparison] = []

        def read() -> Comparison:
            reads.append(expected.compare(self.read_website(website_id)))
            return reads[-1]

        return self._until(read, lambda comparison: comparison.is_as_expected or is_final(reads))

    def _can_be_omitted(self, names: Iterable[str]) -> bool:
        """Return whether the service can omit one of these fields because it is empty: no record contained it yet."""
        known = self._fields_of_records | self._fields_of_rows | self._not_returned
        return any(fields.FIELDS[name].column is not None for name in set(names) - known)

    def _check(self, expected: ExpectedRecord, comparison: Comparison) -> None:
        """Raise an error for a record that is not as expected; log unsent changes, and fields that are not returned."""
        record = comparison.record
        website_id = str(record["id"])
        if comparison.other_domain is not None:
            raise other_domain(expected.domain, record)
        if comparison.not_applied:
            cause = cause_of(expected, record)
            if cause:
                raise NotAppliedError(website_id, comparison.not_applied, cause, permanent=True)
            raise NotAppliedError(website_id, comparison.not_applied, waited=self._waited)
        if comparison.unsent:
            changed = "; ".join(map(" ".join, comparison.unsent.items()))
            log.warning("Another process changed website %s at the same time: %s.", website_id, changed)
        hidden = [name for name in comparison.unverified if name not in self._not_returned]
        if hidden:
            self._not_returned.update(hidden)
            log.warning("The service does not return these fields, so they were not verified: %s.", ", ".join(hidden))

    def _raise_unsent(self, comparison: Comparison, before: Mapping[str, Any]) -> None:
        """Raise the error for a website with unsent changes, with all its values before the update."""
        values = ", ".join(f"{name} {readable(str(before[name]), 200)}" for name in COMPARED if name in before)
        raise NotAppliedError(
            str(comparison.record["id"]),
            {**comparison.not_applied, **comparison.unsent},
            "Some of these values were not sent, so the service or another process changed them. Nothing was restored. "
            f"Values before: {values}.",
            permanent=True,
        )

    def _written(self, answer: Answer) -> Record | None:
        """Return the record of a response to a write, if it contains one."""
        self._applies_later |= answer.status == HTTPStatus.ACCEPTED
        return laravel.record_or_none(answer)

    @property
    def confirm_waits(self) -> tuple[float, ...]:
        """Seconds to wait before a website is fetched again, if the service does not return a write yet."""
        if self._applies_later:
            return (*CONFIRM_WAITS, *ACCEPTED_WAITS)
        return CONFIRM_WAITS

    @property
    def _waited(self) -> float | None:
        """Seconds for which the client waits for a write that the service applies later; None for other services."""
        if not self._applies_later:
            return None
        return sum(self.confirm_waits)

    def _becomes_gone(self, website_id: str, domain: object) -> bool:
        return self._until(lambda: self.is_gone(website_id, domain), bool)

    def until_found(self, read: Callable[[], Returned]) -> Returned:
        """Return the result of ``read`` for a new website; wait while the service does not return the website yet."""
        return self._until(read, lambda _: True)

    def _until(self, read: Callable[[], Returned], is_enough: Callable[[Returned], bool]) -> Returned:
        """Return the result of ``read`` once it is enough, or the last one; wait while the service is late."""
        left = sum(self.confirm_waits)
        for seconds in self.confirm_waits:
            with suppress(NotFoundError):
                found = read()
                if is_enough(found):
                    return found
            self.announce_late("a website", left)
            self.wait(seconds)
            left -= seconds
        return read()

    def announce_late(self, websites: str, left: float) -> None:
        """Log that the service does not return changes yet, unless this is a usual delay.

        :param websites: the changed websites.
        :param left: seconds that the client still waits.
        """
        if sum(self.confirm_waits) - left >= USUAL_DELAY:
            self.announce(f"Waiting up to {left:g} s to find out whether the change of {websites} is stored.", left)


def _ambiguous(domain: str, reason: str, cause: AnalyticsError | None) -> AmbiguousWriteError:
    advice = "A retry of an operator looks for the website before it creates it. In your own code, call ensure_website."
    error = AmbiguousWriteError(f"{reason} {advice}", domain)
    if cause is not None:
        error.earlier = (*cause.earlier, cause)
    return error


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


def duplicates(domain: str, website_ids: Iterable[str]) -> DomainError:
    """Return the error for several websites with the same domain."""
    ids = sorted(website_ids, key=lambda website_id: (len(website_id), website_id))
    problem = f"{len(ids)} websites have the domain {domain!r}: ids {', '.join(ids)}."
    remedy = "Give website_id, or delete all but one of them."
    return DomainError(problem, ids, remedy, permanent=True, before_retry="resolve the duplicates first")


def _has_domain(record: Mapping[str, Any], key: str) -> bool:
    domain = record.get("domain")
    return isinstance(domain, str) and domain_key(domain) == key


def _might_be_of(record: Mapping[str, Any], domain: object) -> bool:
    """Return whether a record can belong to a domain: the domains are equal, or one of the two is unknown."""
    found = record.get("domain")
    return not isinstance(found, str) or not isinstance(domain, str) or same_domain(found, domain)


def might_mean_taken(error: AnalyticsApiError) -> bool:
    """Return whether the error of a create can mean that the domain already exists."""
    return error.status in _MIGHT_MEAN_TAKEN and (not error.errors or "domain" in error.errors)


def _single_website(domain: str, websites: Sequence[Record]) -> Record | None:
    if len(websites) > 1:
        raise duplicates(domain, [str(record["id"]) for record in websites])
    return next(iter(websites), None)


def _has_all_fields(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("domain"), str) and all(has_value(name, record) for name in COMPARED)


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


def _booleans(names: Iterable[str]) -> list[str]:
    """Return the names of the fields whose format the interface does not document."""
    return [name for name in names if isinstance(fields.FIELDS.get(name), fields.Boolean)]


def _rejects_a_boolean(error: AnalyticsApiError, settings: Mapping[str, Any]) -> bool:
    """Return whether the service rejected a boolean of these settings by its name."""
    named = f"{error.message} {' '.join(error.errors)}"
    return error.is_invalid and any(name in named for name in _booleans(settings))


def website_path(website_id: int | str) -> str:
    """Return the path of a website below ``/api/v1``."""
    return f"{WEBSITES}/{quote(fields.check_website_id(website_id), safe='')}"
