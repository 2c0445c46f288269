"""Hook, operators and syncs take the same entries, and refuse the same, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


def by_hook(entries: Any) -> None:
    with AnalyticsHook() as hook:
        hook.update_website(1, exclude_ips=entries)


def by_hook_create(entries: Any) -> None:
    with AnalyticsHook() as hook:
        hook.create_website("new.example", exclude_ips=entries)


WAYS: dict[str, Callable[[Any], Any]] = {
    "hook.update_website": by_hook,
    "hook.create_website": by_hook_create,
    "CreateWebsite": lambda one: CreateWebsiteOperator(task_id="t", domain="new.example", exclude_ips=one).execute({}),
    "UpdateWebsite": lambda one: UpdateWebsiteOperator(task_id="t", website_id=1, exclude_ips=one).execute({}),
    "SyncExcludedIps": lambda one: SyncExcludedIpsOperator(task_id="t", exclude_ips=one).execute({}),
}
BAD = ["192.0.2.1,192.0.2.2", "999.1.1.1", "office.example", ["192.0.2.1 192.0.2.2"], ["10.0.0"], [7]]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("entries", BAD, ids=repr)
def test_what_is_no_address_is_refused_everywhere(analytics_sandbox: SandboxServer, entries: Any, way: str) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="10.0.0.1")
    with pytest.raises((ValueError, AirflowFailException), match=r"exclude[d]?_ips"):
        WAYS[way](entries)
    assert analytics_sandbox.requests == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", ["", " \n", "# nothing"])
def test_a_text_without_entries_is_refused_and_an_empty_list_clears(
    analytics_sandbox: SandboxServer, text: str, way: str
) -> None:
    """As a template of an empty Variable renders."""
    analytics_sandbox.add_website("a.example", exclude_ips="10.0.0.1")
    with pytest.raises((ValueError, AirflowFailException), match=r"exclude[d]?_ips"):
        WAYS[way](text)
    assert analytics_sandbox.requests == []
    if way.endswith(("update_website", "UpdateWebsite")):
        WAYS[way]([])
        assert analytics_sandbox.websites()[0]["exclude_ips"] is None
