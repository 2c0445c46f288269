"""Apply a plan: some websites alone and first, then the others, and read all of them back.

A website that goes first is a *canary*. Each is changed and read back alone, until everything that a service could lose
was on one of them. Only a loss is evidence against the service (:class:`~.verification.Comparison`): other unexpected
changes are the work of others. If a canary lost something, a second website that can lose the same decides. If the
service is the cause, both are put back, and nothing else is sent. After the canaries, the service is not suspected any
more.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.fields import FIELDS, normalise, sendable
from airflow_provider_analytics.api.verification import COMPARED, Comparison, Expected, Record, shows
from airflow_provider_analytics.exceptions import AnalyticsError, AuthenticationError, NotAppliedError, StoppedError
from airflow_provider_analytics.readable import counted, first_of
from airflow_provider_analytics.reconcile.canaries import Canaries, Risk, risks_of
from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS
from airflow_provider_analytics.reconcile.plan import Plan, website_of
from airflow_provider_analytics.reconcile.results import Outcome, Result, State, describe
from airflow_provider_analytics.reconcile.sending import Sender
from airflow_provider_analytics.reconcile.websites import Read, Websites
from airflow_provider_analytics.reconcile.workers import Breaker, each

#: Seconds to wait before the changed websites are read back. An update that another process computed earlier may still
#: arrive.
SETTLE_SECONDS = 1.0
#: Consecutive failures after which the service counts as down, while websites are changed one at a time.
ATTEMPTS_ALONE = 3
#: How often a change that is not in effect is sent again.
RESENDS = 2
#: Number of websites that were not changed and are read to find out whether other tasks change values, too.
OTHERS_READ = 10

log = logging.getLogger(__name__)

#: Maximum number of websites in a log line.
_MAX_NAMED = 10
_NOT_READ_BACK = "Changed, and not read again before the work ended."
_PUT_BACK = "It was put back, and its previous values were verified"


class Application:
    """Applies the changes of a plan, and verifies them.

    Each website is fetched immediately before its update, and its change is recomputed. Changes that others made since
    the plan are therefore kept. A website is changed or deleted only if its id still belongs to the domain in the plan.
    A website that fails does not stop the others. Each changed website is read back and must show what was sent. If it
    does not, another process may have overwritten it: it is changed once more.

    :param records: the records that the plan was made from; used to choose the canaries.
    """

    def __init__(self, websites: Websites, plan: Plan, records: Iterable[Record], sender: Sender) -> None:
        self._websites = websites
        self._client = websites.client
        self._sender = sender
        self._records = {str(record["id"]): record for record in records}
        #: One result for each website, correct at any time.
        self._results = [Result(change) for change in plan.changes]
        #: Canaries that are not as expected, with the risks that they took.
        self._wrong: list[tuple[Result, frozenset[Risk]]] = []
        #: The canary that is read back. If it lost values, it is doubted, and read until the end of all waits.
        self._judged: Result | None = None
        self._unfaithful: NotAppliedError | None = None

    def run(self) -> Outcome:
        """Send the changes, and return the outcome.

        No further requests are sent after a stop of the client, an exception in this thread (such as Airflow's
        timeout), or a change that cannot be recorded. Requests under way get some time to end. The outcome contains
        what was sent, what may have been sent, and the interruption. The caller raises the interruption after recording
        the rest.
        """
        interrupted: BaseException | None = None
        try:
            self._run()
        except BaseException as error:
            self._client.stop()
            interrupted = error
        # Copies, because a request that is still under way may end now.
        results = [replace(result, sent=list(result.sent)) for result in self._results]
        outcome = Outcome(results, unfaithful=self._unfaithful, interrupted=interrupted)
        if changed := outcome.unexpected_changes:
            named = first_of(changed, _MAX_NAMED, "; ")
            log.warning("Another process changed websites at the same time, at least these: %s", named)
        self._client.stats.count("changes_applied", outcome.applied)
        self._client.stats.count("changes_failed", sum(not one.is_good for one in outcome.results))
        return outcome

    def _run(self) -> None:
        """Change the canaries alone, then the others, and read all of them back."""
        if self._change_canaries():
            self._send([one for one in self._results if one.state is State.NOT_TRIED])
        sent = [one for one in self._results if one.unconfirmed or (one.sent and one.state is State.APPLIED)]
        if len(self._results) > 1 and sent:
            self._client.wait(SETTLE_SECONDS)
            self._read_back(sent)

    # Canaries

    def _change_canaries(self) -> bool:
        """Change websites one at a time, until each risk was taken by one of them; return whether to go on."""
        canaries = Canaries(self._results, self._records)
        breaker = Breaker(ATTEMPTS_ALONE)
        while not breaker.is_open and self._unfaithful is None:
            canary = canaries.next([risks for result, risks in self._wrong if result.is_doubted])
            if canary is None:
                # If no other website can lose the same, those that lost a part of it are cleared.
                for result, _ in self._wrong:
                    if result.comparison and not result.comparison.is_reset:
                        self._clear(result)
                return True
            self._send([canary], breaker=breaker)
            if len(self._results) == 1:
                self._client.wait(SETTLE_SECONDS)
            if canary.sent or canary.unconfirmed:
                self._judge(canary, canaries)
        return False

    def _judge(self, canary: Result, canaries: Canaries) -> None:
        """Read a canary back. If two of them are not as expected, put both back."""
        if canary.state is State.APPLIED:
            canary.set(State.FAILED, _NOT_READ_BACK)  # until it is known, in case of a stop
        self._judged = canary
        if canary.why == _NOT_READ_BACK or canary.unconfirmed:
            self._read_back([canary])
        self._judged = None
        if canary.is_doubted and self._is_done_by_others(canary.lost):
            self._clear(canary)
        risks = risks_of(canary.planned, canary.before)
        if canary.is_doubted:
            risks = frozenset(one for one in risks if one[0] in canary.lost)
        elif canary.state is State.APPLIED:
            canaries.settle(risks)
            for result, lost in self._wrong:
                if lost <= risks:  # this one could have lost the same
                    self._clear(result)
            self._wrong = [one for one in self._wrong if not one[0].is_good]
        if canary.is_contradicted or canary.is_doubted:
            self._wrong.append((canary, risks))
        if len(self._wrong) > 1:
            self._stop()

    def _clear(self, result: Result) -> None:
        """Note that a doubted website lost its values by others."""
        if result.is_doubted and result.comparison and not result.comparison.not_applied:
            result.set(State.APPLIED)
        result.is_doubted = False

    def _is_done_by_others(self, lost: Record) -> bool:
        """Return whether websites that were not changed here lost the same since they were listed."""
        changed = {result.website_id for result in self._results if result.state is not State.NOT_TRIED}
        before = {
            website_id: record
            for website_id, record in self._records.items()
            if website_id not in changed and any(shows(name, record) for name in lost)
        }
        ids = random.sample(sorted(before), min(OTHERS_READ, len(before)))
        try:
            read = self._websites.read_again(ids, lost.keys())
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError:
            return False
        return any(Expected(before[one], {}).compare(now).lost.keys() & lost.keys() for one, now in read.found.items())

    def _stop(self) -> None:
        """Put the wrong websites back, and note that no others are changed."""
        wrong = [result for result, _ in self._wrong]
        unclear = [one for one in self._results if one.state is State.UNCLEAR]
        self._read(unclear, one_by_one=True)
        outcomes = []
        for result in (*wrong, *(one for one in unclear if one.lost)):
            differences, how = result.differences or result.why.rstrip("."), self._put_back(result)
            result.set(State.FAILED, f"{differences}. {how}")
            result.sent = [] if how == _PUT_BACK else result.sent
            outcomes.append(f"{result.website}: {how}.")
        left = sum(one.state is State.NOT_TRIED for one in self._results)
        first, second = wrong
        comparison = first.comparison or Comparison()
        fields = ", ".join(one.field for one in first.last.fields) or first.planned.action
        method = self._client.settings.update_method
        advice = (
            f" Try the other value of the extra update_method ({method} now)." if first.last.action == "update" else ""
        )
        self._unfaithful = NotAppliedError(
            str(first.website_id),
            {**comparison.not_applied, **comparison.unexpected} or {"": first.why.rstrip(".")},
            f"Website {second.website} is not as expected, either, so the service does it with each website. "
            f"Sent: {fields}. {' '.join(outcomes)} {left:,} websites were not changed.{advice}",
            permanent=True,
        )

    def _put_back(self, result: Result) -> str:
        """Give a website back what it lost, and what is not in effect as sent; return the outcome as text.

        If more was lost than the last request sent, this request contains the whole current record: a service that
        resets what is not sent would reset it again.
        """
        before, not_applied = result.before, result.comparison.not_applied if result.comparison else {}
        lost = {name: normalise(name, before[name]) for name in not_applied if shows(name, before)}
        lost |= result.lost
        if not lost:
            return "It stays"
        was = f"It could not be put back, and was before: {_values(before)}"
        unknown = [name for name, old in lost.items() if sendable(name, old) is None]
        if unknown:
            return f"{was} (the service returned {unknown[0]} in a form that cannot be sent back)"
        sent = {one.field for one in result.last.fields}
        expected = Expected({}, lost, result.planned.domain)

        def settings_of(record: Record) -> dict[str, Any] | None:
            if expected.compare(record).holds:
                return None
            if lost.keys() <= sent:
                return lost
            names = [name for name in COMPARED if FIELDS[name].on_update and shows(name, record)]
            whole = {name: sendable(name, record[name]) for name in names}
            return {**{name: value for name, value in whole.items() if value not in (None, ())}, **lost}

        try:
            self._client.change_website(str(result.website_id), settings_of)
            self._client.verify(str(result.website_id), expected)
        except AnalyticsError as error:
            return f"{was} ({error.text})"
        return _PUT_BACK

    def _send(self, results: Sequence[Result], verb: str = "Changing", breaker: Breaker | None = None) -> None:
        """Send the changes of these websites; the sender sets their results."""
        for _ in each(self._client, results, self._sender.send, verb, breaker or Breaker()):
            pass

    # Reading back

    def _read_back(self, results: Sequence[Result]) -> None:
        """Read changed websites, wait for those that are not as sent, and change these once more."""
        left = self._wait_for(results)
        for _ in range(RESENDS):
            differing = [one for one in left if one.is_contradicted and one.comparison]
            again = differing + [one for one in left if one.unconfirmed and one.may_repeat]
            if not again:
                break
            log.info("Sending the change of %s again: it is not in effect.", counted(len(again), "website"))
            # Several tasks that overwrite each other's lines must not do it again at the same time.
            self._client.wait(random.uniform(0, SETTLE_SECONDS))  # noqa: S311
            self._send(again, "Changing once more")
            sent = [one for one in again if one.state is State.APPLIED]
            left = [one for one in left if one not in again] + self._wait_for(sent)

    def _wait_for(self, results: Sequence[Result]) -> list[Result]:
        """Read these websites until they are as sent; return those that are not."""
        left = self._read(results)
        # Rows of the list may have fewer fields or be stale. Then the record of the single website decides.
        for seconds in (0, *api_client.CONFIRM_WAITS):
            if not left:
                break
            self._client.wait(seconds)
            left = self._read(left, one_by_one=True)
        return left

    def _read(self, results: Sequence[Result], *, one_by_one: bool = False) -> list[Result]:
        """Read these websites, set their results, and return those that a later read may show otherwise.

        :param one_by_one: read each website, never the list.
        """
        if not results:
            return []
        fields = {name for one in results if one.expected for name in (*one.expected.sent, *one.expected.before)}
        ids = [str(one.website_id) for one in results if one.website_id]
        try:
            read = self._websites.read_again(ids, fields.intersection(COMPARED), one_by_one=one_by_one)
            rows = read.listed
            if rows is None and any(map(_is_new, results)):
                rows = self._client.newest_websites(self._websites.newest)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:  # the sent changes must still be reported
            read, rows = Read({}, dict.fromkeys(ids, error.text)), None
        if self._judged is None or len(self._results) == 1:  # canaries are read again at the end
            # After the websites: a list that is written later reads them after the last request that was sent here.
            self._sender.read_tables()
        left = []
        for result in results:
            is_created = result.planned.action == "create"
            may_change = self._settle_new(result, rows, read) if is_created else self._settle_read(result, read)
            result.is_doubted = result is self._judged and bool(result.lost)
            if result.is_doubted:
                result.set(State.FAILED, f"{describe(result.unexpected)}. Before: {_values(result.before)}")
            if may_change or result.is_doubted:
                left.append(result)
        return left

    def _settle_new(self, result: Result, rows: Sequence[Record] | None, read: Read) -> bool:
        """Set the result of a new website; return whether a later read may show it otherwise."""
        own, domain = result.website_id, result.planned.domain
        if rows is None:  # the list could not be read
            return own is None or self._settle_read(result, read)
        found = {website_of(row)[1]: row for row in rows}
        same = {one for one, row in found.items() if domain_key(website_of(row)[0]) == domain_key(domain)}
        same |= {own} if own else set()
        if len(same) > 1:
            duplicates = api_client.duplicates(domain, same)
            result.set(State.FAILED, f"{'Created, but: ' if own else ''}{duplicates.text}")
            return False
        if not same & found.keys():
            if own:
                result.set(State.FAILED, f"Created with the id {own}, but it is missing in the list.")
            return True
        if result.unconfirmed is None:
            return self._settle_read(result, read)
        (own,) = same
        result.unconfirmed = replace(result.unconfirmed, website_id=own)
        self._accept(result)
        return self._settle(result, found[own])

    def _settle_read(self, result: Result, read: Read) -> bool:
        """Set the result of a website that was read; return whether a later read may show it otherwise."""
        website_id, action = str(result.website_id), result.planned.action
        record, why = read.found.get(website_id), read.failures.get(website_id)
        if why and not (action == "delete" and self._client.is_gone(website_id)):
            if result.unconfirmed is None:
                result.set(State.UNCLEAR, f"Changed, but not verified: {why}")
            return True
        if record is None and action == "update" and not self._client.is_gone(website_id):
            result.set(State.UNCLEAR, "Changed, but not verified: it was not found once.")
            return True
        return self._settle(result, record)

    def _settle(self, result: Result, record: Record | None) -> bool:
        """Set the result of a website from its record; return whether a later read may show it otherwise."""
        change, action = result.last, result.planned.action
        domain = website_of(record)[0] if record else ""
        is_other = bool(domain and change.domain and not same_domain(domain, change.domain))
        if action == "delete":
            return self._settle_deleted(result, is_gone=record is None or is_other)
        if record is None:
            if self._sender.ignore_gone and action == "update":
                result.set(State.APPLIED)
                return False
            result.set(State.FAILED, "It does not exist: another process deleted it.")
            return action == "create"
        if is_other:
            result.is_contradicted = action == "create"
            text = f"The id {change.website_id} belongs to {domain!r} now, which may have got its change."
            result.set(
                State.FAILED, api_client.other_domain(change.domain, record).text if action == "create" else text
            )
            return False
        comparison = self._sender.compare(result, record)
        if not comparison.not_applied:
            self._accept(result)
        elif result.unconfirmed is None:
            result.is_contradicted = True
            result.set(
                State.FAILED,
                f"Sent, and not in effect: {describe(comparison.not_applied)}. The service ignores it, or another "
                "process overwrites it.",
            )
        result.comparison = comparison
        return bool(comparison.not_applied)

    def _settle_deleted(self, result: Result, *, is_gone: bool) -> bool:
        if is_gone:
            self._accept(result)
            result.comparison = Comparison()
        elif result.unconfirmed is None:
            result.is_contradicted = True
            result.set(State.FAILED, "It still exists after it was deleted.")
        return not is_gone

    def _accept(self, result: Result) -> None:
        """Note that a change is in effect. If its response was lost, it is recorded now."""
        if result.unconfirmed is not None:
            self._sender.note(result, result.unconfirmed)
            result.unconfirmed = None
        result.set(State.APPLIED)
        result.is_contradicted = False


def _is_new(result: Result) -> bool:
    """Return whether a website was created and is not found in the list yet."""
    return result.planned.action == "create" and result.comparison is None


def _values(record: Record) -> str:
    named = [name for name in SETTABLE_FIELDS if name in record]
    values = {name: normalise(name, record[name]) if shows(name, record) else record[name] for name in named}
    return ", ".join(f"{name} {str(value)[:200]}" for name, value in values.items())
