# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    return analytics_sandbox
