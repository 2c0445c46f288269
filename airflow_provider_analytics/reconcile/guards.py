"""Guards: checks that stop a plan that looks like an accident."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from airflow_provider_analytics.api.checks import fraction
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.reconcile.plan import Change, Plan, short
from airflow_provider_analytics.thresholds import loses_too_much

#: Maximum number of websites, and of entries per website, in the message of a guard.
_MAX_WORST = 5
#: Name of a list field, the list of the last run, and that of this run.
LastList = tuple[str, Entries, Entries]
#: List field to entries that are not counted.
Apart = Mapping[str, Collection[str]]
_NO_EXCLUSIONS: Apart = {}
#: Number of entries that may be lost without being planned, such as entries that were typed in during the run.
_UNPLANNED_LOSS = 3


def guarded(
    plan: Plan,
    max_loss_fraction: float,
    *,
    force: bool = False,
    last_list: LastList | None = None,
    apart: Apart = _NO_EXCLUSIONS,
) -> Plan:
    """Return the plan with the findings of the guards.

    The guards check three fractions:

    * deleted websites, of all compared websites;
    * statistics pages that become public, of the pages of remaining websites that are not public;
    * for each list field, the entries by which lists get shorter, of all entries on remaining websites.

    Totals below :data:`thresholds.MIN_COUNTED` are not checked. A managed list itself must not shrink too much either.

    :param max_loss_fraction: largest fraction allowed, 0 to 1.
    :param force: whether the guards are overridden.
    :param last_list: the source of a managed list, in its last run and now.
    :param apart: list field to entries whose removal is not a loss: addresses of host names, which change, and expired
        entries.
    :raises ValueError: if ``max_loss_fraction`` is not between 0 and 1.
    """
    fraction("max_loss_fraction", max_loss_fraction)
    found = [
        _deleted(plan, max_loss_fraction) or _emptied(plan, max_loss_fraction),
        _opened(plan, max_loss_fraction),
        *(_lost(plan, name, max_loss_fraction, apart.get(name, ())) for name in LINE_FIELDS),
        _list_shrunk(last_list, max_loss_fraction, apart) if last_list else None,
    ]
    tripped = [one for one in found if one]
    unsafe = None
    if tripped:
        # One line each, because a task log cuts off after about ninety characters.
        problems = [f"{problem}." for problem, _ in tripped]
        worst = [f"- {name}" for _, names in tripped for name in names]
        unsafe = "\n".join([*problems, f"Allowed: {max_loss_fraction=}.", *worst])
    return replace(plan, unsafe=unsafe, force=force)


class Watch:
    """Checks each change that is recomputed immediately before it is sent against the guards.

    List rows may have fewer entries than the websites. Then a change can lose entries although the plan does not.

    :param plan: the plan that the guards checked; nothing is watched if they are overridden.
    :param max_loss_fraction: largest fraction allowed, 0 to 1.
    :param apart: as in :func:`guarded`.
    """

    def __init__(self, plan: Plan, max_loss_fraction: float, apart: Apart = _NO_EXCLUSIONS) -> None:
        self._planned = {str(change.website_id): change for change in plan.changes}
        self._force = plan.force
        self._left = {
            name: max(_UNPLANNED_LOSS, max_loss_fraction * plan.entries.get(name, 0))
            - sum(fewer for _, fewer in plan.lost_entries(name, apart.get(name, ())))
            for name in LINE_FIELDS
        }
        self._apart = apart
        #: Website and list field to the entries counted so far, because a website may be checked several times.
        self._counted: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def watching(
        self, change_of: Callable[[Mapping[str, Any]], Change | None]
    ) -> Callable[[Mapping[str, Any]], Change | None]:
        """Return ``change_of``, wrapped to raise :class:`ValueError` for a change that the guards would refuse."""
        if self._force:
            return change_of

        def watched(record: Mapping[str, Any]) -> Change | None:
            change = change_of(record)
            if change is not None:
                self._check(change)
            return change

        return watched

    def _check(self, change: Change) -> None:
        planned = self._planned.get(str(change.website_id))
        if change.opens and not (planned and planned.opens):
            raise ValueError("not changed: its page would become public, but the list reported it as public already")
        for name in LINE_FIELDS:
            key = (str(change.website_id), name)
            with self._lock:
                more = self._fewer(change, name) - self._fewer(planned, name) - self._counted.get(key, 0)
                if more <= 0:
                    continue
                if more > self._left[name]:
                    raise ValueError(
                        f"not changed: it would lose {more:,} {name} entries that the list did not show; set "
                        "force=True if this is intended"
                    )
                self._left[name] -= more
                self._counted[key] = self._counted.get(key, 0) + more

    def _fewer(self, change: Change | None, name: str) -> int:
        fields = change.fields if change else ()
        return sum(max(0, one.fewer(self._apart.get(name, ()))) for one in fields if one.field == name)


#: The problem, and the worst websites.
_Tripped = tuple[str, list[str]]


def _emptied(plan: Plan, limit: float) -> _Tripped | None:
    """Trip if all websites would be deleted, even if there are few; an empty query result would do that."""
    if limit == 1 or not plan.websites or plan.count("delete") < plan.websites:
        return None
    those = "The only website" if plan.websites == 1 else f"All {plan.websites:,} websites"
    return f"{those} would be deleted", [one.website for one in plan.changes[:_MAX_WORST]]


def _deleted(plan: Plan, limit: float) -> _Tripped | None:
    deleted = [change.website for change in plan.changes if change.action == "delete"]
    if not loses_too_much(len(deleted), plan.websites, limit):
        return None
    share = len(deleted) / plan.websites
    return f"{len(deleted):,} of {plan.websites:,} websites would be deleted ({share:.0%})", deleted[:_MAX_WORST]


def _opened(plan: Plan, limit: float) -> _Tripped | None:
    opened = [change for change in plan.opened if change.action == "update"]
    if not loses_too_much(len(opened), plan.closed, limit):
        return None
    share = len(opened) / plan.closed
    problem = (
        f"{len(opened):,} of {plan.closed:,} statistics pages that are not public would become public ({share:.0%})"
    )
    return problem, [change.website for change in opened[:_MAX_WORST]]


def _lost(plan: Plan, name: str, limit: float, apart: Collection[str]) -> _Tripped | None:
    lost = plan.lost_entries(name, apart)
    there, fewer = plan.entries.get(name, 0), sum(number for _, number in lost)
    if not loses_too_much(fewer, there, limit):
        return None
    problem = f"{fewer:,} of {there:,} {name} entries would be lost ({fewer / there:.0%})"
    return problem, [_describe_losses(website, name) for website, _ in lost[:_MAX_WORST]]


def _list_shrunk(last_list: LastList, limit: float, apart: Apart) -> _Tripped | None:
    name, before, now = last_list
    was, left = ([entry for entry in one if entry not in apart.get(name, ())] for one in (before, now))
    fewer = len(was) - len(left)
    if not loses_too_much(fewer, len(before), limit):
        return None
    share = fewer / len(before)
    entries = "entry" if len(now) == 1 else "entries"
    return f"The list has {len(now):,} {entries}, in its last run it had {len(before):,}: {share:.0%} fewer", []


def _describe_losses(website: Change, name: str) -> str:
    removed = next(change.removed for change in website.fields if change.field == name)
    more = f" and {len(removed) - _MAX_WORST:,} more" if len(removed) > _MAX_WORST else ""
    return f"{website.website} loses {', '.join(map(short, removed[:_MAX_WORST]))}{more}"
