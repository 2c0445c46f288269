"""No argument of an operator, and no extra of the connection, makes a task succeed that has not read what it wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_analytics.hooks.connection import EXTRAS
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Each operator that writes, with arguments that make it write.
WRITES: dict[Any, dict[str, Any]] = {
    CreateWebsiteOperator: {"domain": "new.example"},
    UpdateWebsiteOperator: {"website_id": 1, "privacy": "private"},
    DeleteWebsiteOperator: {"website_id": 1},
    SyncExcludedIpsOperator: {"exclude_ips": ["192.0.2.1"]},
    SyncExcludedParamsOperator: {"exclude_params": ["a"]},
    ApplyWebsitesOperator: {"config": {"websites": {"a.example": {"privacy": "private"}}}},
}
EXTRA_VALUES = {"verify": "false", "update_method": "PUT", "max_retries": "0", "boolean_format": "1/0"}


@pytest.mark.parametrize("operator", WRITES)
def test_no_argument_and_no_extra_does(
    operator: Any, sandbox: SandboxServer, connect_sandbox: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.reconcile.apply.SETTLE_SECONDS", 0)

    def succeeds_after_a_write(**more: Any) -> bool:
        sandbox.reset()
        sandbox.add_website("a.example")
        sandbox.clear_requests()
        try:
            operator(task_id="task", **{**WRITES[operator], **more}).execute({})
        except Exception:
            return False
        return [request.method for request in sandbox.requests][-1:] not in ([], ["GET"])

    assert not succeeds_after_a_write()
    assert {request.method for request in sandbox.requests} > {"GET"}, "the example writes nothing"
    names = {name.removeprefix("is_") for name in operator.template_fields} - {*WRITES[operator], "analytics_conn_id"}
    for name in names:
        for value in (True, False, "skip"):
            assert not succeeds_after_a_write(**{name: value}), f"{name}={value!r}"
    for name in EXTRAS:
        connect_sandbox("analytics_default", extra={name: EXTRA_VALUES.get(name, "1")})
        assert not succeeds_after_a_write(), name
