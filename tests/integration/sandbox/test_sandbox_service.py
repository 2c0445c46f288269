# SPDX-License-Identifier: Apache-2.0
"""Sandbox: messages, options, and late reads (``sandbox/service.py``).

tests/laravel compares 300 responses with a real application: statuses, headers, pages, and fields of errors.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fixture_types import Call
from operations import PREFIX

from airflow_provider_analytics.sandbox.server import SandboxServer

OK = 200


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    """A sandbox with 35 websites."""
    analytics_sandbox.seed(35)
    return analytics_sandbox


def test_sandbox_creates_updates_and_deletes_a_website(call: Call, analytics_sandbox: SandboxServer) -> None:
    new = {"domain": "a.example"}
    secret = {"privacy": "2", "password": "open sesame"}
    created = call("POST", "/websites", data={**new, **secret, "exclude_ips": "192.0.2.1"})
    assert (created.status_code, "sesame" in created.text) == (201, False)
    assert call("GET", "/websites/1").json() == created.json() == {"data": analytics_sandbox.websites()[0]}
    taken = call("POST", "/websites", data={"domain": "A.Example"})
    assert (taken.status_code, taken.json()["errors"]) == (422, {"domain": ["The domain has already been taken."]})
    analytics_sandbox.configure(allow_duplicates=True)
    assert call("POST", "/websites", data=new).status_code == 201
    analytics_sandbox.configure(allow_duplicates=False)
    changed = call("PATCH", "/websites/1", data={"exclude_ips": "", "favorite": "1"}).json()
    assert changed["data"] == {**created.json()["data"], "exclude_ips": None, "favorite": True}
    assert call("PUT", "/websites/1").json() == changed  # no field: no change
    gone = call("DELETE", "/websites/2")
    assert (gone.status_code, gone.json()) == (OK, {"id": 2, "object": "website", "deleted": True})
    message = "No query results for model [App\\Models\\Website] 2"
    assert call("GET", "/websites/2").json() == {"message": message}
    assert call("POST", "/websites", data={"domain": "b.example"}).json()["data"]["id"] == 3


def test_sandbox_rejects_a_body_that_is_not_form_encoded(call: Call, sandbox: SandboxServer) -> None:
    bodies: list[dict[str, Any]] = [{"json": {"privacy": 1}}, {"data": b"privacy=1"}]
    for body in bodies:
        assert call("POST", "/websites", **body).status_code == call("PATCH", "/websites/1", **body).status_code == 415


def test_search_finds_websites_by_part_of_their_domain(call: Call, analytics_sandbox: SandboxServer) -> None:
    for domain in ("a-Shop.example", "shop.b.example", "_dmarc.example"):
        analytics_sandbox.add_website(domain)
    for search, found in (("SHOP", [2, 1]), ("a-shop.example", [1]), ("%", []), ("_", [3])):
        body = call("GET", "/websites", params={"search": search}).json()
        assert ([website["id"] for website in body["data"]], body["meta"]["total"]) == (found, len(found))


def test_sandbox_names_what_it_does_not_find(call: Call) -> None:
    for path in ("", "/account/1", "/websites/1/2", "/nothing"):
        message = f"The route {(PREFIX + path).strip('/')} could not be found."
        assert call("GET", path).json() == {"message": message}
    assert call("GET", "/account", headers={"Authorization": None}).json() == {"message": "Unauthenticated."}


def test_errors_of_several_fields_are_summarized(call: Call, sandbox: SandboxServer) -> None:
    assert call("POST", "/websites", data={"privacy": "9", "email": "x"}).json() == {
        "message": "The domain field is required. (and 2 more errors)",
        "errors": {
            "domain": ["The domain field is required."],
            "privacy": ["The selected privacy is invalid."],
            "email": ["The email must be an integer."],
        },
    }
    message = call("PATCH", "/websites/1", data={"privacy": "9", "favorite": "x"}).json()["message"]
    assert message == "The selected privacy is invalid. (and 1 more error)"


def test_replica_returns_the_old_state_for_some_seconds(
    call: Call, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("airflow_provider_analytics.sandbox.service.time", clock)
    sandbox.configure(seconds_behind=3)
    call("POST", "/websites", data={"domain": "new.example"})
    for seconds, total in ((0, 35), (2.9, 35), (0.1, 36)):
        now += seconds
        assert call("GET", "/websites").json()["meta"]["total"] == total
