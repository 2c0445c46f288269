# SPDX-License-Identifier: Apache-2.0
"""pytest plugin with the fixture ``analytics_sandbox``; loading it imports neither Starlette nor uvicorn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture(scope="session")
def _analytics_sandbox_server() -> Iterator[SandboxServer]:
    from airflow_provider_analytics.sandbox.server import SandboxServer

    with SandboxServer() as server:
        yield server


@pytest.fixture
def analytics_sandbox(_analytics_sandbox_server: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> SandboxServer:
    """A local server that implements the analytics interface, reset before each test.

    It has no websites, default options and no faults. During the test, Airflow's connection ``analytics_default``
    points to it.
    """
    _analytics_sandbox_server.reset()
    for name, value in _analytics_sandbox_server.connection_env.items():
        monkeypatch.setenv(name, value)
    return _analytics_sandbox_server
