"""The control endpoints do over HTTP what the fixture does, for clients on this machine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import requests
from fixture_types import Call
from starlette.types import Message

from airflow_provider_analytics.sandbox.app import App
from airflow_provider_analytics.sandbox.options import Options
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
    assert (len(websites), websites) == (12, analytics_sandbox.websites())
    assert not [website for website in websites if "password" in website]


def test_options(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    assert control("POST", "/options", {"preset": "cursor", "allow_duplicates": True}).status_code == 200
    assert "next_cursor" in call("GET", "/websites").json()["meta"]
    assert analytics_sandbox.options.allow_duplicates
    assert control("GET", "/options").json()["paginator"] == "cursor"


def test_faults(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    control("POST", "/faults", {"operation": "list", "drift": {"create": ["a.example"]}})
    control("POST", "/faults", {"operation": "list", "status": 429, "headers": {"Retry-After": "1"}, "times": 2})
    total, answer = call("GET", "/websites").json()["meta"]["total"], call("GET", "/websites")
    assert (total, answer.status_code, answer.headers["Retry-After"]) == (0, 429, "1")
    assert [website["domain"] for website in analytics_sandbox.websites()] == ["a.example"]
    analytics_sandbox.fault(body=b"\xff")
    pending = [(fault["status"], fault["times"], fault["body"]) for fault in control("GET", "/faults").json()]
    assert pending == [(429, 1, None), (None, 1, "_w==")]
    assert control("DELETE", "/faults").status_code == 204
    assert call("GET", "/websites").status_code == 200


@pytest.mark.parametrize(
    ("path", "json"),
    [
        *(("/options", bad) for bad in ({"colour": "red"}, {"paginator": "elsewhere"}, {"preset": "elsewhere"}, ["p"])),
        *(("/faults", bad) for bad in ({"operation": "lst"}, {"stauts": 500}, {"status": 99}, {"target": "("})),
        *(("/faults", bad) for bad in ({"drift": {"update": 1}}, {"times": 0})),
        *(("/seed", bad) for bad in ({"websites": -1}, {})),
    ],
)
def test_wrong_orders_are_refused(control: Call, analytics_sandbox: SandboxServer, path: str, json: object) -> None:
    assert control("POST", path, json).status_code == 422
    assert (analytics_sandbox.pending_faults, analytics_sandbox.websites()) == ([], [])


def test_requests_are_logged_without_secrets(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    call("GET", "/websites", params={"search": "a b"})
    form, wrong = {"privacy": "2", "password": "open sesame"}, {"Authorization": "Bearer x"}
    call("PATCH", "/websites/7", data=form, headers=wrong)
    answer = control("GET", "/requests")
    listed, updated = answer.json()
    assert [listed[name] for name in ("operation", "method", "path")] == ["list", "GET", "/api/v1/websites"]
    assert [listed[name] for name in ("query", "form", "status")] == [[["search", "a b"]], [], 200]
    assert (listed["headers"]["authorization"], listed["headers"]["accept"]) == ("right", "application/json")
    assert (updated["headers"]["authorization"], updated["status"]) == ("wrong", 401)
    assert updated["form"] == [["privacy", "2"], ["password", "***"]]
    assert "sesame" not in answer.text
    assert analytics_sandbox.api_key not in answer.text
    control("DELETE", "/requests")
    assert control("GET", "/requests").json() == []


def test_reset(control: Call, call: Call, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.seed(3)
    analytics_sandbox.configure(paginator="simple", reads_behind=1, seconds_behind=60)
    for domain in ("a.example", "b.example"):
        call("POST", "/websites", data={"domain": domain})
    assert len(call("GET", "/websites").json()["data"]) == 3  # as before the first write
    analytics_sandbox.fault(status=500)
    assert control("POST", "/reset").status_code == 204
    assert analytics_sandbox.websites() == call("GET", "/websites").json()["data"] == []
    assert analytics_sandbox.options.paginator == "length"
    assert (analytics_sandbox.pending_faults, len(analytics_sandbox.requests)) == ([], 1)
    assert call("POST", "/websites", data={"domain": "a.example"}).json()["data"]["id"] == 1


@pytest.mark.parametrize("path", ["/_sandbox/reset", "/reset"])
def test_the_control_endpoints_are_not_below_the_interface(call: Call, path: str) -> None:
    assert call("POST", path).status_code == 404


@pytest.mark.parametrize(
    ("client", "status"),
    [("127.0.0.1", 200), ("127.9.9.9", 200), ("::1", 200), ("192.0.2.1", 403), ("2001:db8::1", 403)],
)
def test_the_control_endpoints_answer_this_machine_only(client: str, status: int) -> None:
    """A test may reach no other address, so the address of the client is made up."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    path = "/_sandbox/websites"
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": ""}
    scope |= {"query_string": b"", "headers": [], "client": (client, 50000)}
    asyncio.run(App("key", Options(), "")(scope, receive, send))
    assert sent[0]["status"] == status
