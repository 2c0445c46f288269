"""Apply a plan: one website of each kind first, then the others, and verify all of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
from airflow_provider_analytics.api.verification import Comparison, shows
from airflow_provider_analytics.exceptions import AnalyticsError, NotAppliedError
from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS
from airflow_provider_analytics.reconcile.looking import Looking, Shown
from airflow_provider_analytics.reconcile.plan import Change, Plan
from airflow_provider_analytics.reconcile.results import Outcome, State, results_of
from airflow_provider_analytics.reconcile.sending import ChangeOf, NoRecorder, Recorder, Sender, Site
from airflow_provider_analytics.reconcile.telling import (
    Telling,
    altered,
    kept_nowhere_else,
    kinds_of,
    most_telling,
    telling_of,
)
from airflow_provider_analytics.reconcile.websites import Websites
from airflow_provider_analytics.reconcile.workers import NOT_TRIED, Breaker, Progress, Work, each

#: Maximum number of times that a website is changed while other processes change it, too.
ROUNDS = 3
#: Seconds to wait before the changed websites are read again. An update that another process computed earlier may still
#: arrive.
SETTLE_SECONDS = 1.0
#: Consecutive failures after which the service counts as down, while websites are changed one at a time.
ATTEMPTS_ALONE = 3
#: Maximum number of verified websites per kind of change that are changed one at a time, and of inconclusive ones.
#: A website is inconclusive if another process changes it at the same time, or if it cannot be read.
MAX_FIRST = 6
MAX_SILENT = 5
#: Number of websites that people may have edited between two reads. If fields that were not sent differ on more
#: websites, the service changes them.
EDITED_BY_PEOPLE = 2

log = logging.getLogger(__name__)

#: Maximum number of websites in a log line.
_MAX_NAMED = 10
_UNDER_WAY = "Stopped while its change was under way: it may have been applied."
_NOT_READ_AGAIN = "Changed, and not read again before the work ended."
_INTERRUPTED = "Not tried: the work ended before its turn."
_ALSO_CHANGED = "Changed as planned, but values that were not sent changed, too"
_STILL_DIFFERS = f"Still differs after {ROUNDS} rounds. The service ignores it, or another process changes it"


def apply_plan(
    websites: Websites,
    plan: Plan,
    change_of: ChangeOf,
    *,
    records: Iterable[Mapping[str, Any]] = (),
    shared: Iterable[str] = (),
    passwords: Mapping[str, str] | None = None,
    recorder: Recorder | None = None,
    ignore_gone: bool = False,
) -> Outcome:
    """Apply the changes of a plan, and verify them.

    Each website is fetched immediately before its update, and its change is recomputed. Changes that others made since
    the plan are therefore kept. A website is changed or deleted only if its id still belongs to the domain in the plan.

    One website of each kind of change is changed and verified alone, before the others (:class:`_Application`). A
    website that fails does not stop the others. Each changed website is read again and must equal *before + sent*.
    Otherwise it is changed again, in at most :data:`ROUNDS` rounds.

    No further requests are sent after a stop of the client, an exception in this thread (such as Airflow's timeout), or
    a change that cannot be recorded. Requests under way get some time to end. The outcome contains what was
    sent, what may have been sent, and the interruption. The caller raises the interruption after recording the rest.

    :param change_of: computes the change of a website from its record.
    :param records: the records that the plan was made from; used to choose the first websites.
    :param shared: list fields in which entries of others stay.
    :param passwords: ``password_from`` reference to password.
    :param recorder: records the changes.
    :param ignore_gone: do not count a website that no longer exists as a failure.
    """
    sender = Sender(
        websites, change_of, passwords or {}, recorder or NoRecorder(), frozenset(shared), ignore_gone=ignore_gone
    )
    application = _Application(websites, plan, records, sender, Looking(websites, ignore_gone=ignore_gone))
    interrupted: BaseException | None = None
    try:
        application.run()
    except BaseException as error:
        websites.client.stop()
        interrupted = error
    outcome = application.outcome(interrupted)
    failed = len(outcome.results) - sum(one.is_good for one in outcome.results)
    websites.client.stats.count("changes_applied", outcome.applied)
    websites.client.stats.count("changes_failed", failed)
    return outcome


class _UnfaithfulError(Exception):
    """The service does not do what was requested; the results are already noted."""


class _Application:
    """The steps of :func:`apply_plan`; the results are correct at any time."""

    def __init__(
        self,
        websites: Websites,
        plan: Plan,
        records: Iterable[Mapping[str, Any]],
        sender: Sender,
        looking: Looking,
    ) -> None:
        self._workers = websites.workers
        self._client = websites.client
        self._sender = sender
        self._looking = looking
        self._records = {str(record["id"]): record for record in records}
        results = results_of(plan.changes)
        self._sites = [Site(result.planned, result) for result in results.values()]
        self._breaker = Breaker()
        self._unfaithful: NotAppliedError | None = None
        #: Names of the websites whose kind of change was verified on one website first.
        self._trusted: set[str] = set()
        #: Website name to what its change would reveal about the service; and the websites that differ from the
        #: expected record.
        self._telling: dict[str, Telling] = {}
        self._doubted: list[tuple[Site, Shown]] = []
        #: Websites that could not be read, or that another process changes at the same time.
        self._inconclusive: list[tuple[Site, Shown]] = []
        #: Names of the websites that another process changed, too.
        self._changed_by_others: set[str] = set()

    def outcome(self, interrupted: BaseException | None) -> Outcome:
        """Return the result of each website so far."""
        for site in self._sites:
            result = site.result
            if site.under_way is not None:
                result.state, result.why = State.UNCLEAR, _UNDER_WAY
            elif site.lost is not None:
                result.state = State.UNCLEAR
            elif result.state is State.NOT_TRIED and not result.why:
                if result.sent:  # the service confirmed it, but it was not read again
                    result.state, result.unverified = State.APPLIED, tuple(one.field for one in site.todo.fields)
                else:
                    result.why = _INTERRUPTED if interrupted else NOT_TRIED
        # Copies, because a request that is still under way may end now.
        results = tuple(replace(site.result, sent=list(site.result.sent)) for site in self._sites)
        return Outcome(results, unfaithful=self._unfaithful, interrupted=interrupted)

    def run(self) -> None:
        """Change one website of each kind alone, then the others, and verify all."""
        try:
            self._change_and_verify()
        except BaseException:
            self._note_doubts()
            raise
        finally:
            self._judge_other_changes()

    def _change_and_verify(self) -> None:
        try:
            self._change_one_of_each_kind()
        except _UnfaithfulError:
            # The websites that were changed earlier and not restored still need a result.
            left = [site for site in self._sites if site.sent and site.result.state is State.NOT_TRIED]
            self._judge(self._looking.at(left), is_last=True)
            return
        todo = [site for site in self._sites if not site.result.sent and site.result.state is State.NOT_TRIED]
        for round_number in range(1, ROUNDS + 1):
            self._send(todo)
            sent = [site for site in self._sites if site.result.sent or site.lost]
            check = [site for site in sent if round_number == 1 or site in todo]
            if not check:
                return
            looks = self._looking.at(check, first=SETTLE_SECONDS)
            todo = self._judge(looks, is_last=round_number == ROUNDS)
            if not todo:
                return
            log.info("Changing %s websites again: their change is not in effect.", f"{len(todo):,}")

    # One website first

    def _change_one_of_each_kind(self) -> None:
        for sites in kinds_of(self._sites):
            self._breaker.limit(ATTEMPTS_ALONE)
            self._change_alone(sites)
        self._breaker.limit(Breaker.DEFAULT)

    def _change_alone(self, sites: Sequence[Site]) -> None:
        """Change the most representative websites one at a time, until they cover the features of all others.

        :raises _UnfaithfulError: if two of them differ from the expected record; then the service causes it.
        """
        self._telling |= telling_of(sites, self._records)
        telling, doubted = self._telling, self._doubted
        left = list(sites)
        covered: set[str] = set()
        verified = inconclusive = 0
        is_settled = True
        while left and verified < MAX_FIRST and inconclusive < MAX_SILENT:
            doubt = None
            if doubted:
                first, look = doubted[0]
                doubt = (first, look.record or {}, look.differences)
            site = most_telling(left, telling, covered, doubt)
            if verified and is_settled and not telling[site.name].all - covered:
                break
            left.remove(site)
            self._send([site])
            if self._breaker.is_open:
                return
            if not site.result.sent:  # it failed, or needed no change
                continue
            look = self._looking.at([site])[site.name]
            if look.holds:
                self._note(site, look)
                covered |= telling[site.name].all
                verified += 1
                is_settled = True
            elif look.is_unread or look.by_others:
                inconclusive += 1
                self._inconclusive.append((site, look))
            else:
                doubted.append((site, look))
                if len(doubted) > 1:
                    self._put_back(doubted)
                    raise _UnfaithfulError
                is_settled = False
                self._client.wait(SETTLE_SECONDS)  # if another process changes the websites, let it finish first
        if verified and not doubted:
            self._trusted.update(site.name for site in sites)

    def _note_doubts(self) -> None:
        """Note the websites that are not as expected, or were not read again, when the work is interrupted.

        The next try would find nothing to change on them.
        """
        looks = {site.name: look for site, look in (*self._doubted, *self._inconclusive)}
        for site in self._sites:
            if site.result.state is not State.NOT_TRIED or not site.result.sent:
                continue
            look = looks.get(site.name)
            if look is None:
                if site.name not in self._trusted:
                    site.result.state, site.result.why = State.FAILED, _NOT_READ_AGAIN
                continue
            self._note(site, look)
            if look.differences:
                site.result.state = State.FAILED
                site.result.why = f"{_describe(look.differences)}. Before: {_values(site.before or {})}"

    def _put_back(self, doubted: Sequence[tuple[Site, Shown]]) -> None:
        """Restore websites to their previous state, and note that no others are changed."""
        outcomes = []
        for site, look in (*doubted, *self._inconclusive):
            result = site.result
            for change in result.sent:
                self._sender.recorder.undone(change)
            how = "It stays, since another process changes it" if look.by_others else self._restore(site)
            result.state, result.why = State.FAILED, f"{_describe(look.differences)}. {how}"
            result.sent = [] if how == _PUT_BACK else result.sent
            outcomes.append(f"{site.name}: {how}")
        site, look = doubted[0]
        left = [one for one in self._sites if one.result.state is State.NOT_TRIED and not one.result.sent]
        for one in left:
            one.result.why = "Not tried: the service does not do what was requested."
        fields = ", ".join(one.field for one in site.todo.fields) or site.todo.action
        self._unfaithful = NotAppliedError(
            str(site.sent.website_id if site.sent else site.todo.website_id),
            look.differences,
            f"Website {doubted[1][0].name} is not as expected, either, so the service does it with each website. "
            f"Sent: {fields}. {' '.join(f'{one}.' for one in outcomes)} {len(left):,} websites were not changed. "
            f"Try the other value of the extra update_method ({self._client.settings.update_method} now).",
            permanent=True,
        )

    def _restore(self, site: Site) -> str:
        """Restore a website to its previous state; return the outcome as text."""
        if site.todo.action != "update" or site.before is None:
            return "It stays"
        try:
            self._client.put_back(str(site.todo.website_id), site.before)
        except AnalyticsError as error:
            return f"It could not be put back, and was before: {_values(site.before)} ({error.text})"
        return _PUT_BACK

    # Sending and verifying

    def _send(self, sites: Sequence[Site]) -> None:
        """Send the changes of these websites, and set their results."""
        failures: dict[str, str] = {}
        by_name = {site.name: site for site in sites}
        work = Work(sites, self._sender.send, lambda site: site.name, failures)
        try:
            each(self._client, work, Progress(len(sites), "Changing"), self._workers, self._breaker)
        finally:
            for name, why in failures.items():
                result = by_name[name].result
                result.why = why
                if name in work.not_tried:
                    result.state = State.NOT_TRIED
                elif result.state is not State.REFUSED:
                    result.state = State.UNCLEAR if by_name[name].lost else State.FAILED

    def _judge(self, looks: Mapping[str, Shown], *, is_last: bool) -> list[Site]:
        """Note the records of websites after their changes, and return the websites to change again."""
        again = []
        for site in self._sites:
            look = looks.get(site.name)
            if look is None:
                continue
            result = site.result
            if site.lost is not None:
                if (look.comparison is not None and look.holds) or (site.todo.action == "delete" and look.holds):
                    # The response was lost or reported an error, but the record proves that the change was applied.
                    # The opposite proves nothing: behind a proxy that timed out, the service may still apply it.
                    self._sender.note(site, site.lost)
                    site.lost = None
                else:
                    result.record = look.record or result.record
                    continue
            left = self._note(site, look)
            if left is not None and not is_last:
                site.todo = left
                again.append(site)
        return again

    def _note(self, site: Site, look: Shown) -> Change | None:
        """Note the record of a website after its change, and return what is left to change."""
        result = site.result
        comparison = look.comparison or Comparison()
        result.record = look.record
        result.unverified, result.besides = comparison.unverified, comparison.besides
        result.state, result.why = State.APPLIED, ""
        if comparison.by_others:
            self._changed_by_others.add(site.name)
        left: Change | None = None
        if look.is_unread:
            result.state, result.why = State.UNCLEAR, look.why
        elif look.why:
            result.state, result.why = State.FAILED, look.why
            if site.todo.action == "delete" and look.record is not None:
                left, result.why = site.todo, f"{_STILL_DIFFERS}: it {look.why}."
        elif comparison.lacking and look.record is not None:
            try:
                left = self._sender.change_of(look.record)
            except ValueError as error:
                result.state, result.why = State.FAILED, str(error)
                return None
            left = left and replace(left, fields=tuple(one for one in left.fields if one.field in look.record))
            if left is None or not left.fields:
                # Only lines of others are missing, and only they can add them again.
                result.besides = {**comparison.lacking, **comparison.besides}
                return None
            result.state, result.why = State.FAILED, f"{_STILL_DIFFERS}: {_describe(comparison.lacking)}."
        lacking = comparison.lacking.keys()
        if left is not None and not (lacking and lacking.isdisjoint(one.field for one in result.sent[-1].fields)):
            self._sender.recorder.undone(result.sent[-1])
        return left

    def _judge_other_changes(self) -> None:
        """Mark websites as failed if values changed that were not sent and the service is the likely cause.

        The service is not the likely cause on one or two websites among many: people may have edited those. It is not
        the likely cause either if only list entries are missing, and the service kept entries elsewhere or another
        process was detected. Other tasks sync lists, too.
        """
        sites = [site for site in self._sites if site.result.besides and site.result.state is State.APPLIED]
        changed = sum(bool(site.result.sent) for site in self._sites)
        excused = [
            site
            for site in sites
            if site.result.besides.keys() <= LINE_FIELDS.keys()
            and site.name in self._trusted | self._changed_by_others
            and not altered(site)
        ]
        suspect = [site for site in sites if site not in excused]
        if len(suspect) > EDITED_BY_PEOPLE or any(
            altered(site) or kept_nowhere_else(site, self._sites) for site in suspect
        ):
            for site in sites:
                site.result.state, site.result.why = State.FAILED, f"{_ALSO_CHANGED}: {_describe(site.result.besides)}."
        named = [site for site in sites if site.result.state is State.APPLIED]
        if named:
            log.warning(
                "Another process changed %s of %s websites at the same time: %s%s",
                f"{len(named):,}",
                f"{changed:,}",
                "; ".join(f"{site.name}: {_describe(site.result.besides)}" for site in named[:_MAX_NAMED]),
                f"; and {len(named) - _MAX_NAMED:,} more" if len(named) > _MAX_NAMED else "",
            )


_PUT_BACK = "It was put back, and its previous state was verified"


def _describe(differences: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {how}" for name, how in differences.items())


def _values(record: Mapping[str, Any]) -> str:
    named = [name for name in SETTABLE_FIELDS if name in record]
    values = {name: normalise(name, record[name]) if shows(name, record) else record[name] for name in named}
    return ", ".join(f"{name} {str(value)[:200]}" for name, value in values.items())
