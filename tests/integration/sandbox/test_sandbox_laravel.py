"""The sandbox answers to the key as Laravel 13.26 and nginx do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests
from fixture_types import Call
from operations import PREFIX

from airflow_provider_analytics.sandbox.options import PRESETS
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    """A sandbox with 35 websites."""
    analytics_sandbox.seed(35)
    return analytics_sandbox


@pytest.fixture
def list_url(sandbox: SandboxServer) -> str:
    return f"{sandbox.url}{PREFIX}/websites"


def shape(body: Any) -> str:
    """Return the keys of a body in their order, without the websites."""
    return json.dumps({**body, "data": []})


def test_a_resource_collection_of_a_length_aware_paginator(call: Call, sandbox: SandboxServer, list_url: str) -> None:
    """``WebsiteResource::collection(Website::paginate()->withQueryString())``."""
    body = call("GET", "/websites?sort=asc&search=&per_page=10&page=2").json()

    link = f"{list_url}?sort=asc&per_page=10&page="
    assert [website["id"] for website in body["data"]] == list(range(11, 21))
    assert shape(body) == json.dumps(
        {
            "data": [],
            "links": {"first": f"{link}1", "last": f"{link}4", "prev": f"{link}1", "next": f"{link}3"},
            "meta": {
                "current_page": 2,
                "from": 11,
                "last_page": 4,
                "links": [
                    {"url": f"{link}1", "label": "&laquo; Previous", "page": 1, "active": False},
                    {"url": f"{link}1", "label": "1", "page": 1, "active": False},
                    {"url": f"{link}2", "label": "2", "page": 2, "active": True},
                    {"url": f"{link}3", "label": "3", "page": 3, "active": False},
                    {"url": f"{link}4", "label": "4", "page": 4, "active": False},
                    {"url": f"{link}3", "label": "Next &raquo;", "page": 3, "active": False},
                ],
                "path": list_url,
                "per_page": 10,
                "to": 20,
                "total": 35,
            },
        }
    )


@pytest.mark.parametrize(
    ("page", "labels"),
    [
        (1, "1 2 3 4 5 6 7 8 9 10 ... 25 26"),
        (7, "1 2 3 4 5 6 7 8 9 10 ... 25 26"),
        (8, "1 2 ... 5 6 7 8 9 10 11 ... 25 26"),
        (19, "1 2 ... 16 17 18 19 20 21 22 ... 25 26"),
        (20, "1 2 ... 17 18 19 20 21 22 23 24 25 26"),
    ],
)
def test_the_window_of_numbered_links(call: Call, analytics_sandbox: SandboxServer, page: int, labels: str) -> None:
    analytics_sandbox.seed(253)

    links = call("GET", f"/websites?per_page=10&page={page}").json()["meta"]["links"]

    assert " ".join(link["label"] for link in links[1:-1]) == labels
    assert {"url": None, "label": "...", "active": False} in links


def test_a_simple_paginator(call: Call, sandbox: SandboxServer, list_url: str) -> None:
    sandbox.configure(preset="simple")

    body = call("GET", "/websites?page=2&per_page=10").json()

    link = f"{list_url}?per_page=10&page="
    assert shape(body) == json.dumps(
        {
            "data": [],
            "links": {"first": f"{link}1", "last": None, "prev": f"{link}1", "next": f"{link}3"},
            "meta": {
                "current_page": 2,
                "current_page_url": f"{link}2",
                "from": 11,
                "path": list_url,
                "per_page": 10,
                "to": 20,
            },
        }
    )


def test_a_cursor_paginator(call: Call, sandbox: SandboxServer, list_url: str) -> None:
    sandbox.configure(preset="cursor")
    first = call("GET", "/websites?per_page=10").json()
    cursor = first["meta"]["next_cursor"]
    second = call("GET", f"/websites?per_page=10&cursor={cursor}").json()

    link = f"{list_url}?per_page=10&cursor="
    following, previous = second["meta"]["next_cursor"], second["meta"]["prev_cursor"]
    assert [website["id"] for website in second["data"]] == list(range(25, 15, -1))
    assert shape(second) == json.dumps(
        {
            "data": [],
            "links": {"first": None, "last": None, "prev": f"{link}{previous}", "next": f"{link}{following}"},
            "meta": {"path": list_url, "per_page": 10, "next_cursor": following, "prev_cursor": previous},
        }
    )
    assert call("GET", f"/websites?per_page=10&cursor={previous}").json()["data"] == first["data"]
    assert call("GET", "/websites?per_page=10&cursor=nonsense").json()["data"] == first["data"]


@pytest.mark.parametrize("order", ["sort=desc", "sort=asc", "sort_by=domain", "sort_by=domain&sort=asc"])
@pytest.mark.parametrize("preset", ["length", "simple", "cursor"])
def test_links_lead_to_the_last_page_and_back(call: Call, sandbox: SandboxServer, preset: str, order: str) -> None:
    for _ in range(12):
        sandbox.add_website("same.example")
    sandbox.configure(preset=preset)

    def walk(start: str, name: str) -> tuple[list[int], str]:
        found: list[int] = []
        link: str | None = start
        while link:
            last = link
            body = call("GET", link.partition(PREFIX)[2]).json()
            ids = [website["id"] for website in body["data"]]
            found = found + ids if name == "next" else ids + found
            link = body["links"][name]
        return found, last

    onwards, last = walk(f"{PREFIX}/websites?per_page=10&{order}", "next")
    back, _ = walk(last, "prev")

    assert sorted(onwards) == list(range(1, 48))
    assert onwards == back


@pytest.mark.parametrize("paginator", ["length", "simple", "cursor"])
def test_links_of_a_service_behind_a_proxy_that_ends_tls(
    call: Call, sandbox: SandboxServer, paginator: str, list_url: str
) -> None:
    sandbox.configure(preset=f"{paginator}-untrusted-proxy")

    body = call("GET", "/websites?per_page=10").json()

    address = list_url.partition("://")[2]
    assert body["links"]["next"].startswith(f"https://{address}?per_page=10&")
    assert body["meta"]["path"] == f"https://{address}"


@pytest.mark.parametrize("page", ["0", "-1", "x", "", "1.5", "9" * 30])
def test_a_page_that_is_no_number_is_the_first(call: Call, sandbox: SandboxServer, page: str) -> None:
    assert call("GET", f"/websites?page={page}").json()["meta"]["current_page"] == 1


def test_a_record_is_under_data(call: Call, sandbox: SandboxServer) -> None:
    assert list(call("GET", "/websites/1").json()) == ["data"]


def test_invalid_data_is_summed_up(call: Call, sandbox: SandboxServer) -> None:
    one = call("PATCH", "/websites/1", data={"exclude_bots": "7"})
    two = call("PATCH", "/websites/1", data={"privacy": "secret"})
    more = call("POST", "/websites", data={"domain": "a b", "email": "on"})

    assert (one.status_code, one.json()) == (
        422,
        {
            "message": "The selected exclude bots is invalid.",
            "errors": {"exclude_bots": ["The selected exclude bots is invalid."]},
        },
    )
    assert two.json() == {
        "message": "The privacy field must be an integer. (and 1 more error)",
        "errors": {"privacy": ["The privacy field must be an integer.", "The selected privacy is invalid."]},
    }
    assert more.json()["message"] == "The domain field format is invalid. (and 2 more errors)"


@pytest.mark.parametrize(
    ("method", "path", "key", "status", "message"),
    [
        ("GET", "/account", "wrong", 401, "Unauthenticated."),
        ("GET", "/websites/99", None, 404, "No query results for model [App\\Models\\Website] 99"),
        ("GET", "/nothing", None, 404, "The route api/v1/nothing could not be found."),
    ],
)  # fmt: skip
def test_other_errors_have_a_message_only(
    call: Call, sandbox: SandboxServer, method: str, path: str, key: str | None, status: int, message: str
) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    answer = call(method, path, headers=headers)

    assert (answer.status_code, answer.json()) == (status, {"message": message})


@pytest.mark.parametrize(("text", "is_accepted"), [("true", False), ("false", False), ("1", True), ("0", True)])
def test_the_rule_boolean(call: Call, sandbox: SandboxServer, text: str, is_accepted: bool) -> None:
    sandbox.configure(preset="boolean-rule")
    refused = {"favorite": ["The favorite field must be true or false."]}

    answers = [call("GET", f"/websites?favorite={text}"), call("PATCH", "/websites/1", data={"favorite": text})]

    assert [answer.status_code for answer in answers] == ([200, 200] if is_accepted else [422, 422])
    assert [answer.json().get("errors") for answer in answers] == ([None, None] if is_accepted else [refused, refused])


def test_throttle_announces_its_limit_and_asks_to_wait(call: Call, sandbox: SandboxServer) -> None:
    sandbox.configure(throttle={"attempts": 3, "minutes": 1})
    now = time.time()

    answers = [call("GET", path) for path in ("/account", "/websites/99", "/websites", "/account")]

    names = ("X-RateLimit-Limit", "X-RateLimit-Remaining")
    limits = [[answer.headers[name] for name in names] for answer in answers]
    assert [answer.status_code for answer in answers] == [200, 404, 200, 429]
    assert limits == [["3", "2"], ["3", "1"], ["3", "0"], ["3", "0"]]
    assert "Retry-After" not in answers[2].headers
    assert answers[3].json() == {"message": "Too Many Attempts."}
    wait, reset = int(answers[3].headers["Retry-After"]), int(answers[3].headers["X-RateLimit-Reset"])
    assert 0 < wait <= 60
    assert now < reset <= now + 62


def until(is_reached: Callable[[], bool]) -> None:
    """Ask again and again, for at most ten seconds."""
    started = time.monotonic()
    while not is_reached():
        assert time.monotonic() - started < 10


def test_throttle_lets_the_next_window_through(call: Call, sandbox: SandboxServer) -> None:
    sandbox.configure(throttle={"attempts": 1, "minutes": 0.001})

    until(lambda: call("GET", "/account").status_code == 429)
    until(lambda: call("GET", "/account").status_code == 200)


def test_a_wrong_key_is_not_counted(call: Call, sandbox: SandboxServer) -> None:
    sandbox.configure(throttle={"attempts": 1})

    wrong = [call("GET", "/account", headers={"Authorization": "Bearer x"}).status_code for _ in range(3)]

    assert [*wrong, call("GET", "/account").status_code] == [401, 401, 401, 200]


@pytest.mark.parametrize(
    ("status", "title"), [(503, "503 Service Temporarily Unavailable"), (429, "429 Too Many Requests")]
)
def test_nginx_rejects_without_a_word_on_when_to_come_back(
    call: Call, sandbox: SandboxServer, status: int, title: str
) -> None:
    sandbox.configure(nginx_limit={"rate": 0.01, "status": status})

    first, second = call("GET", "/account"), call("PATCH", "/websites/1", data={"privacy": "2"})

    assert (first.status_code, second.status_code) == (200, status)
    assert second.headers["Content-Type"] == "text/html"
    assert second.text.startswith(f"<html>\r\n<head><title>{title}</title></head>\r\n")
    assert "<hr><center>nginx</center>" in second.text
    assert not {"Retry-After", "X-RateLimit-Remaining"} & set(second.headers)
    assert [request.status for request in sandbox.requests] == [200, status]
    assert sandbox.websites()[0]["privacy"] != 2


def test_nginx_lets_a_burst_wait(call: Call, sandbox: SandboxServer) -> None:
    sandbox.configure(nginx_limit={"rate": 20, "burst": 2})

    started = time.monotonic()
    statuses = [call("GET", "/account").status_code for _ in range(4)]

    assert statuses == [200] * 4
    assert time.monotonic() - started >= 0.14


@pytest.mark.parametrize("preset", ["throttle", "nginx-limit", "nginx-limit-429"])
def test_a_reset_forgets_what_was_counted(call: Call, analytics_sandbox: SandboxServer, preset: str) -> None:
    def rejected() -> bool:
        analytics_sandbox.reset()
        analytics_sandbox.configure(preset=preset)
        return call("GET", "/account").status_code != 200

    assert not any(rejected() for _ in range(70))


def test_a_replica_shows_the_old_state_for_some_seconds(call: Call, sandbox: SandboxServer) -> None:
    sandbox.configure(seconds_behind=0.2)

    def shown() -> list[object]:
        total = call("GET", "/websites").json()["meta"]["total"]
        return [total, call("GET", "/websites/36").status_code]

    started = time.monotonic()
    call("POST", "/websites", data={"domain": "new.example"})
    assert shown() == [35, 404]
    until(lambda: shown() == [36, 200])
    assert time.monotonic() - started >= 0.2


# Presets


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_serves_an_account(preset: str) -> None:
    with SandboxServer(preset=preset) as sandbox:
        headers = {"Authorization": f"Bearer {sandbox.api_key}", "Accept": "application/json"}
        assert requests.get(f"{sandbox.url}{PREFIX}/account", headers=headers, timeout=10).status_code == 200


def test_a_preset_replaces_all_options_and_further_ones_change_it(sandbox: SandboxServer) -> None:
    sandbox.configure(allow_duplicates=True)

    sandbox.configure(preset="cursor", page_parameter="after")

    options = sandbox.options
    assert (options.paginator, options.page_parameter, options.allow_duplicates) == ("cursor", "after", False)


def test_a_preset_of_the_start_holds_after_a_reset() -> None:
    sandbox = SandboxServer(preset="simple", options={"allow_duplicates": True})
    with sandbox:
        sandbox.configure(preset="length")
        sandbox.reset()

        assert (sandbox.options.paginator, sandbox.options.allow_duplicates) == ("simple", True)


@pytest.mark.parametrize(
    "use", [lambda name: SandboxServer(preset=name), lambda name: SandboxServer(options={"preset": name})]
)
def test_an_unknown_preset_names_those_that_exist(use: Callable[[str], SandboxServer]) -> None:
    with pytest.raises(ValueError, match="unknown preset 'colour'; allowed: length, simple, cursor"):
        use("colour")
