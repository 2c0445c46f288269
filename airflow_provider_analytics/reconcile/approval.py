"""Ensure that exactly the approved plan is applied: all of it or nothing.

Plans are compared by *effects*: a field gets a value, a list gains or loses an entry, a website is created or deleted.
An approved effect that already exists, after a crash or because someone else made the change, needs no change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_analytics.api.checks import refused
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise, same_setting
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.reconcile.plan import Change, Plan, short, website_of

#: An effect: the field, what happens to it, and the value or entry.
Effect = tuple[str, str, Any]

#: Approved action and an action that may be planned now. After a crash, an update may follow an approved create.
_MAY_FOLLOW = {("create", "create"), ("create", "update"), ("update", "update"), ("delete", "delete")}

_MAX_NAMED = 5


@dataclass(frozen=True)
class Approval:
    """The approval of a plan by a person.

    :param digest: digest of the plan.
    :param at: when it was approved; None if unknown, for example if a person typed the digest.
    :param by: name of the person, if known.
    """

    digest: str
    at: datetime | None = None
    by: str | None = None

    @classmethod
    def parse(cls, value: object) -> Approval:
        """Parse an approval: a digest, or the output of Airflow's ``ApprovalOperator``.

        The output must contain the digest in ``params_input``, so that the person saw it in the form. A task that was
        marked as success has no output.

        :raises ValueError: if the value is neither.
        :raises GuardError: if the plan was not approved.
        """
        if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value.strip()):
            return cls(value.strip())
        if not isinstance(value, Mapping) or not isinstance(value.get("chosen_options"), list):
            raise refused("expected_digest", value, "the digest of a plan, or the output of an ApprovalOperator")
        if value["chosen_options"] != ["Approve"]:
            raise GuardError(f"The plan was not approved. Response: {short(value['chosen_options'])}.")
        digest = (value.get("params_input") or {}).get("digest")
        if not isinstance(digest, str):
            raise refused(
                "expected_digest", value, "the output of an ApprovalOperator whose form has the digest as a param"
            )
        at, by = value.get("responded_at"), value.get("responded_by_user")
        if isinstance(at, str):
            at = datetime.fromisoformat(at)
        if not isinstance(at, datetime):
            raise refused("expected_digest", value, "the output of an ApprovalOperator, with responded_at")
        name = by.get("name") if isinstance(by, Mapping) else None
        return cls(digest, at if at.tzinfo else at.replace(tzinfo=UTC), name)

    def use(self, planned_at: datetime) -> str:
        """Return a text that identifies this approval; an approval can be used once."""
        return f"{self.digest} of {(self.at or planned_at).isoformat()}"

    def raise_unless_valid(self, planned_at: datetime, now: datetime, valid: timedelta) -> None:
        """Raise :class:`GuardError` if the approval has expired.

        :param planned_at: when the plan was made; used if the time of the approval is unknown.
        """
        at = self.at or planned_at
        if now - at > valid:
            raise GuardError(
                f"The approval has expired: it is of {at:%Y-%m-%d %H:%M %Z}, and is valid for "
                f"{valid.total_seconds() / 3600:g} hours.",
                "Plan again. Nothing was sent.",
            )

    def raise_if_own(self, triggered_by: str | None) -> None:
        """Raise :class:`GuardError` if the approver also started the run, or is unknown."""
        if self.by is None or self.by == triggered_by:
            reason = f"{self.by!r} has also started the run" if self.by else "it is not known who approved the plan"
            raise GuardError(f"The approval does not count: {reason}.", "Another person has to approve it.")


class ApprovedPlan:
    """An approved plan.

    :param plan: the plan as it was approved.
    :param use: see :meth:`Approval.use`.
    :param used: when and by whom it was completely applied; None if it was not.
    """

    def __init__(self, plan: Plan, use: str = "", used: str | None = None) -> None:
        self.plan = plan
        self.use = use
        self.used = used
        self._known = {_website(change): change for change in plan.changes if change.website_id}
        self._created = {domain_key(change.domain): change for change in plan.changes if not change.website_id}

    def raise_unless_whole(self, planned: Plan, records: Iterable[Mapping[str, Any]]) -> None:
        """Raise :class:`GuardError` unless the current plan is exactly the remainder of the approved plan.

        :param planned: the current plan.
        :param records: the current records of all websites in the approved plan.
        """
        if self.used and planned.changes:
            raise GuardError(f"The approval was used already{self.used}, and something differs again.", "Plan again.")
        problems = [problem for change in planned.changes if (problem := self._not_approved(change))]
        if problems:
            raise GuardError(_mismatch("Planned now, but not approved", problems))
        now = _CurrentWebsites(records)
        planned_by_id = {change.website_id: change for change in planned.changes}
        created = {domain_key(change.domain): change for change in planned.changes if not change.website_id}
        dropped = []
        for change in self.plan.changes:
            record = now.record(change)
            again = planned_by_id.get(str(record["id"])) if record else None
            again = again or created.get(domain_key(change.domain))
            missing = effects(change) - (effects(again) if again else frozenset())
            if not all(now.shows(change, effect, record) for effect in missing):
                dropped.append(change.summary)
        if dropped:
            raise GuardError(_mismatch("Approved, and no longer planned", dropped))

    def only_approved(
        self, change_of: Callable[[Mapping[str, Any]], Change | None]
    ) -> Callable[[Mapping[str, Any]], Change | None]:
        """Return ``change_of``, wrapped to raise :class:`ValueError` for a change that was not approved."""

        def approved(record: Mapping[str, Any]) -> Change | None:
            change = change_of(record)
            problem = self._not_approved(change) if change else None
            if problem:
                raise ValueError(f"not changed, because it has changed since the plan was approved: {problem}")
            return change

        return approved

    def _not_approved(self, change: Change) -> str | None:
        """Return the effects of a change that were not approved, as text; None if all were approved."""
        approved = self._known.get(_website(change)) or self._created.get(domain_key(change.domain))
        if approved is None or (approved.action, change.action) not in _MAY_FOLLOW:
            return change.summary
        more = effects(change) - effects(approved)
        if approved.action == "update":
            was = {one.field: one.before for one in approved.fields}
            # If the current value is not the one that was displayed, it is another change.
            more |= {
                (one.field, "set", f"{one.before} -> {one.after}")
                for one in change.fields
                if one.field in FIELDS and one.field not in LINE_FIELDS and one.before != was.get(one.field, one.before)
            }
        return f"{change.website}: {', '.join(sorted(map(_describe, more)))}" if more else None


def effects(change: Change) -> frozenset[Effect]:
    """Return the effects of a change."""
    if change.action == "delete":
        return frozenset({("website", "delete", change.website_id)})
    found: set[Effect] = {("website", "create", domain_key(change.domain))} if change.action == "create" else set()
    for one in change.fields:
        if one.field not in LINE_FIELDS:
            found.add((one.field, "set", one.after))
            continue
        key = LINE_FIELDS[one.field].key
        before = {key(line) for line in one.before or ()} - {""}
        after = {key(line) for line in one.after or ()} - {""}
        found |= {(one.field, "add", entry) for entry in after - before}
        found |= {(one.field, "remove", entry) for entry in before - after}
    return frozenset(found)


class _CurrentWebsites:
    """The current websites."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._by_id: dict[str, Mapping[str, Any]] = {}
        self._by_domain: dict[str, Mapping[str, Any]] = {}
        for record in records:
            domain, website_id = website_of(record)
            self._by_id[website_id] = self._by_domain[domain_key(domain)] = record

    def record(self, change: Change) -> Mapping[str, Any] | None:
        if change.action == "create":
            return self._by_domain.get(domain_key(change.domain))
        record = self._by_id.get(str(change.website_id))
        # If the id now belongs to another domain, it is not the website of the plan.
        return record if record and domain_key(website_of(record)[0]) == domain_key(change.domain) else None

    def shows(self, change: Change, effect: Effect, record: Mapping[str, Any] | None) -> bool:
        """Return whether an effect of an approved change already exists."""
        name, what, value = effect
        if what == "delete":
            return record is None
        if record is None:
            return False
        if what == "create" or name not in FIELDS:  # records do not contain passwords
            return True
        if what == "set":
            return name in record and same_setting(name, record[name], value)
        lines = normalise(name, record.get(name))
        if not isinstance(lines, tuple):
            return False
        return (value in {LINE_FIELDS[name].key(line) for line in lines}) == (what == "add")


def _website(change: Change) -> tuple[str | None, str]:
    return change.website_id, domain_key(change.domain)


def _mismatch(what: str, changes: list[str]) -> str:
    more = f"; and {len(changes) - _MAX_NAMED:,} more" if len(changes) > _MAX_NAMED else ""
    return (
        "The plan is not the approved one: the file, the list or the websites changed since. Nothing was sent. Plan "
        f"again. {what}: {'; '.join(changes[:_MAX_NAMED])}{more}."
    )


def _describe(effect: Effect) -> str:
    name, what, value = effect
    return f"{name} {short(value)}" if what == "set" else f"{what} {name} {short(value)}"
