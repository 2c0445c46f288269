# SPDX-License-Identifier: Apache-2.0
"""The hook's connection forms, lazy loading, and metrics, and its lookup of host names (``hooks``)."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import BaseHook, Stats
from airflow_versions import needs_wtforms
from wire_client import KEY

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.waiting import TIMERS
from airflow_provider_analytics.api.waiting import Stats as ClientStats
from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.hooks import analytics, host_names
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.hooks.connection import EXTRAS

#: Airflow 3 masks extras whose names contain one of these, in its API and interface.
MASKED_BY_AIRFLOW = ("secret", "token", "password", "api_key", "authorization")


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> str:
    fields = {"conn_type": "analytics", "host": "https://stats.example.com", "password": "k3y"}
    monkeypatch.setenv("AIRFLOW_CONN_STATS", json.dumps(fields))
    return "stats"


def test_hook_reads_at_its_first_use_and_connects_at_its_first_request(
    connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*args: Any, **kwargs: Any) -> None:
        pytest.fail("A hook or client that is not used yet did something.")

    monkeypatch.setattr(socket, "socket", reject)
    with AnalyticsHook(connection) as hook:
        assert isinstance(hook.client, AnalyticsClient)
        assert hook.client is hook.get_conn()
        assert hook.client.base_url == "https://stats.example.com"
        assert "k3y" not in f"{hook!r} {hook.client!r} {hook.client.settings!r}"
    monkeypatch.setattr(BaseHook, "get_connection", reject)
    with AnalyticsHook("there is no such connection") as hook:
        hook.close()


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "  "])
def test_key_with_a_trailing_line_break_is_masked_in_the_task_log(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[Any] = []
    monkeypatch.setattr(analytics, "mask_secret", masked.append)
    headers = {"CF-Access-Client-Secret": "hush-hush-hush", "X-Auth": "Basic bmFtZTpwYXNz", "X-Tenant": "acme"}
    fields = {"conn_type": "analytics", "host": "http://127.0.0.1:9", "password": f"{KEY}{end}"}
    monkeypatch.setenv("AIRFLOW_CONN_STATS", json.dumps({**fields, "extra": {"headers": headers}}))
    with AnalyticsHook("stats") as hook:
        assert hook.client.settings.api_key == KEY
    assert {KEY, f"{KEY}{end}", "hush-hush-hush", "bmFtZTpwYXNz"} <= {*masked}
    assert "acme" not in masked  # it would be replaced in each word that contains it


def test_bad_connection_is_reported_at_first_use_and_by_the_test_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STATS", '{"conn_type": "analytics", "extra": {"timeuot": 1}}')
    hook = AnalyticsHook("stats")
    with pytest.raises(AnalyticsConfigError, match="Connection 'stats'"):
        hook.get_account()
    worked, message = hook.test_connection()
    assert not worked
    for part in ("Base URL", "API key", "'timeout'", "This connection: "):
        assert part in message


def test_connection_form_has_a_field_for_every_extra() -> None:
    assert list(CONNECTION_TYPE["conn-fields"]) == list(EXTRAS)
    for name, field in CONNECTION_TYPE["conn-fields"].items():
        # A type without null is a field that has to be filled in.
        assert "null" in field["schema"]["type"], name
        # Airflow shows every member of an enum as a choice; Airflow 2 has text fields, whose help names the choices.
        choices = field["schema"].get("enum", [])
        assert None not in choices
        for choice in choices:
            assert choice in field["description"]
        # The form mentions only protection that Airflow provides: it masks values within an extra by the names that it
        # knows.
        assert not [word for word in ("mask", "hidden") if word in field["description"]]
    assert not any(name in "headers" for name in MASKED_BY_AIRFLOW)
    assert (
        "Anyone who can edit the connection can read them" in CONNECTION_TYPE["conn-fields"]["headers"]["description"]
    )


@needs_wtforms
def test_connection_form_of_airflow_2_has_a_field_for_every_extra() -> None:
    from wtforms import Form

    widgets = AnalyticsHook.get_connection_form_widgets()
    assert list(widgets) == list(EXTRAS)
    form = type("ConnectionForm", (Form,), widgets)()
    for field in form:
        assert str(field.label.text) == CONNECTION_TYPE["conn-fields"][field.name]["label"]
        assert f'name="{field.name}"' in str(field())
    # Airflow passes the value of the extra, not text.
    form.headers.data = {"X-Team": "web"}
    form.timeout.data = 20
    assert "{&#34;X-Team&#34;: &#34;web&#34;}" in str(form.headers())
    assert hasattr(form.headers(), "__html__")  # not text, which the page would display with its quotes
    assert 'value="20"' in str(form.timeout())
    assert 'value=""' in str(form.verify())


def test_hook_logs_no_warning_of_a_short_extra(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, module in list(sys.modules.items()):
        masker = vars(module).get("SecretsMasker") if name.endswith(".secrets_masker") else None
        if hasattr(masker, "_has_warned_short_secret"):
            monkeypatch.setattr(masker, "_has_warned_short_secret", False)  # Airflow warns once in a process
    extra = {"update_method": "PUT", "page_parameter": "p"}
    connection = {"conn_type": "analytics", "host": "https://a.example", "password": "a-long-key", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))
    with AnalyticsHook() as hook:
        assert hook.client.settings.update_method == "PUT"
    assert "too short" not in "".join((caplog.text, *capfd.readouterr()))


# Metrics


COUNTERS = {field.name for field in fields(ClientStats)} - {"listener"}


@pytest.fixture
def sent(connection: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, dict[str, str]]]:
    """Metrics in the order in which they are sent: name, value, and tags."""
    sent: list[tuple[str, Any, dict[str, str]]] = []
    for method in ("incr", "timing"):
        monkeypatch.setattr(Stats, method, lambda name, value=1, *, tags: sent.append((name, value, tags)))
    return sent


@pytest.mark.parametrize("name", sorted(COUNTERS))
def test_every_counter_is_sent_as_a_number_or_as_a_duration_in_seconds(
    name: str, sent: list[tuple[str, Any, dict[str, str]]]
) -> None:
    with AnalyticsHook("stats") as hook:
        for number in (3, 0, 2):
            hook.client.stats.count(name, number)
        assert getattr(hook.client.stats, name) == 5
    values: list[Any] = [timedelta(seconds=3), timedelta(seconds=2)] if name in TIMERS else [3, 2]
    assert sent == [(f"analytics.{name}", value, {"conn_id": "stats"}) for value in values]


# Lookup of host names in a limited time


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """An event that ends the hanging lookups."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("number", [1, 20])
def test_host_names_without_a_response_are_reported_even_with_more_names_than_threads(
    number: int, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(name: str) -> list[str]:
        assert name == "fast.example" or released.wait(60)
        return ["192.0.2.1"]

    monkeypatch.setattr(host_names, "look_up", hang)
    names = [f"{item}.example" for item in range(number)]
    expected = {"fast.example": ["192.0.2.1"], **dict.fromkeys(names, "no response within 0.2 s")}
    assert host_names.look_up_all(["fast.example", *names], timeout=0.2) == expected


def test_each_host_name_gets_its_own_addresses_or_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str) -> list[str]:
        if name == "missing.example":
            raise OSError(-2, "Name or service not known")
        return [f"address of {name}"]

    monkeypatch.setattr(host_names, "look_up", look_up)
    assert host_names.look_up_all(["a.example", "missing.example", "b.example"]) == {
        "a.example": ["address of a.example"],
        "missing.example": "Name or service not known",
        "b.example": ["address of b.example"],
    }
