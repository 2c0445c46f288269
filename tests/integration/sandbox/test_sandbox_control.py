"""The control endpoints do over HTTP what the fixture does."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from fixture_types import Call

from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def control(analytics_sandbox: SandboxServer) -> Call:
    """Send one request to a control endpoint, without a key."""

    def send(method: str, path: str, json: Any = None) -> requests.Response:
        return requests.request(method, f"{analytics_sandbox.url}/_sandbox{path}", json=json, timeout=10)

    return send


def test_seed_and_dump(control: Call, analytics_sandbox: SandboxServer) -> None:
    assert control("POST", "/seed", {"websites": 12, "seed": 3}).status_code == 204

    websites = control("GET", "/websites").json()

    assert len(websites) == 12
    assert websites == analytics_sandbox.websites()
    assert not [website for website in websites if "password" in website]


def test_options(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    assert control("POST", "/options", {"preset": "cursor", "allow_duplicates": True}).status_code == 200

    assert "next_cursor" in call("GET", "/websites").json()["meta"]
    assert analytics_sandbox.options.allow_duplicates
    assert control("GET", "/options").json()["paginator"] == "cursor"


def test_faults(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    control("POST", "/faults", {"operation": "list", "status": 429, "headers": {"Retry-After": "1"}, "times": 2})

    answer = call("GET", "/websites")

    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert [(fault["status"], fault["times"]) for fault in control("GET", "/faults").json()] == [(429, 1)]
    assert control("DELETE", "/faults").status_code == 204
    assert call("GET", "/websites").status_code == 200


def test_a_fault_with_drift(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    control("POST", "/faults", {"operation": "list", "drift": {"create": ["a.example"]}})

    totals = [call("GET", "/websites").json()["meta"]["total"] for _ in range(2)]

    assert totals == [0, 1]
    assert len(analytics_sandbox.websites()) == 1


def test_a_fault_with_bytes_can_be_listed(control: Call, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.fault(body=b"\xff")

    assert [fault["body"] for fault in control("GET", "/faults").json()] == ["_w=="]


@pytest.mark.parametrize(
    ("path", "json"),
    [
        ("/options", {"colour": "red"}),
        ("/options", {"paginator": "elsewhere"}),
        ("/options", {"preset": "elsewhere"}),
        ("/options", ["paginator"]),
        ("/faults", {"operation": "lst"}),
        ("/faults", {"stauts": 500}),
        ("/faults", {"status": 99}),
        ("/faults", {"target": "("}),
        ("/faults", {"drift": {"update": 1}}),
        ("/faults", {"times": 0}),
        ("/seed", {"websites": -1}),
        ("/seed", {}),
    ],
)
def test_wrong_orders_are_refused(control: Call, analytics_sandbox: SandboxServer, path: str, json: object) -> None:
    answer = control("POST", path, json)

    assert answer.status_code == 422
    assert analytics_sandbox.pending_faults == []
    assert analytics_sandbox.websites() == []


def test_requests_are_logged_without_secrets(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    call("GET", "/websites", params={"search": "a b"})
    call(
        "PATCH", "/websites/7", data={"privacy": "2", "password": "open sesame"}, headers={"Authorization": "Bearer x"}
    )

    answer = control("GET", "/requests")
    listed, updated = answer.json()

    assert (listed["operation"], listed["method"], listed["path"]) == ("list", "GET", "/api/v1/websites")
    assert (listed["query"], listed["form"], listed["status"]) == ([["search", "a b"]], [], 200)
    assert (listed["headers"]["authorization"], listed["headers"]["accept"]) == ("right", "application/json")
    assert (updated["headers"]["authorization"], updated["status"]) == ("wrong", 401)
    assert updated["form"] == [["privacy", "2"], ["password", "***"]]
    assert "sesame" not in answer.text
    assert analytics_sandbox.api_key not in answer.text
    control("DELETE", "/requests")
    assert control("GET", "/requests").json() == []


def test_reset(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.seed(3)
    analytics_sandbox.configure(paginator="simple")
    analytics_sandbox.fault(status=500)
    call("GET", "/account")

    assert control("POST", "/reset").status_code == 204

    assert analytics_sandbox.websites() == []
    assert analytics_sandbox.options.paginator == "length"
    assert analytics_sandbox.pending_faults == []
    assert analytics_sandbox.requests == []
    assert call("POST", "/websites", data={"domain": "a.example"}).json()["data"]["id"] == 1


def test_a_reset_leaves_no_earlier_websites(call: Call, analytics_sandbox: SandboxServer) -> None:
    for options in ({"reads_behind": 1}, {"seconds_behind": 60}):
        analytics_sandbox.configure(**options)
        for domain in ("a.example", "b.example"):
            call("POST", "/websites", data={"domain": domain})
        call("GET", "/websites?search=a")
        analytics_sandbox.reset()
        analytics_sandbox.configure(**options)
        assert call("GET", "/websites?search=a").json()["data"] == []


@pytest.mark.parametrize("path", ["/_sandbox/reset", "/reset"])
def test_the_control_endpoints_are_not_below_the_interface(
    call: Call, analytics_sandbox: SandboxServer, path: str
) -> None:
    analytics_sandbox.seed(1)

    assert call("POST", path).status_code == 404
    assert len(analytics_sandbox.websites()) == 1
