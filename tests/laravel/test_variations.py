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
FAILING: dict[str, set[str]] = {}


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
        record_property("variation", f"{variation:35} {len(outcome) - len(failed):3} of {len(outcome)}")
        assert failed.keys() == FAILING.get(variation, set()), (failed, application.log())
