# SPDX-License-Identifier: Apache-2.0
"""Writing to the service: creates, updates, and deletes that are checked before and verified afterwards."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar, Unpack, cast

from airflow_provider_analytics.api import fields, laravel
from airflow_provider_analytics.api.domains import check_domain, domain_key, same_domain
from airflow_provider_analytics.api.fields import BooleanTexts, CreateSettings, UpdateSettings
from airflow_provider_analytics.api.laravel import Answer, Record
from airflow_provider_analytics.api.listing import DEFAULT_QUERY
from airflow_provider_analytics.api.reading import (
    WEBSITES,
    LookUp,
    ReadingClient,
    duplicates,
    has_domain,
    other_domain,
    single_website,
    unknown_domain,
    website_path,
    with_location,
)
from airflow_provider_analytics.api.rejections import might_have_been_applied
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.api.verification import (
    COMPARED,
    Comparison,
    Differences,
    ExpectedRecord,
    cause_of,
    has_value,
    is_final,
    with_omitted,
)
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsError,
    DomainError,
    NotAppliedError,
    NotFoundError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import counted, readable

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
#: Statuses that services return for a domain that already exists.
_MIGHT_MEAN_TAKEN = frozenset({400, 409, 422})

Returned = TypeVar("Returned")
Method = TypeVar("Method", bound=Callable[..., Any])

log = logging.getLogger(__name__)


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
        """Raise :class:`DomainError` for the record of another website, or of none; nothing must be sent then."""
        domain = record.get("domain")
        if not isinstance(domain, str):
            if self.domain:
                raise unknown_domain(self.domain, record)
            return
        if not self.domain:
            self.domain = domain
        elif not same_domain(domain, self.domain):
            raise other_domain(self.domain, record)


class AnalyticsClient(ReadingClient):
    """Client of one service with one API key: creates, updates, and deletes websites, and verifies the outcome.

    It returns records and errors as :class:`ReadingClient` does, and takes the same arguments.
    """

    def __init__(self, settings: Settings, transport: Transport | None = None) -> None:
        super().__init__(settings, transport)
        self._not_returned: set[str] = set()
        #: Whether the service responded to a write with 202.
        self._applies_later = False
        #: Texts for false and true in forms.
        self._form_texts = laravel.FORM_TEXTS

    # Creating

    @with_location
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
        existing = single_website(domain, before.websites)
        if existing is None:
            for record in before.variants:
                raise other_domain(domain, record, "If these are two websites, list both domains in a websites file.")
            try:
                return self._create(domain, checked, before)
            except AnalyticsApiError as error:
                if error.created or not might_mean_taken(error):
                    raise
                existing = self._find_new(domain, "", before)  # another task created it
                if existing is None:
                    raise
        if not _has_all_fields(existing):
            existing = self.get_website(existing["id"])
        return WriteResult(existing, sent=False)

    @with_location
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
        comparison = Comparison()
        record = self.send_create(domain, settings)
        created, how = "", "without an id"
        if record is not None:
            created = str(record["id"])
            how = f"with the id {created}"
        try:
            if before is not None or not created:
                row = self._find_new(domain, created, before)
                if row is None:
                    raise _ambiguous(domain, f"The service reported success {how}, but the website is not in the list.")
                created = str(row["id"])
                if _has_all_fields(row):
                    comparison = expected.compare(row)
            if not comparison.record or not comparison.is_as_expected:
                comparison = self.read_until(created, expected)
                self._check(expected, comparison)
        except AnalyticsError as error:
            error.created = created
            raise
        return WriteResult(dict(comparison.record), comparison.unverified, comparison.unsent, created=True)

    def send_create(self, domain: str, settings: Mapping[str, Any]) -> Record | None:
        """Create a website, and return the record of the response; None if the service reports success without an id.

        :param settings: normalized settings.
        :raises AmbiguousWriteError: if the website might or might not have been created.
        """
        form = self._form({"domain": domain, **settings}, self._form_texts)
        try:
            return self._written(self.transport.request("POST", WEBSITES, form=form))
        except AnalyticsError as error:
            if not might_have_been_applied(error):
                raise
            ambiguous = _ambiguous(domain, error.problem, error.detail)
            ambiguous.earlier = (*error.earlier, error)
            raise ambiguous from None

    def _find_new(self, domain: str, website_id: str, before: LookUp | None) -> Record | None:
        """Return the new website of a domain, as it is in the list; None if the list does not contain it.

        The newest 100 websites are fetched until they contain it. They must include a website that existed before the
        create; otherwise the whole list is read.

        :param website_id: its id; empty if it is unknown.
        :param before: the list before the create; None if it was not read.
        :raises DomainError: if the domain has several websites.
        """
        key = domain_key(domain)
        known = None
        if before is not None:
            known = before.newest

        def find() -> Record | None:
            rows = self.newest_websites(known)
            same = [row for row in rows if has_domain(row, key)]
            if len(same) > 1:
                raise duplicates(domain, [str(row["id"]) for row in same])
            if website_id:
                # The service might have written the domain in another way.
                same = [row for row in rows if str(row["id"]) == website_id]
            return next(iter(same), None)

        return self._until(find, bool)

    # Changing and deleting

    @with_location
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

        def send_to(record: Record) -> None:
            nonlocal is_sent
            expected = ExpectedRecord(record, checked, meant.domain or "")
            if attempts:
                expected = expected.following(attempts[-1])
            attempts.append(expected)
            # A read cannot verify an update that changes nothing.
            if not expected.compare(record).is_verified:
                is_sent = True
                self.send_update(meant, checked)

        def send(_: Sequence[int | str]) -> None:
            self.until_found(lambda: self.write_to(meant, self.settings.update_method, send_to))

        def read(ids: Sequence[int | str]) -> Sequence[int | str]:
            nonlocal comparison
            comparison = self.read_until(str(website_id), attempts[-1])
            if self._can_be_omitted(comparison.unverified):
                # Other records reveal whether the service returns these fields at all. The update itself needs no list.
                with suppress(AnalyticsApiError, UnexpectedResponseError):
                    self.page(DEFAULT_QUERY)
                comparison = self.read_until(str(website_id), attempts[-1])
            # A field that appears with the update was omitted before, because it was empty.
            attempts[-1] = replace(attempts[-1], before=with_omitted(dict(attempts[-1].before), self.known_fields))
            comparison = attempts[-1].compare(comparison.record)
            if is_sent and comparison.is_as_expected and not comparison.is_current:
                # No sent value shows whether the read was too early: the website had all of them before.
                self.wait(SETTLE_SECONDS)
                comparison = self.read_until(str(website_id), attempts[-1])
            is_this_website = comparison.other_domain is None
            if is_this_website and comparison.not_applied and not comparison.unsent:
                self.note_not_applied(comparison.not_applied)
                return ids
            return ()

        send([website_id])
        self.until_in_effect([website_id], read, send, resends=1)
        if is_sent and comparison.other_domain is not None:
            raise other_domain(attempts[-1].domain, comparison.record, "It might have got this update, so check it.")
        if is_sent and comparison.unsent:
            self._raise_unsent(comparison, attempts[-1].before)
        self._check(attempts[-1], comparison)
        return WriteResult(dict(comparison.record), comparison.unverified, comparison.unsent, sent=is_sent)

    def write_to(self, meant: Meant, method: str, send: Callable[[Record], Returned]) -> Returned:
        """Fetch a website, and call ``send`` with its record; repeat both if one fails and that is safe.

        Every update, delete, and restore passes here. The write immediately follows the read: all waiting comes before
        both. So each write is computed from a current record of the website that is meant.

        :param method: HTTP method of the write.
        :param send: sends one request.
        :raises DomainError: if the website is not the one that is meant; nothing is sent then.
        """

        def attempt() -> Returned:
            record = self.read_once(meant.website_id)
            meant.check(record)
            return send(record)

        return self.transport.retried(attempt, method, number=2)

    def send_update(self, meant: Meant, settings: Mapping[str, Any]) -> None:
        """Send normalized settings, with one request; only for :meth:`write_to`.

        If the service rejects the texts of a boolean, the website is checked again, and the settings are sent once more
        with the other texts.
        """
        rejections: list[AnalyticsApiError] = []
        for texts in (self._form_texts, laravel.OTHER_TEXTS[self._form_texts]):
            if rejections:
                meant.check(self.read_once(meant.website_id))
            form, path = self._form(settings, texts), website_path(meant.website_id)
            try:
                self._written(self.transport.once(self.settings.update_method, path, form=form))
            except AnalyticsApiError as error:
                # Only a rejection proves that nothing was stored.
                if not _rejects_a_boolean(error, settings):
                    raise
                rejections.append(error)
            else:
                self._form_texts = texts
                return
        raise rejections[0]

    def _form(self, settings: Mapping[str, Any], booleans: BooleanTexts) -> dict[str, str]:
        """Return the form fields of normalized settings. A password is redacted from now on."""
        form = fields.form(settings, booleans)
        if "password" in form:
            self.redact.add(form["password"])
        return form

    def note_not_applied(self, names: Collection[str]) -> None:
        """Note that the service did not store these sent fields: booleans are sent as the other texts from now on."""
        if _booleans(names):
            self._form_texts = laravel.OTHER_TEXTS[self._form_texts]

    @with_location
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
        :raises DomainError: if the website is not the one that is meant; an earlier attempt might have deleted it.
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
        except DomainError as error:
            if deleted is not None:
                # The id was given to a new website, or the domain was renamed and nothing was deleted.
                error.remedy = "The response to an earlier delete was lost, so check whether the website is deleted."
            raise
        except NotFoundError as error:
            if deleted is not None:
                return deleted  # by the attempt whose response was lost
            if self._becomes_gone(website_id, None):
                raise
            still = {"website": "still exists, although the service responded with 'not found'"}
            raise NotAppliedError(website_id, still) from error

    # Verification

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
        known = self.known_fields | self._not_returned
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


def _ambiguous(domain: str, reason: str, request: str = "") -> AmbiguousWriteError:
    error = AmbiguousWriteError(reason, domain, request)
    error.remedy = "A retry of an operator looks the website up first. In your own code, call ensure_website."
    return error


def might_mean_taken(error: AnalyticsApiError) -> bool:
    """Return whether the error of a create can mean that the domain already exists."""
    return error.status in _MIGHT_MEAN_TAKEN and (not error.errors or "domain" in error.errors)


def _has_all_fields(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("domain"), str) and all(has_value(name, record) for name in COMPARED)


def _booleans(names: Iterable[str]) -> list[str]:
    """Return the names of the fields whose format the interface does not document."""
    return [name for name in names if isinstance(fields.FIELDS.get(name), fields.Boolean)]


def _rejects_a_boolean(error: AnalyticsApiError, settings: Mapping[str, Any]) -> bool:
    """Return whether the service rejected a boolean of these settings by its name."""
    named = f"{error.message} {' '.join(error.errors)}"
    return error.is_invalid and any(name in named for name in _booleans(settings))
