# SPDX-License-Identifier: Apache-2.0
"""Faults of the sandbox: every field, seen by a client on a real socket (``sandbox/faults.py``)."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from fixture_types import Call

from airflow_provider_analytics.sandbox.server import SandboxServer

NEW = {"domain": "c.example"}


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    """A sandbox with two websites."""
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    return analytics_sandbox


def stored(sandbox: SandboxServer) -> list[str]:
    return [website["domain"][0] for website in sandbox.websites()]


@pytest.mark.parametrize(
    ("faults", "paths", "statuses"),
    [
        ([{"operation": "list", "status": 503, "skip": 1, "times": 2}], ["/websites"] * 5, [200, 503, 503, 200, 200]),
        ([{"status": 503, "times": None}], ["/websites", "/account", "/nothing"] * 2, [503] * 6),
        # The oldest matching fault is applied.
        (
            [{"operation": "list", "status": 429, "times": 2}, {"operation": "show", "status": 404}, {"status": 500}],
            ["/websites"] * 4 + ["/websites/1"],
            [429, 429, 500, 200, 404],
        ),
        # Requests that get another fault count as skipped.
        ([{"status": 429}, {"status": 500, "skip": 2}], ["/account"] * 4, [429, 200, 500, 200]),
        (
            [{"operation": "list", "status": 500, "target": r"page=3\b"}],
            [f"/websites?page={page}" for page in (30, 2, 3, 3)],
            [200, 200, 500, 200],
        ),
    ],
)
def test_fault_matches_requests_by_operation_and_count(
    call: Call, sandbox: SandboxServer, faults: list[dict[str, Any]], paths: list[str], statuses: list[int]
) -> None:
    for fault in faults:
        sandbox.fault(**fault)
    assert [call("GET", path).status_code for path in paths] == statuses
    sandbox.clear_faults()
    assert call("GET", "/account").status_code == 200


HTML = "text/html; charset=utf-8"
JSON = "application/json"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"commit": False}, (200, b"", None, False)),
        ({"status": 500}, (500, b'{"message":"Internal Server Error"}', JSON, False)),
        ({"status": 204, "body": "text that cannot be sent"}, (204, b"", None, False)),
        ({"status": 502, "commit": True}, (502, b'{"message":"Bad Gateway"}', JSON, True)),
        ({"body": "", "commit": True}, (201, b"", HTML, True)),
        ({"body": "<h1>Maintenance</h1>"}, (200, b"<h1>Maintenance</h1>", HTML, False)),
        ({"body": b"\x00\xff"}, (200, b"\x00\xff", None, False)),
        ({"body": {"unexpected": True}}, (200, b'{"unexpected":true}', JSON, False)),
        ({"body": [1, 2], "status": 503}, (503, b"[1,2]", JSON, False)),
    ],
    ids=str,
)
def test_fault_decides_the_response_and_if_the_request_is_processed(
    call: Call, sandbox: SandboxServer, fields: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    sandbox.fault("create", **fields)
    answer = call("POST", "/websites", data=NEW)
    kind, is_stored = answer.headers.get("Content-Type"), "c" in stored(sandbox)
    assert (answer.status_code, answer.content, kind, is_stored) == expected
    assert ("Content-Length" in answer.headers) == (answer.status_code != 204)
    assert call("GET", "/account").status_code == 200


@pytest.mark.parametrize("status", [None, 429])
def test_headers_are_added_replaced_and_removed(call: Call, sandbox: SandboxServer, status: int | None) -> None:
    late = {"Retry-After": "Fri, 20 Nov 2026 00:00:30 GMT", "X-RateLimit-Remaining": "0"}
    for headers in (late, {"Content-Type": "text/csv"}, {"CONTENT-TYPE": "text/csv"}, {"Content-Type": None}):
        sandbox.fault("list", status=status, headers=headers)
        answer = call("GET", "/websites")
        assert answer.status_code == (status or 200)
        assert {name: answer.headers.get(name) for name in headers} == headers
        assert status or len(answer.json()["data"]) == 2


@pytest.mark.parametrize(
    "fields",
    [
        *({"operation": "lst"}, {"stauts": 500}, {"status": 99}, {"target": "("}),
        *({"drift": {"update": 1}}, {"times": 0}, {"skip": -1}, {"delay": -1}),
    ],
)
def test_invalid_fault_is_rejected(call: Call, sandbox: SandboxServer, fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        sandbox.fault(**fields)
    assert call("GET", "/account").status_code == 200


def test_delay_postpones_the_response(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("account", delay=0.2)
    assert call("GET", "/account").elapsed.total_seconds() >= 0.2


@pytest.mark.parametrize("commit", [None, True])
def test_fault_drops_the_connection(call: Call, sandbox: SandboxServer, commit: bool | None) -> None:
    sandbox.fault("create", drop=True, commit=commit)
    with pytest.raises(requests.ConnectionError, match="Connection reset by peer"):
        call("POST", "/websites", data=NEW)
    assert ("c" in stored(sandbox)) is (commit is True)
    assert [(request.operation, request.status) for request in sandbox.requests] == [("create", None)]
    assert call("GET", "/websites").status_code == 200


def test_drift_occurs_between_two_requests(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", skip=1, drift={"delete": 50, "create": 2})  # more than there are
    reads = [call("GET", "/websites?sort=asc").json()["data"] for _ in range(3)]
    assert reads[0] == reads[1] != reads[2] == []


def test_drift_creates_a_number_of_new_websites(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", drift={"create": 2})
    _, rows = [call("GET", "/websites?sort=asc").json()["data"] for _ in range(2)]
    assert len({row["domain"] for row in rows}) == 4
    assert [row["domain"] for row in rows[:2]] == ["a.example", "b.example"]
