"""What the hook tells Airflow's metrics, beside what the service has seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, Stats
from fixture_types import Execute

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.exceptions import AnalyticsError, NotAppliedError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites import DeleteWebsiteOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


class Told(Counter[str]):
    """Counters by name, and the seconds of the timers."""

    seconds: Counter[str]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    told.seconds = Counter()

    def incr(name: str, count: int = 1, *, tags: dict[str, str]) -> None:
        assert tags == {"conn_id": "analytics_default"}
        assert type(count) is int
        told[name.removeprefix("analytics.")] += count

    def timing(name: str, duration: timedelta, *, tags: dict[str, str]) -> None:
        assert tags == {"conn_id": "analytics_default"}
        told.seconds[name.removeprefix("analytics.")] += duration.total_seconds()  # type: ignore[assignment]

    monkeypatch.setattr(Stats, "incr", incr)
    monkeypatch.setattr(Stats, "timing", timing)
    return told


@pytest.fixture
def hook(analytics_sandbox: SandboxServer) -> Iterator[AnalyticsHook]:
    with AnalyticsHook() as made:
        yield made


def test_a_list_that_changes_is_counted_once_and_its_second_reading_is_told(
    analytics_sandbox: SandboxServer, hook: AnalyticsHook, told: Told
) -> None:
    analytics_sandbox.seed(250)
    analytics_sandbox.fault("list", commit=True, skip=1, drift={"delete": 1})
    assert len(hook.list_websites()) == 249
    requests = len(analytics_sandbox.requests)
    assert told == {"requests": requests, "pages": requests, "lists_read_again": 1, "websites": 249}
    assert set(told.seconds) == {"waited"}


def test_changes_count_as_applied_or_failed_and_bad_arguments_as_neither(
    analytics_sandbox: SandboxServer, hook: AnalyticsHook, told: Told
) -> None:
    website = hook.create_website("a.example")
    hook.update_website(website["id"], email=True)
    hook.delete_website(website["id"])
    assert told["changes_applied"] == 3
    for change in (
        lambda: hook.update_website(website["id"], email=True),
        lambda: hook.delete_website(website["id"]),
    ):
        with pytest.raises(AnalyticsError):
            change()
    with pytest.raises(ValueError, match="domain"):
        hook.create_website("https://a.example")
    assert (told["changes_applied"], told["changes_failed"]) == (3, 2)
    assert told["requests"] == len(analytics_sandbox.requests)


def test_a_change_that_the_service_does_not_show_counts_as_failed_too(
    analytics_sandbox: SandboxServer, execute: Execute, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "CONFIRM_WAITS", ())
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.fault("delete", status=204)
    with pytest.raises(NotAppliedError):
        execute(DeleteWebsiteOperator, domain="a.example")
    assert (told["changes_applied"], told["changes_failed"]) == (0, 1)


def test_a_sync_counts_its_websites_once_each(analytics_sandbox: SandboxServer, execute: Execute, told: Told) -> None:
    analytics_sandbox.seed(12)
    analytics_sandbox.fault("update", times=3, status=422)
    with pytest.raises(AirflowFailException, match="3 websites failed, 9 succeeded"):
        execute(SyncExcludedIpsOperator, exclude_ips=["198.51.100.7"], mode="merge", parallel_requests=1)
    assert (told["changes_applied"], told["changes_failed"]) == (9, 3)
    assert told["requests"] == len(analytics_sandbox.requests)


def test_metrics_that_cannot_be_sent_fail_no_change(
    analytics_sandbox: SandboxServer, hook: AnalyticsHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the handler of the stat names is broken")

    monkeypatch.setattr(Stats, "incr", fail)
    hook.create_website("a.example")
    assert [request.operation for request in analytics_sandbox.requests].count("create") == 1
    assert len(analytics_sandbox.websites()) == 1


def test_waiting_is_told_in_seconds(analytics_sandbox: SandboxServer, hook: AnalyticsHook, told: Told) -> None:
    website: dict[str, Any] = hook.create_website("a.example")
    analytics_sandbox.fault("show", status=503, headers={"Retry-After": "1"})
    hook.get_website(website["id"])
    assert told["retries"] == 1
    assert told.seconds["waited"] == pytest.approx(1, rel=0.01)
