# SPDX-License-Identifier: Apache-2.0
"""Verification: no argument and no extra lets a task succeed without reading its writes back (``operators``)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import BaseOperator
from field_values import VALUES
from sync_operators import SYNC_OPERATORS, WEBSITE_OPERATORS

from airflow_provider_analytics.hooks.connection import EXTRAS
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Each writing operator, with arguments that make it write.
WRITES: dict[type[BaseOperator], dict[str, Any]] = {
    CreateWebsiteOperator: {"domain": "new.example"},
    **{operator: {"website_id": 1} for name, operator in WEBSITE_OPERATORS.items() if name != "show"},
    UpdateWebsiteOperator: {"website_id": 1, "privacy": "private"},
    **{operator: {name: VALUES[name].given} for name, operator in SYNC_OPERATORS.items()},
    ApplyWebsitesOperator: {"config": {"websites": {"a.example": {"privacy": "private"}}}},
}
#: Values with which an argument might turn something off or on.
SWITCHES = (True, False, "skip")


def arguments(operator: type[BaseOperator]) -> Iterator[str]:
    for item in operator.__mro__[: operator.__mro__.index(BaseOperator)]:
        if "__init__" in vars(item):
            found = inspect.signature(inspect.unwrap(vars(item)["__init__"])).parameters.values()
            yield from (parameter.name for parameter in found if parameter.kind is parameter.KEYWORD_ONLY)


@pytest.fixture
def write(sandbox: SandboxServer) -> Callable[..., bool]:
    """Run an operator; return whether it succeeded after a write without a later read."""

    def writing(operator: type[BaseOperator], **more: Any) -> bool:
        sandbox.reset()
        sandbox.add_website("a.example")
        sandbox.clear_requests()
        try:
            operator(task_id="task", **{**WRITES[operator], **more}).execute({})
        except Exception:
            return False
        kinds = [request.method for request in sandbox.requests]
        return kinds != [] and kinds[-1] != "GET"

    return writing


@pytest.mark.parametrize("operator", WRITES)
def test_arguments_cannot_turn_verification_off(
    operator: type[BaseOperator], write: Callable[..., bool], sandbox: SandboxServer
) -> None:
    assert not write(operator)
    assert {request.method for request in sandbox.requests} > {"GET"}, "the example writes nothing"
    found = [
        f"{name}={value!r}"
        for name in dict.fromkeys(arguments(operator))
        if name not in (*WRITES[operator], "analytics_conn_id")
        for value in SWITCHES
        if write(operator, **{name: value})
    ]
    assert not found, f"{operator.__name__} does not read what it wrote with {', '.join(found)}"


def test_extras_cannot_turn_verification_off(write: Callable[..., bool], connect: Callable[..., None]) -> None:
    given = {"verify": "false", "update_method": "PUT", "max_retries": "0"}
    for name in EXTRAS:
        connect("analytics_default", extra={name: given.get(name, "1")})
        for operator in (CreateWebsiteOperator, UpdateWebsiteOperator, DeleteWebsiteOperator):
            assert not write(operator), f"{operator.__name__} does not read what it wrote with the extra {name}"
