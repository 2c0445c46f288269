# SPDX-License-Identifier: Apache-2.0
"""Changes that bring websites to their desired state (``reconcile/plan/changes.py``)."""

from __future__ import annotations

from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList
from airflow_provider_analytics.reconcile.plan.changes import change_of


def test_replaced_list_in_an_unknown_form_counts_as_the_lines_that_it_has() -> None:
    website = DesiredWebsite(lists={"exclude_ips": EntryList.of(("1.1.1.1",))})
    desired = DesiredState(by_id={"1": website}, modes={"exclude_ips": "replace"})
    change = change_of(desired, {"id": 1, "domain": "a.example", "exclude_ips": "2.2.2.2, 3.3.3.3"})
    assert change is not None
    (field_change,) = change.fields
    assert (field_change.before, field_change.after) == (("2.2.2.2, 3.3.3.3",), ("1.1.1.1",))
