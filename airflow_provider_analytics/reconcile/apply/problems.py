# SPDX-License-Identifier: Apache-2.0
"""Problems of changed websites: signs that the service does not do what an update requests."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.reconcile.apply.targets import Target


class Problem(NamedTuple):
    """A problem; the same problem in two batches stops the run.

    :param kind: the problem, as text.
    :param action: action of the change, if the field was sent and not stored.
    :param field: the field that was not stored; one name for all exclusion lists, because each website has other lists.
    """

    kind: str
    action: str = ""
    field: str = ""

    @property
    def can_pass(self) -> bool:
        """Whether a later read can be as expected."""
        return self != REJECTED_METHOD and self.field != "domain"


#: Values changed that were not sent: one problem for all fields, because a website might lack the value to lose.
LOST = Problem("unsent values changed")
REJECTED_METHOD = Problem("the method is rejected")
_NOT_STORED = "sent and not stored"


def problems_of(target: Target, changed_by_others: Collection[str]) -> dict[Problem, set[str]]:
    """Return the problems of a website, with their fields.

    :param changed_by_others: fields that someone else changes at the moment.
    """
    if target.is_rejected_method:
        return {REJECTED_METHOD: {"update_method"}}
    found: dict[Problem, set[str]] = {}
    lost = target.lost.keys() - changed_by_others
    if lost:
        found[LOST] = set(lost)
    not_stored: set[str] = set()
    if target.unconfirmed is None:
        not_stored.update(target.comparison.not_applied.keys() - target.comparison.unsent.keys())
    if target.comparison.other_domain is not None:
        not_stored.add("domain")
    for name in not_stored:
        field = name
        if name in LINE_FIELDS:
            field = "exclusion lists"
        found.setdefault(Problem(_NOT_STORED, target.planned.action, field), set()).add(name)
    return found
