"""What OpenLineage is told, from a file that its own transport wrote while Airflow ran the task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow_versions import needs_openlineage
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

pytestmark = [pytest.mark.slow, needs_openlineage]

DAG_FILE = """
import os
import pendulum
from airflow.providers.common.compat.sdk import DAG
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator

with DAG("lineage", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    SnapshotWebsitesOperator(task_id="snapshot", base_path=os.environ["BASE"], retries=0)
"""


class Run:
    """Airflow with OpenLineage in a home of its own; each call runs the task and returns the task's last event."""

    def __init__(self, folder: Path, sandbox: Any) -> None:
        self.events, home = folder / "events.jsonl", folder / "home"
        (home / "dags").mkdir(parents=True)
        (home / "dags" / "lineage.py").write_text(DAG_FILE)
        transport = {"type": "file", "log_file_path": str(self.events), "append": True}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")} | {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
            "BASE": str(folder / "base"),
            **sandbox.connection_env,
        }
        self.airflow("db", "migrate")
        self.airflow("dags", "reserialize")  # 3.0 runs no task whose assets it does not know

    def airflow(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "airflow", *arguments]
        self.done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    def __call__(self) -> dict[str, Any]:
        self.events.unlink(missing_ok=True)
        self.airflow("dags", "test", "lineage")
        assert self.events.exists(), self.done.stdout[-3000:] + self.done.stderr[-3000:]
        found = [json.loads(line) for line in self.events.read_text().splitlines()]
        ended: list[dict[str, Any]] = [
            event
            for event in found
            if event["job"]["name"] == "lineage.snapshot" and event["eventType"] in ("COMPLETE", "FAIL")
        ]
        assert ended, [(event["job"]["name"], event["eventType"]) for event in found]
        checked = check_by_the_schemas(ended[-1])
        assert "dataQualityAssertions" in checked, self.done.stdout[-5000:] + self.done.stderr[-5000:]
        return ended[-1]


#: The JSON Schemas of OpenLineage 1 (https://github.com/OpenLineage/OpenLineage, Apache License 2.0).
SCHEMAS = [json.loads(path.read_text()) for path in (Path(__file__).parent / "openlineage").glob("*.json")]
REGISTRY: Any = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS)


def check_by_the_schemas(event: dict[str, Any]) -> set[str]:
    """Hold each facet of the datasets to the schema that it names, and return the names of the facets."""
    checked = set()
    for dataset in (*event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            for name, facet in dataset.get(kind, {}).items():
                Draft202012Validator({"$ref": facet["_schemaURL"]}, registry=REGISTRY).validate(facet)
                checked.add(name)
    assert event["eventType"] == "FAIL" or {"schema", "outputStatistics"} <= checked
    return checked


def assertions(event: dict[str, Any]) -> dict[str, bool]:
    (listed,) = event["inputs"]
    return {
        found["assertion"]: found["success"] for found in listed["inputFacets"]["dataQualityAssertions"]["assertions"]
    }


def test_a_run_tells_what_it_read_wrote_and_asserted(analytics_sandbox: Any, tmp_path: Path) -> None:
    analytics_sandbox.seed(30)
    run = Run(tmp_path, analytics_sandbox)
    event = run()
    assert event["eventType"] == "COMPLETE"
    assert [(found["namespace"], found["name"]) for found in event["inputs"]] == [
        ("analytics://analytics_default", "websites")
    ]
    (written,) = event["outputs"]
    assert (written["namespace"], written["name"]) == ("file", f"{tmp_path}/base/websites")
    fields = {field["name"]: field["type"] for field in written["facets"]["schema"]["fields"]}
    assert (fields["id"], fields["privacy"], fields["snapshot_date"]) == ("string", "integer", "date")
    (data,) = (tmp_path / "base").glob("websites/*/*")
    statistics = written["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (30, data.stat().st_size, 1)
    assert assertions(event) == {"same_source": True, "complete": True, "not_shrunk": True}

    analytics_sandbox.reset()
    analytics_sandbox.seed(5)
    event = run()
    assert event["eventType"] == "FAIL"
    assert assertions(event) == {"same_source": True, "complete": True, "not_shrunk": False}
    assert [found["name"] for found in event["outputs"]] == [f"{tmp_path}/base/websites"]
