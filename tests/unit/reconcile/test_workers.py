# SPDX-License-Identifier: Apache-2.0
"""Work on many websites, and the circuit breaker that ends it (``reconcile/service_websites.py``)."""

from __future__ import annotations

import pytest

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.waiting import MAX_WAIT
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    StoppedError,
    StorageError,
)
from airflow_provider_analytics.reconcile.service_websites import GIVE_UP_AFTER, Breaker, Progress, each


def error_with(status: int, kind: type[AnalyticsApiError] = AnalyticsApiError) -> AnalyticsApiError:
    return kind(status, "GET", "/websites/1", "")


def test_breaker_opens_after_failures_in_a_row() -> None:
    breaker = Breaker()
    for _ in range(GIVE_UP_AFTER - 1):
        breaker.note(error_with(503))
    assert not breaker.is_open
    breaker.note(error_with(503))
    assert breaker.is_open


@pytest.mark.parametrize("between", [None, error_with(422), ValueError("a bad value")], ids=repr)
def test_breaker_remains_closed_if_the_service_works_between_the_failures(between: Exception | None) -> None:
    breaker = Breaker()
    for _ in range(10):
        for _ in range(GIVE_UP_AFTER - 1):
            breaker.note(error_with(503))
        breaker.note(between)
    assert not breaker.is_open


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (error_with(429), True),
        (error_with(500), True),
        (error_with(499), False),
        (error_with(404), False),
        (AnalyticsConnectionError("no route"), True),
        (AnalyticsError("another error"), False),
    ],
    ids=repr,
)
def test_breaker_counts_only_failures_of_the_service(error: Exception, counts: bool) -> None:
    breaker = Breaker(1)
    breaker.note(error)
    assert breaker.is_open is counts


@pytest.mark.parametrize(("seconds", "is_open"), [(None, False), (MAX_WAIT, False), (MAX_WAIT + 1, True)])
def test_breaker_opens_at_once_if_the_service_asks_for_a_wait_above_the_limit(
    seconds: float | None, is_open: bool
) -> None:
    breaker, error = Breaker(), error_with(429)
    error.retry_after = seconds
    breaker.note(error)
    assert breaker.is_open is is_open


def test_breaker_keeps_the_first_rejection_of_the_key() -> None:
    breaker = Breaker()
    first, second = error_with(401, AuthenticationError), error_with(401, AuthenticationError)
    for error in (first, None, second, None):
        breaker.note(error)
    assert breaker.is_open
    assert breaker.rejection is first


@pytest.mark.parametrize("error", [StorageError("no space left"), KeyError("a mistake"), KeyboardInterrupt()], ids=repr)
def test_breaker_raises_errors_that_are_not_about_a_website(error: BaseException) -> None:
    with pytest.raises(type(error)):
        Breaker().note(error)


def test_item_under_way_at_a_stop_is_neither_done_nor_failed() -> None:
    with AnalyticsClient(Settings(base_url="http://127.0.0.1:9", api_key="key", parallel_requests=1)) as client:

        def work(item: int) -> int:
            if item == 2:
                client.stop()
                raise StoppedError("The client was stopped, so this was not sent.")
            return item

        done = each(client, [1, 2], work, Progress("Changing", 2), Breaker())
        assert next(done) == (1, 1, None)
        with pytest.raises(StoppedError):
            next(done)
