# SPDX-License-Identifier: Apache-2.0
"""The hook against a real server: operations, the Test button, and sources of connections (``hooks/analytics.py``)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from raw_server import RawServer, Reply, http

from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.exceptions import AnalyticsConfigError, NotFoundError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def hook(analytics_sandbox: SandboxServer) -> Iterator[AnalyticsHook]:
    with AnalyticsHook() as hook:
        yield hook


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, analytics_sandbox: SandboxServer) -> Callable[..., AnalyticsHook]:
    """Create a hook whose connection differs from the sandbox's in the given fields."""

    def make(**changes: Any) -> AnalyticsHook:
        fields = json.loads(analytics_sandbox.connection_json())
        monkeypatch.setenv("AIRFLOW_CONN_CHANGED", json.dumps({**fields, **changes}))
        return AnalyticsHook("changed")

    return make


def test_hook_has_every_operation(hook: AnalyticsHook, analytics_sandbox: SandboxServer) -> None:
    created = hook.create_website(
        "www.example.com",
        privacy="password",
        password="s3cret",
        email=True,
        exclude_bots=False,
        exclude_ips=["10.0.0.1"],
    )
    website_id = created["id"]
    assert analytics_sandbox.stored_password(website_id) == "s3cret"
    assert hook.update_website(website_id, privacy=Privacy.PRIVATE, exclude_ips=[], favorite=True)["favorite"] is True
    shown = hook.get_website(website_id)
    expected = {"privacy": 1, "email": 1, "exclude_bots": 0, "exclude_ips": None}
    assert {name: shown[name] for name in expected} == expected
    assert hook.list_websites(favorite=True) == list(hook.iter_websites(search="www")) == [shown]
    assert hook.find_website("WWW.example.com.") == shown
    assert hook.find_website("example.com") is None
    assert hook.get_account()["id"] == 1
    hook.delete_website(website_id)
    assert analytics_sandbox.websites() == []
    with pytest.raises(NotFoundError, match="404"):
        hook.delete_website(website_id)


def test_connection_test_reads_the_account_and_a_page_and_the_hook_reopens(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.seed(142)
    assert hook.test_connection() == (
        True,
        f"Connected to {analytics_sandbox.url} as account@example.com. The account has 142 websites.",
    )
    assert [request.operation for request in analytics_sandbox.requests] == ["account", "list"]
    hook.close()
    assert hook.get_account()["id"] == 1


#: Number of websites, options, and the report of the connection test about the first page.
FIRST_PAGES: list[tuple[int, dict[str, Any], str]] = [
    (142, {"links": "absent", "page_parameter": "p"}, "142 websites"),
    (1, {}, "1 website"),
    (142, {"metadata": "none"}, "100 websites on the first page, and no total"),
]


@pytest.mark.parametrize(("count", "options", "said"), FIRST_PAGES)
def test_connection_test_reports_the_first_page(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer, count: int, options: dict[str, Any], said: str
) -> None:
    analytics_sandbox.seed(count)
    analytics_sandbox.configure(**options)
    assert hook.test_connection() == (
        True,
        f"Connected to {analytics_sandbox.url} as account@example.com. The account has {said}.",
    )


def test_connection_test_reports_a_slow_service(
    connect: Callable[..., AnalyticsHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.hooks.analytics.MAX_SECONDS_OF_A_TEST", 0.2)
    # Each byte arrives in time, so only the limit of the whole test ends it.
    with RawServer(Reply(http(200, b"{", length=100_000), then="drip")) as server:
        message = f"The service did not respond within 0 s: {server.url}"
        assert connect(host=server.url).test_connection() == (False, message)


FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "maintenance": ({"status": 503}, ["503", "Service Unavailable"]),
    "too many requests": ({"status": 429, "headers": {"Retry-After": "30"}}, ["429", "requests_per_minute"]),
    "no account": ({"body": {"error": "nothing here"}}, ["200", "nothing here"]),
    "dropped": ({"drop": True}, ["closed the connection"]),
    "echo of the key": ({"status": 400, "echo": True}, ["400", "***"]),
}


@pytest.mark.parametrize(("fault", "expected"), FAULTS.values(), ids=FAULTS)
def test_connection_test_reports_each_failure(
    hook: AnalyticsHook, analytics_sandbox: SandboxServer, fault: dict[str, Any], expected: list[str]
) -> None:
    analytics_sandbox.fault("account", times=None, **fault)
    worked, message = hook.test_connection()
    assert not worked
    assert analytics_sandbox.api_key not in message
    assert len(analytics_sandbox.requests) <= 1, "a person waits for the answer: one attempt"
    for part in (analytics_sandbox.url.removeprefix("http://"), *expected):
        assert part in message


def test_documented_example_runs(analytics_sandbox: SandboxServer) -> None:
    """The code of docs/reference/hook.md."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "hook.md").read_text(encoding="utf-8")
    analytics_sandbox.add_website("open.example", privacy=0)
    analytics_sandbox.add_website("closed.example", privacy=1)
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if ") -> " not in block:  # the signature of a method
            exec(block, found)
    assert found["private"] == ["closed.example"]
    named = set(re.findall(r"`(\w+)`", text.partition("```")[0])) - {"AnalyticsHook"}
    assert all(callable(getattr(AnalyticsHook, name)) for name in named)


@pytest.mark.parametrize("is_permitted", [True, False])
def test_documented_exception_is_caught(analytics_sandbox: SandboxServer, is_permitted: bool) -> None:
    """The code of docs/reference/exceptions.md."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "exceptions.md").read_text(encoding="utf-8")
    analytics_sandbox.seed(17)
    if not is_permitted:
        analytics_sandbox.fault("show", status=403)
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, found)
    assert (found["website"] is not None) == is_permitted


@pytest.mark.parametrize("value", ["{'conn_type': 'analytics'}", "analytics_default", '{"conn_type": "analytics",}'])
def test_invalid_connection_variable_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", value)
    with pytest.raises(AnalyticsConfigError, match="AIRFLOW_CONN_BROKEN is set, but it is neither JSON nor a URI"):
        AnalyticsHook("broken").get_account()


def test_connection_variable_with_a_number_as_its_key_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_BROKEN", '{"conn_type": "analytics", "host": "https://a.example", "password": 12345678}'
    )
    with pytest.raises(AnalyticsConfigError, match=r"AIRFLOW_CONN_BROKEN is JSON, but .* as text, in double quotes"):
        AnalyticsHook("broken").get_account()
