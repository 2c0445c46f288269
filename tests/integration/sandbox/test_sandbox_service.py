"""The six operations, rule by rule: interface parts 2, 4, 5 and 8, and the sandbox's own assumptions."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from fixture_types import Call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operations import PREFIX, endpoints

from airflow_provider_analytics.sandbox.server import SandboxServer

FORM = "application/x-www-form-urlencoded"
ENDPOINTS = [(method, path) for _, method, path in endpoints()]
BOTH_UPDATES = pytest.mark.parametrize("method", ["PUT", "PATCH"])


@pytest.fixture
def website(analytics_sandbox: SandboxServer) -> dict[str, Any]:
    """The only website of the sandbox."""
    return analytics_sandbox.add_website(
        "a.example", privacy=1, exclude_bots=0, exclude_params="old", exclude_ips="192.0.2.1"
    )


def ids(answer: requests.Response) -> list[int]:
    return [found["id"] for found in answer.json()["data"]]


# Create


def test_create_answers_201_with_the_record_and_its_defaults(call: Call, analytics_sandbox: SandboxServer) -> None:
    answer = call("POST", "/websites", data={"domain": "a.example"})
    assert answer.status_code == 201
    record = answer.json()["data"]
    assert call("GET", "/websites/1").json() == answer.json()
    assert analytics_sandbox.websites() == [record]
    assert record.pop("created_at").endswith("Z")
    flags = {"privacy": 0, "email": 0, "exclude_bots": 1, "favorite": False}
    assert record == {"id": 1, "domain": "a.example", **flags, "exclude_params": None, "exclude_ips": None}


@pytest.mark.parametrize("domain", ["a.example", "localhost", "xn--bcher-kva.example", "bücher.example", "a.example."])
def test_create_accepts_domain_names(call: Call, domain: str) -> None:
    assert call("POST", "/websites", data={"domain": domain}).json()["data"]["domain"] == domain


@pytest.mark.parametrize(("options", "status"), [({}, 422), ({"allow_duplicates": True}, 201)])
def test_a_domain_is_taken_once_in_whatever_letter_case(
    call: Call, analytics_sandbox: SandboxServer, website: Any, options: dict[str, Any], status: int
) -> None:
    analytics_sandbox.configure(**options)
    answer = call("POST", "/websites", data={"domain": "A.Example"})
    assert answer.status_code == status
    assert options or answer.json()["errors"] == {"domain": ["The domain has already been taken."]}


# Update


@BOTH_UPDATES
@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("privacy", "0", 0),
        ("email", "1", 1),
        ("exclude_bots", "1", 1),
        ("exclude_params", "a\nb", "a\nb"),
        ("exclude_params", "", None),
        ("exclude_ips", "192.0.2.9", "192.0.2.9"),
        ("exclude_ips", "", None),
        ("favorite", "true", True),
        ("favorite", "1", True),
    ],
)
def test_update_changes_what_is_sent_and_nothing_else(
    call: Call,
    analytics_sandbox: SandboxServer,
    website: dict[str, Any],
    method: str,
    field: str,
    text: str,
    value: Any,
) -> None:
    answer = call(method, "/websites/1", data={field: text})
    assert (answer.status_code, answer.json()["data"]) == (200, {**website, field: value})
    assert analytics_sandbox.websites() == [{**website, field: value}]
    assert call(method, "/websites/1").json()["data"] == {**website, field: value}  # no field: no change


@pytest.mark.parametrize("text", ["false", "0"])
def test_update_takes_a_favorite_back(call: Call, analytics_sandbox: SandboxServer, text: str) -> None:
    analytics_sandbox.add_website("a.example", favorite=True)
    assert call("PATCH", "/websites/1", data={"favorite": text}).json()["data"]["favorite"] is False


# What is refused


CREATE: list[tuple[Any, str]] = [
    ({}, "domain"),
    *(({"domain": bad}, "domain") for bad in ("", "https://a.example", "a.example/path", "a b.example")),
    *(({"domain": "b.example", "privacy": bad}, "privacy") for bad in ("3", "01", "")),
    *(({"domain": "b.example", "email": bad}, "email") for bad in ("2", "true")),
    ({"domain": "b.example", "exclude_bots": "-1"}, "exclude_bots"),
    ({"domain": "b.example", "favorite": "true"}, "favorite"),
    ({"domain": "b.example", "id": "7"}, "id"),
    ([("domain", "b.example"), ("domain", "c.example")], "domain"),
    ({"domain": "b.example", "email": "1", "colour": "red", "privacy": "9"}, "privacy colour"),  # all at once
    *((malformed, "body") for malformed in (b"domain", b"domain=%FF", b"a=b&&c=d", "domain=é".encode())),
]
UPDATE: list[tuple[Any, str]] = [
    ({"domain": "b.example"}, "domain"),
    *(({"favorite": bad}, "favorite") for bad in ("yes", "True", "")),
    ({"privacy": "4"}, "privacy"),
    ({"colour": "red"}, "colour"),
]


@pytest.mark.parametrize(
    ("method", "path", "form", "wrong"),
    [
        *(("POST", "/websites", form, wrong) for form, wrong in CREATE),
        *((method, "/websites/1", form, wrong) for method in ("PUT", "PATCH") for form, wrong in UPDATE),
    ],
)
def test_a_write_is_refused(
    call: Call, analytics_sandbox: SandboxServer, website: Any, method: str, path: str, form: Any, wrong: str
) -> None:
    answer = call(method, path, data=form, headers={"Content-Type": FORM})
    assert (answer.status_code, set(answer.json()["errors"])) == (422, set(wrong.split()))
    assert analytics_sandbox.websites() == [website]


@pytest.mark.parametrize(
    "query",
    [
        *(f"per_page={bad}" for bad in ("30", "0", "010", "ten", "")),
        *(f"favorite={bad}" for bad in ("yes", "True", "")),
        *("sort=up", "sort=DESC", "sort_by=email", "search_by=id", "colour=red", "domain=a.example", "page=1&page=2"),
    ],
)
def test_the_list_refuses(call: Call, query: str) -> None:
    answer = call("GET", f"/websites?{query}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [query.partition("=")[0]])


@pytest.mark.parametrize(("method", "path"), [endpoint for endpoint in ENDPOINTS if endpoint != ("GET", "/websites")])
def test_only_the_list_has_query_parameters(call: Call, website: Any, method: str, path: str) -> None:
    answer = call(method, path, params={"per_page": "10"})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["per_page"])


@pytest.mark.parametrize(("operation", "method", "path"), endpoints("create", "update"))
@pytest.mark.parametrize(
    "body", [{"json": {"privacy": 1}}, {"files": {"privacy": (None, "1")}}, {"data": b"privacy=1"}], ids=str
)
def test_a_body_that_is_not_form_encoded_is_refused(
    call: Call, website: Any, operation: str, method: str, path: str, body: dict[str, Any]
) -> None:
    assert call(method, path, **body).status_code == 415


NAMES = ["search", "favorite", "sort", "sort_by", "per_page", "page", "cursor", "domain", "privacy", "password"]
TEXTS = st.sampled_from(["", "0", "1", "2", "true", "id", "domain", "asc", "10", "a.example"]) | st.text(max_size=5)
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), TEXTS), max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(ENDPOINTS),
    st.sampled_from(["1", "99", "x", "%00", "9" * 40]),
    PAIRS,
    PAIRS | st.binary(max_size=20),
    st.sampled_from(["length", "cursor", "simple", "boolean-rule"]),
)
def test_any_request_has_an_answer(
    call: Call,
    analytics_sandbox: SandboxServer,
    endpoint: tuple[str, str],
    website_id: str,
    query: list[tuple[str, str]],
    body: Any,
    preset: str,
) -> None:
    analytics_sandbox.reset()
    analytics_sandbox.configure(preset=preset)
    analytics_sandbox.seed(3)
    encoded = {"params": [(name, text.encode("utf-8", "replace")) for name, text in query], "data": body}
    if isinstance(body, list):
        encoded["data"] = [(name, text.encode("utf-8", "replace")) for name, text in body]
    answer = call(endpoint[0], endpoint[1].replace("/1", f"/{website_id}"), headers={"Content-Type": FORM}, **encoded)
    assert answer.status_code in (200, 201, 404, 422)


# The password (rule 1)


@pytest.mark.parametrize(
    ("stored", "sent", "effect"),
    [(0, {}, None), (2, {}, "new"), (0, {"privacy": "2"}, "new"), (2, {"privacy": "1"}, "old")],
)
def test_a_password_has_an_effect_on_update_when_privacy_is_or_becomes_2(
    call: Call, analytics_sandbox: SandboxServer, stored: int, sent: dict[str, str], effect: str | None
) -> None:
    analytics_sandbox.add_website("a.example", privacy=stored, password="old")
    assert call("PATCH", "/websites/1", data={"password": "new", **sent}).status_code == 200
    assert analytics_sandbox.stored_password(1) == effect


def test_no_answer_shows_a_password(call: Call, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example", privacy=2, password="open-sesame")
    password = {"password": "open-sesame"}
    answers = [
        call("GET", "/websites"),
        call("GET", "/websites/1"),
        call("PATCH", "/websites/1", data=password),
        call("PATCH", "/websites/1", data={**password, "privacy": "7"}),
        call("POST", "/websites", data={"domain": "b.example", "privacy": "2", **password}),
        call("DELETE", "/websites/1"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 422, 201, 200]
    assert not [answer.text for answer in answers if "open-sesame" in answer.text or "password" in answer.text]


# Show, delete, account


def test_delete_removes_the_website_and_its_id_is_not_given_again(call: Call, website: Any) -> None:
    answer = call("DELETE", "/websites/1")
    assert (answer.status_code, answer.json()) == (200, {"id": 1, "object": "website", "deleted": True})
    assert [call(method, "/websites/1").status_code for method in ("GET", "DELETE")] == [404, 404]
    assert call("POST", "/websites", data={"domain": "a.example"}).json()["data"]["id"] == 2


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("website_id", ["2", "0", "-1", "01", "x", "9" * 18, "9" * 30])
def test_an_unknown_id_is_404(call: Call, website: Any, method: str, website_id: str) -> None:
    answer = call(method, f"/websites/{website_id}")
    message = f"No query results for model [App\\Models\\Website] {website_id}"
    assert (answer.status_code, answer.json()) == (404, {"message": message})


# List


def test_the_list_is_newest_first_with_100_per_page(call: Call, analytics_sandbox: SandboxServer) -> None:
    names = ("current_page", "last_page", "from", "to", "total")
    empty = call("GET", "/websites").json()
    assert (empty["data"], [empty["meta"][name] for name in names]) == ([], [1, 1, None, None, 0])
    analytics_sandbox.seed(250)
    pages = [call("GET", "/websites", params={"page": page}) for page in (1, 2, 3, 4)]
    assert [ids(page) for page in pages] == [[*range(250, 150, -1)], [*range(150, 50, -1)], [*range(50, 0, -1)], []]
    assert ids(call("GET", "/websites")) == ids(pages[0])
    assert pages[3].json()["meta"]["from"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"search": "shop"}, [2, 1]),
        ({"search": "SHOP", "search_by": "domain"}, [2, 1]),
        ({"search": "a-shop.example"}, [1]),
        ({"search": "%"}, []),
        ({"search": "_"}, [3]),
        ({"search": "", "search_by": "domain"}, [3, 2, 1]),
        ({"search": "nothing"}, []),
        *(({"favorite": text}, [2]) for text in ("true", "1")),
        *(({"favorite": text}, [3, 1]) for text in ("false", "0")),
        ({"sort": "asc"}, [1, 2, 3]),
        ({"sort_by": "id", "sort": "desc"}, [3, 2, 1]),
        ({"sort_by": "domain"}, [2, 1, 3]),
        ({"sort_by": "domain", "sort": "asc"}, [3, 1, 2]),
    ],
    ids=str,
)
def test_what_a_list_finds_in_which_order(
    call: Call, analytics_sandbox: SandboxServer, query: dict[str, str], found: list[int]
) -> None:
    for domain in ("a-Shop.example", "shop.b.example", "_dmarc.example"):
        analytics_sandbox.add_website(domain, favorite=domain.startswith("shop"))
    answer = call("GET", "/websites", params=query)
    assert (ids(answer), answer.json()["meta"]["total"]) == (found, len(found))


@pytest.mark.parametrize("order", [{}, {"sort": "asc"}, {"sort_by": "domain"}, {"sort_by": "domain", "sort": "asc"}])
def test_pages_of_any_order_together_hold_every_website_once(
    call: Call, analytics_sandbox: SandboxServer, order: dict[str, str]
) -> None:
    analytics_sandbox.seed(60)
    for _ in range(12):
        analytics_sandbox.add_website("same.example")
    pages = [call("GET", "/websites", params={"per_page": 10, "page": page, **order}) for page in range(1, 9)]
    assert sorted(website_id for page in pages for website_id in ids(page)) == list(range(1, 73))


# Authentication (part 5), methods, paths, redirect


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Basic {key}", "{key}", "Bearer {key}x"])
def test_every_operation_needs_the_key(
    call: Call, analytics_sandbox: SandboxServer, website: Any, method: str, path: str, header: str | None
) -> None:
    authorization = header and header.format(key=analytics_sandbox.api_key)
    answer = call(method, path, headers={"Authorization": authorization}, data={})
    assert (answer.status_code, answer.json()) == (401, {"message": "Unauthenticated."})
    assert analytics_sandbox.websites() == [website]
    assert [request.authorized for request in analytics_sandbox.requests] == [False]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in ("", "/", "/websites/", "/account/", "/account/1", "/websites/1/2", "/nothing")),
        *(("DELETE", "/websites"), ("PATCH", "/websites"), ("POST", "/websites/1"), ("POST", "/account")),
    ],
)
def test_another_method_or_path_is_404(call: Call, method: str, path: str) -> None:
    answer = call(method, path)
    message = f"The route {(PREFIX + path).strip('/')} could not be found."
    assert (answer.status_code, answer.json()) == (404, {"message": message})


@pytest.mark.parametrize("accept", ["*/*", "text/html", None])
def test_invalid_data_is_answered_by_a_redirect_when_json_is_not_accepted(
    call: Call, analytics_sandbox: SandboxServer, accept: str | None
) -> None:
    answer = call("POST", "/websites", data={"domain": ""}, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    home = requests.get(f"{analytics_sandbox.url}/", timeout=10)
    assert (home.status_code, home.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
