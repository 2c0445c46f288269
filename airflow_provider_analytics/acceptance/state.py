# SPDX-License-Identifier: Apache-2.0
"""The state of an acceptance run, which all steps share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from airflow_provider_analytics.acceptance.disposable import CreatedWebsite, CreatedWebsites
from airflow_provider_analytics.acceptance.findings import Findings
from airflow_provider_analytics.acceptance.statements import Extras
from airflow_provider_analytics.acceptance.transport import GuardedTransport
from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.dialect import Page, Record
from airflow_provider_analytics.api.fields import list_query
from airflow_provider_analytics.api.listing import DEFAULT_QUERY
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    IncompleteListError,
    NotFoundError,
    UnexpectedResponseError,
)

Returned = TypeVar("Returned")


class LeftoverError(AnalyticsError):
    """A website of this tool that could not be removed."""


class OldRecordError(Exception):
    """A read returned other values than the last one, although nothing was sent in between."""


class RunState:
    """Access to the service, the disposable website, and the findings.

    :param settings: settings of the run.
    :param domain: domain of the disposable website.
    :param is_given: whether the user gave the domain.
    :param created: records a website whose domain was given.
    :param progress: called before each request with its number and the name of the step.
    """

    def __init__(
        self,
        settings: Settings,
        domain: str,
        created: CreatedWebsites,
        progress: Callable[[int, str], None] | None,
        *,
        is_given: bool,
    ) -> None:
        self.settings = settings
        self.domain = domain
        self.is_given = is_given
        self.created = created
        self.findings = Findings()
        #: Name of the current step.
        self.step = ""
        #: Number of leftovers of earlier runs that were removed.
        self.leftovers = 0
        #: First page of the list before the create.
        self.page = Page([])
        #: Whether the whole list was read before the create.
        self.is_complete = False
        self.is_create_sent = False
        self.is_delete_sent = False
        #: Id of the website, as long as it exists.
        self.website_id = ""
        #: Record of the website after the last write.
        self.record: Record = {}
        #: Domain as the service writes it.
        self.stored_domain = domain
        #: Why the website could not be removed; None if it was.
        self.not_removed: LeftoverError | None = None
        self._progress = progress
        self.transport = GuardedTransport(settings, domain, self._report_request)
        self._client = AnalyticsClient(settings, self.transport)
        self.transport.longest_lag = lambda: sum(self._client.confirm_waits)

    def _report_request(self, number: int) -> None:
        if self._progress is not None:
            self._progress(number, self.step)

    def client(self, extras: Extras | None = None) -> AnalyticsClient:
        """Return the client, from now on with the extras found so far, and with further ones.

        It is always the same client, because it knows which fields the service omits if they are empty.
        """
        self._client.settings = replace(self.settings, **self.findings.extras | (extras or {}))
        return self._client

    def proven(
        self, read: Callable[[], Returned], is_expected: Callable[[Returned], bool] = lambda _: True
    ) -> Returned:
        """Return the result of a read. If older values can explain an unexpected result, it is read again later.

        A load balancer can send each read to another replica, so only reads after the longest lag prove anything.

        :raises NotFoundError: if a current read does not return the website.
        :raises IncompleteListError: if a list of current pages cannot be proven complete.
        """
        is_current = self.transport.is_settled
        try:
            found = read()
            if is_current or is_expected(found):
                return found
        except (NotFoundError, IncompleteListError, OldRecordError):
            if is_current:
                raise
        self.transport.settle()
        found = read()
        if is_expected(found):
            self.transport.is_late = True
        return found

    def newest(self, **filters: Any) -> Page:
        """Return the first page, newest first."""
        client = self.client()
        return client.page(DEFAULT_QUERY | list_query(boolean_texts=client.settings.boolean_texts, **filters))

    def search(self, text: str) -> list[Record]:
        """Return the websites on the first page that a search finds; none if the search fails."""
        try:
            return dialect.not_deleted(self.newest(search=text, search_by="domain").rows)
        except (AnalyticsApiError, UnexpectedResponseError):
            return []

    def has_website(self, page: Page) -> bool:
        """Return whether a page contains the disposable website."""
        ids = {str(row["id"]) for row in dialect.not_deleted(page.rows)}
        return self.website_id in ids

    def record_created(self) -> None:
        """Record the website, if the user gave its domain."""
        if self.is_given:
            self.created.add(CreatedWebsite(self.settings.base_url, self.domain, self.website_id))

    def forget_website(self) -> None:
        """Forget the website, which no longer exists."""
        self.website_id = ""
        self.is_create_sent = False
        if self.is_given:
            self.created.remove(CreatedWebsite(self.settings.base_url, self.domain))
