"""What a person does on the screens of a real Airflow 3.3, done in a headless Chromium."""

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
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

pytestmark = pytest.mark.browser

#: Seconds for something to appear on a busy machine.
PATIENCE = 60
DIALOG = "[role=dialog][data-state=open]"


@dataclass(frozen=True)
class Interface:
    """Airflow's web interface and the analytics server next to it, as ``make ui`` announces them."""

    process: subprocess.Popen[str]
    url: str
    server: str
    api_key: str
    dags: Path

    def api(self) -> requests.Session:
        """Return a session that is logged in to Airflow's own API."""
        session = requests.Session()
        credentials = {"username": "admin", "password": "admin"}
        token = session.post(f"{self.url}/auth/token", json=credentials, timeout=PATIENCE).json()["access_token"]
        session.headers["Authorization"] = f"Bearer {token}"
        return session

    def unpause(self, dag_id: str) -> None:
        with self.api() as api:
            url = f"{self.url}/api/v2/dags/{dag_id}"
            api.patch(url, json={"is_paused": False}, timeout=PATIENCE).raise_for_status()

    def sandbox(self, what: str) -> Any:
        """Return what the analytics server's control endpoints say."""
        return requests.get(f"{self.server}/_sandbox/{what}", timeout=PATIENCE).json()


@pytest.fixture(scope="module")
def interface(
    checkout: Path,
    environment: dict[str, str],
    chromium: str,
    chromedriver: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Interface]:
    copy = tmp_path_factory.mktemp("checkout")
    for folder in ("scripts", "dags"):
        shutil.copytree(checkout / folder, copy / folder)
    with subprocess.Popen(
        [sys.executable, str(copy / "scripts" / "ui.py")],
        env=environment,
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
            yield Interface(process, airflow[1], server[1], server[2], copy / "dags")
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                # Else leaving the block would wait for it for ever.
                process.kill()
                raise


class Screen:
    """A logged-in browser that waits for what it looks for."""

    def __init__(self, driver: webdriver.Chrome, pictures: Path) -> None:
        self.driver = driver
        self.pictures = pictures

    def wait(self, condition: Callable[[webdriver.Chrome], Any]) -> Any:
        """Wait until the condition holds; what it looks at may be drawn anew meanwhile, or still be covered."""
        moving = [ElementClickInterceptedException, ElementNotInteractableException, StaleElementReferenceException]
        return WebDriverWait(self.driver, PATIENCE, ignored_exceptions=moving).until(condition)

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that are shown now, by CSS selector, or by XPath if it begins with a slash."""
        by = By.XPATH if selector.startswith("/") else By.CSS_SELECTOR
        return [found for found in self.driver.find_elements(by, selector) if found.is_displayed()]

    def click(self, selector: str) -> None:
        def clicked(_: object) -> bool:
            for found in self.all(selector)[:1]:
                if found.is_enabled():
                    found.click()
                    return True
            return False

        self.wait(clicked)

    def type(self, selector: str, text: str) -> None:
        """Replace what is in a field, at one go as pasting does: of fast single keys, forms lose some."""

        def typed(_: object) -> bool:
            for field in self.all(selector)[:1]:
                field.send_keys(Keys.CONTROL + "a")
                self.driver.execute_cdp_cmd("Input.insertText", {"text": text})
                return field.get_attribute("value") == text
            return False

        self.wait(typed)

    def press(self, selector: str, *keys: str) -> None:
        def pressed(_: object) -> bool:
            for found in self.all(selector)[:1]:
                found.send_keys(*keys)
                return True
            return False

        self.wait(pressed)

    def read(self, selector: str, attribute: str) -> str:
        """Return an attribute once the element is there and has it."""
        value: str = self.wait(lambda _: next((e.get_attribute(attribute) for e in self.all(selector)), None))
        return value

    def gone(self, selector: str) -> None:
        self.wait(lambda _: not self.all(selector))

    def picture(self, name: str) -> None:
        """Save what is seen once nothing moves any more (cursors and spinners apart)."""
        self.wait(lambda driver: driver.execute_script(STILL))
        self.driver.save_screenshot(str(self.pictures / name))


STILL = "return document.getAnimations().every(a => a.playState != 'running' || a.effect.getTiming().iterations > 1)"


@pytest.fixture(scope="module")
def screen(
    interface: Interface, chromium: str, chromedriver: str, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Screen]:
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # As root, as in CI, Chromium's own sandbox does not work. The others keep it from calling home.
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "window-size=1200,1000",
        "force-prefers-reduced-motion",
        f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(f"--{argument}")
    pictures = checkout / "build" / "screenshots"
    pictures.mkdir(parents=True, exist_ok=True)
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        screen = Screen(driver, pictures)
        driver.get(interface.url)
        screen.type("[name=username]", "admin")
        screen.type("[name=password]", "admin")
        screen.click("button[type=submit]")
        screen.wait(lambda _: "/auth/" not in driver.current_url)
        yield screen
    finally:
        driver.quit()


def button(text: str, *, dialog: bool = False) -> str:
    within = "//*[@role='dialog'][@data-state='open']" if dialog else ""
    return f"{within}//button[normalize-space()='{text}']"


def test_a_connection_is_added_tested_and_reopened(interface: Interface, screen: Screen) -> None:
    host, _, port = interface.server.rpartition(":")
    screen.driver.get(f"{interface.url}/connections")
    screen.click(button("Add Connection"))
    screen.type(f"{DIALOG} [name=connection_id]", "stats")
    screen.type(f"{DIALOG} [role=combobox]", "Website Analytics")
    screen.press(f"{DIALOG} [role=combobox]", Keys.ENTER)
    screen.type(f"{DIALOG} [name=host]", host)
    screen.type(f"{DIALOG} [name=port]", port)
    screen.type(f"{DIALOG} [name=password]", interface.api_key)
    labels = {label.text for label in screen.all(f"{DIALOG} label")}
    assert {"Base URL", "API key"} <= labels
    assert not {"Login", "Schema"} & labels
    screen.picture("connection_standard_fields.png")
    screen.click(button("Extra Fields", dialog=True))
    screen.type(f"{DIALOG} [name=element_timeout]", "20")
    screen.picture("connection_extra_fields.png")
    screen.click(button("Save", dialog=True))
    screen.gone(DIALOG)

    row = "//tr[td[@data-testid='table-cell-connection_id'][.='stats']]"
    screen.click(f"{row}//button[@aria-label='Test Connection']")
    assert screen.read(f"{row}//button[@aria-label='Test Connection']//*[name()='svg']", "color") == "green"
    screen.picture("connection_tested.png")

    screen.click(f"{row}//button[@aria-label='Edit Connection']")
    assert screen.read(f"{DIALOG} [name=host]", "value") == host
    assert screen.read(f"{DIALOG} [name=port]", "value") == port
    assert interface.api_key not in screen.driver.page_source
    screen.picture("connection_reopened.png")
    screen.click(button("Extra Fields", dialog=True))
    assert screen.read(f"{DIALOG} [name=element_timeout]", "value") == "20"


def ended_run(interface: Interface, screen: Screen, dag_id: str, run_type: str) -> dict[str, Any]:
    """Return the newest run of this type once it has ended."""
    with interface.api() as api:

        def ended(_: object) -> Any:
            answer = api.get(
                f"{interface.url}/api/v2/dags/{dag_id}/dagRuns",
                params={"run_type": run_type, "order_by": "-run_after", "limit": "1"},
                timeout=PATIENCE,
            )
            return next((run for run in answer.json()["dag_runs"] if run["state"] in ("success", "failed")), None)

        run: dict[str, Any] = WebDriverWait(screen.driver, 2 * PATIENCE).until(ended)
    return run


def test_the_scheduler_loads_each_snapshot_that_it_took(interface: Interface, screen: Screen) -> None:
    interface.unpause("load_snapshot_into_duckdb")
    interface.unpause("nightly_website_snapshot")
    nightly = ended_run(interface, screen, "nightly_website_snapshot", "scheduled")
    assert nightly["state"] == "success"
    loaded = ended_run(interface, screen, "load_snapshot_into_duckdb", "asset_triggered")
    assert loaded["state"] == "success"
    run = f"{interface.url}/api/v2/dags/load_snapshot_into_duckdb/dagRuns/{loaded['dag_run_id']}"
    with interface.api() as api:
        [event] = api.get(f"{run}/upstreamAssetEvents", timeout=PATIENCE).json()["asset_events"]
        answered = api.get(f"{run}/taskInstances/answer/xcomEntries/return_value", timeout=PATIENCE).json()["value"]
    assert event["uri"] == "analytics://analytics_default/websites"
    assert (event["source_dag_id"], event["source_run_id"]) == ("nightly_website_snapshot", nightly["dag_run_id"])
    assert event["extra"]["count"] == 250
    assert [(night["night"], night["websites"]) for night in answered] == [(event["extra"]["snapshot_date"], 250)]


def test_the_nightly_dag_is_triggered_and_succeeds(interface: Interface, screen: Screen, tmp_path: Path) -> None:
    screen.driver.get(f"{interface.url}/dags/nightly_website_snapshot")
    screen.click(button("Trigger"))
    base_path = f"{DIALOG} [name=element_base_path]"
    # The dialog fills the field with the default only after it has been drawn.
    screen.wait(lambda _: screen.read(base_path, "value").startswith("file://"))
    screen.type(base_path, tmp_path.as_uri())
    screen.press(base_path, Keys.TAB)
    screen.click(button("Trigger", dialog=True))
    screen.gone(DIALOG)

    run = ended_run(interface, screen, "nightly_website_snapshot", "manual")
    untouched = {"accept": [], "force": False, "prune": False}
    assert (run["state"], run["conf"]) == ("success", {"base_path": tmp_path.as_uri(), **untouched})
    screen.driver.get(f"{interface.url}/dags/nightly_website_snapshot/runs/{run['dag_run_id']}")
    screen.wait(lambda _: screen.all("//*[normalize-space()='Success']"))
    screen.picture("run.png")
    [data] = tmp_path.glob("websites/dt=*/*.jsonl")
    assert len(data.read_text("utf-8").splitlines()) == 250


WEBSITES = """\
websites:
  www.new-harbour.example:
    privacy: private
    exclude_ips: [203.0.113.7]
  shop.new-harbour.example:
    privacy: public
    email: true
  sunny-garden.example.org:
    privacy: private
  mellow-drum.example.com:
    exclude_ips: [198.51.100.175, 203.0.113.7]
  docs.clear-garden.example:
    email: false
  rapid-falcon.example.org: # is so already
    email: false
"""
CREATED: dict[str, dict[str, Any]] = {
    "www.new-harbour.example": {"privacy": 1, "exclude_ips": "203.0.113.7"},
    "shop.new-harbour.example": {"privacy": 0, "email": 1},
}
UPDATED: dict[str, dict[str, Any]] = {
    "sunny-garden.example.org": {"privacy": 1},
    "mellow-drum.example.com": {"exclude_ips": "198.51.100.175\n203.0.113.7"},
    "docs.clear-garden.example": {"email": 0},
}


def test_websites_change_when_a_person_approves_the_plan(interface: Interface, screen: Screen, tmp_path: Path) -> None:
    (interface.dags / "websites.yaml").write_text(WEBSITES, "utf-8")
    before = interface.sandbox("websites")
    assert not any(website["domain"] in CREATED for website in before)
    interface.unpause("websites_as_code")
    with interface.api() as api:
        runs = f"{interface.url}/api/v2/dags/websites_as_code/dagRuns"
        conf = {"state_path": tmp_path.as_uri()}
        triggered = api.post(runs, json={"logical_date": None, "conf": conf}, timeout=PATIENCE)
        triggered.raise_for_status()

        run_id = triggered.json()["dag_run_id"]
        task = f"{runs}/{run_id}/taskInstances/approve"

        def settled(_: object) -> str | None:
            state: str | None = api.get(task, timeout=PATIENCE).json()["state"]
            return state if state in ("awaiting_input", "failed", "upstream_failed", "skipped") else None

        assert WebDriverWait(screen.driver, 2 * PATIENCE).until(settled) == "awaiting_input"

    # High enough for the whole plan and the buttons below it.
    screen.driver.set_window_size(1200, 1100)
    screen.driver.get(f"{interface.url}/required_actions?response_received=false")
    screen.click("//td//a[normalize-space()='Change the websites?']")
    screen.wait(lambda _: any(approve.is_enabled() for approve in screen.all(button("Approve"))))
    # Rendered, and not as the Markdown's own signs.
    assert screen.all("//strong[.='2 to create, 3 to update, 0 to delete']")
    headings = {heading.text for heading in screen.all("h3")}
    assert {"Create (2)", "Update (3)"} <= headings
    code = {element.text for element in screen.all("code")}
    assert {*CREATED, "sunny-garden.example.org (id 250)", "mellow-drum.example.com (id 3)"} <= code
    assert "docs.clear-garden.example (id 1)" in code
    assert not [text for text in code if "rapid-falcon" in text]
    screen.picture("approval.png")
    assert interface.sandbox("websites") == before

    screen.click(button("Approve"))
    run = ended_run(interface, screen, "websites_as_code", "manual")
    assert (run["dag_run_id"], run["state"]) == (run_id, "success")
    after = interface.sandbox("websites")
    assert after[: len(before)] == [{**website, **UPDATED.get(website["domain"], {})} for website in before]
    created = {website["domain"]: website for website in after[len(before) :]}
    assert created == {domain: {**created[domain], **settings} for domain, settings in CREATED.items()}
    writes = [request["operation"] for request in interface.sandbox("requests") if request["method"] != "GET"]
    assert sorted(writes) == ["create"] * 2 + ["update"] * 3
    audited = "".join(file.read_text("utf-8") for file in tmp_path.glob("audit/**/*.jsonl"))
    assert all(domain in audited for domain in (*CREATED, *UPDATED))


def test_ctrl_c_stops_everything(interface: Interface) -> None:
    started = psutil.Process(interface.process.pid).children(recursive=True)
    assert started
    interface.process.send_signal(signal.SIGINT)
    assert interface.process.wait(timeout=PATIENCE) == 0
    # A process that has ended is still seen until init has collected it.
    _, left = psutil.wait_procs(started, timeout=5)
    assert not left
    for url in (interface.url, interface.server):
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=PATIENCE)
