"""The sample DAGs as a person meets them in the list and in the form that triggers them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import ui
from airflow.models import DagBag

SAMPLES = Path(__file__).parents[2] / "dags"
#: Params without a default: only the log of the plan tells the digest.
GIVEN = {"apply_websites": {"approved_digest"}}


@pytest.fixture(scope="module")
def samples() -> dict[str, Any]:
    bag = DagBag(SAMPLES)
    assert bag.import_errors == {}
    return bag.dags


def test_each_has_a_description_of_one_line(samples: dict[str, Any]) -> None:
    described = {dag_id: dag.description or "" for dag_id, dag in samples.items()}
    assert [dag_id for dag_id, text in described.items() if not 20 < len(text) <= 100 or "\n" in text] == []
    assert len(set(described.values())) == len(samples) >= 10


def test_each_can_be_triggered_with_its_defaults(samples: dict[str, Any]) -> None:
    """The form of Airflow 3 does not send a text that is required and empty."""
    empty = {
        dag_id: {name for name, value in dag.params.items() if value is None or value == ""}
        for dag_id, dag in samples.items()
        if dag_id not in GIVEN
    }
    assert {dag_id: names for dag_id, names in empty.items() if names} == {}
    for dag_id, dag in samples.items():
        if dag_id not in GIVEN:
            dag.params.validate()


def test_mapped_tasks_have_a_label(samples: dict[str, Any]) -> None:
    labels = {
        f"{dag_id}.{task.task_id}": getattr(task, "map_index_template", None)
        for dag_id, dag in samples.items()
        for task in dag.tasks
        if hasattr(task, "expand_input") or any(task.iter_mapped_task_groups())
    }
    assert len(labels) == 3
    assert all(labels.values()), labels


def test_make_ui_sets_every_variable_that_a_sample_needs() -> None:
    text = "".join(path.read_text() for path in SAMPLES.glob("*.py"))
    needed = set(re.findall(r"var\.(?:value|json)\.(?:get\('(\w+)'|(\w+))", text))
    assert {one or other for one, other in needed} == ui.VARIABLES.keys()
