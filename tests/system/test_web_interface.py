# SPDX-License-Identifier: Apache-2.0
"""Actions of a person on the screens of a real Airflow 3.3, in a headless Chromium (``dags``)."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from airflow_processes import ENDED, AirflowApi, wait_for
from airflow_versions import needs_the_screens_of_3_3
from browser import PATIENCE, Screen
from local_airflow import PASSWORD, USER, home_of
from pictured import WEBSITES_FILE
from screens_of_airflow_3 import Screens, button

pytestmark = [pytest.mark.browser, needs_the_screens_of_3_3]


@dataclass(frozen=True)
class Interface:
    """Airflow's web interface and the analytics server next to it, as ``make ui`` announces them."""

    process: subprocess.Popen[str]
    url: str
    server: str
    key: str
    dags: Path
    api: AirflowApi

    def call(self, method: str, path: str, **query: Any) -> Any:
        """Return the data of a response of the analytics server."""
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json"}
        url = f"{self.server}/api/v1/{path}"
        answer = requests.request(method, url, params=query, headers=headers, timeout=PATIENCE)
        answer.raise_for_status()
        return answer.json().get("data")

    def websites(self) -> list[dict[str, Any]]:
        """Return all websites, oldest first."""
        pages: list[list[dict[str, Any]]] = []
        while not pages or pages[-1]:
            pages.append(self.call("GET", "websites", sort="asc", page=len(pages) + 1))
        return [website for page in pages for website in page]


@pytest.fixture(scope="module")
def interface(checkout: Path, environment: dict[str, str], in_pictures: Callable[[str], Path]) -> Iterator[Interface]:
    copy = in_pictures("checkout")
    for folder in ("scripts", "dags"):
        shutil.copytree(checkout / folder, copy / folder)
    with subprocess.Popen(
        [sys.executable, str(copy / "scripts" / "ui.py")],
        env={**environment, "ANALYTICS_FOLDER": str(copy / "analytics")},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line.startswith("Ctrl-C"):
                    break
            airflow = re.search(r"Airflow: +(\S+) +\(user admin, password admin\)", said)
            server = re.search(r"Analytics server: (\S+) +\(API key (\w+)", said)
            assert airflow, said
            assert server, said
            api = AirflowApi(airflow[1])
            api.log_in()
            yield Interface(process, airflow[1], server[1], server[2], copy / "dags", api)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                # Otherwise, leaving the block would wait for it forever.
                process.kill()
                raise


def ended_run(interface: Interface, dag_id: str, run_type: str) -> dict[str, Any]:
    """Return the newest run of this type once it has ended."""

    def ended() -> dict[str, Any] | None:
        runs = [run for run in interface.api.runs(dag_id) if run["run_type"] == run_type]
        return runs[-1] if runs and runs[-1]["state"] in ENDED else None

    return wait_for(f"the end of a run of {dag_id}", ended)


#: Settings of the new websites, and the changed ones of the others.
CREATED: dict[str, dict[str, Any]] = {
    "www.new-harbour.example": {"privacy": 1, "exclude_ips": "203.0.113.7"},
    "shop.new-harbour.example": {"privacy": 0, "email": 1},
}
UPDATED: dict[str, dict[str, Any]] = {
    "sunny-garden.example.org": {"privacy": 1},
    "mellow-drum.example.com": {"exclude_ips": "198.51.100.175\n203.0.113.7"},
}


def test_websites_change_when_a_person_approves_the_plan(interface: Interface, screen: Screen) -> None:
    (interface.dags / "websites.yaml").write_text(WEBSITES_FILE, "utf-8")
    before = interface.websites()
    api = interface.api
    api.unpause("websites_as_code")
    run_id = api.trigger("websites_as_code", {})
    api.wait_for_question("websites_as_code", run_id)

    ways = Screens(screen, interface.url)
    ways.log_in(USER, PASSWORD)
    ways.log("websites_as_code", run_id, "websites.plan")
    screen.sees("create 2 websites", "2 to create, 2 to update, 0 to delete")
    screen.picture("approve_1_planned")
    screen.open(f"{interface.url}/required_actions?response_received=false")
    screen.shown("//td//a[normalize-space()='Apply this plan to the websites?']")
    screen.picture("approve_2_asked")
    screen.click("//td//a[normalize-space()='Apply this plan to the websites?']")
    screen.wait(lambda _: any(approve.is_enabled() for approve in screen.all(button("Approve"))))
    # Rendered, and not as Markdown source.
    assert screen.all("//strong[.='2 to create, 2 to update, 0 to delete']")
    assert {"Create (2)", "Update (2)"} <= {heading.text for heading in screen.all("h3")}
    code = {element.text for element in screen.all("code")}
    assert {*CREATED, "sunny-garden.example.org (id 250)", "mellow-drum.example.com (id 3)"} <= code
    assert not [text for text in code if "rapid-falcon" in text]
    screen.picture("approval")
    assert interface.websites() == before

    screen.click(button("Approve"))
    run = ended_run(interface, "websites_as_code", "manual")
    assert (run["dag_run_id"], run["state"]) == (run_id, "success")
    ways.log("websites_as_code", run_id, "websites.apply")
    screen.sees("Applied 4 of 4 changes.")
    screen.picture("approve_3_applied")
    after = interface.websites()
    assert after[: len(before)] == [{**website, **UPDATED.get(website["domain"], {})} for website in before]
    created = {website["domain"]: website for website in after[len(before) :]}
    assert created == {domain: {**created[domain], **settings} for domain, settings in CREATED.items()}
    trails = (interface.dags.parent / "analytics").glob("*/audit/**/*.jsonl")
    audited = "".join(file.read_text("utf-8") for file in trails)
    assert all(domain in audited for domain in (*CREATED, *UPDATED))


def test_sample_dags_run_at_the_first_click(interface: Interface) -> None:
    """Connection, Variables, and pool exist; only a new website needs a domain in the form."""
    clicked = ("sync_excluded_ips", "sync_excluded_ips_in_chunks", "many_instances", "onboard_website")
    api = interface.api
    for dag_id in clicked:
        api.unpause(dag_id)
        api.trigger(dag_id, {"domain": "www.example.com"} if dag_id == "onboard_website" else {})
    states = {dag_id: ended_run(interface, dag_id, "manual")["state"] for dag_id in clicked}
    assert states == dict.fromkeys(clicked, "success")


def test_log_of_a_blocked_snapshot_contains_the_reason_and_the_remedy_without_scrolling(
    interface: Interface, screen: Screen
) -> None:
    api = interface.api
    api.unpause("nightly_website_snapshot")
    assert ended_run(interface, "nightly_website_snapshot", "scheduled")["state"] == "success"
    for website in interface.websites()[100:]:
        interface.call("DELETE", f"websites/{website['id']}")
    run_id = api.trigger("nightly_website_snapshot", {})
    assert ended_run(interface, "nightly_website_snapshot", "manual")["state"] == "failed"

    ways = Screens(screen, interface.url)
    ways.log("nightly_website_snapshot", run_id, "snapshot")
    ways.fold_traceback()
    screen.sees(
        "The list has 100 websites, 6",  # the other samples have created websites since the start
        "UTC. Missing: ",
        "This is more than max_loss_fraction=0.3 allows.",
        "Nothing was published.",
        "If this is intended, select fewer_websites under Override guards in the trigger form, or run:",
        """airflow dags trigger nightly_website_snapshot --conf '{"override_guards": ["fewer_websites"]}'""",
    )
    screen.picture("log_blocked")


def test_ctrl_c_stops_every_process(interface: Interface) -> None:
    started = psutil.Process(interface.process.pid).children(recursive=True)
    assert started
    [home] = {Path(found) for process in started if (found := home_of(process))}
    assert home.is_dir()
    interface.process.send_signal(signal.SIGINT)
    # At once, while the processes end.
    assert interface.process.stdout is not None
    assert [interface.process.stdout.readline() for _ in range(2)] == ["\n", "Stopping.\n"]
    assert interface.process.wait(timeout=PATIENCE) == 0
    assert not home.exists()
    # An ended process is still visible until init has collected it.
    _, left = psutil.wait_procs(started, timeout=5)
    assert not left
    for url in (interface.url, interface.server):
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=PATIENCE)
