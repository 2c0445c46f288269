# SPDX-License-Identifier: Apache-2.0
"""The experiment at the start of a plan: two canaries are changed first, and a control group shows the cause.

If both canaries have an unsent change in the same field, the *control group* decides: up to ten websites that this run
has not touched are read again. If none of them changed in that field, the service is the cause: both canaries are
restored, and no other change is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise, raw_lines
from airflow_provider_analytics.api.verification import COMPARED, ExpectedRecord, Record, has_value
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    AuthenticationError,
    NotAppliedError,
    StoppedError,
)
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import counted
from airflow_provider_analytics.reconcile.apply.canaries import Canaries
from airflow_provider_analytics.reconcile.apply.reading import ReadBack
from airflow_provider_analytics.reconcile.apply.results import Finding, FindingKind, State, Update, describe
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.service_websites import Websites
from airflow_provider_analytics.reconcile.workers import Breaker

#: Consecutive failures after which the service counts as down, while websites are changed one at a time.
ATTEMPTS_ALONE = 3
#: Number of websites in the control group.
CONTROL_GROUP = 10
#: Statuses with which services reject an update method that they do not have.
METHOD_REJECTED = frozenset({403, 405, 501})

_OTHER_METHODS = {"PATCH": "PUT", "PUT": "PATCH"}

log = logging.getLogger(__name__)


class ControlGroup(NamedTuple):
    """Websites that this run has not touched, read again.

    :param number: number of these websites.
    :param changed: whether one of them changed since the run read it first.
    """

    number: int
    changed: bool


class Experiment:
    """Changes the canaries one after the other, and decides whether the other websites may be changed.

    :param updates: all websites of the plan.
    :param records: website id to record, as the plan was made from it.
    """

    def __init__(
        self,
        updates: Sequence[Update],
        records: Mapping[str, Record],
        websites: Websites,
        sender: Sender,
        read_back: ReadBack,
    ) -> None:
        self._updates = updates
        self._records = records
        self._websites = websites
        self._client = websites.client
        self._sender = sender
        self._read_back = read_back
        #: The error for a service that changes unsent values, or does not store sent values; otherwise None.
        self.stopped: NotAppliedError | None = None

    def run(self) -> bool:
        """Change the canaries; return whether the other websites may be changed."""
        canaries = Canaries(self._updates, self._records)
        breaker = Breaker(ATTEMPTS_ALONE)
        rejected: list[Update] = []
        while not breaker.is_open:
            canary = canaries.next()
            if canary is None:
                self._clear_suspicions()
                return True
            errors = self._sender.send_all([canary], breaker=breaker)
            if canary.planned.action == "update" and any(map(_is_method_rejected, errors)):
                rejected.append(canary)
                if len(rejected) > 1:
                    self._stop_without_a_method(rejected[0])
                    return False
            if canary.may_be_applied:
                self._read_back.verify([canary], is_canary=True)
            repeated = canaries.repeated(canary)
            if repeated and self._stops(canary, repeated, canaries.suspected):
                return False
            canaries.note(canary, repeated)
        return False

    def _clear_suspicions(self) -> None:
        """Let canaries with unsent changes count as applied: they are read again with the other websites."""
        for update in self._updates:
            if update.state is State.FAILED and update.unsent:
                update.set(State.APPLIED)

    def _stops(self, canary: Update, repeated: Mapping[Finding, Update], suspected: Sequence[Update]) -> bool:
        """Decide about the findings of two canaries; return whether no other change is sent.

        :param repeated: the findings of both canaries, each with the earlier canary.
        :param suspected: all earlier canaries with findings.
        """
        first = next(iter(repeated.values()))
        both = [first, canary]
        fields = sorted({finding.field for finding in repeated})
        named = " and ".join(fields)
        changes = "; ".join(f"{update.website}: {update.differences}" for update in both)
        affected = list(dict.fromkeys([*both, *suspected]))
        if any(finding.kind is FindingKind.NOT_APPLIED for finding in repeated):
            problem = f"The service accepted the changes of two websites but did not store {named}: {changes}."
            remedy = _remedy_for_values(both, fields, self._client)
            self._stop(affected, problem, remedy, permanent=True)
            return True
        control = self._control_group(both, fields)
        if control is None:
            problem = f"{named} changed on both websites that were updated, but was not sent: {changes}."
            remedy = (
                "The run has no other website that shows whether the service or another process is the cause, so "
                "nothing was restored."
            )
            self._stop(affected, problem, remedy, restore=False, permanent=True)
            return True
        if control.changed:
            log.warning("Other websites changed in %s, too, so another process is the cause.", named)
            return False
        problem = f"The service changes {named} when it is not sent: {changes}."
        remedy = f"{counted(control.number, 'other website')} kept the values. {_remedy_for_method(self._client)}"
        # If the service rewrites a list that is sent, a retry would do the same to the next two websites.
        sent = {field_change.field for field_change in canary.last.fields}
        self._stop(affected, problem, remedy, permanent=not sent.isdisjoint(fields))
        return True

    def _control_group(self, canaries: Sequence[Update], fields: Collection[str]) -> ControlGroup | None:
        """Read websites again that this run has not touched; None if no website can show a change of these fields."""
        touched = {update.website_id for update in self._updates if update.state is not State.NOT_TRIED}
        after: Record = {}
        if canaries[0].comparison:
            after = canaries[0].comparison.record
        candidates = []
        for website_id, record in sorted(self._records.items()):
            if website_id not in touched and _can_change(fields, record, after):
                candidates.append(website_id)
        chosen = RANDOM.sample(candidates, min(CONTROL_GROUP, len(candidates)))
        try:
            read = self._websites.read_again(chosen, fields, one_by_one=True)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:
            log.warning("The control group could not be read: %s", error.text)
            return None
        if not read.found:
            return None
        changed: set[str] = set()
        for website_id, record in read.found.items():
            changed |= ExpectedRecord(self._records[website_id], {}).compare(record).unsent.keys()
        return ControlGroup(len(read.found), not changed.isdisjoint(fields))

    def _stop(
        self, affected: Sequence[Update], problem: str, remedy: str, *, permanent: bool, restore: bool = True
    ) -> None:
        """Restore the canaries, and note that no other change is sent.

        :param affected: the canaries.
        """
        unclear = [update for update in self._updates if update.state is State.UNCLEAR]
        self._read_back.read(unclear, one_by_one=True)
        affected = list(dict.fromkeys([*affected, *(update for update in unclear if update.findings)]))
        outcomes = []
        for update in affected:
            differences = update.differences
            how = f"Values before: {update.values_before}"
            if restore and update.planned.action != "update":
                how, permanent = "It was not undone", True
            elif restore:
                failure = _restore(update, self._client)
                if failure:
                    how, permanent = f"It could not be restored ({failure}). {how}", True
                else:
                    how = "Its values were restored and verified"
            update.set(State.FAILED, f"{differences}. {how}.")
            outcomes.append(f"{update.website}: {how}.")
        unchanged = len([update for update in self._updates if update.state is State.NOT_TRIED])
        first = affected[0]
        self.stopped = NotAppliedError(
            str(first.website_id),
            {**first.not_applied, **first.unsent},
            f"No other change was sent, {counted(unchanged, 'website')} remain unchanged.\n"
            f"{' '.join(outcomes)}\n{remedy}",
            permanent=permanent,
            problem=problem,
        )

    def _stop_without_a_method(self, first: Update) -> None:
        method = self._client.settings.update_method
        self.stopped = NotAppliedError(
            str(first.website_id),
            {},
            f"No change was sent. Set the extra update_method to {_OTHER_METHODS[method]}, or use a key that may "
            "change websites.",
            permanent=True,
            problem=f"The service rejected {method} for two websites. {first.website}: {first.reason}",
        )


def _restore(update: Update, client: AnalyticsClient) -> str:
    """Write back the whole record from before the first update; return why it is not in effect, or nothing."""
    settings = {}
    unknown = []
    for name in COMPARED:
        if FIELDS[name].on_update and has_value(name, update.before):
            settings[name] = normalise(name, update.before[name])
        elif name in update.before:
            unknown.append(name)
    expected = ExpectedRecord({}, settings, update.planned.domain)

    def restored(record: Record) -> Record | None:
        if expected.compare(record).is_applied:
            return None
        return settings

    try:
        client.change_website(str(update.website_id), restored)
        comparison = client.read_until(str(update.website_id), expected)
    except AnalyticsError as error:
        return error.text
    if comparison.not_applied:
        return describe(comparison.not_applied)
    unknown += comparison.unverified
    if unknown or not comparison.is_applied:
        return f"the service returns {' and '.join(unknown)} in an unknown form"
    update.sent.clear()
    return ""


def _is_method_rejected(error: BaseException) -> bool:
    return isinstance(error, AnalyticsApiError) and error.status in METHOD_REJECTED and not error.is_blocked


def _can_change(fields: Collection[str], record: Record, after: Record) -> bool:
    """Return whether a website has another value than a canary has now, so that it can change in the same way."""
    for name in fields:
        if has_value(name, record):
            value = normalise(name, record[name])
            if name in LINE_FIELDS:
                can_change = bool(value)
            else:
                can_change = name not in after or value != normalise(name, after[name])
            if can_change:
                return True
    return False


def _remedy_for_method(client: AnalyticsClient) -> str:
    method = client.settings.update_method
    return f"Set the extra update_method to {_OTHER_METHODS[method]}; it is {method} now."


def _remedy_for_values(canaries: Sequence[Update], fields: Sequence[str], client: AnalyticsClient) -> str:
    """Return the recommended action for two canaries without the sent values."""
    if canaries[0].planned.action != "update":
        return ""
    if "favorite" in fields:
        return f"Set the extra boolean_format to the other value; it is {client.settings.boolean_format} now."
    if all(map(_is_unchanged, canaries)):
        return _remedy_for_method(client)
    for name in LINE_FIELDS.keys() & fields:
        kept = _kept_bytes(name, canaries[0])
        if kept:
            return f"The service kept the first {kept} bytes of {name}: shorten the list."
    return "Write the values as the service returns them."


def _is_unchanged(update: Update) -> bool:
    """Return whether nothing of an update arrived."""
    if update.comparison is None:
        return False
    before = {name: update.before[name] for name in COMPARED if name in update.before}
    return ExpectedRecord({}, before).compare(update.comparison.record).is_applied


def _kept_bytes(name: str, update: Update) -> str:
    """Return how many bytes of a sent list the service kept, such as ``40 of 62``; empty if it did not cut the list."""
    if update.expected is None or update.comparison is None:
        return ""
    sent = "\n".join(update.expected.sent.get(name, ())).encode()
    stored = "\n".join(raw_lines(name, update.comparison.record.get(name)) or ()).encode()
    if not stored or stored == sent or not sent.startswith(stored):
        return ""
    return f"{len(stored):,} of {len(sent):,}"
