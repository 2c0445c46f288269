# SPDX-License-Identifier: Apache-2.0
"""Every step of a user, with the default settings, on a Laravel application in its variations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fixture_types import Execute
from laravel_application import INSTALL, VARIATIONS, LaravelApplication, require_tools
from laravel_steps import run_steps

#: Variation to the steps that fail, because this service cannot do what they ask for.
_CREATE_OPERATOR = {
    "create operator",
    "create operator again",
    "create operator, update",
    "delete operator",
    "snapshot",
    "apply",
    "drift",
}
FAILING: dict[str, set[str]] = {
    # A list that no record contains can be empty on each website, or hidden: nothing is merged into it.
    "null left out": {
        "sync parameters",
        "sync fewer parameters",
        "plan",
        "apply",
        "plan after apply",
        "drift",
    },
    "empty values ignored": {"empty a list"},
    "lists cut at 255": {"set a long list", "sync addresses", "sync addresses again"},
    "soft deletes": {"create a deleted domain"},
    "plan limit 403": _CREATE_OPERATOR,
    "plan limit 422": _CREATE_OPERATOR,
}


@pytest.mark.slow
@pytest.mark.chosen(6)
@pytest.mark.parametrize("variation", VARIATIONS)
def test_steps_pass_with_the_default_settings(
    variation: str,
    execute: Execute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    require_tools({"php": INSTALL})
    monkeypatch.setenv("AIRFLOW_VAR_PAGE_PASSWORD", "secret-of-a-page")
    with LaravelApplication(VARIATIONS[variation]) as application:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", application.connection_json())
        outcome = run_steps(execute, tmp_path)
        failed = {name: reason for name, reason in outcome.items() if reason}
        passed = f"{len(outcome) - len(failed)} of {len(outcome)}"
        record_property("variation", f"{variation:35} {passed}  {', '.join(failed)}")
        assert failed.keys() == FAILING.get(variation, set()), "\n".join(
            f"{name}: {why}" for name, why in failed.items()
        )
