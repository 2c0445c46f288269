# SPDX-License-Identifier: Apache-2.0
"""Positions on the screens of Airflow 2.11; the module for Airflow 3 documents each method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from browser import Screen


class Screens:
    """Actions of a person in the web interface; each ends on the visible result."""

    def __init__(self, screen: Screen, url: str) -> None:
        self.screen = screen
        self.url = url

    def log_in(self, user: str, password: str) -> None:
        self.screen.open(f"{self.url}/login/")
        self.screen.type("[name=username]", user)
        self.screen.type("[name=password]", password)
        self.screen.click("input[type=submit]")
        self.screen.wait(lambda driver: "/login" not in driver.current_url)

    def new_connection(self, conn_id: str, fields: Mapping[str, Any]) -> None:
        self.screen.open(f"{self.url}/connection/add")
        self.screen.click("#select2-conn_type-container")
        self.screen.type(".select2-search__field", "Website Analytics")
        self.screen.click("//li[contains(@class, 'select2-results__option')][.='Website Analytics']")
        self.screen.type("[name=conn_id]", conn_id)
        for name in ("host", "port", "password"):
            self.screen.type(f"[name={name}]", str(fields[name]))

    def extras(self) -> None:
        self.screen.to("#extra__analytics__timeout")

    def fill_in_timeout(self, seconds: str) -> None:
        self.screen.type("[name=extra__analytics__timeout]", seconds)

    def save_connection(self) -> None:
        self.screen.click("//button[normalize-space()='Save']")
        self.screen.gone("#test-connection")

    def test_connection(self, conn_id: str, fields: Mapping[str, Any], said: str) -> str | None:
        """The form tests its current values, so the key has to be entered again. Every result is yellow."""
        self.edit_connection(conn_id)
        self.screen.type("[name=password]", fields["password"])
        self.screen.click("#test-connection")
        # The result replaces a warning at the top of the page, whose button is at the bottom.
        self.screen.to(".alert-success, .alert-error")
        self.screen.sees(said)
        return None

    def edit_connection(self, conn_id: str) -> None:
        self.screen.open(f"{self.url}/connection/list/?{urlencode({'_flt_3_conn_id': conn_id})}")
        self.screen.click("a[href*='/connection/edit/']")
        self.screen.wait(lambda _: self.screen.read("[name=conn_id]", "value") == conn_id)

    def timeout(self) -> str:
        return self.screen.read("[name=extra__analytics__timeout]", "value")

    def trigger_form(self, dag_id: str) -> str:
        self.screen.open(f"{self.url}/dags/{dag_id}/trigger")
        self.screen.shown("#trigger_form")
        [form] = self.screen.all("#trigger_form")
        return form.text

    def choices(self) -> None:
        """Open the drop-down of the Param whose value is a list."""
        self.screen.click("#trigger_form .select2-container")

    def trigger(self) -> None:
        self.screen.click("//form[@id='trigger_form']//button[normalize-space()='Trigger']")
        self.screen.wait(lambda driver: not driver.current_url.endswith("/trigger"))

    def log(self, dag_id: str, run_id: str, task_id: str) -> None:
        self._task(dag_id, run_id, task_id, "logs")

    def fold_traceback(self) -> None:
        """It cannot be folded there, and the message of the error is below it."""

    def _task(self, dag_id: str, run_id: str, task_id: str, tab: str) -> None:
        chosen = urlencode({"dag_run_id": run_id, "task_id": task_id, "tab": tab}, quote_via=quote)
        self.screen.open(f"{self.url}/dags/{dag_id}/grid?{chosen}")

    def assets(self) -> None:
        self.screen.open(f"{self.url}/datasets?tab=datasets")

    def asset(self, uri: str) -> None:
        self.screen.open(f"{self.url}/datasets?{urlencode({'uri': uri})}")
