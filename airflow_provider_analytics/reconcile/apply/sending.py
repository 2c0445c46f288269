# SPDX-License-Identifier: Apache-2.0
"""Send the changes of a plan, read the changed websites back, and compare them with the sent values.

Each planned change has one :class:`Target` with one state; everything else is derived from them.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.api.client import AnalyticsClient, Meant, might_mean_taken, other_domain
from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.fields import FIELDS, PASSWORD_FROM, SETTABLE_FIELDS, normalize, website_of
from airflow_provider_analytics.api.transport import might_have_been_applied
from airflow_provider_analytics.api.verification import (
    COMPARED,
    Comparison,
    Differences,
    ExpectedRecord,
    Record,
    has_value,
    is_final,
)
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    AnalyticsError,
    AuthenticationError,
    NotFoundError,
    StoppedError,
    StorageError,
)
from airflow_provider_analytics.readable import counted, readable
from airflow_provider_analytics.reconcile.audit_trail import AuditTrail
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState
from airflow_provider_analytics.reconcile.plan.changes import Change, Plan, change_of, deletion
from airflow_provider_analytics.reconcile.plan.plan_guards import raise_unless_approved
from airflow_provider_analytics.reconcile.service_websites import (
    GIVE_UP_AFTER,
    Breaker,
    ReadResult,
    Websites,
    each,
    reason_of,
)
from airflow_provider_analytics.reconcile.state import ListFile

log = logging.getLogger(__name__)

_UNDER_WAY = "Stopped while its change was under way: it might have been applied."


#: Why a website is not tried, if the work ended before.
NOT_SENT = "Not tried, because the work ended before its turn."


class State(StrEnum):
    """State of a website; each planned change ends in exactly one state."""

    #: It needed no change when its turn came.
    UNCHANGED = "unchanged"
    #: It was changed, and all returned fields are as sent.
    APPLIED = "applied"
    #: The change was sent, but its outcome cannot be known.
    UNCLEAR = "unclear"
    #: It could not be changed, or is not as expected.
    FAILED = "failed"
    #: The service rejected the change, and a retry cannot succeed.
    REJECTED = "rejected"
    #: No request was sent for it.
    NOT_TRIED = "not_tried"


@dataclass(eq=False)
class Target:
    """A website whose change is applied. Its state is correct at any time: *unclear* while a write is under way.

    :param planned: the change as it was planned.
    :param state: its state.
    :param reason: why the change is not applied, for people; empty if it is.
    :param sent: the changes that were sent and not rejected, in order and as they were sent; a create has the id.
    :param unconfirmed: a change that failed, but might have been applied.
    :param expected: the expected record; None if nothing was sent.
    :param comparison: the record that was read last, compared with the expected one; None if it was not read back.
    :param is_rejected_method: whether the service rejected the method of the update, or does not permit it.
    """

    planned: Change
    state: State = State.NOT_TRIED
    reason: str = NOT_SENT
    sent: list[Change] = field(default_factory=list)
    unconfirmed: Change | None = None
    expected: ExpectedRecord | None = None
    comparison: Comparison | None = None
    is_rejected_method: bool = False

    def set(self, state: State, reason: str = "") -> None:
        """Set state and reason together."""
        self.state, self.reason = state, reason

    @property
    def last(self) -> Change:
        """The last change that was sent, or the planned one."""
        if self.sent:
            return self.sent[-1]
        return self.planned

    @property
    def might_be_applied(self) -> bool:
        """Whether the change was sent and not rejected, or might have been."""
        return self.unconfirmed is not None or (bool(self.sent) and self.state is State.APPLIED)

    @property
    def is_missing(self) -> bool:
        """Whether the website was created but is not found in the list yet."""
        return self.planned.action == "create" and self.comparison is None

    @property
    def is_incomplete(self) -> bool:
        """Whether a website was created, or might have been, and is known to lack settings."""
        if self.planned.action != "create":
            return False
        if self.sent:
            return bool(self.not_set or self.not_applied)
        return self.unconfirmed is not None and len(self.unconfirmed.fields) < len(self.planned.fields)

    @property
    def not_set(self) -> list[str]:
        """Fields of a created website that a later update sets, and that was not sent yet."""
        if self.planned.action != "create" or not self.sent:
            return []
        sent: set[str] = set()
        for change in self.sent:
            sent.update(field_change.field for field_change in change.fields)
        return [field_change.field for field_change in self.planned.fields if field_change.field not in sent]

    @property
    def has_update(self) -> bool:
        """Whether an update was sent, or might have been; also one that follows a create."""
        return self.planned.action == "update" or any(change.action == "update" for change in self.sent)

    @property
    def website(self) -> str:
        """Name of the website for logs and errors."""
        return self.last.website

    @property
    def website_id(self) -> str | None:
        """Id of the website; None while it is not created."""
        return self.last.website_id

    @property
    def before(self) -> Record:
        """Its record immediately before the first update; empty for a new website."""
        if self.expected is None or self.planned.action != "update":
            return {}
        return self.expected.before

    @property
    def unverified(self) -> tuple[str, ...]:
        """Sent fields that were not read back, or that the record does not contain."""
        if self.comparison is not None:
            return self.comparison.unverified
        if not self.sent:
            return ()
        return tuple(field_change.field for field_change in self.last.fields)

    @property
    def unsent(self) -> Differences:
        """Unsent changes, see :class:`Comparison`."""
        return (self.comparison or Comparison()).unsent

    @property
    def not_applied(self) -> Differences:
        """Sent values that are not in effect, see :class:`Comparison`."""
        return (self.comparison or Comparison()).not_applied

    @property
    def entries_added(self) -> frozenset[str]:
        """Entries that were added to lists; of a change that was sent again, once."""
        return frozenset().union(*(field_change.added for change in self.sent for field_change in change.fields))

    @property
    def entries_removed(self) -> frozenset[str]:
        """Entries that were removed from lists."""
        return frozenset().union(*(field_change.removed for change in self.sent for field_change in change.fields))

    @property
    def not_stored(self) -> frozenset[str]:
        """Sent fields that the service did not store, although it accepted the change; ``website`` after a delete."""
        if self.comparison is None or self.unconfirmed is not None:
            return frozenset()
        fields = self.not_applied.keys() - self.unsent.keys()
        if self.comparison.other_domain is not None:
            fields |= {"domain"}
        return frozenset(fields)

    @property
    def lost(self) -> frozenset[str]:
        """Fields whose values changed with an update, although they were not sent."""
        if not self.has_update:
            return frozenset()
        return frozenset(self.unsent)

    @property
    def wrong(self) -> frozenset[str]:
        """Fields that are not as expected, whether they were sent or not."""
        return self.not_stored | self.lost

    @property
    def differences(self) -> str:
        """All differences from the expected record, as text."""
        return describe({**self.not_applied, **self.unsent}) or self.reason.rstrip(".")

    @property
    def values_before(self) -> str:
        """The values before the first update, as text."""
        if not self.before:
            return "none, because the website is new"
        values = []
        for name in SETTABLE_FIELDS:
            if name in self.before:
                value = self.before[name]
                if has_value(name, self.before):
                    value = normalize(name, value)
                values.append(f"{name} {readable(str(value), 200)}")
        return ", ".join(values)

    @property
    def is_good(self) -> bool:
        """Whether the website is as desired, in all fields that its record contains."""
        return self.state in (State.UNCHANGED, State.APPLIED)


def note_skipped(targets: Sequence[Target], breaker: Breaker) -> None:
    """Set the reason of the websites that were skipped because the service counts as down."""
    for target in targets:
        if breaker.is_open and target.state is State.NOT_TRIED:
            target.set(State.NOT_TRIED, f"Not tried, because {breaker.why}.")


def describe(differences: Differences) -> str:
    """Return differences as text."""
    return "; ".join(f"{name} {how}" for name, how in differences.items())


@dataclass
class Sender:
    """Sends changes, each computed from a record that is fetched immediately before, and reads the websites back.

    A website that was changed must return the sent values. If it does not, another process might have overwritten it:
    the change is sent again.

    :param websites: the websites as they were listed.
    :param desired: the desired state of each website.
    :param trail: gets each change that was sent and not rejected, a create with the id of the new website.
    :param approved: the approved plan: no other changes are sent. None if no approval is needed.
    :param list_file: the table of the list; None without a managed list.
    :param passwords: ``password_from`` reference to password.
    :param ignore_gone: do not count a website that no longer exists as a failure.
    """

    websites: Websites
    desired: DesiredState
    trail: AuditTrail
    approved: Plan | None = None
    list_file: ListFile | None = None
    passwords: Mapping[str, str] = field(default_factory=dict)
    ignore_gone: bool = False
    #: The newest websites, as they were read after the last create; None if they were not read.
    newest: Sequence[Record] | None = field(default=None, init=False)
    #: Number of websites that could not be read the last time.
    _failed_reads: int = field(default=0, init=False)

    @property
    def client(self) -> AnalyticsClient:
        """The client that sends all requests."""
        return self.websites.client

    # Sending

    def send_all(self, targets: Sequence[Target], verb: str = "Changing", breaker: Breaker | None = None) -> None:
        """Send the changes of these websites in parallel, and set their states."""
        breaker = breaker or Breaker()
        for _ in each(self.client, targets, self.send, verb, breaker):
            pass
        note_skipped(targets, breaker)

    def note(self, target: Target, change: Change) -> None:
        """Note a change that was sent and not rejected; it is not read again yet."""
        target.set(State.APPLIED)
        target.comparison = None
        target.sent.append(change)
        self.trail.sent(change)

    def change_of(self, record: Record, before: Record) -> Change | None:
        """Return the change of a website from its current record; None if it needs no change.

        :param before: its record before its first update in this run; empty until then.
        :raises ValueError: if the change is not approved, or cannot be computed.
        """
        if self.approved is not None:
            # Without the entries that are restored, which need no approval.
            raise_unless_approved(change_of(self.desired, record), self.approved)
        return change_of(self.desired, record, before)

    def compare(self, target: Target, record: Record) -> Comparison:
        """Compare a record with the sent values, and with the current desired values: others might have changed it."""
        allowed = {name: self.desired.kept(name, record) for name in self.desired.shared}
        expected = target.expected or ExpectedRecord({}, {})
        comparison = expected.compare(record, allowed)
        change = self._still_wanted(target, record)
        if change is None:
            return comparison
        for field_change in change.fields:
            name = field_change.field
            if name in comparison.missing and comparison.missing[name] <= set(field_change.added):
                del comparison.unsent[name]  # the missing lines are entries of this task
        if not comparison.not_applied:
            expected = ExpectedRecord(record, self._settings(change), shared=self.desired.shared)
            comparison.not_applied = expected.compare(record).not_applied
        return comparison

    def _still_wanted(self, target: Target, record: Record) -> Change | None:
        try:
            return self.change_of(record, target.before)
        except ValueError:  # the change is not approved, or the lists cannot be read any more
            return None

    def send(self, target: Target) -> None:
        """Send the change of a website, and set its state."""
        try:
            if target.planned.action == "delete":
                self._delete(target)
            elif target.website_id is None:
                self._create(target)
            else:
                self._update(target)
        except StoppedError:
            # The last request was not sent: a write that was under way raises another error.
            if target.sent:
                target.set(State.FAILED, self._missing(target) + NOT_SENT)
            elif target.unconfirmed is None:
                target.set(State.NOT_TRIED, NOT_SENT)
            raise
        except StorageError:  # the change was sent, and cannot be recorded
            raise
        except (AnalyticsError, ValueError) as error:
            if target.planned.action == "update" and isinstance(error, AnalyticsApiError):
                target.is_rejected_method = error.is_rejected_method
            state = State.FAILED
            if target.unconfirmed:
                state = State.UNCLEAR
            elif _is_rejected(error, is_create=target.website_id is None):
                state = State.REJECTED
            target.set(state, self._missing(target) + reason_of(error))
            raise

    def _missing(self, target: Target) -> str:
        """Return the fields of a new website that were not set yet, as the start of a text."""
        if not target.not_set:
            return ""
        return f"Created, but not set yet: {', '.join(target.not_set)}. "

    def _create(self, target: Target) -> None:
        change = target.planned
        settings = self._settings(change)
        # A create request cannot set all fields.
        at_once = {name: value for name, value in settings.items() if FIELDS[name].on_create}
        target.expected = ExpectedRecord.of_new(change.domain, settings)
        target.unconfirmed = None
        target.set(State.UNCLEAR, _UNDER_WAY)
        later = settings.keys() - at_once.keys()
        sent = tuple(field_change for field_change in change.fields if field_change.field not in later)
        create = replace(change, fields=sent)
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
            target.comparison = Comparison(created, other_domain=domain)
            raise other_domain(change.domain, created)
        if later:
            self.client.until_found(lambda: self._update(target))

    def _update(self, target: Target) -> None:
        unclear: list[Change] = []
        try:
            change = self.client.write_to(
                Meant(str(target.website_id), target.planned.domain),
                self.client.settings.update_method,
                functools.partial(self._attempt_update, target, unclear),
            )
        except NotFoundError:
            if not self.ignore_gone or not self._is_gone(str(target.website_id)):
                raise
            log.debug("Not changed: website %s does not exist any more.", target.website)
            change = None
        except Exception:
            target.unconfirmed = None
            if unclear:
                target.unconfirmed = unclear[-1]
            raise
        # The outcome of the attempts before the last one is unknown: it found them applied, or overwrote them.
        for earlier in unclear:
            self.note(target, earlier)
        if change is not None:
            self.note(target, change)
        if not target.sent:
            target.set(State.UNCHANGED)

    def _attempt_update(self, target: Target, unclear: list[Change], record: Record) -> Change | None:
        """Send the change that a website needs, and return it; None if it needs no change.

        :param unclear: gets the change if sending it failed, but it might have been applied.
        """
        change = self.change_of(record, target.before)
        if change is None:
            return None
        settings = self._settings(change)
        expected = ExpectedRecord(record, settings, target.planned.domain, shared=self.desired.shared)
        target.expected = expected.following(target.expected)
        target.set(State.UNCLEAR, _UNDER_WAY)
        try:
            self.client.send_update(str(target.website_id), settings)
        except AnalyticsError as error:
            if might_have_been_applied(error):
                unclear.append(change)
            raise
        return change

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
            record = self.client.send_delete(Meant(website_id, target.planned.domain), start, might_be_applied)
        except NotFoundError:
            if not self._is_gone(website_id):
                raise
            target.set(State.UNCHANGED)
            return
        target.unconfirmed = None
        # Record the website as it was now, not as it was when the plan was made.
        self.note(target, replace(target.planned, fields=deletion(record).fields))

    def _settings(self, change: Change) -> dict[str, Any]:
        settings = change.settings
        reference = settings.pop(PASSWORD_FROM, None)
        if reference:
            settings["password"] = self.passwords[reference]
        return settings

    # Reading back

    def verify(self, targets: Sequence[Target], *, is_tried: bool = False) -> None:
        """Read changed websites until they are as sent, and send the changes again that are not in effect.

        :param is_tried: keep the evidence: if a value changed that was not sent, the website counts as failed, is read
            until the end of all waits, and does not get its change again.
        """
        read_back = functools.partial(self._read_back, is_tried=is_tried)
        self.client.until_in_effect(targets, read_back, self._send_again)

    def _read_back(self, targets: Sequence[Target], *, is_tried: bool) -> list[Target]:
        """Read these websites until they are as sent; return the websites whose change is sent again."""
        sent = [target for target in targets if target.might_be_applied]
        for target in sent:
            if is_tried and target.state is State.APPLIED:
                target.set(State.FAILED, "Changed, and not read back before the work ended.")
        waiting = self._wait_for(sent, is_tried)
        again = [target for target in waiting if target.not_applied and target.unconfirmed is None]
        again = [target for target in again if not (is_tried and target.unsent)]
        self.client.note_not_applied(set().union(*(target.not_applied for target in again)))
        return again

    def _send_again(self, targets: Sequence[Target]) -> None:
        self.send_all(targets, "Changing once more")

    def _wait_for(self, targets: Sequence[Target], is_tried: bool) -> list[Target]:
        """Read these websites until they are as sent; return the websites that are not."""
        waiting = self.read(targets, is_tried=is_tried)
        reads: dict[Target, list[Comparison]] = {target: [] for target in waiting}
        # Rows of the list might have fewer fields or be stale. Then the record of the single website decides.
        left = sum(self.client.confirm_waits)
        for seconds in (0, *self.client.confirm_waits):
            is_down = self._failed_reads >= max(GIVE_UP_AFTER, len(waiting))
            if not waiting or is_down or all(is_final(reads[target]) for target in waiting):
                break
            self.client.announce_late(counted(len(waiting), "website"), left)
            self.client.wait(seconds)
            left -= seconds
            waiting = self.read(waiting, is_tried=is_tried, one_by_one=True)
            for target in waiting:
                reads[target].append(target.comparison or Comparison())
        return waiting

    def read(self, targets: Sequence[Target], *, is_tried: bool = False, one_by_one: bool = False) -> list[Target]:
        """Read these websites, set their states, and return the websites that a later read can return otherwise.

        :param one_by_one: read each website, never the list.
        """
        if not targets:
            return []
        fields: set[str] = set()
        for target in targets:
            if target.expected:
                fields.update(target.expected.sent, target.expected.before)
        ids = [target.website_id for target in targets if target.website_id]
        try:
            read = self.websites.read_again(ids, fields.intersection(COMPARED), one_by_one=one_by_one)
            rows = read.listed
            if rows is None and any(target.is_missing for target in targets):
                rows = self.client.newest_websites(self.websites.newest)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:  # the sent changes must still be reported
            read, rows = ReadResult({}, dict.fromkeys(ids, error.text)), None
        self._failed_reads = len(read.failures)
        if rows is not None:
            self.newest = rows
        # After the websites: a list that is written later reads them after the last request that was sent here.
        if self.list_file is not None:
            self.list_file.read_others()
        waiting = []
        for target in targets:
            if target.planned.action == "create":
                may_change = self._settle_new(target, rows, read)
            else:
                may_change = self._settle_read(target, read)
            if is_tried and target.has_update and target.unsent:
                target.set(State.FAILED, f"{target.differences}. Values before: {target.values_before}")
                may_change = True
            if may_change:
                waiting.append(target)
        return waiting

    def _settle_new(self, target: Target, rows: Sequence[Record] | None, read: ReadResult) -> bool:
        """Set the state of a new website from the rows of the list; None if the list could not be read."""
        own_id, domain = target.website_id, target.planned.domain
        if rows is None:
            return own_id is None or self._settle_read(target, read)
        found: dict[str, Record] = {}
        for row in rows:
            row_domain, row_id = website_of(row)
            if domain_key(row_domain) == domain_key(domain) or row_id == own_id:
                found[row_id] = row
        ids = set(found)
        if own_id:
            ids.add(own_id)
        if len(ids) > 1:
            reason = api_client.duplicates(domain, ids).text
            if own_id:
                reason = f"Created, but: {reason}"
            target.set(State.FAILED, reason)
            target.comparison = Comparison()
            return False
        if not found:
            if own_id:
                target.set(State.FAILED, f"Created with the id {own_id}, but it is missing from the list.")
            return True
        if own_id or target.unconfirmed is None:
            return self._settle_read(target, read)
        [website_id] = found
        target.unconfirmed = replace(target.unconfirmed, website_id=website_id)
        self._accept(target)
        # A row of the list can lack fields, and not all of them were sent yet: the record of the website decides.
        target.set(State.FAILED, "Created, and not read back before the waits ended.")
        return True

    def _settle_read(self, target: Target, read: ReadResult) -> bool:
        """Set the state of a website that was read, or could not be read."""
        website_id, action = str(target.website_id), target.planned.action
        record, failure = read.found.get(website_id), read.failures.get(website_id)
        if failure and not (action == "delete" and self.client.is_gone(website_id)):
            if target.unconfirmed is None:
                target.set(State.UNCLEAR, f"Changed, but not verified: {failure}")
            return True
        if record is None and action == "update" and not self.client.is_gone(website_id):
            target.set(State.UNCLEAR, "Changed, but not verified: one read did not return it.")
            return True
        return self._settle(target, record)

    def _settle(self, target: Target, record: Record | None) -> bool:
        """Set the state of a website from its record; None if it does not exist."""
        change = target.last
        is_other = False
        if record:
            domain = website_of(record)[0]
            is_other = bool(domain and change.domain) and not same_domain(domain, change.domain)
        if target.planned.action == "delete":
            return self._settle_deleted(target, is_gone=record is None or is_other)
        if record is None:
            return self._settle_missing(target)
        if is_other:
            self._settle_other(target, record, domain)
            return False
        comparison = self.compare(target, record)
        if not comparison.not_applied:
            self._accept(target)
        elif target.unconfirmed is None:
            target.set(
                State.FAILED,
                f"Sent, but not in effect: {describe(comparison.not_applied)}. The service ignores the values "
                "or returns them late, or another process overwrites them.",
            )
        target.comparison = comparison
        return bool(comparison.not_applied)

    def _settle_deleted(self, target: Target, *, is_gone: bool) -> bool:
        if is_gone:
            self._accept(target)
            target.comparison = Comparison()
        elif target.unconfirmed is None:
            target.comparison = Comparison(not_applied={"website": "still exists after it was deleted"})
            target.set(State.FAILED, "It still exists after it was deleted.")
        return not is_gone

    def _settle_missing(self, target: Target) -> bool:
        if target.planned.action == "update" and self.ignore_gone:
            target.set(State.APPLIED)
            return False
        target.set(State.FAILED, "It does not exist: another process deleted it.")
        return target.planned.action == "create"

    def _settle_other(self, target: Target, record: Record, domain: str) -> None:
        """Set the state of a website whose id belongs to another domain."""
        if target.planned.action == "create":
            target.comparison = Comparison(record, other_domain=domain)
            reason = api_client.other_domain(target.last.domain, record).text
        else:
            reason = f"The id {target.website_id} belongs to {domain!r} now, which might have got its change."
        target.set(State.FAILED, reason)

    def _accept(self, target: Target) -> None:
        """Note that a change is in effect. If its response was lost, it is recorded now."""
        if target.unconfirmed is not None:
            self.note(target, target.unconfirmed)
            target.unconfirmed = None
        target.set(State.APPLIED)


def _is_rejected(error: AnalyticsError | ValueError, *, is_create: bool) -> bool:
    """Return whether the service rejected a change, and a retry cannot succeed."""
    if not isinstance(error, AnalyticsApiError) or error.is_blocked:
        return False
    if is_create and might_mean_taken(error):
        return False  # another process might have created the website: the next try finds it
    return error.status in (403, 413) or error.is_invalid
