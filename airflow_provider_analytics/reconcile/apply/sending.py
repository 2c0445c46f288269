# SPDX-License-Identifier: Apache-2.0
"""Send single changes of a plan, each computed from a record that is fetched immediately before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient, may_mean_taken, other_domain
from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.fields import FIELDS, PASSWORD_FROM
from airflow_provider_analytics.api.transport import may_have_been_applied
from airflow_provider_analytics.api.verification import Comparison, ExpectedRecord, Record
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsError,
    NotFoundError,
    StoppedError,
    StorageError,
)
from airflow_provider_analytics.reconcile.apply.results import NOT_SENT, State, Update
from airflow_provider_analytics.reconcile.plan.changes import ChangeOf, deletion
from airflow_provider_analytics.reconcile.plan.plan import Change
from airflow_provider_analytics.reconcile.workers import Breaker, each, reason_of

log = logging.getLogger(__name__)

_UNDER_WAY = "Stopped while its change was under way: it may have been applied."


@dataclass(frozen=True)
class Sender:
    """Sends single changes, each computed from a record that is fetched immediately before.

    :param change_of: computes the change of a website.
    :param record: records a change that was sent and not rejected, a create with the id of the new website; called from
        several threads.
    :param shared: list fields in which entries of others stay.
    :param kept: returns the entries of a list field that other lists have for a website, and that stay.
    :param read_tables: reads the tables of the other lists again.
    :param passwords: ``password_from`` reference to password.
    :param ignore_gone: do not count a website that no longer exists as a failure.
    """

    client: AnalyticsClient
    change_of: ChangeOf
    record: Callable[[Change], None]
    shared: frozenset[str] = frozenset()
    kept: Callable[..., Collection[str]] = lambda *_: ()
    read_tables: Callable[[], None] = lambda: None
    passwords: Mapping[str, str] = field(default_factory=dict)
    ignore_gone: bool = False

    def send_all(
        self, updates: Sequence[Update], verb: str = "Changing", breaker: Breaker | None = None
    ) -> list[BaseException]:
        """Send the changes of these websites in parallel, set their states, and return the errors."""
        results = each(self.client, updates, self.send, verb, breaker or Breaker())
        return [result.error for result in results if result.error]

    def note(self, update: Update, change: Change) -> None:
        """Note a change that was sent and not rejected; it is not read again yet."""
        update.set(State.APPLIED)
        update.comparison = None
        update.sent.append(change)
        self.record(change)

    def compare(self, update: Update, record: Record) -> Comparison:
        """Compare a record with the sent values, and with the current desired values: others may have changed it."""
        allowed = {name: self.kept(name, record) for name in self.shared}
        expected = update.expected or ExpectedRecord({}, {})
        comparison = expected.compare(record, allowed)
        change = self._still_wanted(update, record)
        if change is None:
            return comparison
        for field_change in change.fields:
            name = field_change.field
            if name in comparison.missing and comparison.missing[name] <= set(field_change.added):
                del comparison.unsent[name]  # the missing lines are entries of this task
        if not comparison.not_applied:
            expected = ExpectedRecord(record, self._settings(change), shared=self.shared)
            comparison.not_applied = expected.compare(record).not_applied
        return comparison

    def _still_wanted(self, update: Update, record: Record) -> Change | None:
        try:
            return self.change_of(record, update.before)
        except ValueError:  # the change is not approved, or the lists cannot be read any more
            return None

    def send(self, update: Update) -> None:
        """Send the change of a website, and set its update."""
        try:
            if update.planned.action == "delete":
                self._delete(update)
            elif update.website_id is None:
                self._create(update)
            else:
                self._update(update)
        except StoppedError:
            # The last request was not sent: a write that was under way raises another error.
            if update.sent:
                update.set(State.FAILED, self._missing(update) + NOT_SENT)
            elif update.unconfirmed is None:
                update.set(State.NOT_TRIED, NOT_SENT)
            raise
        except StorageError:  # the change was sent, and cannot be recorded
            raise
        except (AnalyticsError, ValueError) as error:
            state = State.FAILED
            if update.unconfirmed:
                state = State.UNCLEAR
            elif _is_rejected(error, is_create=update.website_id is None):
                state = State.REJECTED
            update.set(state, self._missing(update) + reason_of(error))
            raise

    def _missing(self, update: Update) -> str:
        """Return the fields of a new website that were not set yet, as the start of a text."""
        sent: set[str] = set()
        for change in update.sent:
            sent.update(field_change.field for field_change in change.fields)
        missing = [field_change.field for field_change in update.planned.fields if field_change.field not in sent]
        if not update.sent or not missing:
            return ""
        return f"Created, but not set yet: {', '.join(missing)}. "

    def _create(self, update: Update) -> None:
        change = update.planned
        settings = self._settings(change)
        # A create request cannot set all fields.
        at_once = {name: value for name, value in settings.items() if FIELDS[name].on_create}
        update.expected = ExpectedRecord.of_new(change.domain, settings)
        update.unconfirmed = None
        update.set(State.UNCLEAR, _UNDER_WAY)
        later = settings.keys() - at_once.keys()
        sent = tuple(field_change for field_change in change.fields if field_change.field not in later)
        create = replace(change, fields=sent)
        try:
            created = self.client.send_create(change.domain, at_once)
        except AmbiguousWriteError:
            update.unconfirmed = create
            raise
        if created is None:
            update.set(State.UNCLEAR, "The service reported success without the id of the website.")
            update.unconfirmed = create
            return
        self.note(update, replace(create, website_id=str(created["id"])))
        domain = created.get("domain")
        if isinstance(domain, str) and not same_domain(domain, change.domain):
            update.comparison = Comparison(created, other_domain=domain)
            raise other_domain(change.domain, created)
        if later:
            self.client.until_found(lambda: self._update(update))

    def _update(self, update: Update) -> None:
        computed: Change | None = None
        lost: list[Change] = []

        def compute(record: Record) -> Record | None:
            nonlocal computed
            _check_domain(update.planned, record, "not changed")
            computed = self.change_of(record, update.before)
            if computed is None:
                return None
            settings = self._settings(computed)
            expected = ExpectedRecord(record, settings, update.planned.domain, shared=self.shared)
            update.expected = expected.following(update.expected)
            update.set(State.UNCLEAR, _UNDER_WAY)
            return settings

        def may_be_applied() -> None:
            if computed is not None:
                lost.append(computed)

        try:
            self.client.change_website(str(update.website_id), compute, may_be_applied)
        except NotFoundError:
            if not self.ignore_gone or not self._is_gone(str(update.website_id)):
                raise
            log.debug("Not changed: website %s does not exist any more.", update.website)
            computed = None
        except Exception:
            update.unconfirmed = None
            if lost:
                update.unconfirmed = lost[-1]
            raise
        # The outcome of the attempts before the last one is unknown: it found them applied, or overwrote them.
        for change in lost:
            self.note(update, change)
        if computed is not None:
            self.note(update, computed)
        if not update.sent:
            update.set(State.UNCHANGED)

    def _is_gone(self, website_id: str) -> bool:
        """Return whether a website is gone after a "not found" response: a single response may be wrong."""
        self.client.get_account()  # with a wrong base URL, everything is "not found"
        return self.client.is_gone(website_id)

    def _delete(self, update: Update) -> None:
        website_id = str(update.website_id)
        try:
            record = self.client.get_website(website_id)
            _check_domain(update.planned, record, "not deleted")
            update.set(State.UNCLEAR, _UNDER_WAY)
            try:
                self.client.send_delete(website_id)
            except AnalyticsError as error:
                update.unconfirmed = None
                if may_have_been_applied(error):
                    update.unconfirmed = update.planned
                raise
        except NotFoundError:
            if not self._is_gone(website_id):
                raise
            update.set(State.UNCHANGED)
            return
        # Record the website as it is now, not as it was when the plan was made.
        self.note(update, replace(update.planned, fields=deletion(record).fields))

    def _settings(self, change: Change) -> dict[str, Any]:
        settings = change.settings
        reference = settings.pop(PASSWORD_FROM, None)
        if reference:
            settings["password"] = self.passwords[reference]
        return settings


def _is_rejected(error: AnalyticsError | ValueError, *, is_create: bool) -> bool:
    """Return whether the service rejected a change, and a retry cannot succeed."""
    if not isinstance(error, AnalyticsApiError) or error.is_blocked:
        return False
    if is_create and may_mean_taken(error):
        return False  # another process may have created the website: the next try finds it
    return error.status == 403 or error.is_invalid


def _check_domain(planned: Change, record: Record, verb: str) -> None:
    """Raise :class:`ValueError` if the id in the plan no longer belongs to the domain in the plan."""
    domain = record.get("domain")
    if planned.domain and isinstance(domain, str) and not same_domain(domain, planned.domain):
        raise ValueError(f"{verb}: id {record['id']} now belongs to {domain!r}")
