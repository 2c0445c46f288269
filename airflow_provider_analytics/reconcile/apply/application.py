# SPDX-License-Identifier: Apache-2.0
"""Apply a plan in growing batches: change some websites, read them back, and only then change more.

The service does not say whether an update keeps the other fields, or stores each value as it was sent. So the first
website is changed alone and read back, then 1, 2, 4, 16, and 48, in random order. A website that is not as expected
proves nothing, because another process might have changed it. The same problem in a second batch stops the run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import website_of
from airflow_provider_analytics.api.verification import COMPARED
from airflow_provider_analytics.exceptions import AnalyticsError, AuthenticationError, NotAppliedError, StoppedError
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import counted, first_of
from airflow_provider_analytics.reconcile.apply.outcome import Outcome
from airflow_provider_analytics.reconcile.apply.problems import LOST, Problem, problems_of
from airflow_provider_analytics.reconcile.apply.reading import Reader
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.apply.stopping import damage_everywhere, stop
from airflow_provider_analytics.reconcile.apply.targets import State, Target
from airflow_provider_analytics.reconcile.service_websites import Breaker, Progress, run_uninterrupted

#: The order of actions. Each starts with a single website.
ACTIONS = ("update", "create", "delete")
#: Number of websites since the last problem from which on a batch is twice as large as all batches before it.
DOUBLED_FROM = 8
#: Consecutive failures after which the service counts as down, before the first success.
FAILURES_AT_FIRST = 3
#: Number of unchanged websites that are read to find out whether others change the same fields at the moment.
OTHERS_READ = 8
#: Maximum number of websites, or of domains, in a log line or an error.
_MAX_NAMED = 10
_NOT_READ = "Changed, and not read back before the work ended."

log = logging.getLogger(__name__)


class Application:
    """Applies the changes of a plan and verifies them.

    Each website is fetched immediately before its update, and its change is computed again. Changes that others made
    since the plan are therefore kept. A website is changed or deleted only if its id still belongs to the domain in the
    plan. A website that fails does not stop the others.
    """

    def __init__(self, sender: Sender) -> None:
        self._client = sender.client
        self._sender = sender
        self._reader = Reader(sender)
        #: One for each website, correct at any time.
        desired = sender.planned.desired
        self._targets = [
            Target(change, only_at_first=desired.only_at_first(change.domain)) for change in sender.planned.plan.changes
        ]
        #: The websites that are not tried yet.
        self._left = list(self._targets)
        #: The number of websites since the last problem, of the current action.
        self._since_problem = 0
        #: The problems of earlier batches.
        self._noted: set[Problem] = set()
        self._breaker = Breaker(FAILURES_AT_FIRST)
        self._progress = Progress("Changing", len(self._targets))
        self._stopped: NotAppliedError | None = None

    def run(self) -> Outcome:
        """Send the changes, and return the outcome.

        No further requests are sent after a stop of the client, an exception in this thread (such as Airflow's
        timeout), or a change that cannot be recorded. Requests under way get some time to end. The outcome contains
        the sent changes, the changes that might have been sent, and the interruption, which the caller raises after
        recording the rest.
        """
        interrupted = run_uninterrupted(self._client, self._run)
        # Copies, because a request that is still under way can end now.
        targets = [replace(target, sent=list(target.sent)) for target in self._targets]
        if interrupted is not None:
            self._fail_unverified(targets)
        outcome = Outcome(targets, self._sender.planned.unread, self._stopped, interrupted)
        if outcome.unexpected_changes:
            number = counted(len(outcome.changed_unexpectedly), "website")
            named = first_of(outcome.unexpected_changes, _MAX_NAMED, "; ")
            log.warning("Values that this task did not send changed on %s. %s.", number, named)
        self._client.stats.count("changes_applied", outcome.applied)
        self._client.stats.count("changes_failed", len([target for target in targets if not target.is_good]))
        return outcome

    def _fail_unverified(self, targets: Iterable[Target]) -> None:
        """Let the websites fail that were not verified before an interruption."""
        for target in targets:
            if target.state is not State.APPLIED:
                continue
            if not target.is_read:
                target.set(State.FAILED, _NOT_READ)
            elif LOST in self._problems_of(target):
                target.set(State.FAILED, f"{target.differences}. {target.values_before}")

    def _run(self) -> None:
        RANDOM.shuffle(self._left)
        self._left.sort(key=lambda target: ACTIONS.index(target.planned.action))
        is_first = True
        is_lost_at_first = False
        while self._left and not self._breaker.is_open:
            batch = self._next_batch()
            self._sender.send_all(batch, self._progress, self._breaker)
            self._read_back(batch)
            if is_first:
                is_lost_at_first = any(target.lost for target in batch)
                is_first = False
            problems = self._confirmed_problems(batch)
            repeated = problems & self._noted
            if repeated:
                self._stopped = stop(self._sender, self._reader, self._targets, min(repeated))
                return
            self._noted |= problems
            if self._is_list_outdated(batch):
                return
            self._grow(batch, problems)
        self._skip_the_others()
        self._end(is_lost_at_first=is_lost_at_first)

    # Batches

    def _next_batch(self) -> list[Target]:
        """Take the next websites with the same action."""
        size = max(1, self._since_problem)
        if self._since_problem >= DOUBLED_FROM:
            size = 2 * self._since_problem
        action = self._left[0].planned.action
        batch = [target for target in self._left[:size] if target.planned.action == action]
        del self._left[: len(batch)]
        return batch

    def _grow(self, batch: Sequence[Target], problems: set[Problem]) -> None:
        """Count the websites since the last problem; after a problem, and for a new action, go on with one website."""
        is_new_action = bool(self._left) and self._left[0].planned.action != batch[0].planned.action
        if problems or is_new_action:
            self._since_problem = 0
            return
        for target in batch:
            if target.is_good or target.state is State.REJECTED:
                self._since_problem += 1

    def _read_back(self, batch: Sequence[Target]) -> None:
        """Read the websites of a batch back; after the last one, all changed websites."""
        is_last = not self._left or self._breaker.is_open
        if not is_last:
            self._client.wait(self._reader.late)
            self._reader.verify(batch)
            return
        sent = [target for target in self._targets if target.might_be_applied]
        if sent:
            self._client.wait(max(api_client.SETTLE_SECONDS, self._reader.late))
            self._reader.verify(sent)

    def _skip_the_others(self) -> None:
        for target in self._left:
            target.set(State.NOT_TRIED, f"Not tried, because {self._breaker.why}.")

    def _end(self, *, is_lost_at_first: bool) -> None:
        """Send the changes again that were kept as evidence, and note the changes that others made."""
        if len(self._targets) == 1:
            [target] = self._targets
            if LOST in self._problems_of(target):
                target.set(State.FAILED, f"{target.differences}. {target.values_before}")
        else:
            evidence = [target for target in self._targets if target.lost and target.comparison.not_applied]
            for target in evidence:
                target.set(State.APPLIED)
            self._reader.verify(evidence, keeps_evidence=False)
        self._note_changes_since_the_plan()
        list_file = self._sender.job.list_file
        has_other_lists = list_file is not None and list_file.runs_at_the_same_time()
        if is_lost_at_first and not has_other_lists:
            self._stopped = damage_everywhere(self._targets)

    def _note_changes_since_the_plan(self) -> None:
        """Add the unsent values that changed between the plan and the fetch before the update of a website."""
        for target in self._targets:
            if target.is_read and target.planned.action == "update":
                since_plan = target.expected.since(target.planned.record).compare(target.comparison.record)
                target.comparison.unsent = {**since_plan.unsent, **target.comparison.unsent}

    # Problems

    def _problems_of(self, target: Target) -> set[Problem]:
        return set(problems_of(target, self._sender.changed_by_others))

    def _confirmed_problems(self, batch: Sequence[Target]) -> set[Problem]:
        """Return the problems of a batch that remain until late reads are up to date.

        Another task might work at the same moment, and end meanwhile. Fields that others change are no problem.
        """
        doubtful = []
        for target in batch:
            if any(problem.can_pass for problem in self._problems_of(target)):
                doubtful.append(target)
        if doubtful:
            log.warning("%s is not as expected. %s.", doubtful[0].website, doubtful[0].differences)
            self._look_at_others()
            self._client.wait(sum(self._client.confirm_waits))
            self._reader.read(doubtful, one_by_one=True)
        return set().union(*map(self._problems_of, batch))

    def _look_at_others(self) -> None:
        """Read some websites that this run has not changed, to find the fields that others change at the moment."""
        others = {}
        for target in self._left[:OTHERS_READ]:
            if target.website_id is not None:
                others[target.website_id] = target.planned
        if not others:
            return
        try:
            read = self._sender.planned.websites.read_again(list(others), COMPARED)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:
            log.info("The other websites could not be read: %s", error.text)
            return
        for website_id, record in read.found.items():
            self._sender.note_changes_by_others(others[website_id], record)

    def _is_list_outdated(self, batch: Sequence[Target]) -> bool:
        """Return whether a create that was alone reveals that the list was not right, although it was complete.

        The new website is still missing after all waits, or the list contains domains now that the plan creates.
        """
        [target, *others] = batch
        if others or not target.is_new or not (target.sent or target.unconfirmed):
            return False
        if not target.is_read:
            return not target.is_good
        created = {domain_key(other.planned.domain) for other in self._left if other.is_new}
        listed = [website_of(row)[0] for row in self._reader.newest or ()]
        wrong = [domain for domain in listed if domain_key(domain) in created]
        if wrong:
            target.set(
                State.FAILED,
                f"Created, but the list contains {counted(len(wrong), 'domain')} now that the plan would create as "
                f"well: {first_of(wrong, _MAX_NAMED)}. It did not contain them before, so no other change was sent. "
                "The next try plans again.",
            )
        return bool(wrong)
