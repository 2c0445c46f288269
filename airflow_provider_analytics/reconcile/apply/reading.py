# SPDX-License-Identifier: Apache-2.0
"""Read changed websites back, and compare them with the sent values."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.fields import website_of
from airflow_provider_analytics.api.reading import duplicates, other_domain
from airflow_provider_analytics.api.verification import (
    COMPARED,
    NEW_WEBSITE,
    Comparison,
    ExpectedRecord,
    Record,
    is_final,
    with_omitted,
)
from airflow_provider_analytics.exceptions import AnalyticsError, AuthenticationError, StoppedError
from airflow_provider_analytics.readable import counted
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.apply.targets import State, Target, describe
from airflow_provider_analytics.reconcile.plan.changes import Change
from airflow_provider_analytics.reconcile.service_websites import GIVE_UP_AFTER, ReadResult

log = logging.getLogger(__name__)


class Reader:
    """Reads changed websites back, and sets their states.

    A website that was changed must return the sent values. If it does not, another process might have overwritten it:
    the change is sent again.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._client = sender.client
        #: The newest websites, as they were read after the last create; None if they were not read.
        self.newest: Sequence[Record] | None = None
        #: Seconds until the latest change so far was returned.
        self.late = 0.0
        #: Number of websites that could not be read the last time.
        self._failed_reads = 0

    def verify(self, targets: Sequence[Target], *, keeps_evidence: bool = True) -> None:
        """Read changed websites until they are as sent, and send the changes again that are not in effect.

        :param keeps_evidence: do not send a change again to a website that also lost other values.
        """

        def read_back(changed: Sequence[Target]) -> list[Target]:
            waiting = self._read_until_as_sent([target for target in changed if target.might_be_applied])
            again = [target for target in waiting if target.comparison.not_applied and target.unconfirmed is None]
            again = [target for target in again if not (keeps_evidence and target.lost)]
            self._client.note_not_applied(set().union(*(target.comparison.not_applied for target in again)))
            return again

        self._client.until_in_effect(targets, read_back, self._sender.send_again)

    def _read_until_as_sent(self, targets: Sequence[Target]) -> list[Target]:
        """Read these websites until they are as sent; return the websites that are not."""
        waiting = self.read(targets)
        reads: dict[Target, list[Comparison]] = {target: [] for target in waiting}
        # Rows of the list might have fewer fields or be stale. Then the record of the single website decides.
        left, waited = sum(self._client.confirm_waits), 0.0
        for seconds in (0, *self._client.confirm_waits):
            is_down = self._failed_reads >= max(GIVE_UP_AFTER, len(waiting))
            if not waiting or is_down or all(is_final(reads[target]) for target in waiting):
                break
            self._client.announce_late(counted(len(waiting), "website"), left)
            self._client.wait(seconds)
            left -= seconds
            waited += seconds
            before, waiting = waiting, self.read(waiting, one_by_one=True)
            if len(waiting) < len(before):
                self.late = max(self.late, waited)
            for target in waiting:
                reads[target].append(target.comparison)
        return waiting

    def read(self, targets: Sequence[Target], *, one_by_one: bool = False) -> list[Target]:
        """Read these websites, set their states, and return the websites that a later read can return otherwise.

        :param one_by_one: read each website, never the list.
        """
        if not targets:
            return []
        fields: set[str] = set()
        for target in targets:
            fields.update(target.expected.sent, target.expected.before)
        websites = self._sender.planned.websites
        ids = [target.website_id for target in targets if target.website_id]
        has_new = any(target.is_new and not target.is_read for target in targets)
        try:
            read = websites.read_again(ids, fields.intersection(COMPARED), one_by_one=one_by_one)
            rows = read.listed
            if rows is None and has_new:
                rows = self._client.newest_websites(websites.newest)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:  # the sent changes must still be reported
            read, rows = ReadResult({}, dict.fromkeys(ids, error.text)), None
        self._failed_reads = len(read.failures)
        if rows is not None:
            self.newest = rows
        # After the websites: a list that is written later reads them after the last request that was sent here.
        if self._sender.job.list_file is not None:
            self._sender.job.list_file.read_others()
        waiting = []
        for target in targets:
            if target.is_new:
                may_change = self._settle_new(target, rows, read)
            else:
                may_change = self._settle(target, read)
            if may_change or target.lost.keys() - self._sender.changed_by_others:
                waiting.append(target)
        return waiting

    def _settle_new(self, target: Target, rows: Sequence[Record] | None, read: ReadResult) -> bool:
        """Set the state of a new website from the rows of the list; None if the list could not be read."""
        own_id, domain = target.website_id, target.planned.domain
        if rows is None:
            return own_id is None or self._settle(target, read)
        ids = {own_id} - {None}
        for row in rows:
            row_domain, row_id = website_of(row)
            if domain_key(row_domain) == domain_key(domain):
                ids.add(row_id)
        if len(ids) > 1:
            reason = duplicates(domain, map(str, ids)).text
            if own_id:
                reason = f"Created, but: {reason}"
            target.set(State.FAILED, reason)
            target.compared(Comparison())
            return False
        if own_id and own_id not in {str(row["id"]) for row in rows}:
            target.set(State.FAILED, f"Created with the id {own_id}, but it is missing from the list.")
            return True
        if own_id:
            return self._settle(target, read)
        if ids:
            return self._adopt(target, str(ids.pop()))
        return True

    def _adopt(self, target: Target, website_id: str) -> bool:
        """Decide whether a website that was found after a lost create is the website of this task."""
        create = replace(target.unconfirmed or target.planned, website_id=website_id)
        try:
            record = self._client.read_website(website_id)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError:
            return True
        new = {**NEW_WEBSITE, **create.settings}
        comparison = ExpectedRecord({}, {name: new[name] for name in COMPARED}).compare(record)
        hidden = [name for name in comparison.unverified if name in create.settings]
        differing = describe({**comparison.not_applied, **dict.fromkeys(hidden, "is not returned")})
        if differing:
            target.set(
                State.UNCLEAR,
                f"The response to its create was lost, and the website {website_id} has other values than a new one: "
                f"{differing}. Another user might have created it, so it was not changed. Check it.",
            )
            target.unconfirmed = None
            target.is_another_website = True  # a retry would change it
            return False
        target.unconfirmed = create
        self._sender.confirm(target)
        return self._settle_record(target, record)

    def _settle(self, target: Target, read: ReadResult) -> bool:
        """Set the state of a website that was read, or could not be read."""
        website_id, action = str(target.website_id), target.planned.action
        record, failure = read.found.get(website_id), read.failures.get(website_id)
        if failure and not (action == "delete" and self._client.is_gone(website_id)):
            if target.unconfirmed is None:
                target.set(State.UNCLEAR, f"Changed, but not verified: {failure}")
            return True
        if record is None and action == "update" and not self._client.is_gone(website_id):
            target.set(State.UNCLEAR, "Changed, but not verified: one read did not return it.")
            return True
        domain = target.last.domain
        is_other = False
        if record is not None:
            found = website_of(record)[0]
            is_other = bool(found and domain) and not same_domain(found, domain)
        if action == "delete":
            # After a lost delete, another domain is that of a new website, or that of the renamed one.
            is_gone = record is None or (is_other and target.unconfirmed is None)
            return self._settle_deleted(target, is_gone=is_gone)
        if record is None:
            if action == "update" and self._sender.ignore_gone:
                log.info("Website %s was changed, and does not exist any more.", target.website)
                target.set(State.APPLIED)
                target.is_read = True
                return False
            target.set(State.FAILED, "It does not exist: another process deleted it.")
            return action == "create"
        if is_other:
            reason = f"The id {website_id} belongs to {found!r} now, which might have got its change."
            if action == "create":
                target.compared(Comparison(record, other_domain=found))
                reason = other_domain(domain, record).text
            target.set(State.FAILED, reason)
            target.is_another_website = True
            return False
        return self._settle_record(target, record)

    def _settle_record(self, target: Target, record: Record) -> bool:
        comparison = self._compare(target, record)
        if not comparison.not_applied:
            self._sender.confirm(target)
            target.set(State.APPLIED)
        elif target.unconfirmed is None:
            target.set(
                State.FAILED,
                f"Sent, but not in effect: {describe(comparison.not_applied)}. The service ignores the values "
                "or returns them late, or another process overwrites them.",
            )
        target.compared(comparison)
        return bool(comparison.not_applied)

    def _settle_deleted(self, target: Target, *, is_gone: bool) -> bool:
        if is_gone:
            self._sender.confirm(target)
            target.set(State.APPLIED)
            target.compared(Comparison())
        elif target.unconfirmed is None:
            target.compared(Comparison(not_applied={"website": "still exists after it was deleted"}))
            target.set(State.FAILED, "It still exists after it was deleted.")
        return not is_gone

    def _compare(self, target: Target, record: Record) -> Comparison:
        """Compare a record with the sent values, and with the current desired values: others might have changed it."""
        desired = self._sender.planned.desired
        allowed = {name: desired.kept(name, record) for name in desired.shared}
        if target.planned.action == "update":
            # A field that appears with an update was omitted before, because it was empty.
            known = self._client.known_fields
            record = with_omitted(dict(record), known)
            before = with_omitted(dict(target.expected.before), known)
            target.expected = replace(target.expected, before=before)
        comparison = target.expected.compare(record, allowed)
        change = self._still_wanted(target, record)
        if change is None:
            return comparison
        for field_change in change.fields:
            name = field_change.field
            if name in comparison.missing and comparison.missing[name] <= set(field_change.added):
                del comparison.unsent[name]  # the missing lines are entries of this task
        if not comparison.not_applied:
            expected = ExpectedRecord(record, self._sender.settings(change), shared=desired.shared)
            comparison.not_applied = expected.compare(record).not_applied
        return comparison

    def _still_wanted(self, target: Target, record: Record) -> Change | None:
        try:
            return self._sender.change_of(record, target.expected.before, is_new=target.is_new)
        except ValueError:  # the change is not approved, or the lists cannot be read any more
            return None
