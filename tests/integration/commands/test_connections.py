# SPDX-License-Identifier: Apache-2.0
"""Where the commands find a connection (``commands/connections.py``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.models import Connection
from airflow.utils.session import create_session

from airflow_provider_analytics.commands import main
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.mark.usefixtures("airflow_database")
def test_connection_of_the_database_is_found_outside_a_task(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Airflow 3 reads the database only in a process of its server."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")  # so that it is as before after the test
    monkeypatch.delenv("_AIRFLOW_PROCESS_CONTEXT")
    file = tmp_path / "websites.yaml"
    file.write_text("websites: {}")
    fields = json.loads(analytics_sandbox.connection_json())
    stored = Connection(conn_id="stored", conn_type="analytics", host=fields["host"], password=fields["password"])
    with create_session() as session:
        session.add(stored)
    try:
        assert main(["plan", str(file), "--conn-id", "stored"]) == 0
    finally:
        with create_session() as session:
            session.query(Connection).filter(Connection.conn_id == "stored").delete()
    assert analytics_sandbox.requests
