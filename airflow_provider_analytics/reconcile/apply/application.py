# SPDX-License-Identifier: Apache-2.0
"""Apply a plan: change two canaries first, then the other websites, and read all of them back."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.readable import counted, first_of
from airflow_provider_analytics.reconcile.apply.experiment import Experiment
from airflow_provider_analytics.reconcile.apply.reading import ReadBack
from airflow_provider_analytics.reconcile.apply.results import Outcome, State, Update
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.plan.plan import Plan
from airflow_provider_analytics.reconcile.service_websites import Websites
from airflow_provider_analytics.reconcile.workers import run_uninterrupted

log = logging.getLogger(__name__)

#: Maximum number of websites in a log line.
_MAX_NAMED = 10


class Application:
    """Applies the changes of a plan, and verifies them.

    Each website is fetched immediately before its update, and its change is recomputed. Changes that others made since
    the plan are therefore kept. A website is changed or deleted only if its id still belongs to the domain in the plan.
    A website that fails does not stop the others. Each changed website is read back and must return the sent values. If
    it does not, another process may have overwritten it: the change is sent again.

    :param records: the records that the plan was made from.
    """

    def __init__(self, websites: Websites, plan: Plan, records: Iterable[Record], sender: Sender) -> None:
        self._client = websites.client
        self._sender = sender
        #: One for each website, correct at any time.
        self._updates = [Update(change) for change in plan.changes]
        self._read_back = ReadBack(websites, sender)
        known = {str(record["id"]): record for record in (*websites.records, *records)}
        self._experiment = Experiment(self._updates, known, websites, sender, self._read_back)

    def run(self) -> Outcome:
        """Send the changes, and return the outcome.

        No further requests are sent after a stop of the client, an exception in this thread (such as Airflow's
        timeout), or a change that cannot be recorded. Requests under way get some time to end. The outcome contains
        the sent changes, the changes that may have been sent, and the interruption. The caller raises the interruption
        after recording the rest.
        """
        interrupted = run_uninterrupted(self._client, self._run)
        # Copies, because a request that is still under way may end now.
        updates = [replace(update, sent=list(update.sent)) for update in self._updates]
        outcome = Outcome(updates, stopped=self._experiment.stopped, interrupted=interrupted)
        changed = outcome.unexpected_changes
        if changed:
            named = first_of(changed, _MAX_NAMED, "; ")
            log.warning("Another process changed websites at the same time, at least these: %s", named)
        self._client.stats.count("changes_applied", outcome.applied)
        self._client.stats.count("changes_failed", len([update for update in updates if not update.is_good]))
        return outcome

    def _run(self) -> None:
        if len(self._updates) == 1:
            self._change_single(self._updates[0])
            return
        if self._experiment.run():
            others = [update for update in self._updates if update.state is State.NOT_TRIED]
            if others:
                first = counted(len(self._updates) - len(others), "website")
                log.info("Changed %s first, one at a time, and read them back. Now the others.", first)
            self._sender.send_all(others)
        sent = [update for update in self._updates if update.may_be_applied]
        if sent and self._experiment.stopped is None:
            self._read_back.settle()
            self._read_back.verify(sent)

    def _change_single(self, update: Update) -> None:
        """Change the only website of a plan. No second website shows the cause of an unsent change, so it fails."""
        self._sender.send_all([update])
        if update.may_be_applied:
            self._read_back.settle()
            self._read_back.verify([update], is_canary=True)
