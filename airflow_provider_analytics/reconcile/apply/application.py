# SPDX-License-Identifier: Apache-2.0
"""Apply a plan: try some websites first, then change the others, and read all of them back.

The service does not say whether an update keeps the other fields, or stores each value as it was sent. So a few
websites are tried first, one after the other. A website that is not as expected proves nothing, because another
process might have changed it. The same problem on a second website stops the run.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.api.client import AnalyticsClient, Meant
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import (
    FIELDS,
    LINE_FIELDS,
    PASSWORD_FROM,
    by_id,
    normalize,
    raw_lines,
    website_of,
)
from airflow_provider_analytics.api.verification import COMPARED, ExpectedRecord, Record, has_value
from airflow_provider_analytics.exceptions import (
    OTHER_METHODS,
    AnalyticsError,
    AuthenticationError,
    BulkError,
    NotAppliedError,
    StoppedError,
    StorageError,
    reasons_of,
)
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import counted, first_of
from airflow_provider_analytics.reconcile.apply.sending import Sender, State, Target, describe, note_skipped
from airflow_provider_analytics.reconcile.plan.changes import Change, Plan
from airflow_provider_analytics.reconcile.service_websites import Breaker, run_uninterrupted

#: Maximum number of websites that are tried first, and how many of them come before the first create, and before the
#: first delete. The last ones are for a second website with the values of the first one that is not as expected.
MAX_TRIED = 10
TRIED_AT_MOST = {"update": 7, "create": 8, "delete": 9}
#: Consecutive failures after which the service counts as down, while websites are tried.
FAILURES_TRYING = 3
#: Remedy for new websites without all of their settings.
_CREATE_ONLY = "With create_only, a retry leaves new websites as they are. Run once without create_only."
#: Maximum number of websites in a log line or an error, of domains in an error, and of unexpected changes in a result.
_MAX_NAMED, _MAX_UNEXPECTED = 10, 20

#: Action, field, kind of its value, and whether it is sent: values with the same pair are likely to be stored alike.
Pair = tuple[str, str, str, bool]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a plan.

    :param targets: one for each planned change.
    :param unread: website to why it could not be read; nothing was planned for these websites.
    :param stopped: the error for a service that changes unsent values, or does not store sent values; no other websites
        were changed then.
    :param create_only: whether a retry leaves the websites unchanged that exist.
    :param interrupted: the exception that ended the work before all was done and verified, such as
        :class:`StoppedError`, or the rejection of the API key; None if the work was complete.
    """

    targets: Sequence[Target] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    stopped: NotAppliedError | None = None
    interrupted: BaseException | None = None
    create_only: bool = False

    @property
    def states(self) -> dict[str, int]:
        """Number of websites by state; their sum is the number of planned changes."""
        counts = dict.fromkeys(map(str, State), 0)
        for target in self.targets:
            counts[target.state.value] += 1
        return counts

    @property
    def applied(self) -> int:
        """Number of websites that were changed successfully."""
        return self.states[State.APPLIED]

    @property
    def entries_added(self) -> int:
        """Number of entries that were added to lists; an entry on two websites counts twice."""
        return sum(len(target.entries_added) for target in self.targets)

    @property
    def entries_removed(self) -> int:
        """Number of entries that were removed from lists; an entry on two websites counts twice."""
        return sum(len(target.entries_removed) for target in self.targets)

    @property
    def not_tried(self) -> list[str]:
        """Websites for which no request was sent."""
        return [target.website for target in self.targets if target.state is State.NOT_TRIED]

    @property
    def failures(self) -> dict[str, str]:
        """Website to why it is not as desired, including websites that could not be read.

        After a stop, websites that were not tried do not count as failed.
        """
        is_stopped = self.interrupted is not None and not isinstance(self.interrupted, AuthenticationError)
        failures = dict(self.unread)
        for target in self.targets:
            is_left = is_stopped and target.state is State.NOT_TRIED
            if not target.is_good and not is_left:
                failures[target.website] = target.reason
        return failures

    @property
    def unverified(self) -> list[str]:
        """Fields that could not be verified on at least one changed website."""
        return sorted(set().union(*(target.unverified for target in self.targets)))

    @property
    def changed_unexpectedly(self) -> list[Target]:
        """Changed websites with unsent changes."""
        return [target for target in self.targets if target.unsent and target.is_good]

    @property
    def unexpected_changes(self) -> list[str]:
        """Changed websites with unsent changes, with a phrase each; after twenty, the number of the others."""
        changed = self.changed_unexpectedly
        phrases = [f"{target.website}: {describe(target.unsent)}" for target in changed[:_MAX_UNEXPECTED]]
        others = len(changed) - len(phrases)
        if others:
            phrases.append(f"and {counted(others, 'other website')}")
        return phrases

    @property
    def leaves_incomplete(self) -> bool:
        """Whether a retry leaves new websites without all of their settings, and would succeed."""
        return self.create_only and any(target.is_incomplete and not target.is_good for target in self.targets)

    @property
    def is_complete(self) -> bool:
        """Whether the work was not interrupted, and no website failed."""
        return self.interrupted is None and not self.failures

    @property
    def is_verified(self) -> bool:
        """Whether all planned changes were applied and verified, and nothing else changed."""
        return self.is_complete and not self.unverified and not self.unexpected_changes

    def followed_by(self, later: Outcome) -> Outcome:
        """Return this outcome with that of a second plan for the same websites."""
        targets = {target.website: target for target in self.targets}
        for target in later.targets:
            earlier = targets.get(target.website)
            if earlier is not None and target.state is not State.UNCHANGED:
                target.sent = [*earlier.sent, *target.sent]
            if earlier is None or target.state is not State.UNCHANGED:
                targets[target.website] = target
        return replace(later, targets=list(targets.values()), unread={**self.unread, **later.unread})

    def raise_interruption(self) -> None:
        """Raise the exception that ended the work, with what was done.

        :raises StoppedError: if the task was stopped before all was done and verified.
        """
        if self.interrupted is None:
            return
        summary = self._summary_of_a_stop()
        if isinstance(self.interrupted, StoppedError):
            error = StoppedError(summary, "The next try completes the work.")
            if self.leaves_incomplete:
                error.remedy, error.permanent, error.before_retry = _CREATE_ONLY, True, "complete these websites first"
            raise error from None
        if isinstance(self.interrupted, (AuthenticationError, StorageError)):
            self.interrupted.so_far = summary
        else:
            log.warning("%s", summary)
        # Airflow expects to see its own exception again: for a timeout, and for a kill in Airflow 2.
        raise self.interrupted from None

    def _summary_of_a_stop(self) -> str:
        """Return the number of changed websites, and a line for each reason why others are not as expected."""
        changed = 0
        for target in self.targets:
            if target.sent and target.state is not State.UNCLEAR:
                changed += 1
        summary = f"Stopped: {changed:,} of {len(self.targets):,} websites changed"
        unclear = self.states[State.UNCLEAR]
        if unclear:
            summary += f", {unclear:,} might have been"
        return "\n".join([f"{summary}.", *reasons_of(self.failures, self.not_tried)])

    def raise_failures(self) -> None:
        """Raise an error if any website is not as desired.

        :raises NotAppliedError: if the service does not do what was requested.
        :raises BulkError: with every website that failed.
        """
        if self.stopped is not None:
            raise self.stopped
        if not self.failures:
            return
        failed = [target for target in self.targets if not target.is_good]
        is_rejected = not self.unread and all(target.state is State.REJECTED for target in failed)
        # A retry would find nothing to do, and hide the values that were lost or not set.
        has_lost_values = any(target.state is State.FAILED and target.unsent for target in failed)
        is_permanent = is_rejected or has_lost_values or self.leaves_incomplete
        error = BulkError(self.failures, self.applied, self.not_tried, is_permanent)
        if self.leaves_incomplete:
            error.remedy = _CREATE_ONLY
        if self.unexpected_changes:
            error.so_far = f"Values that were not sent changed, too: {'; '.join(self.unexpected_changes)}."
        raise error


class Application:
    """Applies the changes of a plan and verifies them.

    Each website is fetched immediately before its update, and its change is computed again. Changes that others made
    since the plan are therefore kept. A website is changed or deleted only if its id still belongs to the domain in the
    plan. A website that fails does not stop the others.

    :param records: the records that the plan was made from.
    """

    def __init__(self, plan: Plan, records: Iterable[Record], sender: Sender) -> None:
        self._client = sender.client
        self._sender = sender
        #: One for each website, correct at any time.
        self._targets = [Target(change) for change in plan.changes]
        known = by_id([*sender.websites.records, *records])
        self._records = {target: known.get(str(target.website_id), {}) for target in self._targets}
        self._pairs = {target: pairs_of(target.planned, record) for target, record in self._records.items()}
        #: Pairs of the tried websites that are as expected.
        self._proven: set[Pair] = set()
        #: Tried websites that are not as expected, with the pairs that are not proven since. A website stays here when
        #: all its pairs are proven: another one might be as expected only because it needed no change of the kind that
        #: the service damages, such as a list that is sorted already.
        self._suspected: dict[Target, set[Pair]] = {}
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
        create_only = self._sender.desired.create_only
        outcome = Outcome(targets, stopped=self._stopped, interrupted=interrupted, create_only=create_only)
        if outcome.unexpected_changes:
            number = counted(len(outcome.changed_unexpectedly), "website")
            named = first_of(outcome.unexpected_changes, _MAX_NAMED, "; ")
            log.warning("Values that this task did not send changed on %s. %s.", number, named)
        self._client.stats.count("changes_applied", outcome.applied)
        self._client.stats.count("changes_failed", len([target for target in targets if not target.is_good]))
        return outcome

    def _run(self) -> None:
        is_single = len(self._targets) == 1
        if is_single or self._try_first():
            left = [target for target in self._targets if target.state is State.NOT_TRIED]
            if left and not is_single:
                first = counted(len(self._targets) - len(left), "website")
                log.info("Tried %s first, one at a time. Changing the others now.", first)
            self._sender.send_all(left)
        sent = [target for target in self._targets if target.might_be_applied]
        if sent and self._stopped is None:
            self._client.wait(api_client.SETTLE_SECONDS)
            self._sender.verify(sent, is_tried=is_single)
        for target in self._targets:
            self._note_changes_since_the_plan(target)

    def _note_changes_since_the_plan(self, target: Target) -> None:
        """Add the unsent values of a website that changed between the plan and the fetch before its update."""
        if target.comparison is None or target.expected is None or target.planned.action != "update":
            return
        since_plan = replace(target.expected, before=self._records[target]).compare(target.comparison.record)
        target.comparison.unsent = {**since_plan.unsent, **target.comparison.unsent}

    # Trying websites first

    def _try_first(self) -> bool:
        """Change websites one at a time until each pair is proven; return whether the others can be changed."""
        breaker = Breaker(FAILURES_TRYING)
        for number in range(MAX_TRIED):
            target = self._next_to_try(number)
            if target is None:
                break
            self._sender.send_all([target], breaker=breaker)
            if target.might_be_applied:
                self._sender.verify([target], is_tried=True)
            for earlier in self._suspected:
                fields = same_problem(earlier, target)
                if fields:
                    self._stop(earlier, target, sorted(fields))
                    return False
            if breaker.is_open or self._is_list_outdated(target):
                note_skipped(self._targets, breaker)
                return False
            self._note(target)
        for target in self._targets:
            if target.state is State.FAILED and target.lost:
                target.set(State.APPLIED)  # it is read again with the others
        return True

    def _next_to_try(self, number: int) -> Target | None:
        """Return the website to try; None if each pair is proven.

        The first website, and each that decides about one that is not as expected, has the longest list, because a
        service might cut long lists. The others have most pairs that are not proven. Among equals, the order is random,
        so that two tasks that start at the same time do not change the same websites.

        :param number: number of websites that were tried before.
        """
        open_pairs = set().union(*self._suspected.values())
        for action, limit in TRIED_AT_MOST.items():
            candidates = [
                target
                for target in self._targets
                if target.state is State.NOT_TRIED and target.planned.action == action
            ]
            RANDOM.shuffle(candidates)
            deciding = [target for target in candidates if self._pairs[target] & open_pairs]
            if number == 0 and candidates:
                deciding = candidates
            if deciding:
                return max(deciding, key=self._longest_list)
            new = [target for target in candidates if self._pairs[target] - self._proven]
            if new and number < limit:
                return max(new, key=lambda target: len(self._pairs[target] - self._proven))
        return None

    def _longest_list(self, target: Target) -> int:
        """Return the number of characters of the longest list of a website after its change."""
        lists = [value_after(name, target.planned, self._records[target]) or () for name in LINE_FIELDS]
        return max(len("\n".join(lines)) for lines in lists)

    def _note(self, target: Target) -> None:
        """Note which pairs a website has proven, or that it is not as expected.

        Because reads might be old, or another task might work at the same moment, the next website waits then.
        """
        pairs = self._pairs[target]
        wrong = target.wrong
        if target.is_rejected_method:
            wrong = frozenset(pair[1] for pair in pairs)
        open_pairs = {pair for pair in pairs if pair[1] in wrong}
        if wrong and not open_pairs:
            open_pairs = set(pairs)  # such as a default of a new website
        if target.comparison is not None:
            self._proven |= pairs - open_pairs
        if wrong:
            self._suspected[target] = open_pairs
            log.warning("%s is not as expected, so another one is tried. %s.", target.website, target.differences)
            if not target.is_rejected_method and wrong != {"domain"}:
                self._client.wait(sum(self._client.confirm_waits))
        for open_pairs in self._suspected.values():
            open_pairs -= self._proven

    def _is_list_outdated(self, target: Target) -> bool:
        """Return whether a create reveals that the list was not right, although it was complete.

        The new website is still missing after all waits, or the list contains domains now that the plan creates.
        """
        if target.planned.action != "create" or not (target.sent or target.unconfirmed):
            return False
        if target.is_missing and not target.is_good:
            return True
        left = [other.planned for other in self._targets if other.state is State.NOT_TRIED]
        created = {domain_key(change.domain) for change in left if change.action == "create"}
        listed = [website_of(row)[0] for row in self._sender.newest or ()]
        wrong = [domain for domain in listed if domain_key(domain) in created]
        if wrong:
            target.set(
                State.FAILED,
                f"Created, but the list contains {counted(len(wrong), 'domain')} now that the plan would create as "
                f"well: {first_of(wrong, _MAX_NAMED)}. It did not contain them before, so no other change was sent.",
            )
        return bool(wrong)

    # Stopping

    def _stop(self, first: Target, second: Target, fields: Sequence[str]) -> None:
        """Restore the tried websites, and note that no other change is sent.

        The websites that are not as expected come first. If the service does not store one of them exactly as it was,
        it would not store the others either, so websites with the new values keep them.
        """
        unchanged = len([target for target in self._targets if target.state is State.NOT_TRIED])
        problem, remedy = self._problem(first, second, fields)
        is_permanent = not (first.lost and second.lost) or _is_sent(second, fields)
        changed = [target for target in self._targets if target.sent or target.unconfirmed]
        ends = []
        is_restorable = True
        for target in sorted(changed, key=lambda target: target.is_good):
            is_update = target.planned.action == "update"
            if target.is_good and not (is_update and is_restorable):
                ends.append(f"{target.website}: It keeps its new values.")
                continue
            differences = target.differences or "It was as expected"
            failure = "It was not undone, because it is a create or a delete"
            if is_update:
                failure = _restore(target, self._client)
                is_restorable = is_restorable and not failure
            end = "Its values were restored and verified."
            if failure:
                is_permanent = True
                end = f"{failure}. Values before: {target.values_before}."
            target.set(State.FAILED, f"{differences}. {end}")
            ends.append(f"{target.website}: {differences}. {end}")
        self._stopped = NotAppliedError(
            str(first.website_id),
            {**first.not_applied, **first.unsent},
            "\n".join([f"No other change was sent, so {counted(unchanged, 'website')} did not change.", *ends, remedy]),
            permanent=is_permanent,
            problem=problem,
        )

    def _problem(self, first: Target, second: Target, fields: Sequence[str]) -> tuple[str, str]:
        """Return the problem of two websites, and a remedy that fits."""
        method = self._client.settings.update_method
        named = ", ".join(fields)
        other = OTHER_METHODS[method]
        other_method = f"Set the extra update_method to {other} if {other} keeps unsent fields; it is {method} now."
        if first.is_rejected_method:
            problem = f"The service rejected {method} for two websites. {first.website}: {first.reason}"
            return problem, f"{other_method} Or use a key that can change websites."
        if first.lost and second.lost:
            problem = f"Values that were not sent changed on two websites: {named}."
            if not _is_sent(second, fields):
                return problem, f"The service might reset values that are not sent. {other_method}"
            return problem, _remedy_for_values(first, fields)
        problem = f"The service accepted the changes of two websites but did not store {named}."
        if first.planned.action != "update":
            return problem, ""
        if _is_unchanged(first) and _is_unchanged(second):
            waited = sum(self._client.confirm_waits)
            if_late = f"If the service returns changes only after more than {waited:g} s, clear the task."
            return problem, f"{if_late} Otherwise: {other_method}"
        return problem, _remedy_for_values(first, fields)


def pairs_of(change: Change, record: Record) -> frozenset[Pair]:
    """Return the pairs of a change: of the sent values and, for an update, of the values that it must keep.

    :param record: record of the website before the change.
    """
    action = change.action
    if action == "delete":
        return frozenset({(action, "website", "", True)})
    sent = {field_change.field for field_change in change.fields}
    pairs: set[Pair] = set()
    if action == "create":
        pairs.add((action, "domain", "", True))
    if PASSWORD_FROM in sent:
        pairs.add((action, "password", "set", True))
    for name in COMPARED:
        if name in sent or action == "update":
            value = value_after(name, change, record)
            pairs.update((action, name, kind, name in sent) for kind in kinds_of(name, value))
        if name in sent and name in LINE_FIELDS and has_value(name, record):
            # Some services store only the lines of an update that are new.
            kept = tuple(line for line in normalize(name, record[name]) if line in value)
            pairs.update((action, name, f"kept {kind}", True) for kind in kinds_of(name, kept))
    return frozenset(pairs)


def value_after(name: str, change: Change, record: Record) -> Any:
    """Return the value of a field after a change; None if it is not known."""
    for field_change in change.fields:
        if field_change.field == name:
            return field_change.after
    if has_value(name, record):
        return normalize(name, record[name])
    return None


def kinds_of(name: str, value: Any) -> set[str]:
    """Return the kinds of a value: of a list, those of its lines, by which services damage them; else the value."""
    if value is None:
        return set()
    if name not in LINE_FIELDS:
        return {str(value)}
    kinds = set()
    if len(value) > 1:
        kinds.add("several lines")
    for line in value:
        entry, mark, _ = line.partition("#")
        if mark:
            kinds.add("comment")
        if "/" in entry:
            kinds.add("network")
        if ":" in entry:
            kinds.add("IPv6")
        elif any(character.isalpha() for character in entry):
            kinds.add("word")
        if any(not character.isalnum() and character not in "./: " for character in entry):
            kinds.add("other special character")
    return kinds


def same_problem(first: Target, second: Target) -> set[str]:
    """Return the fields with the same problem on both websites.

    Two changes of unsent values are the same problem, even in different fields: one website might have a value to lose
    that the other one lacks. So are two lists that are not stored, because each website has another list.
    """
    if first.is_rejected_method and second.is_rejected_method:
        return {"update_method"}
    if first.lost and second.lost:
        return {*first.lost, *second.lost}
    if first.planned.action != second.planned.action:
        return set()
    lists = LINE_FIELDS.keys() & first.wrong, LINE_FIELDS.keys() & second.wrong
    common = first.wrong & second.wrong
    if all(lists):
        common = common.union(*lists)
    return set(common)


def _is_sent(target: Target, fields: Collection[str]) -> bool:
    """Return whether one of these fields was sent: a retry would do the same to two other websites."""
    return any(field_change.field in fields for field_change in target.last.fields)


def _restore(target: Target, client: AnalyticsClient) -> str:
    """Write back the record from before the first update; return why it is not in effect, or nothing."""
    settings = {}
    unknown = []
    for name in COMPARED:
        if FIELDS[name].on_update and has_value(name, target.before):
            settings[name] = normalize(name, target.before[name])
            if isinstance(target.before[name], str) and name in LINE_FIELDS:
                settings[name] = tuple(target.before[name].split("\n"))  # exactly the text that was read
        elif name in target.before:
            unknown.append(name)
    expected = ExpectedRecord({}, settings, target.planned.domain)

    def restored(record: Record) -> Record | None:
        if expected.compare(record).is_applied:
            return None
        return settings

    try:
        client.change_website(Meant(str(target.website_id), target.planned.domain), restored)
        comparison = client.read_until(str(target.website_id), expected)
    except AnalyticsError as error:
        return f"It could not be restored ({error.text})"
    if comparison.not_applied:
        return f"It could not be restored ({describe(comparison.not_applied)})"
    unknown += comparison.unverified
    if unknown or not comparison.is_applied:
        return f"It could not be restored (the service returns {' and '.join(unknown)} in an unknown form)"
    target.sent.clear()
    return ""


def _remedy_for_values(target: Target, fields: Sequence[str]) -> str:
    """Return the remedy for values that the service does not store as they were sent."""
    for name in LINE_FIELDS.keys() & fields:
        kept = _kept_bytes(name, target)
        if kept:
            return f"The service kept the first {kept} bytes of {name}: shorten the list."
    return "Write the values as the service returns them, unless it only returned them late."


def _is_unchanged(target: Target) -> bool:
    """Return whether nothing of an update arrived."""
    if target.comparison is None:
        return False
    before = {name: target.before[name] for name in COMPARED if name in target.before}
    return ExpectedRecord({}, before).compare(target.comparison.record).is_applied


def _kept_bytes(name: str, target: Target) -> str:
    """Return how many bytes of a sent list the service kept, such as ``40 of 62``; empty if it did not cut the list."""
    if target.expected is None or target.comparison is None:
        return ""
    sent = "\n".join(target.expected.sent.get(name, ())).encode()
    stored = "\n".join(raw_lines(name, target.comparison.record.get(name)) or ()).encode()
    before = "\n".join(raw_lines(name, target.before.get(name)) or ()).encode()
    if not stored or stored in (sent, before) or not sent.startswith(stored):
        return ""
    return f"{len(stored):,} of {len(sent):,}"
