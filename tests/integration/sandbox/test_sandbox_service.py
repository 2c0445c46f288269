# SPDX-License-Identifier: Apache-2.0
"""Sandbox: validation, pages, errors, and late reads (``sandbox/service.py``).

tests/laravel compares 300 responses with a real application, where PHP is installed.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from fixture_types import Call
from operations import PREFIX

from airflow_provider_analytics.sandbox.server import SandboxServer

OK = 200
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    """A sandbox with 35 websites."""
    analytics_sandbox.seed(35)
    return analytics_sandbox


@pytest.fixture
def list_url(sandbox: SandboxServer) -> str:
    return f"{sandbox.url}{PREFIX}/websites"


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
    for website_id in ("2", "0", "-1", "02", "x", "9" * 18, "9" * 30):
        for method in ("GET", "PUT", "PATCH", "DELETE"):
            answer = call(method, f"/websites/{website_id}")
            message = f"No query results for model [App\\Models\\Website] {website_id}"
            assert (answer.status_code, answer.json()) == (404, {"message": message})
    assert call("POST", "/websites", data={"domain": "b.example"}).json()["data"]["id"] == 3


@pytest.mark.parametrize(
    ("method", "target", "form", "wrong"),
    [
        *(("POST", "", {"domain": bad}, "domain") for bad in ("", "https://a.example", "a b.c")),
        *(("POST", "", {"domain": "b.example", "privacy": bad}, "privacy") for bad in ("3", "01", "")),
        ("POST", "", {"id": "1", "email": "1", "privacy": "9"}, "domain privacy"),
        *(("POST", "", no_domain, "domain") for no_domain in (b"domain", b"a=b&&c=d", b"domain=%FF", b"domain=+")),
        *(("PATCH", "/1", {"favorite": bad}, "favorite") for bad in ("yes", "true", "")),
        *(("GET", f"?per_page={bad}", None, "per_page") for bad in ("010", "ten", "")),
        *(("GET", f"?{bad}=email", None, bad) for bad in ("sort", "sort_by", "search_by")),
    ],
)
def test_sandbox_rejects_a_bad_request(
    call: Call, analytics_sandbox: SandboxServer, method: str, target: str, form: Any, wrong: str
) -> None:
    website = analytics_sandbox.add_website("a.example")
    answer = call(method, f"/websites{target}", data=form, headers={"Content-Type": FORM} if form else {})
    assert (answer.status_code, set(answer.json()["errors"])) == (422, set(wrong.split()))
    assert analytics_sandbox.websites() == [website]


def test_sandbox_ignores_other_names_and_takes_the_last_of_equal_ones(
    call: Call, analytics_sandbox: SandboxServer
) -> None:
    form = [("domain", "a.example"), ("domain", " b.example "), ("favorite", "1"), ("color", "red"), ("id", "7")]
    created = call("POST", "/websites", data=form).json()["data"]
    assert (created["id"], created["domain"], created["favorite"]) == (1, "b.example", False)
    changed = call("PATCH", "/websites/1?per_page=5", data={"domain": "c.example", "email": "+1"}).json()["data"]
    assert changed == {**created, "email": 1}
    for text, total in (("on", 0), ("true", 0), ("", 1), ("email", 1)):
        assert call("GET", f"/websites?favorite={text}&color=red").json()["meta"]["total"] == total


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


def test_sandbox_checks_the_key_the_path_and_the_accept_header(call: Call, analytics_sandbox: SandboxServer) -> None:
    for header in (None, "Basic {key}", "{key}", "Bearer {key}x"):
        authorization = header and header.format(key=analytics_sandbox.api_key)
        answer = call("POST", "/websites", headers={"Authorization": authorization}, data={"domain": "a.example"})
        assert (answer.status_code, answer.json()) == (401, {"message": "Unauthenticated."})
    for path in ("", "/account/1", "/websites/1/2", "/nothing"):
        answer = call("GET", path)
        message = f"The route {(PREFIX + path).strip('/')} could not be found."
        assert (answer.status_code, answer.json()) == (404, {"message": message})
    assert call("GET", "/websites/").json() == call("GET", "/websites").json()
    refused = call("PUT", "/websites", data={})
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD, POST")
    assert call("OPTIONS", "/account").headers["Allow"] == "GET,HEAD"
    assert (call("HEAD", "/account").status_code, call("HEAD", "/account").text) == (OK, "")
    for accept in ("*/*", "text/html", "text/html, application/json", None):
        invalid = call("POST", "/websites", data={"domain": ""}, headers={"Accept": accept})
        assert (invalid.status_code, invalid.headers["Location"]) == (302, analytics_sandbox.url)
        unknown = call("GET", "/account", headers={"Accept": accept, "Authorization": None})
        assert (unknown.status_code, unknown.headers["Location"]) == (302, f"{analytics_sandbox.url}/login")
        missing = call("GET", "/websites/9", headers={"Accept": accept})
        assert (missing.status_code, missing.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert analytics_sandbox.websites() == []


# Pages


def shape(body: Any) -> str:
    """Return a body with its keys in their order, without the websites."""
    return json.dumps({**body, "data": []})


def test_sandbox_returns_a_list_with_a_length_aware_paginator(call: Call, list_url: str) -> None:
    body = call("GET", "/websites?sort=asc&search=&per_page=10&page=2").json()
    link = f"{list_url}?sort=asc&per_page=10&page="
    links = {"first": f"{link}1", "last": f"{link}4", "prev": f"{link}1", "next": f"{link}3"}
    numbered = [
        {"url": f"{link}1", "label": "&laquo; Previous", "active": False},
        *({"url": f"{link}{number}", "label": str(number), "active": number == 2} for number in range(1, 5)),
        {"url": f"{link}3", "label": "Next &raquo;", "active": False},
    ]
    meta = {"current_page": 2, "from": 11, "last_page": 4, "links": numbered, "path": list_url, "per_page": 10}
    assert [website["id"] for website in body["data"]] == list(range(11, 21))
    assert shape(body) == shape({"data": [], "links": links, "meta": {**meta, "to": 20, "total": 35}})
    for page in ("0", "-1", "x", "", "1.5", "9" * 30):  # not a number: the first page
        assert call("GET", f"/websites?page={page}").json()["meta"]["current_page"] == 1
    empty = call("GET", "/websites?search=nothing").json()["meta"]
    assert [empty[name] for name in ("current_page", "last_page", "from", "to", "total")] == [1, 1, None, None, 0]


# Errors


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


# Options


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
