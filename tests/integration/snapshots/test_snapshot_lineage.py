# SPDX-License-Identifier: Apache-2.0
"""OpenLineage events of the operators, in a file of its own transport (``operators/lineage.py``)."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow_versions import needs_openlineage
from jsonschema import Draft202012Validator
from local_airflow import environment
from referencing import Registry, Resource
from shelf import NIGHT, Shelf

from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.manifest import ListSource

DAG_FILE = """
import os
import pendulum
from airflow.providers.common.compat.sdk import DAG
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator

with DAG("lineage", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    for name in ("first", "shrunk"):
        SnapshotWebsitesOperator(task_id=name, base_path=f"{os.environ['BASE']}/{name}", retries=0)
"""

#: The JSON Schemas of OpenLineage 1 (https://github.com/OpenLineage/OpenLineage, Apache License 2.0).
SCHEMAS = [json.loads(path.read_text()) for path in (Path(__file__).parent / "openlineage").glob("*.json")]
REGISTRY: Any = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS)


def events(sandbox: SandboxServer, folder: Path) -> dict[str, dict[str, Any]]:
    """Run the DAG in a separate Airflow; return the last event of each task."""
    path, home = folder / "events.jsonl", folder / "home"
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "lineage.py").write_text(DAG_FILE)
    settings = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "file", "log_file_path": str(path), "append": True}),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
        "BASE": str(folder / "base"),
        **sandbox.connection_env,
    }
    # 3.0 runs no task with unknown assets.
    for command in ("db migrate", "dags reserialize", "dags test lineage"):
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *command.split()],
            env=environment(home, settings), capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert path.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    return {event["job"]["name"]: event for event in map(json.loads, path.read_text().splitlines())}


def check_by_the_schemas(event: dict[str, Any]) -> set[str]:
    """Validate each facet of the datasets by its schema, and return the names of the facets."""
    checked = set()
    for dataset in (*event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            for name, facet in dataset.get(kind, {}).items():
                Draft202012Validator({"$ref": facet["_schemaURL"]}, registry=REGISTRY).validate(facet)
                checked.add(name)
    return checked


@needs_openlineage
@pytest.mark.slow
def test_openlineage_events_name_the_list_and_the_dataset_of_a_run(
    analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    analytics_sandbox.seed(30)
    last_night, source = datetime.now(UTC) - NIGHT, ListSource(url=analytics_sandbox.url, account_id="1")
    Shelf(f"{tmp_path}/base/shrunk").take(100, last_night, source=source)
    found = events(analytics_sandbox, tmp_path)
    event = found["lineage.first"]
    assert event["eventType"] == "COMPLETE"
    assert {"schema", "outputStatistics"} <= check_by_the_schemas(event)
    (listed,), (written,) = event["inputs"], event["outputs"]
    assert (listed["namespace"], listed["name"]) == ("analytics://analytics_default", "websites")
    assert (written["namespace"], written["name"]) == ("file", f"{tmp_path}/base/first/websites")
    fields = {field["name"]: field["type"] for field in written["facets"]["schema"]["fields"]}
    assert (fields["id"], fields["privacy"], fields["snapshot_date"]) == ("string", "integer", "date")
    (data,) = (tmp_path / "base").glob("first/websites/*/*")
    statistics = written["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (30, data.stat().st_size, 1)

    event = found["lineage.shrunk"]
    assert event["eventType"] == "FAIL"
    assert "outputStatistics" not in check_by_the_schemas(event)
    assert [output["name"] for output in event["outputs"]] == [f"{tmp_path}/base/shrunk/websites"]
