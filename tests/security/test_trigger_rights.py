"""Whoever may trigger a DAG: chooses no folder of others, no connection and no instance by the Params of a sample."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from airflow.providers.common.compat.sdk import DAG

SAMPLES = sorted((Path(__file__).parents[2] / "dags").glob("*.py"))
STATE_OF_A_SYNC = ("sync_excluded_ips", "state_path")
PLACES = ("base_path", "state_path", "database")
OUTSIDE = [
    "/etc", "file:///etc", "s3://another-bucket/x", "", "relative", "{root}/../x", "{root}/a/../../x", "{root}x",
    "x{root}", "{root}/.ssh", "{root}\n", "{root}/a b", "{root}/{{ conn.a.password }}", "{root}@evil/x",
]  # fmt: skip


def params() -> Iterator[tuple[str, str, DAG]]:
    """Yield each Param of the samples."""
    for path in SAMPLES:
        module = runpy.run_path(str(path))
        if module.get("ApprovalOperator", "not needed") is None:
            continue  # before Airflow 3.1, this sample defines no DAG
        for found in module.values():
            dag = found() if hasattr(found, "__wrapped__") else None  # what @dag has made of a function
            if isinstance(dag, DAG):
                yield from ((path.name, name, dag) for name in dag.params)


@pytest.fixture(autouse=True)
def roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBSITE_ANALYTICS_ROOTS", "file:///data/analytics s3://my.bucket/analytics")


@pytest.mark.parametrize("value", OUTSIDE)
def test_a_folder_is_one_of_the_roots_or_in_it(value: str) -> None:
    tried = 0
    for sample, name, dag in params():
        if name in PLACES:
            root = "/data/analytics" if name == "database" else "file:///data/analytics"
            schema = dag.params.get_param(name).schema
            jsonschema.validate(f"{root}/client_a/2026.v1", schema)
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(value.replace("{root}", root), schema)
            tried += 1
            assert sample
    assert tried >= 8


def test_a_dot_of_a_root_is_a_dot() -> None:
    schemas = [dag.params.get_param(name).schema for _, name, dag in params() if (dag.dag_id, name) == STATE_OF_A_SYNC]
    (schema,) = schemas
    jsonschema.validate("s3://my.bucket/analytics/x", schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate("s3://my-bucket/analytics/x", schema)


def test_no_param_names_a_connection() -> None:
    assert not [(sample, name) for sample, name, _ in params() if "conn" in name]
