"""The hook as others see it: names, signatures, what the connection screens show, and when it does anything."""

from __future__ import annotations

import inspect
import json
import socket
import subprocess
import sys
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import BaseHook
from airflow_versions import needs_the_form_of_the_hook, needs_the_form_of_the_provider_info, needs_wtforms
from reference import signature_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.hooks.connection import EXTRAS

FILTERS = "search search_by favorite sort_by sort per_page"
CREATE = "privacy password email exclude_bots exclude_params exclude_ips"
#: Method to its positional and its keyword-only arguments.
METHODS = {
    "list_websites": ("", FILTERS),
    "iter_websites": ("", FILTERS),
    "get_website": ("website_id", ""),
    "find_website": ("domain", ""),
    "create_website": ("domain", CREATE),
    "ensure_website": ("domain", CREATE),
    "update_website": ("website_id", f"{CREATE} favorite"),
    "delete_website": ("website_id", ""),
    "get_account": ("", ""),
    "test_connection": ("", ""),
    "get_conn": ("", ""),
    "close": ("", ""),
}


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> str:
    fields = {"conn_type": "analytics", "host": "https://stats.example.com", "password": "k3y"}
    monkeypatch.setenv("AIRFLOW_CONN_STATS", json.dumps(fields))
    return "stats"


@pytest.mark.parametrize(("name", "arguments"), METHODS.items(), ids=METHODS)
def test_signature(name: str, arguments: tuple[str, str]) -> None:
    parameters = list(signature_of(getattr(AnalyticsHook, name)).parameters.values())[1:]
    assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == arguments[0].split()
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == arguments[1].split()
    assert len(parameters) == len(" ".join(arguments).split())
    assert all(p.default is None for p in parameters if p.kind is p.KEYWORD_ONLY)


def test_there_are_no_other_public_names() -> None:
    inherited = set(dir(BaseHook))
    form = {"get_connection_form_widgets", "get_ui_field_behaviour"}
    marks = {"conn_name_attr", "default_conn_name", "conn_type", "hook_name"}
    found = {name for name in dir(AnalyticsHook) if not name.startswith("_")} - inherited
    assert found - form - marks == (set(METHODS) | {"client", "stop", "where"}) - inherited


def test_airflow_finds_its_marks() -> None:
    assert AnalyticsHook.conn_name_attr == "analytics_conn_id"
    assert AnalyticsHook.default_conn_name == "analytics_default"
    assert AnalyticsHook.conn_type == "analytics"
    assert AnalyticsHook.hook_name == "Website Analytics"
    assert list(inspect.signature(AnalyticsHook).parameters) == ["analytics_conn_id"]
    assert AnalyticsHook().analytics_conn_id == "analytics_default"


def test_making_a_hook_reads_nothing_and_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        pytest.fail("A hook that is not used yet did something.")

    monkeypatch.setattr(BaseHook, "get_connection", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    with AnalyticsHook("there is no such connection") as hook:
        hook.close()


def test_making_a_client_opens_nothing(connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        pytest.fail("A client that is not used yet opened a socket.")

    hook = AnalyticsHook(connection)
    monkeypatch.setattr(socket, "socket", refuse)
    assert hook.client.base_url == "https://stats.example.com"
    hook.close()


def test_one_hook_has_one_client(connection: str) -> None:
    with AnalyticsHook(connection) as hook:
        assert isinstance(hook.client, AnalyticsClient)
        assert hook.client is hook.get_conn()


def test_the_key_is_neither_in_the_hook_nor_in_its_client(connection: str) -> None:
    with AnalyticsHook(connection) as hook:
        assert "k3y" not in f"{hook!r} {hook.client!r} {hook.client.settings!r}"


def test_a_bad_connection_is_told_at_first_use_and_by_the_test_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STATS", '{"conn_type": "analytics", "extra": {"timeuot": 1}}')
    hook = AnalyticsHook("stats")
    with pytest.raises(AnalyticsConfigError, match="connection 'stats'"):
        hook.get_account()
    worked, message = hook.test_connection()
    assert not worked
    for part in ("Base URL", "API key", "'timeout'", "Correct this connection."):
        assert part in message


def test_field_behaviour_is_that_of_the_provider_info() -> None:
    behaviour = AnalyticsHook.get_ui_field_behaviour()
    assert set(behaviour) == {"hidden_fields", "relabeling", "placeholders"}
    # The port is shown: from 3.3.1 on, Airflow's Test button needs one on a saved connection.
    assert {"login", "schema"} == set(behaviour["hidden_fields"])
    assert set(behaviour["relabeling"]) == {"host", "password", "port"}
    declared = CONNECTION_TYPE["ui-field-behaviour"]
    assert {name.replace("_", "-"): value for name, value in behaviour.items()} == declared


def test_the_form_has_a_field_for_every_extra() -> None:
    assert list(CONNECTION_TYPE["conn-fields"]) == list(EXTRAS)
    for name, field in CONNECTION_TYPE["conn-fields"].items():
        # A type without null is a field that has to be filled in.
        assert "null" in field["schema"]["type"], name
        # Airflow shows every member of an enum as a choice; Airflow 2 has text fields, whose help names the choices.
        choices = field["schema"].get("enum", [])
        assert None not in choices
        for choice in choices:
            assert choice in field["description"]


@needs_wtforms
def test_the_form_of_airflow_2_has_a_field_for_every_extra() -> None:
    from wtforms import Form

    widgets = AnalyticsHook.get_connection_form_widgets()
    assert list(widgets) == list(EXTRAS)
    form = type("ConnectionForm", (Form,), widgets)()
    for field in form:
        assert str(field.label.text) == CONNECTION_TYPE["conn-fields"][field.name]["label"]
        assert f'name="{field.name}"' in str(field())


@needs_wtforms
def test_the_form_of_airflow_2_shows_a_mapping_as_it_is_entered() -> None:
    from wtforms import Form

    form = type("ConnectionForm", (Form,), AnalyticsHook.get_connection_form_widgets())()
    # As Airflow does: the value of the extra, and no text.
    form.headers.data = {"X-Team": "web"}
    form.timeout.data = 20
    assert "{&#34;X-Team&#34;: &#34;web&#34;}" in str(form.headers())
    assert hasattr(form.headers(), "__html__")  # no text, which the page would show with its signs
    assert 'value="20"' in str(form.timeout())
    assert 'value=""' in str(form.verify())


@needs_the_form_of_the_hook
def test_airflow_2_shows_the_form() -> None:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()  # type: ignore[no-untyped-call]
    shown = {
        info.field_name: info
        for name, info in manager.connection_form_widgets.items()
        if name.startswith("extra__analytics__")
    }
    assert set(shown) == set(EXTRAS)
    behaviour = manager.field_behaviours["analytics"]
    assert behaviour["relabeling"]["password"] == "API key"
    assert set(behaviour["hidden_fields"]) == {"login", "schema"}


#: In a process of its own: a hook that was imported before has no form of Airflow 3.1 any more.
SHOWN = """
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
found = next(meta for meta in HookMetaService.hook_meta_data() if meta.connection_type == "analytics")
print("\\n" + found.model_dump_json())
"""


@pytest.mark.slow
@needs_the_form_of_the_provider_info
def test_airflow_3_shows_the_form() -> None:
    answer = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, check=True)
    found = json.loads(answer.stdout.splitlines()[-1])
    assert found["hook_name"] == "Website Analytics"
    assert found["hook_class_name"] == "airflow_provider_analytics.hooks.analytics.AnalyticsHook"
    assert list(found["extra_fields"]) == list(EXTRAS)
    standard = found["standard_fields"]
    assert {name for name, field in standard.items() if field and field["hidden"]} == {"login", "url_schema"}
    assert standard["host"]["title"] == "Base URL"
    assert standard["host"]["placeholder"] == "https://stats.example.com"
    assert standard["password"]["title"] == "API key"
