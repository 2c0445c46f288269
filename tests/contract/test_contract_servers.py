# SPDX-License-Identifier: Apache-2.0
"""Statements about writes on the sandbox, on other servers, and on a real server.

``make acceptance CONN=...`` runs these tests on a real server. CONN is an Airflow connection as URI or JSON. They
create one website, and delete only this one.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contract_table import proves
from fake_services import FakeService
from field_values import VALUES
from laravel_application import INSTALL, LaravelApplication, require_tools
from wire_client import client_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import differing_fields

#: Name of the environment variable with the connection of a real server.
CONNECTION = "ACCEPTANCE_CONN"
REAL = "real server"
LARAVEL = "laravel"
SERVERS = [REAL] if CONNECTION in os.environ else ["sandbox", LARAVEL]
#: Settings that differ from those of a new website. Each is sent alone.
UPDATES = {name: value.given for name, value in VALUES.items() if name != "password"}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[AnalyticsClient]:
    """Run a server, and return its client."""
    if request.param == REAL:
        from airflow_provider_analytics.hooks.analytics import AnalyticsHook

        os.environ["AIRFLOW_CONN_ACCEPTANCE"] = os.environ[CONNECTION]
        with AnalyticsHook("acceptance") as hook:
            yield hook.client
    elif request.param == LARAVEL:
        require_tools({"php": INSTALL})
        with (
            LaravelApplication(websites=1) as application,
            client_of(application.url, api_key=application.api_key) as client,
        ):
            yield client
    else:
        with FakeService() as service, client_of(service.url, api_key=service.api_key) as client:
            yield client


@proves("operation-list", "operation-show", "operation-create", "operation-update", "operation-delete")
@proves("update-no-defaults", "rule-lines", "search", "favorite-filter")
def test_website_is_created_changed_found_and_deleted_on_each_server(server: AnalyticsClient) -> None:
    domain = f"acceptance-{secrets.token_hex(8)}.example.invalid"
    created = server.ensure_website(domain)
    assert created.created
    website_id = str(created.record["id"])
    try:
        assert not server.ensure_website(domain).created
        expected: dict[str, Any] = {}
        for name, value in UPDATES.items():
            expected[name] = value
            written = server.update_website(website_id, **{name: value})
            # The service also keeps the values of all earlier updates.
            assert (written.sent, differing_fields(written.record, expected)) == (True, [])
            assert not server.update_website(website_id, **{name: value}).sent
        for filters in ({"search": domain, "search_by": "domain"}, {"favorite": True}, {}):
            assert website_id in {str(row["id"]) for row in server.list_websites(**filters)}
    finally:
        server.delete_website(website_id)
    assert server.find_website(domain) is None


def test_make_target_does_not_print_the_connection() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    [recipe] = [line for line in makefile.splitlines() if CONNECTION in line]
    assert recipe.startswith("\t@")
