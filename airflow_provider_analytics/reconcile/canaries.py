"""Choose the websites of a plan to change first and alone: those that can lose most. Pure functions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
from airflow_provider_analytics.api.verification import COMPARED, Record, default_of, shows
from airflow_provider_analytics.reconcile.plan import Change
from airflow_provider_analytics.reconcile.results import Result, State

#: Maximum number of websites that are changed alone for one risk, if they do not settle it.
MAX_TRIES = 3

#: What may go wrong with a website: a field with something to lose, with or without comments, that is sent or not; or a
#: field that has to be stored by a create or an update.
Risk = tuple[str, ...]


def risks_of(change: Change, record: Record, *, is_row: bool = False) -> frozenset[Risk]:
    """Return what may go wrong if a change is sent to a website.

    :param record: its record before the change.
    :param is_row: whether the record may omit fields that have something to lose.
    """
    if change.action == "delete":
        return frozenset({("delete",)})
    sent = {one.field for one in change.fields}
    risks: set[Risk] = {(change.action,), *((change.action, name) for name in sent)}
    for name in COMPARED if change.action == "update" else ():
        risk = (name, "sent" if name in sent else "not sent")
        value = normalise(name, record[name]) if shows(name, record) else None
        if value is None:
            may_lose = is_row
        elif name in LINE_FIELDS:
            may_lose = bool(value)
            risks |= {(*risk, "comment")} if any("#" in line for line in value) else set()
        else:
            may_lose = name not in sent and value != default_of(name)
        risks |= {risk} if may_lose else set()
    return frozenset(risks)


class Canaries:
    """Chooses one website after the other, until each risk of the plan was taken by one website alone.

    :param results: the websites of the plan.
    :param records: website id to record, as the plan was made from it.
    """

    def __init__(self, results: Iterable[Result], records: Mapping[str, Record]) -> None:
        self._left = [
            (result, risks_of(result.planned, records.get(str(result.website_id), {}), is_row=True))
            for result in results
        ]
        # Of websites that can lose the same, any goes first: two lists that run at the same time begin with others.
        random.shuffle(self._left)
        self._settled: set[Risk] = set()
        self._tries: Counter[Risk] = Counter()

    def next(self, doubted: Sequence[Collection[Risk]] = ()) -> Result | None:
        """Return the website to change next; None if no risk is left.

        :param doubted: the risks of websites that lost something; a website that can lose the same decides about them.
            It is drawn at random, because other tasks may change the same websites in the same order.
        """
        self._left = [one for one in self._left if one[0].state is State.NOT_TRIED]
        alike = [one for one in self._left if any(one[1].intersection(risks) for risks in doubted)]
        canary, risks = max(self._left, key=lambda one: len(self._open(one[1])), default=(None, frozenset()))
        if alike:
            canary, risks = random.choice(alike)  # noqa: S311
        elif not self._open(risks):
            return None
        self._tries.update(self._open(risks))
        return canary

    def settle(self, risks: Iterable[Risk]) -> None:
        """Note that a website took these risks, and is as expected."""
        self._settled.update(risks)

    def _open(self, risks: frozenset[Risk]) -> set[Risk]:
        return {one for one in risks - self._settled if self._tries[one] < MAX_TRIES}
