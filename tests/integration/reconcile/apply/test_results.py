# SPDX-License-Identifier: Apache-2.0
"""Results: each website ends in a single state, is read as planned, and is sent again at most twice (``reconcile``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from distortion import Distortion
from fake_services import FakeService
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_server import Request
from reconciling import Night

from airflow_provider_analytics.api.fields import same_setting
from airflow_provider_analytics.exceptions import AnalyticsError, NotAppliedError
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.reconcile.apply.targets import State
from airflow_provider_analytics.reconcile.audit_trail import AuditTrail
from airflow_provider_analytics.reconcile.desired.websites_file import parse_websites
from airflow_provider_analytics.reconcile.engine import make_plan, send_changes
from airflow_provider_analytics.reconcile.job import Job
from airflow_provider_analytics.reconcile.plan.changes import Change
from airflow_provider_analytics.reconcile.service_websites import complete_records, read_websites
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


def updates(night: Night) -> Counter[str]:
    """Return the number of updates by website."""
    sent = (request for request in night.sandbox.requests if request.operation == "update")
    return Counter(request.path.rpartition("/")[2] for request in sent)


def lose_updates_of(distortion: Distortion, website_id: int) -> None:
    """Make another process overwrite each update of a website at once."""
    forward = distortion.to_the_sandbox

    def lose(request: Request) -> tuple[int, Any]:
        response = forward(request)
        distortion.sandbox.change_website(website_id, exclude_ips=None)
        return response

    distortion.forward = lose


def test_hook_sends_a_value_that_is_not_stored_twice(night: Night, distortion: Distortion) -> None:
    night.add(1)
    lose_updates_of(distortion, 1)
    with AnalyticsHook() as hook, pytest.raises(NotAppliedError):
        hook.update_website(1, exclude_ips=[NEW])
    assert updates(night) == {"1": 2}


@pytest.mark.parametrize("websites", [1, 2, 30])
def test_plan_sends_a_value_that_is_not_stored_three_times(night: Night, distortion: Distortion, websites: int) -> None:
    night.add(websites)
    lose_updates_of(distortion, 1)
    with pytest.raises(AnalyticsError):
        night.sync(NEW)
    sent = updates(night)
    assert sent.pop("1") == 3  # docs/guarantees.md: sent again, at most twice
    assert set(sent.values()) == ({1} if websites > 1 else set())


FIELDS = ("privacy", "exclude_ips", "favorite")


@pytest.fixture
def hook(analytics_sandbox: FakeService) -> Any:
    with AnalyticsHook() as made:
        yield made


def test_fetched_website_keeps_the_domain_of_the_list_if_it_was_renamed_in_between(
    analytics_sandbox: FakeService, hook: AnalyticsHook
) -> None:
    """The plan is for the domain in the list, and the change fails because the id belongs to another domain."""
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    rows: list[dict[str, Any]] = [{"id": 1, "domain": "a.example"}, {"id": 2}]
    analytics_sandbox.change_website(1, domain="renamed.example")
    records, failures = complete_records(hook.client, rows, lambda row: {"exclude_ips"} - row.keys())
    assert [record["domain"] for record in records] == ["a.example", "b.example"]
    assert all("exclude_ips" in record for record in records)
    assert failures == {}


@pytest.mark.parametrize("hidden", [[], ["exclude_ips"], ["exclude_ips", "favorite"], [*FIELDS]], ids=str)
def test_result_is_verified_although_list_rows_lack_some_fields(
    night: Night, task_log: Callable[[], str], hidden: list[str]
) -> None:
    night.add(8, privacy=1)
    night.sandbox.configure(list_hides=hidden)
    settings = {"privacy": "public", "exclude_ips": ["192.0.2.1"], "favorite": True}
    websites = {f"{number}.example": settings for number in range(1, 9)}
    result = night.apply(config={"websites": websites}, override_guards=["made_public"])
    assert (result["applied"], result["verified"], result["unverified"]) == (8, True, [])
    reason = f"Fetching 8 of 8 websites one by one, because list rows lack {', '.join(sorted(hidden))}."
    assert (reason in task_log()) == bool(hidden)


@pytest.mark.parametrize(
    ("lacking", "fields", "reads_the_list"),
    [
        ({}, FIELDS, True),
        ({1: "privacy"}, FIELDS, False),
        ({8: "favorite"}, FIELDS, False),
        (dict.fromkeys(range(1, 9), "favorite"), FIELDS, False),
        (dict.fromkeys(range(1, 9), "favorite"), ("privacy", "exclude_ips"), True),
    ],
)
def test_list_is_read_again_only_if_each_row_has_each_field(
    analytics_sandbox: FakeService,
    hook: AnalyticsHook,
    lacking: dict[int, str],
    fields: tuple[str, ...],
    reads_the_list: bool,
) -> None:
    for number in range(1, 9):
        analytics_sandbox.add_website(f"{number}.example")
    websites = read_websites(hook.client, None)
    for record in websites.records:
        record.pop(lacking.get(int(record["id"]), ""), None)  # type: ignore[attr-defined]
    read = websites.read_again([str(number) for number in range(1, 9)], fields)
    assert (read.listed is not None) is reads_the_list
    assert read.found.keys() == {str(number) for number in range(1, 9)}
    assert all(name in record for record in read.found.values() for name in fields)


def test_newest_website_has_the_highest_id(analytics_sandbox: FakeService, hook: AnalyticsHook) -> None:
    for number in range(1, 12):
        analytics_sandbox.add_website(f"{number}.example")
    assert read_websites(hook.client, None).newest == "11"


def test_website_is_not_left_out_after_a_single_wrong_not_found(night: Night) -> None:
    night.add(3)
    night.sandbox.configure(list_hides=["exclude_ips"])
    night.sandbox.fault("show", target="/2$", status=404)
    assert night.sync(NEW)["applied"] == 3
    assert night.lists() == [NEW] * 3
