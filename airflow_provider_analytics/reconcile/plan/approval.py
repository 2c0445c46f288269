# SPDX-License-Identifier: Apache-2.0
"""Ensure that exactly the approved plan is applied: all of it or nothing.

After a crash, or if someone else made a part of the change, the current plan is the remainder of the approved one. For
example, the approved plan updates ``a.example`` and ``b.example``, and the current one only ``b.example``, because
``a.example`` already contains the approved values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_provider_analytics.api.checks import invalid
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import LINE_FIELDS, website_of
from airflow_provider_analytics.api.verification import COMPARED, ExpectedRecord, Record
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import first_of
from airflow_provider_analytics.reconcile.plan.changes import Change, Plan, WebsiteKey, short

#: Approved action and an action that can be planned now. After a crash, an update can follow an approved create.
_MAY_FOLLOW = {("create", "create"), ("create", "update"), ("update", "update"), ("delete", "delete")}

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
            raise GuardError(f"The plan was not approved. Response: {short(value['chosen_options'])}.")
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
    _raise_unless_same_scope(planned, approved)
    # The findings that were overridden in the approved plan do not block its remainder.
    findings = dict(planned.findings)
    for guard in approved.override_guards:
        findings.pop(guard, None)
    replace(planned, findings=findings).raise_if_blocked()
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
        raise ValueError(f"not changed, because it has changed since the plan was approved: {problem}")


def _raise_unless_same_scope(planned: Plan, approved: Plan) -> None:
    differing = []
    for name, value in planned.scope.items():
        before = approved.scope.get(name)
        if before != value:
            differing.append(f"{name} was {before!r}, here it is {value!r}")
    if differing:
        problem = f"The plan was approved for other settings: {'; '.join(differing)}."
        raise GuardError(problem, "No changes were sent. Plan again.")


def _not_approved(change: Change, plan: Plan) -> str:
    """Return the effects of a change that were not approved with a plan, as text; empty if all of them were."""
    website_id, key = change.key
    approved = plan.by_website.get((website_id, key)) or plan.by_website.get((None, key))
    if approved is None or (approved.action, change.action) not in _MAY_FOLLOW:
        return change.summary
    known = set(approved.effects)
    more = []
    for effect in change.effects:
        # Before a create, the value was not known. Any other value than the displayed one is another change.
        comparable = effect._replace(before=None) if approved.action == "create" else effect
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
    for field in again.fields if again else ():
        final[field.field] = field.after
    before, wanted = {}, {}
    for field in change.fields:
        before[field.field] = field.before
        if field.field in COMPARED:
            wanted[field.field] = field.after
    return not ExpectedRecord(before, wanted, shared=frozenset(LINE_FIELDS)).compare(final).not_applied


def _mismatch(reason: str, changes: list[str]) -> GuardError:
    return GuardError(
        "The plan is not the approved one: the file, the list or the websites changed since. No changes were sent. "
        f"Plan again. {reason}: {first_of(changes, _MAX_NAMED, '; ')}."
    )
