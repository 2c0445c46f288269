# SPDX-License-Identifier: Apache-2.0
"""Apply a plan: two websites first, as an experiment; then the others; and read all of them back.

The websites that are changed first, one after the other, are the *canaries*. If both have an unsent change in the same
field, the *control group* decides: up to ten websites that this run has not touched are read again. If none of them
changed in that field, the service is the cause: both canaries are restored, and no other change is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise, raw_lines
from airflow_provider_analytics.api.verification import COMPARED, Comparison, Expected, Record, has_value
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    AuthenticationError,
    NotAppliedError,
    StoppedError,
)
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import counted, first_of, readable
from airflow_provider_analytics.reconcile.apply.canaries import Canaries, Risk, risks_of
from airflow_provider_analytics.reconcile.apply.results import Finding, FindingKind, Outcome, State, Update, describe
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.desired.desired_state import SETTABLE_FIELDS
from airflow_provider_analytics.reconcile.plan.plan import Plan, website_of
from airflow_provider_analytics.reconcile.service_websites import ReadResult, Websites
from airflow_provider_analytics.reconcile.workers import Breaker, each

#: Seconds to wait before the changed websites are read back. An update that another process computed earlier may still
#: arrive.
SETTLE_SECONDS = 1.0
#: Consecutive failures after which the service counts as down, while websites are changed one at a time.
ATTEMPTS_ALONE = 3
#: How often a change that is not in effect is sent again.
RESENDS = 2
#: Number of websites in the control group.
CONTROL_GROUP = 10
#: Statuses with which services reject an update method that they do not have.
METHOD_REJECTED = frozenset({403, 405, 501})

log = logging.getLogger(__name__)

#: Maximum number of websites in a log line.
_MAX_NAMED = 10
_OTHER_METHODS = {"PATCH": "PUT", "PUT": "PATCH"}


class Application:
    """Applies the changes of a plan, and verifies them.

    Each website is fetched immediately before its update, and its change is recomputed. Changes that others made since
    the plan are therefore kept. A website is changed or deleted only if its id still belongs to the domain in the plan.
    A website that fails does not stop the others. Each changed website is read back and must return what was sent. If
    it does not, another process may have overwritten it: the change is sent again.

    :param records: the records that the plan was made from.
    """

    def __init__(self, websites: Websites, plan: Plan, records: Iterable[Record], sender: Sender) -> None:
        self._websites = websites
        self._client = websites.client
        self._sender = sender
        self._records = {str(record["id"]): record for record in (*websites.records, *records)}
        #: One for each website, correct at any time.
        self._updates = [Update(change) for change in plan.changes]
        #: The canary that is read back: if it has an unsent change, it is read until the end of all waits.
        self._canary: Update | None = None
        self._stopped: NotAppliedError | None = None

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
        updates = [replace(update, sent=list(update.sent)) for update in self._updates]
        outcome = Outcome(updates, stopped=self._stopped, interrupted=interrupted)
        if changed := outcome.unexpected_changes:
            named = first_of(changed, _MAX_NAMED, "; ")
            log.warning("Another process changed websites at the same time, at least these: %s", named)
        self._client.stats.count("changes_applied", outcome.applied)
        self._client.stats.count("changes_failed", sum(not update.is_good for update in updates))
        return outcome

    def _run(self) -> None:
        """Change the canaries, then the others, and read all of them back."""
        if len(self._updates) == 1:
            self._change_single(self._updates[0])
            return
        if self._change_canaries():
            self._send([update for update in self._updates if update.state is State.NOT_TRIED])
        if self._stopped:
            return
        sent = [update for update in self._updates if update.unconfirmed or _is_sent(update)]
        if sent:
            self._client.wait(SETTLE_SECONDS)
            self._read_back(sent)

    # The experiment

    def _change_single(self, update: Update) -> None:
        """Change the only website of a plan. No second website shows the cause of an unsent change, so it fails."""
        self._send([update], breaker=Breaker(ATTEMPTS_ALONE))
        if update.unconfirmed or _is_sent(update):
            self._client.wait(SETTLE_SECONDS)
            self._read_canary(update)

    def _change_canaries(self) -> bool:
        """Change the canaries, one after the other; return whether the others may be changed."""
        canaries = Canaries(self._updates, self._records)
        breaker = Breaker(ATTEMPTS_ALONE)
        #: Risks of a canary that is not as expected; another website with the same risk decides.
        suspected: dict[Risk, Update] = {}
        rejected: list[Update] = []
        while not breaker.is_open:
            canary = canaries.next(suspected)
            if canary is None:
                for update in self._updates:
                    if update.state is State.FAILED and update.unsent:
                        update.set(State.APPLIED)  # it is read again with the others
                return True
            errors = self._send([canary], breaker=breaker)
            if canary.planned.action == "update" and any(map(_is_method_rejected, errors)):
                rejected.append(canary)
                if len(rejected) > 1:
                    self._stop_without_a_method(rejected)
                    return False
            if canary.unconfirmed or _is_sent(canary):
                self._read_canary(canary)
            canaries.note(canary)
            if canary.comparison is None:
                continue
            earlier = {risk.finding: update for risk, update in suspected.items()}
            repeated = _repeated(canary.findings, earlier)
            if repeated and self._stops(canary, repeated, earlier):
                return False
            risks = risks_of(canary.planned, canary.before)
            for risk in risks & suspected.keys():
                del suspected[risk]  # this website had it and is as expected, or other websites changed, too
            new = canary.findings - repeated
            suspected |= dict.fromkeys((risk for risk in risks if risk.finding in new), canary)
        return False

    def _read_canary(self, canary: Update) -> None:
        if canary.state is State.APPLIED:
            canary.set(State.FAILED, "Changed, and not read back before the work ended.")
        self._canary = canary
        self._read_back([canary])
        self._canary = None

    def _stops(self, canary: Update, repeated: Collection[Finding], suspected: Mapping[Finding, Update]) -> bool:
        """Decide about the findings of two canaries; return whether no other change is sent."""
        fields = sorted({finding.field for finding in repeated})
        first = next(update for finding, update in suspected.items() if finding in repeated)
        both = [first, canary]
        changes = "; ".join(f"{update.website}: {_differences(update)}" for update in both)
        is_restored = True
        is_not_stored = any(finding.kind is FindingKind.NOT_APPLIED for finding in repeated)
        sent = {field_change.field for field_change in canary.last.fields}
        if is_not_stored:
            problem = f"The service accepted the changes of two websites but did not store {_and(fields)}: {changes}."
            remedy = self._remedy(both, fields)
        else:
            control = self._control_group(both, fields)
            if control is None:
                is_restored = False
                problem = f"{_and(fields)} changed on both websites that were updated, but was not sent: {changes}."
                remedy = (
                    "The run has no other website that shows whether the service or another process is the cause, so "
                    "nothing was restored."
                )
            elif control.changed:
                log.warning("Other websites changed in %s, too, so another process is the cause.", _and(fields))
                return False
            else:
                problem = f"The service changes {_and(fields)} when it is not sent: {changes}."
                remedy = f"{counted(control.number, 'other website')} kept the values. {self._remedy(both, [])}"
        affected = list(dict.fromkeys([*both, *suspected.values()]))
        # If the service rewrites a list that is sent, a retry would do the same to the next two websites.
        self._stop(
            affected,
            problem,
            remedy,
            restore=is_restored,
            permanent=not is_restored or is_not_stored or not sent.isdisjoint(fields),
        )
        return True

    def _control_group(self, canaries: Sequence[Update], fields: Collection[str]) -> _ControlGroup | None:
        """Read websites again that this run has not touched; None if no website can show a change of these fields."""
        touched = {update.website_id for update in self._updates if update.state is not State.NOT_TRIED}
        after = canaries[0].comparison.record if canaries[0].comparison else {}
        candidates = [
            website_id
            for website_id, record in sorted(self._records.items())
            if website_id not in touched and any(_can_change(name, record, after) for name in fields)
        ]
        chosen = RANDOM.sample(candidates, min(CONTROL_GROUP, len(candidates)))
        try:
            read = self._websites.read_again(chosen, fields, one_by_one=True)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:
            log.warning("The control group could not be read: %s", error.text)
            return None
        unsent = [Expected(self._records[key], {}).compare(record).unsent for key, record in read.found.items()]
        if not unsent:
            return None
        return _ControlGroup(len(unsent), any(not changes.keys().isdisjoint(fields) for changes in unsent))

    def _remedy(self, canaries: Sequence[Update], not_applied: Sequence[str]) -> str:
        """Return the recommended action for two canaries that are not as expected."""
        settings = self._client.settings
        method = settings.update_method
        other_method = f"Set the extra update_method to {_OTHER_METHODS[method]}; it is {method} now."
        if canaries[0].planned.action != "update":
            return ""
        if not not_applied:
            return other_method
        if "favorite" in not_applied:
            return f"Set the extra boolean_format to the other value; it is {settings.boolean_format} now."
        if all(_is_as_before(update) for update in canaries):
            return other_method  # nothing of the updates arrived
        for name in not_applied:
            kept = _kept_bytes(name, canaries[0])
            if kept:
                return f"The service kept the first {kept} bytes of {name}: shorten the list."
        return "Write the values as the service returns them."

    def _stop(self, affected: Sequence[Update], problem: str, remedy: str, *, restore: bool, permanent: bool) -> None:
        """Restore the canaries, and note that no other change is sent."""
        unclear = [update for update in self._updates if update.state is State.UNCLEAR]
        self._read(unclear, one_by_one=True)
        outcomes = []
        for update in dict.fromkeys([*affected, *(update for update in unclear if update.findings)]):
            differences = _differences(update)
            values = f"Values before: {_values(update.before)}"
            if not restore:
                how = values
            elif update.planned.action != "update":
                how, permanent = "It was not undone", True
            else:
                why = self._restore(update)
                permanent |= bool(why)
                how = f"It could not be restored ({why}). {values}" if why else "Its values were restored and verified"
            update.set(State.FAILED, f"{differences}. {how}.")
            outcomes.append(f"{update.website}: {how}.")
        left = sum(update.state is State.NOT_TRIED for update in self._updates)
        self._stopped = NotAppliedError(
            str(affected[0].website_id),
            {**affected[0].not_applied, **affected[0].unsent},
            f"No other change was sent, {counted(left, 'website')} remain unchanged.\n{' '.join(outcomes)}\n{remedy}",
            permanent=permanent,
            problem=problem,
        )

    def _stop_without_a_method(self, rejected: Sequence[Update]) -> None:
        method = self._client.settings.update_method
        first = rejected[0]
        self._stopped = NotAppliedError(
            str(first.website_id),
            {},
            f"No change was sent. Set the extra update_method to {_OTHER_METHODS[method]}, or use a key that may "
            "change websites.",
            permanent=True,
            problem=f"The service rejected {method} for two websites. {first.website}: {first.reason}",
        )

    def _restore(self, update: Update) -> str:
        """Write back the whole record from before the first update; return why it is not in effect, or nothing."""
        names = [name for name in COMPARED if FIELDS[name].on_update and has_value(name, update.before)]
        settings = {name: normalise(name, update.before[name]) for name in names}
        expected = Expected({}, settings, update.planned.domain)
        try:
            self._client.change_website(
                str(update.website_id), lambda record: None if expected.compare(record).is_applied else settings
            )
            comparison = self._client.read_until(str(update.website_id), expected)
        except AnalyticsError as error:
            return error.text
        unknown = [name for name in update.before if name in COMPARED and name not in names]
        if comparison.is_applied and not comparison.unverified and not unknown:
            update.sent.clear()
            return ""
        fields = [*unknown, *comparison.unverified]
        return describe(comparison.not_applied) or f"the service returns {_and(fields)} in an unknown form"

    def _send(
        self, updates: Sequence[Update], verb: str = "Changing", breaker: Breaker | None = None
    ) -> list[BaseException]:
        """Send the changes of these websites, and return the errors; the sender sets their states."""
        done = each(self._client, updates, self._sender.send, verb, breaker or Breaker())
        return [item.error for item in done if item.error]

    # Reading back

    def _read_back(self, updates: Sequence[Update]) -> None:
        """Read changed websites until they are as sent, and send the changes again that are not in effect."""
        left = self._wait_for(updates)
        for _ in range(RESENDS):
            again = [update for update in left if update.not_applied and update.unconfirmed is None]
            if self._canary in again and self._canary.unsent:
                again = []  # another update could hide the evidence
            if not again:
                break
            log.info("Sending the change of %s again: it is not in effect.", counted(len(again), "website"))
            # Several tasks that overwrite each other's lines must not do it again at the same time.
            self._client.wait(RANDOM.uniform(0, SETTLE_SECONDS))
            self._send(again, "Changing once more")
            sent = [update for update in again if update.state is State.APPLIED]
            left = [update for update in left if update not in again] + self._wait_for(sent)

    def _wait_for(self, updates: Sequence[Update]) -> list[Update]:
        """Read these websites until they are as sent; return those that are not."""
        left = self._read(updates)
        # Rows of the list may have fewer fields or be stale. Then the record of the single website decides.
        for seconds in (0, *self._client.confirm_waits):
            if not left:
                break
            self._client.wait(seconds)
            left = self._read(left, one_by_one=True)
        return left

    def _read(self, updates: Sequence[Update], *, one_by_one: bool = False) -> list[Update]:
        """Read these websites, set their states, and return those that a later read may return otherwise.

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
            if rows is None and any(map(_is_new, updates)):
                rows = self._client.newest_websites(self._websites.newest)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:  # the sent changes must still be reported
            read, rows = ReadResult({}, dict.fromkeys(ids, error.text)), None
        if self._canary is None or len(self._updates) == 1:  # canaries are read again at the end
            # After the websites: a list that is written later reads them after the last request that was sent here.
            self._sender.read_tables()
        left = []
        for update in updates:
            if update.planned.action == "create":
                may_change = self._settle_new(update, rows, read)
            else:
                may_change = self._settle_read(update, read)
            if update is self._canary and update.unsent and update.planned.action == "update":
                update.set(State.FAILED, f"{_differences(update)}. Values before: {_values(update.before)}")
                may_change = True
            if may_change:
                left.append(update)
        return left

    def _settle_new(self, update: Update, rows: Sequence[Record] | None, read: ReadResult) -> bool:
        """Set the state of a new website; return whether a later read may return it otherwise."""
        own_id, domain = update.website_id, update.planned.domain
        if rows is None:  # the list could not be read
            return own_id is None or self._settle_read(update, read)
        found = {website_of(row)[1]: row for row in rows}
        same = {key for key, row in found.items() if domain_key(website_of(row)[0]) == domain_key(domain)}
        if own_id:
            same.add(own_id)
        if len(same) > 1:
            created = "Created, but: " if own_id else ""
            update.set(State.FAILED, f"{created}{api_client.duplicates(domain, same).text}")
            return False
        if not same & found.keys():
            if own_id:
                update.set(State.FAILED, f"Created with the id {own_id}, but it is missing in the list.")
            return True
        if update.unconfirmed is None:
            return self._settle_read(update, read)
        (own_id,) = same
        update.unconfirmed = replace(update.unconfirmed, website_id=own_id)
        self._accept(update)
        return self._settle(update, found[own_id])

    def _settle_read(self, update: Update, read: ReadResult) -> bool:
        """Set the state of a website that was read; return whether a later read may return it otherwise."""
        website_id, action = str(update.website_id), update.planned.action
        record, reason = read.found.get(website_id), read.failures.get(website_id)
        if reason and not (action == "delete" and self._client.is_gone(website_id)):
            if update.unconfirmed is None:
                update.set(State.UNCLEAR, f"Changed, but not verified: {reason}")
            return True
        if record is None and action == "update" and not self._client.is_gone(website_id):
            update.set(State.UNCLEAR, "Changed, but not verified: it was not found once.")
            return True
        return self._settle(update, record)

    def _settle(self, update: Update, record: Record | None) -> bool:
        """Set the state of a website from its record; return whether a later read may return it otherwise."""
        change, action = update.last, update.planned.action
        domain = website_of(record)[0] if record else ""
        is_other = bool(domain and change.domain and not same_domain(domain, change.domain))
        if action == "delete":
            return self._settle_deleted(update, is_gone=record is None or is_other)
        if record is None:
            if self._sender.ignore_gone and action == "update":
                update.set(State.APPLIED)
                return False
            update.set(State.FAILED, "It does not exist: another process deleted it.")
            return action == "create"
        if is_other:
            reason = f"The id {change.website_id} belongs to {domain!r} now, which may have got its change."
            if action == "create":
                update.comparison = Comparison(record, other_domain=domain)
                reason = api_client.other_domain(change.domain, record).text
            update.set(State.FAILED, reason)
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

    def _accept(self, update: Update) -> None:
        """Note that a change is in effect. If its response was lost, it is recorded now."""
        if update.unconfirmed is not None:
            self._sender.note(update, update.unconfirmed)
            update.unconfirmed = None
        update.set(State.APPLIED)


def _repeated(findings: Collection[Finding], suspected: Collection[Finding]) -> frozenset[Finding]:
    """Return the findings of two canaries in the same field, of both.

    Two unsent changes count, even of different fields: one website may have a value to lose that the other one lacks.
    """
    repeated: set[Finding] = set()
    for finding in findings:
        same_field = {
            before for before in suspected if (before.action, before.field) == (finding.action, finding.field)
        }
        if same_field:
            repeated |= {finding, *same_field}
    unsent = [finding for finding in findings if finding.kind is FindingKind.UNSENT]
    unsent_before = [finding for finding in suspected if finding.kind is FindingKind.UNSENT]
    if not repeated and unsent and unsent_before:
        repeated = {*unsent, *unsent_before}
    return frozenset(repeated)


class _ControlGroup(NamedTuple):
    """Websites that this run has not touched, read again.

    :param number: number of these websites.
    :param changed: whether one of them changed since the run read it first.
    """

    number: int
    changed: bool


def _is_sent(update: Update) -> bool:
    """Return whether a change was sent and not rejected."""
    return bool(update.sent) and update.state is State.APPLIED


def _is_new(update: Update) -> bool:
    """Return whether a website was created and is not found in the list yet."""
    return update.planned.action == "create" and update.comparison is None


def _is_method_rejected(error: BaseException) -> bool:
    return isinstance(error, AnalyticsApiError) and error.status in METHOD_REJECTED and not error.is_blocked


def _can_change(name: str, record: Record, after: Record) -> bool:
    """Return whether a website has another value than a canary has now, so that it can change in the same way."""
    if not has_value(name, record):
        return False
    value = normalise(name, record[name])
    if name in LINE_FIELDS:
        return bool(value)
    return name not in after or value != normalise(name, after[name])


def _kept_bytes(name: str, update: Update) -> str:
    """Return how many bytes of a sent list the service kept, such as ``40 of 62``; empty if it did not cut the list."""
    if name not in LINE_FIELDS or update.expected is None or update.comparison is None:
        return ""
    sent = "\n".join(update.expected.sent.get(name, ())).encode()
    stored = "\n".join(raw_lines(name, update.comparison.record.get(name)) or ()).encode()
    is_cut = stored and stored != sent and sent.startswith(stored)
    return f"{len(stored):,} of {len(sent):,}" if is_cut else ""


def _is_as_before(update: Update) -> bool:
    """Return whether nothing of an update arrived."""
    record = update.comparison.record if update.comparison else {}
    return (
        Expected({}, {name: update.before[name] for name in COMPARED if name in update.before})
        .compare(record)
        .is_applied
    )


def _differences(update: Update) -> str:
    """Return all that is not as expected, as text."""
    return describe({**update.not_applied, **update.unsent}) or update.reason.rstrip(".")


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def _values(record: Record) -> str:
    named = [name for name in SETTABLE_FIELDS if name in record]
    values = {name: normalise(name, record[name]) if has_value(name, record) else record[name] for name in named}
    return ", ".join(f"{name} {readable(str(value), 200)}" for name, value in values.items())
