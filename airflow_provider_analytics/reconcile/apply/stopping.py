# SPDX-License-Identifier: Apache-2.0
"""Stop a run: restore the websites that are not as expected, and return the error with a remedy that fits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import LINE_FIELDS, SETTABLE_FIELDS, Privacy, normalize, same_setting
from airflow_provider_analytics.api.verification import COMPARED, ExpectedRecord, Record, cause_of, has_value
from airflow_provider_analytics.exceptions import OTHER_METHODS, AnalyticsError, NotAppliedError
from airflow_provider_analytics.readable import counted, first_of
from airflow_provider_analytics.reconcile.apply.problems import LOST, REJECTED_METHOD, Problem, problems_of
from airflow_provider_analytics.reconcile.apply.reading import Reader
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.apply.targets import State, Target, describe
from airflow_provider_analytics.reconcile.plan.changes import Change, FieldChange
from airflow_provider_analytics.reconcile.service_websites import reason_of

#: Smallest number of changed websites that fail together if all of them lost values.
_ALL_FROM = 3
#: Maximum number of websites in an error.
_MAX_NAMED = 10


def stop(sender: Sender, reader: Reader, targets: Sequence[Target], problem: Problem) -> NotAppliedError:
    """Restore the websites that are not as expected, and return the error.

    Websites that are as expected keep their new values.

    :param problem: the problem that was repeated.
    """
    reader.read([target for target in targets if target.sent and not target.is_read], one_by_one=True)
    wrong, with_problem = [], []
    fields: set[str] = set()
    for target in targets:
        found = problems_of(target, sender.changed_by_others)
        if found or (target.sent and not target.is_read):
            wrong.append(target)
        if problem in found:
            with_problem.append(target)
            fields |= found[problem]
    what, remedy = _explain(sender.client, problem, with_problem, sorted(fields))
    # A retry would do the same to other websites, if the fields were sent, and could not undo what remains.
    is_permanent = problem != LOST or _is_sent(with_problem, fields)
    restored, remaining = [], []
    for target in wrong:
        differences = target.differences
        failure = _restore(sender, target)
        if failure:
            target.set(State.FAILED, f"{differences}. {failure}. {target.values_before}")
            remaining.append(target)
        else:
            target.set(State.FAILED, f"{differences}. Its values were restored and verified.")
            target.sent.clear()
            restored.append(target)
    unchanged = len([target for target in targets if target.state is State.NOT_TRIED])
    first = with_problem[0]
    lines = [f"No other change was sent, so {counted(unchanged, 'website')} did not change."]
    lines += [f"{target.website}: {target.reason}" for target in (*remaining, *restored)]
    return NotAppliedError(
        str(first.website_id),
        {**first.comparison.not_applied, **first.comparison.unsent},
        "\n".join([*lines, remedy]),
        permanent=is_permanent or bool(remaining),
        problem=what,
    )


def damage_everywhere(targets: Sequence[Target]) -> NotAppliedError | None:
    """Return the error if every changed website lost values that were not sent; None if not, or if there are few."""
    changed = [target for target in targets if target.sent and target.has_update]
    if len(changed) < _ALL_FROM or not all(target.comparison.unsent for target in changed):
        return None
    cases = [f"{target.website}: {describe(target.comparison.unsent)}" for target in changed]
    return NotAppliedError(
        str(changed[0].website_id),
        changed[0].comparison.unsent,
        "The service might change all websites with each update, or another process changed them at the same time. "
        f"Nothing was restored. {first_of(cases, _MAX_NAMED, '; ')}.",
        permanent=True,
        problem=f"Values that were not sent changed on all {len(changed):,} changed websites.",
    )


# Restoring


def _restore(sender: Sender, target: Target) -> str:
    """Give a website back its values from before; return why it is not restored, or nothing."""
    if target.planned.action != "update":
        return "It was not undone, because it is a create or a delete"
    if not target.sent:
        return "No change was stored"
    if not target.is_read:
        return "It could not be restored, because it could not be read"
    read = target.comparison.record

    def undo(record: Record) -> Change:
        if any(normalize(name, record.get(name)) != normalize(name, read.get(name)) for name in COMPARED):
            raise ValueError("it has changed since it was read")
        return _undo(target, record)

    before = target.expected.before
    is_closed = _was_public(before) and not same_setting("privacy", before["privacy"], read.get("privacy"))
    stays_closed = is_closed and not _is_undone("privacy", target, read)
    unknown = {name for name in COMPARED if name in before and not has_value(name, before)}
    unknown |= target.emptied_lists(before)
    expected = ExpectedRecord({}, _undo(target, read).settings, target.planned.domain)
    try:
        if not expected.compare(read).is_applied:
            sender.update(target, undo)
        comparison = sender.client.read_until(str(target.website_id), expected)
    except (AnalyticsError, ValueError) as error:
        return f"It could not be restored ({reason_of(error).rstrip('.')})"
    if comparison.other_domain is not None:
        return f"It was given to {comparison.other_domain!r} after its values were restored"
    if comparison.not_applied:
        return f"It could not be restored ({describe(comparison.not_applied)})"
    unknown.update(comparison.unverified)
    if unknown:
        named = " and ".join(sorted(unknown))
        return f"It could not be restored (the service does not return {named}, or in an unknown form)"
    if stays_closed:
        return "Its other values were restored. Its page was not made public again: a person might have closed it"
    return ""


def _undo(target: Target, record: Record) -> Change:
    """Return the change that gives a website back the values that were sent, or lost with the update.

    It contains all fields, because the service might reset the others.
    """
    expected = target.expected
    fields = []
    for name in SETTABLE_FIELDS:
        is_undone = _is_undone(name, target, record)
        if not is_undone and not has_value(name, record):
            continue
        now = after = _exact(name, record.get(name))
        if is_undone:
            after = _exact(name, expected.before[name])
            if name in LINE_FIELDS:
                after += _lines_of_others(name, target, record)
        fields.append(FieldChange(name, now, after))
    return Change("update", target.planned.domain, target.website_id, tuple(fields), record)


def _is_undone(name: str, target: Target, record: Record) -> bool:
    """Return whether a website gets the value from before back: the field was sent, or lost with the update."""
    expected = target.expected
    if not has_value(name, expected.before):
        return False
    if name == "privacy" and _was_public(expected.before):
        # Unless this task closed the page, a person might have done it.
        return name in expected.sent and same_setting(name, expected.sent[name], record.get(name))
    return name in expected.sent or name in target.lost


def _was_public(record: Record) -> bool:
    return has_value("privacy", record) and normalize("privacy", record["privacy"]) == Privacy.PUBLIC.label


def _exact(name: str, value: object) -> Any:
    """Return a value as it is sent so that it is stored exactly as it was read."""
    if isinstance(value, str) and name in LINE_FIELDS:
        return tuple(value.split("\n"))
    return normalize(name, value)


def _lines_of_others(name: str, target: Target, record: Record) -> tuple[str, ...]:
    """Return the lines that others added to a list. A line that begins a missing own line is the end of a cut list."""
    if not has_value(name, record):
        return ()
    before, sent = _keys(name, target.expected.before), _keys(name, target.expected.sent)
    lines = {line.casefold(): line for line in normalize(name, record[name])}
    missing = (sent or before) - lines.keys()
    added = []
    for key, line in lines.items():
        is_cut = any(whole.startswith(key) for whole in missing)
        if key not in before | sent and not is_cut:
            added.append(line)
    return tuple(added)


def _keys(name: str, values: Record) -> set[str]:
    """Return the lines of a list in lower case; none if it has no value."""
    if not has_value(name, values):
        return set()
    return {line.casefold() for line in normalize(name, values[name])}


# The error


def _explain(
    client: AnalyticsClient, problem: Problem, targets: Sequence[Target], fields: list[str]
) -> tuple[str, str]:
    """Return the problem of these websites, and a remedy that fits."""
    method = client.settings.update_method
    named, number = ", ".join(fields), counted(len(targets), "website")
    other = OTHER_METHODS[method]
    other_method = f"Set the extra update_method to {other} if {other} keeps unsent fields; it is {method} now."
    if problem == REJECTED_METHOD:
        what = f"The service rejected {method} for {number}. {targets[0].website}: {targets[0].reason}"
        return what, f"{other_method} Or use a key that can change websites."
    if problem == LOST:
        what = f"Values that were not sent changed on {number}: {named}."
        if not _is_sent(targets, fields):
            return what, f"The service might reset values that are not sent. {other_method}"
        return what, _cause(targets) or "The service might not store each line of a list. Ask its operator."
    what = f"The service accepted the changes of {number} but did not store {named}."
    if problem.action != "update":
        return what, ""
    if all(map(_is_unchanged, targets)):
        waited = sum(client.confirm_waits)
        if_late = f"If the service needs more than {waited:g} s to return a change, clear the task."
        return what, f"{if_late} Otherwise, the service might ignore {method}. {other_method}"
    return what, _cause(targets) or "Write the values as the service returns them, unless it only returned them late."


def _is_sent(targets: Sequence[Target], fields: Collection[str]) -> bool:
    """Return whether one of these fields was sent to one of the websites."""
    return any(name in target.expected.sent for target in targets for name in fields)


def _is_unchanged(target: Target) -> bool:
    """Return whether nothing of an update arrived."""
    before = {name: value for name, value in target.expected.before.items() if name in COMPARED}
    return ExpectedRecord({}, before).compare(target.comparison.record).is_applied


def _cause(targets: Sequence[Target]) -> str:
    """Return why the service does not store values as they were sent; empty if that is unknown."""
    for target in targets:
        cause = cause_of(target.expected, target.comparison.record)
        if cause:
            return cause
    return ""
