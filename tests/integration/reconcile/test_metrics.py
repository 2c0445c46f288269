"""What the hook tells Airflow's metrics, beside what the service has seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, Stats
from reconciling import Night

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counters by name, and the number of calls of each timer."""
    told = Counter[str]()

    def incr(name: str, count: int = 1, *, tags: dict[str, str]) -> None:
        assert (tags, type(count)) == ({"conn_id": "analytics_default"}, int)
        told[name.removeprefix("analytics.")] += count

    def timing(name: str, duration: timedelta, *, tags: dict[str, str]) -> None:
        incr(name, 1 if 0 <= duration.total_seconds() < 60 else 1000, tags=tags)

    monkeypatch.setattr(Stats, "incr", incr)
    monkeypatch.setattr(Stats, "timing", timing)
    return told


@pytest.fixture
def hook(night: Night) -> Iterator[AnalyticsHook]:
    with AnalyticsHook() as made:
        yield made


def test_a_list_that_changes_is_counted_once_and_its_second_reading_is_told(
    night: Night, hook: AnalyticsHook, told: Counter[str]
) -> None:
    night.sandbox.seed(250)
    night.sandbox.fault("list", commit=True, skip=1, drift={"delete": 1})
    assert len(hook.list_websites()) == 249
    requests = len(night.sandbox.requests)
    assert told == {"requests": requests, "pages": requests, "lists_read_again": 1, "websites": 249, "waited": 1}


def test_changes_count_as_applied_or_failed_and_bad_arguments_as_neither(
    night: Night, hook: AnalyticsHook, told: Counter[str]
) -> None:
    website = hook.create_website("a.example")
    hook.update_website(website["id"], email=True)
    hook.delete_website(website["id"])
    assert told["changes_applied"] == 3
    with pytest.raises(AnalyticsError):
        hook.update_website(website["id"], email=True)
    with pytest.raises(ValueError, match="domain"):
        hook.create_website("https://a.example")
    assert (told["changes_applied"], told["changes_failed"]) == (3, 1)
    # Those of a list, once each.
    night.add(12)
    night.sandbox.fault("update", times=3, status=422)
    with pytest.raises(AirflowFailException, match="3 websites failed, 9 succeeded"):
        night.sync("198.51.100.7", parallel_requests=1)
    assert (told["changes_applied"], told["changes_failed"]) == (12, 4)
    assert told["requests"] == len(night.sandbox.requests)


def test_metrics_that_cannot_be_sent_fail_no_change(
    night: Night, hook: AnalyticsHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the handler of the stat names is broken")

    monkeypatch.setattr(Stats, "incr", fail)
    hook.create_website("a.example")
    assert len(night.sandbox.websites()) == night.operations["create"] == 1
