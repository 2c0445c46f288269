"""The six operations, rule by rule: interface parts 2, 4, 5 and 8, and the sandbox's own assumptions."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from fixture_types import Call
from operations import PREFIX, endpoints

from airflow_provider_analytics.sandbox.server import SandboxServer

FORM = "application/x-www-form-urlencoded"
ENDPOINTS = [(method, path) for _, method, path in endpoints()]


def ids(answer: requests.Response) -> list[int]:
    return [website["id"] for website in answer.json()["data"]]


def domains(answer: requests.Response) -> list[str]:
    return [website["domain"] for website in answer.json()["data"]]


# Create


def test_create_answers_201_with_the_record_and_its_defaults(call: Call, analytics_sandbox: SandboxServer) -> None:
    answer = call("POST", "/websites", data={"domain": "a.example"})

    assert answer.status_code == 201
    record = answer.json()["data"]
    assert record.pop("created_at").endswith("Z")
    assert record == {
        "id": 1,
        "domain": "a.example",
        "privacy": 0,
        "email": 0,
        "exclude_bots": 1,
        "exclude_params": None,
        "exclude_ips": None,
        "favorite": False,
    }
    assert call("GET", "/websites/1").json() == answer.json()
    assert [website["domain"] for website in analytics_sandbox.websites()] == ["a.example"]


def test_create_takes_every_field_of_the_store_table(call: Call, analytics_sandbox: SandboxServer) -> None:
    fields = {
        "domain": "a.example",
        "privacy": "2",
        "password": "open sesame",
        "email": "1",
        "exclude_bots": "0",
        "exclude_params": "utm_source\nref",
        "exclude_ips": "192.0.2.1\r\n2001:db8::1",
    }

    record = call("POST", "/websites", data=fields).json()["data"]

    assert (record["privacy"], record["email"], record["exclude_bots"]) == (2, 1, 0)
    assert record["exclude_params"] == "utm_source\nref"
    assert record["exclude_ips"] == "192.0.2.1\r\n2001:db8::1"
    assert "password" not in record
    assert analytics_sandbox.stored_password(1) == "open sesame"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, "domain"),
        ({"domain": ""}, "domain"),
        ({"domain": "https://a.example"}, "domain"),
        ({"domain": "a.example/path"}, "domain"),
        ({"domain": "a b.example"}, "domain"),
        ({"domain": "a.example", "privacy": "3"}, "privacy"),
        ({"domain": "a.example", "privacy": "01"}, "privacy"),
        ({"domain": "a.example", "privacy": ""}, "privacy"),
        ({"domain": "a.example", "email": "2"}, "email"),
        ({"domain": "a.example", "email": "true"}, "email"),
        ({"domain": "a.example", "exclude_bots": "-1"}, "exclude_bots"),
        ({"domain": "a.example", "favorite": "true"}, "favorite"),
        ({"domain": "a.example", "id": "7"}, "id"),
        ([("domain", "a.example"), ("domain", "b.example")], "domain"),
    ],
)
def test_create_refuses(call: Call, analytics_sandbox: SandboxServer, fields: Any, wrong: str) -> None:
    answer = call("POST", "/websites", data=fields)

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [wrong]
    assert analytics_sandbox.websites() == []


def test_all_wrong_fields_are_reported_at_once(call: Call) -> None:
    answer = call("POST", "/websites", data={"privacy": "9", "email": "x", "colour": "red"})

    assert sorted(answer.json()["errors"]) == ["colour", "domain", "email", "privacy"]


@pytest.mark.parametrize("domain", ["a.example", "localhost", "xn--bcher-kva.example", "bücher.example", "a.example."])
def test_create_accepts_domain_names(call: Call, domain: str) -> None:
    assert call("POST", "/websites", data={"domain": domain}).json()["data"]["domain"] == domain


def test_a_domain_is_taken_once_in_whatever_letter_case(call: Call, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example")

    answer = call("POST", "/websites", data={"domain": "A.Example"})

    assert answer.status_code == 422
    assert answer.json()["errors"] == {"domain": ["The domain has already been taken."]}


def test_duplicates_can_be_allowed(call: Call, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.configure(allow_duplicates=True)

    statuses = [call("POST", "/websites", data={"domain": "a.example"}).status_code for _ in range(2)]

    assert statuses == [201, 201]


@pytest.mark.parametrize(("operation", "method", "path"), endpoints("create", "update"))
@pytest.mark.parametrize("kind", ["json", "multipart", "none"])
def test_a_body_that_is_not_form_encoded_is_refused(
    call: Call, analytics_sandbox: SandboxServer, operation: str, method: str, path: str, kind: str
) -> None:
    analytics_sandbox.add_website("a.example")
    bodies: dict[str, dict[str, Any]] = {
        "json": {"json": {"privacy": 1}},
        "multipart": {"files": {"privacy": (None, "1")}},
        "none": {"data": b"privacy=1"},
    }

    assert call(method, path, **bodies[kind]).status_code == 415


@pytest.mark.parametrize("body", [b"domain", b"domain=%FF", b"domain=a.example&&email=1", "domain=é".encode()])
def test_a_malformed_form_is_refused(call: Call, body: bytes) -> None:
    answer = call("POST", "/websites", data=body, headers={"Content-Type": FORM})

    assert answer.status_code == 422


# Update


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("privacy", "1", 1),
        ("email", "1", 1),
        ("exclude_bots", "0", 0),
        ("exclude_params", "a\nb", "a\nb"),
        ("exclude_ips", "192.0.2.9", "192.0.2.9"),
        ("favorite", "true", True),
        ("favorite", "1", True),
    ],
)
def test_update_changes_what_is_sent_and_nothing_else(
    call: Call, analytics_sandbox: SandboxServer, method: str, field: str, text: str, value: object
) -> None:
    before = analytics_sandbox.add_website("a.example", exclude_params="old", exclude_ips="192.0.2.1")

    answer = call(method, "/websites/1", data={field: text})

    assert answer.status_code == 200
    assert answer.json()["data"] == {**before, field: value}
    assert analytics_sandbox.websites() == [{**before, field: value}]


@pytest.mark.parametrize("text", ["false", "0"])
def test_update_takes_a_favorite_back(call: Call, analytics_sandbox: SandboxServer, text: str) -> None:
    analytics_sandbox.add_website("a.example", favorite=True)

    assert call("PATCH", "/websites/1", data={"favorite": text}).json()["data"]["favorite"] is False


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_update_without_any_field_changes_nothing(call: Call, analytics_sandbox: SandboxServer, method: str) -> None:
    before = analytics_sandbox.add_website("a.example", privacy=1, email=1, exclude_bots=0, favorite=True)

    assert call(method, "/websites/1").json()["data"] == before


@pytest.mark.parametrize("field", ["exclude_params", "exclude_ips"])
def test_an_empty_list_clears(call: Call, analytics_sandbox: SandboxServer, field: str) -> None:
    analytics_sandbox.add_website("a.example", exclude_params="a", exclude_ips="192.0.2.1")

    assert call("PATCH", "/websites/1", data={field: ""}).json()["data"][field] is None


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"domain": "b.example"}, "domain"),
        ({"favorite": "yes"}, "favorite"),
        ({"favorite": "True"}, "favorite"),
        ({"favorite": ""}, "favorite"),
        ({"privacy": "4"}, "privacy"),
        ({"colour": "red"}, "colour"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_update_refuses(
    call: Call, analytics_sandbox: SandboxServer, method: str, fields: dict[str, str], wrong: str
) -> None:
    before = analytics_sandbox.add_website("a.example")

    answer = call(method, "/websites/1", data={**fields, "email": "1"})

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [wrong]
    assert analytics_sandbox.websites() == [before]


# The password (rule 1)


@pytest.mark.parametrize("privacy", [{}, {"privacy": "0"}, {"privacy": "1"}])
def test_a_password_has_no_effect_on_create_without_privacy_2(
    call: Call, analytics_sandbox: SandboxServer, privacy: dict[str, str]
) -> None:
    call("POST", "/websites", data={"domain": "a.example", "password": "x", **privacy})

    assert analytics_sandbox.stored_password(1) is None


@pytest.mark.parametrize(
    ("stored", "sent", "effect"), [(0, None, None), (2, None, "new"), (0, "2", "new"), (2, "1", "old")]
)
def test_a_password_has_an_effect_on_update_when_privacy_is_or_becomes_2(
    call: Call, analytics_sandbox: SandboxServer, stored: int, sent: str | None, effect: str
) -> None:
    analytics_sandbox.add_website("a.example", privacy=stored, password="old")
    fields = {"password": "new"} if sent is None else {"password": "new", "privacy": sent}

    assert call("PATCH", "/websites/1", data=fields).status_code == 200
    assert analytics_sandbox.stored_password(1) == effect


def test_no_answer_shows_a_password(call: Call, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example", privacy=2, password="open-sesame")
    answers = [
        call("GET", "/websites"),
        call("GET", "/websites/1"),
        call("PATCH", "/websites/1", data={"password": "open-sesame"}),
        call("PATCH", "/websites/1", data={"password": "open-sesame", "privacy": "7"}),
        call("POST", "/websites", data={"domain": "b.example", "privacy": "2", "password": "open-sesame"}),
        call("DELETE", "/websites/1"),
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 422, 201, 200]
    assert not [answer.text for answer in answers if "open-sesame" in answer.text or "password" in answer.text]


# Show, delete, account


def test_delete_removes_the_website_and_its_id_is_not_given_again(call: Call, analytics_sandbox: SandboxServer) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)

    answer = call("DELETE", "/websites/2")

    assert (answer.status_code, answer.json()) == (200, {"id": 2, "object": "website", "deleted": True})
    assert call("GET", "/websites/2").status_code == 404
    assert call("DELETE", "/websites/2").status_code == 404
    assert call("POST", "/websites", data={"domain": "b.example"}).json()["data"]["id"] == 3


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("website_id", ["2", "0", "-1", "01", "x", "9" * 18, "9" * 30])
def test_an_unknown_id_is_404(call: Call, analytics_sandbox: SandboxServer, method: str, website_id: str) -> None:
    analytics_sandbox.add_website("a.example")

    answer = call(method, f"/websites/{website_id}")

    assert answer.status_code == 404
    assert answer.json() == {"message": f"No query results for model [App\\Models\\Website] {website_id}"}


def test_the_account_of_the_key(call: Call) -> None:
    answer = call("GET", "/account")

    assert answer.status_code == 200
    assert answer.json() == {"data": {"id": 1, "name": "Sandbox Account", "email": "account@example.com"}}


@pytest.mark.parametrize(("method", "path"), [endpoint for endpoint in ENDPOINTS if endpoint != ("GET", "/websites")])
def test_only_the_list_has_query_parameters(
    call: Call, analytics_sandbox: SandboxServer, method: str, path: str
) -> None:
    analytics_sandbox.add_website("a.example")

    answer = call(method, path, params={"per_page": "10"})

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["per_page"])


# List


def test_the_list_is_newest_first_with_100_per_page(call: Call, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.seed(250)

    first, second, third, fourth = (call("GET", "/websites", params={"page": page}) for page in (1, 2, 3, 4))

    assert ids(call("GET", "/websites")) == ids(first) == list(range(250, 150, -1))
    assert ids(second) == list(range(150, 50, -1))
    assert ids(third) == list(range(50, 0, -1))
    assert ids(fourth) == []
    assert fourth.json()["meta"]["from"] is None


def test_the_list_of_an_empty_account(call: Call) -> None:
    answer = call("GET", "/websites").json()

    assert answer["data"] == []
    meta = answer["meta"]
    assert [meta[name] for name in ("current_page", "last_page", "from", "to", "total")] == [1, 1, None, None, 0]


@pytest.mark.parametrize("per_page", [10, 25, 50, 100])
def test_the_allowed_page_sizes(call: Call, analytics_sandbox: SandboxServer, per_page: int) -> None:
    analytics_sandbox.seed(120)

    answer = call("GET", "/websites", params={"per_page": per_page})

    assert ids(answer) == list(range(120, 120 - per_page, -1))
    assert answer.json()["meta"]["per_page"] == per_page


@pytest.mark.parametrize("search_by", [{}, {"search_by": "domain"}])
@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("shop", ["shop.b.example", "a-Shop.example"]),
        ("SHOP", ["shop.b.example", "a-Shop.example"]),
        ("a-shop.example", ["a-Shop.example"]),
        ("%", []),
        ("_", ["_dmarc.example"]),
        ("", ["_dmarc.example", "shop.b.example", "a-Shop.example"]),
        ("nothing", []),
    ],
)
def test_search_finds_a_part_of_the_domain(
    call: Call, analytics_sandbox: SandboxServer, search: str, found: list[str], search_by: dict[str, str]
) -> None:
    for domain in ("a-Shop.example", "shop.b.example", "_dmarc.example"):
        analytics_sandbox.add_website(domain)

    answer = call("GET", "/websites", params={"search": search, **search_by})

    assert domains(answer) == found
    assert answer.json()["meta"]["total"] == len(found)


@pytest.mark.parametrize(("favorite", "found"), [("true", [2]), ("1", [2]), ("false", [3, 1]), ("0", [3, 1])])
def test_filter_by_favorite(call: Call, analytics_sandbox: SandboxServer, favorite: str, found: list[int]) -> None:
    for number, is_favorite in enumerate((False, True, False)):
        analytics_sandbox.add_website(f"site-{number}.example", favorite=is_favorite)

    assert ids(call("GET", "/websites", params={"favorite": favorite})) == found


@pytest.mark.parametrize(
    ("order", "found"),
    [
        ({}, [3, 2, 1]),
        ({"sort": "asc"}, [1, 2, 3]),
        ({"sort_by": "id", "sort": "desc"}, [3, 2, 1]),
        ({"sort_by": "domain"}, [1, 3, 2]),
        ({"sort_by": "domain", "sort": "asc"}, [2, 3, 1]),
    ],
)
def test_sort(call: Call, analytics_sandbox: SandboxServer, order: dict[str, str], found: list[int]) -> None:
    for domain in ("c.example", "a.example", "B.example"):
        analytics_sandbox.add_website(domain)

    assert ids(call("GET", "/websites", params=order)) == found


@pytest.mark.parametrize("order", [{}, {"sort": "asc"}, {"sort_by": "domain"}, {"sort_by": "domain", "sort": "asc"}])
def test_pages_of_any_order_together_hold_every_website_once(
    call: Call, analytics_sandbox: SandboxServer, order: dict[str, str]
) -> None:
    analytics_sandbox.seed(60)
    for _ in range(12):
        analytics_sandbox.add_website("same.example")

    pages = [call("GET", "/websites", params={"per_page": 10, "page": page, **order}) for page in range(1, 9)]

    assert sorted(website_id for page in pages for website_id in ids(page)) == list(range(1, 73))


@pytest.mark.parametrize(
    "query",
    [
        "per_page=30", "per_page=0", "per_page=010", "per_page=ten", "per_page=", "sort=up", "sort=DESC",
        "sort_by=email", "search_by=id", "favorite=yes", "favorite=True", "favorite=", "colour=red",
        "domain=a.example", "page=1&page=2",
    ],
)  # fmt: skip
def test_the_list_refuses(call: Call, query: str) -> None:
    answer = call("GET", f"/websites?{query}")

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [query.partition("=")[0]]


# Authentication (part 5), methods, paths, redirect


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Basic {key}", "{key}", "Bearer {key}x"])
def test_every_operation_needs_the_key(
    analytics_sandbox: SandboxServer, method: str, path: str, header: str | None
) -> None:
    before = analytics_sandbox.add_website("a.example")
    headers = {"Accept": "application/json"}
    if header is not None:
        headers["Authorization"] = header.format(key=analytics_sandbox.api_key)

    answer = requests.request(
        method, f"{analytics_sandbox.url}{PREFIX}{path}", headers=headers, data={}, allow_redirects=False, timeout=10
    )

    assert answer.status_code == 401
    assert answer.json() == {"message": "Unauthenticated."}
    assert analytics_sandbox.websites() == [before]
    assert [request.authorized for request in analytics_sandbox.requests] == [False]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/websites"),
        ("PATCH", "/websites"),
        ("POST", "/websites/1"),
        ("POST", "/account"),
        ("HEAD", "/account"),
    ],
)
def test_another_method_is_404(call: Call, method: str, path: str) -> None:
    assert call(method, path).status_code == 404


@pytest.mark.parametrize("path", ["", "/", "/websites/", "/account/", "/account/1", "/websites/1/2", "/nothing"])
def test_another_path_is_404(call: Call, path: str) -> None:
    answer = call("GET", path)

    assert answer.status_code == 404
    assert answer.json() == {"message": f"The route {(PREFIX + path).strip('/')} could not be found."}


@pytest.mark.parametrize("accept", ["*/*", "text/html", None])
def test_invalid_data_is_answered_by_a_redirect_when_json_is_not_accepted(
    call: Call, analytics_sandbox: SandboxServer, accept: str | None
) -> None:
    answer = call("POST", "/websites", data={"domain": ""}, headers={"Accept": accept})

    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    home = requests.get(f"{analytics_sandbox.url}/", timeout=10)
    assert (home.status_code, home.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
