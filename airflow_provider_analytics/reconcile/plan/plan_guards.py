# SPDX-License-Identifier: Apache-2.0
"""Whether a plan can be applied: its guards and warnings, and the comparison with the approved plan.

Each guard has a name (:data:`guards.GUARDS`). A person who has checked its finding overrides the guard by this name:
``override_guards=["entries_lost"]``. To add a guard, write a function that takes the input of the run and its plan and
returns the lines of its finding, and add it to :data:`CHECKS`.

Exactly the approved plan is applied: all of it or nothing. After a crash, or if someone else made a part of the change,
the current plan is the remainder of the approved one. For example, the approved plan updates ``a.example`` and
``b.example``, and the current one only ``b.example``, because ``a.example`` already contains the approved values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_provider_analytics import SITE
from airflow_provider_analytics.api.checks import invalid
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import internal_addresses
from airflow_provider_analytics.api.fields import (
    LINE_FIELDS,
    Privacy,
    count_entries,
    normalize,
    raw_lines,
    website_name,
    website_of,
)
from airflow_provider_analytics.api.verification import COMPARED, NEW_WEBSITE, ExpectedRecord, Record
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.guards import are_websites_lost, loses_too_much, website_keys, with_another_id
from airflow_provider_analytics.readable import counted, first_of
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, WebsitesAsCode
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.tables import ListTables, entries_of
from airflow_provider_analytics.reconcile.job import Job, Planned
from airflow_provider_analytics.reconcile.plan.changes import Change, Plan, WebsiteKey, short

#: Maximum number of websites, and of entries per website, in the message of a guard.
_MAX_WORST = 5
_CASE = "- "
#: Maximum number of entries in a warning.
_MAX_WARNED = 10
_REMOVED_LATE = "Removing entries that were removed from the list earlier"
_ON_ANOTHER_LIST = "Not removed, because another list contains them"
_WITH_A_COMMENT = "Not removed, because their lines have a comment"


def check_guards(job: Job, planned: Planned) -> Plan:
    """Return the plan with the findings of the guards; findings of overridden guards become warnings.

    Totals below :data:`guards.MIN_COUNTED` are not checked, except by ``empty_list``.
    """
    lines: dict[str, list[str]] = {}
    for guard, check in CHECKS:
        lines.setdefault(guard, []).extend(check(job, planned))
    findings = {}
    warnings = list(planned.plan.warnings)
    for guard, found in lines.items():
        if not found:
            continue
        # The problems first, because a task log cuts off.
        text = "\n".join(sorted(found, key=lambda line: line.startswith(_CASE)))
        if guard in job.override_guards:
            warnings.append(f"Overridden guard {guard}: {text}")
        else:
            findings[guard] = text
    overridden = tuple(sorted(job.override_guards))
    return replace(planned.plan, findings=findings, override_guards=overridden, warnings=tuple(warnings))


def websites_of_the_last_run_are_missing(job: Job, planned: Planned) -> list[str]:
    """Guard ``fewer_websites``: websites of the last run that the list does not have, by id and domain."""
    if planned.last_problem:
        return [planned.last_problem]
    if planned.last is None:
        return []
    listed = website_keys(planned.websites.records)
    missing = sorted(set(planned.last) - listed)
    if not are_websites_lost(len(missing), len(planned.last), len(listed), job.max_loss_fraction):
        return []
    problem = "websites of the last run are missing from the list, by id and domain"
    lines = _lines(job, len(missing), len(planned.last), problem, [website_name(*key[::-1]) for key in missing])
    new = listed - set(planned.last)
    renumbered = {domain for _, domain in missing} & {domain for _, domain in new}
    if renumbered:
        lines.insert(1, with_another_id(len(renumbered)))
    return lines


def websites_of_the_last_run_are_created(job: Job, planned: Planned) -> list[str]:
    """Guard ``many_created``: websites that the last run saw, and that would be created again, by domain."""
    domains = {domain for _, domain in planned.last or ()}
    created = []
    for change in planned.plan.changes:
        if change.action == "create" and domain_key(change.domain) in domains:
            created.append(change.website)
    return _finding(job, len(created), len(domains), "websites of the last run would be created again", created)


def all_websites_are_deleted(job: Job, planned: Planned) -> list[str]:
    """Guard ``empty_list``: a file that deletes every compared website."""
    number = len(planned.deleted)
    if number == 0 or number < len(planned.compared) or job.max_loss_fraction == 1:
        return []
    problem = f"All {number:,} websites would be deleted, because the websites file contains none of them."
    if number == 1:
        problem = "The only website would be deleted, because the websites file does not contain it."
    return [problem, *_cases(list(planned.deleted.values()))]


def many_websites_are_deleted(job: Job, planned: Planned) -> list[str]:
    """Guard ``many_deleted``: deleted websites, of all compared websites."""
    number, total = len(planned.deleted), len(planned.compared)
    if number == total:
        return []  # see all_websites_are_deleted
    return _finding(job, number, total, "websites would be deleted", list(planned.deleted.values()))


def many_pages_become_public(job: Job, planned: Planned) -> list[str]:
    """Guard ``made_public``: statistics pages that become public, of the remaining pages that are not public."""
    privacies = [normalize("privacy", record.get("privacy")) for record in planned.remaining]
    not_public = len(privacies) - privacies.count(Privacy.PUBLIC.label)
    opened = [change.website for change in planned.plan.made_public if change.action == "update"]
    problem = "statistics pages that are not public would become public"
    return _finding(job, len(opened), not_public, problem, opened)


def lists_get_shorter(job: Job, planned: Planned) -> list[str]:
    """Guard ``entries_lost`` of lists that are not managed.

    It checks the entries by which lists get shorter, of all entries on remaining websites. A replaced entry is not a
    loss.
    """
    lines: list[str] = []
    for name in LINE_FIELDS:
        if name in job.source.managed:
            continue
        losses = [(change, lost) for change, lost in planned.changes_of(name) if lost.fewer > 0]
        losses.sort(key=lambda loss: -loss[1].fewer)
        worst = []
        for change, lost in losses:
            worst.append(f"{change.website} loses {first_of(lost.removed, _MAX_WORST, show=short)}")
        number = sum(lost.fewer for _, lost in losses)
        total = sum(count_entries(name, raw_lines(name, record.get(name))) for record in planned.remaining)
        lines += _finding(job, number, total, f"{name} entries would be lost", worst)
    return lines


def managed_lists_lose_entries(job: Job, _planned: Planned | None = None) -> list[str]:
    """Guard ``entries_lost`` of managed lists. It needs the tables only, and no website.

    It checks the entries that were removed from the list before their expiration date, of the distinct entries that
    the list had in its last run. A host name is one entry.
    """
    if job.lists is None:
        return []
    lines: list[str] = []
    for name in job.source.managed:
        before, now = job.lists.before.items(name), job.lists.table.items(name)
        if "empty_list" in job.override_guards and not now:
            continue
        removed = []
        for entry, source in before.items():
            is_expired = source.until is not None and source.until < job.lists.today
            if entry not in now and not is_expired:
                removed.append(entry)
        removed.sort()
        problem = f"entries were removed from the list {job.lists.table.identity.list!r}"
        lines += _finding(job, len(removed), len(before), problem, [first_of(removed, _MAX_WORST, show=short)])
    return lines


#: Name of a guard to a function that returns the lines of its finding: the problem, then the worst cases, which start
#: with ``- ``. No lines if the plan passes.
CHECKS: Sequence[tuple[str, Callable[[Job, Planned], list[str]]]] = (
    ("fewer_websites", websites_of_the_last_run_are_missing),
    ("many_created", websites_of_the_last_run_are_created),
    ("many_deleted", many_websites_are_deleted),
    ("empty_list", all_websites_are_deleted),
    ("made_public", many_pages_become_public),
    ("entries_lost", lists_get_shorter),
    ("entries_lost", managed_lists_lose_entries),
)


def _finding(job: Job, lost: int, total: int, problem: str, worst: Sequence[str]) -> list[str]:
    """Return the lines of a finding, with the worst cases; none if it is within the limit."""
    if not loses_too_much(lost, total, job.max_loss_fraction):
        return []
    return _lines(job, lost, total, problem, worst)


def _lines(job: Job, lost: int, total: int, problem: str, worst: Sequence[str]) -> list[str]:
    fraction = f"{lost / total:.0%}, more than max_loss_fraction={job.max_loss_fraction} allows"
    return [f"{lost:,} of {total:,} {problem} ({fraction}).", *_cases(worst)]


def _cases(worst: Sequence[str]) -> list[str]:
    cases = [f"{_CASE}{case}" for case in worst[:_MAX_WORST]]
    if len(worst) > _MAX_WORST:
        cases.insert(0, f"The first {_MAX_WORST}:")
    return cases


def internal_warnings(source: ExclusionList | WebsitesAsCode) -> list[str]:
    """Return a warning about private and loopback addresses on the lists, once for each list field."""
    warnings = []
    for name, parts in source.parts.items():
        listed = dict.fromkeys(entry for part in parts for entry in part.entries)
        internal = internal_addresses(listed)
        if internal:
            warnings.append(
                f"{name} contains private or loopback addresses, which a service on the internet never sees. List the "
                f"public address of the network instead of: {first_of(internal, _MAX_WARNED)}."
            )
    return warnings


def list_warnings(lists: ListTables, desired: DesiredState, compared: Sequence[Record]) -> list[str]:
    """Return the warnings for the compared websites, each with its entries and their numbers of websites.

    For example: ``["Not removed, because another list contains them: 192.0.2.1 (list 'vpn') on 3 websites."]``.
    """
    owned_now = (
        f"The list {lists.table.identity.list!r} has no table. Either it runs for the first time: then it manages the "
        "following entries from now on, even if someone added them by hand. Or its state folder was lost: then "
        f"entries that were removed from the list before remain on the websites, see {SITE}troubleshooting/"
        "#the-list-table-is-lost. Entries"
    )
    found: dict[str, Counter[str]] = {owned_now: Counter()}
    for reason in (_REMOVED_LATE, _ON_ANOTHER_LIST, _WITH_A_COMMENT):
        found[reason] = Counter()
    for record in compared:
        website = desired.of(record)
        if website is None:
            continue
        for name in lists.table.rows:
            wanted = set(website.settings.get(name, ()))
            if lists.before.run is None:
                found[owned_now].update(entries_of(name, record) & wanted)
            for entry, reason in _entries_to_remove(lists, name, record, wanted):
                found[reason][entry] += 1
    warnings = []
    for reason, entries in found.items():
        if entries:
            ordered = sorted(entries.items(), key=lambda item: (-item[1], item[0]))
            named = [f"{entry} on {counted(number, 'website')}" for entry, number in ordered]
            warnings.append(f"{reason}: {first_of(named, _MAX_WARNED)}.")
    return warnings


def _entries_to_remove(lists: ListTables, name: str, record: Record, wanted: set[str]) -> list[tuple[str, str]]:
    """Return the entries of a website that are not on the list any more, with the warning about each.

    There is no warning about an entry that leaves the list in this run and is removed. A warning about an entry that
    remains is given once, when it leaves the list.

    :param wanted: the entries that the website gets.
    """
    present = entries_of(name, record)
    without_comment = entries_of(name, record, plain=True)
    on_other_lists = lists.kept(name, record)
    owned = lists.owned(name, record)
    found = []
    for entry, source in lists.before.entries_of(name, record).items():
        if entry not in present or entry in wanted:
            continue
        if source.removed_on:
            if entry in owned and entry in without_comment:
                found.append((entry, _REMOVED_LATE))
        elif entry in on_other_lists:
            found.append((f"{entry} (list {on_other_lists[entry]!r})", _ON_ANOTHER_LIST))
        elif entry not in without_comment:
            found.append((entry, _WITH_A_COMMENT))
    return found


#: Approved action and an action that can be planned now. After a crash, an update can follow an approved create.
_CAN_FOLLOW = {("create", "create"), ("create", "update"), ("update", "update"), ("delete", "delete")}

#: Value of ``approved_digest`` that applies any plan within the guards, without an approval.
ANY_PLAN = "any"
_MAX_NAMED = 5


def parse_digest(value: object) -> str | None:
    """Return the digest of an approved plan; None if no approval is needed.

    :param value: :data:`ANY_PLAN`, the digest, or the output of Airflow's ``ApprovalOperator``. The output must contain
        the digest in ``params_input``, so that the person saw it in the form.
    :raises ValueError: if the value is none of these.
    :raises GuardError: if the plan was not approved. A task that was only marked as success has no output.
    """
    if value == ANY_PLAN:
        return None
    if value in (None, "", "None"):
        raise GuardError(
            "The plan was not approved: approved_digest is empty.",
            "No changes were sent. Give the digest that the plan task returned, or the output of the approval task.",
        )
    if isinstance(value, Mapping) and isinstance(value.get("chosen_options"), list):
        if value["chosen_options"] != ["Approve"]:
            problem = f"The plan was not approved. Response: {short(value['chosen_options'])}."
            raise GuardError(problem, "No changes were sent.")
        value = (value.get("params_input") or {}).get("approved_digest")
        if value is None:
            raise GuardError(
                "The plan was not approved. The response has no digest of a plan.",
                "No changes were sent. Over the REST API, send the field approved_digest of the form, too: "
                '{"chosen_options": ["Approve"], "params_input": {"approved_digest": "..."}}.',
            )
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value.strip()):
        allowed = "the digest of a plan, or the output of an ApprovalOperator whose form has the Param approved_digest"
        raise invalid("approved_digest", value, allowed)
    return value.strip()


def raise_unless_remainder(planned: Plan, approved: Plan, records: Iterable[Record]) -> None:
    """Raise :class:`GuardError` unless a plan is exactly the remainder of the approved plan.

    :param planned: the current plan.
    :param records: the current records of all websites in the approved plan.
    """
    _raise_unless_same_arguments(planned, approved)
    planned.raise_if_blocked()
    not_approved = []
    for change in planned.changes:
        problem = _not_approved(change, approved)
        if problem:
            not_approved.append(problem)
    if not_approved:
        raise _mismatch("Planned now, but not approved", not_approved)
    changes_now: dict[WebsiteKey, Change] = {}
    for change in planned.changes:
        website_id, key = change.key
        changes_now[website_id, key] = changes_now[None, key] = change
    records_now: dict[WebsiteKey, Record] = {}
    for record in records:
        domain, website_id = website_of(record)
        key = domain_key(domain)
        records_now[website_id, key] = records_now[None, key] = record
    dropped = []
    for website, change in approved.by_website.items():
        if not _is_settled(change, changes_now.get(website), records_now.get(website)):
            dropped.append(change.summary)
    if dropped:
        raise _mismatch("Approved, and no longer planned", dropped)


def raise_unless_approved(change: Change | None, approved: Plan) -> None:
    """Raise :class:`ValueError` for a change that was not approved; None is no change."""
    problem = ""
    if change is not None:
        problem = _not_approved(change, approved)
    if problem:
        raise ValueError(f"Not changed, because it has changed since the plan was approved: {problem}")


def _raise_unless_same_arguments(planned: Plan, approved: Plan) -> None:
    differing = []
    for name, value in planned.arguments.items():
        before = approved.arguments.get(name)
        if before != value:
            differing.append(f"{name} was {before!r}, here it is {value!r}")
    if differing:
        problem = f"The plan was approved for other settings: {'; '.join(differing)}."
        raise GuardError(problem, "No changes were sent. Plan again.")


def _not_approved(change: Change, plan: Plan) -> str:
    """Return the effects of a change that were not approved with a plan, as text; empty if all of them were."""
    website_id, key = change.key
    approved = plan.by_website.get((website_id, key)) or plan.by_website.get((None, key))
    if approved is None or (approved.action, change.action) not in _CAN_FOLLOW:
        return change.summary
    known = set(approved.effects)
    more = []
    for effect in change.effects:
        # Any other value before than the displayed one is another change: someone else might have created the website.
        is_new = approved.action == "create" and effect.before in (None, NEW_WEBSITE.get(effect.field))
        comparable = effect._replace(before=None) if is_new else effect
        if comparable not in known:
            more.append(f"{effect.field} {effect.text()}")
    return f"{change.website}: {', '.join(more)}" if more else ""


def _is_settled(change: Change, again: Change | None, record: Record | None) -> bool:
    """Return whether an approved change is planned again, or already in effect.

    :param again: the current change of the same website.
    :param record: its current record.
    """
    if change.action == "delete":
        return record is None or again is not None
    if record is None and again is None:
        return False
    final = dict(record or {})
    for planned in again.fields if again else ():
        final[planned.field] = planned.after
    before, wanted = {}, {}
    for approved in change.fields:
        before[approved.field] = approved.before
        if approved.field in COMPARED:
            wanted[approved.field] = approved.after
    return not ExpectedRecord(before, wanted, shared=frozenset(LINE_FIELDS)).compare(final).not_applied


def _mismatch(reason: str, changes: list[str]) -> GuardError:
    return GuardError(
        "The plan is not the approved one, because the file, the list, or a website has changed since. "
        f"{reason}: {first_of(changes, _MAX_NAMED, '; ')}.",
        "No changes were sent. Plan again.",
    )
