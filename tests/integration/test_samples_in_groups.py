# SPDX-License-Identifier: Apache-2.0
"""Sample DAGs whose tasks are placed in a task group behind a branch, also in a mapped one (``dags``)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest
from airflow.providers.common.compat.sdk import DAG, task, task_group
from airflow_versions import (
    extra_links_of,
    needs_answers_in_dag_test,
    needs_events_of_mapped_tasks_in_dag_test,
)
from dag_runs import RunDag
from mail import mail_server
from reconciling import Night
from samples import SAMPLES, sample

# Airflow 2 complains of its own context when it renders a map_index_template.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing .* from the template is deprecated")

#: Samples with a mapped task or group, which Airflow does not allow in a mapped task group.
MAP_THEMSELVES = ("many_instances", "sync_excluded_ips_in_chunks")
WITH_EVENTS = ("alert_on_changes",)
WITH_APPROVAL = ("sync_excluded_ips_with_approval", "websites_as_code")
#: Class of decorated functions, and its method that makes a task.
DECORATOR: Any = type(task(sample))
CALL = DECORATOR.__call__
#: Functions of the samples that define several DAGs.
DAGS = {"websites_as_code_in_two_steps": ["plan_websites", "apply_websites"]}
#: States other than success: the websites differ from the file, or there is no snapshot.
EXPECTED_STATES = {"notify_on_drift": {"failed"}, "alert_on_changes": {"failed"}}
#: Values of Params without a default.
PARAMS = {
    "apply_websites": {"approved_digest": "any"},
    "onboard_website": {"domain": "new.example"},
    "try_your_service": {"domain": "new.example"},
}


def renamed(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a decorated function with another task id."""
    return CALL(self.override(task_id=f"{self.function.__name__}_renamed"), *args, **kwargs)


def placed(name: str, folder: Any, instances: int) -> DAG:
    """Return a DAG with the tasks of a sample in a task group, with other ids of its decorated functions.

    :param instances: number of instances of the group; 0 if it is not mapped.
    """
    module = sample(name, folder)
    functions = DAGS.get(name, [name])
    params: dict[str, Any] = {}
    for function in functions:
        for key, param in getattr(module, function)().params.items():
            params.setdefault(key, param)
        params |= PARAMS.get(function, {})
    if hasattr(module, "DOMAIN"):  # each instance needs its own new website
        module.DOMAIN = "{{ ti.map_index + 1 }}.{{ params.domain }}"
    with DAG(
        f"placed_{name}_{instances}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), params=params
    ) as dag:

        @task.branch
        def choose() -> str:
            return "start"

        @task
        def start() -> None:
            pass

        @task
        def other() -> None:
            pass

        @task_group
        def each(number: int) -> None:
            with mock.patch.object(DECORATOR, "__call__", renamed):
                for function in functions:
                    getattr(module, function).__wrapped__()

        started = start()
        choose() >> [started, other()]
        group = each.override(group_id="part")
        started >> (group.expand(number=list(range(instances))) if instances else group(0))
    return dag


def cases() -> Iterator[Any]:
    """Yield each sample, and the number of instances of its group; 0 is slow if a mapped group is possible."""
    for name in sorted(path.stem for path in SAMPLES.glob("*.py")):
        marks = [needs_answers_in_dag_test] if name in WITH_APPROVAL else []
        if name in MAP_THEMSELVES:
            yield pytest.param(name, 0, marks=marks)
            continue
        yield pytest.param(name, 0, marks=[*marks, pytest.mark.slow])
        yield pytest.param(
            name, 2, marks=[*marks, *([needs_events_of_mapped_tasks_in_dag_test] * (name in WITH_EVENTS))]
        )


@pytest.mark.parametrize(("name", "instances"), [*cases()])
def test_sample_works_in_a_task_group_behind_a_branch(
    run_dag: RunDag,
    night: Night,
    answer: Callable[[str], list[str | None]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    instances: int,
) -> None:
    if name in WITH_APPROVAL:
        answer("Approve")
    night.add(2)
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "192.0.2.1  # office, until=2026-01-31\n192.0.2.2")
    monkeypatch.setenv("AIRFLOW_VAR_ANALYTICS_NOTIFY", "team@example.com")
    monkeypatch.setenv("AIRFLOW_VAR_ANALYTICS_INSTANCES", json.dumps(["analytics_default"]))
    with mail_server() as inbox:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", inbox.connection)
        dag = placed(name, night.folder, instances)
        outcome = run_dag(dag)
    states = {task_id: found.state for task_id, found in outcome.tasks.items()}
    assert states.pop("other") == "skipped"
    assert set(states.values()) - {"success"} == EXPECTED_STATES.get(name, set())
    for index in range(instances):
        for mapped in dag.tasks[3:]:
            links = extra_links_of(mapped, outcome, index)
            returned = outcome.tasks[f"{mapped.task_id}[{index}]"].returned
            if "Website" in links:
                assert links["Website"] == f"https://{returned['domain']}"


def test_templates_of_samples_guides_and_docstrings_pull_results_of_their_own_instance() -> None:
    """Without the index, a mapped task group with two instances pulls a list of both results."""
    root = SAMPLES.parent
    paths = [
        *(path for folder in ("dags", "docs", "examples") for path in (root / folder).rglob("*.*")),
        *(root / "airflow_provider_analytics").rglob("*.py"),
    ]
    template = r"\{\{[^}]*xcom_pull\([^)]*\)|f\"ti\.xcom_pull\([^)]*\)"
    pulls = [
        (path.name, pull)
        for path in paths
        if path.suffix in (".py", ".md", ".sql")
        for pull in re.findall(template, path.read_text(encoding="utf-8"))
    ]
    assert len(pulls) >= 8
    assert [(name, pull) for name, pull in pulls if "map_indexes=ti.map_index" not in pull] == []
