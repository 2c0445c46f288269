# SPDX-License-Identifier: Apache-2.0
"""Metrics of the hook: the names, tags, and units that ``hooks/analytics.py`` sends to Airflow."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import Stats

from airflow_provider_analytics.api.waiting import TIMERS
from airflow_provider_analytics.api.waiting import Stats as ClientStats
from airflow_provider_analytics.hooks.analytics import AnalyticsHook

COUNTERS = {field.name for field in fields(ClientStats)} - {"listener"}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, dict[str, str]]]:
    """Metrics in the order in which they are sent: name, value, and tags."""
    sent: list[tuple[str, Any, dict[str, str]]] = []
    for method in ("incr", "timing"):
        monkeypatch.setattr(Stats, method, lambda name, value=1, *, tags: sent.append((name, value, tags)))
    connection = {"conn_type": "analytics", "host": "https://stats.example", "password": "a-key-of-16-chars"}
    monkeypatch.setenv("AIRFLOW_CONN_STATS", json.dumps(connection))
    return sent


def test_metric_waited_is_sent_as_a_duration_in_seconds(sent: list[tuple[str, Any, dict[str, str]]]) -> None:
    with AnalyticsHook("stats") as hook:
        hook.client.stats.count("waited", 2.5)
        hook.client.stats.count("waited", 0.5)
        assert hook.client.stats.waited == 3
    tags = {"conn_id": "stats"}
    assert sent == [
        ("analytics.waited", timedelta(seconds=2.5), tags),
        ("analytics.waited", timedelta(seconds=0.5), tags),
    ]


@pytest.mark.parametrize("name", sorted(COUNTERS - set(TIMERS)))
def test_every_other_metric_is_sent_as_a_number(name: str, sent: list[tuple[str, Any, dict[str, str]]]) -> None:
    with AnalyticsHook("stats") as hook:
        hook.client.stats.count(name, 3)
        hook.client.stats.count(name, 0)
    assert sent == [(f"analytics.{name}", 3, {"conn_id": "stats"})]
