"""Exclusion lists while somebody else writes the same websites."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from distortion import Distortion
from reconciling import Night

from airflow_provider_analytics.exceptions import BulkError

BY_HAND = "203.0.113.99"
FILE = {"websites": {f"{number}.example": {"exclude_ips": ["192.0.2.1"]} for number in (1, 2, 3)}}


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda night: night.sync("192.0.2.1", parallel_requests=1), id="merge"),
        pytest.param(lambda night: night.managed("192.0.2.1", parallel_requests=1), id="managed"),
        pytest.param(lambda night: night.apply(config=FILE, parallel_requests=1), id="file"),
    ],
)
@pytest.mark.parametrize("step", range(1, 15))
def test_an_entry_typed_by_hand_at_any_step_stays(
    night: Night, distortion: Distortion, run: Callable[[Night], Any], step: int
) -> None:
    """But in the moment of the update of that very website, before which nothing shows what came after its fetch."""
    night.add(3, exclude_ips="10.0.0.1")
    requests, kept = itertools.count(1), set()

    def type_in(method: str, path: str) -> None:
        if next(requests) == step:
            kept.update(() if (method, path) == ("PATCH", "/websites/2") else [BY_HAND])
            night.sandbox.change_website(2, exclude_ips=f"{night.lists()[1]}\n{BY_HAND}")

    distortion.before = type_in
    assert run(night)["verified"] is True
    there = {"10.0.0.1", "192.0.2.1"}
    assert [set(one.split()) for one in night.lists()] == [there, there | kept, there]


def test_an_id_that_was_given_to_another_website_meanwhile_is_not_changed(night: Night) -> None:
    night.add(1)
    other = {"id": 1, "domain": "innocent.example", "exclude_ips": None}
    night.sandbox.fault("show", body={"data": other}, times=None)
    with pytest.raises(BulkError, match=r"not changed: id 1 now belongs to 'innocent\.example'"):
        night.sync("192.0.2.1")
    assert night.lists() == [None]
