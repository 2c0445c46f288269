"""The sandbox answers to the key as Laravel 13.26 and nginx do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from fixture_types import Call
from operations import PREFIX

from airflow_provider_analytics.sandbox.options import PRESETS
from airflow_provider_analytics.sandbox.server import SandboxServer

OK = 200


@pytest.fixture
def sandbox(analytics_sandbox: SandboxServer) -> SandboxServer:
    """A sandbox with 35 websites."""
    analytics_sandbox.seed(35)
    return analytics_sandbox


@pytest.fixture
def list_url(sandbox: SandboxServer) -> str:
    return f"{sandbox.url}{PREFIX}/websites"


def shape(body: Any) -> str:
    """Return a body with its keys in their order, without the websites."""
    return json.dumps({**body, "data": []})


def test_a_resource_collection_of_a_length_aware_paginator(call: Call, list_url: str) -> None:
    """``WebsiteResource::collection(Website::paginate()->withQueryString())``."""
    body = call("GET", "/websites?sort=asc&search=&per_page=10&page=2").json()
    link = f"{list_url}?sort=asc&per_page=10&page="
    labels = ["&laquo; Previous", "1", "2", "3", "4", "Next &raquo;"]
    numbered = [
        {"url": f"{link}{page}", "label": label, "page": page, "active": label == "2"}
        for label, page in zip(labels, (1, 1, 2, 3, 4, 3), strict=True)
    ]
    assert [website["id"] for website in body["data"]] == list(range(11, 21))
    assert shape(body) == shape(
        {
            "data": [],
            "links": {"first": f"{link}1", "last": f"{link}4", "prev": f"{link}1", "next": f"{link}3"},
            "meta": {
                "current_page": 2,
                "from": 11,
                "last_page": 4,
                "links": numbered,
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
    meta = {"current_page": 2, "current_page_url": f"{link}2", "from": 11, "path": list_url, "per_page": 10, "to": 20}
    links = {"first": f"{link}1", "last": None, "prev": f"{link}1", "next": f"{link}3"}
    assert shape(body) == shape({"data": [], "links": links, "meta": meta})


def test_a_cursor_paginator(call: Call, sandbox: SandboxServer, list_url: str) -> None:
    sandbox.configure(preset="cursor")
    first = call("GET", "/websites?per_page=10").json()
    second = call("GET", f"/websites?per_page=10&cursor={first['meta']['next_cursor']}").json()
    link = f"{list_url}?per_page=10&cursor="
    cursors = {name: second["meta"][name] for name in ("next_cursor", "prev_cursor")}
    following, previous = cursors.values()
    links = {"first": None, "last": None, "prev": f"{link}{previous}", "next": f"{link}{following}"}
    meta = {"path": list_url, "per_page": 10, **cursors}
    assert [website["id"] for website in second["data"]] == list(range(25, 15, -1))
    assert shape(second) == shape({"data": [], "links": links, "meta": meta})
    for cursor in (previous, "nonsense"):
        assert call("GET", f"/websites?per_page=10&cursor={cursor}").json()["data"] == first["data"]


@pytest.mark.parametrize("order", ["sort=desc", "sort=asc", "sort_by=domain", "sort_by=domain&sort=asc"])
@pytest.mark.parametrize("preset", ["length", "simple", "cursor"])
def test_links_lead_to_the_last_page_and_back(call: Call, sandbox: SandboxServer, preset: str, order: str) -> None:
    for _ in range(12):
        sandbox.add_website("same.example")
    sandbox.configure(preset=preset)

    def walk(start: str, name: str) -> tuple[list[list[int]], str]:
        found: list[list[int]] = []
        link: str | None = start
        while link:
            last = link
            body = call("GET", link.partition(PREFIX)[2]).json()
            found.append([website["id"] for website in body["data"]])
            link = body["links"][name]
        return found, last

    onwards, last = walk(f"{PREFIX}/websites?per_page=10&{order}", "next")
    assert sorted(website_id for page in onwards for website_id in page) == list(range(1, 48))
    assert walk(last, "prev")[0] == onwards[::-1]


@pytest.mark.parametrize("paginator", ["length", "simple", "cursor"])
def test_links_of_a_service_behind_a_proxy_that_ends_tls(
    call: Call, sandbox: SandboxServer, paginator: str, list_url: str
) -> None:
    sandbox.configure(preset=f"{paginator}-untrusted-proxy")
    body = call("GET", "/websites?per_page=10").json()
    address = list_url.replace("http://", "https://")
    assert body["links"]["next"].startswith(f"{address}?per_page=10&")
    assert body["meta"]["path"] == address


@pytest.mark.parametrize("page", ["0", "-1", "x", "", "1.5", "9" * 30])
def test_a_page_that_is_no_number_is_the_first(call: Call, sandbox: SandboxServer, page: str) -> None:
    assert call("GET", f"/websites?page={page}").json()["meta"]["current_page"] == 1


def test_invalid_data_is_summed_up(call: Call, sandbox: SandboxServer) -> None:
    one = call("PATCH", "/websites/1", data={"exclude_bots": "7"})
    message = "The selected exclude bots is invalid."
    assert (one.status_code, one.json()) == (422, {"message": message, "errors": {"exclude_bots": [message]}})
    assert call("PATCH", "/websites/1", data={"privacy": "secret"}).json() == {
        "message": "The privacy field must be an integer. (and 1 more error)",
        "errors": {"privacy": ["The privacy field must be an integer.", "The selected privacy is invalid."]},
    }
    more = call("POST", "/websites", data={"domain": "a b", "email": "on"}).json()
    assert more["message"] == "The domain field format is invalid. (and 2 more errors)"
    assert call("POST", "/websites", data=[("privacy", "9"), ("colour", "red"), ("email", "0"), ("email", "1")]).json()[
        "errors"
    ] == {
        "privacy": ["The selected privacy is invalid."],
        "colour": ["The colour field is prohibited."],
        "email": ["The email field has a duplicate value."],
        "domain": ["The domain field is required."],
    }


@pytest.mark.parametrize(("text", "is_accepted"), [("true", False), ("false", False), ("1", True), ("0", True)])
def test_the_rule_boolean(call: Call, sandbox: SandboxServer, text: str, is_accepted: bool) -> None:
    sandbox.configure(preset="boolean-rule")
    refused = {"favorite": ["The favorite field must be true or false."]}
    for answer in (
        call("GET", f"/websites?favorite={text}"),
        call("PATCH", "/websites/1", data={"favorite": text}),
    ):
        assert (answer.status_code, answer.json().get("errors")) == ((OK, None) if is_accepted else (422, refused))


# Limits. The clock of the sandbox is the test's own.


class Clock:
    """Replaces the times of the sandbox."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        for module in ("limits", "service"):
            monkeypatch.setattr(f"airflow_provider_analytics.sandbox.{module}.time", self)

    def time(self) -> float:
        return self.now

    monotonic = time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_throttle_announces_its_limit_and_asks_to_wait(call: Call, sandbox: SandboxServer, clock: Clock) -> None:
    sandbox.configure(throttle={"attempts": 3, "minutes": 1})
    wrong = [call("GET", "/account", headers={"Authorization": "Bearer x"}).status_code for _ in range(4)]
    answers = [call("GET", path) for path in ("/account", "/websites/99", "/websites", "/account")]
    assert wrong == [401] * 4  # not counted
    assert [
        [answer.status_code, *(answer.headers[f"X-RateLimit-{name}"] for name in ("Limit", "Remaining"))]
        for answer in answers
    ] == [[200, "3", "2"], [404, "3", "1"], [200, "3", "0"], [429, "3", "0"]]
    assert "Retry-After" not in answers[2].headers
    assert answers[3].json() == {"message": "Too Many Attempts."}
    assert [answers[3].headers[name] for name in ("Retry-After", "X-RateLimit-Reset")] == ["60", "1000060"]
    clock.now += 59.5
    late = call("GET", "/account")
    assert (late.status_code, late.headers["Retry-After"]) == (429, "1")
    clock.now += 0.5
    assert call("GET", "/account").status_code == OK


@pytest.mark.parametrize(
    ("status", "title"), [(503, "503 Service Temporarily Unavailable"), (429, "429 Too Many Requests")]
)
def test_nginx_rejects_without_a_word_on_when_to_come_back(
    call: Call, sandbox: SandboxServer, clock: Clock, status: int, title: str
) -> None:
    sandbox.configure(nginx_limit={"rate": 8, "status": status})
    before = sandbox.websites()
    first, second = call("GET", "/account"), call("PATCH", "/websites/1", data={"email": "1"})
    assert (first.status_code, second.status_code) == (OK, status)
    assert second.headers["Content-Type"] == "text/html"
    assert second.text.startswith(f"<html>\r\n<head><title>{title}</title></head>\r\n")
    assert "<hr><center>nginx</center>" in second.text
    assert not {"Retry-After", "X-RateLimit-Remaining"} & set(second.headers)
    assert [request.status for request in sandbox.requests] == [OK, status]
    assert sandbox.websites() == before
    clock.now += 0.125
    assert call("GET", "/account").status_code == OK


def test_nginx_lets_a_burst_wait(call: Call, sandbox: SandboxServer, clock: Clock) -> None:
    sandbox.configure(nginx_limit={"rate": 20, "burst": 2})
    began = time.monotonic()
    assert [call("GET", "/account").status_code for _ in range(4)] == [OK, OK, OK, 503]
    assert time.monotonic() - began >= 0.14


@pytest.mark.parametrize("preset", ["throttle", "nginx-limit", "nginx-limit-429"])
def test_a_reset_forgets_what_was_counted(
    call: Call, analytics_sandbox: SandboxServer, clock: Clock, preset: str
) -> None:
    for _ in range(70):
        analytics_sandbox.reset()
        analytics_sandbox.configure(preset=preset)
        assert call("GET", "/account").status_code == OK


@pytest.mark.parametrize("behind", ["reads_behind", "seconds_behind"])
def test_a_replica_shows_the_old_state_for_some_time(
    call: Call, sandbox: SandboxServer, clock: Clock, behind: str
) -> None:
    sandbox.configure(**{behind: 3})

    def shown() -> list[int]:
        clock.now += 1
        if call("GET", "/websites/36").status_code == OK:
            return [36]
        return [call("GET", "/websites").json()["meta"]["total"]]

    call("POST", "/websites", data={"domain": "new.example"})
    assert [shown() for _ in range(3)] == ([[35], [36], [36]] if behind == "reads_behind" else [[35], [35], [36]])
    assert call("GET", "/websites").json()["meta"]["total"] == 36


# Presets


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_serves_an_account(call: Call, analytics_sandbox: SandboxServer, preset: str) -> None:
    analytics_sandbox.configure(preset=preset)
    assert call("GET", "/account").status_code == OK


def test_a_preset_replaces_all_options_and_further_ones_change_it(sandbox: SandboxServer) -> None:
    sandbox.configure(allow_duplicates=True)
    sandbox.configure(preset="cursor", page_parameter="after")
    options = sandbox.options
    assert (options.paginator, options.page_parameter, options.allow_duplicates) == ("cursor", "after", False)


def test_a_preset_of_the_start_holds_after_a_reset() -> None:
    with SandboxServer(preset="simple", options={"allow_duplicates": True}) as sandbox:
        sandbox.configure(preset="length")
        sandbox.reset()
        assert (sandbox.options.paginator, sandbox.options.allow_duplicates) == ("simple", True)


@pytest.mark.parametrize(
    "use", [lambda name: SandboxServer(preset=name), lambda name: SandboxServer(options={"preset": name})]
)
def test_an_unknown_preset_names_those_that_exist(use: Callable[[str], SandboxServer]) -> None:
    with pytest.raises(ValueError, match="unknown preset 'colour'; allowed: length, simple, cursor"):
        use("colour")
