# SPDX-License-Identifier: Apache-2.0
"""The sandbox responds as a real Laravel application does."""

from __future__ import annotations

import json

import pytest
from laravel_application import INSTALL, LaravelApplication, require_tools
from parity_requests import form_of, parity_requests

from airflow_provider_analytics.sandbox.server import SandboxServer

WEBSITES = 150


@pytest.mark.slow
@pytest.mark.chosen
def test_sandbox_responds_as_a_laravel_application() -> None:
    require_tools({"php": INSTALL})
    different = []
    with SandboxServer() as sandbox, LaravelApplication(websites=WEBSITES) as application:
        for number in range(1, WEBSITES + 1):
            sandbox.add_website(f"site-{number}.example")
        sent = list(parity_requests())
        for request in sent:
            ours, real = (
                json.dumps(form_of(request.send(server.url, server.api_key), server.url), sort_keys=True)
                for server in (sandbox, application)
            )
            if ours != real:
                different.append(f"{request}\n  sandbox {ours}\n  Laravel {real}")
    assert len(sent) >= 300
    assert not different, "\n".join([f"{len(different)} of {len(sent)} requests", *different])
