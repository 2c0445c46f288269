"""Client of the service: proven lists, domain lookup, and verified writes."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from airflow_provider_analytics.api import dialect, fields
from airflow_provider_analytics.api.checks import short_repr
from airflow_provider_analytics.api.domains import check_domain, domain_key, is_variant, may_become, spellings
from airflow_provider_analytics.api.fields import CreateSettings, ListFilters, UpdateSettings
from airflow_provider_analytics.api.kinds import Privacy
from airflow_provider_analytics.api.listing import DEFAULT_QUERY, Listing, read_again, requests_of_a_list
from airflow_provider_analytics.api.operations import WEBSITES, Operations
from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.api.stopping import Look
from airflow_provider_analytics.api.transport import Transport, may_have_been_applied
from airflow_provider_analytics.api.verification import COMPARED, Comparison, Expected, shows
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsError,
    DuplicateWebsiteError,
    IncompleteListError,
    NotAppliedError,
    NotFoundError,
    OtherDomainError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import Redactor, readable

#: Seconds to wait before a website is fetched again, if the service does not return a write yet.
CONFIRM_WAITS: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
#: Maximum number of websites found by a search. If there are more, the search is not read to its end.
SEARCH_LIMIT = 100
#: Statuses that services return for a domain that already exists.
MAY_MEAN_TAKEN = frozenset({400, 409, 422})

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")
Record = dict[str, Any]

log = logging.getLogger(__name__)


def _with_location(
    method: Callable[Concatenate[AnalyticsClient, Arguments], Returned],
) -> Callable[Concatenate[AnalyticsClient, Arguments], Returned]:
    """Add the service and the connection to the errors of a method."""

    @functools.wraps(method)
    def located(self: AnalyticsClient, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        try:
            return method(self, *args, **kwargs)
        except AnalyticsError as error:
            error.where = error.where or self.settings.where
            # A log needs only the frames of the caller: the message contains the cause.
            raise error.with_traceback(None) from None

    return located


@dataclass(frozen=True)
class LookUp:
    """Result of looking up a domain in the complete list.

    :param websites: the websites of exactly this domain.
    :param variants: websites of a domain that the service may have derived from this one (:func:`domains.may_become`).
    :param newest: id of the newest website of the list; None without websites.
    """

    websites: Sequence[Record]
    variants: Sequence[Record]
    newest: str | None


@dataclass(frozen=True)
class Written:
    """A website after a verified write.

    :param record: record that the service returns.
    :param unverified: fields that the record cannot verify, such as the password.
    :param created: whether this call created it.
    :param sent: whether this call sent anything.
    """

    record: Record
    unverified: tuple[str, ...] = ()
    created: bool = False
    sent: bool = True


class AnalyticsClient:
    """Client of one service with one API key; thread-safe.

    Every method validates its arguments before it sends a request, and raises :class:`ValueError` if one is invalid.
    All other errors are those of :mod:`airflow_provider_analytics.exceptions`. Records are plain dicts as the service
    returns them. Their fields are not documented; only ``id`` is certain (docs/interface.md, Not documented).

    :param settings: base URL, API key and options.
    :param transport: sends the requests; by default a new one for these settings.
    """

    def __init__(self, settings: Settings, transport: Transport | None = None) -> None:
        self.settings = settings
        self._transport = transport or Transport(settings)
        #: The six operations without verification, one request each.
        self.operations = Operations(self._transport)

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._transport.close()

    def stop(self) -> None:
        """Send no further requests, cancel those under way, and stop waiting; safe in a signal handler.

        See :meth:`Transport.stop`.
        """
        self._transport.stop()

    def watch(self, look: Look) -> None:
        """Check before requests, at most every second, whether to continue; stop if ``look`` returns a reason."""
        self._transport.watch(look)

    @property
    def stopped(self) -> bool:
        """Whether the client sends no further requests."""
        return self._transport.stopped

    @property
    def stopped_because(self) -> str:
        """Why the client sends no further requests."""
        return self._transport.stopped_because

    def wait(self, seconds: float) -> None:
        """Wait for a number of seconds, or until :meth:`stop`."""
        self._transport.wait(seconds)

    @property
    def base_url(self) -> str:
        """Base URL without a trailing slash."""
        return self.settings.base_url

    @property
    def stats(self) -> Stats:
        """Counters of this client."""
        return self._transport.stats

    @property
    def redact(self) -> Redactor:
        """Redactor with the secrets of this client; call it to make a text readable."""
        return self._transport.redact

    def for_output(self, data: Returned) -> Returned:
        """Return JSON data without keys that name a secret, and without the secrets of this client."""
        return without_secrets(data, self._transport.redact)

    # Reading

    def iter_websites(self, **filters: Unpack[ListFilters]) -> Listing:
        """Return an iterator that reads the list once. See :class:`Listing` for when its records may be used."""
        query = fields.list_query(boolean_texts=self.settings.boolean_texts, **filters)
        unwanted = threading.Event()
        return Listing(
            functools.partial(self._page, unwanted=unwanted),
            query,
            self.settings.page_parameter,
            parallel=self.settings.parallel_requests,
            unwanted=unwanted,
            wait=self._transport.wait,
            stats=self.stats,
            redact=self.redact,
        )

    @_with_location
    def _page(self, query: Mapping[str, str], unwanted: threading.Event) -> dialect.Page:
        return self.operations.page(query, unwanted)

    @_with_location
    def list_websites(self, **filters: Unpack[ListFilters]) -> list[Record]:
        """Return the complete list. A list that changes during the reading is read again.

        :raises IncompleteListError: if the list cannot be proven complete.
        """
        fields.list_query(boolean_texts=self.settings.boolean_texts, **filters)
        return read_again(list, lambda: self.iter_websites(**filters))

    @_with_location
    def list_websites_within(self, requests: int) -> list[Record] | None:
        """Return the complete list; None if it takes more than about ``requests`` requests after the first one.

        The number is computed from the total of the first page. Without a total, the result is None.

        :raises IncompleteListError: if the list cannot be proven complete.
        """

        def consume(listing: Listing) -> list[Record] | None:
            for first in listing:
                if listing.total is None or requests_of_a_list(listing.total) - 1 > requests:
                    return None
                return [first, *listing]
            return []

        return read_again(consume, self.iter_websites)

    @_with_location
    def get_website(self, website_id: int | str) -> Record:
        """Return the record of a website."""
        return self.operations.show(fields.check_website_id(website_id))

    @_with_location
    def get_account(self) -> Record:
        """Return the record of the account that the API key belongs to."""
        return self.operations.account()

    # Lookup

    @_with_location
    def find_website(self, domain: str) -> Record | None:
        """Return the website of exactly this domain, or None (see :func:`domains.domain_key`).

        :raises DuplicateWebsiteError: if several websites have the domain.
        """
        found = self.search_website(domain)
        return found if found is not None else _single_website(domain, self.look_up(domain).websites)

    @_with_location
    def search_website(self, domain: str) -> Record | None:
        """Return the website that the service's search finds for a domain; None if the complete list is needed.

        The interface does not document which websites a search matches, nor how old its index is. So the result counts
        only if it was read to its proven end and contains exactly one website, and the record is that of show. The
        search text is the domain in mixed case, which no website has. A case-sensitive search could find only one of
        two spellings: this way it finds none.
        """
        wanted = check_domain(domain)
        found: dict[str, Record] = {}
        for spelling in spellings(wanted):
            try:
                with closing(self.iter_websites(search=_to_mixed_case(spelling), search_by="domain")) as listing:
                    for record in listing:
                        if (listing.total or 0) > SEARCH_LIMIT:
                            return None
                        if _has_domain(record, domain_key(wanted)):
                            found[str(record["id"])] = record
            except (IncompleteListError, AnalyticsApiError) as error:
                if isinstance(error, AnalyticsApiError) and error.status not in dialect.NO_SUCH_PAGE:
                    raise
                log.info("The search for %s cannot be used: %s", spelling, error.text)
                return None
        if len(found) != 1:
            return None
        shown = self.website_or_none(next(iter(found)))  # the search may use an old index
        return shown if shown is not None and _has_domain(shown, domain_key(wanted)) else None

    @_with_location
    def look_up(self, domain: str) -> LookUp:
        """Look a domain up in the complete list.

        :raises IncompleteListError: if the list cannot be proven complete.
        :raises UnexpectedResponseError: if the domain is not in the list, and a website has no domain in its record.
        """
        wanted, others = domain_key(check_domain(domain)), may_become(domain)

        def consume(listing: Listing) -> LookUp:
            websites, variants, newest, nameless = [], [], None, None
            for record in listing:
                newest = newest or str(record["id"])
                if not isinstance(record.get("domain"), str):
                    nameless = nameless or record["id"]
                elif _has_domain(record, wanted):
                    websites.append(record)
                elif domain_key(record["domain"]) in others:
                    variants.append(record)
            if nameless is not None and not websites:
                raise UnexpectedResponseError(
                    f"Website {nameless} shows no domain, so it may be {domain!r}: the domain cannot be looked up.",
                    200,
                    "GET",
                    dialect.API_PREFIX + WEBSITES,
                )
            return LookUp(websites, variants, newest)

        return read_again(consume, self.iter_websites)

    # Writing

    @_with_location
    def ensure_website(self, domain: str, **settings: Unpack[CreateSettings]) -> Written:
        """Return the website of a domain; create it with these settings if it does not exist.

        The client reads the complete list before the create, and the newest websites after it. So it detects a second
        website of the domain that another task creates at the same time. An existing website is returned unchanged.

        :raises DuplicateWebsiteError: if several websites have the domain.
        :raises OtherDomainError: if the service seems to write the domain in another way, and has such a website.
        :raises AnalyticsError: as :meth:`create_website`.
        """
        checked = fields.check_create(**settings)
        before = self.look_up(domain)
        existing = _single_website(domain, before.websites)
        if existing is None:
            for record in before.variants:
                raise _other_domain(domain, record, "If these are two websites, create this one with the hook.")
            try:
                return self._create(domain, checked, before)
            except AnalyticsApiError as error:
                if error.created or error.status not in MAY_MEAN_TAKEN:
                    raise
                existing = _single_website(domain, self.look_up(domain).websites)  # another task created it in between
                if existing is None:
                    raise
        return Written(existing if _has_all_fields(existing) else self.get_website(existing["id"]), sent=False)

    @_with_location
    def create_website(self, domain: str, **settings: Unpack[CreateSettings]) -> Written:
        """Create a website, and verify it. The request is never sent twice.

        :raises AmbiguousWriteError: if the website may or may not have been created.
        :raises OtherDomainError: if the service returns another domain than the one sent.
        :raises NotAppliedError: if the service returns settings other than the sent ones and the defaults.
        """
        return self._create(check_domain(domain), fields.check_create(**settings), None)

    def _create(self, domain: str, settings: Mapping[str, Any], before: LookUp | None) -> Written:
        """Create a website, and verify it. With ``before``, also verify that it is the only one of its domain."""
        with _CountedChange(self.stats):
            known = before.newest if before else None
            website_id = self.send_create(domain, settings)
            row = None
            if website_id is None:
                row = self.find_created(domain, None, known)
                website_id = str(row["id"])
            try:
                if before is not None:
                    row = row or self.find_created(domain, website_id, known)
                expected = Expected.of_new(domain, settings)
                if row is not None and expected.compare(row).holds and _has_all_fields(row):
                    return Written(row, expected.compare(row).unverified, created=True)
                record, comparison = self.verify(website_id, expected)
                return Written(record, comparison.unverified, created=True)
            except AnalyticsError as error:
                error.created = website_id
                raise

    def send_create(self, domain: str, settings: Mapping[str, Any]) -> str | None:
        """Create a website, and return its id; None if the service reports success without an id.

        :param settings: normalized settings.
        :raises AmbiguousWriteError: if the website may or may not have been created.
        """
        form = fields.form({"domain": domain, **settings}, self.settings.boolean_texts)
        self._hide_password(form, form.get("privacy", str(Privacy.PUBLIC.value)))
        try:
            record = self.operations.create(form)
        except AnalyticsError as error:
            if not may_have_been_applied(error):
                raise
            raise _ambiguous(domain, error.text, error) from None
        return None if record is None else str(record["id"])

    @_with_location
    def find_created(self, domain: str, website_id: str | None, known: str | None) -> Record:
        """Return a new website, as it is in the list, if it is the only one of its domain.

        The newest 100 websites are fetched until they contain it. They must include a website that existed before the
        create; otherwise the whole list is read.

        :param website_id: its id; None if the service did not return it.
        :param known: id of the newest website before the create; None if there was none, or if it is unknown.
        :raises DuplicateWebsiteError: if several websites have the domain.
        :raises AmbiguousWriteError: if the list does not contain it.
        """
        key = domain_key(domain)

        def read() -> Record | None:
            rows = self.newest_websites(known)
            same = [row for row in rows if _has_domain(row, key) or str(row["id"]) == website_id]
            own = [row for row in same if website_id is None or str(row["id"]) == website_id]
            if len(same) > 1:
                raise DuplicateWebsiteError(domain, sorted({str(row["id"]) for row in same}, key=_numeric_order))
            return own[0] if own else None

        found = self._until(read, lambda row: row is not None)
        if found is None:
            created = f"with the id {website_id}" if website_id else "without an id"
            reason = f"the service reported success {created}, but the website is not in the list."
            raise _ambiguous(domain, reason, None)
        return found

    def newest_websites(self, known: str | None) -> Sequence[Record]:
        """Return the newest websites, down to a known one; all websites if one page does not contain it.

        :param known: id of the website that was the newest; None if there was none, or if it is unknown.
        """
        page = self.operations.page(DEFAULT_QUERY)
        if known is None:
            is_enough = page.total == len(page.rows) < int(DEFAULT_QUERY["per_page"])
        else:
            is_enough = any(_is_at_most_as_new(row["id"], known) for row in page.rows)
        return dialect.not_deleted(page.rows) if is_enough else self.list_websites()

    @_with_location
    def update_website(
        self, website_id: int | str, *, expected_domain: str | None = None, **settings: Unpack[UpdateSettings]
    ) -> Written:
        """Change the given settings of a website, and verify that only these changed.

        If the website already has all settings, no update is sent.

        :param expected_domain: the domain that the website must have.
        :raises OtherDomainError: if the website has another domain.
        :raises NotAppliedError: if the service returns something other than *before + sent*.
        """
        checked = fields.check_update(**settings)
        before: Record = {}
        lost: Expected | None = None
        sent = False

        def expected() -> Expected:
            found = Expected(before, checked, expected_domain or str(before.get("domain") or ""))
            return found.following(lost)

        def may_be_applied() -> None:
            nonlocal lost
            lost = expected()

        def work_out(record: Record) -> Mapping[str, Any] | None:
            nonlocal before, sent
            before = record
            if expected_domain and Expected({}, {}, expected_domain).compare(record).other_domain is not None:
                raise _other_domain(expected_domain, record)
            # A read cannot verify an update that changes nothing.
            if expected().compare(record).is_verified:
                return None
            sent = True
            return checked

        with _CountedChange(self.stats):
            self.change_website(website_id, work_out, may_be_applied)
            record, comparison = self.verify(str(website_id), expected())
        return Written(record, comparison.unverified, sent=sent)

    @_with_location
    def change_website(
        self,
        website_id: int | str,
        work_out: Callable[[Record], Mapping[str, Any] | None],
        lost: Callable[[], None] = lambda: None,
    ) -> Record | None:
        """Compute an update from the current record, send it, and return the record of the response, if it has one.

        The update immediately follows the read: all waiting comes before both. A retry repeats the read, so that each
        update is computed from a current record. The outcome is not verified: see :meth:`verify`.

        :param work_out: returns the normalized settings to send for a record, or None to send no update.
        :param lost: called after an update that may or may not have been applied.
        :raises ValueError: if ``work_out`` raises it.
        """
        asked = fields.check_website_id(website_id)
        at_once = Operations(self._transport, at_once=True)

        def attempt() -> Record | None:
            before = at_once.show(asked)
            settings = work_out(before)
            if settings is None:
                return None
            form = fields.form(settings, self.settings.boolean_texts)
            self._hide_password(form, form.get("privacy", before.get("privacy")))
            try:
                return at_once.update(asked, form)
            except AnalyticsError as error:
                if may_have_been_applied(error):
                    lost()
                raise

        return self._transport.together(attempt)

    @_with_location
    def put_back(self, website_id: str, before: Mapping[str, Any]) -> None:
        """Restore the values of an earlier record, and verify them. Passwords are not in records.

        :raises NotAppliedError: if the service returns other values.
        """
        shown = [name for name in COMPARED if fields.FIELDS[name].on_update and shows(name, before)]
        settings = {name: value for name in shown if (value := fields.sendable(name, before[name])) is not None}
        expected = Expected({}, settings, str(before.get("domain") or ""), compared=())
        record = self.get_website(website_id)
        if not expected.compare(record).holds:
            # A list that the service returns as empty may have entries: sending it without need would clear it.
            needed = {
                name: value
                for name, value in settings.items()
                if value not in ((), [], "") or record.get(name) != before[name]
            }
            self.operations.update(website_id, fields.form(needed, self.settings.boolean_texts))
            record, _ = self.verify(website_id, expected)
        # Values in an unknown form cannot be sent.
        left = [
            name for name in COMPARED if name in before and name not in settings and record.get(name) != before[name]
        ]
        if left:
            differences = {
                name: f"is {short_repr(record.get(name))}, it was {short_repr(before[name])}" for name in left
            }
            raise NotAppliedError(website_id, differences, "The service returns it in a form that cannot be sent back.")

    @_with_location
    def delete_website(self, website_id: int | str) -> None:
        """Delete a website, and verify that it is gone.

        :raises NotFoundError: if the website does not exist, unless a previous attempt of this call may have deleted
            it.
        :raises NotAppliedError: if the service still returns it.
        """
        asked = fields.check_website_id(website_id)
        with _CountedChange(self.stats):
            self.send_delete(asked)
            if not self._until(lambda: self.is_gone(asked), bool):
                raise NotAppliedError(asked, {"website": "still exists after it was deleted"})

    def send_delete(self, website_id: str) -> None:
        """Delete a website, without verifying the outcome.

        :raises NotFoundError: as :meth:`delete_website`.
        :raises NotAppliedError: if the service responds with "not found", but still returns the website.
        """
        try:
            self.operations.delete(website_id)
        except NotFoundError as error:
            if any(may_have_been_applied(earlier) for earlier in error.earlier):
                log.info("Website %s no longer exists after a delete whose response was lost.", website_id)
            elif self.is_gone(website_id):
                raise
            else:
                still = {"website": "still exists, although the service responded to the delete with 'not found'"}
                raise NotAppliedError(website_id, still) from error

    def website_or_none(self, website_id: str) -> Record | None:
        """Return a website by its id, or None. A single response of "not found" may be wrong, so it is repeated."""
        try:
            return self.get_website(website_id)
        except NotFoundError:
            return None if self.is_gone(website_id) else self.get_website(website_id)

    def is_gone(self, website_id: str) -> bool:
        """Return whether a website no longer exists. If the request fails otherwise, the complete list is checked."""
        try:
            self.operations.show(website_id)
        except NotFoundError:
            return True
        except (AnalyticsApiError, UnexpectedResponseError) as error:
            log.info("Whether website %s is gone is looked up in the list: %s", website_id, error.text)
            try:
                return all(str(record["id"]) != website_id for record in self.list_websites())
            except NotFoundError as missing:  # the list, not the website
                raise AnalyticsApiError(missing.status, missing.method, missing.path, missing.message) from missing
        return False

    # Verification

    @_with_location
    def verify(self, website_id: str, expected: Expected) -> tuple[Record, Comparison]:
        """Fetch a website after a write until it is as expected, and return its record.

        A service may take a moment until it returns a write or a new website.

        :raises NotFoundError: if the service does not return it.
        :raises OtherDomainError: if it has another domain.
        :raises NotAppliedError: if it is not as expected.
        """
        missing: NotFoundError | None = None

        def read() -> tuple[Record, Comparison] | None:
            nonlocal missing
            try:
                record = self.operations.show(website_id)
            except NotFoundError as error:
                missing = error
                return None
            return record, expected.compare(record)

        found = self._until(read, lambda one: one is not None and one[1].holds)
        if found is not None and found[1].holds:
            if hidden := found[1].unverified:
                log.warning("Website %s: the service does not return %s. Not verified.", website_id, ", ".join(hidden))
            return found
        if found is None:
            assert missing is not None  # noqa: S101 - read returned None
            raise missing
        record, comparison = found
        if comparison.other_domain is not None:
            raise _other_domain(expected.domain, record)
        differing = {**comparison.lacking, **comparison.besides}
        raise NotAppliedError(website_id, differing)

    def _until(self, read: Callable[[], Returned], is_good: Callable[[Returned], bool]) -> Returned:
        """Return the first good result of ``read``, or the last one; wait between calls."""
        found = read()
        for seconds in CONFIRM_WAITS:
            if is_good(found):
                break
            self._transport.wait(seconds)
            found = read()
        return found

    def _hide_password(self, form: Mapping[str, str], privacy: object) -> None:
        if "password" not in form:
            return
        self._transport.redact.add(form["password"])
        if privacy is not None and not fields.same_setting("privacy", privacy, Privacy.PASSWORD):
            log.warning(
                "The password has no effect: privacy is %s, and a password is used only with %s.",
                readable(str(fields.normalise("privacy", privacy)), 100),
                Privacy.PASSWORD.label,
            )


class _CountedChange:
    """Counts a change of a website as applied or failed; does not count a bad argument.

    A class, not a generator: this keeps frames of ``contextlib`` out of the traceback in the task log.
    """

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._stats.count("changes_applied")
        elif isinstance(error, AnalyticsError):
            self._stats.count("changes_failed")


def _ambiguous(domain: str, reason: str, cause: AnalyticsError | None) -> AmbiguousWriteError:
    error = AmbiguousWriteError(f"{reason} The request is not sent again.", domain)
    error.earlier = () if cause is None else (*cause.earlier, cause)
    return error


def _other_domain(domain: str, record: Mapping[str, Any], advice: str = "") -> OtherDomainError:
    shown = str(record["domain"])
    remedy = f"If the service writes it so, write domain={shown!r}." if is_variant(domain, shown) else ""
    return OtherDomainError(domain, readable(shown), str(record["id"]), " ".join(filter(None, (remedy, advice))))


def _has_domain(record: Mapping[str, Any], key: str) -> bool:
    domain = record.get("domain")
    return isinstance(domain, str) and domain_key(domain) == key


def _single_website(domain: str, websites: Sequence[Record]) -> Record | None:
    if len(websites) > 1:
        raise DuplicateWebsiteError(domain, [str(record["id"]) for record in websites])
    return websites[0] if websites else None


def _has_all_fields(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("domain"), str) and all(shows(name, record) for name in COMPARED)


def _to_mixed_case(text: str) -> str:
    """Return a text with ASCII letters in alternating case."""
    return "".join(
        letter.upper() if letter.isascii() and place % 2 else letter.lower() if letter.isascii() else letter
        for place, letter in enumerate(text)
    )


def _numeric_order(website_id: str) -> tuple[int, str]:
    return (int(website_id), "") if website_id.isdecimal() else (0, website_id)


def _is_at_most_as_new(website_id: object, known: str) -> bool:
    """Return whether a website is as old as a known one, or older."""
    text = str(website_id)
    return text == known or (text.isdecimal() and known.isdecimal() and int(text) <= int(known))
