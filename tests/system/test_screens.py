# SPDX-License-Identifier: Apache-2.0
"""Screens of Airflow: the parts of this package that a person sees without scrolling (``hooks``, ``operators``)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from airflow_processes import ENDED, AirflowProcesses, wait_for
from airflow_versions import needs_known_screens, screens
from browser import Screen
from certificates import Authority
from local_airflow import PASSWORD, USER, free_port
from screens_of_airflow_3 import Screens

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.laravel import account_id
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.catalog import snapshot_series
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

pytestmark = [pytest.mark.browser, needs_known_screens]

WEBSITES = 250
#: Nights before Airflow's night.
NIGHTS = 14
TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)
DAG = """
from datetime import datetime, timedelta, timezone

from airflow.providers.common.compat.sdk import DAG

from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator

with DAG(
    "nights",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    default_args={{"retries": 2, "retry_delay": timedelta(minutes=5)}},
):
    for conn_id in {nights!r}:
        SnapshotWebsitesOperator(
            task_id=conn_id,
            analytics_conn_id=conn_id,
            base_path="{base_path}/" + conn_id,
            partition_date="{day}",
            html_report=True,
        )
"""
#: Connection to the text that the log of its night must contain at the top; its task has the same name.
LOG_TEXTS = {
    "analytics_default": [
        f"Published 264 websites as {TODAY}. Since {YESTERDAY}: 1 removed, 2 changed (1 in privacy), 1 added.",
        "The list is complete: totals and newest websites matched before and after.",
        f"/websites/dt={TODAY}",
    ],
    "shrunk": [
        f"The list lacks 125 of 250 websites (50%) of {YESTERDAY}",
        "Nothing was published.",
        "This is more than max_loss_fraction=0.3 allows.",
        "If this is intended, set override_guards=['fewer_websites'] on task shrunk for one run.",
        "guards/#override-a-guard",
        "Not retried: someone has to review it first.",
    ],
    "wrong_key": [
        "AirflowFailException: API key rejected (401 Unauthorized). Correct the API key of the connection.",
        "connection 'wrong_key'.",
        "Not retried: correct the API key first.",
    ],
    "failing": [
        "AnalyticsApiError: The service failed (500 Internal Server Error).",
        "4 attempts failed. Service: http://127.0.0.1:",
        "connection 'failing'.",
    ],
}
#: Connection to the color of its test, and its message.
TESTED = {
    "analytics_default": ("green", "Connected to http://"),
    "wrong_key": ("red", "API key rejected (401 Unauthorized). Correct the API key of the connection."),
    "host_down": ("red", "cannot be reached: Connection refused."),
    "http_on_https": ("red", "write https://"),
    "https_on_http": ("red", "does not speak https on this port. Write http:// in the Base URL, or the port of https."),
}


#: Connections that exist all the time. Pictures of the documents show the list of connections.
IN_PICTURES = ("analytics_default", "wrong_key")


@dataclass(frozen=True)
class Stage:
    """An Airflow, connections to its services, two of the services, and the folders of the snapshots and DAGs."""

    airflow: AirflowProcesses
    connections: dict[str, dict[str, Any]]
    good: SandboxServer
    shrunk: SandboxServer
    base_path: Path
    dags: Path

    def add_connection(self, conn_id: str) -> None:
        self.airflow.api.add_connection({"connection_id": conn_id, **self.connections[conn_id]})


@dataclass(frozen=True)
class NightRun:
    """A run of all nights."""

    airflow: AirflowProcesses
    run_id: str

    def wait_for(self, night: str) -> None:
        """Wait until a task has ended as expected, or waits for its next try."""

        def ended() -> str | None:
            tasks = self.airflow.api.run("nights", self.run_id).tasks
            state = tasks[night].state if night in tasks else None
            return state if state in (*ENDED, "up_for_retry") else None

        state = wait_for(f"the night {night}", ended)
        as_expected = (state == "success") == (night == "analytics_default")
        assert as_expected, f"{night}: {state}\n{self.airflow.api.log('nights', self.run_id, night)}"


def take_nights(sandbox: SandboxServer, base_path: Path, nights: int) -> None:
    """Take the snapshots of the nights before today; each night adds some websites."""
    with AnalyticsClient(Settings(base_url=sandbox.url, api_key=sandbox.api_key)) as client:
        source = ListSource(url=client.base_url, account_id=account_id(client.get_account()))
        origin = Origin(make_listing=client.iter_websites, source=source, stats=client.stats)
        midnight = datetime(TODAY.year, TODAY.month, TODAY.day, 0, 2, tzinfo=UTC)
        for before in range(nights, 0, -1):
            then = midnight - timedelta(days=before)
            series = snapshot_series(str(base_path))
            take_snapshot(series, then.date(), origin, options=SnapshotOptions(), clock=repeat(then).__next__)
            for number in range(before % 3):
                sandbox.add_website(f"shop-{before}-{number}.example.com")


@pytest.fixture(scope="module")
def staged(checkout: Path, in_pictures: Callable[[str], Path]) -> Iterator[Stage]:
    """Services of every kind, and the web server of an Airflow with a connection to each of them."""
    home = in_pictures("airflow")
    (home / "airflow").mkdir()
    dags = shutil.copytree(checkout / "dags", home / "dags")
    base_path = home / "snapshots"
    base_path.mkdir()
    with ExitStack() as stack:
        good, shrunk, failing = (stack.enter_context(SandboxServer()) for _ in range(3))
        certificate, key = Authority(home).server_files("127.0.0.1")
        secure = stack.enter_context(SandboxServer(ssl_certfile=certificate, ssl_keyfile=key))
        for sandbox in (good, shrunk):
            sandbox.seed(WEBSITES)
        failing.fault("any", status=500, body="<html><title>Server Error</title></html>", times=None)

        def connection(url: str, password: str = good.api_key) -> dict[str, Any]:
            # Airflow 3.3.1 and 3.3.2 test a saved connection only if it has a port.
            host, _, port = url.rpartition(":")
            return {"conn_type": "analytics", "host": host, "port": int(port), "password": password}

        connections = {
            "analytics_default": connection(good.url),
            "shrunk": connection(shrunk.url, shrunk.api_key),
            "failing": connection(failing.url),
            "wrong_key": connection(good.url, "0123456789abcdef"),
            "host_down": connection(f"http://127.0.0.1:{free_port()}"),
            "http_on_https": connection(secure.url.replace("https:", "http:")),
            "https_on_http": connection(good.url.replace("http:", "https:")),
        }
        nights = DAG.format(nights=list(LOG_TEXTS), base_path=base_path.as_uri(), day=TODAY)
        (dags / "nights.py").write_text(nights)
        settings = {
            # A browser opens connections in advance, and one of them would block the only worker of Airflow 2.
            "AIRFLOW__WEBSERVER__WORKER_CLASS": "gthread",
            "GUNICORN_CMD_ARGS": "--threads=8",
        }
        airflow = stack.enter_context(AirflowProcesses(home / "airflow", dags, settings, web_only=True))
        stage = Stage(airflow, connections, good, shrunk, base_path, dags)
        for conn_id in IN_PICTURES:
            stage.add_connection(conn_id)
        yield stage


@pytest.fixture(scope="module")
def at_work(staged: Stage) -> Stage:
    """The same Airflow, which also has found all DAGs and runs them."""

    def found_all() -> bool:
        dags = staged.airflow.api.get("/dags", limit=100)["dags"]
        return len({dag["fileloc"] for dag in dags}) == len(list(staged.dags.glob("*.py")))

    staged.airflow.start_others()
    wait_for("the DAGs", found_all)
    return staged


@pytest.fixture(scope="module")
def night_run(at_work: Stage) -> NightRun:
    """A run of all nights, after nights without a problem; one of the services lost half of its websites since then."""
    good, shrunk, api = at_work.good, at_work.shrunk, at_work.airflow.api
    take_nights(good, at_work.base_path / "analytics_default", NIGHTS)
    take_nights(shrunk, at_work.base_path / "shrunk", 1)
    found = good.websites()
    good.remove_website(int(found[7]["id"]))
    good.change_website(int(found[11]["id"]), privacy=2)
    good.change_website(int(found[12]["id"]), exclude_ips="192.0.2.1\n192.0.2.2")
    for website in shrunk.websites()[: WEBSITES // 2]:
        shrunk.remove_website(int(website["id"]))
    for conn_id in LOG_TEXTS.keys() - {*IN_PICTURES}:
        at_work.add_connection(conn_id)
    api.unpause("nights")
    return NightRun(at_work.airflow, api.trigger("nights"))


@pytest.fixture(scope="module")
def ways(staged: Stage, screen: Screen) -> Screens:
    found = screens(screen, staged.airflow.url)
    found.log_in(USER, PASSWORD)
    return found


@pytest.mark.chosen
def test_connection_form_is_saved_and_reopened(staged: Stage, screen: Screen, ways: Screens) -> None:
    # As docs/connection.md describes the form.
    ways.new_connection("analytics_default", {"host": "https://stats.example.com", "port": 443, "password": "x" * 24})
    screen.picture("connection")
    ways.new_connection("stats", staged.connections["analytics_default"])
    screen.sees("Base URL http://127.0.0.1", "API key", "Port")
    # Of the common fields of connections, those without a meaning here.
    assert not {"Login", "Schema"} & set(screen.in_sight().split(" "))
    ways.extras()
    help_of_timeout = "Seconds to wait for a connection, and for each part of a response. Default: 30."
    screen.sees("Timeout (s)", help_of_timeout, "Retries", "Requests per minute")
    ways.fill_in_timeout("20")
    screen.picture("connection_extras")
    ways.save_connection()

    colour, said = TESTED["analytics_default"]
    assert ways.test_connection("stats", staged.connections["analytics_default"], said) in (colour, None)
    ways.edit_connection("stats")
    screen.sees("Base URL http://127.0.0.1")
    assert staged.connections["analytics_default"]["password"] not in screen.driver.page_source
    screen.picture("connection_reopened")
    ways.extras()
    assert ways.timeout() == "20"
    staged.airflow.api.remove_connection("stats")


@pytest.mark.parametrize("conn_id", TESTED)
def test_connection_test_button_reports_the_problem(staged: Stage, screen: Screen, ways: Screens, conn_id: str) -> None:
    if conn_id not in IN_PICTURES:
        staged.add_connection(conn_id)
    colour, said = TESTED[conn_id]
    assert ways.test_connection(conn_id, staged.connections[conn_id], said) in (colour, None)
    screen.picture(f"test_{conn_id}")
    if conn_id not in IN_PICTURES:
        staged.airflow.api.remove_connection(conn_id)


def test_sample_form_names_and_explains_its_params(at_work: Stage, screen: Screen, ways: Screens) -> None:
    api = at_work.airflow.api
    explained = set()
    for dag in api.get("/dags")["dags"]:
        dag_id = dag["dag_id"]
        params = api.get(f"/dags/{dag_id}/details")["params"] or {}
        form = "".join(ways.trigger_form(dag_id).split())
        for name, param in params.items():
            for text in (param["schema"]["title"], param["description"]):
                assert "".join(text.split()) in form, (dag_id, text, form)
            explained.add(name)
        if params:  # below the first one, forms are longer than the screen
            first = min(params.values(), key=lambda param: form.index("".join(param["description"].split())))
            screen.sees(first["description"])
        screen.picture(f"trigger_{dag_id}")
    assert {"dry_run", "override_guards", "only", "approved_digest"} <= explained


@pytest.mark.parametrize("night", LOG_TEXTS)
def test_task_log_summarizes_the_night(night_run: NightRun, screen: Screen, ways: Screens, night: str) -> None:
    night_run.wait_for(night)
    ways.log("nights", night_run.run_id, night)
    screen.sees(*LOG_TEXTS[night])
    screen.picture(f"log_{night}")
    if "AirflowFailException" in screen.in_sight():
        ways.fold_traceback()
        screen.sees(*LOG_TEXTS[night])
        screen.picture(f"log_{night}_folded")


def test_report_opens_in_a_browser(night_run: NightRun, screen: Screen) -> None:
    night_run.wait_for("analytics_default")
    screen.open(night_run.airflow.api.xcom("nights", night_run.run_id, "analytics_default")["report"])
    screen.sees("264 websites", f"Since {YESTERDAY}: 1 removed, 2 changed (1 in privacy), 1 added.")
    screen.picture("report")
    with screen.phone():
        screen.sees("Websites over the last", f"{TODAY}: 264")
        screen.picture("report_phone")


def test_snapshot_creates_an_event_of_its_asset(night_run: NightRun, screen: Screen, ways: Screens) -> None:
    night_run.wait_for("analytics_default")
    ways.assets()
    screen.sees("analytics://analytics_default/websites")
    screen.picture("assets")
    ways.asset("analytics://many_instances/websites")  # further down than the screen is high
    screen.sees("analytics://many_instances/websites")
    ways.asset("analytics://analytics_default/websites")
    screen.sees("analytics://analytics_default/websites", "nights")
    screen.picture("asset")


def test_sample_form_lists_guards_and_can_be_submitted_with_its_defaults(
    at_work: Stage, screen: Screen, ways: Screens
) -> None:
    ways.trigger_form("nightly_website_snapshot")
    ways.choices()
    screen.sees("fewer_websites", "other_source", "missing_fields")
    screen.picture("trigger_choices")
    ways.trigger_form("nightly_website_snapshot")
    ways.trigger()
    runs = partial(at_work.airflow.api.runs, "nightly_website_snapshot")
    assert len(wait_for("the run", lambda: [run for run in runs() if run["run_type"] == "manual"])) == 1
