"""Client with the six operations of the service (docs/interface.md, Operations)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote

from airflow_provider_analytics.api import dialect, fields
from airflow_provider_analytics.api.domains import check_domain, same_domain
from airflow_provider_analytics.api.fields import CreateSettings, ListFilters, UpdateSettings
from airflow_provider_analytics.api.kinds import Privacy
from airflow_provider_analytics.api.listing import Listing, read_again
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Stats, Transport, may_have_been_applied
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsConnectionError,
    AnalyticsError,
    DuplicateWebsiteError,
    IncompleteListError,
    NotFoundError,
    ServerError,
    UnexpectedResponseError,
)

_WEBSITES = "/websites"
_ACCOUNT = "/account"

log = logging.getLogger(__name__)


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

    @property
    def base_url(self) -> str:
        """Base URL without a trailing slash."""
        return self.settings.base_url

    @property
    def stats(self) -> Stats:
        """Number of requests sent so far, and of retries among them."""
        return self._transport.stats

    def iter_websites(self, **filters: Unpack[ListFilters]) -> Listing:
        """Return an iterator that reads the list once; see :class:`Listing` for when its records may be used."""
        texts = self.settings.boolean_texts
        return Listing(self._page, fields.list_query(boolean_texts=texts, **filters), self.settings.page_parameter)

    def list_websites(self, **filters: Unpack[ListFilters]) -> list[dict[str, Any]]:
        """Return the complete list; a list that changes while it is read is read again.

        :raises IncompleteListError: if the list cannot be proven complete.
        """
        fields.list_query(boolean_texts=self.settings.boolean_texts, **filters)
        return read_again(list, lambda: self.iter_websites(**filters))

    def get_website(self, website_id: int | str) -> dict[str, Any]:
        """Return the record of a website."""
        asked = fields.check_website_id(website_id)
        return _record_of(asked, self._transport.request("GET", _path(asked)))

    def find_website(self, domain: str) -> dict[str, Any] | None:
        """Return the website of exactly this domain, or None; case and a trailing dot are ignored.

        What the service's search matches is not documented. So a match is accepted, but an empty result is not: the
        whole list is read instead.

        :raises DuplicateWebsiteError: if several websites have the domain.
        """
        wanted = check_domain(domain)
        try:
            found = self.list_websites(search=wanted.removesuffix("."), search_by="domain")
        except IncompleteListError as error:
            log.info("The search for %s is not proven complete; reading the whole list. %s", wanted, error)
            found = []
        matches = [record for record in found if _has_domain(record, wanted)]
        if not matches:
            matches = read_again(lambda listing: _matches(listing, wanted), self.iter_websites)
        if len(matches) > 1:
            raise DuplicateWebsiteError(wanted, [str(record["id"]) for record in matches])
        return matches[0] if matches else None

    def create_website(self, domain: str, **settings: Unpack[CreateSettings]) -> dict[str, Any]:
        """Create a website and return its record; the create is never applied twice.

        If the outcome is unknown, the domain is looked up: a website with this domain counts as the created one.

        :raises AmbiguousWriteError: if the website may or may not have been created.
        """
        form = fields.create_form(domain, **settings)
        self._hide_password(form, form.get("privacy", str(Privacy.PUBLIC.value)))
        try:
            answer = self._transport.request("POST", _WEBSITES, form=form)
        except (AnalyticsConnectionError, ServerError) as error:
            if not may_have_been_applied(error):
                raise
            return self._created(domain, str(error), error)
        if dialect.is_empty(answer):
            return self._created(domain, "the response was empty", None)
        return dialect.record(answer)

    def update_website(self, website_id: int | str, **settings: Unpack[UpdateSettings]) -> dict[str, Any]:
        """Change the given settings of a website and return its record; other settings are kept."""
        form = fields.update_form(boolean_texts=self.settings.boolean_texts, **settings)
        asked = fields.check_website_id(website_id)
        self._hide_password(form, form.get("privacy"))
        answer = self._transport.request(self.settings.update_method, _path(asked), form=form)
        return self.get_website(asked) if dialect.is_empty(answer) else _record_of(asked, answer)

    def delete_website(self, website_id: int | str) -> None:
        """Delete a website.

        :raises NotFoundError: if there is no such website, unless an earlier attempt of this call may have deleted it.
        """
        try:
            dialect.acknowledged(self._transport.request("DELETE", _path(fields.check_website_id(website_id))))
        except NotFoundError as error:
            if not any(may_have_been_applied(earlier) for earlier in error.earlier):
                raise
            log.info("Website %s is gone after an attempt whose response was lost; it counts as deleted.", website_id)

    def get_account(self) -> dict[str, Any]:
        """Return the record of the account that the API key belongs to."""
        return dialect.account(self._transport.request("GET", _ACCOUNT))

    def _page(self, query: Mapping[str, str]) -> dialect.Page:
        answer = self._transport.request("GET", _WEBSITES, query=query)
        page = dialect.page(answer)
        for row in page.rows:
            dialect.website_id(row, answer)
        return page

    def _created(self, domain: str, why: str, cause: AnalyticsError | None) -> dict[str, Any]:
        """Return the website that a create with unknown outcome should have created."""
        try:
            found = self.find_website(domain)
        except AnalyticsError as failed:
            outcome = f"{why.rstrip('.')}; the lookup of the domain failed, too: {failed}"
        else:
            if found is not None:
                log.info("The website %s was created, although the create was not confirmed: %s", domain, why)
                return found
            outcome = (
                f"{why.rstrip('.')}; the domain is not in the list, but the service may still be processing the create."
            )
        raise AmbiguousWriteError(
            f"it is unknown whether the website was created, and the request is not sent again: {outcome}",
            "POST",
            dialect.API_PREFIX + _WEBSITES,
            domain,
        ) from cause

    def _hide_password(self, form: Mapping[str, str], privacy: str | None) -> None:
        if "password" not in form:
            return
        self._transport.redact.add(form["password"])
        if privacy not in (None, str(Privacy.PASSWORD.value)):
            log.warning(
                "The password has no effect: privacy is %s; a password has an effect only with privacy %d.",
                privacy,
                Privacy.PASSWORD.value,
            )


def _path(website_id: str) -> str:
    return f"{_WEBSITES}/{quote(website_id, safe='')}"


def _record_of(asked: str, answer: dialect.Answer) -> dict[str, Any]:
    record = dialect.record(answer)
    if str(record["id"]) != asked:
        raise answer.unexpected(f"Website {asked} was requested, but the response holds website {record['id']}.")
    return record


def _has_domain(record: Mapping[str, Any], wanted: str) -> bool:
    domain = record.get("domain")
    return isinstance(domain, str) and same_domain(domain, wanted)


def _matches(listing: Listing, wanted: str) -> list[dict[str, Any]]:
    matches = []
    for record in listing:
        if not isinstance(record.get("domain"), str):
            raise UnexpectedResponseError(
                f"Website {record['id']} has no domain, so {wanted!r} cannot be looked up.",
                200,
                "GET",
                dialect.API_PREFIX + _WEBSITES,
            )
        if _has_domain(record, wanted):
            matches.append(record)
    return matches
