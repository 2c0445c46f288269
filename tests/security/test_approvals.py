"""Whoever may trigger, mark or clear tasks: applies nothing that was not approved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute

from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, PlanWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

WEBSITES = {"websites": {"a.example": {"privacy": "private"}}}


@pytest.fixture
def planned(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> Callable[..., Any]:
    """Plan, and return what applies the plan with an answer: ``apply(chosen_options=["Reject"])``."""
    analytics_sandbox.add_website("a.example", privacy=0)
    arguments: dict[str, Any] = {"config": WEBSITES, "state_path": str(tmp_path)}
    digest = execute(PlanWebsitesOperator, **arguments)["digest"]

    def apply(**other: Any) -> Any:
        output = {"chosen_options": ["Approve"], "params_input": {"digest": digest}}
        return execute(ApplyWebsitesOperator, **arguments, expected_digest=other.pop("answer", {**output, **other}))

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
        pytest.param({"params_input": {}}, "The response has no digest of a plan", id="no digest was sent"),
        pytest.param({"params_input": None}, r'"params_input": \{"digest": "\.\.\."\}', id="no input was sent"),
        pytest.param({"params_input": {"digest": "0" * 64}}, "The plan is not the approved one", id="another plan"),
        pytest.param({"answer": {"digest": "x"}}, "allowed: the digest of a plan, or the output", id="no answer"),
        pytest.param({"answer": None}, "The plan was not approved", id="only marked as success"),
        pytest.param({"answer": "None"}, "The plan was not approved", id="only marked as success, in a template"),
        pytest.param({"answer": ""}, "The plan was not approved", id="an empty field"),
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


def test_what_failed_in_part_may_be_tried_again_with_its_approval(
    planned: Callable[..., Any], analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.fault("update", status=422)
    with pytest.raises(AirflowFailException):
        planned()
    assert planned()["applied"] == 1
    assert privacy(analytics_sandbox) == 1
