# SPDX-License-Identifier: Apache-2.0
"""Positions on the screens of Airflow 3.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from browser import Screen
from selenium.webdriver.common.keys import Keys

DIALOG = "[role=dialog][data-state=open]"


def button(text: str, *, dialog: bool = False) -> str:
    within = "//*[@role='dialog'][@data-state='open']" if dialog else ""
    return f"{within}//button[normalize-space()='{text}']"


class Screens:
    """Actions of a person in the web interface; each ends on the visible result."""

    def __init__(self, screen: Screen, url: str) -> None:
        self.screen = screen
        self.url = url

    def log_in(self, user: str, password: str) -> None:
        self.screen.open(self.url)
        self.screen.type("[name=username]", user)
        self.screen.type("[name=password]", password)
        self.screen.click("button[type=submit]")
        self.screen.wait(lambda driver: "/auth/" not in driver.current_url)

    def new_connection(self, conn_id: str, fields: Mapping[str, Any]) -> None:
        """Fill in the form of a new connection, up to its extras."""
        self.screen.open(f"{self.url}/connections")
        self.screen.click(button("Add Connection"))
        self.screen.type(f"{DIALOG} [name=connection_id]", conn_id)
        self.screen.type(f"{DIALOG} [role=combobox]", "Website Analytics")
        self.screen.press(f"{DIALOG} [role=combobox]", Keys.ENTER)
        for name in ("host", "port", "password"):
            self.screen.type(f"{DIALOG} [name={name}]", str(fields[name]))

    def extras(self) -> None:
        """Display the extras of the connection in the form."""
        self.screen.click(button("Extra Fields", dialog=True))
        self.screen.shown(f"{DIALOG} [name=element_timeout]")

    def fill_in_timeout(self, seconds: str) -> None:
        self.screen.type(f"{DIALOG} [name=element_timeout]", seconds)

    def save_connection(self) -> None:
        self.screen.click(button("Save", dialog=True))
        self.screen.gone(DIALOG)

    def test_connection(self, conn_id: str, fields: Mapping[str, Any], said: str) -> str | None:
        """Press the button that tests a saved connection; wait for its message, and return its color, if any."""
        self.screen.open(f"{self.url}/connections")
        tested = (
            f"//tr[td[@data-testid='table-cell-connection_id'][.='{conn_id}']]//button[@aria-label='Test Connection']"
        )
        self.screen.click(tested)
        self.screen.sees(said)  # at once, because it disappears
        icon = f"{tested}//*[name()='svg']"
        self.screen.wait(lambda _: self.screen.read(icon, "color") in ("green", "red"))
        return self.screen.read(icon, "color")

    def edit_connection(self, conn_id: str) -> None:
        """Open a saved connection."""
        self.screen.open(f"{self.url}/connections")
        row = f"//tr[td[@data-testid='table-cell-connection_id'][.='{conn_id}']]"
        self.screen.click(f"{row}//button[@aria-label='Edit Connection']")
        self.screen.shown(f"{DIALOG} [name=host]")

    def timeout(self) -> str:
        return self.screen.read(f"{DIALOG} [name=element_timeout]", "value")

    def trigger_form(self, dag_id: str) -> str:
        """Open the form that triggers a DAG, and return its text."""
        self.screen.open(f"{self.url}/dags/{dag_id}")
        self.screen.click(button("Trigger"))
        # It is drawn in steps, and its Params are last.
        self.screen.shown(button("Advanced Options", dialog=True))
        [form] = self.screen.all(DIALOG)
        return form.text

    def choices(self) -> None:
        """Open the drop-down of the Param whose value is a list."""
        self.screen.click(f"{DIALOG} [aria-label='Select one or multiple values']")

    def trigger(self) -> None:
        """Send the form."""
        self.screen.click(button("Trigger", dialog=True))
        self.screen.gone(DIALOG)

    def log(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Open the log of a task."""
        self.screen.open(f"{self._task(dag_id, run_id, task_id)}?try_number=1")

    def fold_traceback(self) -> None:
        """Fold an error until only its message is visible."""
        what_it_says = "//summary[contains(., 'Exception: ')]"
        self.screen.shown(what_it_says)
        # A click of the driver would scroll the log first.
        self.screen.driver.execute_script("arguments[0].click()", self.screen.all(what_it_says)[0])

    def _task(self, dag_id: str, run_id: str, task_id: str) -> str:
        return f"{self.url}/dags/{dag_id}/runs/{quote(run_id)}/tasks/{task_id}"

    def assets(self) -> None:
        """Open the list of assets."""
        self.screen.open(f"{self.url}/assets")

    def asset(self, uri: str) -> None:
        """Open the page of an asset, from the list."""
        self.assets()
        self.screen.click(f"//a[.='{uri}']")
