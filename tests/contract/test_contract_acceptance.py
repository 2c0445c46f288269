# SPDX-License-Identifier: Apache-2.0
"""Statements of the interface, verified by an acceptance run on the sandbox, other servers, and a real server.

``make acceptance CONN=...`` verifies a real server. CONN is an Airflow connection as URI or JSON.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from contract_table import STATEMENTS as INTERFACE
from contract_table import proves
from fake_services import FakeService
from framework_servers import FRAMEWORKS, KEY

from airflow_provider_analytics.acceptance.run import AcceptanceRun
from airflow_provider_analytics.acceptance.statements import REPEATED, STATEMENTS, StatementResult
from airflow_provider_analytics.api.settings import Settings

#: Name of the environment variable with the connection of a real server.
CONNECTION = "ACCEPTANCE_CONN"
REAL = "real server"
SERVERS = [REAL] if CONNECTION in os.environ else ["sandbox", *FRAMEWORKS]
#: Server to statements that are not true for it, with their marks.
DIFFERENCES = {
    # A PUT of Django REST framework needs the whole record.
    "django": {"update-methods": "note"},
    "go": {"update-methods": "SET"},
}


@contextmanager
def settings_of(server: str) -> Iterator[Settings]:
    """Run a server, and yield the settings of its client."""
    if server == REAL:
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook

        os.environ["AIRFLOW_CONN_ACCEPTANCE"] = os.environ[CONNECTION]
        with AnalyticsHook("acceptance") as hook:
            yield hook.client.settings
    elif server == "sandbox":
        with FakeService() as service:
            service.seed(30)
            yield Settings(base_url=service.url, api_key=service.api_key)
    else:
        with FRAMEWORKS[server]() as framework:
            for number in range(30):
                framework.add(f"shop-{number}.example")
            yield Settings(base_url=framework.url, api_key=KEY)


@functools.cache
def findings_of(server: str) -> dict[str, StatementResult]:
    """Return the findings of one acceptance run."""
    with settings_of(server) as settings:
        run = AcceptanceRun(settings)
        run.run()
    assert run.not_removed is None, run.not_removed
    return run.findings


@proves(*(name for name in STATEMENTS if name != REPEATED))
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_statement_is_true_for_the_server(server: str, statement: str) -> None:
    finding = findings_of(server)[statement]
    text = f"{finding.statement} Seen: {finding.seen} The tasks {finding.tasks}. Extras: {finding.extras}"
    if server == REAL and finding.mark in ("?", "note"):
        pytest.skip(text)
    assert finding.mark == DIFFERENCES.get(server, {}).get(statement, "ok"), text


def test_statements_have_the_text_of_the_interface() -> None:
    interface = {statement.id: statement.text for statement in INTERFACE}
    texts = {name: text for name, text in STATEMENTS.items() if name != REPEATED}
    assert texts == {name: interface[name] for name in texts}
    # Each field of an update has a statement.
    operations = {name for name in interface if name.startswith("operation-")} - {"operation-update"}
    missing = sorted(operations - STATEMENTS.keys())
    assert not missing, "Add these statements to airflow_provider_analytics/acceptance/statements.py."


def test_make_target_does_not_print_the_connection() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    [recipe] = [line for line in makefile.splitlines() if CONNECTION in line]
    assert recipe.startswith("\t@")
