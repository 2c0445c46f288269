# SPDX-License-Identifier: Apache-2.0
"""Results: each website of a plan ends in a single state, equal to the audit trail (``reconcile/apply/sending.py``)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reconciling import Night

from airflow_provider_analytics.api.fields import same_setting
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.reconcile.apply.targets import State
from airflow_provider_analytics.reconcile.audit_trail import AuditTrail
from airflow_provider_analytics.reconcile.desired.websites_file import parse_websites
from airflow_provider_analytics.reconcile.engine import make_plan, send_changes
from airflow_provider_analytics.reconcile.job import Job
from airflow_provider_analytics.reconcile.plan.changes import Change
from airflow_provider_analytics.sandbox.server import SandboxServer

NEW = "203.0.113.7"
#: Effects on a request: whether it is processed, and its response.
FATES: dict[str, dict[str, Any]] = {
    "rejected": {"status": 422},
    "forbidden": {"status": 403},
    "gone, says an update": {"operation": "update", "status": 404},
    "gone, says a delete": {"operation": "delete", "status": 404},
    "down": {"status": 503},
    "failed after it": {"status": 500, "commit": True},
    "lost before it": {"drop": True, "commit": False},
    "lost after it": {"drop": True, "commit": True},
    "no JSON": {"status": 200, "body": "<html>Welcome</html>"},
    "no JSON after it": {"status": 200, "body": "<html>Welcome</html>", "commit": True},
    "not stored": {"options": {"ignored_fields": ["exclude_ips"]}},
}


@pytest.fixture(autouse=True)
def one_try(monkeypatch: pytest.MonkeyPatch, analytics_sandbox: SandboxServer) -> None:
    connection = {**json.loads(analytics_sandbox.connection_json()), "extra": {"max_retries": 0}}
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))


class Trail(AuditTrail):
    """Keeps the domains of the changes, instead of lines."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.domains: list[str] = []

    def sent(self, change: Change) -> None:
        self.domains.append(change.domain)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_states_of_a_result_are_disjoint_complete_and_correct(
    analytics_sandbox: SandboxServer, data: st.DataObject
) -> None:
    analytics_sandbox.reset()
    there, new = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 4))
    for number in range(1, there + 1):
        entry = data.draw(st.sampled_from([NEW, "10.0.0.1"]))
        analytics_sandbox.add_website(f"{number}.example", privacy=1, exclude_ips=entry)
    left_out = data.draw(st.sets(st.integers(1, there), max_size=3))
    fates = st.sampled_from(sorted(FATES))
    own_fates = data.draw(st.dictionaries(st.integers(1, there + new), fates, max_size=4))
    faults: list[dict[str, Any]] = [
        {"target": rf"/websites/{number}$", "times": None, **FATES[fate]} for number, fate in own_fates.items()
    ]
    if data.draw(st.booleans()):
        faults.append({"target": r"/websites$", **FATES[data.draw(fates)], "skip": data.draw(st.integers(0, 3))})
    wanted = {"privacy": "private", "exclude_ips": [NEW]}
    names = [f"{number}.example" for number in range(1, there + new + 1) if number not in left_out]
    config = {"modes": {"exclude_ips": "merge"}, "websites": dict.fromkeys(names, wanted)}
    with AnalyticsHook() as hook:
        source = replace(parse_websites(config), prune=True)
        job = Job(hook.client, source, {}, 1.0, GUARDS)
        planned = make_plan(job)
        for fault in faults:
            analytics_sandbox.fault(**fault)
        trail = Trail(None, {}, hook.client.redact)
        outcome = send_changes(job, planned, trail, {})
    analytics_sandbox.clear_faults()

    assert sum(outcome.states.values()) == len(planned.plan.changes) == len(outcome.targets)
    assert len(outcome.failures) == sum(not target.is_good for target in outcome.targets)
    stored = {website["domain"]: website for website in analytics_sandbox.websites()}
    for target in outcome.targets:
        assert bool(target.reason) is not target.is_good
        website = stored.get(target.planned.domain)
        if website is None or target.planned.action == "delete":
            is_right = website is None and target.planned.action == "delete"
        else:
            is_right = website["privacy"] == 1 and NEW in (website["exclude_ips"] or "").splitlines()
        if target.is_good:
            assert is_right, (target, website)
        if target.state in (State.REJECTED, State.NOT_TRIED):
            assert not is_right, (target, website)
        # The audit trail has each sent change.
        if target.state in (State.APPLIED, State.UNCHANGED, State.NOT_TRIED):
            assert (target.planned.domain in trail.domains) is (target.state is State.APPLIED), target
    if outcome.is_verified:
        assert {target.state for target in outcome.targets} <= {State.APPLIED, State.UNCHANGED}
    assert all(same_setting("privacy", website["privacy"], "private") for website in stored.values())


def test_run_on_selected_websites_is_not_compared_with_the_websites_of_a_whole_run(night: Night) -> None:
    night.add(12)
    assert night.managed(NEW)["applied"] == 12
    assert night.managed(NEW, "192.0.2.9", websites=["1.example"])["applied"] == 1
