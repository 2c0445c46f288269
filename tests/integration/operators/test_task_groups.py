# SPDX-License-Identifier: Apache-2.0
"""Task groups: arguments of the task that waits for an approval, groups in groups (``operators/task_groups.py``)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowSkipException, task, task_group
from airflow_versions import needs_answers_in_dag_test, needs_approvals
from dag_runs import RunDag
from reconciling import Night

from airflow_provider_analytics.operators.exclusions import SyncExcludedParamsOperator
from airflow_provider_analytics.operators.task_groups import exclusion_list, websites_as_code

GROUPS: dict[str, Any] = {
    "websites": lambda **given: websites_as_code("websites", config={"websites": {}}, **given),
    "office": lambda **given: exclusion_list("office", exclude_ips=["192.0.2.1"], state_path="/state", **given),
}


def tasks_of(group: str, **given: Any) -> dict[str, Any]:
    """Return the tasks of a group by their names in it."""
    with DAG("dag", schedule=None) as dag:
        GROUPS[group](**given)
    return {task_id.removeprefix(f"{group}."): task for task_id, task in dag.task_dict.items()}


@needs_approvals
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    ("name", "value"),
    [("subject", "Another question"), ("body", "Another text"), ("response_timeout", timedelta(days=7))],
)
def test_approval_argument_replaces_the_default(group: str, name: str, value: object) -> None:
    defaults, approve = tasks_of(group)["approve"], tasks_of(group, approval={name: value})["approve"]
    assert getattr(approve, name) == value
    assert getattr(defaults, name) != value
    others = {"subject", "body", "response_timeout"} - {name}
    assert {other: getattr(approve, other) for other in others} == {other: getattr(defaults, other) for other in others}


@needs_approvals
def test_approval_waits_for_a_day_by_default() -> None:
    approve = tasks_of("websites")["approve"]
    assert (approve.response_timeout, approve.subject) == (timedelta(days=1), "Apply this plan to the websites?")
    assert tasks_of("office")["approve"].subject == "Apply this plan to exclude_ips of the websites?"


REJECTED = {"chosen_options": ["Reject"], "params_input": {}, "responded_at": datetime(2026, 1, 1, tzinfo=UTC)}


@needs_approvals
def test_rejection_skips_the_rest_or_fails_as_its_options_say() -> None:
    from airflow.providers.common.compat.sdk import DownstreamTasksSkipped
    from airflow.providers.standard.exceptions import HITLRejectException

    event = {**REJECTED, "responded_by_user": {"id": "1", "name": "ann"}, "timedout": False}
    approve = tasks_of("websites")["approve"]
    with pytest.raises(AirflowSkipException, match=r"Rejected by ann\. No changes were sent\."):
        approve.execute_complete({}, event)
    with pytest.raises(AirflowSkipException, match="Rejected, because nobody responded in time"):
        approve.execute_complete({}, {**event, "responded_by_user": None, "timedout": True})
    approve = tasks_of("websites", approval={"fail_on_reject": True})["approve"]
    with pytest.raises(HITLRejectException):
        approve.execute_complete({}, event)
    approve = tasks_of("websites", approval={"ignore_downstream_trigger_rules": True})["approve"]
    skipped: list[Any] = []
    ti = SimpleNamespace(map_index=-1, xcom_push=lambda **pushed: skipped.append(pushed["value"]))
    with pytest.raises(DownstreamTasksSkipped):
        approve.execute_complete({"task": approve, "ti": ti}, event)
    assert skipped == [{"skipped": ["websites.apply"]}]


@needs_approvals
def test_callback_of_the_user_is_called_after_the_digest_was_added() -> None:
    shown: list[Any] = []
    approve = tasks_of("websites", approval={"pre_execute": lambda context: shown.append(context["task"])})["approve"]
    ti = SimpleNamespace(xcom_pull=lambda **_: {"digest": "d1"}, map_index=-1)
    approve._pre_execute_hook({"ti": ti, "task": approve})  # as the task runner does
    assert shown == [approve]
    field = approve.params.get_param("approved_digest")
    assert (field.value, field.schema["title"]) == ("d1", "Digest of this plan")
    assert "Only the plan with this digest" in field.description


@needs_approvals
@pytest.mark.parametrize("group", GROUPS)
def test_only_the_plan_of_the_answer_is_applied(group: str) -> None:
    tasks = tasks_of(group)
    assert tasks["apply"].approved_digest == tasks["approve"].output
    assert (tasks["apply"].retries, tasks["apply"].upstream_task_ids) == (2, {tasks["approve"].task_id})
    assert tasks["check"].planned == tasks["plan"].output


@needs_approvals
def test_check_has_a_readable_label() -> None:
    assert tasks_of("websites")["check"].operator_name == "CheckPlan"


@needs_approvals
def test_exclusion_list_is_named_after_the_group_unless_it_has_another_name() -> None:
    for given, expected in (({}, "office"), ({"list_name": "berlin"}, "berlin")):
        tasks = tasks_of("office", **given)
        assert [tasks[name].list_name for name in ("plan", "apply")] == [expected, expected]


@needs_approvals
def test_exclusion_list_group_uses_the_given_operator() -> None:
    with DAG("dag", schedule=None) as dag:
        exclusion_list("campaigns", operator=SyncExcludedParamsOperator, exclude_params=["ref"])
    tasks: dict[str, Any] = dict(dag.task_dict)
    assert type(tasks["campaigns.plan"]) is type(tasks["campaigns.apply"]) is SyncExcludedParamsOperator
    assert tasks["campaigns.approve"].subject == "Apply this plan to exclude_params of the websites?"


@needs_answers_in_dag_test
@pytest.mark.parametrize("parts", [["1.example"], ["1.example", "2.example", "3.example"]], ids=len)
def test_task_group_works_in_a_mapped_group_behind_a_branch(
    run_dag: RunDag, night: Night, answer: Callable[[str], list[str | None]], parts: list[str]
) -> None:
    shown = answer("Approve")
    night.add(3)
    with DAG("mapped", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:

        @task.branch
        def choose() -> str:
            return "start"

        @task
        def start() -> None:
            pass

        @task_group
        def each(domain: str) -> None:
            given: dict[str, Any] = {"exclude_ips": ["192.0.2.1"], "websites": domain}
            exclusion_list("office", **given, **night.state, list_name=domain)
            websites_as_code(config={"websites": [{"domain": "new.example", "privacy": "private"}]})

        @task
        def other() -> None:
            pass

        started = start()
        choose() >> [started, other()]
        started >> each.override(group_id="part").expand(domain=parts)
    outcome = run_dag(dag)
    applied = [outcome.tasks[f"part.office.apply[{index}]"] for index in range(len(parts))]
    assert [found.returned["applied"] for found in applied] == [1] * len(parts)
    assert outcome.tasks["other"].state == "skipped"
    lists = {website["domain"]: website["exclude_ips"] for website in night.sandbox.websites()}
    assert [lists[domain] for domain in parts] == ["192.0.2.1"] * len(parts)
    plans = [outcome.tasks[f"part.office.plan[{index}]"].returned["markdown"] for index in range(len(parts))]
    assert set(plans) < set(shown)
