"""The connection: what Airflow prints and shows of it, and where it sends the key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from raw_server import RawServer, http
from wire_client import KEY

from airflow_provider_analytics.exceptions import AnalyticsConfigError
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


@pytest.mark.parametrize("host", ["http://localhost", "http://127.0.0.1", "http://[::1]:8080/app"])
@pytest.mark.parametrize("scheme", ["http", "all"])
def test_no_proxy_gets_the_key_in_clear_text(host: str, scheme: str, connect: Callable[..., None]) -> None:
    """To this machine, http is allowed; a proxy is another machine."""
    with RawServer([http(200, {"id": 1})]) as proxy:
        connect(host, proxies={scheme: proxy.url})
        with AnalyticsHook() as hook, pytest.raises(AnalyticsConfigError, match=r"proxies.* clear text") as caught:
            hook.get_account()
        assert proxy.requests == []
    assert host in str(caught.value)
    assert KEY not in str(caught.value)
    for extra in ({scheme: proxy.url}, {"https": proxy.url}):  # the second one is not used for http
        connect(host, proxies=extra, allow_insecure_http=scheme in extra)
        with AnalyticsHook() as hook:
            assert hook.client.settings.proxies == extra
