"""What Airflow itself prints and shows: the key in its task log, the form of a connection in its interface."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_client import KEY

from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.hooks import analytics
from airflow_provider_analytics.hooks.analytics import AnalyticsHook

#: What Airflow 3 masks of an extra in its API and interface, by the names within it.
MASKED_BY_AIRFLOW = ("secret", "token", "password", "api_key", "authorization")


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "  "])
def test_a_key_with_a_line_break_at_its_end_is_masked_in_the_task_log(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[Any] = []
    monkeypatch.setattr(analytics, "mask_secret", masked.append)
    headers = {"CF-Access-Client-Secret": "hush-hush-hush", "X-Auth": "Basic bmFtZTpwYXNz", "X-Tenant": "acme"}
    fields = {"conn_type": "analytics", "host": "http://127.0.0.1:9", "password": f"{KEY}{end}"}
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps({**fields, "extra": {"headers": headers}}))
    with AnalyticsHook() as hook:
        assert hook.client.settings.api_key == KEY
    assert {KEY, f"{KEY}{end}", "hush-hush-hush", "bmFtZTpwYXNz"} <= {*masked}
    assert "acme" not in masked  # it would be replaced in each word that contains it


def test_the_form_promises_nothing_that_airflow_does_not_keep() -> None:
    texts = [field["description"] for field in CONNECTION_TYPE["conn-fields"].values()]
    assert not [text for text in texts if "mask" in text or "hidden" in text]
    # Airflow masks what is within this extra by the names that it knows, which are not those of headers.
    assert not any(name in "headers" for name in MASKED_BY_AIRFLOW)
    assert "visible to its editors" in CONNECTION_TYPE["conn-fields"]["headers"]["description"]
