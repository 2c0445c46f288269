"""Hold what is applied to what was approved: the whole plan or nothing, and nothing else.

Compared are *effects*: that a field gets a value, that a list gains or loses an entry, that a website is created or
deleted. An approved effect that is already there, after a crash or because somebody else did it, needs no change.
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

#: Actions: the approved one, and one that may be planned now. A create is followed by an update after a crash.
_MAY_FOLLOW = {("create", "create"), ("create", "update"), ("update", "update"), ("delete", "delete")}

_SHOWN = 5


@dataclass(frozen=True)
class Approval:
    """That a person approved a plan.

    :param digest: digest of the plan.
    :param at: when it was approved; None if nobody knows, as with a digest that a person has typed.
    :param by: name of the person, if it is known.
    """

    digest: str
    at: datetime | None = None
    by: str | None = None

    @classmethod
    def parse(cls, value: object) -> Approval:
        """Return the approval of a digest, or of the output of Airflow's ``ApprovalOperator``.

        The output has to have the digest among its ``params_input``: so it is what the person saw in the form. A task
        that was marked as success has no output.

        :raises ValueError: if it is neither.
        :raises GuardError: if the plan was not approved.
        """
        if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value.strip()):
            return cls(value.strip())
        if not isinstance(value, Mapping) or not isinstance(value.get("chosen_options"), list):
            raise refused("expected_digest", value, "the digest of a plan, or the output of an ApprovalOperator")
        if value["chosen_options"] != ["Approve"]:
            raise GuardError(f"The plan was not approved, but answered with {short(value['chosen_options'])}.")
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
        """Return what tells this approval from others: one can be used once."""
        return f"{self.digest} of {(self.at or planned_at).isoformat()}"

    def raise_unless_valid(self, planned_at: datetime, now: datetime, valid: timedelta) -> None:
        """Raise :class:`GuardError` if the approval has expired.

        :param planned_at: when the plan was made, which counts where nobody knows when it was approved.
        """
        at = self.at or planned_at
        if now - at > valid:
            raise GuardError(
                f"The approval has expired: it is of {at:%Y-%m-%d %H:%M %Z}, and is valid for "
                f"{valid.total_seconds() / 3600:g} hours.",
                "Plan again. Nothing was sent.",
            )

    def raise_if_own(self, triggered_by: str | None) -> None:
        """Raise :class:`GuardError` unless the person who approved is known not to have started the run."""
        if self.by is None or self.by == triggered_by:
            told = f"{self.by!r} has also started the run" if self.by else "it is not known who approved the plan"
            raise GuardError(f"The approval does not count: {told}.", "Another person has to approve it.")


class ApprovedPlan:
    """A plan that somebody approved.

    :param plan: the plan as it was approved.
    :param use: see :meth:`Approval.use`.
    :param used: when and by whom it was applied as a whole; None if it was not.
    """

    def __init__(self, plan: Plan, use: str = "", used: str | None = None) -> None:
        self.plan = plan
        self.use = use
        self.used = used
        self._known = {_website(change): change for change in plan.changes if change.website_id}
        self._created = {domain_key(change.domain): change for change in plan.changes if not change.website_id}

    def raise_unless_whole(self, planned: Plan, records: Iterable[Mapping[str, Any]]) -> None:
        """Raise :class:`GuardError` if what is planned now is not exactly what is left of the approved plan.

        :param planned: the plan for the service as it is now.
        :param records: the current records of all websites that the approved plan is about.
        """
        if self.used and planned.changes:
            raise GuardError(f"The approval was used already{self.used}, and something differs again.", "Plan again.")
        problems = [problem for change in planned.changes if (problem := self._not_approved(change))]
        if problems:
            raise GuardError(_told("Planned now, but not approved", problems))
        now = _Now(records)
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
            raise GuardError(_told("Approved, and no longer planned", dropped))

    def only_approved(
        self, change_of: Callable[[Mapping[str, Any]], Change | None]
    ) -> Callable[[Mapping[str, Any]], Change | None]:
        """Return ``change_of``, but for a :class:`ValueError` instead of a change that was not approved."""

        def approved(record: Mapping[str, Any]) -> Change | None:
            change = change_of(record)
            problem = self._not_approved(change) if change else None
            if problem:
                raise ValueError(f"not changed, because it has changed since the plan was approved: {problem}")
            return change

        return approved

    def _not_approved(self, change: Change) -> str | None:
        """Return what of a change was not approved."""
        approved = self._known.get(_website(change)) or self._created.get(domain_key(change.domain))
        if approved is None or (approved.action, change.action) not in _MAY_FOLLOW:
            return change.summary
        more = effects(change) - effects(approved)
        if approved.action == "update":
            was = {one.field: one.before for one in approved.fields}
            # From another value than the one that was shown, it is another change.
            more |= {
                (one.field, "set", f"{one.before} -> {one.after}")
                for one in change.fields
                if one.field in FIELDS and one.field not in LINE_FIELDS and one.before != was.get(one.field, one.before)
            }
        return f"{change.website}: {', '.join(sorted(map(_in_words, more)))}" if more else None


def effects(change: Change) -> frozenset[Effect]:
    """Return what a change does."""
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


class _Now:
    """The websites as they are."""

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
        # An id that was given to another website is not the website of the plan.
        return record if record and domain_key(website_of(record)[0]) == domain_key(change.domain) else None

    def shows(self, change: Change, effect: Effect, record: Mapping[str, Any] | None) -> bool:
        """Return whether an effect of an approved change is there already."""
        name, what, value = effect
        if what == "delete":
            return record is None
        if record is None:
            return False
        if what == "create" or name not in FIELDS:  # what a password is cannot be seen
            return True
        if what == "set":
            return name in record and same_setting(name, record[name], value)
        lines = normalise(name, record.get(name))
        if not isinstance(lines, tuple):
            return False
        return (value in {LINE_FIELDS[name].key(line) for line in lines}) == (what == "add")


def _website(change: Change) -> tuple[str | None, str]:
    return change.website_id, domain_key(change.domain)


def _told(what: str, changes: list[str]) -> str:
    more = f"; and {len(changes) - _SHOWN:,} more" if len(changes) > _SHOWN else ""
    return (
        "The plan is not the approved one: the file, the list or the websites changed since. Nothing was sent. Plan "
        f"again. {what}: {'; '.join(changes[:_SHOWN])}{more}."
    )


def _in_words(effect: Effect) -> str:
    name, what, value = effect
    return f"{name} {short(value)}" if what == "set" else f"{what} {name} {short(value)}"
