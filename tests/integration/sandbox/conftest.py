# SPDX-License-Identifier: Apache-2.0
"""A plain HTTP client for the sandbox tests, independent of the package's own client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from fixture_types import Call
from operations import PREFIX

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture(scope="session")
def _analytics_sandbox_server() -> Iterator[SandboxServer]:
    """Run the server with the options of users only, without the options of the fake services."""
    with SandboxServer() as server:
        yield server


@pytest.fixture
def call(analytics_sandbox: SandboxServer) -> Iterator[Call]:
    """Send a valid request: ``call("GET", "/websites", params=...)``."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {analytics_sandbox.api_key}"
        session.headers["Accept"] = "application/json"

        def send(method: str, path: str, **arguments: object) -> requests.Response:
            url = f"{analytics_sandbox.url}{PREFIX}{path}"
            return session.request(method, url, allow_redirects=False, timeout=10, **arguments)  # type: ignore[arg-type]

        yield send
