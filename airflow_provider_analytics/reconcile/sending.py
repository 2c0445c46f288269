"""Send single changes of a plan, each computed from a record that is fetched immediately before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.fields import FIELDS, normalise
from airflow_provider_analytics.api.kinds import PASSWORD_FROM
from airflow_provider_analytics.api.transport import may_have_been_applied
from airflow_provider_analytics.api.verification import Expected
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    NotFoundError,
    PermissionDeniedError,
    StoppedError,
    ValidationError,
)
from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, website_of
from airflow_provider_analytics.reconcile.results import Result, State
from airflow_provider_analytics.reconcile.websites import Websites

#: Computes the change of a website from its record; None if there is nothing to change.
ChangeOf = Callable[[Mapping[str, Any]], Change | None]


class Recorder(Protocol):
    """Records changes while they are made; called from several threads."""

    def claim(self, change: Change) -> bool:
        """Return whether the ledger covered a change that is about to be sent.

        If not, the change is added to the ledger, and the website is fetched again before its update.
        """

    def applied(self, change: Change) -> None:
        """Note a change that was applied; a create has the id of the new website."""

    def undone(self, change: Change) -> None:
        """Note that a change that was noted as applied does not hold."""


class NoRecorder:
    """Records nothing."""

    def claim(self, change: Change) -> bool:
        """Return True."""
        return True

    def applied(self, change: Change) -> None:
        """Do nothing."""

    def undone(self, change: Change) -> None:
        """Do nothing."""


@dataclass
class Site:
    """A website of the plan, while its change is made.

    :param todo: what is left to change.
    :param result: its result.
    :param before: its record immediately before the first update; None if it was not updated.
    :param expected: the expected record; None if nothing was sent.
    :param lost: a change that failed but may have been applied.
    :param under_way: the change that is being sent.
    """

    todo: Change
    result: Result
    before: Mapping[str, Any] | None = None
    expected: Expected | None = None
    lost: Change | None = None
    under_way: Change | None = None

    @property
    def name(self) -> str:
        """Name of the website for logs and errors."""
        return self.todo.website

    @property
    def sent(self) -> Change | None:
        """The last change that was sent, with or without a response."""
        return self.lost or (self.result.sent[-1] if self.result.sent else None)


class Sender:
    """Sends single changes, each computed from a record that is fetched immediately before."""

    def __init__(
        self,
        websites: Websites,
        change_of: ChangeOf,
        passwords: Mapping[str, str],
        recorder: Recorder,
        shared: frozenset[str],
        *,
        ignore_gone: bool,
    ) -> None:
        self._newest = websites.newest
        self._client = websites.client
        self.change_of = change_of
        self._passwords = passwords
        self.recorder = recorder
        self._shared = shared
        self._ignore_gone = ignore_gone

    def note(self, site: Site, change: Change) -> None:
        """Note a change that was applied."""
        site.result.sent.append(change)
        self.recorder.applied(change)

    def send(self, site: Site) -> None:
        """Send the change of a website, and set its result."""
        try:
            {"create": self._create, "update": self._update, "delete": self._delete}[site.todo.action](site)
            if not site.result.sent:
                site.result.state, site.result.why = State.UNCHANGED, ""
        except (PermissionDeniedError, ValidationError):
            site.result.state = State.REFUSED
            raise
        finally:
            site.under_way = None

    def _create(self, site: Site) -> None:
        change = site.todo
        settings = self._settings(change)
        later = {name: settings.pop(name) for name in list(settings) if not FIELDS[name].on_create}
        created = tuple(one for one in change.fields if one.field not in later)
        site.under_way = change
        try:
            website_id = self._client.send_create(change.domain, settings)
            if website_id is None:
                found = self._client.find_created(change.domain, None, self._newest)
                website_id = str(found["id"])
        except AnalyticsError as error:
            is_request_error = isinstance(error, (AnalyticsApiError, AnalyticsConnectionError))
            if not isinstance(error, StoppedError) and (not is_request_error or may_have_been_applied(error)):
                site.lost = change
            raise
        site.expected = Expected.of_new(change.domain, settings)
        if not later:
            self.note(site, replace(change, website_id=website_id))
            return
        # A create request cannot set the other fields.
        self.note(site, replace(change, website_id=website_id, fields=created))
        rest = replace(
            change,
            action="update",
            website_id=website_id,
            fields=tuple(one for one in change.fields if one.field in later),
        )
        site.expected = Expected.of_new(change.domain, {**settings, **later})
        self._client.change_website(website_id, lambda _: later)
        self.note(site, rest)

    def _update(self, site: Site) -> None:
        planned = site.todo
        website_id = str(planned.website_id)
        computed: Change | None = None
        before: Mapping[str, Any] = {}
        lost: list[tuple[Change, Mapping[str, Any]]] = []

        def compute(record: dict[str, Any]) -> Mapping[str, Any] | None:
            nonlocal computed, before
            self._check_domain(planned, record, "not changed")
            computed, before = self.change_of(record), record
            if computed is not None and not self.recorder.claim(computed):
                raise _FetchAgainError
            site.under_way = computed or planned
            return self._settings(computed) if computed else None

        def may_be_applied() -> None:
            if computed is not None:
                lost.append((computed, before))

        while True:
            try:
                record = self._client.change_website(website_id, compute, may_be_applied)
            except _FetchAgainError:
                continue
            except NotFoundError:
                if not self._is_gone(website_id) or not self._ignore_gone:
                    raise
                for change, _ in lost:
                    self.note(site, change)
                return
            except Exception:
                if lost:
                    self._expect(site, lost)
                    site.lost = replace(lost[-1][0], domain=planned.domain)
                raise
            break
        for change, _ in lost:  # the next attempt found it applied, or overwrote it
            self.note(site, change)
        if computed is None:
            self._expect(site, lost)
            site.result.record = before
        else:
            self._expect(site, [*lost, (computed, before)])
            if record is not None:
                self._check_response_domain(site, planned, computed, record)
            self.note(site, computed)

    def _expect(self, site: Site, attempts: Sequence[tuple[Change, Mapping[str, Any]]]) -> None:
        """Note the expected record after some attempts, each with the record before it.

        Only the last attempt has a response. What an earlier round expected is still expected: otherwise, the service
        could lose a line in the first round, and the second one would not know it.
        """
        expected = site.expected
        for change, before in attempts:
            site.before = site.before or before
            this = Expected(before, self._settings(change), change.domain, shared=self._shared)
            expected = this.following(expected)
        site.expected = expected

    def _check_response_domain(self, site: Site, planned: Change, sent: Change, record: Mapping[str, Any]) -> None:
        """Raise :class:`ValueError` if the response to an update has another domain than the plan."""
        try:
            self._check_domain(planned, record, "it was changed, but")
        except ValueError:
            self.recorder.applied(replace(sent, domain=website_of(record)[0]))
            raise

    def _is_gone(self, website_id: str) -> bool:
        """Return whether a website is gone after a "not found" response: a single response may be wrong."""
        self._client.get_account()  # with a wrong base URL, everything is "not found"
        return self._client.is_gone(website_id)

    def _delete(self, site: Site) -> None:
        planned = site.todo
        website_id = str(planned.website_id)
        try:
            record = self._client.get_website(website_id)
            self._check_domain(planned, record, "not deleted")
            # Record the website as it is now, not as it was when the plan was made.
            fields = tuple(
                FieldChange(name, normalise(name, record[name]), None) for name in SETTABLE_FIELDS if name in record
            )
            change = replace(planned, fields=fields)
            site.under_way = change
            try:
                self._client.send_delete(website_id)
            except NotFoundError:
                raise
            except AnalyticsError as error:
                if may_have_been_applied(error):
                    site.lost = change
                raise
        except NotFoundError:
            if not self._is_gone(website_id):
                raise
            return
        self.note(site, change)

    def _check_domain(self, planned: Change, record: Mapping[str, Any], verb: str) -> None:
        """Raise :class:`ValueError` if the id in the plan no longer belongs to the domain in the plan."""
        domain = record.get("domain")
        if planned.domain and isinstance(domain, str) and not same_domain(domain, planned.domain):
            raise ValueError(f"{verb}: id {planned.website_id} now belongs to {domain!r}")

    def _settings(self, change: Change) -> dict[str, Any]:
        settings = change.settings
        reference = settings.pop(PASSWORD_FROM, None)
        return {**settings, "password": self._passwords[reference]} if reference else settings


class _FetchAgainError(Exception):
    """The ledger was written first, so the website must be fetched again."""
