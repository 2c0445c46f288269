# SPDX-License-Identifier: Apache-2.0
"""Resends: how often a value that is not in effect is sent again (``reconcile/apply/sending.py``)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from distortion import Distortion
from raw_server import Request
from reconciling import Night

from airflow_provider_analytics.exceptions import AnalyticsError, NotAppliedError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook

NEW = "192.0.2.1"


def updates(night: Night) -> Counter[str]:
    """Return the number of updates by website."""
    sent = (request for request in night.sandbox.requests if request.operation == "update")
    return Counter(request.path.rpartition("/")[2] for request in sent)


def lose_updates_of(distortion: Distortion, website_id: int) -> None:
    """Make another process overwrite each update of a website at once."""
    forward = distortion.to_the_sandbox

    def lose(request: Request) -> tuple[int, Any]:
        response = forward(request)
        distortion.sandbox.change_website(website_id, exclude_ips=None)
        return response

    distortion.forward = lose


def test_hook_sends_a_value_that_is_not_stored_twice(night: Night, distortion: Distortion) -> None:
    night.add(1)
    lose_updates_of(distortion, 1)
    with AnalyticsHook() as hook, pytest.raises(NotAppliedError):
        hook.update_website(1, exclude_ips=[NEW])
    assert updates(night) == {"1": 2}


@pytest.mark.parametrize("websites", [1, 2, 30])
def test_plan_sends_a_value_that_is_not_stored_three_times(night: Night, distortion: Distortion, websites: int) -> None:
    night.add(websites)
    lose_updates_of(distortion, 1)
    with pytest.raises(AnalyticsError):
        night.sync(NEW)
    sent = updates(night)
    assert sent.pop("1") == 3  # docs/guarantees.md: sent again, at most twice
    assert set(sent.values()) == ({1} if websites > 1 else set())
