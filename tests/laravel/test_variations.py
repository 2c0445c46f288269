# SPDX-License-Identifier: Apache-2.0
"""Every step of a user, with the default settings, on a Laravel application in its variations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from dag_runs import RunDag
from fixture_types import Execute
from laravel_application import INSTALL, REFUSED, VARIATIONS, LaravelApplication, require_tools
from laravel_steps import run_steps
from samples import sample_dag

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, DeleteWebsiteOperator

_NO_LIST = "No record contains exclude_params"
_FULL = "You have reached the limit of websites of your plan"
#: Steps with a fourth website, and those that need it.
_FOURTH_WEBSITE = {
    **dict.fromkeys(("create operator", "create operator again", "create operator, update", "apply"), _FULL),
    **dict.fromkeys(("delete operator", "snapshot", "drift"), ""),
}
#: Variation to the steps that fail, because this service cannot do what they ask for, with a part of the reason. It is
#: empty if the step only needs an earlier one.
FAILING: dict[str, dict[str, str]] = {
    # A list that no record contains can be empty on each website, or hidden: nothing is merged into it.
    "null left out": {
        **dict.fromkeys(("sync parameters", "sync fewer parameters", "plan", "apply"), _NO_LIST),
        **dict.fromkeys(("plan after apply", "drift"), ""),
    },
    "empty values ignored": {"empty a list": "The service ignores an empty value of exclude_ips."},
    # After the first of these steps, the list is full.
    "lists cut at 255": {
        "set a long list": "The service kept the first 255 of 550 bytes of exclude_ips. Shorten the list.",
        **dict.fromkeys(("sync addresses", "sync addresses again"), "exclude_ips lacks 203.0.113.7"),
    },
    # The row of the deleted website still has its domain, and the domain must be unique.
    "soft deletes": {
        "create a deleted domain": "A deleted website, or one of another account, might have this domain."
    },
    # No row has the flag, so the filter cannot be checked.
    "rows without settings": dict.fromkeys(
        ("favorites", "others", "list operator"), "the rows do not contain favorite"
    ),
    # The interface says that a list is a text.
    "lists as objects": {
        **dict.fromkeys(
            ("create with settings", "set a list", "set a long list"), "This form of exclude_ips is not supported"
        ),
        **dict.fromkeys(("sync parameters", "sync fewer parameters"), "This form of exclude_params is not supported"),
        **dict.fromkeys(
            ("sync addresses", "sync addresses again", "apply", "plan after apply", "drift"),
            "This form is not supported",
        ),
    },
    # Three websites are allowed.
    "plan limit 403": _FOURTH_WEBSITE,
    "plan limit 422": _FOURTH_WEBSITE,
}


pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def require_php() -> None:
    require_tools({"php": INSTALL})


@pytest.mark.chosen(3)
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
        expected = FAILING.get(variation, {})
        assert failed.keys() == expected.keys(), "\n".join(f"{name}: {why}" for name, why in failed.items())
        assert [reason for name, reason in failed.items() if expected[name] not in reason] == []


@pytest.mark.parametrize("variation", REFUSED)
def test_form_that_is_not_in_the_table_is_refused_before_the_first_write(
    variation: str, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LaravelApplication(REFUSED[variation], websites=2) as application:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", application.connection_json())
        for operator in (CreateWebsiteOperator, DeleteWebsiteOperator):
            with pytest.raises((AnalyticsError, AirflowFailException), match="This form is not supported"):
                execute(operator, domain="new.example")


@pytest.mark.chosen
def test_redirect_names_the_base_url_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with LaravelApplication({"APP_REDIRECT": "https://stats.example/app"}) as application:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", application.connection_json())
        with AnalyticsHook() as hook, pytest.raises(AnalyticsError) as raised:
            hook.list_websites()
        assert "Set the Base URL to 'https://stats.example/app'." in str(raised.value)


@pytest.mark.chosen
def test_trial_of_a_service_that_requires_a_csrf_token_fails_at_once(
    run_dag: RunDag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LaravelApplication({"APP_CSRF": "1"}, websites=1) as application:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", application.connection_json())
        with AnalyticsHook() as hook:
            assert len(hook.list_websites()) == 1
            with pytest.raises(AnalyticsError, match="requires a CSRF token for writes"):
                hook.create_website("a.example")
        trial = run_dag(sample_dag("try_your_service", tmp_path), conf={"domain": "new.example"})
        assert (trial.tasks["create"].state, trial.tasks["create"].try_number) == ("failed", 1)


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
