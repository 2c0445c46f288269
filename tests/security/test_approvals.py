"""Whoever may trigger, mark or clear tasks: applies nothing that another person has not approved, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

WEBSITES = {"websites": {"a.example": {"privacy": "private"}}}


@pytest.fixture
def planned(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> Callable[..., Any]:
    """Plan, and return what applies the plan with an answer: ``apply(name="Ann", chosen_options=["Reject"])``."""
    analytics_sandbox.add_website("a.example", privacy=0)
    arguments: dict[str, Any] = {"config": WEBSITES, "plan_path": str(tmp_path / "plan.json")}
    digest = execute(PlanWebsitesOperator, **arguments)["digest"]

    def apply(answer: Any = None, *, name: str = "Ann", after: timedelta = timedelta(0), **other: Any) -> Any:
        output = {
            "chosen_options": ["Approve"],
            "params_input": {"digest": digest},
            "responded_at": (datetime.now(UTC) - after).isoformat(),
            "responded_by_user": {"id": name.lower(), "name": name},
        }
        settings = {key: other.pop(key) for key in tuple(other) if key not in output}
        answer = answer or {**output, **other}
        return execute(ApplyWebsitesOperator, **arguments, expected_digest=answer, **settings)

    return apply


def privacy(service: SandboxServer) -> int:
    (website,) = service.websites()
    return int(website["privacy"])


def test_the_answer_of_a_person_is_an_approval(planned: Callable[..., Any], analytics_sandbox: SandboxServer) -> None:
    assert planned()["applied"] == 1
    assert privacy(analytics_sandbox) == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        pytest.param({"chosen_options": ["Reject"]}, "not approved. Response: .*Reject", id="rejected"),
        pytest.param({"params_input": {}}, "whose form has the digest as a param", id="no digest was shown"),
        pytest.param({"params_input": {"digest": "0" * 64}}, "The plan is not the approved one", id="another plan"),
        pytest.param({"after": timedelta(hours=25)}, "approval has expired.* valid for 24 hours", id="expired"),
        pytest.param({"responded_at": None}, "with responded_at", id="nobody knows when"),
        pytest.param({"approval_valid_hours": "0"}, "approval_valid_hours='0'.* a number above 0", id="no hours"),
        pytest.param({"answer": {"digest": "x"}}, "allowed: the digest of a plan, or the output", id="no answer"),
        pytest.param({"refuse_own_approval": True, "responded_by_user": None}, "not known who approved", id="nobody"),
    ],
)
def test_what_is_no_approval_applies_nothing(
    planned: Callable[..., Any], analytics_sandbox: SandboxServer, other: dict[str, Any], message: str
) -> None:
    analytics_sandbox.clear_requests()
    with pytest.raises(AirflowFailException, match=message):
        planned(**other)
    assert privacy(analytics_sandbox) == 0
    assert all(request.method == "GET" for request in analytics_sandbox.requests)


def test_an_approval_is_used_once(planned: Callable[..., Any], analytics_sandbox: SandboxServer) -> None:
    at = datetime.now(UTC).isoformat()
    assert planned(responded_at=at)["applied"] == 1
    analytics_sandbox.change_website(1, privacy=0)  # a person takes it back
    with pytest.raises(AirflowFailException, match=r"The approval was used already, at .*, by dag\.task in run run"):
        planned(responded_at=at)
    assert privacy(analytics_sandbox) == 0


def test_a_digest_that_was_typed_is_used_once_and_expires_with_its_plan(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="")
    arguments: dict[str, Any] = {"exclude_ips": ["203.0.113.7"], "plan_path": str(tmp_path / "plan.json")}
    approved = {**arguments, "expected_digest": execute(SyncExcludedIpsOperator, dry_run=True, **arguments)["digest"]}
    with pytest.raises(AirflowFailException, match="The approval has expired"):
        execute(SyncExcludedIpsOperator, **approved, approval_valid_hours=1e-9)
    assert execute(SyncExcludedIpsOperator, **approved)["applied"] == 1
    analytics_sandbox.change_website(1, exclude_ips="")
    with pytest.raises(AirflowFailException, match="The approval was used already"):
        execute(SyncExcludedIpsOperator, **approved)
    # The same plan, made again, is another one to approve.
    execute(SyncExcludedIpsOperator, dry_run=True, **arguments)
    assert execute(SyncExcludedIpsOperator, **approved)["applied"] == 1


def test_what_failed_in_part_may_be_tried_again_with_its_approval(
    planned: Callable[..., Any], analytics_sandbox: SandboxServer
) -> None:
    at = datetime.now(UTC).isoformat()
    analytics_sandbox.fault("update", status=422)
    with pytest.raises(AirflowFailException):
        planned(responded_at=at)
    assert planned(responded_at=at)["applied"] == 1
    assert privacy(analytics_sandbox) == 1


@pytest.mark.parametrize(("approver", "applied"), [("Ann", False), ("Bob", True)])
def test_nobody_approves_what_they_have_started_themselves(
    planned: Callable[..., Any], analytics_sandbox: SandboxServer, approver: str, applied: bool
) -> None:
    if applied:
        planned(name=approver, refuse_own_approval=True)
    else:
        with pytest.raises(AirflowFailException, match="'Ann' has also started the run"):
            planned(name=approver, refuse_own_approval=True)
    assert privacy(analytics_sandbox) == int(applied)
