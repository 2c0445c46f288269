# SPDX-License-Identifier: Apache-2.0
"""Sandbox server: start and stop, recorded requests, websites, and reset (``sandbox/server.py``)."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from fixture_types import Call

from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.sandbox.service import Options


def get(sandbox: SandboxServer, path: str = "/api/v1/account") -> requests.Response:
    headers = {"Authorization": f"Bearer {sandbox.api_key}", "Accept": "application/json"}
    return requests.get(sandbox.url + path, headers=headers, timeout=10)


def test_servers_are_independent_and_close_all_sockets(tmp_path: Path) -> None:
    with SandboxServer() as item, SandboxServer() as other:
        item.add_website("a.example")
        assert (item.api_key, item.url) != (other.api_key, other.url)
        assert (get(item).status_code, other.websites()) == (200, [])
        with pytest.raises(OSError, match="in use"):
            SandboxServer(port=urlsplit(item.url).port or 0).start()
        item.stop()  # and once more at the end
        with pytest.raises(requests.ConnectionError):
            get(item)
    with pytest.raises(OSError, match="No such file"):
        SandboxServer(ssl_certfile=tmp_path / "none.pem").start()
    gc.collect()  # an open connection or socket would warn here


def test_links_work_below_a_sub_path() -> None:
    with SandboxServer(root="/app/") as sandbox:
        sandbox.seed(30)
        links = get(sandbox, "/api/v1/websites?per_page=10").json()["links"]
        assert links["next"] == f"{sandbox.url}/api/v1/websites?per_page=10&page=2"
        origin = sandbox.url.removesuffix("/app")
        assert requests.get(f"{origin}/api/v1/account", timeout=10).status_code == 404


def test_requests_are_recorded_byte_by_byte(analytics_sandbox: SandboxServer) -> None:
    body = b"domain=a.example&exclude_ips=192.0.2.1%0A192.0.2.2"
    headers: dict[str, str | bytes] = {
        "Authorization": f"Bearer {analytics_sandbox.api_key}",
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Mark": "Ünïcode".encode(),
    }
    url = f"{analytics_sandbox.url}/api/v1/websites?a=%20b&a=c"
    requests.post(url, data=body, headers=headers, allow_redirects=False, timeout=10)
    (request,) = analytics_sandbox.requests
    assert (request.operation, request.method, request.path) == ("create", "POST", "/api/v1/websites")
    assert (request.target, request.body) == ("/api/v1/websites?a=%20b&a=c", body)
    assert request.query == [("a", " b"), ("a", "c")]
    assert request.form == [("domain", "a.example"), ("exclude_ips", "192.0.2.1\n192.0.2.2")]
    assert (b"x-mark", "Ünïcode".encode()) in request.headers
    assert (request.header("Authorization"), request.header("X-Nothing")) == (headers["Authorization"], None)
    assert (request.authorized, request.status) == (True, 201)
    assert analytics_sandbox.api_key not in repr(request)
    analytics_sandbox.clear_requests()
    assert analytics_sandbox.requests == []


# Websites


def test_generated_websites_are_a_repeatable_mixture_of_reserved_names(analytics_sandbox: SandboxServer) -> None:
    def seeded(count: int, seed: int) -> list[dict[str, Any]]:
        analytics_sandbox.reset()
        analytics_sandbox.seed(count, seed)
        return analytics_sandbox.websites()

    assert seeded(5, 8) != seeded(5, 7) == seeded(500, 7)[:5]
    websites = analytics_sandbox.websites()
    assert all(".example" in website["domain"] for website in websites)
    addresses = {ip for website in websites for ip in (website["exclude_ips"] or "").splitlines()}
    assert all(ip.startswith(("192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:")) for ip in addresses)
    analytics_sandbox.seed(20, 8)
    assert len({website["domain"] for website in analytics_sandbox.websites()}) == 520


def test_websites_are_added_changed_and_removed_without_a_request(analytics_sandbox: SandboxServer) -> None:
    first = analytics_sandbox.add_website("bücher.example", exclude_ips="")
    assert (first["id"], first["exclude_ips"]) == (1, None)
    assert analytics_sandbox.add_website("BÜCHER.example")["id"] == 2
    assert analytics_sandbox.change_website(1, email=1) == analytics_sandbox.websites()[0] == {**first, "email": 1}
    assert [analytics_sandbox.remove_website(number) for number in (2, 2)] == [True, False]
    assert analytics_sandbox.add_website("a.example")["id"] == 3
    assert (analytics_sandbox.change_website(7, email=1), analytics_sandbox.stored_password(7)) == (None, None)
    with pytest.raises(ValueError, match="colour"):
        analytics_sandbox.add_website("b.example", colour="red")
    with pytest.raises(ValueError, match="colour"):
        analytics_sandbox.change_website(1, colour="red")
    assert analytics_sandbox.requests == []


def test_reset_removes_websites_faults_and_requests_and_restores_options(
    call: Call, analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.seed(12, 3)
    analytics_sandbox.configure(reads_behind=1, seconds_behind=60)
    for domain in ("a.example", "b.example"):
        call("POST", "/websites", data={"domain": domain})
    assert len(call("GET", "/websites").json()["data"]) == 12  # as before the first write
    analytics_sandbox.fault("list", status=429, headers={"Retry-After": "1"}, times=2)
    answer = call("GET", "/websites")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    analytics_sandbox.clear_faults()
    assert call("GET", "/websites").status_code == 200
    analytics_sandbox.fault(status=500)
    analytics_sandbox.reset()
    assert analytics_sandbox.websites() == call("GET", "/websites").json()["data"] == []
    assert analytics_sandbox.options == Options()
    assert len(analytics_sandbox.requests) == 1
    assert call("POST", "/websites", data={"domain": "a.example"}).json()["data"]["id"] == 1


def test_number_of_generated_websites_is_limited(analytics_sandbox: SandboxServer) -> None:
    with pytest.raises(ValueError, match="Allowed: at most 100,000"):
        analytics_sandbox.seed(100_001)
    assert analytics_sandbox.websites() == []


def test_proxy_headers_have_no_effect(call: Call, analytics_sandbox: SandboxServer) -> None:
    headers = {"X-Forwarded-For": "nonsense", "X-Forwarded-Proto": "https"}
    answer = call("GET", "/websites", headers={"Authorization": f"Bearer {analytics_sandbox.api_key}", **headers})
    assert (answer.status_code, "https://" in answer.text) == (200, False)
