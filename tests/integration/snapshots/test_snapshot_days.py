# SPDX-License-Identifier: Apache-2.0
"""Snapshot day of each kind of run: the table of docs/snapshots.md; and OpenLineage events (``operators/lineage.py``).

The planned time of a run comes from Airflow's own timetables. The clock is set to the start of its task.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pendulum
import pytest
import time_machine
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowSkipException
from airflow_versions import allow_execute_in_this_thread, manual_run, needs_openlineage, planned_run
from dag_runs import OutletEvents
from jsonschema import Draft202012Validator
from local_airflow import environment
from referencing import Registry, Resource
from shelf import NIGHT, Shelf

from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.assets import can_partition
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.manifest import ListSource

BERLIN = "Europe/Berlin"
#: A Wednesday without a change of the clocks: far from today, because tests must not depend on the current day.
DAY = date(2031, 5, 14)
WEDNESDAYS = "0 12 * * 3"


def at(text: str, days: int = 0) -> datetime:
    """Return a time on the day of the run, or some days later, in the time zone of the DAG."""
    hours, minutes = text.split(":")
    moment = datetime.combine(DAY + timedelta(days=days), time(int(hours), int(minutes)))
    return pendulum.instance(moment, tz=BERLIN)


class Case(NamedTuple):
    """A run, the start of its task, and the result for the list."""

    schedule: str | None
    kind: str
    planned: datetime
    clock: datetime
    day: int | None  # days after DAY; None: not filed
    late: bool = False
    published: bool = False
    mode: str = "fail"

    def __str__(self) -> str:
        return f"{self.schedule} {self.kind} {self.clock:%d %H:%M} {self.mode}{' published' if self.published else ''}"


NOON, EVENING = "0 12 * * *", "30 23 * * *"
CASES = [
    # A planned run is filed under its planned day, which is the day on which the list is read.
    Case(NOON, "scheduled", at("12:00"), at("12:02"), day=0),
    # Retried past midnight: filed and marked as late for 12 hours, if the day has no snapshot.
    Case(EVENING, "scheduled", at("23:30"), at("12:00", 1), day=0, late=True),
    Case(EVENING, "scheduled", at("23:30"), at("12:01", 1), day=None),
    Case(EVENING, "scheduled", at("23:30"), at("0:10", 1), day=None, published=True),
    Case("@hourly", "scheduled", at("23:00"), at("0:10", 1), day=None, published=True),
    # Cleared on its day, it is replaced; cleared the day after, it is history.
    Case(NOON, "scheduled", at("12:00"), at("18:00"), day=0, published=True),
    Case(NOON, "scheduled", at("12:00"), at("10:36", 1), day=None, published=True),
    Case(NOON, "scheduled", at("12:00"), at("10:36", 1), day=None, published=True, mode="skip"),
    Case(NOON, "scheduled", at("12:00"), at("10:36", 1), day=0, late=True, published=True, mode="publish"),
    # A run that a person or a program starts is about now, for any data interval of Airflow.
    Case(EVENING, "manual", at("10:36"), at("10:37"), day=0),
    Case("@hourly", "manual", at("0:10"), at("0:11"), day=0),
    Case(WEDNESDAYS, "manual", at("10:36", 1), at("10:37", 1), day=1),
    Case(None, "manual", at("23:59"), at("0:01", 1), day=1),
    Case(None, "asset_triggered", at("10:36"), at("10:37"), day=0),
    # A backfill is for past days.
    Case(NOON, "backfill", at("12:00"), at("12:00", 9), day=None),
    Case(NOON, "backfill", at("12:00"), at("12:00", 9), day=0, late=True, mode="publish"),
]


class Snapshots:
    """A DAG that takes a snapshot, and its runs."""

    def __init__(self, folder: Path, on_late: str, schedule: str | None = None) -> None:
        start = pendulum.instance(datetime(2031, 1, 1), tz=BERLIN)
        with DAG("a_dag", schedule=schedule, start_date=start, catchup=False) as self.dag:
            self.task = SnapshotWebsitesOperator(task_id="snapshot", base_path=str(folder), on_late=on_late)

    def run(self, kind: str, planned: datetime) -> dict[str, Any]:
        """Run the task now, and return its result."""
        allow_execute_in_this_thread()
        self.events = OutletEvents()
        dates = (planned_run if kind in ("scheduled", "backfill") else manual_run)(self.dag, planned)
        run_after = dates.pop("run_after")
        context: Any = {
            "dag": self.dag,
            "dag_run": SimpleNamespace(run_type=kind, **({"run_after": run_after} if run_after else {})),
            "ti": SimpleNamespace(xcom_push=lambda **_: None),
            "outlet_events": self.events,
            **dates,
        }
        found: dict[str, Any] = self.task.execute(context)
        return found


def rejected(mode: str) -> Any:
    return pytest.raises(AirflowSkipException if mode == "skip" else AirflowFailException, match=r"is over|ended")


def stored(written: dict[str, Any]) -> tuple[str, bool]:
    manifest = json.loads(Path(written["manifest"]).read_bytes())
    return datetime.fromisoformat(manifest["observed_at"]).isoformat(), manifest["late"]


def test_day_of_a_planned_run_without_other_dates_is_that_of_its_start(
    analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    snapshots = Snapshots(tmp_path, "publish")
    context: Any = {
        "dag": snapshots.dag,
        "dag_run": SimpleNamespace(run_type="scheduled", run_after=at("12:00")),
        "ti": SimpleNamespace(xcom_push=lambda **_: None),
        "outlet_events": OutletEvents(),
    }
    allow_execute_in_this_thread()
    with time_machine.travel(at("0:10", 1), tick=False):
        assert snapshots.task.execute(context)["snapshot_date"] == str(DAY)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_day_and_lateness_by_schedule_and_start_time(
    analytics_sandbox: SandboxServer, tmp_path: Path, case: Case
) -> None:
    analytics_sandbox.seed(3)
    snapshots = Snapshots(tmp_path, case.mode, case.schedule)
    if case.published:
        with time_machine.travel(at("23:40") if case.planned.hour == 23 else at("12:02"), tick=False):
            genuine = snapshots.run(case.kind, case.planned)
        assert (genuine["snapshot_date"], genuine["late"]) == (str(DAY), False)
        before = stored(genuine)
    with time_machine.travel(case.clock, tick=False):
        if case.day is None:
            analytics_sandbox.clear_requests()
            with rejected(case.mode):
                snapshots.run(case.kind, case.planned)
            assert analytics_sandbox.requests == []
            assert not case.published or stored(genuine) == before
        else:
            written = snapshots.run(case.kind, case.planned)
            day = str(DAY + timedelta(days=case.day))
            assert (written["snapshot_date"], written["late"]) == (day, case.late)
            seen_by_consumers = [snapshots.events[asset] for asset in snapshots.task.outlets]
            assert {event.extra["snapshot_date"] for event in seen_by_consumers} == {day}
            assert [event.partitions for event in seen_by_consumers[1:]] == [[day]] * can_partition()


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("midnight", ["at the account", "in the list", "in a list that is read again"])
def test_lateness_depends_on_the_start_of_the_published_read(
    analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, midnight: str, published: bool
) -> None:
    analytics_sandbox.seed(120)  # two pages
    snapshots = Snapshots(tmp_path, "fail")
    request, is_late = Transport.request, midnight != "in the list"
    if published:
        with time_machine.travel(at("12:00"), tick=False):
            before = stored(genuine := snapshots.run("manual", at("12:00")))
    with time_machine.travel(at("23:59"), tick=False) as clock:

        def passing_midnight(self: Any, method: str, path: str, **more: Any) -> Any:
            answer = request(self, method, path, **more)
            if path.endswith("account") == (midnight == "at the account") and datetime.now(UTC) < at("0:00", 1):
                clock.move_to(at("0:01", 1))
                if midnight == "in a list that is read again":
                    analytics_sandbox.remove_website(1)
            return answer

        monkeypatch.setattr(Transport, "request", passing_midnight)
        if is_late and published:
            with rejected("fail"):
                snapshots.run("manual", at("12:00"))
            assert stored(genuine) == before
            return
        written = snapshots.run("manual", at("12:00"))
    assert [written[name] for name in ("snapshot_date", "late")] == [str(DAY), is_late]
    assert written["count"] == (119 if "again" in midnight else 120)
    rows = [json.loads(line) for line in Path(written["files"][0]).read_bytes().splitlines()]
    moments = {datetime.fromisoformat(item["observed_at"]) for item in (written, *rows)}
    assert moments == {at("0:01", 1) if is_late else at("23:59")}


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
