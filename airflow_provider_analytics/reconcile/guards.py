"""Guards: checks that stop a plan that looks like an accident.

Each guard has a name (:data:`guards.GUARDS`). A person who has checked its finding overrides the guard by this name:
``accept=["loss"]``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_analytics.api.checks import fraction
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.guards import loses_too_much
from airflow_provider_analytics.reconcile.lists import Lists
from airflow_provider_analytics.reconcile.plan import Change, Plan, short

#: Maximum number of websites, and of entries per website, in the message of a guard.
_MAX_WORST = 5

#: The problem, and the worst websites.
_Tripped = tuple[str, list[str]]


def guarded(
    plan: Plan,
    max_loss_fraction: float,
    *,
    accept: Collection[str] = (),
    managed: Collection[str] = (),
    lists: Lists | None = None,
    expired: Mapping[str, Collection[str]] | None = None,
) -> Plan:
    """Return the plan with the findings of the guards that are not accepted.

    The guards check these fractions:

    * ``delete``: deleted websites, of all compared websites;
    * ``public``: statistics pages that become public, of the pages of remaining websites that are not public;
    * ``loss``: of a managed list, the entries that left it, of the distinct entries that it had in its last run;
      otherwise, the entries by which lists get shorter, of all entries on remaining websites.

    Totals below :data:`guards.MIN_COUNTED` are not checked.

    :param max_loss_fraction: largest fraction allowed, 0 to 1.
    :param accept: names of the guards that are overridden.
    :param managed: list fields that are managed.
    :param lists: their tables.
    :param expired: list field to the entries whose last day is over; these are no loss.
    :raises ValueError: if ``max_loss_fraction`` is not between 0 and 1.
    """
    limit = fraction("max_loss_fraction", max_loss_fraction)
    others = [_lost(plan, name, limit) for name in LINE_FIELDS if name not in managed]
    may_be_empty = "empty" in accept
    own = [
        _left(lists, name, limit, (expired or {}).get(name, ()), may_be_empty=may_be_empty) for name in managed if lists
    ]
    found = {
        "empty": [_emptied(plan, limit)],
        "delete": [_deleted(plan, limit)],
        "public": [_opened(plan, limit)],
        "loss": [*own, *others],
    }
    findings = {guard: _text([one for one in tripped if one]) for guard, tripped in found.items() if any(tripped)}
    refused = {guard: text for guard, text in findings.items() if guard not in accept}
    accepted = [f"Accepted ({guard}): {text}" for guard, text in findings.items() if guard in accept]
    warnings = (*plan.warnings, *accepted)
    return replace(plan, findings=refused, accept=tuple(sorted(accept)), warnings=warnings)


def _text(tripped: Collection[_Tripped]) -> str:
    """Return the findings of a guard, one line each: a task log cuts off after about ninety characters."""
    problems = [f"{problem}." for problem, _ in tripped]
    worst = [f"- {name}" for _, names in tripped for name in names]
    return "\n".join([*problems, *worst])


def _emptied(plan: Plan, limit: float) -> _Tripped | None:
    """Trip if all websites would be deleted, even if there are few; an empty query result would do that."""
    deleted = [change.website for change in plan.changes if change.action == "delete"]
    if limit == 1 or not deleted or len(deleted) < plan.websites:
        return None
    those = "The only website" if plan.websites == 1 else f"All {plan.websites:,} websites"
    return f"{those} would be deleted", deleted[:_MAX_WORST]


def _deleted(plan: Plan, limit: float) -> _Tripped | None:
    deleted = [change.website for change in plan.changes if change.action == "delete"]
    if len(deleted) == plan.websites or not loses_too_much(len(deleted), plan.websites, limit):
        return None
    share = f"{len(deleted) / plan.websites:.0%}, allowed {limit:.0%}"
    return f"{len(deleted):,} of {plan.websites:,} websites would be deleted ({share})", deleted[:_MAX_WORST]


def _opened(plan: Plan, limit: float) -> _Tripped | None:
    opened = [change for change in plan.opened if change.action == "update"]
    if not loses_too_much(len(opened), plan.closed, limit):
        return None
    share = f"{len(opened) / plan.closed:.0%}, allowed {limit:.0%}"
    problem = f"{len(opened):,} of {plan.closed:,} statistics pages that are not public would become public ({share})"
    return problem, [change.website for change in opened[:_MAX_WORST]]


def _left(lists: Lists, name: str, limit: float, expired: Collection[str], *, may_be_empty: bool) -> _Tripped | None:
    """Trip if too much left a managed list."""
    before, now = lists.before.items(name), lists.table.items(name)
    left = sorted(before - now - set(expired))
    if (may_be_empty and not now) or not loses_too_much(len(left), len(before), limit):
        return None
    share = f"{len(left) / len(before):.0%}, allowed {limit:.0%}"
    problem = f"{len(left):,} of {len(before):,} entries left the list {lists.table.identity.list!r} ({share})"
    return problem, [", ".join(map(short, left[:_MAX_WORST])) + _more(len(left))]


def _lost(plan: Plan, name: str, limit: float) -> _Tripped | None:
    lost = plan.lost_entries(name)
    there, fewer = plan.entries.get(name, 0), sum(number for _, number in lost)
    if not loses_too_much(fewer, there, limit):
        return None
    problem = f"{fewer:,} of {there:,} {name} entries would be lost ({fewer / there:.0%}, allowed {limit:.0%})"
    return problem, [_describe_losses(website, name) for website, _ in lost[:_MAX_WORST]]


def _describe_losses(website: Change, name: str) -> str:
    removed = next(change.removed for change in website.fields if change.field == name)
    return f"{website.website} loses {', '.join(map(short, removed[:_MAX_WORST]))}{_more(len(removed))}"


def _more(number: int) -> str:
    return f" and {number - _MAX_WORST:,} more" if number > _MAX_WORST else ""
