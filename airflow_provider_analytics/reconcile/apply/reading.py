# SPDX-License-Identifier: Apache-2.0
"""Read changed websites back, set their states, and send changes again that are not in effect."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.verification import COMPARED, Comparison, Record
from airflow_provider_analytics.exceptions import AnalyticsError, AuthenticationError, StoppedError
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import counted
from airflow_provider_analytics.reconcile.apply.results import State, Update, describe
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.records import website_of
from airflow_provider_analytics.reconcile.service_websites import ReadResult, Websites
from airflow_provider_analytics.reconcile.workers import GIVE_UP_AFTER

#: Seconds to wait before all changed websites are read back: an update that another process computed earlier may still
#: arrive.
SETTLE_SECONDS = 1.0
#: How often a change that is not in effect is sent again.
RESENDS = 2

log = logging.getLogger(__name__)


class ReadBack:
    """Reads changed websites until their records contain the sent values, and sets their states.

    The methods that set a state return whether a later read may return something else.
    """

    def __init__(self, websites: Websites, sender: Sender) -> None:
        self._websites = websites
        self._client = websites.client
        self._sender = sender

    def settle(self) -> None:
        """Wait until the updates that other processes have computed have probably arrived."""
        self._client.wait(SETTLE_SECONDS)

    def verify(self, updates: Sequence[Update], *, is_canary: bool = False) -> None:
        """Read changed websites until they are as sent, and send the changes again that are not in effect.

        :param is_canary: keep the evidence: if a value changed that was not sent, the website counts as failed, is read
            until the end of all waits, and does not get its change again.
        """
        if is_canary:
            for update in updates:
                if update.state is State.APPLIED:
                    update.set(State.FAILED, "Changed, and not read back before the work ended.")
        waiting = self._wait_for(updates, is_canary)
        for _ in range(RESENDS):
            again = [update for update in waiting if update.not_applied and update.unconfirmed is None]
            if is_canary:
                again = [update for update in again if not update.unsent]
            if not again:
                break
            log.info("Sending the change of %s again: it is not in effect.", counted(len(again), "website"))
            # Several tasks that overwrite each other's lines must not do it again at the same time.
            self._client.wait(RANDOM.uniform(0, SETTLE_SECONDS))
            self._sender.send_all(again, "Changing once more")
            sent = [update for update in again if update.state is State.APPLIED]
            waiting = [update for update in waiting if update not in again]
            waiting += self._wait_for(sent, is_canary)

    def _wait_for(self, updates: Sequence[Update], is_canary: bool) -> list[Update]:
        """Read these websites until they are as sent; return the websites that are not."""
        waiting = self.read(updates, is_canary=is_canary)
        # Rows of the list may have fewer fields or be stale. Then the record of the single website decides.
        for seconds in (0, *self._client.confirm_waits):
            is_down = len(waiting) >= GIVE_UP_AFTER and all(update.state is State.UNCLEAR for update in waiting)
            if not waiting or is_down:
                break
            self._client.wait(seconds)
            waiting = self.read(waiting, is_canary=is_canary, one_by_one=True)
        return waiting

    def read(self, updates: Sequence[Update], *, is_canary: bool = False, one_by_one: bool = False) -> list[Update]:
        """Read these websites, set their states, and return the websites that a later read may return otherwise.

        :param one_by_one: read each website, never the list.
        """
        if not updates:
            return []
        fields: set[str] = set()
        for update in updates:
            if update.expected:
                fields.update(update.expected.sent, update.expected.before)
        ids = [update.website_id for update in updates if update.website_id]
        try:
            read = self._websites.read_again(ids, fields.intersection(COMPARED), one_by_one=one_by_one)
            rows = read.listed
            if rows is None and any(update.is_missing for update in updates):
                rows = self._client.newest_websites(self._websites.newest)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:  # the sent changes must still be reported
            read, rows = ReadResult({}, dict.fromkeys(ids, error.text)), None
        # After the websites: a list that is written later reads them after the last request that was sent here.
        self._sender.read_tables()
        waiting = []
        for update in updates:
            if update.planned.action == "create":
                may_change = self._settle_new(update, rows, read)
            else:
                may_change = self._settle_read(update, read)
            if is_canary and update.has_update and update.unsent:
                update.set(State.FAILED, f"{update.differences}. Values before: {update.values_before}")
                may_change = True
            if may_change:
                waiting.append(update)
        return waiting

    def _settle_new(self, update: Update, rows: Sequence[Record] | None, read: ReadResult) -> bool:
        """Set the state of a new website from the rows of the list; None if the list could not be read."""
        own_id, domain = update.website_id, update.planned.domain
        if rows is None:
            return own_id is None or self._settle_read(update, read)
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
            update.set(State.FAILED, reason)
            return False
        if not found:
            if own_id:
                update.set(State.FAILED, f"Created with the id {own_id}, but it is missing in the list.")
            return True
        if update.unconfirmed is None:
            return self._settle_read(update, read)
        [website_id] = found
        update.unconfirmed = replace(update.unconfirmed, website_id=website_id)
        self._accept(update)
        # A row of the list can lack fields, and not all of them were sent yet: the record of the website decides.
        update.set(State.FAILED, "Created, and not read back before the waits ended.")
        return True

    def _settle_read(self, update: Update, read: ReadResult) -> bool:
        """Set the state of a website that was read, or could not be read."""
        website_id, action = str(update.website_id), update.planned.action
        record, failure = read.found.get(website_id), read.failures.get(website_id)
        if failure and not (action == "delete" and self._client.is_gone(website_id)):
            if update.unconfirmed is None:
                update.set(State.UNCLEAR, f"Changed, but not verified: {failure}")
            return True
        if record is None and action == "update" and not self._client.is_gone(website_id):
            update.set(State.UNCLEAR, "Changed, but not verified: it was not found once.")
            return True
        return self._settle(update, record)

    def _settle(self, update: Update, record: Record | None) -> bool:
        """Set the state of a website from its record; None if it does not exist."""
        change = update.last
        is_other = False
        if record:
            domain = website_of(record)[0]
            is_other = bool(domain and change.domain) and not same_domain(domain, change.domain)
        if update.planned.action == "delete":
            return self._settle_deleted(update, is_gone=record is None or is_other)
        if record is None:
            return self._settle_missing(update)
        if is_other:
            self._settle_other(update, record, domain)
            return False
        comparison = self._sender.compare(update, record)
        if not comparison.not_applied:
            self._accept(update)
        elif update.unconfirmed is None:
            update.set(
                State.FAILED,
                f"Sent, but not in effect: {describe(comparison.not_applied)}. The service ignores the values, or "
                "another process overwrites them.",
            )
        update.comparison = comparison
        return bool(comparison.not_applied)

    def _settle_deleted(self, update: Update, *, is_gone: bool) -> bool:
        if is_gone:
            self._accept(update)
            update.comparison = Comparison()
        elif update.unconfirmed is None:
            update.comparison = Comparison(not_applied={"website": "still exists after it was deleted"})
            update.set(State.FAILED, "It still exists after it was deleted.")
        return not is_gone

    def _settle_missing(self, update: Update) -> bool:
        if update.planned.action == "update" and self._sender.ignore_gone:
            update.set(State.APPLIED)
            return False
        update.set(State.FAILED, "It does not exist: another process deleted it.")
        return update.planned.action == "create"

    def _settle_other(self, update: Update, record: Record, domain: str) -> None:
        """Set the state of a website whose id belongs to another domain."""
        if update.planned.action == "create":
            update.comparison = Comparison(record, other_domain=domain)
            reason = api_client.other_domain(update.last.domain, record).text
        else:
            reason = f"The id {update.website_id} belongs to {domain!r} now, which may have got its change."
        update.set(State.FAILED, reason)

    def _accept(self, update: Update) -> None:
        """Note that a change is in effect. If its response was lost, it is recorded now."""
        if update.unconfirmed is not None:
            self._sender.note(update, update.unconfirmed)
            update.unconfirmed = None
        update.set(State.APPLIED)
