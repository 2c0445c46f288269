# SPDX-License-Identifier: Apache-2.0
"""Every step of a user, with the default settings, on a Laravel application in its variations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dag_runs import RunDag
from fixture_types import Execute
from laravel_application import INSTALL, VARIATIONS, LaravelApplication, require_tools
from laravel_steps import run_steps
from samples import sample_dag

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook

#: Steps with a fourth website, and those that need it.
_FOURTH_WEBSITE = {
    "create operator",
    "create operator again",
    "create operator, update",
    "delete operator",
    "snapshot",
    "apply",
    "drift",
}
#: Variation to the steps that fail, because this service cannot do what they ask for.
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
    # It takes an empty text as not sent.
    "empty values ignored": {"empty a list"},
    # Each of these lists would be longer.
    "lists cut at 255": {"set a long list", "sync addresses", "sync addresses again"},
    # The row of the deleted website still has its domain, and the domain must be unique.
    "soft deletes": {"create a deleted domain"},
    # Three websites are allowed.
    "plan limit 403": _FOURTH_WEBSITE,
    "plan limit 422": _FOURTH_WEBSITE,
}


pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def require_php() -> None:
    require_tools({"php": INSTALL})


@pytest.mark.chosen(6)
@pytest.mark.parametrize("variation", VARIATIONS)
def test_steps_pass_with_the_default_settings(
    variation: str,
    execute: Execute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
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


@pytest.mark.chosen
def test_redirect_names_the_base_url_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with LaravelApplication({"APP_REDIRECT": "https://stats.example/app"}) as application:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", application.connection_json())
        with AnalyticsHook() as hook, pytest.raises(AnalyticsError) as raised:
            hook.list_websites()
        assert "Set the Base URL to 'https://stats.example/app'." in str(raised.value)


@pytest.mark.chosen
def test_service_that_requires_a_csrf_token_can_only_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with LaravelApplication({"APP_CSRF": "1"}, websites=1) as application:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", application.connection_json())
        with AnalyticsHook() as hook:
            assert len(hook.list_websites()) == 1
            with pytest.raises(AnalyticsError, match="CSRF token mismatch"):
                hook.create_website("a.example")


@pytest.mark.chosen
def test_samples_run_on_a_laravel_application(run_dag: RunDag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LaravelApplication(websites=150) as application:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", application.connection_json())
        night = run_dag(sample_dag("nightly_website_snapshot", tmp_path))
        assert (night.state, night.tasks["snapshot"].returned["count"]) == ("success", 150)
        trial = run_dag(sample_dag("try_your_service", tmp_path), conf={"domain": "new.example"})
        assert trial.state == "success"
        next_night = run_dag(sample_dag("nightly_website_snapshot", tmp_path))
        assert (next_night.state, next_night.tasks["snapshot"].returned["count"]) == ("success", 150)
