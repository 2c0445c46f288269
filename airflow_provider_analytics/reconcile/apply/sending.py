# SPDX-License-Identifier: Apache-2.0
"""Send the changes of a plan. One method each creates, updates, and deletes a website."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient, might_mean_taken
from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.fields import FIELDS, PASSWORD_FROM, normalize
from airflow_provider_analytics.api.reading import other_domain
from airflow_provider_analytics.api.rejections import might_have_been_applied
from airflow_provider_analytics.api.verification import COMPARED, Comparison, ExpectedRecord, Record, has_value
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsError,
    DomainError,
    NotFoundError,
    StoppedError,
    StorageError,
)
from airflow_provider_analytics.reconcile.apply.targets import NOT_SENT, State, Target
from airflow_provider_analytics.reconcile.audit_trail import AuditTrail
from airflow_provider_analytics.reconcile.job import Job, Planned
from airflow_provider_analytics.reconcile.plan.changes import Change, change_of, deletion
from airflow_provider_analytics.reconcile.plan.plan_guards import raise_unless_approved
from airflow_provider_analytics.reconcile.service_websites import Breaker, Progress, each, reason_of

_UNDER_WAY = "Stopped while its change was under way: it might have been applied."

log = logging.getLogger(__name__)


@dataclass
class Sender:
    """Sends changes, each computed from a record that is fetched immediately before.

    :param job: the input of the run.
    :param planned: the plan, and the data that is needed to apply it.
    :param trail: gets each change that was sent and not rejected, a create with the id of the new website.
    :param passwords: ``password_from`` reference to password.
    :param ignore_gone: do not count a website that no longer exists as a failure.
    """

    job: Job
    planned: Planned
    trail: AuditTrail
    passwords: Mapping[str, str] = field(default_factory=dict)
    ignore_gone: bool = False
    #: Fields that someone else has changed since the plan, on any website.
    changed_by_others: set[str] = field(default_factory=set, init=False)

    @property
    def client(self) -> AnalyticsClient:
        """The client that sends all requests."""
        return self.job.client

    def send_all(self, targets: Sequence[Target], progress: Progress, breaker: Breaker) -> None:
        """Send the changes of these websites in parallel, and set their states."""
        for _ in each(self.client, targets, self.send, progress, breaker):
            pass

    def send_again(self, targets: Sequence[Target]) -> None:
        """Send the changes of these websites once more."""
        self.client.note_not_applied(set().union(*(target.comparison.not_applied for target in targets)))
        self.send_all(targets, Progress("Changing once more", len(targets)), Breaker())

    def send(self, target: Target) -> None:
        """Send the change of a website, and set its state."""
        try:
            if target.planned.action == "delete":
                self._delete(target)
            elif target.website_id is None:
                self._create(target)
            else:
                self._change(target)
        except StoppedError:
            # The last request was not sent: a write that was under way raises another error.
            if target.sent:
                target.set(State.FAILED, _missing(target) + NOT_SENT)
            elif target.unconfirmed is None:
                target.set(State.NOT_TRIED, NOT_SENT)
            raise
        except StorageError:  # the change was sent, and cannot be recorded
            raise
        except (AnalyticsError, ValueError) as error:
            if target.planned.action == "update" and isinstance(error, AnalyticsApiError):
                target.is_rejected_method = error.is_rejected_method
            target.is_another_website = isinstance(error, DomainError)
            state = State.FAILED
            if target.unconfirmed:
                state = State.UNCLEAR
            elif _is_rejected(error, is_create=target.website_id is None):
                state = State.REJECTED
            target.set(state, _missing(target) + reason_of(error))
            raise

    def note(self, target: Target, change: Change) -> None:
        """Note a change that was sent and not rejected; it is not read again yet."""
        target.set(State.APPLIED)
        target.is_read, target.comparison = False, Comparison()
        target.sent.append(change)
        self.trail.sent(change)

    def note_changes_by_others(self, planned: Change, record: Record) -> None:
        """Note the fields in which a website that this run has not changed yet differs from the plan."""
        for name in COMPARED:
            is_known = has_value(name, planned.record) and has_value(name, record)
            if is_known and normalize(name, planned.record[name]) != normalize(name, record[name]):
                self.changed_by_others.add(name)

    # What to send

    def change_of(self, record: Record, before: Record, *, is_new: bool) -> Change | None:
        """Return the change of a website from its current record; None if it needs no change.

        :param before: its record before its first update in this run; empty until then.
        :param is_new: whether this run has created the website.
        :raises ValueError: if the change is not approved, or cannot be computed.
        """
        desired = self.planned.desired
        if is_new:
            desired = desired.of_new(record)
        if self.planned.approved is not None:
            # Without the entries that are restored, which need no approval.
            raise_unless_approved(change_of(desired, record), self.planned.approved)
        return change_of(desired, record, before)

    def settings(self, change: Change) -> dict[str, Any]:
        """Return the settings to send, with the password."""
        settings = change.settings
        reference = settings.pop(PASSWORD_FROM, None)
        if reference:
            settings["password"] = self.passwords[reference]
        return settings

    # Requests

    def _create(self, target: Target) -> None:
        change = target.planned
        settings = self.settings(change)
        # A create request cannot set all fields.
        at_once = {name: value for name, value in settings.items() if FIELDS[name].on_create}
        later = settings.keys() - at_once.keys()
        create = replace(change, fields=tuple(item for item in change.fields if item.field not in later))
        target.expected = ExpectedRecord.of_new(change.domain, settings)
        target.unconfirmed = None
        target.set(State.UNCLEAR, _UNDER_WAY)
        try:
            created = self.client.send_create(change.domain, at_once)
        except AmbiguousWriteError:
            target.unconfirmed = create
            raise
        if created is None:
            target.set(State.UNCLEAR, "The service reported success without the id of the website.")
            target.unconfirmed = create
            return
        self.note(target, replace(create, website_id=str(created["id"])))
        domain = created.get("domain")
        if isinstance(domain, str) and not same_domain(domain, change.domain):
            target.compared(Comparison(created, other_domain=domain))
            raise other_domain(change.domain, created)
        if later:
            self.client.until_found(lambda: self._change(target))

    def _change(self, target: Target) -> None:
        """Update a website as desired."""
        try:
            self.update(target, functools.partial(self._work_out, target))
        except NotFoundError:
            if not self.ignore_gone or not self._is_gone(str(target.website_id)):
                raise
            log.info("Website %s does not exist any more, so it was not changed.", target.website)
            self.confirm(target)
        if not target.sent:
            target.set(State.UNCHANGED)

    def _work_out(self, target: Target, record: Record) -> Change | None:
        """Return the change that a website needs, and expect its result.

        :raises ValueError: if a list is empty that had lines when the plan was made. A colleague might have cleared it,
            or the response lacks it. The next try finds out, because it reads the list of websites again.
        """
        if not target.expected.sent:
            self.note_changes_by_others(target.planned, record)
            written = self.planned.desired.shared & target.planned.settings.keys()
            emptied = ", ".join(sorted(written & target.emptied_lists(record)))
            if emptied:
                why = f"{emptied} had lines when the websites were listed, and has none now"
                raise ValueError(f"{why}, so it was not changed. The next try reads the list again.")
        change = self.change_of(record, target.expected.before, is_new=target.is_new)
        if change is not None:
            shared = self.planned.desired.shared
            expected = ExpectedRecord(record, self.settings(change), target.planned.domain, shared)
            target.expected = expected.following(target.expected)
        return change

    def update(self, target: Target, work_out: Callable[[Record], Change | None]) -> None:
        """Send the update that is computed from the current record, if any; every update and every restore passes here.

        :param work_out: returns the change to send for a record, or None. It is called again for each attempt.
        """
        meant = target.meant
        unclear: list[Change] = []

        def send(record: Record) -> Change | None:
            change = work_out(record)
            if change is None:
                return None
            target.set(State.UNCLEAR, _UNDER_WAY)
            try:
                self.client.send_update(meant, self.settings(change))
            except AnalyticsError as error:
                if might_have_been_applied(error):
                    unclear.append(change)
                raise
            return change

        target.unconfirmed = None
        try:
            change = self.client.write_to(meant, self.client.settings.update_method, send)
        except Exception:
            if unclear:
                target.unconfirmed = unclear[-1]
            raise
        # The outcome of the attempts before the last one is unknown: it found them applied, or overwrote them.
        for sent in (*unclear, change):
            if sent is not None:
                self.note(target, sent)

    def confirm(self, target: Target) -> None:
        """Record a change whose response was lost, and that is in effect, or was sent to a website that is gone."""
        if target.unconfirmed is not None:
            self.note(target, target.unconfirmed)
            target.unconfirmed = None

    def _is_gone(self, website_id: str) -> bool:
        """Return whether a website is gone after a "not found" response: a single response might be wrong."""
        self.client.get_account()  # with a wrong base URL, everything is "not found"
        return self.client.is_gone(website_id)

    def _delete(self, target: Target) -> None:
        def start() -> None:
            target.set(State.UNCLEAR, _UNDER_WAY)

        def might_be_applied() -> None:
            target.unconfirmed = target.planned

        website_id = str(target.website_id)
        target.unconfirmed = None
        try:
            record = self.client.send_delete(target.meant, start, might_be_applied)
        except NotFoundError:
            if not self._is_gone(website_id):
                raise
            target.set(State.UNCHANGED)
            return
        target.unconfirmed = None
        # Record the website as it was now, not as it was when the plan was made.
        self.note(target, replace(target.planned, fields=deletion(record).fields))


def _missing(target: Target) -> str:
    """Return the fields of a new website that were not set yet, as the start of a text."""
    if not target.not_set:
        return ""
    return f"Created, but not set yet: {', '.join(target.not_set)}. "


def _is_rejected(error: AnalyticsError | ValueError, *, is_create: bool) -> bool:
    """Return whether the service rejected a change, and a retry cannot succeed."""
    if not isinstance(error, AnalyticsApiError) or error.is_blocked:
        return False
    if is_create and might_mean_taken(error):
        return False  # another process might have created the website: the next try finds it
    return error.permanent
