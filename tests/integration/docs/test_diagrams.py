# SPDX-License-Identifier: Apache-2.0
"""Diagrams of the documents: docs/sample_dags.md has the graph of each sample, docs/concepts.md only its own nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from airflow.providers.common.compat.sdk import DAG
from samples import SAMPLES, sample

Blocks = Callable[[str, str], list[str]]
#: Samples that define no DAG before Airflow 3.1.
NEED_APPROVALS = {"sync_excluded_ips_with_approval", "websites_as_code"}


def drawn(diagram: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the nodes and the edges of a flowchart without labels."""
    chains = [line.strip().split(" --> ") for line in diagram.splitlines()[1:]]
    return {node for chain in chains for node in chain}, {edge for chain in chains for edge in pairwise(chain)}


def short(task_id: str) -> str:
    """Return the id of a task without its groups."""
    return task_id.rpartition(".")[2]


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.py")))
def test_sample_dags_page_has_the_graph_of_each_sample(name: str, page: Callable[[str], str]) -> None:
    section = page("sample_dags").partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    [diagram] = re.findall(r"```mermaid\n(.*?)```", section, re.DOTALL)
    dags = [value for value in vars(sample(name)).values() if isinstance(value, DAG)]
    dags = dags or list(loaded(name))
    if not dags and name in NEED_APPROVALS:
        pytest.skip("approvals need Airflow 3.1")
    tasks = [task for dag in dags for task in dag.tasks]
    edges = {(short(task.task_id), short(below)) for task in tasks for below in task.downstream_task_ids}
    assert drawn(diagram) == ({short(task.task_id) for task in tasks}, edges)


def loaded(name: str) -> list[DAG]:
    """Return the DAGs that a sample creates by functions without keeping a name for the result."""
    made = [value for value in vars(sample(name)).values() if callable(value) and hasattr(value, "__wrapped__")]
    found = []
    for make in made:
        try:
            dag = make()
        except Exception as error:
            if type(error).__name__ != "AirflowOptionalProviderFeatureException":
                raise
            continue
        if isinstance(dag, DAG):
            found.append(dag)
    return found


def test_concepts_diagram_connects_only_nodes_that_have_a_label(blocks: Blocks) -> None:
    [diagram] = blocks("concepts", "mermaid")
    labelled = set(re.findall(r"(\w+)\[", diagram))
    connected = set(re.findall(r"^\s*(\w+)(?:\[[^\]]*\])? --?>", diagram, re.MULTILINE))
    assert connected
    assert connected <= labelled
