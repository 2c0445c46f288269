# SPDX-License-Identifier: Apache-2.0
"""Sandbox: server, responses, options, late reads, and every field of faults, seen by a client on a real socket.

tests/laravel compares 300 responses with a real application: statuses, headers, pages, and fields of errors.
"""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from fixture_types import Call
from operations import PREFIX

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


# Responses


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    """A sandbox with two websites."""
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
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
    assert (gone.status_code, gone.json()) == (200, {"id": 2, "object": "website", "deleted": True})
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
    for seconds, total in ((0, 2), (2.9, 2), (0.1, 3)):
        now += seconds
        assert call("GET", "/websites").json()["meta"]["total"] == total


@pytest.mark.parametrize(
    "write", [("POST", "/websites"), ("PATCH", "/websites/1"), ("PUT", "/websites/1"), ("DELETE", "/websites/1")]
)
def test_replica_returns_the_old_state_for_some_reads_after_each_write(
    call: Call, sandbox: SandboxServer, write: tuple[str, str]
) -> None:
    def read() -> str:
        """Return the list, after a read of a single website."""
        call("GET", "/websites/1")
        return call("GET", "/websites").text

    before = read()
    sandbox.configure(reads_behind=4)
    call(*write, data={"domain": "new.example", "privacy": "2", "email": "1"})
    assert [read() == before for _ in range(3)] == [True, True, False]


# Faults


NEW = {"domain": "c.example"}


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


def test_drift_changes_the_list_between_two_requests(call: Call, sandbox: SandboxServer) -> None:
    sandbox.fault("list", skip=1, drift={"create": 2})
    sandbox.fault("list", skip=3, drift={"delete": 50, "create": 2})  # more than there are
    reads = [[row["domain"] for row in call("GET", "/websites?sort=asc").json()["data"]] for _ in range(5)]
    assert reads[0] == reads[1] == ["a.example", "b.example"] == reads[2][:2]
    assert reads[2] == reads[3] != reads[4] == []
    assert len(set(reads[2])) == 4
