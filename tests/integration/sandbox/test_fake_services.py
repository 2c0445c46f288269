# SPDX-License-Identifier: Apache-2.0
"""Fake services (``tests/support/fake_services.py``): other paginators, and the use of each option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_services import FakeService, FakeServiceOptions
from fixture_types import Call
from operations import PREFIX

from airflow_provider_analytics.sandbox.service import Options


@pytest.fixture
def analytics_sandbox() -> Iterator[FakeService]:
    """A fake service with 35 websites."""
    with FakeService() as service:
        service.seed(35)
        yield service


@pytest.mark.repository
@pytest.mark.parametrize("option", sorted(FakeServiceOptions.model_fields.keys() - Options.model_fields.keys()))
def test_fake_service_option_is_used_by_a_test(option: str) -> None:
    used = re.compile(rf'\b{option}("\]?: |=)')
    paths = (path for path in Path(__file__).parents[2].rglob("*.py") if path.name != "fake_services.py")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in paths)


# Paginators


def body_of(rows: list[int], links: dict[str, Any], meta: dict[str, Any]) -> list[Any]:
    """Return a body with its keys in their order, and ids instead of the websites."""
    return [rows, list(links.items()), list(meta.items())]


def read(call: Call, query: str) -> list[Any]:
    body = call("GET", f"/websites?per_page=10{query}").json()
    assert set(body) == {"data", "links", "meta"}
    return body_of([website["id"] for website in body["data"]], body["links"], body["meta"])


def test_sandbox_returns_a_list_with_a_simple_paginator(call: Call, analytics_sandbox: FakeService) -> None:
    analytics_sandbox.configure(paginator="simple")
    path = f"{analytics_sandbox.url}{PREFIX}/websites"
    link = f"{path}?per_page=10&page="
    meta = {"current_page": 2, "current_page_url": f"{link}2", "from": 11, "path": path, "per_page": 10, "to": 20}
    links = {"first": f"{link}1", "last": None, "prev": f"{link}1", "next": f"{link}3"}
    assert read(call, "&page=2") == body_of([*range(25, 15, -1)], links, meta)


def test_sandbox_returns_a_list_with_a_cursor_paginator(call: Call, analytics_sandbox: FakeService) -> None:
    analytics_sandbox.configure(paginator="cursor", page_parameter="cursor")
    path = f"{analytics_sandbox.url}{PREFIX}/websites"
    link = f"{path}?per_page=10&cursor="
    first = read(call, "")
    following = dict(first[2])["next_cursor"]
    second = read(call, f"&cursor={following}")
    cursors = {name: dict(second[2])[name] for name in ("next_cursor", "prev_cursor")}
    links = {"first": None, "last": None, "prev": f"{link}{cursors['prev_cursor']}"}
    links["next"] = f"{link}{cursors['next_cursor']}"
    assert second == body_of([*range(25, 15, -1)], links, {"path": path, "per_page": 10, **cursors})
    for cursor in (cursors["prev_cursor"], "nonsense"):
        assert read(call, f"&cursor={cursor}")[0] == first[0]
