"""Whoever may trigger a DAG, or send an asset event: chooses no folder, no file, no address and no connection."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowOptionalProviderFeatureException
from raw_server import RawServer, http
from samples import SAMPLES, sample_dag

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


def params() -> Iterator[tuple[str, str, DAG]]:
    """Yield each Param of the samples."""
    for path in sorted(SAMPLES.glob("*.py")):
        module = runpy.run_path(str(path))
        for found in module.values():
            with suppress(AirflowOptionalProviderFeatureException):  # before Airflow 3.1, there are no approvals
                dag = found() if hasattr(found, "__wrapped__") else None  # what @dag has made of a function
                if isinstance(dag, DAG):
                    yield from ((path.name, name, dag) for name in dag.params)


def test_no_param_chooses_a_folder_a_file_or_a_connection() -> None:
    """They are constants of the file: who may trigger a DAG chooses among what its author allows."""
    assert {name for _, name, _ in params()} == {
        "accept", "approved_digest", "domain", "dry_run", "only", "privacy", "prune",
    }  # fmt: skip


@pytest.mark.parametrize("forged", ["path", "changes", "snapshot_date"])
def test_no_event_chooses_what_is_read(analytics_sandbox: SandboxServer, tmp_path: Path, forged: str) -> None:
    """Who may send an asset event could have had rows of another folder loaded, and an address of the network asked."""
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    analytics_sandbox.add_website("own.example")
    SnapshotWebsitesOperator(task_id="take", base_path=own).execute({})
    analytics_sandbox.add_website("other.example")
    extra = SnapshotWebsitesOperator(task_id="take", base_path=other).execute({})
    check = sample_dag("alert_on_public_pages", own).get_task("check").python_callable
    load = sample_dag("load_snapshot_into_duckdb", own).get_task("load").python_callable
    with RawServer([http(200, "[]")]) as inside:
        extra |= {forged: f"{inside.url}/admin"} if forged != "path" else {}
        events = {"asset": [SimpleNamespace(extra=extra)]}
        with suppress(ValueError):  # a day that is none
            check(triggering_asset_events=events)
        assert inside.requests == []
    assert not inspect.signature(load).parameters
    load()
    with duckdb.connect(f"{own}/websites.duckdb") as connection:
        assert connection.execute("SELECT domain FROM websites").fetchall() == [("own.example",)]
