"""The sandbox against its own OpenAPI description, which states the interface for machines."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from contract_table import STATEMENTS, proves
from hypothesis import HealthCheck, Phase, given, settings
from operations import OPERATIONS, PREFIX, endpoints

from airflow_provider_analytics.sandbox.server import SandboxServer

ENDPOINTS = [(method, f"{PREFIX}{path}") for _, method, path in endpoints(website_id="{id}")]


@proves(
    "operation-list", "operation-show", "operation-create", "operation-update", "operation-delete", "operation-account"
)
def test_the_description_has_the_operations_and_no_other(sandbox: SandboxServer) -> None:
    schema = schemathesis.openapi.from_url(f"{sandbox.url}/openapi.json")
    found = [(result.ok().method.upper(), result.ok().path) for result in schema.get_all_operations()]  # type: ignore[union-attr]
    assert sorted(found) == sorted(ENDPOINTS)


#: Headers that say where a request ends.
FRAMING = {"content-length", "transfer-encoding", "connection", "expect", "host", "upgrade"}
RIGHT, WRONG = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    # The account has no parameter that could be wrong.
    [
        (*endpoint, mode)
        for endpoint in ENDPOINTS
        for mode in (RIGHT, WRONG)
        if (endpoint[1], mode) != (f"{PREFIX}/account", WRONG)
    ],
)
def test_the_sandbox_answers_as_it_is_described(
    sandbox: SandboxServer, method: str, path: str, mode: schemathesis.GenerationMode
) -> None:
    schema = schemathesis.openapi.from_url(f"{sandbox.url}/openapi.json")
    sandbox.seed(5)
    operation = schema[path][method]
    # That a domain is taken is no matter of its form.
    sandbox.configure(allow_duplicates=True)
    phases = [phase for phase in Phase if phase not in (Phase.reuse, Phase.explain)]

    @settings(max_examples=15, deadline=None, database=None, derandomize=True, phases=phases,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        for name in [name for name in case.headers if name.lower() in FRAMING]:
            del case.headers[name]  # an invented one breaks the request, and no rule of the description
        case.call_and_validate(headers={"Authorization": f"Bearer {sandbox.api_key}", "Accept": "application/json"})

    run()


def test_statements_name_no_operation_that_the_description_lacks() -> None:
    stated = {statement.id for statement in STATEMENTS if statement.id.startswith("operation-")}
    assert stated == {f"operation-{name}" for name in OPERATIONS}
    assert len(stated) == 6
