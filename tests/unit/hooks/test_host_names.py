# SPDX-License-Identifier: Apache-2.0
"""Lookup of host names in a limited time (``hooks/host_names.py``)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from airflow_provider_analytics.hooks import host_names


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """An event that ends the hanging lookups."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("number", [1, 20])
def test_host_names_without_a_response_are_reported_even_with_more_names_than_threads(
    number: int, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(name: str) -> list[str]:
        assert name == "fast.example" or released.wait(60)
        return ["192.0.2.1"]

    monkeypatch.setattr(host_names, "look_up", hang)
    names = [f"{item}.example" for item in range(number)]
    expected = {"fast.example": ["192.0.2.1"], **dict.fromkeys(names, "no response within 0.2 s")}
    assert host_names.look_up_all(["fast.example", *names], timeout=0.2) == expected


def test_each_host_name_gets_its_own_addresses_or_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str) -> list[str]:
        if name == "missing.example":
            raise OSError(-2, "Name or service not known")
        return [f"address of {name}"]

    monkeypatch.setattr(host_names, "look_up", look_up)
    assert host_names.look_up_all(["a.example", "missing.example", "b.example"]) == {
        "a.example": ["address of a.example"],
        "missing.example": "Name or service not known",
        "b.example": ["address of b.example"],
    }
