"""The six operations of the service (docs/interface.md, Operations)."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack
from urllib.parse import quote

from airflow_provider_analytics.api import dialect, fields
from airflow_provider_analytics.api.domains import check_domain, is_variant, may_become, same_domain, spellings
from airflow_provider_analytics.api.fields import CreateSettings, ListFilters, UpdateSettings
from airflow_provider_analytics.api.kinds import Privacy, Secret
from airflow_provider_analytics.api.listing import Listing, read_again, requests_of_a_list
from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.api.stopping import Look
from airflow_provider_analytics.api.transport import Transport, may_have_been_applied
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsError,
    DuplicateWebsiteError,
    IncompleteListError,
    NotAppliedError,
    NotFoundError,
    OtherDomainError,
    StoppedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import Redactor, readable

_WEBSITES = "/websites"
_ACCOUNT = "/account"

#: Seconds to wait before a website is read once more that does not show a write yet.
CONFIRM_WAITS: tuple[float, ...] = (0.5, 1.0, 2.0)
#: A search that finds more websites does not tell them apart: it is not read to its end.
SEARCH_LIMIT = 100

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

log = logging.getLogger(__name__)


def _located(
    method: Callable[Concatenate[AnalyticsClient, Arguments], Result],
) -> Callable[Concatenate[AnalyticsClient, Arguments], Result]:
    """Let errors of a method name the service and the connection."""

    @functools.wraps(method)
    def located(self: AnalyticsClient, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(self, *args, **kwargs)
        except AnalyticsError as error:
            error.where = error.where or self.settings.where
            # A log shows the frames of the caller: what failed inside stands in the message.
            raise error.with_traceback(None) from None

    return located


class AnalyticsClient:
    """Client of one service with one API key; thread-safe.

    Every method validates its arguments before it sends anything (:class:`ValueError`), and otherwise raises the
    errors of :mod:`airflow_provider_analytics.exceptions`. Records are plain dicts as the service returns them. Their
    fields are not documented; only ``id`` is certain (docs/interface.md, Not documented).

    :param settings: base URL, API key and options.
    :param transport: sends the requests; by default a new one for these settings.
    """

    def __init__(self, settings: Settings, transport: Transport | None = None) -> None:
        self.settings = settings
        self._transport = transport or Transport(settings)

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
        """Begin no request any more, and end all waiting; safe in a signal handler.

        Requests under way end; every other one raises :class:`StoppedError`.
        """
        self._transport.stop()

    def watch(self, look: Look) -> None:
        """Ask before requests, at most every second, whether to go on; stop if ``look`` returns why not."""
        self._transport.watch(look)

    @property
    def stopped(self) -> bool:
        """Whether no request is begun any more."""
        return self._transport.stopped

    @property
    def stopped_because(self) -> str:
        """Why, if no request is begun any more."""
        return self._transport.stopped_because

    def wait(self, seconds: float) -> None:
        """Wait so many seconds, or until :meth:`stop`."""
        self._transport.wait(seconds)

    @property
    def base_url(self) -> str:
        """Base URL without a trailing slash."""
        return self.settings.base_url

    @property
    def stats(self) -> Stats:
        """What was done so far."""
        return self._transport.stats

    @property
    def redact(self) -> Redactor:
        """The secrets that this client was given; call it to make a text readable."""
        return self._transport.redact

    def for_output(self, data: Result) -> Result:
        """Return JSON data without keys that name a secret, and without the secrets that this client was given."""
        return without_secrets(data, self._transport.redact)

    def iter_websites(self, **filters: Unpack[ListFilters]) -> Listing:
        """Return an iterator that reads the list once; see :class:`Listing` for when its records may be used."""
        query = fields.list_query(boolean_texts=self.settings.boolean_texts, **filters)
        unwanted = threading.Event()
        return Listing(
            functools.partial(self._page, unwanted=unwanted),
            query,
            self.settings.page_parameter,
            parallel=self.settings.parallel_requests,
            unwanted=unwanted,
            stats=self.stats,
            redact=self.redact,
        )

    @_located
    def list_websites(self, **filters: Unpack[ListFilters]) -> list[dict[str, Any]]:
        """Return the complete list; a list that changes while it is read is read again.

        :raises IncompleteListError: if the list cannot be proven complete.
        """
        fields.list_query(boolean_texts=self.settings.boolean_texts, **filters)
        return read_again(list, lambda: self.iter_websites(**filters))

    @_located
    def list_websites_within(self, requests: int) -> list[dict[str, Any]] | None:
        """Return the complete list; None if it takes about so many more requests than the first one.

        The first page tells: it names the number of all websites. Where it does not, the answer is None.

        :raises IncompleteListError: if the list cannot be proven complete.
        """

        def consume(listing: Listing) -> list[dict[str, Any]] | None:
            for first in listing:
                if listing.total is None or requests_of_a_list(listing.total) - 1 > requests:
                    return None
                return [first, *listing]
            return []

        return read_again(consume, self.iter_websites)

    @_located
    def search_domain(self, domain: str) -> list[dict[str, Any]] | None:
        """Return all websites of a domain that the service's search finds; None if it does not show any for certain.

        :raises AnalyticsError: if the service fails.
        """
        found: dict[str, dict[str, Any]] = {}
        for spelling in spellings(domain):
            try:
                with closing(self.iter_websites(search=spelling, search_by="domain")) as listing:
                    for record in listing:
                        if (listing.total or 0) > SEARCH_LIMIT:
                            return None
                        if _has_domain(record, domain):
                            found[str(record["id"])] = record
            except IncompleteListError:
                return None
            except AnalyticsApiError as error:
                if error.status not in dialect.NO_SUCH_PAGE:
                    raise
                return None
        return list(found.values()) or None

    @_located
    def get_website(self, website_id: int | str) -> dict[str, Any]:
        """Return the record of a website."""
        asked = fields.check_website_id(website_id)
        answer = self._transport.request("GET", _path(asked))
        return _of_website(asked, dialect.record(answer), answer)

    @_located
    def find_website(self, domain: str) -> dict[str, Any] | None:
        """Return the website of exactly this domain, or None (see :func:`domains.domain_key`).

        What the service's search matches is not documented. So a match is accepted, but an empty result is not: the
        whole list is read instead.

        :raises DuplicateWebsiteError: if several websites have the domain.
        """
        wanted = check_domain(domain)
        matches = self._search(wanted) or read_again(lambda listing: _matches(listing, wanted), self.iter_websites)
        if len(matches) > 1:
            raise DuplicateWebsiteError(wanted, [str(record["id"]) for record in matches])
        return matches[0] if matches else None

    def _search(self, wanted: str) -> list[dict[str, Any]]:
        """Return the websites of a domain that the service's search finds, in whatever way it writes them."""
        found: dict[str, dict[str, Any]] = {}
        for spelling in spellings(wanted):
            try:
                with closing(self.iter_websites(search=spelling, search_by="domain")) as listing:
                    for record in islice(listing, SEARCH_LIMIT):
                        if _has_domain(record, wanted):
                            found[str(record["id"])] = record
            except (IncompleteListError, AnalyticsApiError) as error:
                if isinstance(error, AnalyticsApiError) and error.status not in dialect.NO_SUCH_PAGE:
                    raise
                log.info("Searched for %s without a result that can be used: %s", spelling, error.text)
        return list(found.values())

    @_located
    def create_website(self, domain: str, **settings: Unpack[CreateSettings]) -> dict[str, Any]:
        """Create a website and return its record; the create is never applied twice.

        If the outcome is unknown, the domain is looked up: a website with this domain counts as the created one. What
        the service shows is compared with what was sent.

        :raises AmbiguousWriteError: if the website may or may not have been created.
        :raises OtherDomainError: if the service shows another domain than the one sent.
        :raises NotAppliedError: if the service shows other settings than those sent.
        :raises StoppedError: with the id of the website, if it was created and could not be checked any more.
        """
        form = fields.create_form(domain, **settings)
        self._hide_password(form, form.get("privacy", str(Privacy.PUBLIC.value)))
        try:
            answer = self._transport.request("POST", _WEBSITES, form=form)
            record = dialect.record_or_none(answer)
            if record is None:
                record = self._created(domain, "the response holds no website.", None)
        except AnalyticsError as error:
            if not may_have_been_applied(error):
                raise
            record = self._created(domain, error.text, error)
        try:
            if "domain" not in record:
                record = self.get_website(record["id"])
            self._check_domain(record, domain)
            return self._as_sent(record, settings)
        except StoppedError as error:
            raise StoppedError(
                f"Stopped: {self.stopped_because}. The website {domain!r} was created, with the id {record['id']}, and "
                "could not be checked any more.",
                str(record["id"]),
            ) from error

    @_located
    def update_website(self, website_id: int | str, **settings: Unpack[UpdateSettings]) -> dict[str, Any]:
        """Change the given settings of a website and return its record; the others stay as they are.

        What the service shows is compared with what was sent.

        :raises NotAppliedError: if the service shows other settings than those sent.
        """
        form = fields.update_form(boolean_texts=self.settings.boolean_texts, **settings)
        asked = fields.check_website_id(website_id)
        self._hide_password(form, form.get("privacy"))
        record = None
        try:
            answer = self._transport.request(self.settings.update_method, _path(asked), form=form)
            record = dialect.record_or_none(answer)
            if record is not None:
                _of_website(asked, record, answer)
        except UnexpectedResponseError as error:
            if error.status not in dialect.UNCONFIRMED:
                raise
        if record is None:
            shown = self._as_sent(self.get_website(asked), settings, is_shown=True)
        else:
            shown = self._as_sent(record, settings)
        if "password" in form and "privacy" not in form and "privacy" in shown:
            self._warn_without_effect(shown["privacy"])
        return shown

    @_located
    def change_website(
        self,
        website_id: int | str,
        work_out: Callable[[dict[str, Any]], UpdateSettings | None],
        lost: Callable[[], None] = lambda: None,
    ) -> dict[str, Any] | None:
        """Change a website by what it shows right before, and return the record of the response, if it holds one.

        The update follows the show at once: all waiting comes before. A retry begins with the show, so that nothing is
        sent twice that was worked out once. The outcome is not checked: read the website again.

        :param work_out: returns the settings to send for a record, or None if nothing is to be changed.
        :param lost: called after an update that may or may not have been applied.
        :raises ValueError: as ``work_out`` does, and if it returns invalid settings.
        """
        asked = fields.check_website_id(website_id)

        def attempt() -> dict[str, Any] | None:
            answer = self._transport.once("GET", _path(asked))
            settings = work_out(_of_website(asked, dialect.record(answer), answer))
            if settings is None:
                return None
            form = fields.update_form(boolean_texts=self.settings.boolean_texts, **settings)
            self._hide_password(form, form.get("privacy"))
            try:
                answer = self._transport.once(self.settings.update_method, _path(asked), form=form)
                record = dialect.record_or_none(answer)
                return None if record is None else _of_website(asked, record, answer)
            except AnalyticsError as error:
                if isinstance(error, UnexpectedResponseError) and error.status in dialect.UNCONFIRMED:
                    return None
                if may_have_been_applied(error):
                    lost()
                raise

        return self._transport.together(attempt)

    @_located
    def check_domain_is_kept(self, domain: str) -> None:
        """Raise if the service seems to write this domain in another way, so that every create adds a website.

        That is so if a website has a domain of :func:`domains.may_become`. Websites of both domains can be created with
        :meth:`create_website`.

        :raises OtherDomainError: with that website.
        """
        for other in sorted(may_become(check_domain(domain))):
            for record in self._search(other):
                shown = str(record["domain"])
                advice = f"{_advice(domain, shown)} If these are two websites, create this one with the hook."
                raise OtherDomainError(domain, self.redact(shown), str(record["id"]), advice)

    @_located
    def check_single(self, domain: str) -> None:
        """Raise if the service's search finds several websites of a domain.

        :raises DuplicateWebsiteError: if it does.
        """
        found = self._search(check_domain(domain))
        if len(found) > 1:
            raise DuplicateWebsiteError(domain, [str(record["id"]) for record in found])

    @_located
    def confirm_deleted(self, website_id: int | str) -> None:
        """Read a website after it was deleted, and raise if the service still shows it.

        :raises NotAppliedError: if it does.
        """

        def read() -> None:
            try:
                shown = self.get_website(website_id)
            except NotFoundError:
                return
            except (AnalyticsApiError, UnexpectedResponseError) as error:
                log.warning("Deleted website %s, but could not check it: %s", website_id, error)
                return
            if not dialect.is_deleted(shown):
                raise NotAppliedError(str(website_id), {"website": "still exists after it was deleted"})

        self._until_shown(read)

    @_located
    def confirm_website(
        self, website_id: int | str, domain: str | None = None, **settings: Unpack[UpdateSettings]
    ) -> dict[str, Any]:
        """Read a website after a write, and return its record if it shows what was sent.

        The response to a write may only repeat what was sent.

        :raises OtherDomainError: if the service shows another domain than the one sent.
        :raises NotAppliedError: if the service shows other settings than those sent.
        """

        def read() -> dict[str, Any]:
            shown = self.get_website(website_id)
            if domain is not None:
                self._check_domain(shown, domain)
            return self._as_sent(shown, settings, is_shown=True)

        return self._until_shown(read)

    def _until_shown(self, read: Callable[[], Result]) -> Result:
        """Return what ``read`` returns; a service may take a moment until it shows a write."""
        for seconds in CONFIRM_WAITS:
            try:
                return read()
            except (NotFoundError, NotAppliedError):
                self._transport.wait(seconds)
        try:
            return read()
        except (NotFoundError, NotAppliedError):
            self.stats.count("changes_failed")
            raise

    @_located
    def delete_website(self, website_id: int | str) -> None:
        """Delete a website.

        :raises NotFoundError: if the website does not exist, unless a previous attempt of this call may have deleted
            it.
        """
        try:
            dialect.acknowledged(self._transport.request("DELETE", _path(fields.check_website_id(website_id))))
        except NotFoundError as error:
            if not any(may_have_been_applied(earlier) for earlier in error.earlier):
                raise
            log.info("Website %s no longer exists after a delete whose response was lost.", website_id)

    @_located
    def get_account(self) -> dict[str, Any]:
        """Return the record of the account that the API key belongs to."""
        return dialect.account(self._transport.request("GET", _ACCOUNT))

    @_located
    def _page(self, query: Mapping[str, str], unwanted: threading.Event) -> dialect.Page:
        answer = self._transport.request("GET", _WEBSITES, query=query, unwanted=unwanted)
        self.stats.count("pages")
        page = dialect.page(answer, self._transport.url(_WEBSITES), self.settings.list_key)
        for row in page.rows:
            if type(row.get("id")) is not int:  # as nearly always
                dialect.website_id(row, answer)
        return page

    def _created(self, domain: str, why: str, cause: AnalyticsError | None) -> dict[str, Any]:
        """Look up the website of a create with an unknown outcome."""
        try:
            found = self.find_website(domain)
        except AnalyticsError as failed:
            outcome = f"{why} The lookup of the domain failed as well: {failed.text}"
        else:
            if found is not None:
                log.info("Created the website %s, although the response was lost: %s", domain, why)
                return found
            outcome = f"{why} The domain is not in the list, but the service may still be working on it."
        raise self._unclear(domain, outcome, cause) from None

    def _unclear(self, domain: str, why: str, cause: AnalyticsError | None) -> AmbiguousWriteError:
        error = AmbiguousWriteError(f"{why} The request is not sent again.", domain)
        error.earlier = () if cause is None else (*cause.earlier, cause)
        return error

    def _check_domain(self, record: Mapping[str, Any], domain: str) -> None:
        shown = record.get("domain")
        if isinstance(shown, str) and not same_domain(shown, domain):
            raise OtherDomainError(domain, self.redact(shown), str(record["id"]), _advice(domain, shown))

    def _as_sent(
        self, record: dict[str, Any], settings: Mapping[str, Any], *, is_shown: bool = False
    ) -> dict[str, Any]:
        """Return the record if it shows what was sent; a record that does not is asked for once more.

        Fields that a record does not show, and passwords, cannot be compared.
        """
        sent = {name: value for name, value in settings.items() if not isinstance(fields.FIELDS[name].kind, Secret)}
        differing = fields.differing_fields(record, sent)
        if differing and not is_shown:  # a response to a write may show the state before it, or a part of the record
            return self._as_sent(self.get_website(record["id"]), settings, is_shown=True)
        if hidden := [name for name in differing if name not in record]:
            log.warning("Website %s does not show %s: it cannot be checked.", record["id"], ", ".join(hidden))
        shown = {name: self.redact(_difference(name, record[name], sent[name])) for name in differing if name in record}
        if shown:
            raise NotAppliedError(str(record["id"]), shown)
        return record

    def _hide_password(self, form: Mapping[str, str], privacy: str | None) -> None:
        if "password" not in form:
            return
        self._transport.redact.add(form["password"])
        if privacy is not None:
            self._warn_without_effect(privacy)

    def _warn_without_effect(self, privacy: object) -> None:
        if not fields.same_setting("privacy", privacy, Privacy.PASSWORD):
            log.warning(
                "The password has no effect: privacy is %s, and a password is used only with %s.",
                readable(str(fields.normalise("privacy", privacy)), 100),
                Privacy.PASSWORD.label,
            )


def _path(website_id: str) -> str:
    return f"{_WEBSITES}/{quote(website_id, safe='')}"


def _of_website(asked: str, record: dict[str, Any], answer: dialect.Answer) -> dict[str, Any]:
    if str(record["id"]) != asked:
        raise answer.unexpected(f"The response is about website {record['id']}, requested was website {asked}.")
    return record


def _advice(domain: str, shown: str) -> str:
    """Return what to write for a domain that the service seems to write in another way."""
    return f"If the service writes it so, write domain={shown!r}." if is_variant(domain, shown) else ""


def _difference(field: str, shown: Any, sent: Any) -> str:
    """Return how a field differs from what was sent, bounded in length."""
    before, after = fields.normalise(field, shown), fields.normalise(field, sent)
    if not (isinstance(before, tuple) and isinstance(after, tuple)):
        return f"is '{readable(str(before), 100)}', sent was '{readable(str(after), 100)}'"
    parts = []
    for verb, entries in (("lacks", set(after) - set(before)), ("has besides", set(before) - set(after))):
        if entries:
            more = f" and {len(entries) - 3:,} more" if len(entries) > 3 else ""
            parts.append(f"{verb} {', '.join(readable(entry, 100) for entry in sorted(entries)[:3])}{more}")
    return " and ".join(parts) or "has the entries in another way"


def _has_domain(record: Mapping[str, Any], wanted: str) -> bool:
    domain = record.get("domain")
    return isinstance(domain, str) and same_domain(domain, wanted)


def _matches(listing: Listing, wanted: str) -> list[dict[str, Any]]:
    """Return the websites of a domain; a website that shows no domain matters only if no other one has it."""
    matches = []
    without: Any = None
    for record in listing:
        if _has_domain(record, wanted):
            matches.append(record)
        elif without is None and not isinstance(record.get("domain"), str):
            without = record["id"]
    if without is not None and not matches:
        raise UnexpectedResponseError(
            f"Website {without} has no domain, so it may be {wanted!r}: the domain cannot be looked up.",
            200,
            "GET",
            dialect.API_PREFIX + _WEBSITES,
        )
    return matches
