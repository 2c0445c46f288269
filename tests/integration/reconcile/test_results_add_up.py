"""Each website of a plan ends in one state, and log, audit trail and metrics say the same of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_analytics.api.fields import same_setting
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.reconcile.engine import plan
from airflow_provider_analytics.reconcile.plan import Change
from airflow_provider_analytics.reconcile.results import Outcome, State
from airflow_provider_analytics.reconcile.websites_file import parse_websites
from airflow_provider_analytics.sandbox.server import SandboxServer

NEW = "203.0.113.7"
#: What may happen to a request: whether it is processed, and how it is answered.
FATES: dict[str, dict[str, Any]] = {
    "refused": {"status": 422},
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


class Trail:
    """An audit trail that is kept in memory."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self.failures: dict[str, str] = {}

    def sent(self, change: Change) -> None:
        self.changed.add(change.domain)

    def failed(self, failures: Mapping[str, str]) -> None:
        self.failures.update(failures)


@pytest.fixture(autouse=True)
def one_try(monkeypatch: pytest.MonkeyPatch, analytics_sandbox: SandboxServer) -> None:
    connection = json.loads(analytics_sandbox.connection_json())
    connection["extra"] = {**(connection.get("extra") or {}), "max_retries": 0}
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))


def applied(sandbox: SandboxServer, config: Mapping[str, Any], faults: list[dict[str, Any]], trail: Trail) -> Outcome:
    with AnalyticsHook() as hook:
        source = replace(parse_websites(config), prune=True)
        planned = plan(hook.client, source, scope={}, max_loss_fraction=1.0, accept=GUARDS)
        for fault in faults:
            sandbox.fault(**fault)
        outcome = planned.apply(trail.sent)
        trail.failed(outcome.failures)
    assert sum(outcome.states.values()) == len(planned.plan.changes) == len(outcome.results)
    return outcome


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_the_states_are_disjoint_add_up_and_are_true(analytics_sandbox: SandboxServer, data: st.DataObject) -> None:
    analytics_sandbox.reset()
    there = data.draw(st.integers(1, 12))
    new = data.draw(st.integers(0, 4))
    for number in range(1, there + 1):
        as_wanted = data.draw(st.booleans())
        analytics_sandbox.add_website(f"{number}.example", privacy=1, exclude_ips=NEW if as_wanted else "10.0.0.1")
    left_out = data.draw(st.sets(st.integers(1, there), max_size=3))
    fates = data.draw(st.dictionaries(st.integers(1, there + new), st.sampled_from(sorted(FATES)), max_size=4))
    faults: list[dict[str, Any]] = [
        {"target": rf"/websites/{number}$", "times": None, **FATES[fate]} for number, fate in fates.items()
    ]
    if data.draw(st.booleans()):
        fate = data.draw(st.sampled_from(sorted(FATES)))
        faults.append({"target": r"/websites$", **FATES[fate], "skip": data.draw(st.integers(0, 3)), "times": 1})
    wanted = {"privacy": "private", "exclude_ips": [NEW]}
    names = [f"{number}.example" for number in range(1, there + new + 1) if number not in left_out]
    config = {"modes": {"exclude_ips": "merge"}, "websites": dict.fromkeys(names, wanted)}
    trail = Trail()

    outcome = applied(analytics_sandbox, config, faults, trail)

    analytics_sandbox.clear_faults()
    good = [one for one in outcome.results if one.is_good]
    assert len(outcome.failures) == len(outcome.results) - len(good)
    assert not any(one.why for one in good)
    assert all(one.why for one in outcome.results if not one.is_good)
    stored = {website["domain"]: website for website in analytics_sandbox.websites()}
    for one in outcome.results:
        website = stored.get(one.planned.domain)
        is_right = (
            website is None
            if one.planned.action == "delete"
            else website is not None and website["privacy"] == 1 and NEW in (website["exclude_ips"] or "").splitlines()
        )
        if one.is_good:
            assert is_right, (one, website)
        if one.state in (State.REFUSED, State.NOT_TRIED):
            assert not is_right, (one, website)
        # The audit trail has each change that was sent, and each website that is not as wanted.
        if one.state is State.APPLIED:
            assert one.planned.domain in trail.changed, one
        elif one.state in (State.UNCHANGED, State.NOT_TRIED):
            assert one.planned.domain not in trail.changed, one
    assert set(trail.failures) == set(outcome.failures)
    if outcome.is_verified:
        assert {one.state for one in outcome.results} <= {State.APPLIED, State.UNCHANGED}
    for website in stored.values():
        assert same_setting("privacy", website["privacy"], "private")
